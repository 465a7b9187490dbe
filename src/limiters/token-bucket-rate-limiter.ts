/// <reference lib="esnext.disposable" preserve="true" />
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { checkChoice, checkDuration, checkInteger } from "../contract/validation.js";
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
import { TokenRate } from "./token-rate.js";

/*
 * A steady rate, with a reserve for bursts.
 *
 * The question: 10 calls a second on average, but a burst of 50 now and then does no harm. A window of 10 per second
 * refuses the burst; a window of 50 per 5 seconds lets 100 through around a boundary. The bucket keeps the two apart: it
 * holds up to `tokenLimit` tokens (the burst), every permit takes one, and `tokensPerPeriod` come back each period (the
 * rate).
 *
 * Example, 50 tokens, 10 per 1000 ms, stepped: a burst of 50 at 0 empties the bucket. An attempt for 1 at 300 ms is
 * refused and told to come back in 700 ms; one for 25 at the same moment in 2700 ms, when three steps have brought 30.
 * Continuous, the same bucket has 3 tokens at 300 ms.
 *
 * The surprise: a bucket that has been left alone is full, so after a quiet time the burst comes on top of the rate: in a
 * span of t periods up to tokenLimit + t × tokensPerPeriod are admitted (one step more, stepped, for a boundary on either
 * end). A bucket that stands in for a hard limit per window must count the burst into it. And a full bucket earns nothing:
 * time spent full is not saved up.
 */

/**
 * Options of a {@link TokenBucketRateLimiter}.
 *
 * @public
 */
export interface TokenBucketRateLimiterOptions extends ReplenishingOptions {
  /** How many tokens the bucket holds, which is the largest burst: an integer of at least 1. Required. */
  readonly tokenLimit: number;
  /** How many tokens come back each period: an integer of at least 1. What is above `tokenLimit` is lost. Required. */
  readonly tokensPerPeriod: number;
  /** How long a period is, in milliseconds: above 0, fractions down to 0.001 allowed, years if need be. Required. */
  readonly replenishmentPeriodMs: number;
  /**
   * How tokens come back in a limiter that replenishes itself. `stepped`, the default: `tokensPerPeriod` at once, at the
   * end of each period since the limiter was made. `continuous`: one by one, spread evenly over the period. (A manual
   * limiter always adds in proportion to the time since it last did.)
   */
  readonly refill?: "stepped" | "continuous" | undefined;
}

const OPTION_NAMES = [
  "tokenLimit",
  "tokensPerPeriod",
  "replenishmentPeriodMs",
  "refill",
  ...REPLENISHING_OPTION_NAMES,
];

class TokenBucketSettings extends QueueSettings<TokenBucketRateLimiter> {
  readonly tokenLimit: number;
  readonly tokensPerPeriod: number;
  readonly periodMs: number;
  /** Whether tokens come in steps, and not in proportion to time. */
  readonly isStepped: boolean;
  readonly rate: TokenRate;

  constructor(
    options: TokenBucketRateLimiterOptions,
    algorithm: PermitAlgorithm<TokenBucketRateLimiter>,
    recent: readonly TokenBucketSettings[],
  ) {
    const { tokenLimit, tokensPerPeriod, replenishmentPeriodMs, refill = "stepped" } = options;
    checkInteger("options.tokenLimit", tokenLimit, 1);
    checkInteger("options.tokensPerPeriod", tokensPerPeriod, 1);
    super(options, algorithm);
    checkDuration("options.replenishmentPeriodMs", replenishmentPeriodMs);
    checkChoice("options.refill", refill, REFILLS);
    this.tokenLimit = tokenLimit;
    this.tokensPerPeriod = tokensPerPeriod;
    this.periodMs = replenishmentPeriodMs;
    this.isStepped = this.isAuto && refill === "stepped";
    const alike = recent.find(
      (one) => one.tokensPerPeriod === tokensPerPeriod && one.periodMs === replenishmentPeriodMs,
    );
    this.rate = alike?.rate ?? new TokenRate(tokensPerPeriod, replenishmentPeriodMs);
  }
}

