/// <reference lib="esnext.disposable" preserve="true" />
import { type Clock, systemClock } from "headgate";
import {
  checkBoolean,
  checkDuration,
  checkFunction,
  checkInteger,
  checkMethods,
  checkOptionNames,
  wrongType,
} from "../../src/internal.js";
import { type CallbackErrorKind, reportCallbackError } from "./diagnostics.js";
import { hold, throwCollected } from "./ownership.js";
import { diagnosticsOf, type ExecuteOptions, housedIn, ownedBy, Shield, type Tenancy } from "./shield.js";
import type { ShieldContext } from "./shield-context.js";

/**
 * Why a partition is gone.
 *
 * - `capacity`: another one needed its place.
 * - `expiration`: nobody had used it for `idleExpirationMs`.
 * - `removed`: by `delete` or `clear`.
 * - `disposed`: together with the `PartitionedShield`.
 *
 * @public
 */
export type PartitionEvictionReason = "capacity" | "expiration" | "removed" | "disposed";

/**
 * Options of a {@link PartitionedShield}.
 *
 * @public
 */
export interface PartitionedShieldOptions<Key> {
  /** How many partitions are kept: an integer of at least 1; 1000 by default. The one that was used least recently goes first. */
  readonly maxPartitions?: number | undefined;
  /**
   * After how many milliseconds without use a partition goes; never by default. Calls that run or wait in it are use. No timer
   * watches over it: partitions go when the `PartitionedShield` is used next.
   */
  readonly idleExpirationMs?: number | undefined;
  /**
   * Whether what the shields own is disposed when their partition goes; true by default. Set it to false when the factory
   * returns layers that are used elsewhere too.
   */
  readonly ownsStrategies?: boolean | undefined;
  /** Where idle time is read from; `systemClock` by default. */
  readonly clock?: Clock | undefined;
  /**
   * Told of each partition that goes. What the partition owns is disposed after it, and after the calls that still run. A call
   * has ended when `execute` has: work that a time-out has given up does not count.
   */
  readonly onEvicted?:
    | ((event: { readonly key: Key; readonly reason: PartitionEvictionReason }) => void | PromiseLike<void>)
    | undefined;
}

/** One key's shield. */
class Partition<A> implements Tenancy {
  readonly shield: Shield<A>;
  readonly #giveUp: () => Promise<unknown[]>;
  /** Told that a call in it has ended. */
  readonly #onLeave: (partition: Partition<A>) => void;
  #running = 0;
  #onIdle: (() => void) | undefined = undefined;
  usedAt = 0;

  constructor(shield: Shield<A>, owns: boolean, onLeave: (partition: Partition<A>) => void) {
    this.shield = housedIn(shield, this);
    this.#giveUp = hold(owns ? ownedBy(shield) : []);
    this.#onLeave = onLeave;
  }

  get isRunning(): boolean {
    return this.#running > 0;
  }

  enter(): void {
    this.#running += 1;
  }

