import type { Clock } from "../contract/clock.js";
import { LimiterDisposedError } from "../contract/errors.js";
import { type InsideLimiter, inside, type LimiterSnapshot } from "../contract/inside.js";
import { RateLimiter, ReplenishingRateLimiter, replenishAll } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import { NoLimiter } from "../limiters/no-limiter.js";
import { PartitionClock } from "./partition-clock.js";
import { makeNoLimiter, type RateLimitPartition, wrongAnswer } from "./rate-limit-partition.js";

/*
 * Many limiters by key, and how they come and go.
 *
 * The question: every tenant, every client address has a limiter of its own. Whoever keeps them all runs out of memory,
 * slower or faster depending on who chooses the keys. The naive answers forget too much or do too much at once: dropping a
 * limiter that has not been used for a while forgives what it remembers (a limit of 10 an hour is no limit to a client
 * that comes every 20 s, if it is forgotten after 10 s), and walking over a million limiters stops the process for a second.
 *
 * A limiter says itself when nothing would be lost without it: it is idle when all its permits are there and nobody waits.
 * Only limiters that have been idle for long are dropped. They are looked for a few at a time: two whenever a new one is
 * made, so that looking keeps up with growing, and by one timer a slice of at most 512, the more often the more there are,
 * so that everybody has been looked at about twice per idle limit. The timer exists only while there are partitions, and
 * keeps no process alive.
 *
 * Example, idle limit 10 s: 100 000 clients come once each, to a window of a minute, and never again. Each is idle from the
 * end of its window on, and gone 10 to 15 s later; a slice of 512 comes every 25 ms meanwhile.
 *
 * The surprise: under an attack with keys that are all different, nobody is idle, and nothing can be dropped before its
 * time. `maxPartitions` bounds the memory; what the clients beyond it get is a choice (see PartitionedRateLimiterOptions).
 * A key without a limit needs no place among them: all such keys share one NoLimiter then, which remembers nothing. Only while
 * such a key is paused does it have a place and a limiter of its own.
 */

/** The most limiters that one turn looks at. */
const SLICE = 512;
/** How many of those may be limiters that are replenished. */
const BEAT_SLICE = SLICE / 2;
/** How many limiters are looked at when a new one is made. */
const INSPECTED_WHEN_CREATING = 2;
/** How many are looked at when there is no room for a new one. */
const INSPECTED_WHEN_FULL = 16;
/** The longest delay that hosts take. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;
/** How often limiters that do not replenish by themselves are made to, in milliseconds; as in .NET. */
const BEAT_MS = 100;

export interface PartitionMapSettings {
  readonly clock: Clock;
  readonly idleLimitMs: number;
  readonly maxPartitions: number;
  readonly sharesOverflow: boolean;
  readonly onBackgroundError: ((error: unknown) => void) | undefined;
}

export class PartitionMap<Key> {
  readonly #settings: PartitionMapSettings;
  /** What the limiters live by; the settings' clock is for idle partitions and beats. */
  readonly limiterClock: PartitionClock;
  readonly #limiters = new Map<Key, RateLimiter>();
  /** Those that somebody has to replenish. */
  readonly #driven = new Set<ReplenishingRateLimiter>();
  /** When those were last used that cannot tell how long they have been idle. */
  readonly #lastUse = new Map<RateLimiter, number>();
  /** What those beyond `maxPartitions` share. */
  #overflow: RateLimiter | undefined;
  /** What those without a limit share where partitions are counted. */
  #free: RateLimiter | undefined;
  #sweep: Iterator<[Key, RateLimiter]> | undefined;
  /** How many there were when the sweep began anew. */
  #passSize = 0;
  #beat: Iterator<ReplenishingRateLimiter> | undefined;
  /** When the next slice is replenished; infinite when nobody has to be. */
  #nextBeatAt = Number.POSITIVE_INFINITY;
  #timer: { cancel(): void } | undefined;
  #timerKeepsAlive = false;
  /** Whether anybody waits in those that this beat has come to, and did in all of those of the last. */
  #somebodyWaits = false;
  #somebodyWaited = false;
  readonly #leaving = new Set<Promise<void>>();
  #isDisposed = false;
  #goneSuccesses = 0;
  #goneFailures = 0;

  constructor(settings: PartitionMapSettings) {
    this.#settings = settings;
    this.limiterClock = new PartitionClock(settings.clock);
  }

  get size(): number {
    return this.#limiters.size;
  }

  get isDisposed(): boolean {
    return this.#isDisposed;
  }

