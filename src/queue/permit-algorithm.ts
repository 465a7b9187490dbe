import type { RateLimitLease } from "../contract/rate-limit-lease.js";

/**
 * What the queue asks of an algorithm; the limiter is whose state it is about. The algorithm changes
 * `queue.available`, the queue decides who gets it.
 */
export interface PermitAlgorithm<Limiter> {
  /** The kind of the limiter, for errors. */
  readonly limiterName: string;
  /** The metadata that its leases may carry, refused ones included. */
  readonly metadataNames: readonly string[];
  /** The most permits that one request can ever get. */
  permitLimit(limiter: Limiter): number;
  /** Metadata that say how the limiter stands now: `LIMIT`, `REMAINING`, `RESET_AFTER`. */
  standing(limiter: Limiter, name: string): unknown;
  /** Makes the lease for permits that the queue has just taken off `available`. */
  lend(limiter: Limiter, permits: number): RateLimitLease;
  /** Brings `available` up to the present; left out when time changes nothing. */
  advance?(limiter: Limiter): void;
  /** The clock reading at which this many permits will be there; left out when only a release brings them. */
  availableAt?(limiter: Limiter, permits: number): number;
  /** What a refused caller is told to wait, in milliseconds; left out when nobody can tell. */
  retryAfterMs?(limiter: Limiter, permits: number): number;
}