const REFILLS = ["stepped", "continuous"] as const;

/**
 * Limits the average rate, and lets bursts through from a reserve of tokens.
 *
 * The bucket starts full. In any span of t milliseconds at most `tokenLimit` + t / `replenishmentPeriodMs` ×
 * `tokensPerPeriod` permits are granted, rounded down; with stepped refill the steps within the span count, which may be
 * one more than t holds periods. A permit that was taken is not given back by disposing its lease.
 *
 * Arithmetic is exact, in ticks of a microsecond: whoever waits as long as `retryAfterMs` says finds the tokens there. No
 * timer runs, unless somebody waits: every call first brings the limiter up to the present. A clock that stands still or
 * goes back adds nothing. With `autoReplenishment: false` only `tryReplenish` adds tokens, in proportion to the time since
 * it last did, or since the bucket was last full.
 *
 * Refused leases carry `retryAfterMs`: the time until the tokens are there, those of the waiters ahead (with
 * `oldestFirst`) included. All leases carry `LIMIT`, `REMAINING` and `RESET_AFTER`. `lease.adjust` charges a cost that was
 * known only afterwards, into debt if need be. Models .NET's `TokenBucketRateLimiter`; different from it: a bucket that
 * stayed full earns nothing for that time, a waiter for 0 permits needs a whole token, and `retryAfterMs` is exact.
 *
 * @example
 * ```ts
 * import { TokenBucketRateLimiter } from "headgate";
 *
 * const limiter = new TokenBucketRateLimiter({
 *   tokenLimit: 50,
 *   tokensPerPeriod: 10,
 *   replenishmentPeriodMs: 1000,
 *   queueLimit: 100,
 * });
 * using lease = (await limiter.acquire()).orThrow();
 * ```
 *
 * @public
 */
