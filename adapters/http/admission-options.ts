/// <reference lib="esnext.disposable" preserve="true" />
import type { Clock, LeaseOutcome, RejectionReason } from "headgate";
import type { AdmissionRequest, ConnectionInfo } from "./admission-request.js";
import type { ClientIdentityOptions } from "./client-identity.js";
import type { AdmissionLease } from "./passage.js";
import type { Policy } from "./policy.js";
import type { PressureOptions } from "./pressure.js";
import type { Rejection, RejectOptions } from "./rejection.js";

/**
 * Options of {@link createAdmission}.
 *
 * @public
 */
export interface AdmissionOptions<Raw = unknown> {
  /**
   * The limits, in the order in which they are asked; all have to agree. Put narrow ones first (client, then route, then
   * global): a request that waits for its client's limit then holds nothing that others need.
   */
  readonly policies: readonly Policy<Raw>[];
  /** How clients are told apart, for policies with the scope `client`. */
  readonly client?: ClientIdentityOptions<Raw> | undefined;
  /** The names of the priorities, the most important first; `critical`, `high`, `normal`, `low` by default. */
  readonly priorities?: readonly string[] | undefined;
  /**
   * The priority of a request, by name. Undefined and unknown names are `normal`, or the last one when there is no `normal`. Who
   * waits goes by it where the limiter's `queueProcessingOrder` is `highestPriorityFirst`; see also `priorityShares`.
   */
  readonly priority?: ((request: AdmissionRequest<Raw>) => string | undefined) | undefined;
  /**
   * How many milliseconds the caller has left; undefined, and numbers that are not finite, mean that it has not said. The
   * request is refused when that is too little, and never waits longer. See `deadlineFromHeader`.
   */
  readonly deadline?: ((request: AdmissionRequest<Raw>) => number | undefined) | undefined;
  /** How many milliseconds must be left for the handler to be worth starting: more than this; 0 by default. */
  readonly minRemainingMs?: number | undefined;
  /**
   * When the permits go back: when the response has ended, one way or another (`response`, the default), or when the handler
   * has settled too (`handler`), which goes on after a client has left. Express does not show when a handler is done, nor
   * does a listener of node:http that returns no promise; there, `leaseOf(request)?.holdUntil(promise)` says it.
   */
  readonly hold?: "response" | "handler" | undefined;
  /** The longest that permits are held, in milliseconds; the response then goes on without. Unbounded by default. */
  readonly maxHoldMs?: number | undefined;
  /** Refuses while the process itself is overloaded, before any policy; off by default. */
  readonly pressure?: PressureOptions | undefined;
  /** What refusals look like. */
  readonly reject?: RejectOptions | undefined;
  /** Which fields tell clients of the limits that are advertised: `ratelimit` by default. */
  readonly headers?: "ratelimit" | "x-ratelimit" | "both" | "none" | undefined;
  /** Whether pages of other origins may read those fields and `Retry-After`; false by default. */
  readonly exposeHeaders?: boolean | undefined;
  /** Whether CORS preflights are let through without asking anybody; false by default. */
  readonly skipPreflight?: boolean | undefined;
  /** Called for each refusal, before the response is written. What it throws changes nothing. */
  readonly onReject?: ((rejection: Rejection) => void) | undefined;
  /**
   * What becomes of a request when a limiter, or a function that names its key, fails. `closed`, the default: 503 for a
   * limiter, the framework's error path for a function. `open`: it goes on without that policy.
   */
  readonly onError?: "open" | "closed" | undefined;
  /** Told of everything that happens. What it throws changes nothing. */
  readonly observe?: ((event: AdmissionEvent<Raw>) => void) | undefined;
  /** Where the time comes from; `systemClock` by default. Limiters bring their own. */
  readonly clock?: Clock | undefined;
  /** Gives numbers from 0 to below 1, to spread `Retry-After`; `Math.random` by default. */
  readonly random?: (() => number) | undefined;
}

/**
 * Something that happened to a request.
 *
 * @public
 */
