import type { RateLimiter } from "headgate";
import {
  type LeaseAcquirer,
  type RateLimiterRejectedEvent,
  Shield,
  type ShieldContext,
  ShieldKeys,
} from "headgate/shield";
import { checkNumber, checkOptionNames } from "../../src/internal.js";
import { maxWaitMs as maxWaitKey } from "../shield/shield-key.js";
import { policyOf, type ShieldPolicy } from "./shield-policy.js";

const TYPE = "LimiterPolicyOptions";

/**
 * Options of {@link limiterPolicy}.
 *
 * @public
 */
export interface LimiterPolicyOptions {
  /** A name for errors. */
  readonly name?: string | undefined;
  /** How many permits each call takes: an integer of at least 1; 1 by default. */
  readonly permitCount?: number | undefined;
  /** The priority of the calls, for a limiter whose queue goes by it; or a function that tells that of one call. */
  readonly priority?: number | ((signal: AbortSignal) => number | undefined) | undefined;
  /** How long a call may wait for its lease, in milliseconds; unbounded by default. 0 does not wait. */
  readonly maxWaitMs?: number | undefined;
  /**
   * Called for each call that is refused, and waited for before the call fails. Not called when the caller gives up. What it
   * throws is reported to `shieldDiagnostics` of `headgate/shield`.
   */
  readonly onRejected?: ((event: RateLimiterRejectedEvent) => void | PromiseLike<void>) | undefined;
}

/**
 * Makes a policy of cockatiel of a limiter: each call needs a lease, holds it until it has ended, and is refused with a
 * `RateLimitRejectedError` when it gets none.
 *
 * Unlike cockatiel's bulkhead it has an order in which calls wait, frees the place of a call that is aborted at once, and
 * never refuses a call that has a place already.
 *
 * @example
 * ```ts
 * import { handleWhen, retry, wrap } from "cockatiel";
 * import { RateLimitRejectedError, SlidingWindowRateLimiter } from "headgate";
 * import { limiterPolicy, retryAfterBackoff } from "headgate/cockatiel";
 *
 * const limiter = new SlidingWindowRateLimiter({ permitLimit: 100, windowMs: 60_000, segmentsPerWindow: 6 });
 * const polite = retry(handleWhen(RateLimitRejectedError.is), { maxAttempts: 3, backoff: retryAfterBackoff() });
 * const guarded = wrap(polite, limiterPolicy(limiter));
 * await guarded.execute(({ signal }) => fetch("https://vendor.example/", { signal }));
 * ```
 *
 * @param limiter - A limiter, which stays the caller's; or a function that acquires a lease of one.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function limiterPolicy(
  limiter: RateLimiter | LeaseAcquirer,
  options: LimiterPolicyOptions = {},
): ShieldPolicy {
  checkOptionNames(options, ["name", "permitCount", "priority", "maxWaitMs", "onRejected"], TYPE);
  const { name, permitCount, priority, maxWaitMs, onRejected } = options;
  if (priority !== undefined && typeof priority !== "function") {
    checkNumber(`${TYPE}.priority`, priority, "a safe integer or a function", Number.isSafeInteger);
  }
  if (maxWaitMs !== undefined) {
    const allowed = "a number of milliseconds of at least 0, or left out to wait without end";
    checkNumber(`${TYPE}.maxWaitMs`, maxWaitMs, allowed, (n) => n >= 0 && Number.isFinite(n));
  }
  const shield = Shield.empty.useRateLimiter(limiter, { name, permitCount, onRejected });
  const context =
    priority === undefined && maxWaitMs === undefined
      ? undefined
      : (context: ShieldContext) => {
          const level = typeof priority === "function" ? priority(context.signal) : priority;
          if (level !== undefined) context.set(ShieldKeys.priority, level);
          if (maxWaitMs !== undefined) context.set(maxWaitKey, maxWaitMs);
        };
  return policyOf((work, signal) => shield.execute(work, { signal, context }));
}
