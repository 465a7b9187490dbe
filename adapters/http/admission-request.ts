import { wrongType } from "../../src/internal.js";

/**
 * A request as admission sees it: what every framework can tell without reading a body.
 *
 * @public
 */
export interface AdmissionRequest<Raw = unknown> {
  /** The method, as the client sent it. */
  readonly method: string;
  /** The path without query and fragment; what the client sent where that is no path. Not decoded. */
  readonly path: string;
  /** The pattern of the matched route, where the framework has told it. */
  readonly route: string | undefined;
  /** The address of the connection's other end: the client's, or a proxy's. Undefined where there is none. */
  readonly remoteAddress: string | undefined;
  /** A header, all its lines joined by `", "` in their order; undefined when there is none. */
  header(name: string): string | undefined;
  /** What the framework calls the request. */
  readonly raw: Raw;
}

/** The same, with what only the adapters ask. */
export interface RequestView<Raw = unknown> extends AdmissionRequest<Raw> {
  /** What stands for this request, however often it is looked at. */
  readonly identity: object;
  /** Whether nobody waits for the answer any more. */
  readonly isGone: boolean;
  /** The policies that the route asks for; undefined for all, false for none. */
  readonly policies: false | readonly string[] | undefined;
}

/**
 * The path in a request target, whatever a client may send: `/a?b`, `http://host/a`, `//a`, `*`, or nonsense. The host is
 * never looked at, and nothing is decoded, so nothing can fail.
 */
export function pathOf(target: string): string {
  let start = 0;
  if (!target.startsWith("/")) {
    const scheme = target.indexOf("://");
    if (scheme > 0) {
      start = target.indexOf("/", scheme + 3);
      const query = target.slice(scheme + 3).search(/[?#]/);
      if (start < 0 || (query >= 0 && scheme + 3 + query < start)) return "/";
    }
  }
  let end = target.length;
  for (const mark of ["?", "#"]) {
    const at = target.indexOf(mark, start);
    if (at >= 0 && at < end) end = at;
  }
  return target.slice(start, end);
}

/**
 * What is known of a Web request's connection, which the request itself does not tell.
 *
 * @public
 */
export interface ConnectionInfo {
  /** The address of the connection's other end. */
  readonly remoteAddress?: string | undefined;
  /** Aborted when the client leaves; the request's own signal by default. */
  readonly signal?: AbortSignal | undefined;
  /** The pattern of the matched route. */
  readonly route?: string | undefined;
  /** Names of the policies to apply besides those of scope `global`; false for none at all. All by default. */
  readonly policies?: false | readonly string[] | undefined;
}

/**
 * How one mount of a binding applies an admission.
 *
 * @public
 */
export interface MountOptions {
  /** Names of the policies to apply besides those of scope `global`; false for none at all. All by default. */
  readonly policies?: false | readonly string[] | undefined;
}

/** Checks what a mount or a route says of policies: a name that is wrong would leave the request without a limit. */
export function checkPolicies(
  policies: unknown,
  known: readonly { readonly name: string }[],
  label: string,
): void {
  if (policies === undefined || policies === false) return;
  const names = known.map(({ name }) => name);
  if (Array.isArray(policies) && policies.every((name) => names.includes(name))) return;
  throw wrongType(label, `false, or a list of names of policies (${names.join(", ")})`, policies);
}

/** A `Request` of the Web standard, as it is or as a framework shows it. */
export class WebRequestView<Raw> implements RequestView<Raw> {
  readonly raw: Raw;
  readonly request: Request;
  readonly signal: AbortSignal;
  readonly #connection: ConnectionInfo;

  constructor(raw: Raw, request: Request, connection: ConnectionInfo) {
    this.raw = raw;
    this.request = request;
    this.signal = connection.signal ?? request.signal;
    this.#connection = connection;
  }

  get identity(): object {
    return this.request;
  }

  get isGone(): boolean {
    return this.signal.aborted;
  }

  get method(): string {
    return this.request.method;
  }

  get path(): string {
    return pathOf(this.request.url);
  }

  get route(): string | undefined {
    return this.#connection.route;
  }

  get policies(): false | readonly string[] | undefined {
    return this.#connection.policies;
  }

  get remoteAddress(): string | undefined {
    return this.#connection.remoteAddress;
  }

  header(name: string): string | undefined {
    return this.request.headers.get(name) ?? undefined;
  }
}
