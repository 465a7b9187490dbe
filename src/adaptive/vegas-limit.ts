import type { LeaseOutcome } from "../contract/outcome.js";
import { checkInteger, checkOptionNames } from "../contract/validation.js";
import { log10Root, readAmount, readFunction, readRandom } from "./growth.js";
import type { LimitDescription } from "./limit.js";
import { checkSmoothing, checkTolerance, clamp, HIGHEST_LIMIT, readBounds } from "./limit-bounds.js";
import { ObservableLimit, type ObservableLimitOptions } from "./observable-limit.js";
import { isSample, isUsableRtt } from "./sample.js";

/*
 * How many are waiting on the other side, told by the clock.
 *
 * The question: nobody refuses anything, work only gets slower; how much of the limit is a queue over there? If a call takes
 * `noLoad` milliseconds when nothing is in its way and `rtt` now, then of `limit` calls in flight a share of noLoad / rtt is
 * being worked on, and the rest waits:
 *
 *   queue = ceil(limit × (1 - noLoad / rtt))
 *
 * TCP Vegas keeps that number between two marks: below `alpha` the limit grows, above `beta` it shrinks; at or below
 * `threshold` it jumps by `beta`. The marks grow with the decimal digits of the limit.
 *
 * Example, limit 10, alpha 3, beta 6, noLoad 10 ms: an rtt of 10 ms is a queue of 0, and the limit 16; 14 ms is a queue of 3,
 * and nothing happens; 50 ms is a queue of 8, and the limit 9.
 *
 * `noLoad` is the shortest time seen. It would be a relic for ever, so after some number of samples (about probeMultiplier ×
 * limit, with jitter) the next time is taken for it, however long it is.
 *
 * The surprise: "shortest" means luckiest. Where calls differ by nature, the shortest is far below the usual, all the rest looks
 * like a queue, and the limit settles far too low: 13 of 50 with exponentially distributed times, a quarter of what could be
 * done. A fast health check among slow queries is enough.
 */

/**
 * Options of a {@link VegasLimit}.
 *
 * @public
 */
export interface VegasLimitOptions extends ObservableLimitOptions {
  /** The limit to begin with: an integer of at least 1. 20 by default. Above `maxLimit`, the first change brings it down. */
  readonly initialLimit?: number | undefined;
  /** The highest limit: an integer of at least 1. 1000 by default. The lowest is 1. */
  readonly maxLimit?: number | undefined;
  /** How far the limit goes towards its new value at each step: above 0, at most 1. 1 by default. */
  readonly smoothing?: number | undefined;
  /** How many samples per permit of the limit until the no-load time is measured anew: at least 1. 30 by default. */
  readonly probeMultiplier?: number | undefined;
  /** A queue below it lets the limit grow. By default 3 times the digits of the limit less one, at least 3. */
  readonly alpha?: number | ((limit: number) => number) | undefined;
  /** A queue above it makes the limit shrink. By default 6 times the digits of the limit less one, at least 6. */
  readonly beta?: number | ((limit: number) => number) | undefined;
  /** A queue up to it lets the limit jump by `beta`. By default the digits of the limit less one, at least 1. */
  readonly threshold?: number | ((limit: number) => number) | undefined;
  /** The next estimate when the limit grows. By default it adds the digits of the limit less one, at least 1. */
  readonly increase?: ((estimated: number) => number) | undefined;
  /** The next estimate when the limit shrinks. By default it subtracts as much. */
  readonly decrease?: ((estimated: number) => number) | undefined;
  /** Where chance comes from: a number from 0 to below 1. `Math.random` by default. */
  readonly random?: (() => number) | undefined;
}

const OPTION_NAMES = [
  "initialLimit",
  "maxLimit",
  "smoothing",
  "probeMultiplier",
  "alpha",
  "beta",
  "threshold",
  "increase",
  "decrease",
  "random",
  "onDiagnostic",
];
const DEFAULTS = { initialLimit: 20, minLimit: 1, maxLimit: 1000 };

function defaultAlpha(limit: number): number {
  return 3 * log10Root(limit);
}

function defaultBeta(limit: number): number {
  return 6 * log10Root(limit);
}

function defaultIncrease(estimated: number): number {
  return estimated + log10Root(estimated);
}

function defaultDecrease(estimated: number): number {
  return estimated - log10Root(estimated);
}

/**
 * Estimates the queue on the other side from latency, as TCP Vegas does, and keeps it short.
 *
 * Drops shrink the limit, whatever was in flight; failures of other kinds are no samples. Work that found less than half of
 * the limit in flight changes nothing. A function of yours that throws, or returns no finite number, throws out of `onSample`
 * and leaves the limit as it is.
 *
 * Good at: homogeneous latency, where every call takes about the same time unless it waits: one kind of query, one cache. There
 * it reacts within a few samples and keeps the queue at a handful. Fails everywhere else: the shortest time seen is taken for
 * the normal one, so mixed work is starved (it rejected 38 to 65 % of a load that fitted), and a no-load time that is measured
 * under load is too long for the next few hundred samples. Put it behind a {@link WindowedLimit}, which hands it means or
 * percentiles instead of single calls; without one, it is for calls that are all alike.
 *
 * @example
 * ```ts
 * import { VegasLimit, WindowedLimit } from "headgate/adaptive";
 *
 * const limit = new WindowedLimit(new VegasLimit({ maxLimit: 200 }), { minWindowMs: 100, maxWindowMs: 500 });
 * ```
 *
 * @public
 */
