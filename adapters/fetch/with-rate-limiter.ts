/// <reference lib="esnext.disposable" preserve="true" />
import { PartitionedRateLimiter, RateLimiter } from "headgate";
import { wrongType } from "../../src/internal.js";
import type {
  FetchLike,
  FetchLimiterOptions,
  FetchStatistics,
  PartitionedFetchLimiterOptions,
} from "./fetch-options.js";
import { LimitedFetch } from "./limited-fetch.js";
import type { LimitedRequestInit } from "./outgoing-request.js";

/**
 * A `fetch` with a limiter before it; see `withRateLimiter`.
 *
 * @public
 */
export interface RateLimitedFetch<Resource = unknown> extends Disposable, AsyncDisposable {
  /** The same as `fetch`. The second argument may have `headgate`, the limits of this one call. */
  (input: string | URL | Request, init?: LimitedRequestInit<Resource>): Promise<Response>;
  /** A snapshot. */
  getStatistics(): FetchStatistics;
  /** Resolves as soon as no call waits, and no lease is held. It stops nobody from making new calls. */
  drain(): Promise<void>;
  /**
   * Refuses the calls that wait, and later ones, with `limiter_disposed`, and gives the leases of all bodies back; the bodies
   * themselves go on, and so do calls that have no headers yet, with their lease. Calls that are not limited (`skip`, no
   * partition) still go out. Disposes the limiter if it owns it.
   */
  dispose(): void;
  /** The same, and waits for the limiter if it owns it. */
  disposeAsync(): Promise<void>;
}

/**
 * What a host's own `fetch` has besides, and the wrapped one has too: `preconnect` in Bun.
 *
 * @public
 */
export type FetchExtras<Fetch> = Fetch extends { readonly preconnect: infer Preconnect }
  ? { readonly preconnect: Preconnect }
  : unknown;

/**
 * Puts a limiter before `fetch`: what it returns is called as `fetch` is, by your own code or by an SDK that takes a `fetch`.
 *
 * Each call acquires a lease first, and waits for it if the limiter has a queue; the request goes out once it is granted.
 * The lease is held until the body has been read, cancelled or has failed; that of an answer that is no success, until the
 * headers are there. The outcome is reported to it, so adaptive limiters learn. `Retry-After` and `RateLimit` headers pause the limiter, so that everybody who shares it waits, not just the
 * call that was told. A partitioned limiter has a limit, and pauses, for each origin, or for whatever `partition` says.
 *
 * Aborting a call's signal takes it out of the queue, and the call rejects with the signal's reason. A call that is refused
 * rejects with a `RateLimitRejectedError`; SDKs would try that again, so give them `onRejected: forSdk()`. Nothing is ever
 * retried in here, and a request that has not started has not been touched: it can be made again.
 *
 * **Read or cancel the body of every success.** One that is left alone holds its lease; see `maxHoldMs`, and `heldBodies` of the statistics.
 * Responses with a body are handed on in a new `Response`; those without one, and all with `hold: "headers"`, as they are.
 *
 * @example
 * ```ts
 * import { TokenBucketRateLimiter } from "headgate";
 * import { forSdk, withRateLimiter } from "headgate/fetch";
 *
 * const limiter = new TokenBucketRateLimiter({
 *   tokenLimit: 10,
 *   tokensPerPeriod: 10,
 *   replenishmentPeriodMs: 1000,
 *   refill: "continuous",
 *   queueLimit: 1000,
 * });
 * const limitedFetch = withRateLimiter(fetch, limiter, { hold: "headers", onRejected: forSdk() });
 * const response = await limitedFetch("https://vendor.example/items");
 * ```
 *
 * @param fetch - What makes the calls; it is called once for each call that is let through, without a `this`.
 * @param limiter - The limiter to ask. It stays yours, unless `ownsLimiter` says otherwise.
 * @param options - What calls cost, how they wait, and what becomes of refusals and hints.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function withRateLimiter<Fetch extends FetchLike>(
  fetch: Fetch,
  limiter: RateLimiter,
  options?: FetchLimiterOptions,
): RateLimitedFetch<never> & FetchExtras<Fetch>;
/**
 * The same with a limit for each origin.
 *
 * @public
 */
export function withRateLimiter<Fetch extends FetchLike>(
  fetch: Fetch,
  limiter: PartitionedRateLimiter<string>,
  options?: FetchLimiterOptions & { readonly partition?: undefined },
): RateLimitedFetch<string> & FetchExtras<Fetch>;
/**
 * The same with a limit for each tenant, or whatever `partition` says.
 *
 * @public
 */
export function withRateLimiter<Resource, Fetch extends FetchLike = FetchLike>(
  fetch: Fetch,
  limiter: PartitionedRateLimiter<Resource>,
  options: PartitionedFetchLimiterOptions<Resource>,
): RateLimitedFetch<Resource> & FetchExtras<Fetch>;
export function withRateLimiter<Resource>(
  fetch: FetchLike,
  limiter: RateLimiter | PartitionedRateLimiter<Resource>,
  options: FetchLimiterOptions | PartitionedFetchLimiterOptions<Resource> = {},
): RateLimitedFetch<Resource> {
  if (typeof fetch !== "function") throw wrongType("fetch", "a function", fetch);
  if (!(limiter instanceof RateLimiter) && !(limiter instanceof PartitionedRateLimiter)) {
    throw wrongType("limiter", "a RateLimiter or a PartitionedRateLimiter", limiter);
  }
  const limited = new LimitedFetch<Resource>(fetch, limiter, options);
  const dispose = () => limited.dispose();
  const disposeAsync = () => limited.disposeAsync();
  return Object.assign(
    // An arrow function: whatever `this` it is called with is none of its business.
    (input: string | URL | Request, init?: LimitedRequestInit<Resource>) => limited.call(input, init),
    {
      getStatistics: () => limited.getStatistics(),
      drain: () => limited.drain(),
      dispose,
      disposeAsync,
      [Symbol.dispose]: dispose,
      [Symbol.asyncDispose]: disposeAsync,
    },
    extrasOf(fetch),
  );
}

/** Goes past the limiter: it opens connections and sends nothing. */
function extrasOf(fetch: FetchLike): { preconnect?: unknown } {
  const { preconnect } = fetch as { readonly preconnect?: unknown };
  return typeof preconnect === "function" ? { preconnect: preconnect.bind(fetch) } : {};
}