  checkUsable(): void {
    if (this.#isDisposed) throw new LimiterDisposedError("PartitionedRateLimiter");
  }

  /** The limiter of a key, if there is one. */
  peek(key: Key): RateLimiter | undefined {
    return this.#limiters.get(key);
  }

  /** The limiter that a request would be asking, as far as it is there: that of the key, or a shared one. */
  find(partition: RateLimitPartition<Key>): RateLimiter | undefined {
    const limiter = this.#limiters.get(partition.partitionKey);
    if (limiter !== undefined) return limiter;
    if (this.#isFree(partition)) return this.#free;
    return this.#isFull ? this.#overflow : undefined;
  }

  /** Whether a new key finds room, be it in the shared limiter. */
  get hasRoom(): boolean {
    return this.#settings.sharesOverflow || !this.#isFull;
  }

  /**
   * The limiter of a partition, made if need be; undefined when there is no room for one more. `isOwn` says that it may not
   * be the one that those without a limit share, because it is to be paused.
   */
  get(partition: RateLimitPartition<Key>, isOwn = false): RateLimiter | undefined {
    const key = partition.partitionKey;
    const limiter = this.#limiters.get(key) ?? this.#create(partition, isOwn);
    if (this.#lastUse.size > 0 && limiter !== undefined && this.#lastUse.has(limiter))
      this.#lastUse.set(limiter, this.#settings.clock.now());
    return limiter;
  }

  /** To be called when somebody waits in this limiter, who must be served although nothing else keeps the process alive. */
  noteWaiter(limiter: RateLimiter): void {
    if (!this.#driven.has(limiter as ReplenishingRateLimiter)) return;
    this.#somebodyWaits = true;
    if (!this.#timerKeepsAlive) this.#setTimer(true);
  }

  entries(): MapIterator<[Key, RateLimiter]> {
    return this.#limiters.entries();
  }

  /** Drops the limiter of a key, if nothing would be lost without it. */
  delete(key: Key): boolean {
    const limiter = this.#limiters.get(key);
    if (limiter === undefined || !this.#isIdleFor(limiter, Number.NEGATIVE_INFINITY)) return false;
    this.#evict(key, limiter);
    return true;
  }

  /** Leases granted and refused by all limiters there have been. */
  getTotals(): RateLimiterStatistics {
    let currentAvailablePermits = 0;
    let currentQueuedCount = 0;
    let totalFailedLeases = this.#goneFailures;
    let totalSuccessfulLeases = this.#goneSuccesses;
    for (const limiter of this.#all()) {
      const statistics = statisticsOf(limiter);
      if (statistics === undefined) continue;
      currentAvailablePermits += statistics.currentAvailablePermits;
      currentQueuedCount += statistics.currentQueuedCount;
      totalFailedLeases += statistics.totalFailedLeases;
      totalSuccessfulLeases += statistics.totalSuccessfulLeases;
    }
    currentAvailablePermits = Math.min(currentAvailablePermits, Number.MAX_SAFE_INTEGER);
    return Object.freeze({
      currentAvailablePermits,
      currentQueuedCount,
      totalFailedLeases,
      totalSuccessfulLeases,
    });
  }

  /** Counts a refusal that no limiter made. */
  countOverflow(): void {
    this.#goneFailures += 1;
  }

  /** Replenishes all limiters that do not do so themselves; true when one tried. */
  tryReplenish(): boolean {
    return replenishAll(this.#driven, "Replenishing partitions failed.");
  }

  /** Empties the map; returns what was in it. */
  close(): RateLimiter[] {
    this.#isDisposed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    const limiters = [...this.#all()];
    this.#limiters.clear();
    this.#driven.clear();
    this.#lastUse.clear();
    this.#overflow = undefined;
    this.#free = undefined;
    return limiters;
  }

  /** The evicted limiters that are still being disposed. */
  get leaving(): readonly Promise<void>[] {
    return [...this.#leaving];
  }

  *#all(): Generator<RateLimiter, void, undefined> {
    yield* this.#limiters.values();
    if (this.#overflow !== undefined) yield this.#overflow;
    if (this.#free !== undefined) yield this.#free;
  }

  #create(partition: RateLimitPartition<Key>, isOwn: boolean): RateLimiter | undefined {
    const key = partition.partitionKey;
    const isFree = this.#isFree(partition);
    if (isFree && !isOwn) {
      this.#free ??= this.#make(partition);
      return this.#free;
    }
    if (this.#isFull) this.#inspect(INSPECTED_WHEN_FULL, Number.NEGATIVE_INFINITY, 1);
    if (this.#isFull && (isFree || !this.#settings.sharesOverflow)) return undefined;
    if (this.#isFull && this.#overflow !== undefined) return this.#overflow;
    // Before the new one is there, which must not be dropped before it is used, however idle it says it is.
    this.#inspect(INSPECTED_WHEN_CREATING, this.#settings.idleLimitMs);
    const limiter = this.#make(partition);
    if (this.#isBounded && limiter.constructor === NoLimiter && (!isOwn || this.#isFull)) {
      if (isOwn) return undefined;
      this.#free ??= limiter;
      return this.#free;
    }
    // The factory is the user's code: it may have come here itself.
    const other = this.#limiters.get(key) ?? (this.#isFull ? this.#overflow : undefined);
    if (other !== undefined || (this.#isFull && !this.#settings.sharesOverflow)) {
      this.#dispose(limiter);
      return other;
    }
    if (this.#isFull) {
      this.#overflow = limiter;
    } else {
      this.#limiters.set(key, limiter);
    }
    if (limiter instanceof NoLimiter) this.#lastUse.set(limiter, this.#settings.clock.now());
    this.#drive(limiter);
    return limiter;
  }

  get #isBounded(): boolean {
    return this.#settings.maxPartitions !== Number.POSITIVE_INFINITY;
  }

  /** Whether a partition is known to have no limit, and needs no place. */
  #isFree(partition: RateLimitPartition<Key>): boolean {
    return this.#isBounded && partition.factory === makeNoLimiter;
  }

  get #isFull(): boolean {
    return this.#limiters.size >= this.#settings.maxPartitions;
  }

  #make(partition: RateLimitPartition<Key>): RateLimiter {
    const limiter = partition.factory(partition.partitionKey);
    if (!(limiter instanceof RateLimiter)) throw wrongAnswer("factory", "a RateLimiter", limiter);
    if (this.#isDisposed) this.#disposeNow(limiter);
    this.checkUsable();
    this.limiterClock.follow((limiter as InsideLimiter)[inside]?.clock);
    return limiter;
  }

  /** Sees to it that the limiter is replenished, if somebody has to, and that idle ones are looked for. */
  #drive(limiter: RateLimiter): void {
    const isDriven = limiter instanceof ReplenishingRateLimiter && !limiter.isAutoReplenishing;
    if (isDriven) this.#driven.add(limiter);
    const isFirst = isDriven && this.#driven.size === 1;
    if (isFirst) {
      this.#nextBeatAt = Number.POSITIVE_INFINITY;
      this.#somebodyWaits = false;
      this.#somebodyWaited = false;
    }
    if (this.#timer === undefined || isFirst) this.#setTimer(false);
  }

  #setTimer(keepAlive: boolean): void {
    this.#timer?.cancel();
    this.#timerKeepsAlive = keepAlive;
    const { clock, idleLimitMs } = this.#settings;
    // Twice per idle limit, since limiters that read no clock are idle only from the first look on.
    const slices = Math.ceil(Math.max(this.#limiters.size, this.#passSize, 1) / SLICE);
    let delayMs = idleLimitMs / 2 / slices;
    if (this.#driven.size > 0) {
      const now = clock.now();
      // The lesser of the two, so that a clock which goes back does not stop the beat.
      this.#nextBeatAt = Math.min(
        this.#nextBeatAt,
        now + BEAT_MS / Math.ceil(this.#driven.size / BEAT_SLICE),
      );
      delayMs = Math.min(delayMs, this.#nextBeatAt - now);
    }
    delayMs = Math.min(Math.max(1, Math.floor(delayMs)), LONGEST_DELAY_MS);
    this.#timer = clock.setTimer(() => this.#tick(), delayMs, keepAlive);
  }

  #tick(): void {
    this.#timer = undefined;
    // Timers have whole milliseconds, and may fire a little early.
    const isBeat = this.#settings.clock.now() > this.#nextBeatAt - 1;
    if (isBeat) this.#nextBeatAt = Number.POSITIVE_INFINITY;
    const replenished = isBeat ? this.#replenishSome() : 0;
    this.#inspect(SLICE - 1 - replenished, this.#settings.idleLimitMs);
    this.#inspectOverflow();
    const isEmpty = this.#limiters.size === 0 && this.#overflow === undefined;
    if (this.#isDisposed || isEmpty) return;
    this.#setTimer(this.#driven.size > 0 && (this.#somebodyWaits || this.#somebodyWaited));
  }

  /** Replenishes a slice of those that somebody has to, where the last one left off; returns how many. */
  #replenishSome(): number {
    let count = 0;
    while (count < BEAT_SLICE) {
      this.#beat ??= this.#driven.values();
      const next = this.#beat.next();
      if (next.done === true) {
        this.#beat = undefined;
        this.#somebodyWaited = this.#somebodyWaits;
        this.#somebodyWaits = false;
        if (count > 0 || this.#driven.size === 0) break;
        continue;
      }
      count += 1;
      try {
        next.value.tryReplenish();
        // It may have been dropped by what it did.
        if (!this.#driven.has(next.value)) continue;
        if ((next.value.getStatistics()?.currentQueuedCount ?? 0) > 0) this.#somebodyWaits = true;
      } catch (error) {
        this.#report(error);
      }
    }
    return count;
  }

  /** Looks at a few limiters, where the last look left off, and evicts the idle ones; stops after `most` of them. */
  #inspect(count: number, idleLimitMs: number, most: number = Number.POSITIVE_INFINITY): void {
    let evicted = 0;
    for (let i = Math.min(count, this.#limiters.size); i > 0 && evicted < most; i--) {
      let next = this.#sweep?.next();
      if (next === undefined || next.done === true) {
        this.#sweep = this.#limiters.entries();
        this.#passSize = this.#limiters.size;
        next = this.#sweep.next();
      }
      if (next.done === true) return;
      const [key, limiter] = next.value;
      if (!this.#isIdleFor(limiter, idleLimitMs)) continue;
      this.#evict(key, limiter);
      evicted += 1;
    }
  }

  #inspectOverflow(): void {
    const overflow = this.#overflow;
    if (overflow === undefined || !this.#isIdleFor(overflow, this.#settings.idleLimitMs)) return;
    this.#overflow = undefined;
    this.#letGo(overflow);
  }

  #isIdleFor(limiter: RateLimiter, idleLimitMs: number): boolean {
    try {
      const lastUse = this.#lastUse.get(limiter);
      // A pause, and who waits for its end.
      if (lastUse !== undefined && (limiter as NoLimiter).estimateWaitMs() > 0) return false;
      const idleMs = lastUse === undefined ? limiter.idleDurationMs : this.#settings.clock.now() - lastUse;
      return idleMs === undefined ? isDisposed(limiter) : idleMs > idleLimitMs;
    } catch (error) {
      // Somebody else has disposed it, so there is nothing to lose.
      if (error instanceof LimiterDisposedError) return true;
      this.#report(error);
      return false;
    }
  }

  #evict(key: Key, limiter: RateLimiter): void {
    this.#limiters.delete(key);
    this.#letGo(limiter);
  }

  /** Lets a limiter go that is in no map any more. */
  #letGo(limiter: RateLimiter): void {
    this.#driven.delete(limiter as ReplenishingRateLimiter);
    this.#lastUse.delete(limiter);
    if (this.#limiters.size === 0 && this.#overflow === undefined) {
      this.#timer?.cancel();
      this.#timer = undefined;
      this.#sweep = undefined;
      this.#beat = undefined;
    }
    try {
      const statistics = statisticsOf(limiter);
      this.#goneSuccesses += statistics?.totalSuccessfulLeases ?? 0;
      this.#goneFailures += statistics?.totalFailedLeases ?? 0;
    } catch (error) {
      this.#report(error);
    }
    this.#dispose(limiter);
  }

  /** Disposes a limiter that is dropped; nothing that it throws gets out. */
  #dispose(limiter: InsideLimiter): void {
    if (limiter[inside] !== undefined) {
      this.#disposeNow(limiter);
      return;
    }
    const leaving: Promise<void> = this.#disposeLater(limiter).then(() => void this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
  }

  #disposeNow(limiter: RateLimiter): void {
    try {
      limiter.dispose();
    } catch (error) {
      this.#report(error);
    }
  }

  async #disposeLater(limiter: RateLimiter): Promise<void> {
    try {
      await limiter.disposeAsync();
    } catch (error) {
      this.#report(error);
    }
  }

  /** Hands an error to whoever asked for those; otherwise the host reports it, as it does any that nobody handles. */
  #report(error: unknown): void {
    const { onBackgroundError } = this.#settings;
    if (onBackgroundError === undefined) {
      void Promise.reject(error);
      return;
    }
    try {
      onBackgroundError(error);
    } catch (thrown) {
      void Promise.reject(thrown);
    }
  }
}

/** Whether somebody else has disposed it, so that what is still out never comes back. */
function isDisposed(limiter: InsideLimiter): boolean {
  const seen = {} as LimiterSnapshot;
  return limiter[inside]?.snapshot(seen) === true && seen.isDisposed;
}

/** The statistics of a limiter; what is left of them when somebody else has disposed it. */
export function statisticsOf(limiter: InsideLimiter): RateLimiterStatistics | undefined {
  try {
    return limiter.getStatistics();
  } catch (error) {
    if (!(error instanceof LimiterDisposedError)) throw error;
    const seen = {} as LimiterSnapshot;
    if (limiter[inside]?.snapshot(seen) !== true) return undefined;
    return Object.freeze({
      currentAvailablePermits: 0,
      currentQueuedCount: 0,
      totalFailedLeases: seen.refused,
      totalSuccessfulLeases: seen.granted,
    });
  }
}
