import { type Clock, type RateLimitLease, RateLimitRejectedError } from "headgate";
import { type ObservableInput, type Subscriber, type Subscription, UnsubscriptionError } from "rxjs";
import { captureContext, isLease, wrongType } from "../../src/internal.js";
import { BufferOverflowError } from "./buffer-overflow-error.js";
import type { Door } from "./doors.js";
import { Lane, type LaneOwner, ReadyLanes, WaitingValue, WaitingValues } from "./lanes.js";
import type { OverflowChoice } from "./options.js";
import { actionFor } from "./rejected-actions.js";
import { Retries } from "./retries.js";
import { OVERFLOW_CHOICES, type Rules } from "./rules.js";

/*
 * One subscription to an operator: values come, wait in lanes, ask for leases, and go on.
 *
 * The naive operator gives the lease back in a `finalize`, waits for `limiter.acquire()`, and starts the next value from
 * the end of the one before. Each of the three is a fault. RxJS runs `finalize` after `complete`, so that of two streams in
 * a `concat` that share one permit the second is refused. A promise lets a microtask pass before the permit is used, which
 * no marble test sees. And starting the next value inside the end of the last one makes the stack as deep as the buffer is
 * long: `concatMap` over a thousand buffered values that complete at once overflows it.
 *
 * So: an end gives its lease back before anybody is told; grants come through the limiter's inside door, in the turn of the
 * release; and one loop, `#run`, does the starting, while whatever happens inside it only says which lane is ready.
 *
 * With 2 permits and values a, b, c: a and b start as they come, c asks and waits. a ends: its teardowns run, its lease goes
 * back, and inside that very `dispose` the limiter grants c, which starts. Only then does a's `complete()` return to
 * whoever ended it. The surprise: `complete` of one stream may run the work of another, in the limiter's name; that is why
 * a waiting value remembers the async context it came from.
 */

/** Which lane a value is in; `own` is one for each value, and undefined one for all. */
export type LaneKey<T> = ((value: T, index: number, resource: unknown) => unknown) | "own" | undefined;

export abstract class Admissions<T, R> implements LaneOwner<T> {
  protected readonly destination: Subscriber<R>;
  protected readonly rules: Rules<T, R>;
  readonly #door: Door;
  readonly #clock: Clock;
  readonly #resourceOf: ((value: T, index: number) => unknown) | undefined;
  readonly #laneKey: LaneKey<T>;
  /** The lane of all values, where there is only one. */
  readonly #only: Lane<T> | undefined;
  /** The lanes in which values wait, by key, where they have keys. */
  readonly #lanes = new Map<unknown, Lane<T>>();
  readonly #waiting = new WaitingValues<T>();
  readonly #ready = new ReadyLanes<T>();
  readonly #retries: Retries<T>;
  #source: Subscription | undefined = undefined;
  #index = 0;
  #used = 0;
  protected active = 0;
  #isRunning = false;
  #isSourceDone = false;
  #isClosed = false;

