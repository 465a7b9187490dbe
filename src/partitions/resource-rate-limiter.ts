/// <reference lib="esnext.disposable" preserve="true" />
import type { AcquireOptions } from "../contract/acquire-options.js";
import type { Clock } from "../contract/clock.js";
import { LimiterDisposedError } from "../contract/errors.js";
import {
  type AcquireSink,
  type AcquireTicket,
  type Inside,
  type InsideLimiter,
  inside,
  type LimiterSnapshot,
} from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import type { RejectionReason } from "../contract/rejection-reason.js";
import { checkDuration, checkPermitCount } from "../contract/validation.js";

/**
 * The limiter of one resource of a partitioned limiter; see `PartitionedRateLimiter.forResource`.
 *
 * Only acquiring, attempting and pausing make the partition. While there is none, statistics and estimates are undefined, and
 * `idleDurationMs` is infinite. (A chain or a limiter that a user wrote does not tell about partitions. Its statistics are
 * what `getStatistics` says.)
 *
 * @public
 */
export interface ResourceRateLimiter extends RateLimiter {
  /**
   * Pauses the resource's partition, which is made if need be; see `ConcurrencyLimiter.pause`.
   *
   * @param durationMs - Milliseconds, above 0 and finite.
   * @throws TypeError or RangeError when `durationMs` is not that. TypeError when nothing can be paused: the limiter has no
   * `pause` method, there is no room for the partition, or the partitioned limiter was not made by
   * `PartitionedRateLimiter.create`.
   */
  pause(durationMs: number): void;
  /**
   * How long a request would wait, in milliseconds. Undefined when there is no partition yet, and when its limiter cannot
   * tell.
   *
   * @param permitCount - How many permits; 1 by default.
   * @throws As `attemptAcquire` does.
   */
  estimateWaitMs(permitCount?: number): number | undefined;
}

/** What a {@link ResourceLimiter} asks. */
export interface ResourceAccess {
  /** The clock that the limiter behind the resource lives by, where that is known. */
  readonly clock: Clock | undefined;
  attempt(permitCount: number): RateLimitLease;
  acquire(permitCount: number, options: AcquireOptions): RateLimitLease | Promise<RateLimitLease>;
  acquireWith(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket;
  getStatistics(): RateLimiterStatistics | undefined;
  /** How long the resource has been idle while `peek` finds no limiter. */
  readonly idleDurationMs: number | undefined;
  /** Whether a request would find room while `peek` finds no limiter. */
  readonly hasRoom: boolean;
  /** Fails when the partitioned limiter has been disposed, as far as that is known. */
  checkUsable(): void;
  /** The limiter behind the resource, if there is one; never makes one, and never fails. */
  peek(): RateLimiter | undefined;
  /** The limiter behind the resource, to be paused, made if need be; or why there is none. */
  get(): RateLimiter | string;
}

/** What many limiters can do besides the contract. */
type Pausable = RateLimiter & Partial<Pick<ResourceRateLimiter, "pause" | "estimateWaitMs">>;

export class ResourceLimiter extends RateLimiter implements ResourceRateLimiter, Inside {
  readonly #access: ResourceAccess;
  #isDisposed = false;

  constructor(access: ResourceAccess) {
    super();
    this.#access = access;
  }

  pause(durationMs: number): void {
    checkDuration("durationMs", durationMs);
    const limiter: Pausable | string = this.#usable.get();
    const why = typeof limiter === "string" ? limiter : noPause(limiter);
    if (why !== undefined) throw new TypeError(`This resource cannot be paused: ${why}.`);
    (limiter as ResourceRateLimiter).pause(durationMs);
  }

  estimateWaitMs(permitCount = 1): number | undefined {
    checkPermitCount(permitCount);
    const limiter: Pausable | undefined = this.#look();
    return limiter?.estimateWaitMs?.(permitCount);
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#usable.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    const limiter = this.#look();
    return limiter === undefined ? this.#access.idleDurationMs : limiter.idleDurationMs;
  }

  /** @internal */
  get [inside](): Inside {
    return this;
  }

  get clock(): Clock | undefined {
    return this.#access.clock;
  }

  get usesPriority(): boolean {
    return this.#door?.usesPriority === true;
  }

  hasRoom(permitCount: number): boolean {
    return this.#access.peek() === undefined
      ? this.#access.hasRoom
      : this.#door?.hasRoom(permitCount) === true;
  }

  acquireWith(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    return this.#usable.acquireWith(permitCount, options, sink);
  }

  snapshot(into: LimiterSnapshot): boolean {
    return !this.#isDisposed && this.#door?.snapshot(into) === true;
  }

  forEachRefusal(visit: (reason: RejectionReason, count: number) => void): void {
    this.#door?.forEachRefusal?.(visit);
  }

  queuedByPriority(): Map<number, number> {
    return this.#door?.queuedByPriority() ?? new Map();
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#usable.attempt(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return this.#usable.acquire(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#isDisposed = true;
  }

  get #usable(): ResourceAccess {
    if (this.#isDisposed) throw new LimiterDisposedError("RateLimiter of a resource");
    return this.#access;
  }

  /** The limiter behind the resource, if there is one, for those who may be told that there will be none any more. */
  #look(): RateLimiter | undefined {
    this.#usable.checkUsable();
    return this.#access.peek();
  }

  /** The inside of the limiter behind the resource, if there is one. */
  get #door(): Inside | undefined {
    const limiter: InsideLimiter | undefined = this.#access.peek();
    return limiter?.[inside];
  }
}

/** Why a limiter cannot be paused; undefined when it can. */
function noPause(limiter: Pausable): string | undefined {
  if (typeof limiter.pause === "function") return undefined;
  return `its limiter, a ${limiter.constructor.name}, has no pause method`;
}
