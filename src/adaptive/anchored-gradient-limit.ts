import type { LeaseOutcome } from "../contract/outcome.js";
import { checkDuration, checkInteger, checkNumber, checkOptionNames } from "../contract/validation.js";
import { ceilSqrt, readRandom } from "./growth.js";
import type { LimitDescription } from "./limit.js";
import {
  checkSmoothing,
  checkTolerance,
  clamp,
  HIGHEST_LIMIT,
  readBounds,
  readProbeInterval,
} from "./limit-bounds.js";
import { ObservableLimit, type ObservableLimitOptions } from "./observable-limit.js";
import { isSample, isUsableRtt } from "./sample.js";

/*
 * A baseline that does not rise from the queue we have made.
 *
 * The question: which latency is normal? The shortest ever seen is luck, and an average of all that is seen takes our own queue
 * for normal and climbs without end. Here the baseline is a mean of whole windows, and it is anchored: while the limit is fully
 * used it may fall but never rises, since what has made those windows slow may be us.
 *
 *   gradient = max(0.5, min(1, rttTolerance × baseline / rtt))
 *   gradient 1:    limit + ceil(sqrt(limit)); twice as much until the first congestion ever
 *   below 1:       half of the way (decreaseSmoothing) to limit × gradient; so never more than a quarter off per window
 *   dropped:       half of the way to limit × the lower of gradient and backoffRatio
 *
 * Growth is added only while the gradient is exactly 1: nothing pushes the limit up while it is being pushed down.
 *
 * Example, baseline 100 ms: windows of up to 150 ms grow 20 to 30, 42, 56. Then 200 ms: the gradient is 0.75, 56 becomes 49.
 *
 * An anchor can be wrong in two ways. Set under load, it is too high: so now and then (after 10 windows the first time, every
 * 60 to 120 later, at random, and only if the limit is fully used) a probe halves the limit, waits until work that started
 * before it has left (the drain), takes one window as a measurement, which may only lower the baseline, and puts the limit back.
 * Or the resource has become slower for good: so 5 congested windows in a row at `minLimit` make the latency of the last one the
 * baseline.
 *
 * The surprise: each probe is a dip, two or three windows at half the limit, about 1 to 2 % of all that is done; it is the price
 * for not needing to know the capacity. `probeInterval: false` turns it off, for those who know that the limit starts low.
 */

/**
 * Options of an {@link AnchoredGradientLimit}.
 *
 * @public
 */
export interface AnchoredGradientLimitOptions extends ObservableLimitOptions {
  /** The limit to begin with: an integer from `minLimit` to `maxLimit`. 20 by default. Near the expected capacity is best. */
  readonly initialLimit?: number | undefined;
  /** The lowest limit: an integer of at least 1. 4 by default. */
  readonly minLimit?: number | undefined;
  /** The highest limit: an integer of at least `minLimit`. 1000 by default. */
  readonly maxLimit?: number | undefined;
  /** How many times the baseline is still good: a finite number of at least 1. 1.5 by default. */
  readonly rttTolerance?: number | undefined;
  /** How slowly the baseline moves, roughly in windows: an integer of at least 10. 600 by default. */
  readonly longWindow?: number | undefined;
  /** What is left of the limit after a drop, before smoothing: from 0.5 to below 1. 0.9 by default. */
  readonly backoffRatio?: number | undefined;
  /** How far the limit goes towards its new value when it shrinks: above 0, at most 1. 0.5 by default. */
  readonly decreaseSmoothing?: number | undefined;
  /**
   * After how many windows the baseline is measured anew, and up to as many more at random: an integer of at least 1, or false
   * for never. 60 by default.
   */
  readonly probeInterval?: number | false | undefined;
  /** After how many windows the first measurement comes, and the one after a baseline that was far off: at least 1. 10 by default. */
  readonly quickProbe?: number | undefined;
  /** What is left of the limit during a measurement: above 0 and below 1. 0.5 by default. */
  readonly probeFraction?: number | undefined;
  /** After how many congested windows in a row at `minLimit` the latency is taken for normal: an integer of at least 1. 5 by default. */
  readonly rebaseAfter?: number | undefined;
  /**
   * A latency above it is never normal, in milliseconds: above 0 and finite. Such windows only shrink the limit and teach
   * nothing. Unbounded by default. Set it if calls can hang until a time-out: all as slow as one another, they look normal.
   */
  readonly maxHealthyRttMs?: number | undefined;
  /** Where chance comes from: a number from 0 to below 1. `Math.random` by default. */
  readonly random?: (() => number) | undefined;
}

