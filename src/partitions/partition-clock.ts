import type { Clock } from "../contract/clock.js";

/** Parts of a millisecond that sums of times keep exactly. */
const PARTS = 1024;

/**
 * The clock that the limiters of a partitioned limiter live by. That is not known before the first of them is made; until
 * then, and where limiters do not tell, it is the partitioned limiter's own.
 *
 * It goes on from what it has shown when it changes over, so that a deadline which was set before holds after. All
 * limiters are taken to live by the clock of the first that tells.
 */
export class PartitionClock implements Clock {
  #clock: Clock;
  #isKnown = false;
  #wasRead = false;
  /** What its time is ahead of the clock's. */
  #aheadMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Changes over to a limiter's clock, if none has told one yet. */
  follow(clock: Clock | undefined): void {
    if (this.#isKnown || clock === undefined) return;
    this.#isKnown = true;
    if (clock === this.#clock) return;
    if (this.#wasRead) this.#aheadMs = roundDown(this.#clock.now()) - clock.now();
    this.#clock = clock;
  }

  now(): number {
    if (this.#isKnown) return this.#clock.now() + this.#aheadMs;
    this.#wasRead = true;
    return roundDown(this.#clock.now());
  }

  setTimer(callback: () => void, delayMs: number, keepAlive?: boolean): { cancel(): void } {
    return this.#clock.setTimer(callback, delayMs, keepAlive);
  }
}

/** Rounds so that the other clock's time can be added without an error, which could make a deadline late. */
function roundDown(ms: number): number {
  return Math.floor(ms * PARTS) / PARTS;
}
