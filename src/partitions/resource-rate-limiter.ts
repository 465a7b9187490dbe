/// <reference lib="esnext.disposable" preserve="true" />
import type { AcquireOptions } from "../contract/acquire-options.js";
import { LimiterDisposedError } from "../contract/errors.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";

/**
 * The limiter of one resource of a partitioned limiter; see `PartitionedRateLimiter.forResource`.
 *
 * @public
 */
export interface ResourceRateLimiter extends RateLimiter {
  /**
   * Pauses the resource's partition; see `ConcurrencyLimiter.pause`.
   *
   * @throws TypeError when the partition's limiter cannot be paused: one that a user wrote, or a chain.
   */
  pause(durationMs: number): void;
  /**
   * How long a request would wait, in milliseconds; undefined when the partition's limiter cannot tell.
   *
   * @throws As `attemptAcquire` does.
   */
  estimateWaitMs(permitCount?: number): number | undefined;
}

/** What a {@link ResourceLimiter} asks. */
export interface ResourceAccess {
  attempt(permitCount: number): RateLimitLease;
  acquire(permitCount: number, options: AcquireOptions): RateLimitLease | Promise<RateLimitLease>;
  getStatistics(): RateLimiterStatistics | undefined;
  /** The limiter behind the resource, where there is one. */
  peek(): RateLimiter | undefined;
}

/** What many limiters can do besides the contract. */
type Pausable = RateLimiter & Partial<Pick<ResourceRateLimiter, "pause" | "estimateWaitMs">>;

export class ResourceLimiter extends RateLimiter implements ResourceRateLimiter {
  readonly #access: ResourceAccess;
  #isDisposed = false;

  constructor(access: ResourceAccess) {
    super();
    this.#access = access;
  }

  pause(durationMs: number): void {
    const limiter: Pausable | undefined = this.#usable.peek();
    if (limiter?.pause === undefined) throw new TypeError("The limiter of this resource cannot be paused.");
    limiter.pause(durationMs);
  }

  estimateWaitMs(permitCount = 1): number | undefined {
    const limiter: Pausable | undefined = this.#usable.peek();
    return limiter?.estimateWaitMs?.(permitCount);
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#usable.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#usable.peek()?.idleDurationMs;
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
}
