import type { LeaseOutcome } from "../contract/outcome.js";
import { checkDuration, checkNumber, checkOptionNames } from "../contract/validation.js";
import type { LimitDescription } from "./limit.js";
import { checkTolerance, readBounds } from "./limit-bounds.js";
import { ObservableLimit, type ObservableLimitOptions } from "./observable-limit.js";
import { SampleTime } from "./sample.js";

/*
 * One step per window, with latency as a second signal.
 *
 * The question: how to grow and shrink without asking each single call. The naive answer steps with every call, so a hiccup in
 * which fifty calls fail at once shrinks the limit fifty times. Here completions are collected for `samplingWindowMs`; the first
 * one at or after its end still belongs to the window, closes it, and moves the limit once:
 *
 *   any failure in it, or mean > baseline × latencyTolerance:   limit = max(minLimit, trunc(limit × decreaseFactor))
 *   else, if at some point at least half was in use:            limit = min(maxLimit, limit + 1)
 *
 * The baseline is the mean of the first window without a failure, and then follows the mean of each such window by a tenth. A
 * window with a failure teaches it nothing: its successes may be the few that slipped through. "In use" is the peak of what was
 * in flight, and a new window's peak starts with what is running when it opens: long calls that were admitted before are in use
 * too, even if none of them ends in this window.
 *
 * Example, from 10: windows with means of 10 and 11 ms make it 12; one of 25 ms (above 2 × 10.1) makes it 10, and the baseline
 * 11.59.
 *
 * The surprise: the baseline follows bad times as well. Latency that rises slowly enough is never congestion, and a standing
 * overload, however great, becomes normal after seven windows (1 - 0.9⁷ is more than half); the limit then climbs on.
 */

/**
 * Options of a {@link WindowedAimdLimit}.
 *
 * @public
 */
export interface WindowedAimdLimitOptions extends ObservableLimitOptions {
  /** The limit to begin with: an integer from `minLimit` to `maxLimit`. 10 by default. */
  readonly initialLimit?: number | undefined;
  /** The lowest limit: an integer of at least 1. 1 by default. */
  readonly minLimit?: number | undefined;
  /** The highest limit: an integer of at least `minLimit`. 100 by default. */
  readonly maxLimit?: number | undefined;
  /** How long completions are collected before the limit may move, in milliseconds: above 0 and finite. 1000 by default. */
  readonly samplingWindowMs?: number | undefined;
  /** What is left of the limit after a congested window: above 0 and below 1. 0.9 by default. */
  readonly decreaseFactor?: number | undefined;
  /** How many times the baseline the mean latency may be: a finite number of at least 1. 2 by default. */
  readonly latencyTolerance?: number | undefined;
}

const OPTION_NAMES = [
  "initialLimit",
  "minLimit",
  "maxLimit",
  "samplingWindowMs",
  "decreaseFactor",
  "latencyTolerance",
  "onDiagnostic",
];
const DEFAULTS = { initialLimit: 10, minLimit: 1, maxLimit: 100 };

/** A baseline of 0, as calls of no measurable length would make it, would call everything else congested. */
const LEAST_BASELINE_MS = 0.0001;

/**
 * Additive increase, multiplicative decrease, one step per window of time, by failures and by mean latency.
 *
 * The limit follows the usual pattern of additive increase and multiplicative decrease, with a windowed latency feedback of this
 * library's own; it is no port of another library's controller. It is the only algorithm here for which a `failure` is a sign of
 * congestion, like `dropped`; work that was `ignored` is no sample. It has a window of its own: do not put it behind a
 * `WindowedLimit`, which hands no failures on.
 *
 * No timer runs: a window is closed by the first completion at or after its end, windows in which nothing ended change nothing,
 * and however much time has passed, it is one step.
 *
 * Good at: protecting a dependency that fails when it is overloaded; it is easy to predict and needs no tuning. Fails under an
 * overload that shows in latency alone: the baseline follows, and the limit creeps up without end (simulations of this pattern
 * went from 178 to 830 in 15 minutes, where 50 was right). Growing takes a window per permit, so a large limit takes minutes to reach. A steady
 * share of failures that have nothing to do with load takes it down to `minLimit`: report those as `ignored`.
 *
 * @example
 * ```ts
 * import { WindowedAimdLimit } from "headgate/adaptive";
 *
 * const limit = new WindowedAimdLimit({ initialLimit: 10, maxLimit: 50, samplingWindowMs: 1000 });
 * ```
 *
 * @public
 */
