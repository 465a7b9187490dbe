import type { Clock } from "headgate";

/** The booked moments of one signal, each with the timer that forgets it. */
interface Bookings {
  readonly timers: Map<number, { cancel(): void }>;
  readonly leave: () => void;
}

/** Gives each retry a moment of its own, and takes back those of callers who leave. */
export class RetryCalendar {
  readonly #spacingMs: number;
  readonly #clock: Clock;
  /** No moment later than this is booked. */
  #latest = Number.NEGATIVE_INFINITY;
  /** Moments before it that have been given back, the earliest first. */
  readonly #free: number[] = [];
  /** One listener for all pauses of a signal: all calls of cockatiel that have none share one. */
  readonly #bookings = new Map<AbortSignal, Bookings>();

  constructor(spacingMs: number, clock: Clock) {
    this.#spacingMs = spacingMs;
    this.#clock = clock;
  }

  /**
   * Books the first moment from `minWaitMs` on that is far enough from the others, until the signal is aborted.
   *
   * @returns How long it is until then; undefined when that is more than `maxWaitMs`, and nothing is booked.
   */
  book(minWaitMs: number, maxWaitMs: number, signal: AbortSignal): number | undefined {
    const now = this.#clock.now();
    while ((this.#free[0] ?? now + 1) <= now) this.#free.shift();
    const reused = this.#free.findIndex((moment) => moment >= now + minWaitMs);
    const moment = this.#free[reused] ?? Math.max(now + minWaitMs, this.#latest + this.#spacingMs);
    const waitMs = moment - now;
    if (waitMs > maxWaitMs) return undefined;
    if (signal.aborted) return waitMs;
    if (reused >= 0) this.#free.splice(reused, 1);
    else this.#latest = moment;
    this.#keep(moment, waitMs, signal);
    return waitMs;
  }

  #keep(moment: number, waitMs: number, signal: AbortSignal): void {
    const bookings = this.#bookings.get(signal) ?? this.#watch(signal);
    const forget = () => {
      bookings.timers.delete(moment);
      if (bookings.timers.size > 0) return;
      this.#bookings.delete(signal);
      signal.removeEventListener("abort", bookings.leave);
    };
    bookings.timers.set(moment, this.#clock.setTimer(forget, Math.max(1, waitMs), false));
  }

  #watch(signal: AbortSignal): Bookings {
    const timers: Bookings["timers"] = new Map();
    const leave = () => {
      this.#bookings.delete(signal);
      for (const timer of timers.values()) timer.cancel();
      this.#giveBack(timers.keys());
    };
    const bookings = { timers, leave };
    signal.addEventListener("abort", leave, { once: true });
    this.#bookings.set(signal, bookings);
    return bookings;
  }

  #giveBack(moments: Iterable<number>): void {
    const free = this.#free;
    for (const moment of moments) free.push(moment);
    free.sort((a, b) => a - b);
    // Free moments at the end are none: whoever comes next is as free as if they had never been booked. Half a spacing,
    // since sums of fractions are not exact.
    while ((free.at(-1) ?? Number.NEGATIVE_INFINITY) > this.#latest - this.#spacingMs / 2) {
      free.pop();
      this.#latest -= this.#spacingMs;
    }
  }
}
