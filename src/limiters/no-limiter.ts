/// <reference lib="esnext.disposable" preserve="true" />
import type { AcquireOptions } from "../contract/acquire-options.js";
import type { Clock } from "../contract/clock.js";
import { isLease } from "../contract/inside.js";
import { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter, request } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import { checkDuration, checkMethods, checkOptionNames, checkPermitCount } from "../contract/validation.js";
import { ConcurrencyLimiter } from "./concurrency-limiter.js";

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
 * Options of {@link NoLimiter}.
 *
 * @public
 */
export interface NoLimiterOptions {
  /** Where the time of a pause comes from; `systemClock` by default. */
  readonly clock?: Clock | undefined;
}

/**
 * Grants every request, of any size, at once, unless it is paused. Stands where a limiter is called for and none is
 * wanted, for instance for one partition of many.
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
  readonly #clock: Clock | undefined;
  #succeeded = 0;
  #failed = 0;
  /** Permits that are waited for in a pause. */
  #queued = 0;
  /** Made when it is first needed: everybody then asks it for 0 permits, which it gives unless it is paused. */
  #gate: ConcurrencyLimiter | undefined;

  /** @throws TypeError when an option is not what it should be. */
  constructor(options: NoLimiterOptions = {}) {
    super();
    checkOptionNames(options, ["clock"]);
    const { clock } = options;
    if (clock !== undefined) checkMethods("options.clock", clock, ["now", "setTimer"]);
    this.#clock = clock;
  }

  override getStatistics(): RateLimiterStatistics {
    return Object.freeze({
      currentAvailablePermits: Number.MAX_SAFE_INTEGER,
      currentQueuedCount: this.#queued,
      totalFailedLeases: this.#failed,
      totalSuccessfulLeases: this.#succeeded,
    });
  }

  /**
   * Grants nothing until the time is over: attempts are refused with `server_pause`, requests wait, any number of them. A
   * pause never shortens an earlier one.
   *
   * @param durationMs - Milliseconds, above 0 and finite.
   * @throws TypeError or RangeError when it is not.
   */
  pause(durationMs: number): void {
    checkDuration("durationMs", durationMs);
    this.#makeGate().pause(durationMs);
  }

  /** What is left of a pause, in milliseconds; else 0. */
  estimateWaitMs(permitCount = 1): number {
    checkPermitCount(permitCount);
    return this.#gate?.estimateWaitMs(0) ?? 0;
  }

  override get idleDurationMs(): undefined {
    return undefined;
  }

  protected override attemptAcquireCore(_permitCount: number): RateLimitLease {
    return this.#pass(this.#gate?.attemptAcquire(0));
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    const hasExpired = options.maxWaitMs !== undefined && options.maxWaitMs < 0;
    const gate = hasExpired ? this.#makeGate() : this.#gate;
    if (gate === undefined) return this.attemptAcquireCore(permitCount);
    const answer = request(gate, 0, options);
    if (isLease(answer)) return this.#pass(answer);
    this.#queued += permitCount;
    return answer
      .finally(() => {
        this.#queued -= permitCount;
      })
      .then((lease) => this.#pass(lease));
  }

  #makeGate(): ConcurrencyLimiter {
    this.#gate ??= new ConcurrencyLimiter({ permitLimit: Number.MAX_SAFE_INTEGER, clock: this.#clock });
    return this.#gate;
  }

  /** The answer, from that of the gate where there is one. */
  #pass(lease: RateLimitLease = freeLease): RateLimitLease {
    if (lease.isAcquired) this.#succeeded += 1;
    else this.#failed += 1;
    return lease.isAcquired ? freeLease : lease;
  }
}
