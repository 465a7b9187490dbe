import type { SimulationResult } from "./result.js";
import { Simulation } from "./simulation.js";
import { readOptions, type SimulationOptions } from "./simulation-options.js";

/**
 * Runs a limiter against a model of traffic, clients and server, in virtual time: an hour takes a second or so.
 *
 * The limiter is the very class that you ship, with the run's clock. Arrivals ask it for permits, wait in its queue, are served
 * or refused, time out and try again, as the options say. The result tells what was delivered in time, how long it took,
 * and what was wasted.
 *
 * Random numbers come from the seed alone: the same options and the same seed give the same result, to the last bit, in every
 * host. The n-th arrival wants the same work whatever the limiter does, so that two limiters can be compared with the same
 * customers; see `compare`.
 *
 * At one instant, completions come first, then timers, then clients that give up, then arrivals: a permit that comes free
 * serves who arrives then, and an answer right at the deadline is in time.
 *
 * Limiters that you wrote work too. They must take their time from the clock they are given, and may use promises as they like.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { exponential, poissonArrivals, simulate } from "headgate/simulator";
 *
 * // Ten times as much as 50 workers of 200 ms can do, from clients who wait for 5 s.
 * const result = await simulate({
 *   arrivals: poissonArrivals({ ratePerSecond: 2500 }),
 *   service: { servers: 50, time: exponential(200) },
 *   clients: { timeoutMs: 5000 },
 *   limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 50, queueLimit: 50, clock }),
 *   durationMs: 60_000,
 * });
 * console.log(result.perSecond.goodput, result.latency.delivered.p99);
 * ```
 *
 * @returns What it came to. Rejects with a TypeError or RangeError when an option is not what it should be, before anything
 * happens; with a {@link SimulationError} when the limiter fails, one of your own functions throws (its `cause` is what was
 * thrown), or time does not advance; with the signal's reason when that is aborted. However a run ends, the limiter gets back
 * what was held.
 *
 * @public
 */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  return await new Simulation(readOptions(options)).run();
}
