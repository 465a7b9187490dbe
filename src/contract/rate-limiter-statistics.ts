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
