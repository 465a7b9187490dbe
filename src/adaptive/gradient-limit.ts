import type { LeaseOutcome } from "../contract/outcome.js";
import { checkInteger, checkNumber, checkOptionNames } from "../contract/validation.js";
import { readQueueSize, readRandom, sqrt4 } from "./growth.js";
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
 * Shrink by as much as work got slower.
 *
 * The question: Vegas steps by a few permits; how to follow a dependency that has become three times as slow? The naive answer
 * multiplies the limit by noLoad / rtt, and never leaves it, since some queue is always there. So: tolerate `rttTolerance` times
 * the no-load time, never halve more than once, and always ask for `queueSize` more.
 *
 *   gradient = max(0.5, min(1, rttTolerance × noLoad / rtt))
 *   next     = limit × gradient + queueSize          growing: taken as it is; shrinking: a fifth of the way (smoothing)
 *
 * Example, 100, no-load 10 ms: 20 ms is tolerated, and the limit is 110 (queueSize is the square root, 10). 25 ms is a gradient
 * of 0.8: 100 × 0.8 + 10 = 90, a fifth of the way is 98.
 *
 * The no-load time is the shortest seen. To learn of a longer one, about every 1500th sample (1000 to 2000, at random) is a
 * probe: it throws the limit down to `queueSize` and forgets the time; the next samples find a new one.
 *
 * The surprises: the probe is a dip to the root of the limit (from 100 to 10), and some fifteen samples to climb back; and
 * `queueSize`, at least 4, is the real minimum, whatever `minLimit` says.
 */

/**
 * Options of a {@link GradientLimit}.
 *
 * @public
 */
export interface GradientLimitOptions extends ObservableLimitOptions {
  /** The limit to begin with: an integer from `minLimit` to `maxLimit`. 50 by default. */
  readonly initialLimit?: number | undefined;
  /** The lowest limit: an integer of at least 1. 1 by default; the limit does not fall below `queueSize` either. */
  readonly minLimit?: number | undefined;
  /** The highest limit: an integer of at least `minLimit`, and of at least 4 with the default `queueSize`. 1000 by default. */
  readonly maxLimit?: number | undefined;
  /** How far the limit goes towards its new value when it shrinks: above 0, at most 1. 0.2 by default. */
  readonly smoothing?: number | undefined;
  /**
   * By how much it grows at each step: a number above 0 and up to `maxLimit`; `squareRoot`, the default, of the limit, rounded
   * down and at least 4; or a function from the limit, whose result counts up to `maxLimit`.
   */
  readonly queueSize?: number | "squareRoot" | ((limit: number) => number) | undefined;
  /** How many times the no-load time is still good: a finite number of at least 1. 2 by default. */
  readonly rttTolerance?: number | undefined;
  /**
   * After how many samples the no-load time is measured anew, and up to as many more at random: an integer of at least 1, or
   * false for never. 1000 by default.
   */
  readonly probeInterval?: number | false | undefined;
  /** What is left of the limit after a drop, before smoothing: from 0.5 to 1. 0.9 by default. */
  readonly backoffRatio?: number | undefined;
  /** Where chance comes from: a number from 0 to below 1. `Math.random` by default. */
  readonly random?: (() => number) | undefined;
}

const OPTION_NAMES = [
  "initialLimit",
  "minLimit",
  "maxLimit",
  "smoothing",
  "queueSize",
  "rttTolerance",
  "probeInterval",
  "backoffRatio",
  "random",
  "onDiagnostic",
];
const DEFAULTS = { initialLimit: 50, minLimit: 1, maxLimit: 1000 };

/**
 * Multiplies the limit by the ratio of the shortest latency seen to the present one.
 *
 * Drops shrink the limit to `backoffRatio`, whatever was in flight; failures of other kinds are no samples. Work that found
 * less than half of the limit in flight changes nothing. A function of yours that throws, or returns something else than a
 * number of at least 0, throws out of `onSample` and leaves the limit as it is.
 *
 * Good at: holding a stable limit under a long overload (in simulations 78 to 112 where 50 was enough, without creeping up),
 * and ramping up fast. Fails with latency that is not homogeneous, since the shortest time seen stands for the normal one; when
 * the dependency slows down and comes back it lost 8 to 66 % of what could be done; and each probe throws the limit down to
 * `queueSize`. It belongs behind a {@link WindowedLimit}, so that its times are means or percentiles of a window; alone, it is
 * for calls that are all alike.
 *
 * @example
 * ```ts
 * import { GradientLimit, WindowedLimit } from "headgate/adaptive";
 *
 * const limit = new WindowedLimit(new GradientLimit({ maxLimit: 200 }), { window: { percentile: 0.5, capacity: 500 } });
 * ```
 *
 * @public
 */
