import { type SimulationOptions, type SimulationResult, simulate } from "headgate/simulator";
import { type Algorithm, type Bounds, limiterOf } from "./algorithms.js";

const STEP_MS = 1000;

/** A kind of trouble. Times are seconds from here on, as in the tables. */
export interface Scenario {
  readonly id: string;
  /** What happens, in a few words. */
  readonly title: string;
  /** Requests a second that can be served at best. */
  readonly capacity: number;
  readonly bounds: Bounds;
  readonly options: Omit<SimulationOptions, "limiter" | "seed" | "stepMs">;
}

/** What came of it, by the second. */
export class Run {
  readonly scenario: Scenario;
  readonly result: SimulationResult;

  constructor(scenario: Scenario, result: SimulationResult) {
    this.scenario = scenario;
    this.result = result;
  }

  get #warmupS(): number {
    return this.result.setup.warmupMs / STEP_MS;
  }

  get #endS(): number {
    return this.result.setup.durationMs / STEP_MS;
  }

  /** How many came, those of the warm-up included. */
  get arrivals(): number {
    const { offered, stepMs } = this.result.series;
    return offered.reduce((sum, rate) => sum + (rate * stepMs) / 1000, 0);
  }

  /** Served in time, for each second of a part of the run; after the warm-up by default. */
  goodput(fromS: number = this.#warmupS, toS: number = this.#endS): number {
    return mean(this.result.series.goodput.slice(fromS, toS));
  }

  /** The limit at the end of each second. */
  limits(fromS: number = this.#warmupS, toS: number = this.#endS): number[] {
    return this.result.series.limit.slice(fromS, toS).filter((limit) => limit !== null);
  }

  /** Whether the limit stayed within its bounds, and all permits came back. */
  get isSound(): boolean {
    // Not every algorithm has a lower bound that can be set.
    const isWithin = this.limits(0).every((limit) => limit >= 1 && limit <= this.scenario.bounds.maxLimit);
    return isWithin && !this.result.warnings.some((text) => text.includes("permit"));
  }

  get limitP95(): number {
    return quantile(this.limits(), 0.95);
  }

  get p99S(): number {
    return (this.result.latency.delivered.p99 ?? Number.NaN) / 1000;
  }

  /** How far the limit swings in the steady state, against its mean. */
  get oscillation(): number {
    const limits = this.limits();
    return (quantile(limits, 0.95) - quantile(limits, 0.05)) / mean(limits);
  }

  /** The mean limit of the last third against that of the middle one; above 1 for one that creeps. */
  get drift(): number {
    const third = (this.#endS - this.#warmupS) / 3;
    return (
      mean(this.limits(this.#endS - third)) / mean(this.limits(this.#warmupS + third, this.#endS - third))
    );
  }

  /** The first second from which on most means over ten seconds are as good as can be; infinite if there is none. */
  convergenceS(best: number): number {
    const { goodput } = this.result.series;
    const isGood = (from: number) => mean(goodput.slice(from, from + 10)) >= 0.95 * best;
    const last = this.#endS - 10;
    for (let from = 0; from < last; from++) {
      if (!isGood(from)) continue;
      const following = Array.from({ length: Math.min(60, last - from) }, (_, i) => isGood(from + 1 + i));
      if (following.filter(Boolean).length >= 0.75 * following.length) return from;
    }
    return Number.POSITIVE_INFINITY;
  }
}

/** @param isTold - Whether the limiter learns that the client of late work has left. */
export async function run(
  scenario: Scenario,
  algorithm: Algorithm,
  seed: number,
  isTold: boolean = true,
): Promise<Run> {
  const limiter = limiterOf(algorithm, scenario.bounds);
  const lateVerdict = isTold ? "dropped" : "success";
  const result = await simulate({ ...scenario.options, limiter, lateVerdict, seed, stepMs: STEP_MS });
  return new Run(scenario, result);
}

export function mean(values: readonly number[]): number {
  return values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** By the nearest rank. */
function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
