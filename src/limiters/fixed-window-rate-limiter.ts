/// <reference lib="esnext.disposable" preserve="true" />
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { checkDuration, checkInteger } from "../contract/validation.js";
import { ChargedLease } from "../queue/charged-lease.js";
import type { PermitAlgorithm } from "../queue/permit-algorithm.js";
import { PermitQueue } from "../queue/permit-queue.js";
import { QueueSettings, shareSettings } from "../queue/queue-settings.js";
import { boundaryAt, lastBoundary } from "../time/grid.js";
import { ownQueue, QueuedReplenishingRateLimiter } from "./queued-replenishing-rate-limiter.js";
import {
  REPLENISHING_METADATA,
  REPLENISHING_OPTION_NAMES,
  type ReplenishingOptions,
} from "./replenishing-options.js";

/*
 * So many permits per window of time.
 *
 * The question: a vendor allows 100 calls a minute. The naive answer sets a timer that resets a counter every minute: it
 * drifts, it keeps processes alive, ten thousand limiters mean ten thousand timers, and a host that was asleep fires once
 * for all the minutes it missed. Here nothing ticks. The windows are a grid, start + k × window, and whoever comes first
 * in a new window finds the counter full again.
 *
 * Example, 100 per 60 000 ms, created at 0: 100 calls at 59 900 ms are granted, the next is refused and told to come back
 * in 100 ms. At 60 000 ms the counter is 100 again; it would be after three unused minutes, too.
 *
 * The surprise: 100 calls at 59 900 and 100 more at 60 000 are 200 within 100 ms, and all are within the limit. A fixed
 * window admits up to twice its limit in any window-long span that crosses a boundary, and never more. Where that is too
 * much, use a sliding window or a token bucket.
 */

/**
 * Options of a {@link FixedWindowRateLimiter}.
 *
 * @public
 */
export interface FixedWindowRateLimiterOptions extends ReplenishingOptions {
  /** How many permits each window has: an integer of at least 1. Required. */
  readonly permitLimit: number;
  /** How long a window is, in milliseconds: above 0, fractions allowed, years if need be. Required. */
  readonly windowMs: number;
}

const OPTION_NAMES = ["permitLimit", "windowMs", ...REPLENISHING_OPTION_NAMES];

class FixedWindowSettings extends QueueSettings<FixedWindowRateLimiter> {
  readonly permitLimit: number;
  readonly windowMs: number;

  constructor(options: FixedWindowRateLimiterOptions, algorithm: PermitAlgorithm<FixedWindowRateLimiter>) {
    const { permitLimit, windowMs } = options;
    checkInteger("options.permitLimit", permitLimit, 1);
    super(options, algorithm);
    checkDuration("options.windowMs", windowMs);
    this.permitLimit = permitLimit;
    this.windowMs = windowMs;
  }
}

/**
 * Limits how much is admitted in each window of time; all permits come back at once when the next window begins.
 *
 * Windows follow one another without a gap from the moment the limiter is made, used or not. A permit that was taken is
 * not given back by disposing its lease; it is used up until the window ends. In any span as long as a window, at most
 * twice the limit is admitted (around a boundary), and in any window at most the limit.
 *
 * No timer runs, unless somebody waits: every call first brings the limiter up to the present. A clock that stands still
 * or goes back adds nothing. With `autoReplenishment: false` time does nothing by itself: a call of `tryReplenish` at
 * least `windowMs` after the last one that did something (or the start) begins a new window at that moment.
 *
 * Refused leases carry `retryAfterMs`: the time until enough permits are there. All leases carry `LIMIT`, `REMAINING` and
 * `RESET_AFTER`. `lease.adjust` charges a cost that was known only afterwards; permits that go back count until the
 * window of the lease is over, and a debt is paid by the windows to come. Models .NET's `FixedWindowRateLimiter`.
 *
 * @example
 * ```ts
 * import { FixedWindowRateLimiter } from "headgate";
 *
 * const limiter = new FixedWindowRateLimiter({ permitLimit: 100, windowMs: 60_000, queueLimit: 20 });
 *
 * async function call(url: string): Promise<Response> {
 *   using lease = await limiter.acquire();
 *   if (!lease.isAcquired) throw new Error(`try again in ${lease.retryAfterMs} ms`);
 *   return await fetch(url);
 * }
 * ```
 *
 * @public
 */
