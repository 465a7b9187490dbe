import { LimiterDisposedError } from "../contract/errors.js";
import type { LeaseOutcome } from "../contract/outcome.js";
import { checkFunction, checkInteger } from "../contract/validation.js";
import { deliver } from "../queue/delivery.js";
import type { QueueSettings } from "../queue/queue-settings.js";
import type { Waiter } from "../queue/waiter.js";
import { type AdaptiveSettings, UNKNOWN } from "./adaptive-options.js";
import { type AdaptiveDiagnostic, type Limit, tellOf } from "./limit.js";
import { LIMITER_NAME, Share } from "./share.js";

/*
 * What is in flight, and how much of it may be.
 *
 * Without shares: the queue has `limit - in flight` permits to give, as in a ConcurrencyLimiter, and the limit moves.
 *
 * With shares each kind of work has a queue of its own, so that those who wait block only their like. What such a queue has to
 * give follows from two numbers: what is free of the whole limit, and what the share has not used of its own part. By the soft
 * rule it is the larger of the two. Limit 10, live 7, batch 3: ten batch jobs may run while nothing else does; seven live ones
 * are then still admitted, and 17 are in flight; no further batch job is, until fewer than 3 of them run or fewer than 10 jobs
 * do. By the hard rule what others have not used of their parts is kept free: three batch jobs may run, and no more, since the
 * other seven permits are for live work.
 *
 * Parts are rounded up, and are 1 at least: of a limit of 10, 0.31 and 0.55 make 4 and 6. Work that has no share can count on
 * nothing; it gets what is free.
 *
 * The order of work at the end of a lease: the permits come back, the outcome is counted, the algorithm learns and may move
 * the limit, and then those who wait are served, once. So an algorithm that throws cannot keep a permit.
 */

/** The product of a limit and a share, such as 100 × 0.07, may come out a little above a whole number. */
const ROUNDING = 1e-9;

export class InFlight {
  readonly limit: Limit;
  /** The limit as it is followed: that of the algorithm, unless that has gone wrong. */
  permitLimit: number;
  /** The highest limit so far. */
  #highestLimit: number;
  /** The most that one request may ask for. */
  readonly mostPermits: number;
  /** Permits that are held, by all. */
  permits = 0;
  /** First of them all work that has no share. */
  readonly shares: readonly [Share, ...Share[]];
  succeeded = 0;
  failed = 0;
  dropped = 0;
  ignored = 0;
  bypassed = 0;
  readonly #isHard: boolean;
  readonly #onDiagnostic: ((diagnostic: AdaptiveDiagnostic) => void) | undefined;
  readonly #unsubscribe: () => void;
  readonly #isShared: boolean;
  #isLearning = false;
  #isDisposed = false;

