/// <reference lib="esnext.disposable" preserve="true" />
import { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import { checkPermitCount } from "../contract/validation.js";

/** A "yes" that holds nothing; one object serves all. */
class FreeLease extends RateLimitLease {
  override get isAcquired(): boolean {
    return true;
  }

  override get metadataNames(): Iterable<string> {
    return [];
  }

  protected override tryGetMetadataCore(): undefined {
    return undefined;
  }

  override dispose(): void {}
}

/** The lease of whoever is let through without being counted. */
export const freeLease: RateLimitLease = new FreeLease();

/**
 * Grants every request, of any size, at once. Stands where a limiter is called for and none is wanted, for instance for
 * one partition of many.
 *
 * It counts the leases it grants. Its available permits are `Number.MAX_SAFE_INTEGER`, its idle duration is undefined,
 * and disposing it does nothing. Models the limiter behind .NET's `RateLimitPartition.GetNoLimiter`.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter, NoLimiter, type RateLimiter } from "headgate";
 *
 * const limit: number | undefined = undefined;
 * const limiter: RateLimiter = limit === undefined ? new NoLimiter() : new ConcurrencyLimiter({ permitLimit: limit });
 * ```
 *
 * @public
 */
export class NoLimiter extends RateLimiter {
  #succeeded = 0;

  override getStatistics(): RateLimiterStatistics {
    return Object.freeze({
      currentAvailablePermits: Number.MAX_SAFE_INTEGER,
      currentQueuedCount: 0,
      totalFailedLeases: 0,
      totalSuccessfulLeases: this.#succeeded,
    });
  }

  /** Always 0: nobody waits. */
  estimateWaitMs(permitCount = 1): number {
    checkPermitCount(permitCount);
    return 0;
  }

  override get idleDurationMs(): undefined {
    return undefined;
  }

  protected override attemptAcquireCore(_permitCount: number): RateLimitLease {
    this.#succeeded += 1;
    return freeLease;
  }

  protected override acquireCore(permitCount: number): RateLimitLease {
    return this.attemptAcquireCore(permitCount);
  }
}
