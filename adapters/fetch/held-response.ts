/*
 * A response that tells when its body is over.
 *
 * The question: the server is at work, and its connection is in use, until the last byte of the body has come. `fetch` is
 * done at the headers. The naive answer watches the methods (`text`, `json`, …) or wraps the response in a Proxy; it misses
 * whoever reads `body`, and methods that are called on something that is not a real Response throw. The other naive answer,
 * a TransformStream, reads ahead by itself: a body that nobody wants then streams into memory.
 *
 * Here the body is a stream of its own that asks the original one for a piece when it is asked for one itself, and for
 * nothing before. A download of 100 MB that is left after 1 MB costs 1 MB and what the host had buffered. Pieces are handed on
 * and never copied. The response around it is a real one.
 *
 * The surprise is what cannot be seen from here: a body that nobody reads or cancels never ends, and of two clones the
 * one that is cancelled tells nothing while the other one goes on.
 */

/** What happens at the end of a body, however it comes; it may be told more than once. */
type End = () => void;

/** Statuses that say that there is no body; a `Response` cannot be made with one. */
const NO_BODY = [204, 205, 304];

/** Whether a response has a body that can be handed on in a response of its own. */
export function canHold(response: Response, request: { readonly method: string }): boolean {
  const { body, status, type } = response;
  return (
    body !== null &&
    // Browsers have a body for these too; it is empty, so nobody thinks of reading it.
    request.method !== "HEAD" &&
    !NO_BODY.includes(status) &&
    // Some hosts have no such property; some clients bring their own fetch, with bodies that are no web streams.
    typeof body?.getReader === "function" &&
    !body.locked &&
    !response.bodyUsed &&
    type !== "opaque" &&
    type !== "opaqueredirect" &&
    type !== "error" &&
    status >= 200 &&
    status <= 599
  );
}

/** A stream of bytes; a plain one where the host does not know streams of bytes. Nothing is read ahead. */
function byteStream(source: Omit<UnderlyingByteSource, "type">): ReadableStream<Uint8Array<ArrayBuffer>> {
  try {
    return new ReadableStream({ ...source, type: "bytes" }, { highWaterMark: 0 });
  } catch {
    return new ReadableStream(source as UnderlyingDefaultSource, { highWaterMark: 0 });
  }
}

/** The same bytes, asked for only when they are asked for. */
function passThrough(
  body: ReadableStream<Uint8Array>,
  end: End,
  copy: BodyCopy | undefined,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const reader = body.getReader();
  return byteStream({
    async pull(controller: ReadableByteStreamController) {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) {
            copy?.close();
            end();
            controller.close();
            // Whoever waits with a buffer of its own is told only then.
            controller.byobRequest?.respond(0);
            return;
          }
          // A stream of bytes takes no empty pieces.
          if (value.byteLength === 0) continue;
          copy?.add(value);
          controller.enqueue(value as Uint8Array<ArrayBuffer>);
          return;
        }
      } catch (error) {
        copy?.fail(error);
        end();
        // The server need not send what nobody can read.
        reader.cancel(error).catch(() => {});
        throw error;
      }
    },
    async cancel(reason: unknown) {
      try {
        await reader.cancel(reason);
      } finally {
        copy?.fail(reason);
        end();
      }
    },
  });
}

/** Gives a response what only `fetch` can set, and has its clones show it too. */
function dress(
  response: Response,
  { url, redirected, type }: Pick<Response, "url" | "redirected" | "type">,
): Response {
  return Object.defineProperties(response, {
    url: { value: url, configurable: true },
    redirected: { value: redirected, configurable: true },
    type: { value: type, configurable: true },
    clone: {
      value: () => dress(Response.prototype.clone.call(response), { url, redirected, type }),
      configurable: true,
      writable: true,
    },
  });
}

/**
 * A second response, whose body comes as the caller reads the first one. Unlike a clone it reads nothing by itself, and the
 * caller can leave its body: of two clones, the cancellation of one is not over before the other one is at its end.
 */
export class BodyCopy {
  readonly response: Response;
  readonly #stream: ReadableStream<Uint8Array<ArrayBuffer>>;
  #controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;

  constructor(original: Response) {
    const { status, statusText, headers } = original;
    this.#stream = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.#controller = undefined;
      },
    });
    this.response = dress(new Response(this.#stream, { status, statusText, headers }), original);
  }

  /** Whether somebody has begun to read it. */
  get isRead(): boolean {
    return this.#stream.locked || this.response.bodyUsed;
  }

  /** Copies a piece: the piece itself is handed on. */
  add(piece: Uint8Array): void {
    this.#controller?.enqueue(piece.slice() as Uint8Array<ArrayBuffer>);
  }

  close(): void {
    this.#controller?.close();
    this.#controller = undefined;
  }

  /** There is no more to come, and it is not complete. Does nothing when it is. */
  fail(error: unknown): void {
    this.#controller?.error(error);
    this.#controller = undefined;
  }
}

/** The same response, and `end` is called when its body has been read, was cancelled, or failed. */
export function holdResponse(response: Response, end: End, copy?: BodyCopy): Response {
  const { status, statusText, headers } = response;
  const body = passThrough(response.body as ReadableStream<Uint8Array>, end, copy);
  return dress(new Response(body, { status, statusText, headers }), response);
}
