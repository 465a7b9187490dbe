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

/** A bound for mistakes: each segment is a number in memory. */
const MOST_SEGMENTS = 1_000_000;

/*
 * So many permits per window of time, wherever the window is laid.
 *
 * The question: a fixed window lets twice its limit through around a boundary. The naive answer keeps the moment of every
 * permit and counts those of the last minute: right, but a limit of a million then keeps a million moments. Here the
 * window is cut into segments, and only a count per segment is kept. What was taken in a segment comes back together, when
 * that segment leaves the window.
 *
 * Example, 6 per 1000 ms in 10 segments of 100 ms: 6 permits taken at 950 ms fall into the segment from 900. That segment
 * leaves when the one that began at 900 is 10 segments old: at 1900 ms all 6 come back. A caller at 1000 ms is told to
 * wait 900 ms.
 *
 * The surprise: permits come back up to a segment earlier than a whole window after they were taken (950 to 1900 is 950
 * ms). So a span of (segments - 1) segments never sees more than the limit, but a full window-long span may see what was
 * taken at the end of its first segment and again at the beginning of the one that follows its last: up to twice the
 * limit, with ever less room for it the more segments there are. One segment is a fixed window whose counter
 * returns only what was used. And a burst that takes everything in one segment shuts the limiter for almost the whole
 * window: that is what it is for.
 */

/**
 * Options of a {@link SlidingWindowRateLimiter}.
 *
 * @public
 */
export interface SlidingWindowRateLimiterOptions extends ReplenishingOptions {
  /** How many permits a window has: an integer of at least 1. Required. */
  readonly permitLimit: number;
  /** How long the window is, in milliseconds: above 0, fractions allowed, years if need be. Required. */
  readonly windowMs: number;
  /**
   * Into how many equal segments the window is cut: an integer of at least 1. More segments follow the true sliding
   * window more closely, and cost a number each. Required.
   */
  readonly segmentsPerWindow: number;
}

const OPTION_NAMES = ["permitLimit", "windowMs", "segmentsPerWindow", ...REPLENISHING_OPTION_NAMES];

class SlidingWindowSettings extends QueueSettings<SlidingWindowRateLimiter> {
  readonly permitLimit: number;
  readonly segments: number;
  readonly segmentMs: number;

  constructor(
    options: SlidingWindowRateLimiterOptions,
    algorithm: PermitAlgorithm<SlidingWindowRateLimiter>,
  ) {
    const { permitLimit, windowMs, segmentsPerWindow } = options;
    checkInteger("options.permitLimit", permitLimit, 1);
    checkInteger("options.segmentsPerWindow", segmentsPerWindow, 1, MOST_SEGMENTS);
    super(options, algorithm);
    checkDuration("options.windowMs", windowMs);
    this.permitLimit = permitLimit;
    this.segments = segmentsPerWindow;
    this.segmentMs = windowMs / segmentsPerWindow;
  }
}

/**
 * Limits how much is admitted in a window of time that moves along in segments. What was taken in a segment comes back
 * when that segment is a whole window old.
 *
 * Segments follow one another without a gap from the moment the limiter is made. In any span of `segmentsPerWindow - 1`
 * segments at most the limit is admitted. In a span as long as the window it may be up to twice the limit, when bursts
 * lie at its very ends; see the guide for how little room there is for that. A permit that was taken is not given back by
 * disposing its lease.
 *
 * No timer runs, unless somebody waits: every call first brings the limiter up to the present. A clock that stands still
 * or goes back adds nothing. With `autoReplenishment: false` only `tryReplenish` moves the window: by one segment, when at
 * least a segment's time has passed since the last move.
 *
 * Refused leases carry `retryAfterMs`: the time until enough permits have come back. All leases carry `LIMIT`,
 * `REMAINING` and `RESET_AFTER`. `lease.adjust` charges a cost that was known only afterwards, to the segment of the
 * lease while that counts, else to the present one. Models .NET's `SlidingWindowRateLimiter`.
 *
 * @example
 * ```ts
 * import { SlidingWindowRateLimiter } from "headgate";
 *
 * const limiter = new SlidingWindowRateLimiter({ permitLimit: 100, windowMs: 60_000, segmentsPerWindow: 6 });
 * using lease = limiter.attemptAcquire();
 * if (!lease.isAcquired) console.log(`try again in ${lease.retryAfterMs} ms`);
 * ```
 *
 * @public
 */
