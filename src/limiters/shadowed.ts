/// <reference lib="esnext.disposable" preserve="true" />
import type { AcquireOptions } from "../contract/acquire-options.js";
import type { Clock } from "../contract/clock.js";
import { type Inside, type InsideLimiter, inside, type LimiterSnapshot } from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter, ReplenishingRateLimiter } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import type { RejectionReason } from "../contract/rejection-reason.js";
import { checkFunction, checkOptionNames, wrongType } from "../contract/validation.js";
import { freeLease } from "./no-limiter.js";

/**
 * What a limiter in shadow would not have let through at once.
 *
 * @public
 */
export interface ShadowRejection {
  /** How many permits were asked for. */
  readonly permitCount: number;
  /** True when the request would have found a place in the queue, false when it would have been refused. */
  readonly wouldHaveWaited: boolean;
  /** Why no permit was free; undefined when the limiter did not say. */
  readonly reason: RejectionReason | undefined;
  /** Milliseconds that the caller would have been told to wait; undefined when the limiter cannot tell. */
  readonly retryAfterMs: number | undefined;
  /** What the limiter threw instead of answering, such as a count above the limit; undefined when it answered. */
  readonly error: unknown;
}

/**
 * Options of `shadowed`.
 *
 * @public
 */
export interface ShadowOptions {
  /**
   * Called, before the caller goes on, for each request that the limiter would not have let through at once. What it
   * throws reaches the caller.
   */
  readonly onRejected?: ((rejection: ShadowRejection) => void) | undefined;
}

/**
 * A limiter in shadow; see `shadowed`.
 *
 * @public
 */
export interface ShadowedRateLimiter extends RateLimiter {
  /** Requests that the limiter would have refused. */
  readonly wouldHaveRefused: number;
  /** Requests that would have waited in the limiter's queue. */
  readonly wouldHaveWaited: number;
}

/** What stands before the limiter. It is the inside of the shadow too: the limiter's own door would lead past it. */
class Shadow implements Inside {
  readonly limiter: InsideLimiter;
  readonly #onRejected: ShadowOptions["onRejected"];
  wouldHaveRefused = 0;
  wouldHaveWaited = 0;

  constructor(limiter: RateLimiter, onRejected: ShadowOptions["onRejected"]) {
    this.limiter = limiter;
    this.#onRejected = onRejected;
  }

  get clock(): Clock | undefined {
    return this.limiter[inside]?.clock;
  }

  get usesPriority(): boolean {
    return this.limiter[inside]?.usesPriority === true;
  }

  hasRoom(permitCount: number): boolean {
    return this.limiter[inside]?.hasRoom(permitCount) === true;
  }

  acquireWith(permitCount: number, { maxWaitMs = 1 }: AcquireOptions): RateLimitLease {
    return maxWaitMs < 0
      ? this.#reject({ permitCount, wouldHaveWaited: false, reason: "deadline_expired" })
      : this.attempt(permitCount, maxWaitMs > 0);
  }

  snapshot(into: LimiterSnapshot): boolean {
    return this.limiter[inside]?.snapshot(into) === true;
  }

  queuedByPriority(): Map<number, number> {
    return this.limiter[inside]?.queuedByPriority() ?? new Map();
  }

  attempt(permitCount: number, canWait: boolean): RateLimitLease {
    let lease: RateLimitLease;
    try {
      lease = this.limiter.attemptAcquire(permitCount);
      if (lease.isAcquired) return lease;
    } catch (error) {
      return this.#reject({ permitCount, wouldHaveWaited: false, error });
    }
    const wouldHaveWaited = canWait && this.hasRoom(permitCount);
    const { reason, retryAfterMs } = lease;
    lease.dispose();
    return this.#reject({ permitCount, wouldHaveWaited, reason, retryAfterMs });
  }

  #reject({
    permitCount,
    wouldHaveWaited,
    reason,
    retryAfterMs,
    error,
  }: Pick<ShadowRejection, "permitCount" | "wouldHaveWaited"> & Partial<ShadowRejection>): RateLimitLease {
    if (wouldHaveWaited) this.wouldHaveWaited += 1;
    else this.wouldHaveRefused += 1;
    this.#onRejected?.({ permitCount, wouldHaveWaited, reason, retryAfterMs, error });
    return freeLease;
  }
}