const OPTION_NAMES = [
  "initialLimit",
  "minLimit",
  "maxLimit",
  "rttTolerance",
  "longWindow",
  "backoffRatio",
  "decreaseSmoothing",
  "probeInterval",
  "quickProbe",
  "probeFraction",
  "rebaseAfter",
  "maxHealthyRttMs",
  "random",
  "onDiagnostic",
];
const DEFAULTS = { initialLimit: 20, minLimit: 4, maxLimit: 1000 };
/** Of how many windows the baseline is the plain mean at first. */
const WARMUP = 10;
/** How many windows a probe waits at most for work that started before it. */
const LONGEST_DRAIN = 5;
/** A measurement below this share of the baseline says that the baseline was far off. */
const FAR_OFF = 0.9;

/**
 * Compares latency with a baseline that cannot rise while the limit is fully used: the algorithm that limiters use by
 * default.
 *
 * It takes each sample for a window: use it behind a {@link WindowedLimit}, as the example shows. Drops shrink the limit, whatever
 * was in flight; failures of other kinds are no samples. Windows in which less than half of the limit was in flight move
 * nothing unless work was dropped.
 *
 * Good at: overload that lasts. In simulations it kept 97 to 99 % of the best fixed limit under ten times the capacity, stayed
 * within twice the best limit for 15 minutes, grew from 20 to 500 in half a minute, and was as good as no limiter when there was
 * no overload. How it fails: every probe is a dip to about 60 % for two or three windows; started far above a tiny capacity
 * (20 for a resource that does one thing at a time) it stays too high, at 17 to 49; and a delay that does not depend on the
 * load at all takes it to `minLimit` before it learns that this is normal.
 *
 * @example
 * ```ts
 * import { AnchoredGradientLimit, WindowedLimit } from "headgate/adaptive";
 *
 * const limit = new WindowedLimit(new AnchoredGradientLimit({ maxLimit: 200, maxHealthyRttMs: 2000 }), {
 *   dropThreshold: 0.05,
 * });
 * ```
 *
 * @public
 */
export class AnchoredGradientLimit extends ObservableLimit {
  readonly #minLimit: number;
  readonly #maxLimit: number;
  readonly #rttTolerance: number;
  readonly #longWindow: number;
  readonly #backoffRatio: number;
  readonly #decreaseSmoothing: number;
  /** 0 for never. */
  readonly #probeInterval: number;
  readonly #quickProbe: number;
  readonly #probeFraction: number;
  readonly #rebaseAfter: number;
  /** Infinite when unbounded. */
  readonly #maxHealthyRtt: number;
  readonly #random: () => number;
  /** 0 while there is none. */
  #baseline = 0;
  /** How many windows the baseline is made of, up to the warm-up. */
  #learned = 0;
  #isFrozen = false;
  /** Whether there was no congestion yet. */
  #isStarting = true;
  #congestedAtMin = 0;
  #rebaseCount = 0;
  #phase: "run" | "drain" | "measure" = "run";
  #windowsUntilProbe: number;
  /** What the estimate was before the probe. */
  #saved = 0;
  /** When the probe began: work that started earlier says nothing about it. */
  #probeAt = 0;
  #drained = 0;
  #lastRtt: number | undefined = undefined;
  #lastQueueSize: number | undefined = undefined;
  #gradient: number | undefined = undefined;