  leave(): void {
    this.#running -= 1;
    this.#onLeave(this);
    if (this.#running === 0) this.#onIdle?.();
  }

  /** Disposes what it owns once no call runs in it any more; gives what went wrong. */
  async close(): Promise<unknown[]> {
    if (this.#running > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
    return this.#giveUp();
  }
}

/**
 * A shield for each tenant, client or whatever else calls have in common, made when it is first needed.
 *
 * Use it by `execute(key, …)`. A shield that you keep from `get` stops working when its partition goes, since its limiters are
 * disposed then.
 *
 * At most `maxPartitions` are kept. Whoever can choose keys can push out others, whose limits then begin anew: take the key
 * from something that has been checked.
 *
 * @example
 * ```ts
 * import { PartitionedShield, Shield } from "headgate/shield";
 *
 * await using perTenant = new PartitionedShield((tenant: string) =>
 *   Shield.concurrencyLimit(10, { queueLimit: 20 }).withName(`search for ${tenant}`),
 * );
 * await perTenant.execute("acme", ({ signal }) => fetch("https://vendor.example/", { signal }));
 * ```
 *
 * @public
 */
export class PartitionedShield<Key, A = never> implements AsyncDisposable {
  readonly #factory: (key: Key) => Shield<A>;
  readonly #maxPartitions: number;
  readonly #idleExpirationMs: number | undefined;
  readonly #owns: boolean;
  readonly #clock: Clock;
  readonly #onEvicted: PartitionedShieldOptions<Key>["onEvicted"];
  /** The one that was used least recently comes first. */
  readonly #partitions = new Map<Key, Partition<A>>();
  /** Keys whose shields are being made. */
  readonly #making = new Set<Key>();
  /** Evictions that are not over yet. */
  readonly #leaving = new Set<Promise<unknown[]>>();
  #disposal: Promise<void> | undefined = undefined;

  /**
   * @param factory - Makes the shield of a key. What it throws is the caller's error, and is not remembered.
   * @throws TypeError or RangeError when an argument or option is not what it should be.
   */
  constructor(factory: (key: Key) => Shield<A>, options: PartitionedShieldOptions<Key> = {}) {
    const type = "PartitionedShieldOptions";
    checkFunction("factory", factory);
    const names = ["maxPartitions", "idleExpirationMs", "ownsStrategies", "clock", "onEvicted"];
    checkOptionNames(options, names, type);
    const { maxPartitions = 1000, idleExpirationMs, ownsStrategies = true, clock = systemClock } = options;
    checkInteger(`${type}.maxPartitions`, maxPartitions, 1);
    if (idleExpirationMs !== undefined) checkDuration(`${type}.idleExpirationMs`, idleExpirationMs);
    checkBoolean(`${type}.ownsStrategies`, ownsStrategies);
    checkMethods(`${type}.clock`, clock, ["now", "setTimer"]);
    if (options.onEvicted !== undefined) checkFunction(`${type}.onEvicted`, options.onEvicted);
    this.#factory = factory;
    this.#maxPartitions = maxPartitions;
    this.#idleExpirationMs = idleExpirationMs;
    this.#owns = ownsStrategies;
    this.#clock = clock;
    this.#onEvicted = options.onEvicted;
  }

  /** How many partitions there are. */
  get size(): number {
    return this.#partitions.size;
  }

  /**
   * The shield of a key, which is made if need be. Keys are the same when they would be in a `Map`.
   *
   * @throws TypeError when the key is null or undefined, or the factory returns something else; Error when this has been
   * disposed, or the factory asks for the key that it makes a shield for; and what the factory throws.
   */
  get(key: Key): Shield<A> {
    const known = this.#use(key);
    if (known !== undefined) return known.shield;
    if (this.#making.has(key)) {
      throw new Error(
        "The factory of a PartitionedShield asked for the very key that it makes a shield for.",
      );
    }
    this.#making.add(key);
    let partition: Partition<A>;
    try {
      const shield: unknown = this.#factory(key);
      if (!(shield instanceof Shield)) throw wrongType("What the factory returns", "a Shield", shield);
      this.#checkUsable();
      partition = new Partition(shield as Shield<A>, this.#owns, (used) => {
        if (this.#partitions.get(key) === used) this.#touch(key, used);
      });
    } finally {
      this.#making.delete(key);
    }
    for (const oldest of this.#partitions.keys()) {
      if (this.#partitions.size < this.#maxPartitions) break;
      this.#evict(oldest, "capacity");
    }
    this.#touch(key, partition);
    return partition.shield;
  }

  /** The shield of a key, if there is one; counts as a use of it. */
  peek(key: Key): Shield<A> | undefined {
    return this.#use(key)?.shield;
  }

  /** Runs work in the shield of a key; see `Shield.execute`. Rejects with what `get` throws, too. */
  async execute<T>(
    key: Key,
    work: (context: ShieldContext) => T | PromiseLike<T>,
    options?: AbortSignal | ExecuteOptions,
  ): Promise<T | A> {
    return this.get(key).execute(work, options);
  }

  /** Drops the partition of a key; false when there is none. Calls that run in it go on. */
  delete(key: Key): boolean {
    this.#checkUsable();
    return this.#evict(key, "removed");
  }

  /** Drops all partitions. */
  clear(): void {
    this.#checkUsable();
    for (const key of [...this.#partitions.keys()]) this.#evict(key, "removed");
  }

  /** Drops the partitions that have been idle for too long; returns how many. Every other use does the same. */
  pruneExpired(): number {
    this.#checkUsable();
    if (this.#idleExpirationMs === undefined) return 0;
    const before = this.#clock.now() - this.#idleExpirationMs;
    let dropped = 0;
    for (const [key, { usedAt, isRunning }] of this.#partitions) {
      if (usedAt > before) break;
      if (isRunning) continue;
      this.#evict(key, "expiration");
      dropped += 1;
    }
    return dropped;
  }

  /**
   * Drops all partitions, and waits until the calls in them have ended and what they own is disposed; so do not wait for it in
   * one of these calls. Later calls fail. A second time does nothing more.
   *
   * @returns Rejects with what goes wrong in disposing: one error as it is, several as an `AggregateError`.
   */
  disposeAsync(): Promise<void> {
    this.#disposal ??= this.#dispose();
    return this.#disposal;
  }

  /** The same as `disposeAsync()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.disposeAsync();
  }

  async #dispose(): Promise<void> {
    for (const key of [...this.#partitions.keys()]) this.#evict(key, "disposed");
    const errors = await Promise.all(this.#leaving);
    throwCollected(errors.flat(), "Disposing the partitions of a shield failed.");
  }

  /** A partition that is there, as the one that was used last. */
  #use(key: Key): Partition<A> | undefined {
    this.#checkUsable();
    if (key === undefined || key === null)
      throw wrongType("key", "a value that is not null or undefined", key);
    this.pruneExpired();
    const partition = this.#partitions.get(key);
    if (partition === undefined) return undefined;
    this.#touch(key, partition);
    return partition;
  }

  /** Makes a partition the one that was used last. */
  #touch(key: Key, partition: Partition<A>): void {
    partition.usedAt = this.#clock.now();
    this.#partitions.delete(key);
    this.#partitions.set(key, partition);
  }

  #evict(key: Key, reason: PartitionEvictionReason): boolean {
    const partition = this.#partitions.get(key);
    if (partition === undefined) return false;
    this.#partitions.delete(key);
    const leaving = this.#leave(key, partition, reason);
    this.#leaving.add(leaving);
    void leaving.then(() => this.#leaving.delete(leaving));
    return true;
  }

  /** Never rejects: gives what went wrong in disposing. */
  async #leave(key: Key, partition: Partition<A>, reason: PartitionEvictionReason): Promise<unknown[]> {
    // Whoever looks for a place goes first, and is not held up by a callback that throws or asks for another key.
    await undefined;
    try {
      await this.#onEvicted?.({ key, reason });
    } catch (error) {
      this.#report("partition_evicted", error, partition);
    }
    const errors = await partition.close();
    // Whoever disposes all of it is given the errors.
    if (reason !== "disposed")
      for (const error of errors) this.#report("partition_disposed", error, partition);
    return errors;
  }

  #report(kind: CallbackErrorKind, error: unknown, { shield }: Partition<A>): void {
    reportCallbackError(diagnosticsOf(shield), {
      kind,
      error,
      source: "PartitionedShield",
      shieldName: shield.name,
      strategyIndex: undefined,
      attempt: 0,
    });
  }

  #checkUsable(): void {
    if (this.#disposal !== undefined) {
      throw new Error("The PartitionedShield has been disposed: make a new one, or dispose it later.");
    }
  }
}
