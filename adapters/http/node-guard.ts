import { gateOf } from "./admission.js";
import type { Admission } from "./admission-options.js";
import { pathOf, type RequestView } from "./admission-request.js";
import type { Passage } from "./passage.js";
import { outcomeOfStatus, type Refusal } from "./rejection.js";

type Listener = () => void;

/** What is asked of a Node-style socket. */
interface Socket {
  readonly remoteAddress?: string | undefined;
  readonly destroyed?: boolean;
  on(event: "close", listener: Listener): unknown;
}

/** What is asked of a Node-style request, of HTTP/1 or HTTP/2. */
export interface NodeRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly socket: object;
}

/** What is asked of a Node-style response. */
export interface NodeResponse {
  statusCode: number;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  readonly writableFinished: boolean;
  readonly destroyed: boolean;
  /** What the server's own side has destroyed it with. */
  readonly errored?: unknown;
  readonly socket: object | null;
  on(event: "close" | "finish", listener: Listener): unknown;
}

/** What a response can do, too; not in `NodeResponse`, whose methods then would have to be of the very same types. */
interface WritableResponse extends NodeResponse {
  writeHead(status: number, first?: unknown, second?: unknown): unknown;
  getHeader(name: string): number | string | readonly string[] | undefined;
  getHeaderNames(): readonly string[];
  appendHeader(name: string, value: string): unknown;
  setHeader(name: string, value: string): unknown;
  end(body?: string | Uint8Array): unknown;
}

/** A request of node:http, as it is or as a framework shows it; bindings of frameworks add what those know. */
export class NodeRequestView<Raw> implements RequestView<Raw> {
  readonly raw: Raw;
  readonly request: NodeRequest;
  readonly response: NodeResponse;
  readonly policies: false | readonly string[] | undefined;

  constructor(
    raw: Raw,
    request: NodeRequest,
    response: NodeResponse,
    policies?: false | readonly string[] | undefined,
  ) {
    this.raw = raw;
    this.request = request;
    this.response = response;
    this.policies = policies;
  }

  get route(): string | undefined {
    return undefined;
  }

  /** The request target; frameworks change `url` while they route. */
  protected get target(): string {
    return this.request.url ?? "";
  }

  get identity(): object {
    return this.request;
  }

  get isGone(): boolean {
    const { response, request } = this;
    return response.destroyed || response.writableEnded || (request.socket as Socket).destroyed === true;
  }

  get method(): string {
    return this.request.method ?? "GET";
  }

  get path(): string {
    return pathOf(this.target);
  }

  get remoteAddress(): string | undefined {
    return (this.request.socket as Socket).remoteAddress;
  }

  header(name: string): string | undefined {
    const value = this.request.headers[name.toLowerCase()];
    return typeof value === "object" ? value.join(", ") : value;
  }
}

/** What goes on with a request; undefined when it holds nothing. */
export type Admitted = Pick<Passage<never>, "noteWork"> | undefined;

/** What a binding does with the decision. */
export interface Steps {
  admitted(passage: Admitted): void;
  /** A function of the user has thrown. */
  failed(error: unknown): void;
  /** In place of writing the refusal to the response. */
  refused?(refusal: Refusal): void;
  /** The client has left. */
  gone?(): void;
}

/**
 * Lets a request in, and sees to it that what it holds goes back when its response is over.
 *
 * The response tells: `finish` when all of it has been handed over, `close` when nothing more will be. The request's own
 * `close` only says that it has been read. A pipelined request's response has no socket until those before it are done, and
 * hears nothing when the client leaves; there the socket is asked.
 */
export function guard<Raw>(admission: Admission<Raw>, view: NodeRequestView<Raw>, steps: Steps): void {
  const passage = gateOf(admission).begin(view);
  if (!passage.isPending) {
    if (passage.progress === "held") follow(passage, view);
    conclude(passage, view, steps);
    return;
  }
  follow(passage, view);
  // The grant comes in the middle of somebody else's work, which the handler is no part of.
  passage.whenSettled(() => queueMicrotask(() => conclude(passage, view, steps)));
}

function conclude<Raw>(passage: Passage<Raw>, view: NodeRequestView<Raw>, steps: Steps): void {
  switch (passage.progress) {
    case "exempt":
      steps.admitted(undefined);
      break;
    case "held":
      if (passage.hasFields) addFields(view.response as WritableResponse, passage);
      steps.admitted(passage);
      break;
    case "refused": {
      const refusal = passage.refusal as Refusal;
      if (steps.refused !== undefined) steps.refused(refusal);
      else writeRefusal(view.response, refusal).catch((error) => steps.failed(error));
      break;
    }
    case "failed":
      steps.failed(passage.error);
      break;
    default:
      steps.gone?.();
  }
}

/** The decision as a promise, for frameworks whose middleware is asynchronous. */
export function decision<Raw>(
  admission: Admission<Raw>,
  view: NodeRequestView<Raw>,
): Promise<{ readonly passage: Admitted } | { readonly refusal: Refusal } | "gone"> {
  return new Promise((resolve, reject) => {
    guard(admission, view, {
      admitted: (passage) => resolve({ passage }),
      failed: reject,
      refused: (refusal) => resolve({ refusal }),
      gone: () => resolve("gone"),
    });
  });
}