export class SlidingWindowRateLimiter extends QueuedReplenishingRateLimiter {
  static readonly #algorithm: PermitAlgorithm<SlidingWindowRateLimiter> = {
    limiterName: "SlidingWindowRateLimiter",
    metadataNames: REPLENISHING_METADATA,
    permitLimit: (limiter) => limiter.#settings.permitLimit,
    lend: (limiter, permits) => limiter.#lend(permits),
    charge: (limiter, permits, segment, now) => limiter.#charge(permits, segment, now),
    advance: (limiter, now) => limiter.#advance(now),
    availableAt: (limiter, permits) => limiter.#availableAt(permits),
  };

  static readonly #recentSettings: SlidingWindowSettings[] = [];

  /** @internal */
  readonly [ownQueue]: PermitQueue<SlidingWindowRateLimiter, SlidingWindowSettings>;
  /** What was taken in each segment of the window, as a ring; available is the limit less all of them. */
  readonly #taken: number[];
  /** Where in the ring the present segment is. */
  #position = 0;
  /** Where the grid of segments starts; in manual mode, where the present segment does. */
  #start: number;
  /** The number of the present segment on that grid; in manual mode, which has no grid, only its number. */
  #segment = 0;

  /**
   * @param options - `permitLimit`, `windowMs` and `segmentsPerWindow`, and optionally `queueLimit`,
   * `queueProcessingOrder`, `queueTimeoutMs`, `autoReplenishment` and `clock`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: SlidingWindowRateLimiterOptions) {
    super();
    const settings = shareSettings(
      SlidingWindowRateLimiter.#recentSettings,
      options,
      OPTION_NAMES,
      (given) => new SlidingWindowSettings(given, SlidingWindowRateLimiter.#algorithm),
    );
    this.#taken = new Array<number>(settings.segments).fill(0);
    this[ownQueue] = new PermitQueue(this, settings, settings.permitLimit);
    this.#start = this[ownQueue].fullSince;
  }

  /** How long a segment is, in milliseconds. */
  override get replenishmentPeriodMs(): number {
    return this.#settings.segmentMs;
  }

  /**
   * Moves the window on by one segment, when a segment's time has passed since it last moved. For limiters made with
   * `autoReplenishment: false`; others do this by themselves.
   *
   * @returns False for a limiter that replenishes itself, else true.
   */
  override tryReplenish(): boolean {
    if (this.#isAuto) return false;
    const now = this[ownQueue].clock.now();
    if (now - this.#start >= this.#settings.segmentMs) {
      this.#start = now;
      this.#move(1);
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

  get #settings(): SlidingWindowSettings {
    return this[ownQueue].settings;
  }

  /** Brings the limiter up to the present. */
  #advance(now: number): void {
    const { settings } = this[ownQueue];
    if (!settings.isAuto || now < boundaryAt(this.#start, settings.segmentMs, this.#segment + 1)) return;
    this.#move(lastBoundary(this.#start, settings.segmentMs, now) - this.#segment);
  }

  /** Moves the window on, and gives back what was taken in the segments that leave it. */
  #move(segments: number): void {
    const taken = this.#taken;
    const { available } = this[ownQueue];
    let freed = 0;
    let fullAt = 0;
    for (let moved = 1; moved <= Math.min(segments, taken.length); moved++) {
      this.#position = this.#position + 1 === taken.length ? 0 : this.#position + 1;
      const leaving = taken[this.#position] as number;
      if (leaving === 0) continue;
      taken[this.#position] = 0;
      freed += leaving;
      if (available + freed === this.#settings.permitLimit)
        fullAt = this.#isAuto ? this.#boundaryIn(moved) : this.#start;
    }
    this.#segment += segments;
    if (freed > 0) this[ownQueue].replenish(freed, fullAt);
  }

  #availableAt(permits: number): number {
    const taken = this.#taken;
    const segments = taken.length;
    const { permitLimit } = this.#settings;
    // More than a window's permits: what comes back within a window will be taken, and comes back a window later.
    const windows = Math.floor((permits - 1) / permitLimit);
    let missing = permits - windows * permitLimit - this[ownQueue].available;
    if (windows > 0 && missing <= 0) return this.#boundaryIn(windows * segments);
    missing = Math.max(1, missing);
    for (let age = 1; age <= segments; age++) {
      missing -= taken[(this.#position + age) % segments] as number;
      if (missing <= 0) return this.#boundaryIn(windows * segments + age);
    }
    return this.#boundaryIn((windows + 1) * segments);
  }

  #boundaryIn(segments: number): number {
    return boundaryAt(this.#start, this.#settings.segmentMs, (this.#isAuto ? this.#segment : 0) + segments);
  }

  get #isAuto(): boolean {
    return this[ownQueue].settings.isAuto;
  }

  #lend(permits: number): RateLimitLease {
    this.#taken[this.#position] = (this.#taken[this.#position] as number) + permits;
    return new ChargedLease(this[ownQueue], permits, this.#segment);
  }

  #charge(permits: number, segment: number, now: number): number {
    const segments = this.#taken.length;
    const hasLeft = this.#segment - segment >= segments;
    const charged = hasLeft ? this.#segment : segment;
    if (hasLeft && permits < 0) return charged;
    const position = (this.#position - (this.#segment - charged) + segments) % segments;
    this.#taken[position] = (this.#taken[position] as number) + permits;
    this[ownQueue].charge(permits, now);
    return charged;
  }
}
