import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import type { RejectionReason } from "../contract/rejection-reason.js";

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
  /** Why a request is refused for which not enough is free; `limit_reached` when left out. */
  readonly refusalReason?: RejectionReason;
  /** How many permits there are in all. */
  permitLimit(limiter: Limiter): number;
  /** The most permits that one request may ever ask for, where that is not `permitLimit`. */
  mostPermits?(limiter: Limiter): number;
  /**
   * Whether a request for more than is available is granted all the same, since nothing that it could wait for will ever come
   * back; left out where that cannot be. A newcomer is trusted less than somebody who is first of those who wait.
   */
  mayOverdraw?(limiter: Limiter, permits: number, isWaiting: boolean): boolean;
  /** Whether nothing is held, where that is not told by `available` and `permitLimit`. */
  isIdle?(limiter: Limiter): boolean;
  /** Serves who waits at the end of a pause, where the queue is one of several that share their permits. */
  serveAfterPause?(limiter: Limiter): void;
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
