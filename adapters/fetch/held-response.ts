import { wrongType } from "../../src/internal.js";

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
 * The stream is one of bytes only where the original is one. A stream of bytes takes the memory of each piece for itself: fine
 * for pieces that nobody else can have, but a fetch that somebody wrote may hand out two views of one buffer, or of a pool that
 * the whole process uses, and all of those would be empty at once.
 *
 * The surprise is what cannot be seen from here: a body that nobody reads or cancels never ends, and of two clones the
 * one that is cancelled tells nothing while the other one goes on.
 */

/** What happens at the end of a body, however it comes; it may be told more than once. */
type End = () => void;

/** Statuses that say that there is no body; a `Response` cannot be made with one. */
const NO_BODY = [204, 205, 304];

/** Whether a response has a body that can be handed on in a response of its own, and that somebody will read. */
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
    status <= 599 &&
    // Who follows a redirect by hand reads its address only.
    !(status >= 300 && status <= 399) &&
    response.headers.get("content-length") !== "0"
  );
}

/**
 * Whether a stream is one of bytes: its readers may bring buffers of their own, and the memory of its pieces is theirs. The
 * pieces of any other stream may be parts of a buffer that somebody still uses.
 */
function isByteStream(body: ReadableStream): boolean {
  try {
    body.getReader({ mode: "byob" }).releaseLock();
    return true;
  } catch {
    return false;
  }
}

/** The same bytes, asked for only when they are asked for. */
class PassThrough {
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>>;
  readonly #end: End;
  readonly #copy: BodyCopy | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(body: ReadableStream, end: End, copy: BodyCopy | undefined) {
    this.#end = end;
    this.#copy = copy;
    const source = {
      pull: (controller: ReadableStreamController<Uint8Array>) => this.#pull(controller),
      cancel: (reason: unknown) => this.#cancel(reason),
    };
    // A stream of bytes takes the memory of what it is given away from everybody else.
    const sourceOfKind = isByteStream(body) ? { ...source, type: "bytes" as const } : source;
    this.stream = new ReadableStream(sourceOfKind as UnderlyingDefaultSource, { highWaterMark: 0 });
  }

  /** Takes the body over; until then it can still be had by others. */
  read(body: ReadableStream<Uint8Array>): void {
    this.#reader = body.getReader();
  }

  async #pull(controller: ReadableStreamController<Uint8Array>): Promise<void> {
    const reader = this.#reader as ReadableStreamDefaultReader<Uint8Array>;
    try {
      const { done, value } = await reader.read();
      if (done) {
        this.#copy?.close();
        this.#end();
        controller.close();
        // Whoever waits with a buffer of its own is told only then.
        (controller as ReadableByteStreamController).byobRequest?.respond(0);
        return;
      }
      // Its reader would fail without cancelling the rest, and the end would never be seen.
      if (value?.[Symbol.toStringTag] !== "Uint8Array")
        throw wrongType("a piece of the body", "a Uint8Array", value);
      this.#copy?.add(value);
      controller.enqueue(value as Uint8Array<ArrayBuffer>);
    } catch (error) {
      this.#copy?.fail(error);
      this.#end();
      // The server need not send what nobody can read.
      reader.cancel(error).catch(() => {});
      throw error;
    }
  }

  #cancel(reason: unknown): Promise<void> | undefined {
    this.#copy?.fail(reason);
    // The original may take its time to stop, or never say that it has.
    this.#end();
    return this.#reader?.cancel(reason);
  }
}

/** What only `fetch` can set, or can set to more than the constructor takes. */
type Dress = Pick<Response, "url" | "redirected" | "type" | "statusText">;

/** Gives a response what only `fetch` can set, and has its clones show it too. */
function dress(response: Response, { url, redirected, type, statusText }: Dress): Response {
  return Object.defineProperties(response, {
    url: { value: url, configurable: true },
    redirected: { value: redirected, configurable: true },
    type: { value: type, configurable: true },
    // `fetch` hands on whatever a server sends, also what `new Response` refuses.
    statusText: { value: statusText, configurable: true },
    clone: {
      value: () => dress(Response.prototype.clone.call(response), { url, redirected, type, statusText }),
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
    const { status, headers } = original;
    this.#stream = new ReadableStream({
      start: (controller) => {
        this.#controller = controller;
      },
      cancel: () => {
        this.#controller = undefined;
      },
    });
    this.response = dress(new Response(this.#stream, { status, headers }), original);
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
  const { status, headers } = response;
  const body = response.body as ReadableStream<Uint8Array>;
  const passThrough = new PassThrough(body, end, copy);
  const held = dress(new Response(passThrough.stream, { status, headers }), response);
  // Last, so that the original is still free to be cancelled when something before has failed.
  passThrough.read(body);
  return held;
}
