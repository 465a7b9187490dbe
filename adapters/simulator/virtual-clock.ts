import type { Clock } from "headgate";
import { checkNumber } from "../../src/internal.js";
import { letPromisesSettle } from "./barrier.js";
import { EventLoop } from "./event-loop.js";

/**
 * Virtual time for code of your own: it stands still until `runUntil` moves it, and then jumps from timer to timer.
 *
 * The same time that `simulate` runs on. Different from the `ManualClock` of `headgate/testing`: it is patient with
 * promises. After each timer it lets whoever was woken go on, also through several awaits, before time moves.
 * It takes any delay, however long; one that is not above 0 fires at the current instant, never inside `setTimer`.
 *
 * @example
 * ```ts
 * import { FixedWindowRateLimiter } from "headgate";
 * import { VirtualClock } from "headgate/simulator";
 *
 * const clock = new VirtualClock();
 * const limiter = new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 1000, queueLimit: 10, clock });
 * const grantedAt: number[] = [];
 * for (let i = 0; i < 6; i++) void limiter.acquire().then(() => grantedAt.push(clock.now()));
 * await clock.runUntil(10_000);
 * console.log(grantedAt); // [0, 0, 1000, 1000, 2000, 2000]
 * ```
 *
 * @public
 */
export class VirtualClock implements Clock {
  readonly #loop: EventLoop;

  /**
   * @param startMs - What it shows at first, in milliseconds; 0 by default.
   * @throws TypeError or RangeError when that is not a finite number.
   */
  constructor(startMs = 0) {
    checkNumber("startMs", startMs, "a finite number", Number.isFinite);
    this.#loop = new EventLoop(startMs);
  }

  /** The virtual time in milliseconds. Never goes back. */
  now(): number {
    return this.#loop.now();
  }

  /**
   * Has a callback called later in virtual time.
   *
   * @param delayMs - Milliseconds, of any length. What is not above 0 means the current instant.
   * @throws SimulationError when 100 000 timers have been set for the instant at which they were set: time would never move on.
   */
  setTimer(callback: () => void, delayMs: number): { cancel(): void } {
    return this.#loop.setTimer(callback, delayMs);
  }

  /** How many timers are set. */
  get pendingTimers(): number {
    return this.#loop.pendingTimers;
  }

  /**
   * Moves time on, firing each timer at its own moment, also those that are set meanwhile. What a callback throws ends the run
   * and rejects the promise; time then stands where it was thrown.
   *
   * @param timeMs - What the clock shows in the end. A time that is over moves nothing.
   * @throws TypeError or RangeError (as a rejection) when it is not a finite number.
   */
  async runUntil(timeMs: number): Promise<void> {
    checkNumber("timeMs", timeMs, "a finite number", Number.isFinite);
    await this.#settle();
    for (let next = this.#loop.nextTime; next <= timeMs; next = this.#loop.nextTime) {
      this.#loop.happenAt(next);
      await this.#settle();
    }
    this.#loop.moveTo(timeMs);
  }

  /** Whoever was woken sets timers, or nothing: news are timers. */
  #settle(): Promise<void> {
    return letPromisesSettle(
      () => false,
      () => this.#loop.pendingEvents,
    );
  }
}
