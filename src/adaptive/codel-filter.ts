import type { Clock } from "../contract/clock.js";
import { systemClock } from "../contract/system-clock.js";
import { checkMethods, checkNumber, checkOptionNames } from "../contract/validation.js";
import { checkTimes, DropState } from "../queue/codel.js";

/**
 * Options of a {@link CodelFilter}.
 *
 * @public
 */
export interface CodelFilterOptions {
  /** How long a wait is no sign of overload, in milliseconds: above 0, fractions allowed; 5 by default. */
  readonly targetMs?: number | undefined;
  /**
   * For how long all waits have to be that long, in milliseconds, before an item is dropped: at least `targetMs`; 100 by
   * default.
   */
  readonly intervalMs?: number | undefined;
  /** Where `shouldDrop` gets the time from when it is not told; `systemClock` by default. */
  readonly clock?: Clock | undefined;
}

const OPTION_NAMES = ["targetMs", "intervalMs", "clock"];
const CLOCK_METHODS = ["now"];

/**
 * What a {@link CodelFilter} knows at the moment, for logs and dashboards.
 *
 * @public
 */
export interface CodelFilterDescription {
  readonly targetMs: number;
  readonly intervalMs: number;
  readonly isDropping: boolean;
  /** Items dropped since the filter was made. */
  readonly droppedCount: number;
  /** How far the schedule has got: the drop after this one comes `intervalMs` / √`pace` later. 0 before the first drop. */
  readonly pace: number;
  /** When the next item may be dropped, in milliseconds of the clock; undefined while waits are short. */
  readonly nextDropTime: number | undefined;
}

/**
 * Says which items of a work queue of your own to drop, so that the others are still done in time: CoDel, "controlled
 * delay", with one decision per item.
 *
 * Ask about each item when it is taken out of the queue, oldest first. While waits are below `targetMs` nothing is dropped,
 * however long the queue. Once all have been `targetMs` or longer for `intervalMs`, one item is dropped, and then one each
 * `intervalMs` / √n later, until an item has waited less than the target: with the defaults after 100, 70.7, 57.7, 50 and
 * 44.7 ms. If that comes again within 16 intervals of the drop that was due then, dropping resumes at the pace at which it
 * ended. A filter that was not asked for a while catches up with one drop per call.
 *
 * It reads the clock only where `shouldDrop` is not told the time, sets no timer, and never looks at the items. A time in the
 * future counts as no wait. It follows overload slowly, since it was made for senders who slow down when they lose something:
 * for a queue in front of a limiter, the limiter's own option `codel` is better. Source: RFC 8289.
 *
 * @example
 * Shed from a work queue of your own:
 * ```ts
 * import { systemClock } from "headgate";
 * import { CodelFilter } from "headgate/adaptive";
 *
 * interface Job {
 *   readonly enqueuedAt: number;
 *   run(): Promise<void>;
 *   fail(error: Error): void;
 * }
 *
 * const jobs: Job[] = [];
 * const filter = new CodelFilter({ targetMs: 20, intervalMs: 200 });
 *
 * function add(run: () => Promise<void>, fail: (error: Error) => void): void {
 *   jobs.push({ enqueuedAt: systemClock.now(), run, fail });
 * }
 *
 * async function work(): Promise<void> {
 *   for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) {
 *     if (filter.shouldDrop(job.enqueuedAt)) job.fail(new Error("too busy"));
 *     else await job.run();
 *   }
 * }
 * ```
 *
 * @public
 */
export class CodelFilter {
  readonly #state: DropState;
  readonly #clock: Pick<Clock, "now">;
  #droppedCount = 0;

  /**
   * @param options - Optionally `targetMs`, `intervalMs` and `clock`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: CodelFilterOptions = {}) {
    checkOptionNames(options, OPTION_NAMES);
    const { targetMs = 5, intervalMs = 100, clock = systemClock } = options;
    checkTimes(targetMs, intervalMs, "options", true);
    checkMethods("options.clock", clock, CLOCK_METHODS);
    this.#state = new DropState({ targetMs, intervalMs });
    this.#clock = clock;
  }

  /**
   * Whether to drop the item that has just been taken out of the queue. Ask once per item: the answer counts.
   *
   * @param enqueuedAt - When the item came into the queue, in milliseconds of the same clock.
   * @param now - The time, in milliseconds; the clock is asked when it is left out.
   * @throws TypeError or RangeError when a time is no finite number; nothing has changed then.
   */
  shouldDrop(enqueuedAt: number, now: number = this.#clock.now()): boolean {
    checkTime("enqueuedAt", enqueuedAt);
    checkTime("now", now);
    const isDropped = this.#state.shouldDrop(now - enqueuedAt, now);
    if (isDropped) this.#droppedCount += 1;
    return isDropped;
  }

  /** Whether items are being dropped now and then, since all of them have waited too long. */
  get isDropping(): boolean {
    return this.#state.isDropping;
  }

  /** How many items were to be dropped since the filter was made. */
  get droppedCount(): number {
    return this.#droppedCount;
  }

  /** What the filter knows now, for logs and dashboards. */
  describe(): CodelFilterDescription {
    const { targetMs, intervalMs, isDropping, count, dropNext, firstAboveTime } = this.#state;
    return Object.freeze({
      targetMs,
      intervalMs,
      isDropping,
      droppedCount: this.#droppedCount,
      pace: count,
      nextDropTime: isDropping ? dropNext : firstAboveTime,
    });
  }
}

function checkTime(name: string, value: number): void {
  checkNumber(name, value, "a finite number of milliseconds", Number.isFinite);
}
