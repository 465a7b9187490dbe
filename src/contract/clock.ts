/**
 * Where a limiter gets its time from, and how it asks to be woken.
 *
 * Every options type of this library takes a `clock`. The default is {@link systemClock}; tests pass the
 * `ManualClock` of `headgate/testing`, and a simulator passes its own.
 *
 * @example
 * ```ts
 * import { type Clock, ConcurrencyLimiter, systemClock } from "headgate";
 *
 * let reads = 0;
 * const countingClock: Clock = {
 *   now: () => {
 *     reads += 1;
 *     return systemClock.now();
 *   },
 *   setTimer: systemClock.setTimer,
 * };
 * const limiter = new ConcurrencyLimiter({ permitLimit: 10, clock: countingClock });
 * ```
 *
 * @public
 */
export interface Clock {
  /**
   * The time in milliseconds since some fixed moment; fractions are allowed. It should never go back; limiters
   * stay right if it does: they then add nothing until it has caught up.
   */
  now(): number;
  /**
   * Calls `callback` once, after about `delayMs` milliseconds (1 to 2 147 483 647). A host may be early by a
   * fraction of a millisecond, or late by any amount: who waits for a moment looks at `now()` again.
   *
   * @param keepAlive - Whether the pending timer keeps the process running; true when left out.
   * @returns A handle whose `cancel()` stops the timer; harmless when it has already fired.
   */
  setTimer(callback: () => void, delayMs: number, keepAlive?: boolean): { cancel(): void };
}
