import type { LeaseOutcome } from "../contract/outcome.js";
import {
  checkChoice,
  checkDuration,
  checkInteger,
  checkMethods,
  checkNumber,
  checkOptionNames,
  wrongType,
} from "../contract/validation.js";
import type { Limit, LimitDescription } from "./limit.js";
import { HIGHEST_LIMIT } from "./limit-bounds.js";
import { isSample, SampleTime } from "./sample.js";
import { AverageWindow, PercentileWindow, type SampleWindow } from "./sample-window.js";

/*
 * Many samples made one.
 *
 * The question: an algorithm that moves with every call is thrown about by single calls. The naive answer averages the last few
 * calls, and its reaction depends on how many there are per second. Here samples are gathered until enough time has passed and
 * enough have come; their mean (or a percentile), the peak of what was in flight, and whether work was dropped are handed on as
 * one sample.
 *
 *   span of a window = 2 × its shortest rtt, from minWindowMs to maxWindowMs
 *
 * Time is the end of samples, so a window is closed by a sample, and no timer runs. When the span is over and fewer than
 * `windowSize` samples have come, there are two ways. `discard` throws them away and starts anew: at 5 completions a second and
 * 10 per window of a second nothing is ever learned, not even from time-outs alone. `extend` keeps the window open until there
 * are enough; after `maxExtendMs` it makes do with `minExtendSamples`.
 *
 * Example, extend, spans of 1000 ms, 10 samples: at 100 completions a second a window closes after 1010 ms with 102 samples; at
 * 5 a second after 1800 ms with 10; at one per 12 s after 36 s with 4.
 *
 * A gap of more than `maxExtendMs` since the last sample throws an open window away: what was before it is another time.
 *
 * The surprise: with `discard`, the very first sample closes (and loses) a window of one, and so does the first after an idle
 * time unless enough had gathered before it. And a window in which one of a thousand calls was dropped is a dropped one, until
 * `dropThreshold` is set.
 */

/**
 * Options of a {@link WindowedLimit}.
 *
 * @public
 */
export interface WindowedLimitOptions {
  /** The shortest span of a window, in milliseconds: above 0 and finite. 1000 by default. */
  readonly minWindowMs?: number | undefined;
  /** The longest span of a window, in milliseconds: finite and at least `minWindowMs`. 1000, or `minWindowMs` if longer, by default. */
  readonly maxWindowMs?: number | undefined;
  /** How many samples make a window: an integer of at least 1. 10 by default. */
  readonly windowSize?: number | undefined;
  /**
   * Samples that took less are left out, drops too, in milliseconds: finite and at least 0. 0.1 by default. Lower it for work
   * that takes microseconds.
   */
  readonly minRttMs?: number | undefined;
  /**
   * Which duration stands for the window: `average`, the default; or a percentile, above 0 and below 1, of its first samples, as
   * many as `capacity`, an integer from `windowSize` to 1 000 000. A percentile keeps 8 bytes per sample of its capacity.
   */
  readonly window?: "average" | { readonly percentile: number; readonly capacity: number } | undefined;
  /** What happens when the span is over and fewer than `windowSize` samples have come: `extend` (the default) or `discard`. */
  readonly underfilled?: "extend" | "discard" | undefined;
  /**
   * How long a window is extended at most, and after which gap it is thrown away, in milliseconds: finite and at least
   * `maxWindowMs`. 30 000, or `maxWindowMs` if longer, by default.
   */
  readonly maxExtendMs?: number | undefined;
  /** How many samples are enough then: an integer from 1 to `windowSize`. 3, or `windowSize` if less, by default. */
  readonly minExtendSamples?: number | undefined;
  /**
   * Which share of a window may have been dropped before it counts as dropped: from 0 to below 1. 0 by default: one is
   * enough. 0.05 is recommended.
   */
  readonly dropThreshold?: number | undefined;
}

const OPTION_NAMES = [
  "minWindowMs",
  "maxWindowMs",
  "windowSize",
  "minRttMs",
  "window",
  "underfilled",
  "maxExtendMs",
  "minExtendSamples",
  "dropThreshold",
];
const MOST_CAPACITY = 1_000_000;

