import type { MonoTypeOperatorFunction } from "rxjs";
import { checkFunction } from "../../src/internal.js";
import { limiterDoors, type OpenDoor, partitionedDoors } from "./doors.js";
import { PacedAdmissions } from "./inner-admissions.js";
import { operate } from "./operate.js";
import type {
  LimiterSource,
  PartitionedLimiterSource,
  RateLimitByOptions,
  RateLimitOptions,
} from "./options.js";
import { RATE_LIMIT_BY_OPTIONS, RATE_LIMIT_OPTIONS, Rules } from "./rules.js";

/**
 * Lets each value through when a limiter grants a lease for it. Values are not changed, and keep their order.
 *
 * Meant for windows and buckets. The lease is held while the value is handed on, and no longer; a concurrency limiter so
 * bounds what is done in that very turn. Values wait in a bounded buffer.
 *
 * @example
 * ```ts
 * import { TokenBucketRateLimiter } from "headgate";
 * import { rateLimit } from "headgate/rxjs";
 * import { range } from "rxjs";
 *
 * const limiter = new TokenBucketRateLimiter({
 *   tokenLimit: 10,
 *   tokensPerPeriod: 5,
 *   replenishmentPeriodMs: 1000,
 *   queueLimit: 1,
 * });
 * range(1, 100).pipe(rateLimit(limiter)); // 10 at once, then 5 a second
 * ```
 *
 * @param limiter - A limiter, or a function that makes one for each subscription.
 * @param options - Where values wait, what becomes of refused ones, and how to ask.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function rateLimit<T>(
  limiter: LimiterSource,
  options: RateLimitOptions<T> = {},
): MonoTypeOperatorFunction<T> {
  return pace(new Rules<T, T>(options, RATE_LIMIT_OPTIONS), limiterDoors(limiter));
}

/**
 * The same with a limiter for each tenant, client or whatever else values have in common. Order is kept among the values of
 * a partition; with `lane: false` it is kept among all, and a partition whose turn has not come holds up the others.
 *
 * @example
 * ```ts
 * import { PartitionedRateLimiter, RateLimitPartition } from "headgate";
 * import { rateLimitBy } from "headgate/rxjs";
 * import { of } from "rxjs";
 *
 * const perTenant = PartitionedRateLimiter.create((tenant: string) =>
 *   RateLimitPartition.getFixedWindowLimiter(tenant, () => ({ permitLimit: 10, windowMs: 1000, queueLimit: 1 })),
 * );
 * of({ tenant: "acme" }, { tenant: "zeta" }).pipe(rateLimitBy(perTenant, ({ tenant }) => tenant));
 * ```
 *
 * @param limiter - A partitioned limiter, or a function that makes one for each subscription.
 * @param resource - What the limiter is asked about; called once for each value.
 * @param options - As for `rateLimit`, and `lane`.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function rateLimitBy<T, Resource>(
  limiter: PartitionedLimiterSource<Resource>,
  resource: (value: T, index: number) => Resource,
  options: RateLimitByOptions<T> = {},
): MonoTypeOperatorFunction<T> {
  checkFunction("resource", resource);
  const rules = new Rules<T, T>(options, RATE_LIMIT_BY_OPTIONS);
  return pace(rules, partitionedDoors(limiter, rules.needsKeys), resource);
}

function pace<T>(
  rules: Rules<T, T>,
  open: OpenDoor,
  resource?: (value: T, index: number) => unknown,
): MonoTypeOperatorFunction<T> {
  return operate(rules, open, (destination, door) => new PacedAdmissions(destination, rules, door, resource));
}
