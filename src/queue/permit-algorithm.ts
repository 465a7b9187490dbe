import type { RateLimitLease } from "../contract/rate-limit-lease.js";

/**
 * What the queue asks of an algorithm; the limiter is whose state it is about. The algorithm raises and lowers
 * `queue.available`, the queue decides who gets it.
 */
export interface PermitAlgorithm<Limiter> {
  /** The kind of the limiter, for errors. */
  readonly limiterName: string;
  /** The metadata that its leases may carry, refused ones included. */
  readonly metadataNames: readonly string[];
  /** Whether a refused caller is told to wait for the permits of those who already wait as well. */
  readonly retryCountsQueue?: boolean;
  /** The most permits that one request can ever get. */
  permitLimit(limiter: Limiter): number;
  /** Makes the lease for permits that the queue has just taken off `available`. */
  lend(limiter: Limiter, permits: number): RateLimitLease;
  /**
   * Charges permits that turned out to be used, to a certain period or, if that is over, to the present one; or gives back
   * (negative) those that were not, if their period still counts. Returns the period that was charged. The limiter has been
   * brought up to `now`.
   */
  charge?(limiter: Limiter, permits: number, period: number, now: number): number;
  /** Brings `available` up to a moment, and serves who waits; left out when time changes nothing. */
  advance?(limiter: Limiter, now: number): void;
  /**
   * The clock reading at which so many permits (at least 1, maybe more than the limit) will have been there, if nobody else
   * takes any; left out when only a release brings them.
   */
  availableAt?(limiter: Limiter, permits: number): number;
}
