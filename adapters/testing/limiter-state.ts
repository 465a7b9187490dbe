import { LimiterDisposedError, RateLimiter, type RateLimiterStatistics } from "headgate";
import { type InsideLimiter, inside, type LimiterSnapshot, wrongType } from "../../src/internal.js";

/**
 * What a limiter looked like at one moment, as {@link getLimiterState} tells it; later activity does not change it.
 *
 * What a limiter does not tell is undefined. The library's own limiters tell all of it. Chains, `NoLimiter` and limiters
 * that users wrote tell what their `getStatistics` does: of such a limiter `availablePermits` is never below 0.
 *
 * @public
 */
export interface LimiterState {
  /** The kind of limiter, such as `ConcurrencyLimiter`. */
  readonly kind?: string | undefined;
  /** The most permits that it hands out: at the same time, in a window, or from a full bucket. */
  readonly permitLimit?: number | undefined;
  /** Permits that could be taken now; below 0 while a debt is to be paid. */
  readonly availablePermits?: number | undefined;
  /** How many permits may be waited for in all. */
  readonly queueLimit?: number | undefined;
  /** How many permits are waited for. */
  readonly queuedPermits?: number | undefined;
  /** How many requests wait; those for 0 permits count too. */
  readonly queuedRequests?: number | undefined;
  /** How many permits are waited for by priority, the highest first. Limiters that do not order by priority have one, 0. */
  readonly queuedByPriority?: ReadonlyMap<number, number> | undefined;
  /** Requests granted so far. */
  readonly totalGranted?: number | undefined;
  /** Requests refused so far. */
  readonly totalRefused?: number | undefined;
  /** Requests so far whose callers aborted them while they waited. */
  readonly totalAborted?: number | undefined;
  /** Whether it grants nothing because of `pause`. */
  readonly isPaused?: boolean | undefined;
  /** Whether it has been disposed, so that its calls fail with `LimiterDisposedError`. */
  readonly isDisposed: boolean;
}

/** The statistics, and undefined of a disposed limiter. */
function readStatistics(limiter: RateLimiter): {
  isDisposed: boolean;
  now: RateLimiterStatistics | undefined;
} {
  try {
    return { isDisposed: false, now: limiter.getStatistics() };
  } catch (error) {
    if (error instanceof LimiterDisposedError) return { isDisposed: true, now: undefined };
    throw error;
  }
}

/**
 * Looks at a limiter more closely than its statistics do, for tests. Disposed limiters can be looked at too.
 *
 * Like `getStatistics`, it brings the limiter up to what its clock shows first, and changes nothing else. A shadow shows
 * the limiter behind it.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { getLimiterState } from "headgate/testing";
 *
 * const limiter = new ConcurrencyLimiter({
 *   permitLimit: 1,
 *   queueLimit: 10,
 *   queueProcessingOrder: "highestPriorityFirst",
 * });
 * limiter.attemptAcquire();
 * const waiting = [1, 5].map((priority) => limiter.acquire(1, { priority }));
 * console.log(getLimiterState(limiter).queuedByPriority); // Map { 5 => 1, 1 => 1 }
 * ```
 *
 * @param limiter - Any limiter.
 * @returns A frozen object.
 * @throws TypeError when it is not a limiter; and what the limiter's `getStatistics` throws, a `LimiterDisposedError` aside.
 *
 * @public
 */
export function getLimiterState(limiter: RateLimiter): LimiterState {
  if (!(limiter instanceof RateLimiter)) throw wrongType("limiter", "a RateLimiter", limiter);
  const { isDisposed, now } = readStatistics(limiter);
  const door = (limiter as InsideLimiter)[inside];
  const seen = {} as LimiterSnapshot;
  if (door?.snapshot(seen) !== true) {
    return Object.freeze({
      availablePermits: now?.currentAvailablePermits,
      queuedPermits: now?.currentQueuedCount,
      totalGranted: now?.totalSuccessfulLeases,
      totalRefused: now?.totalFailedLeases,
      isDisposed,
    });
  }
  const queuedByPriority = new Map([...door.queuedByPriority()].sort(([a], [b]) => b - a));
  return Object.freeze({
    kind: seen.kind,
    permitLimit: seen.permitLimit,
    availablePermits: seen.available,
    queueLimit: seen.queueLimit,
    queuedPermits: seen.queuedPermits,
    queuedRequests: seen.queuedRequests,
    queuedByPriority,
    totalGranted: seen.granted,
    totalRefused: seen.refused,
    totalAborted: seen.aborted,
    isPaused: seen.isPaused,
    isDisposed: seen.isDisposed,
  });
}