export class FixedWindowRateLimiter extends QueuedReplenishingRateLimiter {
  static readonly #algorithm: PermitAlgorithm<FixedWindowRateLimiter> = {
    limiterName: "FixedWindowRateLimiter",
    metadataNames: REPLENISHING_METADATA,
    permitLimit: (limiter) => limiter.#settings.permitLimit,
    lend: (limiter, permits) => limiter.#lend(permits),
    charge: (limiter, permits, window, now) => limiter.#charge(permits, window, now),
    advance: (limiter, now) => limiter.#advance(now),
    availableAt: (limiter, permits) => limiter.#availableAt(permits),
  };

  static readonly #recentSettings: FixedWindowSettings[] = [];

  /** @internal */
  readonly [ownQueue]: PermitQueue<FixedWindowRateLimiter, FixedWindowSettings>;
  /** Where the grid of windows starts; in manual mode, where the present window does. */
  #start: number;
  /** The number of the present window on that grid. */
  #window = 0;

  /**
   * @param options - `permitLimit` and `windowMs`, and optionally `queueLimit`, `queueProcessingOrder`, `queueTimeoutMs`,
   * `autoReplenishment` and `clock`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: FixedWindowRateLimiterOptions) {
    super();
    const settings = shareSettings(
      FixedWindowRateLimiter.#recentSettings,
      options,
      OPTION_NAMES,
      (given) => new FixedWindowSettings(given, FixedWindowRateLimiter.#algorithm),
    );
    this[ownQueue] = new PermitQueue(this, settings, settings.permitLimit);
    this.#start = this[ownQueue].fullSince;
  }

  override get replenishmentPeriodMs(): number {
    return this.#settings.windowMs;
  }

  /**
   * Begins a new window, when `windowMs` have passed since the present one began. For limiters made with
   * `autoReplenishment: false`; others do this by themselves.
   *
   * @returns False for a limiter that replenishes itself, else true.
   */
  override tryReplenish(): boolean {
    if (this[ownQueue].settings.isAuto) return false;
    const now = this[ownQueue].clock.now();
    if (now - this.#start >= this.#settings.windowMs) {
      this.#start = now;
      this.#replenish(1, now);
    }
    return true;
  }

  override attemptAcquire(permitCount = 1): RateLimitLease {
    const queue = this[ownQueue];
    const now = queue.settings.clock.now();
    const refusal = queue.refuseAsBefore(permitCount, now);
    if (refusal !== undefined) return refusal;
    this.#advance(now);
    return queue.take(permitCount) ? this.#lend(permitCount) : queue.attempt(permitCount, now);
  }

  get #settings(): FixedWindowSettings {
    return this[ownQueue].settings;
  }

  /** Brings the limiter up to the present. */
  #advance(now: number): void {
    const { settings } = this[ownQueue];
    if (settings.isAuto && now >= boundaryAt(this.#start, settings.windowMs, this.#window + 1))
      this.#move(now);
  }

  /** Goes on to the window of this moment. Not a part of `#advance`, which is to be inlined: most calls need none of it. */
  #move(now: number): void {
    const { permitLimit, windowMs } = this.#settings;
    const passed = lastBoundary(this.#start, windowMs, now) - this.#window;
    const fullAt = this.#boundaryIn(Math.ceil((permitLimit - this[ownQueue].available) / permitLimit));
    this.#window += passed;
    this.#replenish(passed, fullAt);
  }

  /** Fills the counter up. A debt is more than one window's permits; each window pays what it can. */
  #replenish(windows: number, fullAt: number): void {
    const missing = this.#settings.permitLimit - this[ownQueue].available;
    if (missing > 0)
      this[ownQueue].replenish(Math.min(missing, windows * this.#settings.permitLimit), fullAt);
  }

  #availableAt(permits: number): number {
    const missing = permits - this[ownQueue].available;
    return this.#boundaryIn(Math.max(1, Math.ceil(missing / this.#settings.permitLimit)));
  }

  #boundaryIn(windows: number): number {
    return boundaryAt(this.#start, this.#settings.windowMs, this.#window + windows);
  }

  /** Tells one window from another. */
  get #presentWindow(): number {
    return this[ownQueue].settings.isAuto ? this.#window : this.#start;
  }

  #lend(permits: number): RateLimitLease {
    return new ChargedLease(this[ownQueue], permits, this.#presentWindow);
  }

  #charge(permits: number, window: number, now: number): number {
    if (permits > 0 || window === this.#presentWindow) this[ownQueue].charge(permits, now);
    return this.#presentWindow;
  }
}
