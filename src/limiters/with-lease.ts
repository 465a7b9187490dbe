import {
  ACQUIRE_OPTION_NAMES,
  type AcquireOptions,
  checkAcquireOptionNames,
  checkNotAborted,
} from "../contract/acquire-options.js";
import { outcomeOfError, outcomeOfValue } from "../contract/outcome.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter } from "../contract/rate-limiter.js";
import { checkFunction, wrongType } from "../contract/validation.js";

/**
 * Options of {@link withLease}: those of `acquire`, and how many permits.
 *
 * @public
 */
export interface WithLeaseOptions<Signal extends AbortSignal | undefined = AbortSignal | undefined>
  extends Omit<AcquireOptions, "signal"> {
  /** Ends the wait for the lease when it is aborted, and is handed on to the work. */
  readonly signal?: Signal;
  /** How many permits the work needs; 1 by default. */
  readonly permitCount?: number | undefined;
}

/**
 * Acquires a lease, does the work, reports how it went, and gives the lease back whatever happens.
 *
 * The outcome that the lease is told: fulfilled work is a `success`; work that fails after the caller's own signal was
 * aborted is `ignored`; a time-out, an HTTP 429 or 503 (thrown, or as a `fetch` response) and a refusal by a limiter
 * further down are `dropped`; any other error is a `failure`. What the work reports itself comes first.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter, withLease } from "headgate";
 *
 * const limiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 100 });
 * const signal = AbortSignal.timeout(5000);
 * // The body is read within the work: `fetch` itself ends at the headers.
 * const items = await withLease(
 *   limiter,
 *   async (lease, signal) => (await fetch("https://vendor.example/items", { signal })).json(),
 *   { signal },
 * );
 * ```
 *
 * @param limiter - The limiter to ask.
 * @param work - Called with the lease and the signal once the lease is granted; may return a promise.
 * @param options - How many permits, and how to wait for them.
 * @returns What the work returns. Rejects with a {@link RateLimitRejectedError} when the lease is refused (the work does
 * not start then), with the signal's reason when it was aborted before the work started (the lease is refunded then), with
 * what the work throws, and as `acquire` does.
 *
 * @public
 */
export async function withLease<Result, Signal extends AbortSignal | undefined = undefined>(
  limiter: RateLimiter,
  work: (lease: RateLimitLease, signal: Signal) => Result | PromiseLike<Result>,
  options?: WithLeaseOptions<Signal>,
): Promise<Result> {
  if (!(limiter instanceof RateLimiter)) {
    const isPartitioned = typeof (limiter as Record<string, unknown> | null)?.["forResource"] === "function";
    throw wrongType(
      "limiter",
      `a RateLimiter${isPartitioned ? " (use its forResource(resource))" : ""}`,
      limiter,
    );
  }
  checkFunction("work", work);
  if (options !== undefined) checkAcquireOptionNames(options, ["permitCount", ...ACQUIRE_OPTION_NAMES]);
  const { permitCount, ...acquireOptions } = options ?? {};
  const signal = options?.signal as Signal;
  const how = options === undefined ? undefined : (acquireOptions as AcquireOptions);
  const lease = (await limiter.acquire(permitCount, how)).orThrow();
  let hasStarted = false;
  try {
    // The caller may have left between the grant and this turn.
    checkNotAborted(signal);
    hasStarted = true;
    const result = await work(lease, signal);
    lease.report(outcomeOfValue(result));
    return result;
  } catch (error) {
    lease.report(outcomeOfError(error, signal));
    throw error;
  } finally {
    if (hasStarted) lease.dispose();
    else lease.refund();
  }
}
