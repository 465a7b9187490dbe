import { checkMethods, checkOptionNames } from "../../src/internal.js";
import { evenly, independently, steady } from "./arrivals-by-rate.js";
import { checkRate, checkShare, checkString } from "./checks.js";
import type { RandomSource } from "./random.js";

/**
 * One customer: when the first attempt is made and, if it is known, what is wanted.
 *
 * @public
 */
export interface Arrival {
  /** When, in milliseconds since the start of the run: finite, at least 0. */
  readonly atMs: number;
  /** How long the work takes, in milliseconds; left out, it is drawn from the service's distribution. */
  readonly serviceMs?: number | undefined;
  /** For whom; `default` when left out. */
  readonly tenant?: string | undefined;
  /** How urgent, for limiters with `highestPriorityFirst`: an integer, larger is more urgent; 0 when left out. */
  readonly priority?: number | undefined;
  /** How many permits it needs: an integer of at least 0; 1 when left out. */
  readonly permitCount?: number | undefined;
  /** Anything else that a partitioned limiter should see. */
  readonly data?: unknown;
}

/**
 * The customers of one run, one after the other.
 *
 * @public
 */
export interface ArrivalSource {
  /** The next customer, not before the last one; undefined when there are no more. */
  next(): Arrival | undefined;
  /**
   * Only of a closed loop, in which a customer comes again some time after being answered. Called once for each arrival
   * (not for each attempt) when the customer knows the outcome: served, refused for good, or given up waiting.
   *
   * @param arrival - The object that this source returned.
   * @param atMs - When, in milliseconds since the start of the run.
   * @returns When the customer comes again, not before `atMs`; undefined for never. What is returned here is not
   * returned by `next`.
   */
  settled?(arrival: Arrival, atMs: number): Arrival | undefined;
}

/**
 * A way in which customers arrive; it can be started any number of times. Your own object with these members will do.
 *
 * @public
 */
export interface ArrivalProcess {
  /** A few words for reports, such as `Poisson, 100 per second`. */
  readonly description: string;
  /** Whether new customers wait for the answers to old ones, so that a slow server is offered less; false when left out. */
  readonly isClosed?: boolean | undefined;
  /** Starts anew. The same `random` gives the same customers. */
  start(random: RandomSource): ArrivalSource;
}

/**
 * Options of {@link poissonArrivals}.
 *
 * @public
 */
export interface PoissonArrivalsOptions {
  /** Arrivals per second on average: from 0 to 1 000 000 000. Required. */
  readonly ratePerSecond: number;
}

/**
 * Customers who know nothing of each other: the gaps between them are exponentially distributed. This is what many
 * people make together, and the usual choice.
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @example
 * ```ts
 * import { createRandom, poissonArrivals } from "headgate/simulator";
 *
 * const source = poissonArrivals({ ratePerSecond: 100 }).start(createRandom(1, "arrivals"));
 * const first = source.next()?.atMs;
 * ```
 *
 * @public
 */
export function poissonArrivals(options: PoissonArrivalsOptions): ArrivalProcess {
  checkOptionNames(options, ["ratePerSecond"]);
  const { ratePerSecond } = options;
  checkRate("options.ratePerSecond", ratePerSecond);
  return {
    description: `Poisson, ${ratePerSecond} per second`,
    start: (random) => independently(random, steady(ratePerSecond)),
  };
}

/**
 * Options of {@link uniformArrivals}.
 *
 * @public
 */
export interface UniformArrivalsOptions {
  /** Arrivals per second: from 0 to 1 000 000 000. Required. */
  readonly ratePerSecond: number;
  /** How much later than its turn an arrival may be, as a share of the gap, from 0 to 1; 0 by default. */
  readonly jitter?: number | undefined;
}

/**
 * Customers at even distances, the first at 0: a timer, or a load generator.
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @public
 */
export function uniformArrivals(options: UniformArrivalsOptions): ArrivalProcess {
  checkOptionNames(options, ["ratePerSecond", "jitter"]);
  const { ratePerSecond, jitter = 0 } = options;
  checkRate("options.ratePerSecond", ratePerSecond);
  checkShare("options.jitter", jitter);
  return {
    description: `uniform, ${ratePerSecond} per second${jitter === 0 ? "" : `, jitter ${jitter}`}`,
    start: (random) => evenly(random, steady(ratePerSecond), jitter),
  };
}

/** Checks an object that should be an arrival process. */
export function checkArrivalProcess(name: string, value: unknown): asserts value is ArrivalProcess {
  checkMethods(name, value, ["start"]);
  checkString(`${name}.description`, (value as ArrivalProcess).description);
}
