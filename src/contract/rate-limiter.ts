/// <reference lib="esnext.disposable" preserve="true" />

import {
  type AcquireOptions,
  checkAcquireOptions,
  checkNotAborted,
  checkPriority,
  NO_OPTIONS,
} from "./acquire-options.js";
import { acquireInTurn, attemptInTurn, forEach, throwAny } from "./chain.js";
import type { Clock } from "./clock.js";
import { LimiterDisposedError } from "./errors.js";
import {
  type AcquireSink,
  type AcquireTicket,
  type Inside,
  type InsideLimiter,
  inside,
  isLease,
  ticketFor,
} from "./inside.js";
import type { RateLimitLease } from "./rate-limit-lease.js";
import { combineStatistics, type RateLimiterStatistics } from "./rate-limiter-statistics.js";
import { systemClock } from "./system-clock.js";
import { checkDuration, checkPermitCount, wrongType } from "./validation.js";

/** Asks as `acquire` does once the arguments are checked: a lease when nobody has to wait, else a promise. */
export let request: (
  limiter: RateLimiter,
  permitCount: number,
  options: AcquireOptions,
) => RateLimitLease | Promise<RateLimitLease>;

/** The same with a sink, which is told in the turn in which the answer comes, where the limiter can do that. */
export function requestWith(
  limiter: InsideLimiter,
  permitCount: number,
  options: AcquireOptions,
  sink: AcquireSink,
): RateLimitLease | AcquireTicket {
  const door = limiter[inside];
  if (door === undefined) {
    const answer = request(limiter, permitCount, options);
    return isLease(answer) ? answer : ticketFor(answer, sink);
  }
  checkNotAborted(options.signal);
  return door.acquireWith(permitCount, options, sink);
}

/**
 * The options for each member of a chain in turn: with what is left of `maxWaitMs`, by the clock that they live by, or
 * the system clock where they do not tell.
 */
export function remainingWait(clock: Clock = systemClock, options: AcquireOptions): () => AcquireOptions {
  const { maxWaitMs = 0 } = options;
  if (maxWaitMs <= 0) return () => options;
  const deadline = clock.now() + maxWaitMs;
  return () => ({ ...options, maxWaitMs: Math.max(0, deadline - clock.now()) });
}

/** Makes a promise of a request with a sink, if it has to wait. */
export function promiseOf(
  start: (sink: AcquireSink) => RateLimitLease | AcquireTicket,
): RateLimitLease | Promise<RateLimitLease> {
  let settled: AcquireSink["settled"] | undefined;
  let failed: AcquireSink["failed"] | undefined;
  // The sink may be told before the request has returned.
  let early: (() => void) | undefined;
  const answer = start({
    settled: (lease) => {
      if (settled === undefined) early = () => settled?.(lease);
      else settled(lease);
    },
    failed: (error) => {
      if (failed === undefined) early = () => failed?.(error);
      else failed(error);
    },
  });
  if (isLease(answer)) return answer;
  return new Promise((resolve, reject) => {
    settled = resolve;
    failed = reject;
    early?.();
  });
}

/**
 * Decides how much work may go ahead. The contract that every limiter of this library keeps, after .NET's
 * `System.Threading.RateLimiting.RateLimiter`.
 *
 * A caller asks for permits and gets a {@link RateLimitLease}. `attemptAcquire` answers at once; `acquire` may wait in
 * the limiter's queue. Both refuse by returning a lease that was not acquired; only mistakes and disposed limiters are
 * errors. Whoever gets a lease disposes it. Whoever makes a limiter disposes that.
 *
 * Which error wins, when several apply: a malformed count, malformed options, an aborted signal, a count above the
 * limit, a disposed limiter; after these come the refusals.
 *
 * **Writing a limiter.** Extend this class (or {@link ReplenishingRateLimiter}) and implement `attemptAcquireCore`,
 * `acquireCore`, `getStatistics` and `idleDurationMs`; override `disposeCore` when there is something to give up. The
 * count has been checked to be an integer of at least 0 and the signal to be not aborted; the rest is yours, the
 * limit included. `acquireCore` decides before it returns: a lease when the answer is known, a promise only when the
 * caller has to wait.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter, type RateLimiter } from "headgate";
 *
 * using limiter: RateLimiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 100 });
 * using lease = await limiter.acquire();
 * if (lease.isAcquired) console.log("go ahead");
 * else console.log("refused:", lease.reason);
 * ```
 *
 * @public
 */
