/// <reference lib="esnext.disposable" preserve="true" />
import {
  type AcquireOptions,
  checkAcquireOptions,
  checkNotAborted,
  checkPriority,
  NO_OPTIONS,
} from "../contract/acquire-options.js";
import { acquireInTurn, attemptInTurn, forEach, throwAny } from "../contract/chain.js";
import type { Clock } from "../contract/clock.js";
import { LimiterDisposedError } from "../contract/errors.js";
import {
  type AcquireSink,
  type AcquireTicket,
  type InsideLimiter,
  inside,
  isLease,
  ticketFor,
} from "../contract/inside.js";
import { MetadataName } from "../contract/metadata-name.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import {
  promiseOf,
  type RateLimiter,
  remainingWait,
  request,
  requestWith,
} from "../contract/rate-limiter.js";
import { combineStatistics, type RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import { systemClock } from "../contract/system-clock.js";
import {
  checkBoolean,
  checkChoice,
  checkDuration,
  checkFunction,
  checkInteger,
  checkMethods,
  checkOptionNames,
  checkPermitCount,
  wrongType,
} from "../contract/validation.js";
import { RefusedLease } from "../queue/refused-lease.js";
import { type InsidePartitions, insidePartitions } from "./inside-partitions.js";
import type { KeyedRateLimiter, PartitionedRateLimiterOptions, PartitionInfo } from "./keyed-rate-limiter.js";
import { PartitionMap, statisticsOf } from "./partition-map.js";
import { RateLimitPartition, wrongAnswer } from "./rate-limit-partition.js";
import { ResourceLimiter, type ResourceRateLimiter } from "./resource-rate-limiter.js";

/** Asks as `acquire` does once the arguments are checked: a lease when nobody has to wait, else a promise. */
export let requestFor: <Resource>(
  limiter: PartitionedRateLimiter<Resource>,
  resource: Resource,
  permitCount: number,
  options: AcquireOptions,
) => RateLimitLease | Promise<RateLimitLease>;

/** The same with a sink, which is told in the turn in which the answer comes, where the limiter can do that. */
export function requestForWith<Resource>(
  limiter: PartitionedRateLimiter<Resource>,
  resource: Resource,
  permitCount: number,
  options: AcquireOptions,
  sink: AcquireSink,
): RateLimitLease | AcquireTicket {
  const door = limiter[insidePartitions];
  if (door === undefined) {
    const answer = requestFor(limiter, resource, permitCount, options);
    return isLease(answer) ? answer : ticketFor(answer, sink);
  }
  checkNotAborted(options.signal);
  return door.acquireWith(resource, permitCount, options, sink);
}

/** The inside of a partitioned limiter; those that users write have none. */
export function insideOf<Resource>(
  limiter: PartitionedRateLimiter<Resource>,
): InsidePartitions<Resource> | undefined {
  return limiter[insidePartitions];
}

/**
 * A limiter for each tenant, client, route or whatever else requests have in common. Models .NET's
 * `PartitionedRateLimiter<TResource>`.
 *
 * A partitioner says for each resource, such as a request, which partition it belongs to, and how to make that partition's
 * limiter; a partition is made when it is first needed, and dropped when it has been idle for long. It is never dropped
 * while leases are out, somebody waits, or it remembers what has been used.
 *
 * @example
 * ```ts
 * import { PartitionedRateLimiter, RateLimitPartition } from "headgate";
 *
 * const bucket = { tokenLimit: 50, tokensPerPeriod: 10, replenishmentPeriodMs: 1000 };
 * using limiter = PartitionedRateLimiter.create((request: Request) =>
 *   RateLimitPartition.getTokenBucketLimiter(request.headers.get("x-tenant") ?? "anonymous", () => bucket),
 * );
 *
 * async function handle(request: Request): Promise<Response> {
 *   using lease = await limiter.acquire(request);
 *   if (!lease.isAcquired) return new Response("too many requests", { status: 429 });
 *   return new Response("hello");
 * }
 * ```
 *
 * To write one of your own, implement `attemptAcquireCore`, `acquireCore` and `getStatistics`; see `RateLimiter` for what
 * has been checked when they are called.
 *
 * @public
 */
export abstract class PartitionedRateLimiter<Resource> implements Disposable, AsyncDisposable {
  static {
    requestFor = (limiter, resource, permitCount, options) => {
      checkNotAborted(options.signal);
      return limiter.acquireCore(resource, permitCount, options);
    };
  }

  constructor() {
    if (new.target === PartitionedRateLimiter) {
      throw new TypeError(
        "PartitionedRateLimiter is abstract; use PartitionedRateLimiter.create(partitioner), or extend it.",
      );
    }
  }

  /**
   * Makes a limiter that keeps a limiter for each key.
   *
   * The partitioner runs for every call, so it should be quick; what it throws is the caller's error. The factory of a
   * partition runs when its key is new; what it throws is the caller's error too, and is not remembered: the next call tries
   * again. The limiters are owned by what this returns: it disposes them when it drops them, and when it is disposed.
   *
   * @param partitioner - Says which partition a resource belongs to.
   * @throws TypeError or RangeError when an argument or option is not what it should be.
   */
  static create<Resource, Key>(
    partitioner: (resource: Resource) => RateLimitPartition<Key>,
    options: PartitionedRateLimiterOptions = {},
  ): KeyedRateLimiter<Resource, Key> {
    checkFunction("partitioner", partitioner);
    checkOptionNames(options, ["maxPartitions", "overflow", "idleLimitMs", "onBackgroundError", "clock"]);
    const { maxPartitions, overflow = "share", idleLimitMs = 10_000, onBackgroundError, clock } = options;
    if (maxPartitions !== undefined) checkInteger("options.maxPartitions", maxPartitions, 1);
    checkChoice("options.overflow", overflow, ["share", "reject"]);
    checkDuration("options.idleLimitMs", idleLimitMs);
    if (onBackgroundError !== undefined) checkFunction("options.onBackgroundError", onBackgroundError);
    if (clock !== undefined) checkMethods("options.clock", clock, ["now", "setTimer"]);
    const partitions = new PartitionMap<Key>({
      clock: clock ?? systemClock,
      idleLimitMs,
      maxPartitions: maxPartitions ?? Number.POSITIVE_INFINITY,
      sharesOverflow: overflow === "share",
      onBackgroundError,
    });
    return new DefaultPartitionedRateLimiter(partitioner, partitions);
  }

  /**
   * Makes one limiter of several: a lease is granted only when each of them, asked in this order, grants one. Everything is
   * as `RateLimiter.createChained` says. The chain does not own its limiters.
   *
   * @param limiters - One or more limiters for the same kind of resource.
   * @throws TypeError when there is none, or one is not a limiter.
   */
  static createChained<Resource>(
    ...limiters: readonly PartitionedRateLimiter<Resource>[]
  ): PartitionedRateLimiter<Resource> {
    if (limiters.length === 0)
      throw new TypeError("limiters must hold at least one PartitionedRateLimiter; got none.");
    for (const [i, limiter] of limiters.entries()) {
      if (!(limiter instanceof PartitionedRateLimiter)) {
        throw wrongType(`limiters[${i}]`, "a PartitionedRateLimiter", limiter);
      }
    }
    return new ChainedPartitionedRateLimiter(limiters);
  }

  /**
   * Takes permits of the resource's partition if they are free now. Never waits.
   *
   * @param permitCount - How many; 1 by default. 0 asks whether at least one is free, and takes none.
   * @throws As `RateLimiter.attemptAcquire` does, and what the partitioner or the factory throws.
   */
  attemptAcquire(resource: Resource, permitCount = 1): RateLimitLease {
    checkPermitCount(permitCount);
    return this.attemptAcquireCore(resource, permitCount);
  }

  /**
   * Takes permits of the resource's partition as soon as they are free, waiting in its queue if there is room in it.
   *
   * @param permitCount - How many; 1 by default. 0 waits until at least one is free, and takes none.
   * @param options - How to wait. May stand in the place of the count when one permit is wanted.
   * @returns As `RateLimiter.acquire` does; also rejects with what the partitioner or the factory throws.
   */
  acquire(resource: Resource, permitCount?: number, options?: AcquireOptions): Promise<RateLimitLease>;
  /** Takes one permit of the resource's partition as soon as it is free. */
  acquire(resource: Resource, options: AcquireOptions): Promise<RateLimitLease>;
  acquire(
    resource: Resource,
    permitCount: number | AcquireOptions = 1,
    options?: AcquireOptions,
  ): Promise<RateLimitLease> {
    try {
      const onlyOptions = typeof permitCount === "object" && permitCount !== null && options === undefined;
      const count = onlyOptions ? 1 : permitCount;
      const how = onlyOptions ? permitCount : options === undefined ? NO_OPTIONS : options;
      checkPermitCount(count);
      checkAcquireOptions(how);
      const { priority = 0 } = how;
      // Who uses priorities is asked only about bad ones, since that takes a look at the partition.
      if (!Number.isSafeInteger(priority) && this[insidePartitions]?.usesPriority(resource) === true)
        checkPriority(priority);
      return Promise.resolve(requestFor(this, resource, count, how));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * A snapshot of the resource's partition, which is made if need be.
   *
   * @throws {@link LimiterDisposedError} when the limiter has been disposed.
   */
  abstract getStatistics(resource: Resource): RateLimiterStatistics | undefined;

  /** Answers an attempt; see `RateLimiter.attemptAcquireCore`. */
  protected abstract attemptAcquireCore(resource: Resource, permitCount: number): RateLimitLease;

  /** Answers a request that may wait; see `RateLimiter.acquireCore`. */
  protected abstract acquireCore(
    resource: Resource,
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease>;

  /**
   * The same partitions for another kind of resource, such as queue messages beside requests.
   *
   * @param keyAdapter - Makes a resource of this limiter from one of the new kind. Runs once for every call.
   * @param options - `leaveOpen` says whether disposing the new limiter leaves this one usable; it has no default, so that
   * ownership is always written down.
   * @throws TypeError when an argument is not what it should be.
   */
  withTranslatedKey<Outer>(
    keyAdapter: (outer: Outer) => Resource,
    options: { readonly leaveOpen: boolean },
  ): PartitionedRateLimiter<Outer> {
    checkFunction("keyAdapter", keyAdapter);
    checkOptionNames(options, ["leaveOpen"]);
    checkBoolean("options.leaveOpen", options.leaveOpen);
    return new TranslatedRateLimiter(this, keyAdapter, options.leaveOpen);
  }

  /**
   * The limiter of one resource, for whatever takes a plain limiter. In what `create` makes, the partitioner runs once, now,
   * and the partition is looked up at every call; only acquiring, attempting and pausing make one. Elsewhere the partitioner
   * runs at every call. Disposing it does nothing to the partition.
   */
  forResource(resource: Resource): ResourceRateLimiter {
    return new ResourceLimiter({
      clock: this[insidePartitions]?.clock,
      attempt: (permitCount) => this.attemptAcquireCore(resource, permitCount),
      acquire: (permitCount, options) => requestFor(this, resource, permitCount, options),
      acquireWith: (permitCount, options, sink) => requestForWith(this, resource, permitCount, options, sink),
      getStatistics: () => this.getStatistics(resource),
      idleDurationMs: undefined,
      hasRoom: false,
      checkUsable: () => {},
      peek: () => undefined,
      get: () => "its partitioned limiter was not made by PartitionedRateLimiter.create",
    });
  }

  /**
   * What the library's own partitioned limiters tell one another; undefined for those that users write.
   *
   * @internal
   */
  get [insidePartitions](): InsidePartitions<Resource> | undefined {
    return undefined;
  }

  /** Gives up what the limiter holds; called by every dispose, so it must bear a second call. Does nothing here. */
  protected disposeCore(): void {}

  /** What `disposeAsync` waits for before it calls `disposeCore`; undefined, as here, when that is nothing. */
  protected disposeAsyncCore(): Promise<void> | undefined {
    return undefined;
  }

  /** Makes later calls fail, and disposes what the limiter owns. */
  dispose(): void {
    this.disposeCore();
  }

  /** The same as `dispose`, and waits for the limiters it owns. */
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

/** The answer for a key for which there is no room; it holds nothing, so one serves all. */
const OVERFLOW: RateLimitLease = new RefusedLease(
  { metadataNames: [MetadataName.rejectionReason.name], standing: () => undefined },
  "partition_overflow",
);

class DefaultPartitionedRateLimiter<Resource, Key>
  extends PartitionedRateLimiter<Resource>
  implements KeyedRateLimiter<Resource, Key>, InsidePartitions<Resource>
{
  readonly #partitioner: (resource: Resource) => RateLimitPartition<Key>;
  readonly #partitions: PartitionMap<Key>;
  #disposing: Promise<void> | undefined;

  constructor(partitioner: (resource: Resource) => RateLimitPartition<Key>, partitions: PartitionMap<Key>) {
    super();
    this.#partitioner = partitioner;
    this.#partitions = partitions;
  }

  get size(): number {
    return this.#partitions.size;
  }

  override get [insidePartitions](): InsidePartitions<Resource> {
    return this;
  }

  get clock(): Clock {
    return this.#partitions.limiterClock;
  }

  get tellsKeys(): boolean {
    return true;
  }

  keyOf(resource: Resource): Key {
    return this.#partitionOf(resource).partitionKey;
  }

  usesPriority(resource: Resource): boolean {
    if (this.#partitions.isDisposed) return false;
    const limiter: InsideLimiter | undefined = this.#limiterFor(this.#partitionOf(resource));
    return limiter?.[inside]?.usesPriority === true;
  }

  acquireWith(
    resource: Resource,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    return this.#acquireWith(this.#partitionOf(resource), permitCount, options, sink);
  }

  override getStatistics(resource: Resource): RateLimiterStatistics | undefined {
    return this.#limiterFor(this.#partitionOf(resource))?.getStatistics();
  }

  peekStatistics(resource: Resource): RateLimiterStatistics | undefined {
    const { partitionKey } = this.#partitionOf(resource);
    this.#partitions.checkUsable();
    return this.#partitions.peek(partitionKey)?.getStatistics();
  }

  getTotals(): RateLimiterStatistics {
    this.#partitions.checkUsable();
    return this.#partitions.getTotals();
  }

  *entries(): Generator<PartitionInfo<Key>, undefined, undefined> {
    this.#partitions.checkUsable();
    for (const [key, limiter] of this.#partitions.entries()) {
      yield { key, statistics: statisticsOf(limiter), idleDurationMs: limiter.idleDurationMs };
    }
  }

  delete(key: Key): boolean {
    this.#partitions.checkUsable();
    return this.#partitions.delete(key);
  }

  tryReplenish(): boolean {
    this.#partitions.checkUsable();
    return this.#partitions.tryReplenish();
  }

  override forResource(resource: Resource): ResourceRateLimiter {
    const partition = this.#partitionOf(resource);
    const partitions = this.#partitions;
    const peek = () => partitions.find(partition);
    const checkUsable = () => partitions.checkUsable();
    return new ResourceLimiter({
      clock: this.clock,
      attempt: (permitCount) => this.#attempt(partition, permitCount),
      acquire: (permitCount, options) => this.#acquire(partition, permitCount, options),
      acquireWith: (permitCount, options, sink) => this.#acquireWith(partition, permitCount, options, sink),
      getStatistics: () => {
        checkUsable();
        return peek()?.getStatistics();
      },
      idleDurationMs: Number.POSITIVE_INFINITY,
      get hasRoom() {
        return partitions.hasRoom;
      },
      checkUsable,
      peek,
      get: () => this.#limiterFor(partition, true) ?? "there is no room for its partition",
    });
  }

  protected override attemptAcquireCore(resource: Resource, permitCount: number): RateLimitLease {
    return this.#attempt(this.#partitionOf(resource), permitCount);
  }

  protected override acquireCore(
    resource: Resource,
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return this.#acquire(this.#partitionOf(resource), permitCount, options);
  }

  protected override disposeCore(): void {
    if (this.#partitions.isDisposed) return;
    const errors = forEach(this.#partitions.close(), (limiter) => limiter.dispose());
    throwAny(errors, "Disposing partitions failed.");
  }

  protected override disposeAsyncCore(): Promise<void> {
    this.#disposing ??= this.#disposeAll();
    return this.#disposing;
  }

  async #disposeAll(): Promise<void> {
    const limiters = this.#partitions.isDisposed ? [] : this.#partitions.close();
    const disposals = limiters.map(async (limiter) => limiter.disposeAsync());
    const results = await Promise.allSettled([...this.#partitions.leaving, ...disposals]);
    const errors = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason as unknown] : [],
    );
    throwAny(errors, "Disposing partitions failed.");
  }

  #partitionOf(resource: Resource): RateLimitPartition<Key> {
    const partition = this.#partitioner(resource);
    if (!(partition instanceof RateLimitPartition)) {
      throw wrongAnswer("partitioner", "a RateLimitPartition", partition);
    }
    return partition;
  }

  #limiterFor(partition: RateLimitPartition<Key>, isOwn = false): RateLimiter | undefined {
    this.#partitions.checkUsable();
    return this.#partitions.get(partition, isOwn);
  }

  #attempt(partition: RateLimitPartition<Key>, permitCount: number): RateLimitLease {
    return this.#limiterFor(partition)?.attemptAcquire(permitCount) ?? this.#refuseOverflow();
  }

  #acquire(
    partition: RateLimitPartition<Key>,
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    const limiter = this.#limiterFor(partition);
    if (limiter === undefined) return this.#refuseOverflow();
    const answer = request(limiter, permitCount, options);
    if ("then" in answer) this.#partitions.noteWaiter(limiter);
    return answer;
  }

  #acquireWith(
    partition: RateLimitPartition<Key>,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    const limiter = this.#limiterFor(partition);
    if (limiter === undefined) return this.#refuseOverflow();
    const answer = requestWith(limiter, permitCount, options, sink);
    if (!isLease(answer)) this.#partitions.noteWaiter(limiter);
    return answer;
  }

  #refuseOverflow(): RateLimitLease {
    this.#partitions.countOverflow();
    return OVERFLOW;
  }
}

/** A limiter that others stand behind, which are not its own. */
abstract class FrontRateLimiter<Resource> extends PartitionedRateLimiter<Resource> {
  protected isDisposed = false;

  protected checkUsable(): void {
    if (this.isDisposed) throw new LimiterDisposedError("PartitionedRateLimiter");
  }

  protected override disposeCore(): void {
    this.isDisposed = true;
  }
}

class ChainedPartitionedRateLimiter<Resource>
  extends FrontRateLimiter<Resource>
  implements InsidePartitions<Resource>
{
  readonly #limiters: readonly PartitionedRateLimiter<Resource>[];

  constructor(limiters: readonly PartitionedRateLimiter<Resource>[]) {
    super();
    this.#limiters = limiters;
  }

  override get [insidePartitions](): InsidePartitions<Resource> {
    return this;
  }

  get clock(): Clock | undefined {
    return this.#limiters
      .map((limiter) => limiter[insidePartitions]?.clock)
      .find((clock) => clock !== undefined);
  }

  get tellsKeys(): boolean {
    return false;
  }

  keyOf(): undefined {
    return undefined;
  }

  usesPriority(resource: Resource): boolean {
    return (
      !this.isDisposed &&
      this.#limiters.some((limiter) => limiter[insidePartitions]?.usesPriority(resource) === true)
    );
  }

  override getStatistics(resource: Resource): RateLimiterStatistics {
    this.checkUsable();
    return combineStatistics(this.#limiters.map((limiter) => limiter.getStatistics(resource)));
  }

  protected override attemptAcquireCore(resource: Resource, permitCount: number): RateLimitLease {
    this.checkUsable();
    return attemptInTurn(this.#limiters, (limiter) => limiter.attemptAcquire(resource, permitCount));
  }

  protected override acquireCore(
    resource: Resource,
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return promiseOf((sink) => this.acquireWith(resource, permitCount, options, sink));
  }

  acquireWith(
    resource: Resource,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    this.checkUsable();
    const remaining = remainingWait(this.clock, options);
    return acquireInTurn(
      this.#limiters,
      (limiter, next) => requestForWith(limiter, resource, permitCount, remaining(), next),
      sink,
    );
  }
}

class TranslatedRateLimiter<Outer, Resource>
  extends FrontRateLimiter<Outer>
  implements InsidePartitions<Outer>
{
  readonly #inner: PartitionedRateLimiter<Resource>;
  readonly #keyAdapter: (outer: Outer) => Resource;
  readonly #leaveOpen: boolean;

  constructor(
    inner: PartitionedRateLimiter<Resource>,
    keyAdapter: (outer: Outer) => Resource,
    leaveOpen: boolean,
  ) {
    super();
    this.#inner = inner;
    this.#keyAdapter = keyAdapter;
    this.#leaveOpen = leaveOpen;
  }

  override get [insidePartitions](): InsidePartitions<Outer> {
    return this;
  }

  get clock(): Clock | undefined {
    return this.#inner[insidePartitions]?.clock;
  }

  get tellsKeys(): boolean {
    return this.#inner[insidePartitions]?.tellsKeys === true;
  }

  keyOf(outer: Outer): unknown {
    return this.#inner[insidePartitions]?.keyOf(this.#keyAdapter(outer));
  }

  usesPriority(outer: Outer): boolean {
    const door = this.isDisposed ? undefined : this.#inner[insidePartitions];
    return door?.usesPriority(this.#keyAdapter(outer)) === true;
  }

  acquireWith(
    outer: Outer,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    this.checkUsable();
    return requestForWith(this.#inner, this.#keyAdapter(outer), permitCount, options, sink);
  }

  override getStatistics(outer: Outer): RateLimiterStatistics | undefined {
    this.checkUsable();
    return this.#inner.getStatistics(this.#keyAdapter(outer));
  }

  override forResource(outer: Outer): ResourceRateLimiter {
    this.checkUsable();
    return this.#inner.forResource(this.#keyAdapter(outer));
  }

  protected override attemptAcquireCore(outer: Outer, permitCount: number): RateLimitLease {
    this.checkUsable();
    return this.#inner.attemptAcquire(this.#keyAdapter(outer), permitCount);
  }

  protected override acquireCore(
    outer: Outer,
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    this.checkUsable();
    return requestFor(this.#inner, this.#keyAdapter(outer), permitCount, options);
  }

  protected override disposeCore(): void {
    const leavesInner = this.#leaveOpen || this.isDisposed;
    super.disposeCore();
    if (!leavesInner) this.#inner.dispose();
  }

  protected override disposeAsyncCore(): Promise<void> | undefined {
    const leavesInner = this.#leaveOpen || this.isDisposed;
    super.disposeCore();
    return leavesInner ? undefined : this.#inner.disposeAsync();
  }
}
