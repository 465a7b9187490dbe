import { checkOptionNames } from "../../src/internal.js";

/**
 * A request on its way out, for the functions among the options of `withRateLimiter`. Looking at it never touches the body.
 *
 * @public
 */
export interface OutgoingRequest {
  /**
   * Where it goes. In browsers and workers relative addresses are completed.
   *
   * @throws TypeError when the address is not a proper one.
   */
  readonly url: URL;
  /** In upper case. */
  readonly method: string;
  /** A copy of the headers; changing it changes nothing. */
  readonly headers: Headers;
  /** The signal that counts: that of `init`, else that of a `Request`. */
  readonly signal: AbortSignal | undefined;
  /** The first argument of the call. */
  readonly input: string | URL | Request;
  /** The second argument of the call, without `headgate`. */
  readonly init: RequestInit | undefined;
}

/**
 * What one call may say about its own limits. It comes before what the options of `withRateLimiter` say.
 *
 * @public
 */
export interface RequestLimits<Resource = unknown> {
  /** How many permits the call needs: an integer of at least 0. */
  readonly permits?: number | undefined;
  /** Which calls go first, higher before lower; for limiters that order their queue by it. */
  readonly priority?: number | undefined;
  /** When the call has to have started at the latest, in milliseconds by the clock of the wrapper (`performance.now()`). */
  readonly deadline?: number | undefined;
  /** The resource that is handed to a partitioned limiter. */
  readonly partition?: Resource | undefined;
  /** Until when the lease is held. */
  readonly hold?: "headers" | "body" | undefined;
  /** Whether the call goes past the limiter. */
  readonly skip?: boolean | undefined;
}

/**
 * The second argument of a wrapped `fetch`: what `fetch` takes, and the limits of this one call.
 *
 * @public
 */
export interface LimitedRequestInit<Resource = unknown> extends RequestInit {
  /** The limits of this call. It is not handed on. */
  readonly headgate?: RequestLimits<Resource> | undefined;
}

const LIMIT_NAMES = ["permits", "priority", "deadline", "partition", "hold", "skip"];

function isRequest(input: string | URL | Request): input is Request {
  return typeof input === "object" && !(input instanceof URL) && typeof input.url === "string";
}

/** Works everything out only when it is asked for: most calls need none of it. */
export class CallView<Resource> implements OutgoingRequest {
  readonly input: string | URL | Request;
  readonly init: RequestInit | undefined;
  readonly limits: RequestLimits<Resource> | undefined;
  /** When the call has to have started at the latest, once that is known. */
  deadline: number | undefined = undefined;

  constructor(input: string | URL | Request, init: LimitedRequestInit<Resource> | undefined) {
    this.input = input;
    if (init?.headgate === undefined) {
      this.init = init;
      this.limits = undefined;
      return;
    }
    const { headgate, ...rest } = init;
    checkOptionNames(headgate, LIMIT_NAMES, "init.headgate");
    this.init = rest;
    this.limits = headgate;
  }

  get url(): URL {
    const { input } = this;
    // Only documents and workers have a place that relative addresses start from.
    const base = (globalThis as { location?: { href?: string } }).location?.href;
    return new URL(isRequest(input) ? input.url : String(input), base);
  }

  /**
   * Whether the call has failed since there was nothing to send: an address that is none, or an `init` that does not fit. What
   * connections fail with is of the same kind, but then a request can be made.
   */
  hasBeenUnsendable(error: unknown): boolean {
    const { init, method } = this;
    try {
      const { url } = this;
      if (!(error instanceof TypeError)) return false;
      const { body, ...rest } = init ?? {};
      // The body itself may have been used. Whether there may be one shows with any.
      void new Request(url, { method, ...rest, body: body === undefined || body === null ? null : "" });
      return false;
    } catch {
      return true;
    }
  }

  /** What calls to the same server have in common. Addresses without a server, and those that are none, share `null`. */
  get origin(): string {
    try {
      return this.url.origin;
    } catch {
      return "null";
    }
  }

  get method(): string {
    const { input, init } = this;
    return (init?.method ?? (isRequest(input) ? input.method : "GET")).toUpperCase();
  }

  get headers(): Headers {
    const { input, init } = this;
    return new Headers(init?.headers ?? (isRequest(input) ? input.headers : undefined));
  }

  get signal(): AbortSignal | undefined {
    const { input, init } = this;
    const signal = init?.signal;
    // `null` says that there is none, even when the Request has one.
    if (signal !== undefined) return signal ?? undefined;
    return isRequest(input) ? (input.signal ?? undefined) : undefined;
  }
}