export abstract class RateLimiter implements Disposable, AsyncDisposable {
  static {
    request = (limiter, permitCount, options) => {
      checkNotAborted(options.signal);
      return limiter.acquireCore(permitCount, options);
    };
  }

  /** @throws TypeError when it is not a subclass that is made. */
  constructor() {
    if (new.target === RateLimiter || new.target === ReplenishingRateLimiter) {
      throw new TypeError(`${new.target.name} is abstract: make one of its subclasses, or write one.`);
    }
  }

  /**
   * Makes one limiter of several: a lease is granted only when each of them, asked in this order, grants one.
   *
   * When one refuses, throws or is left by an aborted caller, what the earlier ones gave goes back to them at that
   * moment, the last first, and the refusal or the error is passed on as it is. A lease of the chain passes
   * `dispose`, `report`, `adjust` and `refund` on to all. Statistics show the fewest available permits, the sums of
   * the queued permits and the failures, and the last limiter's successes. The chain is a
   * {@link ReplenishingRateLimiter} when one of its limiters is. `maxWaitMs` bounds the wait in all of them together.
   * `pause` reaches all that can be paused; the estimated wait is the longest of theirs.
   *
   * Whoever waits for a later limiter holds what the earlier ones gave: put limiters where callers wait long first.
   *
   * The chain does not own its limiters: disposing it leaves them, and whoever waits in them, as they are.
   *
   * @example
   * ```ts
   * import { ConcurrencyLimiter, RateLimiter } from "headgate";
   *
   * const oneHost = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 50 });
   * const all = new ConcurrencyLimiter({ permitLimit: 100 });
   * const limiter = RateLimiter.createChained(oneHost, all);
   * ```
   *
   * @param limiters - One or more limiters.
   * @throws TypeError when there is none, or one is not a limiter.
   */
  static createChained(...limiters: readonly RateLimiter[]): ChainedRateLimiter {
    if (limiters.length === 0) throw new TypeError("limiters must hold at least one RateLimiter; got none.");
    for (const [i, limiter] of limiters.entries()) {
      if (!(limiter instanceof RateLimiter)) throw wrongType(`limiters[${i}]`, "a RateLimiter", limiter);
    }
    const replenishing = limiters.filter((limiter) => limiter instanceof ReplenishingRateLimiter);
    return replenishing.length === 0 ? new Chain(limiters) : new ReplenishingChain(limiters, replenishing);
  }

  /**
   * Takes permits if they are free now. Never waits.
   *
   * @param permitCount - How many; 1 by default. 0 asks whether at least one is free, and takes none.
   * @returns A lease, acquired or not.
   * @throws TypeError or RangeError when the count is not an integer of at least 0, or is above the limit.
   * @throws {@link LimiterDisposedError} when the limiter has been disposed.
   */
  attemptAcquire(permitCount = 1): RateLimitLease {
    checkPermitCount(permitCount);
    return this.attemptAcquireCore(permitCount);
  }