export type AdmissionEvent<Raw = unknown> =
  | { readonly type: "admitted"; readonly request: AdmissionRequest<Raw>; readonly waitedMs: number }
  | { readonly type: "shed"; readonly rejection: Rejection }
  | { readonly type: "ended"; readonly request: AdmissionRequest<Raw>; readonly outcome: LeaseOutcome }
  | { readonly type: "client_gone" | "hold_expired"; readonly request: AdmissionRequest<Raw> }
  | { readonly type: "error"; readonly error: unknown; readonly request: AdmissionRequest<Raw> | undefined };

/**
 * What has happened so far. A shed request is no failed one: it is in `shed` only.
 *
 * @public
 */
export interface AdmissionStatistics {
  /** Requests that hold permits now. */
  readonly active: number;
  /** Requests that wait now, for permits or for the answer of a function. */
  readonly queued: number;
  /** Requests that were let through. Each of them is in one of the next three in the end. */
  readonly admitted: number;
  /** Those that were answered. */
  readonly completed: number;
  /** Those whose handler failed, or answered with a status of 500 or more. */
  readonly failed: number;
  /** Those whose client left before the response had ended. */
  readonly aborted: number;
  /** Requests that were refused. */
  readonly shed: number;
  /** The same, by the policy that refused, the reason and the priority. */
  readonly shedBy: readonly {
    readonly policy: string | undefined;
    readonly reason: RejectionReason;
    readonly priority: string | undefined;
    readonly count: number;
  }[];
  /** Those of them whose caller had too little time left. */
  readonly deadlineExpired: number;
  /** Requests with a deadline that were answered before it. */
  readonly deliveredInTime: number;
  /** Requests whose client left before they were let through or refused. */
  readonly clientGone: number;
  /** Requests that held permits for longer than `maxHoldMs`. */
  readonly holdExpired: number;
  /** How often a limiter failed. */
  readonly limiterErrors: number;
  /** What policies in shadow would have done. */
  readonly shadows: readonly {
    readonly policy: string;
    readonly wouldHaveShed: number;
    readonly wouldHaveWaited: number;
  }[];
}

/**
 * What `admit` decides: go ahead, answer with this response, or do nothing because the client has left.
 *
 * @public
 */
export type AdmitResult =
  | {
      readonly admitted: true;
      /** To be released when the response has ended. */
      readonly lease: AdmissionLease;
      /** Fields that tell the client of its limits, to be added to the response. */
      readonly headers: Headers;
    }
  | {
      readonly admitted: false;
      readonly gone: false;
      readonly rejection: Rejection;
      readonly response: Response;
    }
  | { readonly admitted: false; readonly gone: true };

/**
 * Lets requests in, makes them wait, or refuses them; see {@link createAdmission}.
 *
 * @public
 */
export interface Admission<Raw = unknown> extends Disposable, AsyncDisposable {
  /** Exists for type inference only; never has a value. */
  readonly requestType?: ((raw: Raw) => void) | undefined;
  /**
   * Decides about a Web-standard request, waiting if it has to. For servers that no binding and no `wrap` fits.
   *
   * @returns Rejects with what a function of the options throws.
   */
  admit(this: Admission<Request>, request: Request, connection?: ConnectionInfo): Promise<AdmitResult>;
  /**
   * Stands before a handler of Web-standard requests. The permits go back when the response's body has been sent, cancelled or has
   * failed, or when the client has left.
   *
   * @param connection - What is known of a request's connection, from the handler's arguments.
   */
  wrap<Rest extends unknown[]>(
    this: Admission<Request>,
    handler: (request: Request, ...rest: Rest) => Response | Promise<Response>,
    connection?: (request: Request, ...rest: Rest) => ConnectionInfo,
  ): (request: Request, ...rest: Rest) => Promise<Response>;
  /** What a request holds; undefined when it has not been admitted. For node:http's `req`, or the Web's `Request`. */
  leaseOf(request: object): AdmissionLease | undefined;
  /** What has happened so far. */
  getStatistics(): AdmissionStatistics;
  /**
   * For a graceful stop.
   *
   * @param options - `reject`: whether new requests are refused from now on, with `draining`; false by default.
   * @returns Settles when nobody holds or waits for anything.
   */
  drain(options?: { readonly reject?: boolean | undefined }): Promise<void>;
  /** Refuses all from now on, and disposes the limiters that the admission has made; who waits for those is refused. */
  dispose(): void;
}
