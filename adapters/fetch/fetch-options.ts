import type { Clock } from "headgate";
import type { OutgoingRequest } from "./outgoing-request.js";
import type { FetchRejection } from "./rejection.js";
import type { ServerHint, ServerHintOptions } from "./server-hints.js";

/**
 * Anything that is called as `fetch` is.
 *
 * @public
 */
export type FetchLike = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/**
 * Options of `withRateLimiter`.
 *
 * @public
 */
export interface FetchLimiterOptions {
  /** How many permits a call needs: an integer of at least 0, or a function that says so; 1 by default. */
  readonly permits?: number | ((request: OutgoingRequest) => number) | undefined;
  /**
   * What a call cost after all, for costs that only the answer tells, such as the tokens of a language model. It is called at
   * the headers, and may return a promise; the lease is held until that is settled. The response it gets is a copy, whose body
   * comes as the caller reads the real one: read it, and begin before you await anything else. When it returns no integer
   * of at least 0, or its promise is rejected, as when the caller leaves the body, what was acquired stays charged. What
   * it throws is the caller's error. The body of an answer that is no success is there only with `hold: "body"`, since
   * callers often leave it alone.
   */
  readonly actualPermits?:
    | ((response: Response, request: OutgoingRequest) => number | undefined | PromiseLike<number | undefined>)
    | undefined;
  /**
   * The most that `actualPermits` may charge, in permits; 1 000 000 by default. A larger number counts as this one: what a server
   * says must not put a debt on the limiter that nobody lives to see paid. Set it to what the largest call can cost.
   */
  readonly maxActualPermits?: number | undefined;
  /**
   * Until when the lease is held: `body` until the body has been read, was cancelled or failed; `headers` until the headers are
   * there, which is enough for limiters that count starts (windows, buckets). By default it is `body` for successes (a status
   * of 200 to 299) and `headers` for all others: clients that throw or try again leave the body of an error alone, and
   * it would hold its lease for ever. A function is asked at the headers; what it throws is the caller's error.
   */
  readonly hold?:
    | "headers"
    | "body"
    | ((response: Response, request: OutgoingRequest) => "headers" | "body")
    | undefined;
  /**
   * The longest time that a body, or a cost that is not known yet, may hold a lease, in milliseconds; unbounded by default. The body goes on then. A body that
   * nobody reads or cancels holds its lease for ever otherwise.
   */
  readonly maxHoldMs?: number | undefined;
  /** How long a call may wait for its turn, in milliseconds; unbounded by default. 0: now or not at all. */
  readonly maxWaitMs?: number | undefined;
  /**
   * When a call has to have started at the latest, in milliseconds by `clock` (`performance.now()` by default); undefined for no
   * deadline. A call whose deadline has passed is refused without asking the limiter.
   */
  readonly deadline?: ((request: OutgoingRequest) => number | undefined) | undefined;
  /** Which calls go first, higher before lower: a safe integer; for limiters that order their queue by it. 0 by default. */
  readonly priority?: ((request: OutgoingRequest) => number) | undefined;
  /** Aborting it ends the wait of all calls, and makes later ones fail. Calls that have started are left alone. */
  readonly signal?: AbortSignal | undefined;
  /**
   * What a call that the limiter refused gets. By default it rejects with a `RateLimitRejectedError`. `forSdk()` answers in the
   * server's place. What the function throws is the caller's error.
   */
  readonly onRejected?:
    | ((rejection: FetchRejection, request: OutgoingRequest) => Response | PromiseLike<Response>)
    | undefined;
  /**
   * How the server's hints (`Retry-After`, `RateLimit`) pause the limiter, for everybody who shares it; `false` to take none.
   * The limiter then needs a `pause` method, as all of this library have.
   */
  readonly serverHints?: false | ServerHintOptions | undefined;
  /** Told of each hint, before the caller gets the response. What it throws is the caller's error. */
  readonly onServerHint?: ((hint: ServerHint, request: OutgoingRequest) => void) | undefined;
  /** Lets every call through at once, and counts those that the limiter would have held up; see `shadowed`. */
  readonly shadow?: boolean | undefined;
  /** Whether disposing the wrapper disposes the limiter too; false by default. */
  readonly ownsLimiter?: boolean | undefined;
  /** Measures deadlines and holds; the limiter's own by default, and `systemClock` when that is not known. */
  readonly clock?: Clock | undefined;
}

/**
 * Options of `withRateLimiter` with a partitioned limiter.
 *
 * @public
 */
export interface PartitionedFetchLimiterOptions<Resource> extends FetchLimiterOptions {
  /**
   * The resource of a call, which the partitioned limiter is asked for; undefined for a call that is not limited. What it
   * throws is the caller's error. Without it, the resource is the origin of the address, such as `https://vendor.example`.
   */
  readonly partition: (request: OutgoingRequest) => Resource | undefined;
}

/**
 * What a wrapped `fetch` has done, and is doing.
 *
 * @public
 */
export interface FetchStatistics {
  /** Calls that wait for their turn. */
  readonly waiting: number;
  /** Calls that have started, and hold their lease: until the headers, or the end of the body. */
  readonly active: number;
  /** Those of them that have their headers, and hold their lease for the body, or until their cost is known. */
  readonly heldBodies: number;
  /** How long the oldest of the bodies has held it, in milliseconds; undefined when there is none. */
  readonly oldestHeldBodyMs: number | undefined;
  /** Calls that have been let through. */
  readonly totalStarted: number;
  /** Calls that have been refused. */
  readonly totalRejected: number;
  /** Calls whose signal was aborted before they started. */
  readonly totalAborted: number;
  /** Hints of servers that paused a limiter. */
  readonly totalPauses: number;
  /** Bodies that lost their lease to `maxHoldMs`. */
  readonly totalExpiredHolds: number;
  /** With `shadow`: calls that would have been refused. */
  readonly wouldHaveRefused: number;
  /** With `shadow`: calls that would have waited. */
  readonly wouldHaveWaited: number;
}