export class WindowedAimdLimit extends ObservableLimit {
  readonly #minLimit: number;
  readonly #maxLimit: number;
  readonly #samplingWindowMs: number;
  readonly #decreaseFactor: number;
  readonly #latencyTolerance: number;
  readonly #time = new SampleTime();
  /** When the first sample ended; the times below are counted from there. */
  #origin: number | undefined = undefined;
  #latest = 0;
  #windowStart = 0;
  /** Of the successes in the open window. */
  #rttSum = 0;
  #successes = 0;
  #hasFailure = false;
  #peak = 0;
  /** 0 while there is none. */
  #baseline = 0;
  #windowMean: number | undefined = undefined;
  #isCongested = false;

  /**
   * @param options - All optional: `initialLimit`, `minLimit`, `maxLimit`, `samplingWindowMs`, `decreaseFactor`,
   * `latencyTolerance`, `onDiagnostic`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: WindowedAimdLimitOptions = {}) {
    checkOptionNames(options, OPTION_NAMES);
    const { initialLimit, minLimit, maxLimit } = readBounds(options, DEFAULTS, false);
    const { samplingWindowMs = 1000, decreaseFactor = 0.9, latencyTolerance = 2 } = options;
    checkDuration("options.samplingWindowMs", samplingWindowMs);
    checkNumber("options.decreaseFactor", decreaseFactor, "above 0 and below 1", (n) => n > 0 && n < 1);
    checkTolerance("options.latencyTolerance", latencyTolerance);
    super(initialLimit, options);
    this.#minLimit = minLimit;
    this.#maxLimit = maxLimit;
    this.#samplingWindowMs = samplingWindowMs;
    this.#decreaseFactor = decreaseFactor;
    this.#latencyTolerance = latencyTolerance;
  }

  override get maxLimit(): number {
    return this.#maxLimit;
  }

  override onSample(
    startTime: number,
    rtt: number,
    inFlight: number,
    outcome: LeaseOutcome,
    running = 0,
  ): void {
    const isSuccess = outcome === "success";
    if (!(rtt >= 0) || !(isSuccess || outcome === "dropped" || outcome === "failure")) return;
    const end = startTime + rtt;
    const use = this.#time.take(end);
    if (use === "skip") return;
    if (use === "restart") this.#startAgain();
    this.#origin ??= end;
    this.#latest = Math.max(this.#latest, end - this.#origin);
    this.#see(inFlight);
    if (isSuccess) {
      this.#successes += 1;
      this.#rttSum += rtt;
    } else {
      this.#hasFailure = true;
    }
    if (this.#latest - this.#windowStart >= this.#samplingWindowMs) this.#evaluate(running);
  }

  override describe(): LimitDescription {
    return {
      algorithm: "WindowedAimdLimit",
      limit: this.limit,
      baselineRttMs: this.#baseline === 0 ? undefined : this.#baseline,
      windowRttMs: this.#windowMean,
      isCongested: this.#isCongested,
    };
  }

  #evaluate(running: number): void {
    const mean = this.#successes > 0 ? this.#rttSum / this.#successes : undefined;
    const limit = this.limit;
    let isCongested = this.#hasFailure;
    if (mean !== undefined && !this.#hasFailure) {
      if (this.#baseline === 0) this.#baseline = Math.max(LEAST_BASELINE_MS, mean);
      isCongested = mean > this.#baseline * this.#latencyTolerance;
      this.#baseline = Math.max(LEAST_BASELINE_MS, this.#baseline + 0.1 * (mean - this.#baseline));
    }
    const isHalfUsed = this.#peak * 2 >= limit;
    this.#isCongested = isCongested;
    this.#windowMean = mean;
    this.#windowStart = this.#latest;
    this.#openWindow(running);
    if (isCongested) {
      this.moveTo(Math.max(this.#minLimit, Math.trunc(limit * this.#decreaseFactor)));
    } else if (isHalfUsed && limit < this.#maxLimit) {
      this.moveTo(limit + 1);
    }
  }

  #openWindow(running: number): void {
    this.#rttSum = 0;
    this.#successes = 0;
    this.#hasFailure = false;
    this.#peak = 0;
    this.#see(running);
  }

  #see(inFlight: number): void {
    // Not Math.max, in which one NaN would stay.
    if (inFlight > this.#peak) this.#peak = inFlight;
  }

  /** What was collected belongs to another time; what was learned stays. */
  #startAgain(): void {
    this.#origin = undefined;
    this.#latest = 0;
    this.#windowStart = 0;
    this.#openWindow(0);
  }
}
