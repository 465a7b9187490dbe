import { checkFunction, checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";
import type { SimulationResult } from "./result.js";
import { simulate } from "./simulate.js";
import type { LimiterFactory, SimulationOptions } from "./simulation-options.js";

/**
 * One number of several runs; null where no run has it.
 *
 * @public
 */
export interface Spread {
  /** The mean. */
  readonly mean: number | null;
  /** The smallest. */
  readonly min: number | null;
  /** The largest. */
  readonly max: number | null;
}

/**
 * The same model run with several seeds.
 *
 * @public
 */
export interface RunsOverSeeds {
  /** One result for each seed, in order. */
  readonly results: readonly SimulationResult[];
  /** Delivered for each second. */
  readonly goodput: Spread;
  /** The share of attempts that was refused. */
  readonly rejectedOfAttempts: Spread;
  /** The share of finished work that came too late. */
  readonly wastedOfCompleted: Spread;
  /** The median and the 99th percentile of the response time of what was delivered, in milliseconds. */
  readonly p50: Spread;
  /** See `p50`. */
  readonly p99: Spread;
}

/**
 * What {@link compare} finds.
 *
 * @public
 */
export interface Comparison {
  /** The form of this object. */
  readonly format: "headgate-comparison/1";
  /** The seeds, as strings, in order. */
  readonly seeds: readonly string[];
  /** By the names that the limiters were given. */
  readonly limiters: Readonly<Record<string, RunsOverSeeds>>;
}

/**
 * What {@link sweep} finds for one value.
 *
 * @public
 */
export interface SweepPoint<Value> extends RunsOverSeeds {
  /** The value, as it was given. */
  readonly value: Value;
}

/**
 * Options of {@link compare} and {@link sweep}.
 *
 * @public
 */
export interface SeedOptions {
  /** The seeds to run with, at least one; by default the seed of the simulation's own options. */
  readonly seeds?: readonly (number | string)[] | undefined;
}

/**
 * Runs several limiters against the very same customers: for one seed, the n-th arrival comes at the same time and wants the same
 * work whatever the limiter does. So a difference between two results is a difference between two limiters.
 *
 * @param base - What to simulate; all but the limiter. `onProgress` is told of all runs together.
 * @param limiters - What to compare, by name. `undefined` for no limiter.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { compare, exponential, poissonArrivals } from "headgate/simulator";
 *
 * const { limiters } = await compare(
 *   {
 *     arrivals: poissonArrivals({ ratePerSecond: 500 }),
 *     service: { servers: 50, time: exponential(200) },
 *     clients: { timeoutMs: 5000 },
 *     durationMs: 120_000,
 *   },
 *   {
 *     none: undefined,
 *     fifty: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 50, clock }),
 *   },
 *   { seeds: [1, 2, 3] },
 * );
 * for (const [name, { goodput, p99 }] of Object.entries(limiters)) console.log(name, goodput.mean, p99.mean);
 * ```
 *
 * @returns Rejects as {@link simulate} does.
 *
 * @public
 */
export async function compare(
  base: Omit<SimulationOptions, "limiter">,
  limiters: Readonly<Record<string, LimiterFactory | undefined>>,
  options: SeedOptions = {},
): Promise<Comparison> {
  if (typeof limiters !== "object" || limiters === null || Array.isArray(limiters)) {
    throw wrongType("limiters", "an object of limiter factories by name", limiters);
  }
  const entries = Object.entries(limiters);
  for (const [name, limiter] of entries) {
    if (limiter !== undefined) checkFunction(`limiters.${name}`, limiter);
  }
  const models = entries.map(([, limiter]) => ({ ...base, limiter }));
  const seeds = seedsOf(options, base.seed);
  const runs = await runAll(models, seeds);
  // No prototype: a limiter may have any name.
  const byName: Record<string, RunsOverSeeds> = Object.create(null);
  for (const [i, [name]] of entries.entries()) byName[name] = runs[i] as RunsOverSeeds;
  return { format: "headgate-comparison/1", seeds: (seeds ?? [1]).map(String), limiters: byName };
}

/**
 * Runs a model once for each value of something, such as the permit limit: the way to find the best number.
 *
 * @param values - The values to try.
 * @param make - Says what to simulate for a value.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { exponential, poissonArrivals, sweep } from "headgate/simulator";
 *
 * const points = await sweep([20, 35, 50, 75, 100], (permitLimit) => ({
 *   arrivals: poissonArrivals({ ratePerSecond: 500 }),
 *   service: { servers: 50, time: exponential(200), discipline: "ps", contention: 1.5 },
 *   clients: { timeoutMs: 2000 },
 *   limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit, clock }),
 *   durationMs: 60_000,
 * }));
 * for (const { value, goodput } of points) console.log(value, goodput.mean);
 * ```
 *
 * @returns One point for each value, in order. Rejects as {@link simulate} does.
 *
 * @public
 */
export async function sweep<Value>(
  values: readonly Value[],
  make: (value: Value) => SimulationOptions,
  options: SeedOptions = {},
): Promise<readonly SweepPoint<Value>[]> {
  if (!Array.isArray(values)) throw wrongType("values", "an array", values);
  checkFunction("make", make);
  const models = values.map((value: Value, i) => {
    const model: unknown = make(value);
    if (typeof model !== "object" || model === null)
      throw wrongType(`The result of make(values[${i}])`, "an object of options", model);
    return model as SimulationOptions;
  });
  const runs = await runAll(models, seedsOf(options, undefined));
  return values.map((value: Value, i) => ({ value, ...(runs[i] as RunsOverSeeds) }));
}

function seedsOf(
  options: SeedOptions,
  own: number | string | undefined,
): readonly (number | string)[] | undefined {
  checkOptionNames(options, ["seeds"]);
  const { seeds = own === undefined ? undefined : [own] } = options;
  if (seeds === undefined) return undefined;
  if (!Array.isArray(seeds)) throw wrongType("options.seeds", "an array", seeds);
  if (seeds.length === 0) throw new RangeError("options.seeds must hold at least one seed; got none.");
  for (const [i, seed] of seeds.entries()) {
    if (typeof seed === "string") continue;
    checkNumber(`options.seeds[${i}]`, seed, "a finite number or a string", Number.isFinite);
  }
  return [...seeds];
}

/** Runs each model with each seed, one after the other. */
async function runAll(
  models: readonly SimulationOptions[],
  seeds: readonly (number | string)[] | undefined,
): Promise<readonly RunsOverSeeds[]> {
  const runs: RunsOverSeeds[] = [];
  for (const [i, model] of models.entries()) {
    const results: SimulationResult[] = [];
    const ownSeeds = seeds ?? [model.seed ?? 1];
    for (const [j, seed] of ownSeeds.entries()) {
      const { onProgress } = model;
      const report = (share: number) => onProgress?.((i + (j + share) / ownSeeds.length) / models.length);
      results.push(
        await simulate({ ...model, seed, ...(onProgress === undefined ? {} : { onProgress: report }) }),
      );
    }
    runs.push(summarize(results));
  }
  return runs;
}

function summarize(results: readonly SimulationResult[]): RunsOverSeeds {
  const spread = (read: (result: SimulationResult) => number | null): Spread => {
    const values = results.map(read).filter((value) => value !== null);
    if (values.length === 0) return { mean: null, min: null, max: null };
    const sum = values.reduce((total, value) => total + value, 0);
    return { mean: sum / values.length, min: Math.min(...values), max: Math.max(...values) };
  };
  return {
    results,
    goodput: spread((result) => result.perSecond.goodput),
    rejectedOfAttempts: spread((result) => result.ratios.rejectedOfAttempts),
    wastedOfCompleted: spread((result) => result.ratios.wastedOfCompleted),
    p50: spread((result) => result.latency.delivered.p50),
    p99: spread((result) => result.latency.delivered.p99),
  };
}