export class VegasLimit extends ObservableLimit {
  readonly #maxLimit: number;
  readonly #smoothing: number;
  readonly #probeMultiplier: number;
  readonly #alpha: (limit: number) => number;
  readonly #beta: (limit: number) => number;
  readonly #threshold: (limit: number) => number;
  readonly #increase: (estimated: number) => number;
  readonly #decrease: (estimated: number) => number;
  readonly #random: () => number;
  /** 0 while there is none. */
  #noLoadRtt = 0;
  #samplesSinceProbe = 0;
  #jitter: number;
  #queue: number | undefined = undefined;

  /**
   * @param options - All optional: `initialLimit`, `maxLimit`, `smoothing`, `probeMultiplier`, `alpha`, `beta`, `threshold`,
   * `increase`, `decrease`, `random`, `onDiagnostic`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: VegasLimitOptions = {}) {
    checkOptionNames(options, OPTION_NAMES);
    const { smoothing = 1, probeMultiplier = 30, increase, decrease } = options;
    const { alpha = defaultAlpha, beta = defaultBeta, threshold = log10Root } = options;
    const { maxLimit } = readBounds({ maxLimit: options.maxLimit }, DEFAULTS, false);
    const { initialLimit = Math.min(DEFAULTS.initialLimit, maxLimit) } = options;
    checkInteger("options.initialLimit", initialLimit, 1, HIGHEST_LIMIT);
    checkSmoothing("options.smoothing", smoothing);
    checkTolerance("options.probeMultiplier", probeMultiplier);
    super(initialLimit, options);
    this.#maxLimit = maxLimit;
    this.#smoothing = smoothing;
    this.#probeMultiplier = probeMultiplier;
    this.#alpha = readAmount("options.alpha", alpha);
    this.#beta = readAmount("options.beta", beta);
    this.#threshold = readAmount("options.threshold", threshold);
    this.#increase = increase === undefined ? defaultIncrease : readFunction("options.increase", increase);
    this.#decrease = decrease === undefined ? defaultDecrease : readFunction("options.decrease", decrease);
    this.#random = readRandom(options.random);
    this.#jitter = this.#drawJitter();
  }

  override get maxLimit(): number {
    return this.#maxLimit;
  }

  override onSample(_startTime: number, rtt: number, inFlight: number, outcome: LeaseOutcome): void {
    if (!isSample(rtt, outcome)) return;
    const didDrop = outcome === "dropped";
    const { estimated } = this;
    if (!isUsableRtt(rtt)) {
      if (didDrop) this.#moveTowards(this.#decrease(estimated));
      return;
    }
    this.#samplesSinceProbe += 1;
    if (this.#jitter * this.#probeMultiplier * estimated <= this.#samplesSinceProbe) {
      this.#jitter = this.#drawJitter();
      this.#samplesSinceProbe = 0;
      this.#noLoadRtt = rtt;
      return;
    }
    if (this.#noLoadRtt === 0 || rtt < this.#noLoadRtt) {
      this.#noLoadRtt = rtt;
      return;
    }
    const queue = Math.ceil(estimated * (1 - this.#noLoadRtt / rtt));
    this.#queue = queue;
    if (didDrop) {
      this.#moveTowards(this.#decrease(estimated));
    } else if (inFlight * 2 >= estimated) {
      this.#moveTowards(this.#nextFor(queue, estimated));
    }
  }

  override describe(): LimitDescription {
    return {
      algorithm: "VegasLimit",
      limit: this.limit,
      estimated: this.estimated,
      noLoadRttMs: this.#noLoadRtt === 0 ? undefined : this.#noLoadRtt,
      queueEstimate: this.#queue,
    };
  }

  /** What the estimate should be, given the queue; undefined if it is just right. */
  #nextFor(queue: number, estimated: number): number | undefined {
    const { limit } = this;
    const beta = this.#beta(limit);
    if (queue <= this.#threshold(limit)) return estimated + beta;
    if (queue < this.#alpha(limit)) return this.#increase(estimated);
    if (queue > beta) return this.#decrease(estimated);
    return undefined;
  }

  #moveTowards(next: number | undefined): void {
    if (next === undefined) return;
    const smoothing = this.#smoothing;
    const smoothed = (1 - smoothing) * this.estimated + smoothing * clamp(next, 1, this.#maxLimit);
    // An initial limit may be above the highest; smoothing alone would only come near it.
    this.moveTo(Math.min(this.#maxLimit, smoothed));
  }

  #drawJitter(): number {
    return 0.5 + 0.5 * this.#random();
  }
}
