import type { RateLimitLease } from "headgate";
import type { AcquireSink, AcquireTicket, RunInContext } from "../../src/internal.js";

/** A value that waits for a lease. */
export class WaitingValue<T> {
  readonly value: T;
  readonly index: number;
  readonly resource: unknown;
  readonly lane: Lane<T>;
  /** Runs its work where it came from, in terms of async context; undefined when that is where it will run anyway. */
  runInContext: RunInContext | undefined;
  /** Its neighbours in the order in which values came. */
  older: WaitingValue<T> | undefined = undefined;
  newer: WaitingValue<T> | undefined = undefined;
  /** The one behind it in its lane. */
  next: WaitingValue<T> | undefined = undefined;

  constructor(value: T, index: number, resource: unknown, lane: Lane<T>) {
    this.value = value;
    this.index = index;
    this.resource = resource;
    this.lane = lane;
  }
}

/** Who looks after a lane. */
export interface LaneOwner<T> {
  settled(lane: Lane<T>, lease: RateLimitLease): void;
  failed(lane: Lane<T>, error: unknown): void;
}

/** What a sink was told before the request had returned. */
export type Early = { readonly lease: RateLimitLease } | { readonly error: unknown };

/** Values that wait in line. The first one asks the limiter, and the lane is told. */
export class Lane<T> implements AcquireSink {
  readonly #owner: LaneOwner<T>;
  readonly key: unknown;
  first: WaitingValue<T> | undefined = undefined;
  last: WaitingValue<T> | undefined = undefined;
  /** The first one's place in the limiter's queue. */
  ticket: AcquireTicket | undefined = undefined;
  /** Until the first one asks again. */
  timer: { cancel(): void } | undefined = undefined;
  /** How often the first one has been refused. */
  refusals = 0;
  isAsking = false;
  early: Early | undefined = undefined;
  isReady = false;
  nextReady: Lane<T> | undefined = undefined;

  constructor(owner: LaneOwner<T>, key: unknown) {
    this.#owner = owner;
    this.key = key;
  }

  /** Whether its first value could ask now. */
  get isIdle(): boolean {
    return this.ticket === undefined && this.timer === undefined && !this.isAsking;
  }

  settled(lease: RateLimitLease): void {
    if (this.isAsking) this.early = { lease };
    else this.#owner.settled(this, lease);
  }

  failed(error: unknown): void {
    if (this.isAsking) this.early = { error };
    else this.#owner.failed(this, error);
  }

  /** Stops whatever goes on for the first value. */
  stop(): void {
    const { ticket, timer } = this;
    this.ticket = undefined;
    this.timer = undefined;
    this.refusals = 0;
    timer?.cancel();
    ticket?.cancel();
  }
}

/** All values that wait, in the order in which they came and by lane; each step takes the same time, however many there are. */
export class WaitingValues<T> {
  count = 0;
  oldest: WaitingValue<T> | undefined = undefined;
  #newest: WaitingValue<T> | undefined = undefined;

  /** Puts a value at the end of its lane. */
  add(waiting: WaitingValue<T>): void {
    const { lane } = waiting;
    if (lane.last === undefined) lane.first = waiting;
    else lane.last.next = waiting;
    lane.last = waiting;
    this.#link(waiting, this.#newest, undefined);
  }

  /** Puts a value before all others of its lane: it came first, and those came while it asked. */
  addFirst(waiting: WaitingValue<T>): void {
    const { lane } = waiting;
    const { first } = lane;
    if (first === undefined) {
      this.add(waiting);
      return;
    }
    waiting.next = first;
    lane.first = waiting;
    this.#link(waiting, first.older, first);
  }

  /** Takes the first value out of its lane. */
  removeFirst({ lane, older, newer, next }: WaitingValue<T>): void {
    lane.first = next;
    if (next === undefined) lane.last = undefined;
    if (older === undefined) this.oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    this.count -= 1;
  }

  #link(
    waiting: WaitingValue<T>,
    older: WaitingValue<T> | undefined,
    newer: WaitingValue<T> | undefined,
  ): void {
    waiting.older = older;
    waiting.newer = newer;
    if (older === undefined) this.oldest = waiting;
    else older.newer = waiting;
    if (newer === undefined) this.#newest = waiting;
    else newer.older = waiting;
    this.count += 1;
  }
}

/** Lanes whose first value can ask now, in the order in which they became so. */
export class ReadyLanes<T> {
  #first: Lane<T> | undefined = undefined;
  #last: Lane<T> | undefined = undefined;

  add(lane: Lane<T>): void {
    if (lane.isReady) return;
    lane.isReady = true;
    if (this.#last === undefined) this.#first = lane;
    else this.#last.nextReady = lane;
    this.#last = lane;
  }

  take(): Lane<T> | undefined {
    const lane = this.#first;
    if (lane === undefined) return undefined;
    this.#first = lane.nextReady;
    if (this.#first === undefined) this.#last = undefined;
    lane.nextReady = undefined;
    lane.isReady = false;
    return lane;
  }
}
