import type { AcquireOptions } from "../contract/acquire-options.js";
import { type Inside, inside } from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter, request } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import { deliver } from "../queue/delivery.js";
import { QueueSettings } from "../queue/queue-settings.js";
import { type AdaptiveConcurrencyLimiterOptions, readAdaptiveOptions } from "./adaptive-options.js";
import { BypassLimiter } from "./bypass-limiter.js";
import { InFlight } from "./in-flight.js";
import type { Limit } from "./limit.js";
import { RejectDelays } from "./reject-delays.js";
import { SHARE_ALGORITHM, type Share, WHOLE_ALGORITHM } from "./share.js";
import { ShareLimiter } from "./share-limiter.js";

/**
 * One share of an {@link AdaptiveConcurrencyLimiter} at one moment.
 *
 * @public
 */
export interface AdaptiveShareStatistics {
  /** Permits that it may count on; 0 for `unknown`. */
  readonly permitLimit: number;
  /** Permits that it holds. */
  readonly inFlight: number;
  /** Permits that those who wait in it have asked for. */
  readonly queued: number;
}

/**
 * What an {@link AdaptiveConcurrencyLimiter} looked like at one moment.
 *
 * @public
 */
export interface AdaptiveConcurrencyStatistics extends RateLimiterStatistics {
  /** How many permits may be held now. */
  readonly permitLimit: number;
  /** How many are. Above `permitLimit` for a while after that has fallen. */
  readonly inFlight: number;
  /** Leases that ended, by what was reported. */
  readonly succeeded: number;
  readonly failed: number;
  readonly dropped: number;
  readonly ignored: number;
  /** Leases of `forBypass()`. */
  readonly bypassed: number;
  /** Refusals that are held back at the moment. */
  readonly delayed: number;
  /** The shares by name, with `unknown` for work that has none; empty when none were asked for. */
  readonly shares: ReadonlyMap<string, AdaptiveShareStatistics>;
}

/**
 * Limits how much runs at the same time, and finds out by itself how much that should be.
 *
 * Nobody knows the right limit for long: it changes with every deployment, with the load on a neighbour, with the data. What
 * can be seen is how long the work takes. While more at a time does not make it slower, there is room; once it does, what was
 * added only waits inside the resource. An algorithm, a {@link Limit}, watches that and moves the limit; the rest is as with
 * a `ConcurrencyLimiter`: the same leases, the same queue, the same refusals.
 *
 * **Leases report.** The limiter learns only from leases that say how the work went: `withLease` and the adapters of this
 * library do that; by hand it is `lease.report("success")` or `lease.report("dropped")`, which also marks the end of the work.
 * A lease that reports nothing counts as `ignored`. Time spent in the queue is not part of the work. When a lease ends, its
 * permits come back first, then the algorithm learns, then those who wait are served; all in the call of `dispose`.
 *
 * **When the limit falls**, nothing is taken away; new permits are granted once enough have come back. Nobody who waits is
 * refused for that. While nothing at all is in flight, whoever is first of those who wait gets what they want, however much
 * that is, and a newcomer what would have fitted before the limit fell: otherwise they would wait or be refused without end.
 *
 * **Shares.** `shares: { live: 0.7, batch: 0.3 }` divides the limit among kinds of work; `forShare("live")` is the limiter
 * for one of them. A share may use what is free of the whole limit, and can count on its own part even when others have
 * used the rest (see `shareRule`). Each share has a queue of its own, of `queueLimit` permits. Refusals say `share_exceeded`,
 * or `queue_full`. What is acquired from the limiter itself has the share `unknown`, which can count on nothing. Health checks and the like
 * go through `forBypass()`.
 *
 * Costs two clock reads for each lease that reports, one for a lease that does not, none for a refusal. Sets no timer, unless
 * somebody waits with a deadline. A permit that is never given back is lost for good: use `using`.
 *
 * There is no such limiter in .NET; the idea and several algorithms are those of Netflix's concurrency-limits.
 *
 * @example
 * ```ts
 * import { withLease } from "headgate";
 * import { AdaptiveConcurrencyLimiter } from "headgate/adaptive";
 *
 * const limiter = new AdaptiveConcurrencyLimiter({ initialLimit: 50, queueLimit: 20, queueTimeoutMs: 500 });
 *
 * async function query(sql: string, run: (sql: string) => Promise<string[]>): Promise<string[]> {
 *   return await withLease(limiter, () => run(sql));
 * }
 * ```
 *
 * @public
 */
