/// <reference lib="esnext.disposable" preserve="true" />
import { type AcquireOptions, takesAnyPermit } from "../contract/acquire-options.js";
import { type Inside, inside } from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { ReplenishingRateLimiter } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import type { PermitQueue } from "../queue/permit-queue.js";

/** Where a limiter keeps its queue, for its own class and this one. */
export const ownQueue: unique symbol = Symbol("headgate.queue");

/**
 * What the windows and the bucket have in common: permits on a queue, which are brought up to the present first whenever
 * anybody asks anything. Not exported by the package: extend `ReplenishingRateLimiter` to write a limiter.
 *
 * @public
 */
export abstract class QueuedReplenishingRateLimiter extends ReplenishingRateLimiter {
  /** @internal */
  abstract readonly [ownQueue]: PermitQueue<unknown>;

  override get isAutoReplenishing(): boolean {
    return this[ownQueue].settings.isAuto;
  }

  /**
   * Grants nothing for `durationMs`: attempts are refused with `server_pause` and the time left, those who may wait wait.
   * Permits come back meanwhile. Never shortens an earlier pause. This is how a server's Retry-After reaches everybody who
   * shares the limiter. Does nothing on a disposed limiter.
   *
   * @param durationMs - Milliseconds, above 0 and finite.
   * @throws TypeError or RangeError when it is not.
   */
  pause(durationMs: number): void {
    this[ownQueue].advance();
    this[ownQueue].pause(durationMs);
  }

  /**
   * How long a request would wait, in milliseconds, if it were made now; 0 when it would be granted at once. Counts those
   * who wait before it. A lower bound: what a waiter leaves over may be lost, and a manual limiter is assumed to be
   * replenished in time. Changes nothing.
   *
   * @throws TypeError, RangeError or {@link LimiterDisposedError} as `attemptAcquire` does.
   */
  estimateWaitMs(permitCount = 1): number {
    return this[ownQueue].estimateWaitMs(permitCount, this[ownQueue].advance()) as number;
  }

  override getStatistics(): RateLimiterStatistics {
    this[ownQueue].advance();
    return this[ownQueue].getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this[ownQueue].idleDurationMs(this[ownQueue].advance());
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.attemptAcquire(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    const queue = this[ownQueue];
    const now = queue.advance();
    return takesAnyPermit(options) && !queue.usesPriority && queue.take(permitCount)
      ? queue.lend(permitCount)
      : queue.acquire(permitCount, options, now);
  }

  protected override disposeCore(): void {
    this[ownQueue].dispose();
  }

  /** @internal */
  get [inside](): Inside {
    return this[ownQueue];
  }
}
