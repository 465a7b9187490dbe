import type { Clock } from "headgate";
import { EventQueue } from "./event-queue.js";
import { SimulationError } from "./simulation-error.js";

/** Something that an event can happen to. */
export interface Happening {
  happen(): void;
}

/**
 * What goes first at one instant. What completes when a pause begins was done before it; a completion frees its permit for
 * who arrives then; a window that opens serves who arrives then; an answer that comes exactly at the client's deadline is in
 * time.
 */
export const COMPLETION = 0;
export const DEGRADATION = 1;
const TIMER = 2;
export const CLIENT_TIMEOUT = 3;
export const ARRIVAL = 4;
export const SAMPLE = 5;

/** How many timers in a row may be set for the very instant at which they are set. */
const MOST_TIMERS_WITHOUT_TIME = 100_000;

/** How often clients may come again at the very instant at which they were answered: that many times, and ten times each. */
const MOST_RETURNS_WITHOUT_TIME = 100_000;
const MOST_RETURNS_EACH = 10;

/** Virtual time: it stands still while something happens, and jumps to what happens next. */
export class EventLoop implements Clock {
  readonly #events = new EventQueue<Happening>();
  /** What a limiter gets to see of it. */
  readonly clock: Clock = {
    now: () => {
      this.#wasRead = true;
      return this.#now;
    },
    setTimer: (callback, delayMs) => this.setTimer(callback, delayMs),
  };
  #now: number;
  #timers = 0;
  #timersAtThisInstant = 0;
  #returnsAtThisInstant = 0;
  #wasRead = false;
  /** Whether a timer of the clock has fired since somebody set this to false. */
  timerFired = false;

  constructor(startMs = 0) {
    this.#now = startMs;
  }

  now(): number {
    return this.#now;
  }

  /** How many timers are set. */
  get pendingTimers(): number {
    return this.#timers;
  }

  /** How many events are to come, timers included. */
  get pendingEvents(): number {
    return this.#events.size;
  }

  /** When the next event happens; infinite when there is none. */
  get nextTime(): number {
    return this.#events.nextTime;
  }

  /** Whether a clock shows this time; it may be one that asks the limiter's clock for it. */
  isShownBy(clock: Clock): boolean {
    this.#wasRead = false;
    clock.now();
    return this.#wasRead;
  }

  /** Has something happen at a time, which must not be over; the returned ticket is for `cancel`. */
  at(time: number, eventClass: number, happening: Happening): number {
    return this.#events.add(time, eventClass, happening);
  }

  /** Takes back an event that has not happened, and has not been cancelled. */
  cancel(ticket: number): void {
    this.#events.cancel(ticket);
  }

  setTimer(callback: () => void, delayMs: number): { cancel(): void } {
    // Also for a delay that is not a number, or too small to change the time.
    const dueAt = delayMs > 0 ? this.#now + delayMs : this.#now;
    if (dueAt === this.#now) this.#countTimerWithoutTime(callback);
    let isPending = true;
    this.#timers += 1;
    const ticket = this.at(dueAt, TIMER, {
      happen: () => {
        isPending = false;
        this.#timers -= 1;
        this.timerFired = true;
        callback();
      },
    });
    return {
      cancel: () => {
        if (!isPending) return;
        isPending = false;
        this.#timers -= 1;
        this.cancel(ticket);
      },
    };
  }

  /** Moves time on to the next event, which is at `time`, and lets it happen. */
  happenAt(time: number): void {
    this.moveTo(time);
    this.#events.take()?.happen();
  }

  /** Moves time on without anything happening; never back. */
  moveTo(time: number): void {
    if (time <= this.#now) return;
    this.#now = time;
    this.#timersAtThisInstant = 0;
    this.#returnsAtThisInstant = 0;
  }

  /** Notes that a new client has come: it may come again a few times at this instant. */
  countNewClient(): void {
    this.#returnsAtThisInstant -= MOST_RETURNS_EACH;
  }

  /**
   * Notes that a client comes again at the instant at which it was answered.
   *
   * @param clients - How many clients there are, besides new ones: all of them may do so a few times.
   */
  countReturnWithoutTime(clients: number): void {
    this.#returnsAtThisInstant += 1;
    if (this.#returnsAtThisInstant <= MOST_RETURNS_WITHOUT_TIME + MOST_RETURNS_EACH * clients) return;
    throw new SimulationError(
      `time does not advance: clients came again ${MOST_RETURNS_WITHOUT_TIME} times, and more, at the instant at which they were answered`,
      this.#now,
    );
  }

  #countTimerWithoutTime(callback: () => void): void {
    this.#timersAtThisInstant += 1;
    if (this.#timersAtThisInstant <= MOST_TIMERS_WITHOUT_TIME) return;
    const owner = callback.name === "" ? "a function without a name" : `the function ${callback.name}`;
    throw new SimulationError(
      `time does not advance: ${MOST_TIMERS_WITHOUT_TIME} timers were set for the instant at which they were set, the last for ${owner}`,
      this.#now,
    );
  }
}