  /**
   * @param options - All optional: `initialLimit`, `minLimit`, `maxLimit`, `rttTolerance`, `longWindow`, `backoffRatio`,
   * `decreaseSmoothing`, `probeInterval`, `quickProbe`, `probeFraction`, `rebaseAfter`, `maxHealthyRttMs`, `random`,
   * `onDiagnostic`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: AnchoredGradientLimitOptions = {}) {
    checkOptionNames(options, OPTION_NAMES);
    const { initialLimit, minLimit, maxLimit } = readBounds(options, DEFAULTS, false);
    const {
      rttTolerance = 1.5,
      longWindow = 600,
      backoffRatio = 0.9,
      decreaseSmoothing = 0.5,
      probeInterval = 60,
      quickProbe = 10,
      probeFraction = 0.5,
      rebaseAfter = 5,
      maxHealthyRttMs,
    } = options;
    checkTolerance("options.rttTolerance", rttTolerance);
    // With less, the quick step down of the baseline, 10 / (longWindow + 1), would overshoot.
    checkInteger("options.longWindow", longWindow, 10, HIGHEST_LIMIT);
    checkNumber("options.backoffRatio", backoffRatio, "from 0.5 to below 1", (n) => n >= 0.5 && n < 1);
    checkSmoothing("options.decreaseSmoothing", decreaseSmoothing);
    checkInteger("options.quickProbe", quickProbe, 1, HIGHEST_LIMIT);
    checkNumber("options.probeFraction", probeFraction, "above 0 and below 1", (n) => n > 0 && n < 1);
    checkInteger("options.rebaseAfter", rebaseAfter, 1, HIGHEST_LIMIT);
    if (maxHealthyRttMs !== undefined) checkDuration("options.maxHealthyRttMs", maxHealthyRttMs);
    super(initialLimit, options);
    this.#minLimit = minLimit;
    this.#maxLimit = maxLimit;
    this.#rttTolerance = rttTolerance;
    this.#longWindow = longWindow;
    this.#backoffRatio = backoffRatio;
    this.#decreaseSmoothing = decreaseSmoothing;
    this.#probeInterval = readProbeInterval(probeInterval);
    this.#quickProbe = quickProbe;
    this.#probeFraction = probeFraction;
    this.#rebaseAfter = rebaseAfter;
    this.#maxHealthyRtt = maxHealthyRttMs ?? Number.POSITIVE_INFINITY;
    this.#random = readRandom(options.random);
    this.#windowsUntilProbe = quickProbe;
  }

  override get maxLimit(): number {
    return this.#maxLimit;
  }

  override onSample(startTime: number, rtt: number, inFlight: number, outcome: LeaseOutcome): void {
    if (!isSample(rtt, outcome)) return;
    const didDrop = outcome === "dropped";
    if (!isUsableRtt(rtt)) {
      if (didDrop && this.#phase === "run") this.moveTo(this.#shrunk(this.estimated * this.#backoffRatio));
      return;
    }
    this.#lastRtt = rtt;
    if (this.#phase === "drain") {
      if (startTime >= this.#probeAt || ++this.#drained >= LONGEST_DRAIN) this.#phase = "measure";
    } else if (this.#phase === "measure") {
      this.#endProbe(rtt, didDrop);
    } else {
      const isSaturated = inFlight >= this.limit;
      if (this.#isProbeDue() && isSaturated && this.estimated > this.#minLimit) {
        this.#beginProbe(startTime + rtt);
      } else {
        this.#learn(rtt, isSaturated, didDrop);
        this.#step(rtt, inFlight, didDrop);
      }
    }
  }

  override describe(): LimitDescription {
    return {
      algorithm: "AnchoredGradientLimit",
      limit: this.limit,
      estimated: this.estimated,
      baselineRttMs: this.#baseline === 0 ? undefined : this.#baseline,
      windowRttMs: this.#lastRtt,
      queueSize: this.#lastQueueSize,
      gradient: this.#gradient,
      isBaselineFrozen: this.#isFrozen,
      phase: this.#phase,
      rebaseCount: this.#rebaseCount,
    };
  }

  /** Counts down; a countdown that has elapsed starts again, whether or not it then comes to a probe. */
  #isProbeDue(): boolean {
    if (this.#probeInterval === 0) return false;
    if (this.#windowsUntilProbe > 0) {
      this.#windowsUntilProbe -= 1;
      return false;
    }
    const jitter = Math.floor(this.#random() * this.#probeInterval);
    this.#windowsUntilProbe = this.#probeInterval + jitter;
    return true;
  }

  #beginProbe(at: number): void {
    this.#saved = this.estimated;
    this.#probeAt = at;
    this.#drained = 0;
    this.#phase = "drain";
    this.moveTo(Math.max(this.#minLimit, this.estimated * this.#probeFraction));
  }

  #endProbe(rtt: number, didDrop: boolean): void {
    this.#phase = "run";
    if (rtt < this.#baseline && !didDrop) {
      if (rtt < FAR_OFF * this.#baseline) {
        this.#windowsUntilProbe = Math.min(this.#windowsUntilProbe, this.#quickProbe);
      }
      this.#baseline = rtt;
    }
    this.moveTo(this.#saved);
  }

  #learn(rtt: number, isSaturated: boolean, didDrop: boolean): void {
    if (rtt > this.#maxHealthyRtt) return;
    const isLower = rtt < this.#baseline;
    // Refusals come fast: they are no proof of how fast the work can be.
    if (isLower && didDrop) return;
    const isWarm = this.#learned >= WARMUP;
    this.#isFrozen = isSaturated && !isLower && this.#learned > 0;
    if (!isWarm) this.#learned += 1;
    if (this.#isFrozen) return;
    const step = rtt - this.#baseline;
    if (!isWarm) {
      this.#baseline += step / this.#learned;
    } else if (!isLower) {
      this.#baseline += step * (2 / (this.#longWindow + 1));
    } else if (rtt < this.#baseline / 2) {
      this.#baseline += step * (0.05 + 2 / (this.#longWindow + 1));
    } else {
      this.#baseline += step * (10 / (this.#longWindow + 1));
    }
  }

  #step(rtt: number, inFlight: number, didDrop: boolean): void {
    const { estimated } = this;
    const isHealthy = rtt <= this.#maxHealthyRtt;
    let gradient = clamp((this.#rttTolerance * this.#baseline) / rtt, 0.5, 1);
    if (!isHealthy) {
      gradient = this.#baseline > 0 ? Math.min(this.#backoffRatio, gradient) : this.#backoffRatio;
    }
    this.#gradient = gradient;
    if (!didDrop && !(inFlight >= estimated / 2)) return;
    const queueSize = ceilSqrt(this.limit);
    this.#lastQueueSize = queueSize;
    let next: number;
    if (didDrop) {
      next = this.#shrunk(estimated * Math.min(gradient, this.#backoffRatio));
    } else if (gradient < 1) {
      next = this.#shrunk(estimated * gradient);
    } else {
      next = clamp(
        estimated + (this.#isStarting ? 2 * queueSize : queueSize),
        this.#minLimit,
        this.#maxLimit,
      );
    }
    this.#countAtMin(next, gradient, rtt, isHealthy);
    this.moveTo(next);
  }

  /** Whoever has been congested at the lowest limit for long is not congested: this is how long it takes. */
  #countAtMin(next: number, gradient: number, rtt: number, isHealthy: boolean): void {
    if (next > this.#minLimit || gradient === 1) {
      this.#congestedAtMin = 0;
    } else if (++this.#congestedAtMin >= this.#rebaseAfter && isHealthy) {
      this.#congestedAtMin = 0;
      this.#baseline = rtt;
      this.#rebaseCount += 1;
    }
  }

  #shrunk(target: number): number {
    const d = this.#decreaseSmoothing;
    this.#isStarting = false;
    return clamp(this.estimated * (1 - d) + target * d, this.#minLimit, this.#maxLimit);
  }
}
