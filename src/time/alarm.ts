import type { Clock } from "../contract/clock.js";

/** The longest delay that hosts take; a longer one makes `setTimeout` fire at once. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/**
 * One re-armable wake-up, the only thing in this library that sets a timer for somebody who waits.
 *
 * It holds what hosts do not: it never rings before its time (a timer that fired early is set again for what is
 * left), it waits longer than 2^31-1 ms (in stages), and it moves cheaply: setting it later than it already
 * stands keeps the host timer, which then finds at its time that it has to go on.
 *
 * The timer keeps the process alive unless it is told otherwise, since whoever sets an alarm has somebody waiting; it
 * must be cleared when nobody waits any more.
 */
export class Alarm {
  readonly #clock: Clock;
  readonly #ring: () => void;
  #timer: { cancel(): void } | undefined;
  #timerFiresAt = 0;
  #keepsAlive: boolean;
  #dueAt = 0;

  constructor(clock: Clock, ring: () => void, keepsAlive = true) {
    this.#clock = clock;
    this.#ring = ring;
    this.#keepsAlive = keepsAlive;
  }

  /** Rings once, as soon as the clock shows `dueAt` or more. Replaces an earlier setting. */
  set(dueAt: number): void {
    this.#dueAt = dueAt;
    if (this.#timer !== undefined && this.#timerFiresAt <= dueAt) return;
    this.clear();
    this.#start();
  }

  /** Whether the timer keeps the process alive from now on. */
  setKeepsAlive(keepsAlive: boolean): void {
    if (this.#keepsAlive === keepsAlive) return;
    this.#keepsAlive = keepsAlive;
    if (this.#timer === undefined) return;
    this.clear();
    this.#start();
  }

  clear(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #start(): void {
    const now = this.#clock.now();
    const delay = Math.min(Math.max(Math.ceil(this.#dueAt - now), 1), LONGEST_DELAY_MS);
    this.#timerFiresAt = now + delay;
    this.#timer = this.#clock.setTimer(this.#onTimer, delay, this.#keepsAlive);
  }

  readonly #onTimer = (): void => {
    this.#timer = undefined;
    if (this.#clock.now() < this.#dueAt) this.#start();
    else this.#ring();
  };
}
