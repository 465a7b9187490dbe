import { checkNumber, checkOptionNames } from "../../src/internal.js";
import { checkRate, checkSpan, checkWhole } from "./checks.js";

/*
 * What is known about queues without simulating them.
 *
 * The question: how many servers, or which limit, does it take? For independent customers and a fixed limit there are
 * formulas over a hundred years old, and a simulator that does not agree with them is wrong.
 *
 * As they stand in books, they are quotients of sums of a^n / n!, which no computer number holds for 500 servers. Put the
 * other way round, as 1 / B, each server is one step that only adds and multiplies:
 *
 *     1 / B(0) = 1,   1 / B(n) = 1 + n / a × 1 / B(n - 1)
 *
 * Example: 5 servers and an offered load of 4, which is 4 servers' worth of work. 1 / B goes 1, 1.25, 1.625, 2.21875,
 * 3.21875, 5.02344: B is 0.199. One customer in five is refused, although on average 1.8 servers are idle.
 *
 * The surprise: with twice of both, 10 servers and a load of 8, only 12 % are refused, and with twenty times of both 0.4 %.
 * A large pool with the same reserve in proportion refuses far fewer, which is why one shared limit beats twenty separate ones.
 */

/** Each server or place is one step; more would take seconds. */
const MOST_STEPS = 10_000_000;

/**
 * Options of {@link littlesLaw}.
 *
 * @public
 */
export interface LittlesLawOptions {
  /** How many requests are finished per second: from 0 to 1 000 000 000. Required. */
  readonly throughputPerSecond: number;
  /** How long each takes, in milliseconds: above 0. Required. */
  readonly latencyMs: number;
}

/**
 * How many requests are in progress at a given rate and latency (Little's law): the permit limit to start from.
 *
 * @returns Throughput times latency, rounded up; at least 1.
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { littlesLaw } from "headgate/simulator";
 *
 * const permitLimit = littlesLaw({ throughputPerSecond: 250, latencyMs: 200 }); // 50
 * const limiter = new ConcurrencyLimiter({ permitLimit });
 * ```
 *
 * @public
 */
export function littlesLaw(options: LittlesLawOptions): number {
  checkOptionNames(options, ["throughputPerSecond", "latencyMs"]);
  const { throughputPerSecond, latencyMs } = options;
  checkRate("options.throughputPerSecond", throughputPerSecond);
  checkSpan("options.latencyMs", latencyMs);
  const inProgress = (throughputPerSecond * latencyMs) / 1000;
  // A whole number stays one, though 0.07 × 100 000 / 1000 comes out above 7.
  return Math.max(1, Math.ceil(inProgress * (1 - 1e-12)));
}

/**
 * The share of customers who are refused when every one who finds all servers busy is turned away (Erlang B). It depends on
 * the mean of the service time only.
 *
 * @param servers - How many servers, or permits: an integer from 1 to 10 000 000.
 * @param offeredLoad - Arrivals per second times seconds of service, which is how many servers they would keep busy: at least 0.
 * @throws TypeError or RangeError when an argument is something else.
 *
 * @public
 */
export function erlangB(servers: number, offeredLoad: number): number {
  checkWhole("servers", servers, 1, MOST_STEPS);
  checkNumber(
    "offeredLoad",
    offeredLoad,
    "a finite number of at least 0",
    (n) => n >= 0 && Number.isFinite(n),
  );
  let inverse = 1;
  for (let n = 1; n <= servers; n++) inverse = 1 + (n / offeredLoad) * inverse;
  return 1 / inverse;
}

/**
 * The share of customers who have to wait when everybody who finds all servers busy waits (Erlang C, for exponential service
 * times).
 *
 * @param servers - How many servers, or permits: an integer from 1 to 10 000 000.
 * @param offeredLoad - Arrivals per second times seconds of service: at least 0.
 * @returns The share; 1 when the servers cannot keep up.
 * @throws TypeError or RangeError when an argument is something else.
 *
 * @public
 */
export function erlangC(servers: number, offeredLoad: number): number {
  const refused = erlangB(servers, offeredLoad);
  if (offeredLoad >= servers) return 1;
  return (servers * refused) / (servers - offeredLoad * (1 - refused));
}

/**
 * Options of {@link mmck}.
 *
 * @public
 */
export interface MmckOptions {
  /** Arrivals per second: from 0 to 1 000 000 000. Required. */
  readonly arrivalsPerSecond: number;
  /** The mean service time in milliseconds: above 0. Required. */
  readonly serviceMs: number;
  /** How many servers: an integer from 1 to 10 000 000. Required. */
  readonly servers: number;
  /** How many customers have room, those being served included: an integer from `servers` to 10 000 000. Required. */
  readonly capacity: number;
}

/**
 * What {@link mmck} works out.
 *
 * @public
 */
export interface MmckResult {
  /** The share of customers who are turned away. */
  readonly blockedShare: number;
  /** How long those who are not take on average, waiting included, in milliseconds. */
  readonly meanResponseMs: number;
  /** How many are waiting or served on average. */
  readonly meanInSystem: number;
}

/**
 * A queue with limited room, as a `ConcurrencyLimiter` with `permitLimit` = `servers` and `queueLimit` = `capacity` - `servers`
 * makes it (M/M/c/K: independent customers, exponential service times).
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @public
 */
export function mmck(options: MmckOptions): MmckResult {
  checkOptionNames(options, ["arrivalsPerSecond", "serviceMs", "servers", "capacity"]);
  const { arrivalsPerSecond, serviceMs, servers, capacity } = options;
  checkRate("options.arrivalsPerSecond", arrivalsPerSecond);
  checkSpan("options.serviceMs", serviceMs);
  checkWhole("options.servers", servers, 1, MOST_STEPS);
  checkWhole("options.capacity", capacity, servers, MOST_STEPS);
  const load = (arrivalsPerSecond * serviceMs) / 1000;
  // With room for n, one place after the other: how likely it is full, how many are in it, and how many service times
  // somebody stays who is let in and finds so many.
  let inverse = 1;
  let inSystem = 0;
  let found = 1;
  let stay = 1;
  for (let n = 1; n <= capacity; n++) {
    found = stay;
    inverse = 1 + (Math.min(n, servers) / load) * inverse;
    const full = 1 / inverse;
    inSystem += (n - inSystem) * full;
    stay += (Math.max(1, (n + 1) / servers) - stay) * full;
  }
  return { blockedShare: 1 / inverse, meanResponseMs: found * serviceMs, meanInSystem: inSystem };
}
