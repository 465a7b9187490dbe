import type { AcquireOptions } from "../contract/acquire-options.js";
import type { Clock } from "../contract/clock.js";
import {
  type AcquireSink,
  type AcquireTicket,
  type Inside,
  inside,
  isLease,
  type LimiterSnapshot,
} from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { promiseOf, RateLimiter } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import type { RejectionReason } from "../contract/rejection-reason.js";
import { checkDuration } from "../contract/validation.js";
import { deliver } from "../queue/delivery.js";
import type { RejectDelays } from "./reject-delays.js";
import type { Share } from "./share.js";

/** Refusals for want of a permit or of room, which may be held back; the others say that waiting is of no use. */
const DELAYED_REASONS: readonly unknown[] = ["limit_reached", "share_exceeded", "queue_full"];

/** What a snapshot of several shares adds up. */
const SUMMED = ["queuedPermits", "queuedRequests", "granted", "refused", "aborted"] as const;

/** One share as a limiter. It belongs to the adaptive limiter, so disposing it does nothing. */
export class ShareLimiter extends RateLimiter implements Inside {
  readonly #share: Share;
  readonly #delays: RejectDelays;
  readonly #shown: readonly Share[];

  /** @param shown - The shares that count when somebody looks at it: for the limiter as a whole, all. */
  constructor(share: Share, delays: RejectDelays, shown: readonly Share[]) {
    super();
    this.#share = share;
    this.#delays = delays;
    this.#shown = shown;
  }

  override attemptAcquire(permitCount = 1): RateLimitLease {
    const { queue } = this.#share;
    return queue.take(permitCount) ? this.#share.lend(permitCount) : queue.attemptHeld(permitCount);
  }

  override acquire(permitCount?: number, options?: AcquireOptions): Promise<RateLimitLease>;
  override acquire(options: AcquireOptions): Promise<RateLimitLease>;
  override acquire(
    permitCount: number | AcquireOptions = 1,
    options?: AcquireOptions,
  ): Promise<RateLimitLease> {
    if (options === undefined && typeof permitCount === "number" && this.#share.queue.take(permitCount)) {
      return Promise.resolve(this.#share.lend(permitCount));
    }
    return super.acquire(permitCount as number, options);
  }

  pause(durationMs: number): void {
    checkDuration("durationMs", durationMs);
    for (const share of this.#shown) share.queue.hold(durationMs);
    deliver();
  }

  estimateWaitMs(permitCount = 1): number | undefined {
    return this.#share.queue.estimateWaitMs(permitCount);
  }

  override getStatistics(): RateLimiterStatistics {
    // The end of a pause serves who waits, of any share: that comes first.
    for (const share of this.#shown) share.queue.getStatistics();
    const all = this.#shown.map((share) => share.queue.getStatistics());
    const sum = (name: keyof RateLimiterStatistics) => all.reduce((total, one) => total + one[name], 0);
    return Object.freeze({
      currentAvailablePermits: this.#share.queue.getStatistics().currentAvailablePermits,
      currentQueuedCount: sum("currentQueuedCount"),
      totalFailedLeases: sum("totalFailedLeases"),
      totalSuccessfulLeases: sum("totalSuccessfulLeases"),
    });
  }

  override get idleDurationMs(): number | undefined {
    let idleMs = Number.POSITIVE_INFINITY;
    for (const share of this.#shown) {
      // Undefined makes it NaN, which it then stays.
      idleMs = Math.min(idleMs, share.queue.idleDurationMs() ?? Number.NaN);
    }
    return Number.isNaN(idleMs) ? undefined : idleMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.attemptAcquire(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    if (this.#share.rejectDelayMs === 0) return this.#share.queue.acquire(permitCount, options);
    return promiseOf((sink) => this.acquireWith(permitCount, options, sink));
  }

  /** @internal */
  readonly [inside]: Inside = this;

  get clock(): Clock {
    return this.#share.queue.clock;
  }

  get usesPriority(): boolean {
    return this.#share.queue.usesPriority;
  }

  hasRoom(permitCount: number): boolean {
    return this.#share.queue.hasRoom(permitCount);
  }

  acquireWith(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    const { queue, rejectDelayMs } = this.#share;
    const answer = queue.acquireWith(permitCount, options, sink);
    if (!isLease(answer) || answer.isAcquired || !DELAYED_REASONS.includes(answer.reason)) return answer;
    const delayMs = Math.min(rejectDelayMs, options.maxWaitMs ?? rejectDelayMs);
    return delayMs > 0 ? this.#delays.hold(answer, delayMs, options.signal, sink) : answer;
  }

  snapshot(into: LimiterSnapshot): boolean {
    this.#share.queue.snapshot(into);
    const other = { ...into };
    for (const share of this.#shown) {
      if (share === this.#share) continue;
      share.queue.snapshot(other);
      for (const name of SUMMED) into[name] += other[name];
    }
    return true;
  }

  forEachRefusal(visit: (reason: RejectionReason, count: number) => void): void {
    for (const { queue } of this.#shown) queue.forEachRefusal(visit);
  }

  queuedByPriority(): Map<number, number> {
    const permits = new Map<number, number>();
    for (const { queue } of this.#shown) {
      for (const [priority, more] of queue.queuedByPriority()) {
        permits.set(priority, (permits.get(priority) ?? 0) + more);
      }
    }
    return permits;
  }
}
