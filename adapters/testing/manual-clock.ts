import type { Clock } from "headgate";
import { checkNumber, checkOptionNames } from "../../src/internal.js";

const FINITE = "a finite number";

interface Timer {
  readonly callback: () => void;
  readonly dueAt: number;
  readonly keepAlive: boolean;
}

/**
 * Options of a {@link ManualClock}.
 *
 * @public
 */
export interface ManualClockOptions {
  /** What the clock shows at first, in milliseconds; 0 by default. */
  readonly startMs?: number;
  /**
   * How much later than asked each timer fires, in milliseconds; negative for earlier. Hosts do both: Node fires a
   * fractional timer up to 1 ms early, and a busy host fires late. 0 by default. No timer fires before half
   * its delay, so that time goes on. Called anew for each timer when it is a function.
   */
  readonly timerSkewMs?: number | (() => number);
}

/**
 * A clock that stands still until it is told to move, for tests that never sleep.
 *
 * `advance` moves time on and fires the timers that come due on the way, each at its own moment and in that order, also
 * those that are set meanwhile. Promises are another matter: whoever waited goes on in a microtask, so a test awaits
 * something after it has advanced.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { ManualClock } from "headgate/testing";
 *
 * const clock = new ManualClock();
 * const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
 * limiter.pause(1000);
 * const waiting = limiter.acquire();
 * clock.advance(1000);
 * using lease = await waiting;
 * ```
 *
 * @public
 */
export class ManualClock implements Clock {
  #now: number;
  readonly #skew: number | (() => number);
  readonly #timers = new Set<Timer>();

  constructor(options: ManualClockOptions = {}) {
    checkOptionNames(options, ["startMs", "timerSkewMs"]);
    const { startMs = 0, timerSkewMs = 0 } = options;
    checkNumber("options.startMs", startMs, FINITE, Number.isFinite);
    if (typeof timerSkewMs !== "function")
      checkNumber("options.timerSkewMs", timerSkewMs, FINITE, Number.isFinite);
    this.#now = startMs;
    this.#skew = timerSkewMs;
  }

  /** How many timers are set. */
  get timerCount(): number {
    return this.#timers.size;
  }

  /** How many of them would keep a process alive. */
  get keepAliveTimerCount(): number {
    return [...this.#timers].filter((timer) => timer.keepAlive).length;
  }

  now(): number {
    return this.#now;
  }

  /** @throws TypeError or RangeError when the delay is not one that hosts take: from 1 to 2 147 483 647 ms. */
  setTimer(callback: () => void, delayMs: number, keepAlive = true): { cancel(): void } {
    checkNumber("delayMs", delayMs, "a number from 1 to 2147483647", (n) => n >= 1 && n <= 2 ** 31 - 1);
    const skew = typeof this.#skew === "function" ? this.#skew() : this.#skew;
    const timer: Timer = { callback, dueAt: this.#now + Math.max(delayMs / 2, delayMs + skew), keepAlive };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }

  /**
   * Moves time on, firing what comes due.
   *
   * @param ms - Milliseconds, at least 0; fractions are allowed. 0 fires what is due now.
   * @throws TypeError or RangeError when that is something else.
   */
  advance(ms: number): void {
    checkNumber("ms", ms, "a finite number of at least 0", (n) => n >= 0 && n < Number.POSITIVE_INFINITY);
    const end = this.#now + ms;
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.dueAt);
      next.callback();
    }
    // A timer may have moved it on further.
    this.#now = Math.max(this.#now, end);
  }

  /**
   * Sets the clock without firing anything, as when a host was asleep, or a clock that should not go back does.
   *
   * @param nowMs - What the clock shows from now on, in milliseconds.
   * @throws TypeError or RangeError when that is not a finite number.
   */
  set(nowMs: number): void {
    checkNumber("nowMs", nowMs, FINITE, Number.isFinite);
    this.#now = nowMs;
  }

  #next(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (timer.dueAt <= end && (next === undefined || timer.dueAt < next.dueAt)) next = timer;
    }
    return next;
  }
}
