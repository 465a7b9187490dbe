import type { Clock } from "../contract/clock.js";

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
    this.#aheadMs = this.#clock.now() - clock.now();
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now() + this.#aheadMs;
  }

  setTimer(callback: () => void, delayMs: number, keepAlive?: boolean): { cancel(): void } {
    return this.#clock.setTimer(callback, delayMs, keepAlive);
  }
}