  /**
   * Takes permits as soon as they are free, waiting in the queue if the limiter has room in it.
   *
   * Whether permits are taken, a place in the queue is taken, or the request is refused is decided before this
   * returns.
   *
   * @param permitCount - How many; 1 by default. 0 waits until at least one is free, and takes none.
   * @param options - How to wait. May stand in the first place when one permit is wanted.
   * @returns A lease, acquired or not. Rejects, and never throws, with a TypeError or RangeError when an argument is
   * not what it should be, with the signal's reason when that is aborted, with a {@link LimiterDisposedError} when the
   * limiter has been disposed.
   */
  acquire(permitCount?: number, options?: AcquireOptions): Promise<RateLimitLease>;
  /** Takes one permit as soon as it is free. */
  acquire(options: AcquireOptions): Promise<RateLimitLease>;
  acquire(permitCount: number | AcquireOptions = 1, options?: AcquireOptions): Promise<RateLimitLease> {
    try {
      const isOptions = typeof permitCount === "object" && permitCount !== null && options === undefined;
      const count = isOptions ? 1 : permitCount;
      const how = isOptions ? permitCount : options;
      checkPermitCount(count);
      if (how === undefined) return Promise.resolve(request(this, count, NO_OPTIONS));
      checkAcquireOptions(how);
      if ((this as InsideLimiter)[inside]?.usesPriority === true && how.priority !== undefined)
        checkPriority(how.priority);
      return Promise.resolve(request(this, count, how));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * A snapshot of the limiter; undefined when a limiter keeps none.
   *
   * @throws {@link LimiterDisposedError} when the limiter has been disposed.
   */
  abstract getStatistics(): RateLimiterStatistics | undefined;

  /**
   * How long nobody has held or waited for anything, in milliseconds: whoever keeps many limiters may drop those that
   * have been idle for long. Undefined while the limiter is in use, and for limiters that should never be dropped.
   */
  abstract get idleDurationMs(): number | undefined;

  /** Answers an attempt. The count is an integer of at least 0; whether it is above the limit is yours to check. */
  protected abstract attemptAcquireCore(permitCount: number): RateLimitLease;

  /**
   * Answers a request that may wait. The count is an integer of at least 0, the options have the right shape, and the
   * signal is not aborted.
   */
  protected abstract acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease>;

  /** Gives up what the limiter holds; called by every dispose, so it must bear a second call. Does nothing here. */
  protected disposeCore(): void {}

  /** What `disposeAsync` waits for before it calls `disposeCore`; undefined, as here, when that is nothing. */
  protected disposeAsyncCore(): Promise<void> | undefined {
    return undefined;
  }

  /** Refuses everybody who waits in this limiter, and makes later calls fail. Leases that are out may still be disposed. */
  dispose(): void {
    this.disposeCore();
  }

  /** The same as `dispose`, for limiters that have something to wait for. */
  async disposeAsync(): Promise<void> {
    const pending = this.disposeAsyncCore();
    if (pending !== undefined) await pending;
    this.disposeCore();
  }

  /** The same as `dispose()`, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }

  /** The same as `disposeAsync()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.disposeAsync();
  }
}

/**
 * A limiter whose permits come back with time. Models .NET's `ReplenishingRateLimiter`.
 *
 * @public
 */
export abstract class ReplenishingRateLimiter extends RateLimiter {
  /** How often permits come back, in milliseconds. */
  abstract get replenishmentPeriodMs(): number;

  /** Whether they come back by themselves. If not, somebody calls `tryReplenish`. */
  abstract get isAutoReplenishing(): boolean;

  /**
   * Brings the limiter up to the present, when it does not do so by itself.
   *
   * @returns Whether it tried: false for a limiter that replenishes itself.
   */
  abstract tryReplenish(): boolean;
}

/**
 * Several limiters as one; see `RateLimiter.createChained`.
 *
 * @public
 */
export interface ChainedRateLimiter extends RateLimiter {
  /**
   * Grants nothing for a while: pauses each limiter of the chain that can be paused; see `ConcurrencyLimiter.pause`.
   * Does nothing on a disposed chain.
   *
   * @param durationMs - Milliseconds, above 0 and finite.
   * @throws TypeError or RangeError when it is not, TypeError when no limiter of the chain can be paused.
   */
  pause(durationMs: number): void;
  /**
   * How long a request would wait, in milliseconds: the longest of what the limiters of the chain say. Undefined when one
   * of those cannot tell; limiters without an `estimateWaitMs` are left out.
   *
   * @throws As `attemptAcquire` does.
   */
  estimateWaitMs(permitCount?: number): number | undefined;
}

/** Replenishes each limiter, past errors, which are thrown together; true when any of them tried. */
export function replenishAll(limiters: Iterable<ReplenishingRateLimiter>, message: string): boolean {
  let tried = false;
  const errors = forEach(limiters, (limiter) => {
    tried = limiter.tryReplenish() || tried;
  });
  throwAny(errors, message);
  return tried;
}

/** What many limiters can do besides the contract. */
type Member = RateLimiter & Partial<Pick<ChainedRateLimiter, "pause" | "estimateWaitMs">>;

/** A chain: `RateLimiter.createChained` tells how it behaves, `chain.ts` why. */
class Chain extends RateLimiter implements ChainedRateLimiter, Inside {
  readonly #limiters: readonly Member[];
  /** A chain has no options: what is left of `maxWaitMs` is measured by the clock that its limiters live by. */
  readonly clock: Clock | undefined;
  #disposed = false;

  constructor(limiters: readonly RateLimiter[]) {
    super();
    this.#limiters = limiters;
    const clocks = limiters.map((limiter: InsideLimiter) => limiter[inside]?.clock);
    this.clock = clocks.find((clock) => clock !== undefined);
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    this.checkUsable();
    return attemptInTurn(this.#limiters, (limiter) => limiter.attemptAcquire(permitCount));
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return promiseOf((sink) => this.acquireWith(permitCount, options, sink));
  }

  acquireWith(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    this.checkUsable();
    const remaining = remainingWait(this.clock, options);
    return acquireInTurn(
      this.#limiters,
      (limiter, next) => requestWith(limiter, permitCount, remaining(), next),
      sink,
    );
  }

  pause(durationMs: number): void {
    checkDuration("durationMs", durationMs);
    if (this.#disposed) return;
    const pausable = this.#limiters.filter((limiter) => limiter.pause !== undefined);
    if (pausable.length === 0) throw new TypeError("No limiter of this chain can be paused.");
    throwAny(
      forEach(pausable, (limiter) => limiter.pause?.(durationMs)),
      "Pausing the limiters of a chain failed.",
    );
  }

  estimateWaitMs(permitCount = 1): number | undefined {
    checkPermitCount(permitCount);
    this.checkUsable();
    const estimates = this.#limiters
      .filter((limiter) => limiter.estimateWaitMs !== undefined)
      .map((limiter) => limiter.estimateWaitMs?.(permitCount));
    return estimates.length === 0 || estimates.includes(undefined)
      ? undefined
      : Math.max(...(estimates as number[]));
  }

  get [inside](): Inside {
    return this;
  }

  get usesPriority(): boolean {
    return this.#limiters.some((limiter: InsideLimiter) => limiter[inside]?.usesPriority === true);
  }

  snapshot(): boolean {
    return false;
  }

  queuedByPriority(): Map<number, number> {
    return new Map();
  }

  hasRoom(permitCount: number): boolean {
    return this.#limiters.every(
      (limiter: InsideLimiter) =>
        (limiter.getStatistics()?.currentAvailablePermits ?? 0) >= Math.max(permitCount, 1) ||
        limiter[inside]?.hasRoom(permitCount) === true,
    );
  }

  override getStatistics(): RateLimiterStatistics {
    this.checkUsable();
    return combineStatistics(this.#limiters.map((limiter) => limiter.getStatistics()));
  }

  override get idleDurationMs(): number | undefined {
    this.checkUsable();
    const all = this.#limiters.map((limiter) => limiter.idleDurationMs);
    return all.includes(undefined) ? undefined : Math.min(...(all as number[]));
  }

  protected override disposeCore(): void {
    this.#disposed = true;
  }

  /** Fails when the chain has been disposed. */
  checkUsable(): void {
    if (this.#disposed) throw new LimiterDisposedError("chained RateLimiter");
  }
}

/** A chain in which at least one limiter replenishes. */
class ReplenishingChain extends ReplenishingRateLimiter implements ChainedRateLimiter {
  readonly #chain: Chain;
  readonly #replenishing: readonly ReplenishingRateLimiter[];
  readonly #periodMs: number;
  readonly #isAuto: boolean;

  constructor(limiters: readonly RateLimiter[], replenishing: readonly ReplenishingRateLimiter[]) {
    super();
    this.#chain = new Chain(limiters);
    this.#replenishing = replenishing;
    const periods = replenishing
      .map((limiter) => limiter.replenishmentPeriodMs)
      .filter((period) => period > 0);
    this.#periodMs = periods.length === 0 ? 0 : Math.min(...periods);
    this.#isAuto = replenishing.every((limiter) => limiter.isAutoReplenishing);
  }

  override get replenishmentPeriodMs(): number {
    return this.#periodMs;
  }

  override get isAutoReplenishing(): boolean {
    return this.#isAuto;
  }

  override tryReplenish(): boolean {
    this.#chain.checkUsable();
    return replenishAll(this.#replenishing, "Replenishing the limiters of a chain failed.");
  }

  pause(durationMs: number): void {
    this.#chain.pause(durationMs);
  }

  estimateWaitMs(permitCount?: number): number | undefined {
    return this.#chain.estimateWaitMs(permitCount);
  }

  get [inside](): Inside {
    return this.#chain;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#chain.attemptAcquire(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return request(this.#chain, permitCount, options);
  }

  override getStatistics(): RateLimiterStatistics {
    return this.#chain.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#chain.idleDurationMs;
  }

  protected override disposeCore(): void {
    this.#chain.dispose();
  }
}