function readWindow(given: unknown, windowSize: number): SampleWindow {
  if (given === undefined || given === "average") return new AverageWindow();
  const name = "options.window";
  if (typeof given !== "object" || given === null) {
    throw wrongType(name, '"average" or { percentile, capacity }', given);
  }
  checkOptionNames(given, ["percentile", "capacity"], name);
  const { percentile, capacity } = given as { readonly percentile?: unknown; readonly capacity?: unknown };
  checkNumber(`${name}.percentile`, percentile, "above 0 and below 1", (n) => n > 0 && n < 1);
  checkInteger(`${name}.capacity`, capacity, windowSize, MOST_CAPACITY, " (at least windowSize)");
  return new PercentileWindow(percentile, capacity);
}

/** A span of time that must not be shorter than another. */
function checkSpan(name: string, value: unknown, least: number, leastName: string): void {
  checkDuration(name, value);
  checkNumber(name, value, `at least ${leastName} (${least})`, (n) => n >= least);
}

/**
 * Puts an algorithm behind a window, so that it sees one sample per window instead of one per call.
 *
 * `limit`, `maxLimit` and `onChange` are those of the algorithm; `describe` adds how the windows went: `windowsUsed`,
 * `windowsAppLimited` (handed on too, but less than half of the limit was in flight), `windowsUnderfilled` and `windowsStale`
 * (thrown away).
 *
 * The sample that is handed on has the start of the call that closed the window. Failures are no samples, so a
 * `WindowedAimdLimit`, which has a window of its own, does not belong in here.
 *
 * Good at: making Vegas and the gradients usable for work whose calls differ, and at bounding them to one step per window. How
 * it fails: it reacts a window late; a mean is pulled by outliers, and a percentile does not see those beyond it; calls below
 * `minRttMs` are not seen at all, so that nothing is learned from calls that take microseconds.
 *
 * @example
 * ```ts
 * import { AnchoredGradientLimit, WindowedLimit } from "headgate/adaptive";
 *
 * const limit = new WindowedLimit(new AnchoredGradientLimit(), { dropThreshold: 0.05 });
 * const slowest = new WindowedLimit(new AnchoredGradientLimit(), { window: { percentile: 0.9, capacity: 1000 } });
 * ```
 *
 * @public
 */
export class WindowedLimit implements Limit {
  readonly #delegate: Limit;
  readonly #minWindowMs: number;
  readonly #maxWindowMs: number;
  readonly #windowSize: number;
  readonly #minRttMs: number;
  readonly #window: SampleWindow;
  readonly #isExtending: boolean;
  readonly #maxExtendMs: number;
  readonly #minExtendSamples: number;
  readonly #dropThreshold: number;
  readonly #time = new SampleTime();
  /** When the open window was opened; only where windows are extended. */
  #opened = 0;
  /** Samples that end later close the window. */
  #closesAfter: number = Number.NEGATIVE_INFINITY;
  #used = 0;
  #appLimited = 0;
  #underfilled = 0;
  #stale = 0;