/** Who is to hear that a connection has closed: one listener does for all requests that are pipelined on it. */
const closing = new WeakMap<object, Set<Listener>>();

/** Ends the passage when the response is over. */
function follow<Raw>(passage: Passage<Raw>, view: NodeRequestView<Raw>): void {
  const { request, response } = view;
  // HTTP/2 says `finish` of a stream that the client has reset, too; the handler has not ended that.
  const finish = () => {
    // Somebody else, such as a time-out, may have answered a request that still waits.
    if (response.writableEnded && !passage.isPending)
      passage.release(outcomeOfStatus(view, response.statusCode));
    else passage.leave();
  };
  const close = () => {
    if (response.writableFinished) finish();
    else if (response.errored != null && !passage.isPending) passage.release("failure");
    else passage.leave();
  };
  if (response.socket !== null) {
    response.on("finish", finish);
    response.on("close", close);
    return;
  }
  const socket = request.socket as Socket;
  let listeners = closing.get(socket);
  if (listeners === undefined) {
    const all = new Set<Listener>();
    listeners = all;
    closing.set(socket, all);
    socket.on("close", () => {
      for (const listener of all) listener();
    });
  }
  listeners.add(close);
  response.on("finish", () => {
    closing.get(socket)?.delete(close);
    finish();
  });
}

/** Adds the fields that tell of the limits when the head is written, to whatever it then says. */
function addFields<Raw>(response: WritableResponse, passage: Passage<Raw>): void {
  const { writeHead } = response;
  response.writeHead = (status, first, second) => {
    response.writeHead = writeHead;
    const hasMessage = typeof first === "string";
    const last = hasMessage ? second : (first ?? second);
    if (Array.isArray(last)) {
      const list = addToList(response, last, passage, status);
      return hasMessage
        ? writeHead.call(response, status, first, list)
        : writeHead.call(response, status, list);
    }
    // What is given here replaces what was set before, so it is put together.
    const given: Record<string, unknown> = { ...(last as object | undefined) };
    const keys = last == null ? [] : Object.keys(given);
    const keyOf = (name: string) =>
      keys.find((key) => key.length === name.length && key.toLowerCase() === name) ?? name;
    const existing = (name: string) => text(given[keyOf(name)] ?? response.getHeader(name));
    for (const [name, value] of passage.fieldsFor(status, existing)) {
      const there = existing(name);
      given[keyOf(name)] = there === undefined ? value : `${there}, ${value}`;
    }
    return hasMessage
      ? writeHead.call(response, status, first, given)
      : writeHead.call(response, status, given);
  };
}

/**
 * Adds the fields where the head is a list: of names and values, one after another, or of pairs of them. It is sent as it is while
 * no header is set, cookies and all; so nothing must be set then.
 */
function addToList<Raw>(
  response: WritableResponse,
  list: readonly unknown[],
  passage: Passage<Raw>,
  status: number,
): readonly unknown[] {
  const isSet = response.getHeaderNames().length > 0;
  const hasPairs = Array.isArray(list[0]);
  const flat: readonly unknown[] = hasPairs ? list.flat() : list;
  const existing = (name: string) => {
    const given = flat.filter((_, i) => i % 2 === 1 && String(flat[i - 1]).toLowerCase() === name);
    return given.length > 0 ? given.map(text).join(", ") : text(response.getHeader(name));
  };
  const added = passage.fieldsFor(status, existing);
  if (!isSet) return [...list, ...(hasPairs ? added : added.flat())];
  for (const [name, value] of added) response.appendHeader(name, value);
  return list;
}

function text(value: unknown): string | undefined {
  return value === undefined ? undefined : Array.isArray(value) ? value.join(", ") : String(value);
}

/** Writes a refusal, unless the response has begun already. */
export async function writeRefusal(target: NodeResponse, refusal: Refusal): Promise<void> {
  const response = target as WritableResponse;
  if (refusal.custom === undefined) {
    if (!response.headersSent && !response.writableEnded) write(response, refusal, refusal.body);
    return;
  }
  const made = await refusal.custom();
  const body = made.body === null ? undefined : new Uint8Array(await made.arrayBuffer());
  if (response.headersSent || response.writableEnded || response.destroyed) return;
  write(response, { status: made.status, fields: [...made.headers] }, body);
}

function write(
  response: WritableResponse,
  { status, fields }: Pick<Refusal, "status" | "fields">,
  body: string | Uint8Array | undefined,
): void {
  const head: Record<string, string | string[]> = {};
  for (const [name, value] of fields) {
    if (name === "set-cookie") {
      // The only field that cannot be one line.
      head[name] = [...(head[name] ?? []), value];
      continue;
    }
    // What CORS has said before counts too.
    const there = name.startsWith("access-control-") ? text(response.getHeader(name)) : undefined;
    head[name] = there === undefined ? value : `${there}, ${value}`;
  }
  response.writeHead(status, head);
  response.end(body);
}
