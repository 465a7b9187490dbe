import { checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";
import { checkMoment, checkShare, checkSpan, checkString } from "./checks.js";
import { exp, log } from "./logarithm.js";
import type { RandomSource } from "./random.js";

/*
 * How long work takes.
 *
 * The question: is the mean not enough? With unlimited room, and for how many are refused by a limit without a queue, it
 * is: the share of refused customers is the same for all shapes. For waiting it is not: with one server at 80 %, work of
 * exactly 10 ms each waits 20 ms on average, exponential work with the same mean 40 ms, and a mix of nine 5 ms jobs and one
 * 55 ms job 65 ms. What counts is the mean of the squares.
 *
 * Every shape turns exactly one uniform number into one time (a fixed time none), so that the n-th customer gets the n-th
 * number.
 *
 * The surprise: a Pareto distribution with alpha of 2 or less has an infinite variance, so the mean wait is infinite and every run
 * shows another one; with an alpha near 1 even the mean of a long run is far below `mean`, as it rests on times so rare that
 * the run has none.
 */

/**
 * How long something takes: pulls one time after the other out of a {@link RandomSource}. Your own object with these members
 * will do.
 *
 * @public
 */
export interface Distribution {
  /** The mean, in milliseconds. */
  readonly mean: number;
  /** The variance, in square milliseconds; may be infinite. May be left out. */
  readonly variance?: number | undefined;
  /** A few words for reports, such as `exponential, mean 10 ms`. */
  readonly description: string;
  /** The next time, in milliseconds: finite, at least 0. Depends on nothing but `random`. */
  sample(random: RandomSource): number;
}

/**
 * Always the same time.
 *
 * @param ms - Milliseconds, at least 0.
 * @throws TypeError or RangeError when that is something else.
 *
 * @public
 */
export function deterministic(ms: number): Distribution {
  checkMoment("ms", ms);
  return { mean: ms, variance: 0, description: `always ${ms} ms`, sample: () => ms };
}

/**
 * Exponentially distributed times: short ones are the most likely, and how long it has taken says nothing about how long it
 * will still take.
 *
 * @param meanMs - The mean in milliseconds, above 0.
 * @throws TypeError or RangeError when that is something else.
 *
 * @public
 */
export function exponential(meanMs: number): Distribution {
  checkSpan("meanMs", meanMs);
  return {
    mean: meanMs,
    variance: meanMs * meanMs,
    description: `exponential, mean ${meanMs} ms`,
    sample: (random) => random.exponential(meanMs),
  };
}

/**
 * Options of {@link lognormal}.
 *
 * @public
 */
export interface LognormalOptions {
  /** The mean in milliseconds, above 0. Required. */
  readonly meanMs: number;
  /**
   * The standard deviation of the logarithm, from 0 to 5. 0.5 is a well-behaved service, 1 has a long tail (one in a hundred
   * takes six times the mean or more). Above 5 no run would be long enough to see the mean. Required.
   */
  readonly sigma: number;
}

/**
 * Times whose logarithm is normally distributed: most are near the middle, few are very long, as measured latencies often
 * are.
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @example
 * ```ts
 * import { createRandom, lognormal } from "headgate/simulator";
 *
 * const service = lognormal({ meanMs: 20, sigma: 1 });
 * const firstMs = service.sample(createRandom(1, "service"));
 * ```
 *
 * @public
 */
export function lognormal(options: LognormalOptions): Distribution {
  checkOptionNames(options, ["meanMs", "sigma"]);
  const { meanMs, sigma } = options;
  checkSpan("options.meanMs", meanMs);
  checkNumber("options.sigma", sigma, "a number from 0 to 5", (n) => n >= 0 && n <= 5);
  const mu = log(meanMs) - (sigma * sigma) / 2;
  return {
    mean: meanMs,
    variance: meanMs * meanMs * (exp(sigma * sigma) - 1),
    description: `lognormal, mean ${meanMs} ms, sigma ${sigma}`,
    sample: (random) => exp(mu + sigma * random.normal()),
  };
}

/**
 * Options of {@link pareto}.
 *
 * @public
 */
export interface ParetoOptions {
  /** The mean in milliseconds, above 0. Required. */
  readonly meanMs: number;
  /** How quickly the tail thins out, above 1 and at most 1000; at 2 or below the variance is infinite. Required. */
  readonly alpha: number;
}

/**
 * Times with a heavy tail: none is short, and a few are so long that they make up a good part of all the work.
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @public
 */
export function pareto(options: ParetoOptions): Distribution {
  checkOptionNames(options, ["meanMs", "alpha"]);
  const { meanMs, alpha } = options;
  checkSpan("options.meanMs", meanMs);
  checkNumber("options.alpha", alpha, "a number above 1, at most 1000", (n) => n > 1 && n <= 1000);
  const shortest = (meanMs * (alpha - 1)) / alpha;
  const power = -1 / alpha;
  return {
    mean: meanMs,
    variance: alpha > 2 ? (shortest * meanMs) / (alpha - 1) / (alpha - 2) : Number.POSITIVE_INFINITY,
    description: `Pareto, mean ${meanMs} ms, alpha ${alpha}`,
    sample: (random) => shortest * exp(log(1 - random.uniform()) * power),
  };
}

/**
 * Options of {@link bimodal}.
 *
 * @public
 */
export interface BimodalOptions {
  /** The share of the short times, from 0 to 1. Required. */
  readonly lowShare: number;
  /** The short time in milliseconds, at least 0. Required. */
  readonly lowMs: number;
  /** The long time in milliseconds, at least `lowMs`. Required. */
  readonly highMs: number;
}

/**
 * One of two times, such as those of a cache that is hit or missed.
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @example
 * ```ts
 * import { bimodal } from "headgate/simulator";
 *
 * const behindCache = bimodal({ lowShare: 0.9, lowMs: 5, highMs: 55 }); // 10 ms on average
 * ```
 *
 * @public
 */
export function bimodal(options: BimodalOptions): Distribution {
  checkOptionNames(options, ["lowShare", "lowMs", "highMs"]);
  const { lowShare, lowMs, highMs } = options;
  checkShare("options.lowShare", lowShare);
  checkMoment("options.lowMs", lowMs);
  checkMoment("options.highMs", highMs);
  const span = highMs - lowMs;
  checkNumber("options.highMs", highMs, `at least options.lowMs, ${lowMs}`, () => span >= 0);
  return {
    mean: lowMs * lowShare + highMs * (1 - lowShare),
    variance: span * span * lowShare * (1 - lowShare),
    description: `${lowMs} ms (share ${lowShare}) or ${highMs} ms`,
    sample: (random) => (random.uniform() < lowShare ? lowMs : highMs),
  };
}

/**
 * Times that were measured, each as likely as any other.
 *
 * @param samplesMs - Milliseconds, at least 0 each; at least one. Any iterable will do, such as an array, a typed array or a
 * set. Read at once, and copied.
 * @throws TypeError or RangeError when that is something else.
 *
 * @public
 */
export function empirical(samplesMs: Iterable<number>): Distribution {
  const isIterable = typeof samplesMs === "object" && samplesMs !== null && Symbol.iterator in samplesMs;
  if (!isIterable)
    throw wrongType("samplesMs", "something to iterate over, such as an array of numbers", samplesMs);
  const samples: readonly number[] = [...samplesMs];
  if (samples.length === 0) throw new RangeError("samplesMs must have at least one number; got none.");
  for (const [i, ms] of samples.entries()) checkMoment(`samplesMs[${i}]`, ms);
  const times = Float64Array.from(samples);
  let sum = 0;
  for (const ms of times) sum += ms;
  const mean = sum / times.length;
  let squares = 0;
  for (const ms of times) squares += (ms - mean) * (ms - mean);
  return {
    mean,
    variance: squares / times.length,
    description: `one of ${times.length} measured times, mean ${mean} ms`,
    sample: (random) => times[Math.floor(random.uniform() * times.length)] as number,
  };
}

/** Checks an object that should be a distribution. */
export function checkDistribution(name: string, value: unknown): asserts value is Distribution {
  const candidate = value as Partial<Distribution> | null | undefined;
  if (typeof candidate !== "object" || candidate === null || typeof candidate.sample !== "function") {
    throw wrongType(name, "a distribution, such as exponential(10)", value);
  }
  checkMoment(`${name}.mean`, candidate.mean);
  checkString(`${name}.description`, candidate.description);
}