  /**
   * @param delegate - The algorithm: one of this library, or your own.
   * @param options - All optional: `minWindowMs`, `maxWindowMs`, `windowSize`, `minRttMs`, `window`, `underfilled`,
   * `maxExtendMs`, `minExtendSamples`, `dropThreshold`.
   * @throws TypeError when an argument has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(delegate: Limit, options: WindowedLimitOptions = {}) {
    checkMethods("delegate", delegate, ["onSample", "onChange"]);
    checkOptionNames(options, OPTION_NAMES);
    if (options.maxWindowMs !== undefined) checkDuration("options.maxWindowMs", options.maxWindowMs);
    const { minWindowMs = Math.min(1000, options.maxWindowMs ?? 1000) } = options;
    checkDuration("options.minWindowMs", minWindowMs);
    const { maxWindowMs = Math.max(1000, minWindowMs), windowSize = 10, minRttMs = 0.1 } = options;
    checkSpan("options.maxWindowMs", maxWindowMs, minWindowMs, "minWindowMs");
    checkInteger("options.windowSize", windowSize, 1, HIGHEST_LIMIT);
    checkNumber(
      "options.minRttMs",
      minRttMs,
      "a finite number of milliseconds, at least 0",
      (n) => n >= 0 && n < Number.POSITIVE_INFINITY,
    );
    const {
      underfilled = "extend",
      maxExtendMs = Math.max(30_000, maxWindowMs),
      minExtendSamples = Math.min(3, windowSize),
      dropThreshold = 0,
    } = options;
    checkChoice("options.underfilled", underfilled, ["extend", "discard"]);
    checkSpan("options.maxExtendMs", maxExtendMs, maxWindowMs, "maxWindowMs");
    checkInteger("options.minExtendSamples", minExtendSamples, 1, windowSize, " (windowSize)");
    checkNumber("options.dropThreshold", dropThreshold, "from 0 to below 1", (n) => n >= 0 && n < 1);
    this.#delegate = delegate;
    this.#minWindowMs = minWindowMs;
    this.#maxWindowMs = maxWindowMs;
    this.#windowSize = windowSize;
    this.#minRttMs = minRttMs;
    this.#window = readWindow(options.window, windowSize);
    this.#isExtending = underfilled === "extend";
    this.#maxExtendMs = maxExtendMs;
    this.#minExtendSamples = minExtendSamples;
    this.#dropThreshold = dropThreshold;
  }

  get limit(): number {
    return this.#delegate.limit;
  }

  get maxLimit(): number | undefined {
    return this.#delegate.maxLimit;
  }

  onChange(listener: (limit: number, previous: number) => void): () => void {
    return this.#delegate.onChange(listener);
  }

  onSample(startTime: number, rtt: number, inFlight: number, outcome: LeaseOutcome, running = 0): void {
    if (!isSample(rtt, outcome) || rtt < this.#minRttMs) return;
    const end = startTime + rtt;
    const latest = this.#time.latest;
    const use = this.#time.take(end);
    if (use === "skip") return;
    const window = this.#window;
    if (use === "restart" || (this.#isExtending && window.count > 0 && end - latest > this.#maxExtendMs)) {
      if (window.count > 0) this.#stale += 1;
      window.reset();
      this.#closesAfter = Number.NEGATIVE_INFINITY;
    }
    window.add(rtt, inFlight, outcome === "dropped");
    if (this.#isExtending && window.count === 1) {
      this.#opened = end;
      this.#closesAfter = end + this.#span();
    } else if (end > this.#closesAfter) {
      this.#close(startTime, end, running);
    }
  }

  describe(): LimitDescription {
    const { limit } = this.#delegate;
    return {
      ...(this.#delegate.describe?.() ?? { algorithm: "WindowedLimit", limit }),
      windowsUsed: this.#used,
      windowsAppLimited: this.#appLimited,
      windowsUnderfilled: this.#underfilled,
      windowsStale: this.#stale,
    };
  }

  #span(): number {
    return Math.min(Math.max(2 * this.#window.minRtt, this.#minWindowMs), this.#maxWindowMs);
  }

  /** Closes the window at a sample that ended late enough, or keeps it open for more. */
  #close(startTime: number, end: number, running: number): void {
    const window = this.#window;
    const { count, drops, maxInFlight } = window;
    const isExtended = this.#isExtending && end - this.#opened >= this.#maxExtendMs;
    const isUsed = count >= this.#windowSize || (isExtended && count >= this.#minExtendSamples);
    if (this.#isExtending && !isExtended && !isUsed) return;
    this.#closesAfter = end + this.#span();
    const rtt = isUsed ? window.trackedRtt : 0;
    // First, since the algorithm may throw, and its listeners may hand in samples.
    window.reset();
    if (!isUsed) {
      this.#underfilled += 1;
      return;
    }
    if (maxInFlight * 2 < this.#delegate.limit) this.#appLimited += 1;
    else this.#used += 1;
    const didDrop = drops > 0 && drops > this.#dropThreshold * count;
    this.#delegate.onSample(startTime, rtt, maxInFlight, didDrop ? "dropped" : "success", running);
  }
}
