/// <reference lib="esnext.disposable" preserve="true" />
import { type AcquireOptions, takesAnyPermit } from "../contract/acquire-options.js";
import { type Inside, inside } from "../contract/inside.js";
import { MetadataName } from "../contract/metadata-name.js";
import { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import { checkInteger, checkPermitCount } from "../contract/validation.js";
import type { CodelOptions } from "../queue/codel.js";
import type { PermitAlgorithm } from "../queue/permit-algorithm.js";
import { PermitQueue } from "../queue/permit-queue.js";
import {
  QUEUE_OPTION_NAMES,
  type QueueOptions,
  QueueSettings,
  shareSettings,
} from "../queue/queue-settings.js";

const OPTION_NAMES = ["permitLimit", "codel", ...QUEUE_OPTION_NAMES];

/*
 * How much may run at the same time.
 *
 * The question: a dependency handles 10 calls at once; the eleventh makes all of them slow. The naive answer counts up
 * before a call and down after it, and loses count with the first error path that forgets the second half; and it has
 * nothing for the eleventh caller but an error. Here the count is a lease that is given back exactly once, and the
 * eleventh may wait its turn.
 *
 * The limit says nothing about time: with calls of 100 ms, 10 permits let 100 calls a second through; when the
 * dependency slows down to 1 s, the same 10 permits let 10 through. That is the point, and the surprise: throughput
 * follows the dependency (permits = rate × duration, Little's law).
 *
 * Permits are counted down from the limit and back up, so that a limit that is lowered while more is held needs no case
 * of its own: 10 held of 10, limit set to 4: available is -6, shown as 0, and 7 leases have to come back before the
 * next is granted.
 */

/**
 * Options of a {@link ConcurrencyLimiter}.
 *
 * @public
 */
export interface ConcurrencyLimiterOptions extends QueueOptions {
  /** How many permits may be held at the same time: an integer of at least 1. Required. */
  readonly permitLimit: number;
  /**
   * Sheds from a queue that stands too long: some of those who have waited longest are refused with `codel`, so that the others
   * are served soon. Off by default; an error together with an order other than `oldestFirst`, since it goes by the wait of the
   * oldest.
   */
  readonly codel?: CodelOptions | undefined;
}

class ConcurrencySettings extends QueueSettings<ConcurrencyLimiter> {
  readonly permitLimit: number;

  constructor(options: ConcurrencyLimiterOptions, algorithm: PermitAlgorithm<ConcurrencyLimiter>) {
    const { permitLimit } = options;
    checkInteger("options.permitLimit", permitLimit, 1);
    super(options, algorithm);
    this.permitLimit = permitLimit;
  }
}

/**
 * Limits how much runs at the same time; a semaphore with a bounded queue, also known as a bulkhead.
 *
 * Up to `permitLimit` permits are held at any moment. A permit is held from the grant until the lease is disposed, and
 * goes to the first waiter in that very call. Nothing about it depends on time: acquiring and disposing reads no clock and
 * sets no timer, unless a pause or a caller's `maxWaitMs` asks for it.
 *
 * Fairness: with `oldestFirst` nobody passes a waiter, neither a newcomer nor a smaller request behind a large one. The
 * cost is that a large request at the head blocks small ones that would fit. When an abort and a grant meet, the
 * earlier wins: a lease that was granted stays granted, and its holder disposes it.
 *
 * Models .NET's `ConcurrencyLimiter`. Refused leases carry `reason`; those of an `acquire` that found no place to wait
 * carry the reason phrase `Queue limit reached` too. All leases carry `LIMIT` and `REMAINING`. Different from .NET: aborting the waiter
 * at the head lets those behind it through at once, and `idleDurationMs` is measured from the first time somebody looks
 * after the last permit came back, since an undisturbed lease never reads the clock.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 *
 * const limiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 100 });
 *
 * async function query(sql: string, run: (sql: string) => Promise<string[]>): Promise<string[]> {
 *   using lease = (await limiter.acquire()).orThrow();
 *   return await run(sql);
 * }
 * ```
 *
 * @public
 */
export class ConcurrencyLimiter extends RateLimiter {
  static readonly #algorithm: PermitAlgorithm<ConcurrencyLimiter> = {
    limiterName: "ConcurrencyLimiter",
    metadataNames: [
      MetadataName.reasonPhrase.name,
      MetadataName.rejectionReason.name,
      MetadataName.retryAfter.name,
      MetadataName.limit.name,
      MetadataName.remaining.name,
    ],
    permitLimit: (limiter) => limiter.#permitLimit,
    lend: (limiter, permits) => limiter.#lend(permits),
  };

  static readonly #recentSettings: ConcurrencySettings[] = [];

  readonly #queue: PermitQueue<ConcurrencyLimiter, ConcurrencySettings>;
  #permitLimit: number;

  /**
   * @param options - `permitLimit`, and optionally `queueLimit`, `queueProcessingOrder`, `queueTimeoutMs`, `codel` and
   * `clock`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: ConcurrencyLimiterOptions) {
    super();
    const settings = shareSettings(
      ConcurrencyLimiter.#recentSettings,
      options,
      OPTION_NAMES,
      (given) => new ConcurrencySettings(given, ConcurrencyLimiter.#algorithm),
    );
    this.#permitLimit = settings.permitLimit;
    this.#queue = new PermitQueue(this, settings, this.#permitLimit);
  }

  /**
   * The most permits that are held at the same time: an integer of at least 1.
   *
   * Can be set while the limiter is in use. Raising it serves waiters in that very call. Lowering it takes nothing away:
   * new permits are granted once enough have come back. A waiter for more than the new limit is refused at once with
   * `limit_reached`.
   *
   * @throws TypeError or RangeError when set to something else; nothing has changed then.
   */
  get permitLimit(): number {
    return this.#permitLimit;
  }

  set permitLimit(permitLimit: number) {
    checkInteger("permitLimit", permitLimit, 1);
    const more = permitLimit - this.#permitLimit;
    this.#permitLimit = permitLimit;
    this.#queue.changeLimit(permitLimit, more);
  }

  override attemptAcquire(permitCount = 1): RateLimitLease {
    const queue = this.#queue;
    return queue.take(permitCount) ? this.#lend(permitCount) : queue.attemptHeld(permitCount);
  }

  override acquire(permitCount?: number, options?: AcquireOptions): Promise<RateLimitLease>;
  override acquire(options: AcquireOptions): Promise<RateLimitLease>;
  override acquire(
    permitCount: number | AcquireOptions = 1,
    options?: AcquireOptions,
  ): Promise<RateLimitLease> {
    if (options === undefined && typeof permitCount === "number" && this.#queue.take(permitCount)) {
      return Promise.resolve(this.#lend(permitCount));
    }
    return super.acquire(permitCount as number, options);
  }

  /**
   * Grants nothing for `durationMs`: attempts are refused with `server_pause` and the time left, those who may wait
   * wait. Never shortens an earlier pause. This is how a server's Retry-After reaches everybody who shares the limiter.
   * Does nothing on a disposed limiter.
   *
   * @param durationMs - Milliseconds, above 0 and finite.
   * @throws TypeError or RangeError when it is not.
   */
  pause(durationMs: number): void {
    this.#queue.pause(durationMs);
  }

  /**
   * How long a request would wait, in milliseconds, if it were made now; 0 when it would be granted at once. Goes by the pace
   * at which permits are handed over to those who wait; undefined until 10 have been, and when the last was long ago. Changes
   * nothing.
   *
   * @throws TypeError, RangeError or {@link LimiterDisposedError} as `attemptAcquire` does.
   */
  estimateWaitMs(permitCount = 1): number | undefined {
    return this.#queue.estimateWaitMs(permitCount);
  }

  override getStatistics(): RateLimiterStatistics {
    return this.#queue.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#queue.idleDurationMs();
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.attemptAcquire(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    const queue = this.#queue;
    return takesAnyPermit(options) && !queue.usesPriority && queue.take(permitCount)
      ? this.#lend(permitCount)
      : queue.acquire(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#queue.dispose();
  }

  /** @internal */
  get [inside](): Inside {
    return this.#queue;
  }

  #lend(permits: number): RateLimitLease {
    // Nobody reads the clock when the permits come back, so it is not known since when they are there.
    if (permits > 0) this.#queue.fullSince = Number.NaN;
    return new ConcurrencyLease(this.#queue, permits);
  }
}

/** Stands for the permits of a lease that has been disposed. */
const RETURNED = -1;

/** Holds permits until it is disposed. */
class ConcurrencyLease extends RateLimitLease {
  readonly #queue: PermitQueue<ConcurrencyLimiter>;
  #permits: number;

  constructor(queue: PermitQueue<ConcurrencyLimiter>, permits: number) {
    super();
    this.#queue = queue;
    this.#permits = permits;
  }

  override get isAcquired(): boolean {
    return true;
  }

  override get metadataNames(): Iterable<string> {
    return this.#queue.metadataNames;
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.#queue.standing(name);
  }

  override adjust(actualPermits: number): void {
    if (this.#permits === RETURNED) return;
    checkPermitCount(actualPermits, "actualPermits");
    const surplus = this.#permits - actualPermits;
    this.#permits = actualPermits;
    if (surplus < 0) this.#queue.fullSince = Number.NaN;
    this.#queue.giveBack(surplus);
  }

  override dispose(): void {
    const permits = this.#permits;
    if (permits === RETURNED) return;
    this.#permits = RETURNED;
    this.#queue.giveBack(permits);
  }

  override refund(): void {
    this.dispose();
  }
}