  constructor(
    destination: Subscriber<R>,
    rules: Rules<T, R>,
    door: Door,
    resourceOf?: (value: T, index: number) => unknown,
  ) {
    this.destination = destination;
    this.rules = rules;
    this.#door = door;
    this.#clock = rules.clockOf(door.clock);
    this.#resourceOf = resourceOf;
    this.#retries = new Retries(rules.retry, this.#clock, (lane) => {
      this.#ready.add(lane);
      this.#run();
    });
    this.#laneKey = laneKeyOf(rules, door, resourceOf !== undefined);
    this.#only = this.#laneKey === undefined ? new Lane<T>(this, undefined) : undefined;
    rules.signal?.addEventListener("abort", this.#abort);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** What to unsubscribe from when this ends. */
  setSource(source: Subscription): void {
    if (this.#isClosed) source.unsubscribe();
    else this.#source = source;
  }

  /** Takes a value from the source. */
  arrive(value: T): void {
    if (this.#isClosed) return;
    if (this.#isRunning) {
      this.#admit(value, false);
      return;
    }
    this.#isRunning = true;
    this.#admit(value, true);
    this.#isRunning = false;
    this.#run();
  }

  /** The source is done; the result is when everything else is. */
  sourceDone(): void {
    this.#isSourceDone = true;
    this.#run();
  }

  /** Ends the result with an error, once everything has been given back. */
  fail(error: unknown): void {
    if (this.#isClosed) return;
    try {
      this.close();
    } finally {
      this.destination.error(error);
    }
  }

  /** Gives everything back. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const errors: unknown[] = [];
    const attempt = (action: () => void): void => {
      try {
        action();
      } catch (error) {
        errors.push(error);
      }
    };
    this.rules.signal?.removeEventListener("abort", this.#abort);
    attempt(() => this.#source?.unsubscribe());
    // Nobody may be granted what the end of others gives back.
    for (let waiting = this.#waiting.oldest; waiting !== undefined; waiting = waiting.newer) {
      const { lane } = waiting;
      if (lane.first === waiting) attempt(() => lane.stop());
    }
    this.closeActive(attempt);
    attempt(() => this.#door.close());
    if (errors.length > 0) throw new UnsubscriptionError(errors);
  }

  settled(lane: Lane<T>, lease: RateLimitLease): void {
    lane.ticket = undefined;
    const waiting = lane.first;
    if (this.#isClosed || waiting === undefined) {
      lease.refund();
      return;
    }
    const wasRunning = this.#isRunning;
    this.#isRunning = true;
    this.#answered(lane, waiting, waiting.value, waiting.index, waiting.resource, lease);
    this.#isRunning = wasRunning;
    this.#run();
  }

  failed(_lane: Lane<T>, error: unknown): void {
    this.fail(error);
  }

  /** Lets a value go on with its lease, which is undefined for what replaces a refused value. */
  protected abstract go(
    value: T,
    index: number,
    lease: RateLimitLease,
    permitCount: number,
    laneKey: unknown,
  ): void;

  /** Puts something in the place of a refused value. */
  protected abstract replace(input: ObservableInput<R>): void;

  /** Ends the work that is going on. */
  protected abstract closeActive(attempt: (action: () => void) => void): void;

  /** Fetches one more value, where the source can be asked; false when there is none now. */
  protected pull(): boolean {
    return false;
  }

  /** Takes a value that was fetched. */
  protected admit(value: T): void {
    this.#admit(value, true);
  }

  /** Does something as part of the loop, and goes on with that. */
  protected proceed(action: () => void): void {
    if (this.#isClosed) return;
    const wasRunning = this.#isRunning;
    this.#isRunning = true;
    action();
    this.#isRunning = wasRunning;
    this.#run();
  }

  /** Counts work that begins. */
  protected begin(permitCount: number): void {
    this.active += 1;
    this.#used += permitCount;
  }

  /** Counts work that ends, before its lease goes back. */
  protected end(permitCount: number): void {
    this.active -= 1;
    this.#used -= permitCount;
  }

  /** Goes on after work has ended and its lease has gone back. */
  protected resume(laneKey: unknown): void {
    if (this.#only?.first !== undefined) this.#ready.add(this.#only);
    this.#hurry(laneKey);
    this.#run();
  }

  readonly #abort = (): void => {
    this.fail(this.rules.signal?.reason);
  };

  /** Starts whatever can start; the only place where that happens, so that the stack stays as deep as it is. */
  #run(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    while (!this.#isClosed) {
      const lane = this.#ready.take();
      if (lane !== undefined) this.#askForFirst(lane);
      else if (this.#waiting.count > 0 || this.#isSourceDone || !this.pull()) break;
    }
    this.#isRunning = false;
    if (this.#isSourceDone && this.#waiting.count === 0 && this.active === 0 && !this.#isClosed) {
      try {
        this.close();
      } finally {
        this.destination.complete();
      }
    }
  }

  /** Has a new value ask at once, if nobody is before it; otherwise it waits. */
  #admit(value: T, canAsk: boolean): void {
    const index = this.#index;
    this.#index += 1;
    let resource: unknown;
    let lane: Lane<T>;
    try {
      resource = this.#resourceOf?.(value, index);
      lane = this.#only ?? this.#laneFor(value, index, resource);
    } catch (error) {
      this.fail(error);
      return;
    }
    if (canAsk && lane.first === undefined && !lane.isAsking)
      this.#ask(lane, undefined, value, index, resource);
    else this.#wait(lane, value, index, resource, false);
  }

  #laneFor(value: T, index: number, resource: unknown): Lane<T> {
    const laneKey = this.#laneKey;
    if (typeof laneKey !== "function") return new Lane<T>(this, undefined);
    const key = laneKey(value, index, resource);
    const known = this.#lanes.get(key);
    if (known !== undefined) return known;
    const lane = new Lane<T>(this, key);
    this.#lanes.set(key, lane);
    return lane;
  }

  #askForFirst(lane: Lane<T>): void {
    const { first } = lane;
    if (first !== undefined && lane.isIdle) this.#ask(lane, first, first.value, first.index, first.resource);
  }

  /** Asks for a lease for the first value of a lane, which may not be in it yet. */
  #ask(
    lane: Lane<T>,
    waiting: WaitingValue<T> | undefined,
    value: T,
    index: number,
    resource: unknown,
  ): void {
    let answer: ReturnType<Door["request"]>;
    let permitCount: number;
    try {
      permitCount = this.rules.permitCountOf(value, index);
      if (this.#isBlocked(permitCount)) {
        if (waiting === undefined) this.#wait(lane, value, index, resource, true);
        else if (this.#waiting.count > this.rules.bufferSize) this.#judge(waiting);
        return;
      }
      const options = this.rules.acquireOptionsOf(value, index, this.#clock);
      lane.isAsking = true;
      answer = this.#door.request(resource, permitCount, options, lane);
    } catch (error) {
      this.fail(error);
      return;
    } finally {
      lane.isAsking = false;
    }
    const { early } = lane;
    lane.early = undefined;
    if (isLease(answer)) {
      this.#answered(lane, waiting, value, index, resource, answer, permitCount);
    } else if (early !== undefined) {
      if ("error" in early) this.fail(early.error);
      else this.#answered(lane, waiting, value, index, resource, early.lease, permitCount);
    } else if (this.#isClosed) {
      answer.cancel();
    } else {
      lane.ticket = answer;
      if (waiting === undefined) this.#wait(lane, value, index, resource, true);
      else if (this.#waiting.count > this.rules.bufferSize) this.#judge(waiting);
    }
  }

  /** Lets go of a value that has asked and has to wait, where none may wait. */
  #judge(waiting: WaitingValue<T>): void {
    this.#makesRoom(waiting.value);
    if (!this.#isClosed && waiting.lane.first === waiting) this.#leave(waiting.lane, waiting);
  }

  /** Whether so many permits have to wait for the end of work of this stream. */
  #isBlocked(permitCount: number): boolean {
    if (this.rules.isConcat && this.active > 0) return true;
    const { capacity } = this.#door;
    if (permitCount > capacity) {
      throw new RangeError(`permitCount ${permitCount} is more permits than the limit of ${capacity}.`);
    }
    return this.#used + permitCount > capacity;
  }

  #answered(
    lane: Lane<T>,
    waiting: WaitingValue<T> | undefined,
    value: T,
    index: number,
    resource: unknown,
    lease: RateLimitLease,
    permitCount = 0,
  ): void {
    try {
      if (this.#isClosed) {
        lease.refund();
      } else if (!lease.isAcquired) {
        this.#refused(lane, waiting, value, index, resource, lease);
      } else {
        // There may be another permit where this one came from.
        if (lane.refusals > 0) this.#hurry(lane.key);
        this.#leave(lane, waiting);
        const run = waiting?.runInContext;
        if (run === undefined) this.go(value, index, lease, permitCount, lane.key);
        else run(() => this.go(value, index, lease, permitCount, lane.key));
      }
    } catch (error) {
      // What the end of the stream throws is for whoever ended it.
      if (this.#isClosed) throw error;
      this.fail(error);
    }
  }

  /**
   * Has a value wait, if there is room for it. One that has asked already goes before all others of its lane: they have come
   * while it asked.
   */
  #wait(
    lane: Lane<T>,
    value: T,
    index: number,
    resource: unknown,
    hasAsked: boolean,
  ): WaitingValue<T> | undefined {
    const { bufferSize } = this.rules;
    // One that has not asked may be let through when it does, so it is let in where nobody waits, and judged then.
    if (this.#waiting.count >= (hasAsked ? bufferSize : Math.max(1, bufferSize))) {
      if (!this.#makesRoom(value)) {
        lane.stop();
        this.#leave(lane, undefined);
        return undefined;
      }
    }
    const waiting = new WaitingValue(value, index, resource, lane);
    // Who waits in a limiter's queue is called back in its own context.
    if (lane.ticket === undefined || lane.first !== undefined) waiting.runInContext = captureContext();
    if (hasAsked) {
      this.#waiting.addFirst(waiting);
    } else {
      this.#waiting.add(waiting);
      if (lane.first === waiting) this.#ready.add(lane);
    }
    return waiting;
  }

  /** Whether a value that is one too many may wait in the place of the oldest one, or is let go of itself. */
  #makesRoom(value: T): boolean {
    const { overflow, bufferSize: size } = this.rules;
    let choice: OverflowChoice;
    try {
      choice =
        typeof overflow === "function"
          ? overflow(value, { size, waiting: this.#waiting.count, active: this.active })
          : overflow;
      if (!OVERFLOW_CHOICES.includes(choice)) {
        throw wrongType(
          "options.buffer.overflow()",
          OVERFLOW_CHOICES.map((c) => `"${c}"`).join(" or "),
          choice,
        );
      }
    } catch (error) {
      this.fail(error);
      return false;
    }
    if (choice === "error") this.fail(new BufferOverflowError(size));
    const { oldest } = this.#waiting;
    if (choice !== "dropOldest" || oldest === undefined || this.#isClosed) return false;
    this.#leave(oldest.lane, oldest);
    return size > 0;
  }

  /** Takes the first value out of its lane, where it is in it, and lets the next one ask. */
  #leave(lane: Lane<T>, waiting: WaitingValue<T> | undefined): void {
    if (waiting !== undefined) {
      lane.stop();
      this.#retries.forget(lane);
      this.#waiting.removeFirst(waiting);
    }
    if (lane.first !== undefined) this.#ready.add(lane);
    else if (this.#lanes.size > 0 && this.#lanes.get(lane.key) === lane) this.#lanes.delete(lane.key);
  }

  #refused(
    lane: Lane<T>,
    waiting: WaitingValue<T> | undefined,
    value: T,
    index: number,
    resource: unknown,
    lease: RateLimitLease,
  ): void {
    const { onRejected, retry } = this.rules;
    const { reason, retryAfterMs } = lease;
    // Nobody looks at what is dropped, so it costs little.
    if (onRejected === "drop" && reason !== "limiter_disposed") {
      lease.dispose();
      this.#leave(lane, waiting);
      return;
    }
    const attempt = lane.refusals + 1;
    const metadata: ReadonlyMap<string, unknown> = new Map(lease.getAllMetadata());
    lease.dispose();
    const rejection = { value, index, attempt, reason, retryAfterMs, metadata };
    const action = actionFor(onRejected, rejection, retry.maxAttempts);
    if (this.#isClosed) return;
    if (action.action === "error") {
      this.fail(action.error ?? new RateLimitRejectedError(rejection));
    } else if (action.action === "retry") {
      const kept = waiting ?? this.#wait(lane, value, index, resource, true);
      if (kept !== undefined) this.#retries.later(kept, action.delayMs, retryAfterMs);
    } else {
      this.#leave(lane, waiting);
      if (action.action === "replace") this.replace(action.with);
    }
  }

  /** Has a value ask now that waits for its next try: something has come back that may be what it needs. */
  #hurry(laneKey: unknown): void {
    const oldest = this.#retries.oldestHopeful;
    if (oldest === undefined) return;
    const lane = typeof this.#laneKey === "function" ? this.#lanes.get(laneKey) : oldest;
    if (lane !== undefined && this.#retries.hurry(lane)) this.#ready.add(lane);
  }
}

function laneKeyOf<T, R>(rules: Rules<T, R>, door: Door, isPartitioned: boolean): LaneKey<T> {
  if (rules.isEager) return "own";
  const { lane } = rules;
  if (!isPartitioned || rules.isConcat || lane === false) return undefined;
  return lane ?? ((_value, _index, resource) => door.keyOf?.(resource));
}
