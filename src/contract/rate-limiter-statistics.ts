/**
 * What a limiter looked like at one moment. A snapshot: later activity does not change it. Models .NET's
 * `RateLimiterStatistics`.
 *
 * @public
 */
export interface RateLimiterStatistics {
  /** Permits that could be taken now; `Number.MAX_SAFE_INTEGER` when there is no limit. */
  readonly currentAvailablePermits: number;
  /** Permits that waiting requests have asked for, in all. */
  readonly currentQueuedCount: number;
  /** Leases refused so far, one per request whatever its size. Aborted requests and errors do not count. */
  readonly totalFailedLeases: number;
  /** Leases granted so far, one per request whatever its size. */
  readonly totalSuccessfulLeases: number;
}

/** The statistics of a chain: the fewest available permits, sums, and the last member's successes. */
export function combineStatistics(
  members: readonly (RateLimiterStatistics | undefined)[],
): RateLimiterStatistics {
  let currentAvailablePermits = Number.MAX_SAFE_INTEGER;
  let currentQueuedCount = 0;
  let totalFailedLeases = 0;
  let totalSuccessfulLeases = 0;
  for (const member of members) {
    if (member === undefined) continue;
    currentAvailablePermits = Math.min(currentAvailablePermits, member.currentAvailablePermits);
    currentQueuedCount += member.currentQueuedCount;
    totalFailedLeases += member.totalFailedLeases;
    totalSuccessfulLeases = member.totalSuccessfulLeases;
  }
  return Object.freeze({
    currentAvailablePermits,
    currentQueuedCount,
    totalFailedLeases,
    totalSuccessfulLeases,
  });
}