export class TokenBucketRateLimiter extends QueuedReplenishingRateLimiter {
  static readonly #algorithm: PermitAlgorithm<TokenBucketRateLimiter> = {
    limiterName: "TokenBucketRateLimiter",
    metadataNames: REPLENISHING_METADATA,
    retryCountsQueue: true,
    permitLimit: (limiter) => limiter.#settings.tokenLimit,
    lend: (limiter, permits) => limiter.#lend(permits),
    charge: (limiter, permits, _, now) => limiter.#charge(permits, now),
    advance: (limiter, now) => limiter.#advance(now),
    availableAt: (limiter, permits) => limiter.#availableAt(permits),
  };

  static readonly #recentSettings: TokenBucketSettings[] = [];

  /** @internal */
  readonly [ownQueue]: PermitQueue<TokenBucketRateLimiter, TokenBucketSettings>;
  readonly #start: number;
  /** Up to which tick tokens have been counted; or, when they come in steps, how many steps have come. */
  #tick = 0;
  /** The part of the next token that was there at that tick; see `TokenRate`. */
  #part = 0;

  /**
   * @param options - `tokenLimit`, `tokensPerPeriod` and `replenishmentPeriodMs`, and optionally `refill`, `queueLimit`,
   * `queueProcessingOrder`, `queueTimeoutMs`, `autoReplenishment` and `clock`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: TokenBucketRateLimiterOptions) {
    super();
    const recent = TokenBucketRateLimiter.#recentSettings;
    const settings = shareSettings(
      recent,
      options,
      OPTION_NAMES,
      (given) => new TokenBucketSettings(given, TokenBucketRateLimiter.#algorithm, recent),
    );
    this[ownQueue] = new PermitQueue(this, settings, settings.tokenLimit);
    this.#start = this[ownQueue].fullSince;
  }

  override get replenishmentPeriodMs(): number {
    return this.#settings.periodMs;
  }

  /**
   * Adds the tokens that have accrued since this was last called, or since the bucket was last full. For limiters made with
   * `autoReplenishment: false`; others do this by themselves.
   *
   * @returns False for a limiter that replenishes itself, else true.
   */
  override tryReplenish(): boolean {
    if (this[ownQueue].settings.isAuto) return false;
    const now = this[ownQueue].clock.now();
    this.#advance(now);
    this.#accrue(now, now);
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

  get #settings(): TokenBucketSettings {
    return this[ownQueue].settings;
  }

  /** Brings the limiter up to the present. */
  #advance(now: number): void {
    const { settings, available } = this[ownQueue];
    if (settings.isStepped) {
      if (now >= boundaryAt(this.#start, settings.periodMs, this.#tick + 1)) {
        this.#step(lastBoundary(this.#start, settings.periodMs, now) - this.#tick);
      }
    } else if (available >= settings.tokenLimit) {
      this.#rest(now);
    } else if (settings.isAuto) {
      this.#accrue(now);
    }
  }

  #step(steps: number): void {
    const { tokenLimit, tokensPerPeriod } = this.#settings;
    const missing = tokenLimit - this[ownQueue].available;
    const fullAt = this.#boundaryIn(Math.ceil(missing / tokensPerPeriod));
    this.#tick += steps;
    if (missing > 0) this[ownQueue].replenish(Math.min(missing, steps * tokensPerPeriod), fullAt);
  }

  /** Lets time pass for which nothing is earned, since the bucket is full. */
  #rest(now: number): void {
    this.#tick = Math.max(this.#tick, TokenRate.tickAt(now, this.#start));
    this.#part = 0;
  }

  /** Adds what has accrued. If that fills the bucket, it has been full since `fullAt`, or since it was if that is left out. */
  #accrue(now: number, fullAt?: number): void {
    const { rate, tokenLimit } = this.#settings;
    const missing = tokenLimit - this[ownQueue].available;
    const elapsed = TokenRate.tickAt(now, this.#start) - this.#tick;
    const tokens = missing > 0 ? rate.tokensIn(elapsed, this.#part) : 0;
    if (tokens > 0) this.#earn(tokens, missing, elapsed, fullAt);
  }

  /** Not a part of `#accrue`, which is to be inlined: most calls find no whole token. */
  #earn(tokens: number, missing: number, elapsed: number, fullAt: number | undefined): void {
    const { rate } = this.#settings;
    const fullTick = tokens < missing ? 0 : rate.tickFor(missing, this.#tick, this.#part);
    this.#part = rate.partAfter(elapsed, this.#part);
    this.#tick += elapsed;
    if (tokens >= missing) this.#part = 0;
    this[ownQueue].replenish(Math.min(tokens, missing), fullAt ?? this.#start + TokenRate.msAt(fullTick));
  }

  #availableAt(permits: number): number {
    const { rate, tokenLimit, tokensPerPeriod, isStepped } = this.#settings;
    const { available } = this[ownQueue];
    const missing = Math.max(1, permits - available);
    if (!isStepped) return this.#start + TokenRate.msAt(rate.tickFor(missing, this.#tick, this.#part));
    if (tokensPerPeriod <= tokenLimit) return this.#boundaryIn(Math.ceil(missing / tokensPerPeriod));
    // What a step brings beyond the brim is lost: those who are ahead get no more out of it than a full bucket. The first
    // that counts is the one that ends a debt.
    const steps = Math.floor(Math.max(0, -available) / tokensPerPeriod) + 1;
    const left = permits - Math.min(tokenLimit, available + steps * tokensPerPeriod);
    return this.#boundaryIn(steps + Math.ceil(Math.max(0, left) / tokenLimit));
  }

  #boundaryIn(steps: number): number {
    return boundaryAt(this.#start, this.#settings.periodMs, this.#tick + steps);
  }

  #lend(permits: number): RateLimitLease {
    return new ChargedLease(this[ownQueue], permits, 0);
  }

  #charge(permits: number, now: number): number {
    const { tokenLimit, isStepped } = this.#settings;
    const missing = Math.max(0, tokenLimit - this[ownQueue].available);
    // What goes back beyond the brim is lost, like any other token, and so is the part of one that has accrued.
    if (permits <= -missing && !isStepped) this.#rest(now);
    this[ownQueue].charge(Math.max(permits, -missing), now);
    return 0;
  }
}