// Two classes that differ in nothing but what they extend: whoever drives or evicts limiters asks by `instanceof`.

class ShadowLimiter extends RateLimiter implements ShadowedRateLimiter {
  readonly #shadow: Shadow;

  constructor(shadow: Shadow) {
    super();
    this.#shadow = shadow;
  }

  get wouldHaveRefused(): number {
    return this.#shadow.wouldHaveRefused;
  }

  get wouldHaveWaited(): number {
    return this.#shadow.wouldHaveWaited;
  }

  get [inside](): Inside {
    return this.#shadow;
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#shadow.limiter.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#shadow.limiter.idleDurationMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#shadow.attempt(permitCount, false);
  }

  protected override acquireCore(permitCount: number, options: AcquireOptions): RateLimitLease {
    return this.#shadow.acquireWith(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#shadow.limiter.dispose();
  }

  protected override disposeAsyncCore(): Promise<void> {
    return this.#shadow.limiter.disposeAsync();
  }
}

class ReplenishingShadowLimiter extends ReplenishingRateLimiter implements ShadowedRateLimiter {
  readonly #limiter: ReplenishingRateLimiter;
  readonly #shadow: Shadow;

  constructor(limiter: ReplenishingRateLimiter, shadow: Shadow) {
    super();
    this.#limiter = limiter;
    this.#shadow = shadow;
  }

  get wouldHaveRefused(): number {
    return this.#shadow.wouldHaveRefused;
  }

  get wouldHaveWaited(): number {
    return this.#shadow.wouldHaveWaited;
  }

  get [inside](): Inside {
    return this.#shadow;
  }

  override get replenishmentPeriodMs(): number {
    return this.#limiter.replenishmentPeriodMs;
  }

  override get isAutoReplenishing(): boolean {
    return this.#limiter.isAutoReplenishing;
  }

  override tryReplenish(): boolean {
    return this.#limiter.tryReplenish();
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#limiter.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#limiter.idleDurationMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#shadow.attempt(permitCount, false);
  }

  protected override acquireCore(permitCount: number, options: AcquireOptions): RateLimitLease {
    return this.#shadow.acquireWith(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#limiter.dispose();
  }

  protected override disposeAsyncCore(): Promise<void> {
    return this.#limiter.disposeAsync();
  }
}

/**
 * Lets everything through, and counts what the limiter would have refused or made wait: how a limit is tried in
 * production before it bites.
 *
 * Every request is an attempt on the limiter. If it grants, its lease is the answer, and holds permits as always;
 * otherwise the answer is an acquired lease that holds nothing. Nobody ever waits, not even for a permit that would come
 * soon, and what is let through beyond the limit holds nothing: so both counts are estimates, the better the less the
 * limit is exceeded. Errors of the limiter (a count above the limit, a disposed limiter) count as refusals; a malformed
 * count or an aborted signal is an error here too.
 *
 * The shadow of a {@link ReplenishingRateLimiter} is one too. It owns the limiter: disposing it disposes the limiter, and
 * it lets through even then.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter, shadowed } from "headgate";
 *
 * const limiter = shadowed(new ConcurrencyLimiter({ permitLimit: 50 }), {
 *   onRejected: ({ reason }) => console.log("would have refused:", reason),
 * });
 * using lease = await limiter.acquire(); // always acquired
 * ```
 *
 * @param limiter - The limiter to try.
 * @throws TypeError when an argument is not what it should be.
 *
 * @public
 */
export function shadowed(
  limiter: ReplenishingRateLimiter,
  options?: ShadowOptions,
): ShadowedRateLimiter & ReplenishingRateLimiter;
/**
 * The same for every other limiter.
 *
 * @public
 */
export function shadowed(limiter: RateLimiter, options?: ShadowOptions): ShadowedRateLimiter;
export function shadowed(limiter: RateLimiter, options: ShadowOptions = {}): ShadowedRateLimiter {
  if (!(limiter instanceof RateLimiter)) throw wrongType("limiter", "a RateLimiter", limiter);
  checkOptionNames(options, ["onRejected"]);
  if (options.onRejected !== undefined) checkFunction("options.onRejected", options.onRejected);
  const shadow = new Shadow(limiter, options.onRejected);
  return limiter instanceof ReplenishingRateLimiter
    ? new ReplenishingShadowLimiter(limiter, shadow)
    : new ShadowLimiter(shadow);
}
