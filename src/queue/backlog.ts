import { Alarm } from "../time/alarm.js";
import { type CodelControl, createCodel } from "./codel.js";
import { HighestPriorityFirst } from "./highest-priority-first.js";
import { IndexedHeap } from "./indexed-heap.js";
import type { QueueSettings } from "./queue-settings.js";
import { SignalWatch } from "./signal-watch.js";
import type { Waiter } from "./waiter.js";
import { NewestFirst, OldestFirst, type WaiterOrder } from "./waiter-order.js";

/** What a backlog tells the queue that it belongs to. */
export interface BacklogOwner {
  readonly settings: QueueSettings;
  /** The alarm has rung. */
  wake(): void;
  /** A signal that somebody waits with was aborted. */
  abort(watch: SignalWatch): void;
}

function makeOrder({ queueProcessingOrder }: QueueSettings): WaiterOrder {
  if (queueProcessingOrder === "oldestFirst") return new OldestFirst();
  return queueProcessingOrder === "newestFirst" ? new NewestFirst() : new HighestPriorityFirst();
}

/** How much the latest hand-over counts in the average, and from how many permits on the average is used. */
const LATEST_WEIGHT = 0.1;
const ENOUGH_PERMITS = 10;

/** How many have ever waited; of all queues, since some limiters have several. */
let arrivals = 0;

/**
 * Those who wait, and what can end their wait besides a permit: signals, deadlines, the end of a pause. Made only once
 * somebody waits or there is a pause, so that a limiter without that stays small.
 */
export class Backlog {
  readonly #settings: QueueSettings;
  readonly #watches = new Map<AbortSignal, SignalWatch>();
  readonly #deadlines = new IndexedHeap<"deadlinePlace", Waiter>(
    "deadlinePlace",
    (a, b) => a.deadline < b.deadline || (a.deadline === b.deadline && a.arrival < b.arrival),
  );
  readonly #onAbort: (watch: SignalWatch) => void;
  readonly order: WaiterOrder;
  readonly alarm: Alarm;
  /** What sheds from a queue that stands too long, if that is wanted. */
  readonly codel: CodelControl | undefined;
  /** Since when each waits, for that. Kept apart, since it would make every waiter of every limiter larger. */
  readonly #enqueuedAt: Map<Waiter, number> | undefined;
  /** When the pause ends, or the last one ended. */
  pausedUntil: number = Number.NEGATIVE_INFINITY;
  /** How much of the pause was left when somebody last looked. */
  pauseLeftMs = 0;
  isDraining = false;
  /** How many gave up waiting. */
  aborted = 0;
  /** How many were refused because the limiter was disposed; the statistics leave those out, as in .NET. */
  refusedByDispose = 0;
  #servedPermits = 0;
  #msPerPermit = 0;
  /** Since when somebody has waited for the next permit, and when one was last handed over. */
  #waitedSince = 0;
  #servedAt = 0;

  constructor(owner: BacklogOwner) {
    this.#settings = owner.settings;
    this.order = makeOrder(owner.settings);
    this.alarm = new Alarm(owner.settings.clock, () => owner.wake());
    this.#onAbort = (watch) => owner.abort(watch);
    const { codel, clock } = owner.settings;
    this.codel = codel === undefined ? undefined : createCodel(codel, clock.now());
    this.#enqueuedAt = codel === undefined ? undefined : new Map();
  }

  /** Whose deadline comes next. */
  get nextToExpire(): Waiter | undefined {
    return this.#deadlines.first;
  }

  /** @param waitMs - How long the waiter may wait at most; infinite when that is unbounded. */
  add(waiter: Waiter, signal: AbortSignal | undefined, waitMs: number): void {
    waiter.arrival = arrivals;
    arrivals += 1;
    if (signal !== undefined) {
      let watch = this.#watches.get(signal);
      if (watch === undefined) {
        watch = new SignalWatch(signal, this.#onAbort);
        this.#watches.set(signal, watch);
      }
      watch.add(waiter);
    }
    if (waitMs !== Number.POSITIVE_INFINITY) {
      waiter.deadline = this.#settings.clock.now() + waitMs;
      this.#deadlines.add(waiter);
    }
    this.order.append(waiter);
  }

  remove(waiter: Waiter): void {
    this.order.remove(waiter);
    this.#enqueuedAt?.delete(waiter);
    this.#deadlines.remove(waiter);
    const { watch } = waiter;
    if (watch?.remove(waiter) === true) this.#watches.delete(watch.signal);
  }

  /** Says since when somebody waits. */
  noteWaiting(waiter: Waiter, now: number): void {
    this.#enqueuedAt?.set(waiter, now);
  }

  /** Since when somebody has waited for permits: a pause is no wait for those. */
  waitingSince(waiter: Waiter, now: number): number {
    return Math.max(this.#enqueuedAt?.get(waiter) ?? now, this.pausedUntil);
  }

  /** Says that from now on somebody waits, after a time when nobody did. */
  noteFirst(now: number): void {
    if (this.#isOutdated(now)) this.#servedPermits = 0;
    this.#waitedSince = now;
  }

  /** Says that permits were handed over to those who wait. */
  noteServed(permits: number, now: number): void {
    const latest = Math.max(0, now - this.#waitedSince) / permits;
    this.#msPerPermit += (latest - this.#msPerPermit) * (this.#servedPermits === 0 ? 1 : LATEST_WEIGHT);
    this.#servedPermits += permits;
    this.#waitedSince = now;
    this.#servedAt = now;
  }

  /** How long it takes on average to hand over so many permits, in milliseconds; undefined while too little is known. */
  msToServe(permits: number, now: number): number | undefined {
    if (this.#servedPermits < ENOUGH_PERMITS || this.#isOutdated(now)) return undefined;
    return permits * this.#msPerPermit;
  }

  /**
   * Whether so much time has passed that the pace says nothing any more. Without that, a pace that was slow once would refuse
   * everybody who cannot wait so long, and nobody would be left to learn a better one from.
   */
  #isOutdated(now: number): boolean {
    return now - this.#servedAt > ENOUGH_PERMITS * this.#msPerPermit;
  }
}