export class GradientLimit extends ObservableLimit {
  readonly #minLimit: number;
  readonly #maxLimit: number;
  readonly #smoothing: number;
  readonly #queueSize: (limit: number) => number;
  readonly #rttTolerance: number;
  /** 0 for never. */
  readonly #probeInterval: number;
  readonly #backoffRatio: number;
  readonly #random: () => number;
  /** 0 while there is none. */
  #noLoadRtt = 0;
  #samplesUntilProbe = 0;
  #lastRtt: number | undefined = undefined;
  #lastQueueSize: number | undefined = undefined;
  #gradient: number | undefined = undefined;

  /**
   * @param options - All optional: `initialLimit`, `minLimit`, `maxLimit`, `smoothing`, `queueSize`, `rttTolerance`,
   * `probeInterval`, `backoffRatio`, `random`, `onDiagnostic`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: GradientLimitOptions = {}) {
    checkOptionNames(options, OPTION_NAMES);
    const { initialLimit, minLimit, maxLimit } = readBounds(options, DEFAULTS, false);
    const {
      smoothing = 0.2,
      queueSize = "squareRoot",
      rttTolerance = 2,
      probeInterval = 1000,
      backoffRatio = 0.9,
    } = options;
    // The limit would be pinned to the highest: the smallest step is above it.
    if (queueSize === "squareRoot") {
      checkInteger("options.maxLimit", maxLimit, sqrt4(0), HIGHEST_LIMIT, ' (with queueSize "squareRoot")');
    }
    checkSmoothing("options.smoothing", smoothing);
    checkTolerance("options.rttTolerance", rttTolerance);
    checkNumber("options.backoffRatio", backoffRatio, "from 0.5 to 1", (n) => n >= 0.5 && n <= 1);
    super(initialLimit, options);
    this.#minLimit = minLimit;
    this.#maxLimit = maxLimit;
    this.#smoothing = smoothing;
    this.#queueSize = readQueueSize(queueSize, sqrt4, maxLimit);
    this.#rttTolerance = rttTolerance;
    this.#probeInterval = readProbeInterval(probeInterval);
    this.#backoffRatio = backoffRatio;
    this.#random = readRandom(options.random);
    if (this.#probeInterval > 0) this.#samplesUntilProbe = this.#drawInterval();
  }

  override get maxLimit(): number {
    return this.#maxLimit;
  }

  override onSample(_startTime: number, rtt: number, inFlight: number, outcome: LeaseOutcome): void {
    if (!isSample(rtt, outcome)) return;
    const didDrop = outcome === "dropped";
    const { estimated } = this;
    const queueSize = Math.min(this.#maxLimit, this.#queueSize(this.limit));
    this.#lastQueueSize = queueSize;
    if (!isUsableRtt(rtt)) {
      if (didDrop) this.#moveTowards(estimated * this.#backoffRatio, queueSize);
      return;
    }
    this.#lastRtt = rtt;
    if (this.#probeInterval > 0 && this.#samplesUntilProbe-- <= 0) {
      this.#samplesUntilProbe = this.#drawInterval();
      this.#noLoadRtt = 0;
      this.moveTo(Math.max(this.#minLimit, queueSize));
      return;
    }
    if (this.#noLoadRtt === 0 || rtt < this.#noLoadRtt) this.#noLoadRtt = rtt;
    const gradient = clamp((this.#rttTolerance * this.#noLoadRtt) / rtt, 0.5, 1);
    this.#gradient = gradient;
    if (didDrop) {
      this.#moveTowards(estimated * this.#backoffRatio, queueSize);
    } else if (inFlight >= estimated / 2) {
      this.#moveTowards(estimated * gradient + queueSize, queueSize);
    }
  }

  override describe(): LimitDescription {
    return {
      algorithm: "GradientLimit",
      limit: this.limit,
      estimated: this.estimated,
      noLoadRttMs: this.#noLoadRtt === 0 ? undefined : this.#noLoadRtt,
      windowRttMs: this.#lastRtt,
      queueSize: this.#lastQueueSize,
      gradient: this.#gradient,
      samplesUntilProbe: this.#probeInterval > 0 ? Math.max(0, this.#samplesUntilProbe) : undefined,
    };
  }

  #moveTowards(target: number, queueSize: number): void {
    const { estimated } = this;
    const smoothing = this.#smoothing;
    let next = target;
    if (next < estimated) {
      next = Math.max(this.#minLimit, estimated * (1 - smoothing) + smoothing * next);
    }
    this.moveTo(clamp(next, queueSize, this.#maxLimit));
  }

  #drawInterval(): number {
    return this.#probeInterval + Math.floor(this.#random() * this.#probeInterval);
  }
}
