import type { LeaseOutcome } from "../contract/outcome.js";
import { checkInteger, checkOptionNames } from "../contract/validation.js";
import { ExponentialAverage } from "./exponential-average.js";
import { ceilSqrt, readQueueSize } from "./growth.js";
import type { LimitDescription } from "./limit.js";
import { checkSmoothing, checkTolerance, clamp, HIGHEST_LIMIT, readBounds } from "./limit-bounds.js";
import { ObservableLimit, type ObservableLimitOptions } from "./observable-limit.js";
import { isSample, isUsableRtt } from "./sample.js";

/*
 * Today against usually.
 *
 * The question: what is the normal latency, if the shortest ever seen is only the luckiest? The naive answer measures it with no
 * load now and then, and starves everybody meanwhile. Here it is a slow average of all that is seen, so there is nothing to
 * probe:
 *
 *   long     = average of about the last `longWindow` samples
 *   gradient = max(0.5, min(1, rttTolerance × long / rtt))
 *   next     = limit × gradient + queueSize, and a fifth of the way there (smoothing), up or down
 *
 * Example, 50, long 1 ms: at 1 ms the limit goes to 51.6 (queueSize is 8, the root rounded up). At 10 ms long is 1.03, the
 * gradient 0.5, and 50 becomes 46.6.
 *
 * After bad times the long average is high, and every latency looks good; so while it is more than twice the present one, it
 * loses 5 % with each sample.
 *
 * The surprise: it stands still where gradient = 1 - queueSize / limit, not where the gradient is 1. As the average follows a
 * queue that this very limit has made, the point moves: under a load twice the capacity, where 50 was enough, it went from 91 to
 * 285 in 15 minutes with a queue size of 4, from 106 to 430 with the root, and was still rising.
 */

/**
 * Options of a {@link Gradient2Limit}.
 *
 * @public
 */
export interface Gradient2LimitOptions extends ObservableLimitOptions {
  /** The limit to begin with: an integer of at least 1. 20 by default. Below the default `minLimit`, the first step lifts it. */
  readonly initialLimit?: number | undefined;
  /** The lowest limit: an integer of at least 1. 20 by default. */
  readonly minLimit?: number | undefined;
  /** The highest limit: an integer of at least `minLimit`. 200 by default. */
  readonly maxLimit?: number | undefined;
  /** How far the limit goes towards its new value at each step: above 0, at most 1. 0.2 by default. */
  readonly smoothing?: number | undefined;
  /** Roughly how many samples the long average remembers: an integer of at least 1. 600 by default. */
  readonly longWindow?: number | undefined;
  /** How many times the long average is still good: a finite number of at least 1. 1.5 by default. */
  readonly rttTolerance?: number | undefined;
  /**
   * By how much it may grow at each step, before smoothing: a number above 0 and up to `maxLimit` (4 is widespread);
   * `squareRoot`, the default, of the limit, rounded up; or a function from the limit.
   */
  readonly queueSize?: number | "squareRoot" | ((limit: number) => number) | undefined;
}

const OPTION_NAMES = [
  "initialLimit",
  "minLimit",
  "maxLimit",
  "smoothing",
  "longWindow",
  "rttTolerance",
  "queueSize",
  "onDiagnostic",
];
const DEFAULTS = { initialLimit: 20, minLimit: 20, maxLimit: 200 };
const WARMUP = 10;

/**
 * Compares the present latency with its long average, and follows the ratio.
 *
 * Made for one sample per window: put it behind a {@link WindowedLimit}. It does not look at drops: work that was dropped
 * counts with its duration, so a resource that refuses quickly looks healthy. Failures of other kinds are no samples. Work that
 * found less than half of the limit in flight is learned from but moves nothing. A function of yours that throws, or returns
 * something else than a number of at least 0, throws out of `onSample` and leaves the limit as it is.
 *
 * Good at: mixed latencies, of which it takes the mean, and spikes that pass. Fails under an overload that lasts: its average
 * makes its own queue the norm, and the limit creeps up without end. It reaches a large limit late: from 20 it was at 210 of 500
 * after four minutes with a queue size of 4; with the root it got there in 165 s, and went on beyond 800. And started far too high
 * in front of a slow resource, behind a window that is discarded when it is not full, it never came down.
 * {@link AnchoredGradientLimit} is the same idea without these three.
 *
 * @example
 * ```ts
 * import { Gradient2Limit, WindowedLimit } from "headgate/adaptive";
 *
 * const limit = new WindowedLimit(new Gradient2Limit({ minLimit: 5, maxLimit: 100 }));
 * ```
 *
 * @public
 */
export class Gradient2Limit extends ObservableLimit {
  readonly #minLimit: number;
  readonly #maxLimit: number;
  readonly #smoothing: number;
  readonly #rttTolerance: number;
  readonly #queueSize: (limit: number) => number;
  readonly #longRtt: ExponentialAverage;
  #lastRtt: number | undefined = undefined;
  #lastQueueSize: number | undefined = undefined;
  #gradient: number | undefined = undefined;

  /**
   * @param options - All optional: `initialLimit`, `minLimit`, `maxLimit`, `smoothing`, `longWindow`, `rttTolerance`,
   * `queueSize`, `onDiagnostic`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: Gradient2LimitOptions = {}) {
    checkOptionNames(options, OPTION_NAMES);
    const { initialLimit, minLimit, maxLimit } = readBounds(options, DEFAULTS, true);
    const { smoothing = 0.2, longWindow = 600, rttTolerance = 1.5, queueSize = "squareRoot" } = options;
    checkSmoothing("options.smoothing", smoothing);
    checkInteger("options.longWindow", longWindow, 1, HIGHEST_LIMIT);
    checkTolerance("options.rttTolerance", rttTolerance);
    super(initialLimit, options);
    this.#minLimit = minLimit;
    this.#maxLimit = maxLimit;
    this.#smoothing = smoothing;
    this.#rttTolerance = rttTolerance;
    this.#queueSize = readQueueSize(queueSize, ceilSqrt, maxLimit);
    this.#longRtt = new ExponentialAverage(longWindow, WARMUP);
  }

  override get maxLimit(): number {
    return this.#maxLimit;
  }

  override onSample(_startTime: number, rtt: number, inFlight: number, outcome: LeaseOutcome): void {
    if (!isSample(rtt, outcome) || !isUsableRtt(rtt)) return;
    const { estimated } = this;
    const smoothing = this.#smoothing;
    const queueSize = this.#queueSize(this.limit);
    const long = this.#longRtt.add(rtt);
    this.#lastRtt = rtt;
    this.#lastQueueSize = queueSize;
    // Faster than the 600 samples that the average would need to forget bad times.
    if (long / rtt > 2) this.#longRtt.replace(this.#longRtt.value * 0.95);
    if (!(inFlight >= estimated / 2)) return;
    const gradient = clamp((this.#rttTolerance * long) / rtt, 0.5, 1);
    this.#gradient = gradient;
    const target = estimated * gradient + queueSize;
    this.moveTo(clamp(estimated * (1 - smoothing) + target * smoothing, this.#minLimit, this.#maxLimit));
  }

  override describe(): LimitDescription {
    return {
      algorithm: "Gradient2Limit",
      limit: this.limit,
      estimated: this.estimated,
      longRttMs: this.#lastRtt === undefined ? undefined : this.#longRtt.value,
      windowRttMs: this.#lastRtt,
      queueSize: this.#lastQueueSize,
      gradient: this.#gradient,
    };
  }
}
