import type { Clock } from "headgate";
import { EventQueue } from "./event-queue.js";
import { SimulationError } from "./simulation-error.js";

/** Something that an event can happen to. */
export interface Happening {
  happen(): void;
}

/**
 * What goes first at one instant. A completion frees its permit for who arrives then; a window that opens serves who
 * arrives then; an answer that comes exactly at the client's deadline is in time.
 */
export const COMPLETION = 0;
const TIMER = 1;
export const CLIENT_TIMEOUT = 2;
export const ARRIVAL = 3;
export const SAMPLE = 4;

/** How many timers in a row may be set for the very instant at which they are set. */
const MOST_TIMERS_WITHOUT_TIME = 100_000;

/** Virtual time: it stands still while something happens, and jumps to what happens next. */
export class EventLoop implements Clock {
  readonly #events = new EventQueue<Happening>();
  /** What a limiter gets to see of it. */
  readonly clock: Clock = {
    now: () => this.#now,
    setTimer: (callback, delayMs) => this.setTimer(callback, delayMs),
  };
  #now: number;
  #timers = 0;
  #timersAtThisInstant = 0;
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
