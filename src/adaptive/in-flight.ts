import { LimiterDisposedError } from "../contract/errors.js";
import type { LeaseOutcome } from "../contract/outcome.js";
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
  }

  /** Whether nothing is held and something may be. */
  get isUnused(): boolean {
    return this.permits === 0 && this.permitLimit > 0;
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

  dispose(): void {
    this.#isDisposed = true;
    this.#unsubscribe();
    for (const share of this.shares) share.queue.dispose();
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
    const { limit } = this.limit;
    if (limit === this.permitLimit) return;
    if (!Number.isSafeInteger(limit) || limit < 0) {
      const error = new RangeError(`limit must be an integer from 0; got ${String(limit)}.`);
      tellOf(this.#onDiagnostic, "limit_failed", error);
      return;
    }
    const more = limit - this.permitLimit;
    this.permitLimit = limit;
    if (this.#isShared) this.#divide();
    else this.shares[0].queue.available += more;
  }

  /** Tells each share what it may count on. */
  #divide(): void {
    for (const share of this.shares) {
      // Work without a share can count on nothing.
      share.permitLimit =
        share === this.shares[0] ? 0 : Math.max(1, Math.ceil(this.permitLimit * share.fraction - ROUNDING));
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

  /** Serves who can go now. */
  #serve(): void {
    if (this.#isShared) this.#serveShares();
    else this.shares[0].queue.offer();
  }

  /** Serves of several shares first the one whose first waiter is first. */
  #serveShares(): void {
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