export class AdaptiveConcurrencyLimiter extends RateLimiter {
  readonly #inFlight: InFlight;
  readonly #delays: RejectDelays;
  readonly #whole: ShareLimiter;
  readonly #unknown: Share;
  readonly #shares = new Map<string, ShareLimiter>();
  #bypass: BypassLimiter | undefined = undefined;

  /**
   * @param options - Everything has a default.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: AdaptiveConcurrencyLimiterOptions = {}) {
    super();
    const settings = readAdaptiveOptions(options);
    const algorithm = settings.shares.size > 0 ? SHARE_ALGORITHM : WHOLE_ALGORITHM;
    const queueSettings = new QueueSettings(options, algorithm);
    this.#delays = new RejectDelays(queueSettings, settings.maxDelayed);
    this.#inFlight = new InFlight(settings, queueSettings);
    const { shares } = this.#inFlight;
    this.#unknown = shares[0];
    this.#whole = new ShareLimiter(this.#unknown, this.#delays, shares);
    for (const share of shares.slice(1)) {
      this.#shares.set(share.name, new ShareLimiter(share, this.#delays, [share]));
    }
  }

  /** How many permits may be held at the same time now; moved by the algorithm. */
  get permitLimit(): number {
    return this.#inFlight.permitLimit;
  }

  /** The algorithm that moves the limit; `limit.describe?.()` tells what it goes by. */
  get limit(): Limit {
    return this.#inFlight.limit;
  }

  /**
   * The limiter for one share. Acquire from it as from any other, hand it to `withLease`, or make it a partition:
   * `RateLimitPartition.get(name, (key) => limiter.forShare(key))`. It belongs to this limiter: disposing it does nothing.
   *
   * @param name - One of `shares`. Any other means that of work that has no share, so that names from traffic are no error.
   */
  forShare(name: string): RateLimiter {
    return this.#shares.get(name) ?? this.#whole;
  }

  /**
   * A limiter that grants everything at once, counts it as `bypassed`, and holds and teaches nothing: for health checks, and
   * for operators who have to get through. Disposing it does nothing.
   */
  forBypass(): RateLimiter {
    this.#bypass ??= new BypassLimiter(this.#inFlight);
    return this.#bypass;
  }

  override attemptAcquire(permitCount = 1): RateLimitLease {
    const share = this.#unknown;
    return share.queue.take(permitCount) ? share.lend(permitCount) : share.queue.attemptHeld(permitCount);
  }

  override acquire(permitCount?: number, options?: AcquireOptions): Promise<RateLimitLease>;
  override acquire(options: AcquireOptions): Promise<RateLimitLease>;
  override acquire(permitCount?: number | AcquireOptions, options?: AcquireOptions): Promise<RateLimitLease> {
    return this.#whole.acquire(permitCount as number, options);
  }

  /**
   * Grants nothing for `durationMs`: attempts are refused with `server_pause` and the time left, those who may wait wait. Never
   * shortens an earlier pause. Does nothing on a disposed limiter.
   *
   * @param durationMs - Milliseconds, above 0 and finite.
   * @throws TypeError or RangeError when it is not.
   */
  pause(durationMs: number): void {
    this.#whole.pause(durationMs);
  }

  /**
   * How long a request would wait, in milliseconds, if it were made now; 0 when it would be granted at once. Goes by the pace
   * at which permits are handed over to those who wait; undefined until 10 have been, and when the last was long ago. Changes
   * nothing.
   *
   * @throws TypeError, RangeError or `LimiterDisposedError` as `attemptAcquire` does.
   */
  estimateWaitMs(permitCount = 1): number | undefined {
    return this.#whole.estimateWaitMs(permitCount);
  }

  override getStatistics(): AdaptiveConcurrencyStatistics {
    const whole = this.#whole.getStatistics();
    const { succeeded, failed, dropped, ignored, bypassed, permits, permitLimit, shares } = this.#inFlight;
    const named = shares.length > 1 ? shares : [];
    return Object.freeze({
      ...whole,
      permitLimit,
      inFlight: permits,
      succeeded,
      failed,
      dropped,
      ignored,
      bypassed,
      delayed: this.#delays.count,
      shares: new Map(
        named.map((share) => [
          share.name,
          Object.freeze({
            permitLimit: share.permitLimit,
            inFlight: share.held,
            queued: share.queue.getStatistics().currentQueuedCount,
          }),
        ]),
      ),
    });
  }

  override get idleDurationMs(): number | undefined {
    return this.#whole.idleDurationMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#whole.attemptAcquire(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return request(this.#whole, permitCount, options);
  }

  protected override disposeCore(): void {
    this.#inFlight.dispose();
    this.#delays.close();
    deliver();
  }

  /** @internal */
  get [inside](): Inside {
    return this.#whole;
  }
}