  constructor(settings: AdaptiveSettings, queueSettings: QueueSettings<Share>) {
    this.limit = settings.limit;
    this.permitLimit = settings.limit.limit;
    this.#highestLimit = this.permitLimit;
    this.mostPermits = settings.mostPermits;
    this.#isHard = settings.isHard;
    this.#onDiagnostic = settings.onDiagnostic;
    this.shares = [
      new Share(UNKNOWN, this, queueSettings, 0, 0),
      ...Array.from(
        settings.shares,
        ([name, { share, rejectDelayMs }]) => new Share(name, this, queueSettings, share, rejectDelayMs),
      ),
    ];
    this.#isShared = this.shares.length > 1;
    if (this.#isShared) this.#divide();
    this.#unsubscribe = settings.limit.onChange(() => {
      this.#follow();
      if (!this.#isLearning) this.#serve();
    });
    checkFunction("the result of options.limit.onChange()", this.#unsubscribe);
  }

  /**
   * Whether a share gets more than there is for it, since nothing will ever come back that it could wait for: when nothing at all
   * is held; and, so that others cannot keep it out for ever, when it holds nothing itself and waits for more than the whole
   * limit. A newcomer gets what would have fitted once, before the limit fell, and not more. By the hard rule, work without a
   * share takes from nobody's part.
   */
  mayOverdraw(share: Share, permits: number, isWaiting: boolean): boolean {
    if (this.permitLimit === 0 || (!isWaiting && permits > this.#highestLimit)) return false;
    const isUnknown = this.#isShared && share === this.shares[0];
    if (this.#isHard && isUnknown) return false;
    if (this.permits === 0) return true;
    return !this.#isHard && !isUnknown && isWaiting && share.held === 0 && permits > this.permitLimit;
  }

  /** Counts permits that a share has just taken from its queue. */
  take(share: Share, permits: number): void {
    this.permits += permits;
    share.held += permits;
    if (this.#isShared) this.#spread();
  }

  /** Counts permits that a lease holds in addition, or no longer when negative. */
  adjust(share: Share, more: number): void {
    this.#putBack(share, -more);
    this.#serve();
  }

  /** The end of a lease. */
  complete(
    share: Share,
    permits: number,
    outcome: LeaseOutcome,
    startTime: number,
    rtt: number,
    inFlight: number,
  ): void {
    this.#putBack(share, permits);
    if (outcome === "success") this.succeeded += 1;
    else if (outcome === "failure") this.failed += 1;
    else if (outcome === "dropped") this.dropped += 1;
    else this.ignored += 1;
    if (outcome !== "ignored") this.#learn(outcome, startTime, rtt, inFlight);
    this.#serve();
  }

  /** Fails when the limiter has been disposed. */
  checkUsable(): void {
    if (this.#isDisposed) throw new LimiterDisposedError(LIMITER_NAME);
  }

  /** Ends everything; nobody who waits is told before all of it has ended. */
  dispose(): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    for (const share of this.shares) share.queue.close();
    try {
      this.#unsubscribe();
    } catch (error) {
      tellOf(this.#onDiagnostic, "limit_failed", error);
    }
  }

  /** Serves who waits, when the pause of a share is over; those of others may be too. */
  serveAfterPause(): void {
    for (const { queue } of this.shares) queue.resume(undefined);
    this.#serveShares();
  }

  #learn(outcome: LeaseOutcome, startTime: number, rtt: number, inFlight: number): void {
    const wasLearning = this.#isLearning;
    this.#isLearning = true;
    try {
      this.limit.onSample(startTime, rtt, inFlight, outcome, this.permits);
    } catch (error) {
      tellOf(this.#onDiagnostic, "limit_failed", error);
    }
    this.#isLearning = wasLearning;
    // An algorithm of the user's own may have moved its limit and told nobody.
    this.#follow();
  }

  #putBack(share: Share, permits: number): void {
    this.permits -= permits;
    share.held -= permits;
    if (permits < 0) share.queue.fullSince = Number.NaN;
    if (this.#isShared) this.#spread();
    else share.queue.available += permits;
  }

  /** Takes over the limit of the algorithm. */
  #follow(): void {
    let limit: number;
    try {
      limit = this.limit.limit;
      if (limit === this.permitLimit) return;
      checkInteger("limit", limit, 0);
    } catch (error) {
      tellOf(this.#onDiagnostic, "limit_failed", error);
      return;
    }
    const more = limit - this.permitLimit;
    this.permitLimit = limit;
    this.#highestLimit = Math.max(this.#highestLimit, limit);
    if (this.#isShared) this.#divide();
    else this.shares[0].queue.available += more;
  }

  /** Tells each share what it may count on. */
  #divide(): void {
    for (const share of this.shares) {
      // Work without a share can count on nothing, and nobody can on a limit of 0.
      const isNothing = share === this.shares[0] || this.permitLimit === 0;
      share.permitLimit = isNothing
        ? 0
        : Math.max(1, Math.ceil(this.permitLimit * share.fraction - ROUNDING));
    }
    this.#spread();
  }

  /** Tells each share's queue what it has to give. */
  #spread(): void {
    const free = this.permitLimit - this.permits;
    const kept = this.#isHard
      ? this.shares.reduce((sum, share) => sum + Math.max(0, share.permitLimit - share.held), 0)
      : 0;
    for (const share of this.shares) {
      const own = share.permitLimit - share.held;
      share.queue.available = this.#isHard
        ? Math.max(Math.min(free, own), free - (kept - Math.max(0, own)))
        : Math.max(free, own);
    }
  }

  /** Serves who can go now, and then tells them. */
  #serve(): void {
    if (this.#isShared) this.#serveShares();
    else this.shares[0].queue.offer();
    deliver();
  }

  /** Serves of several shares first the one whose first waiter is first. */
  #serveShares(): void {
    if (!this.shares.some((share) => share.queue.firstWaiter !== undefined)) return;
    const waiting = this.shares.filter((share) => share.queue.firstWaiter !== undefined);
    const order = this.shares[0].queue.settings.queueProcessingOrder;
    waiting.sort((a, b) => {
      const first = a.queue.firstWaiter as Waiter;
      const second = b.queue.firstWaiter as Waiter;
      if (order === "newestFirst") return second.arrival - first.arrival;
      return second.priority - first.priority || first.arrival - second.arrival;
    });
    for (const share of waiting) share.queue.offer();
  }
}
