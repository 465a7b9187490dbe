import { readFileSync } from "node:fs";
import type { LeaseOutcome } from "headgate";
import { expect } from "vitest";
import { AimdLimit } from "../../../src/adaptive/aimd-limit.js";
import { AnchoredGradientLimit } from "../../../src/adaptive/anchored-gradient-limit.js";
import { FixedLimit } from "../../../src/adaptive/fixed-limit.js";
import { GradientLimit } from "../../../src/adaptive/gradient-limit.js";
import { Gradient2Limit } from "../../../src/adaptive/gradient2-limit.js";
import { log10Root } from "../../../src/adaptive/growth.js";
import type { Limit, LimitDescription } from "../../../src/adaptive/limit.js";
import { SettableLimit } from "../../../src/adaptive/settable-limit.js";
import { VegasLimit } from "../../../src/adaptive/vegas-limit.js";
import { WindowedAimdLimit } from "../../../src/adaptive/windowed-aimd-limit.js";

/** A limit that can say what it knows, as all of this library can. */
export type DescribedLimit = Limit & { describe(): LimitDescription };

export interface Sample {
  readonly start: number;
  readonly rtt: number | "NaN" | "Infinity";
  readonly inflight: number;
  readonly didDrop: boolean;
}

export interface Step extends Sample {
  readonly set?: number;
  readonly limit: number;
  readonly estimated?: number;
  readonly fragile?: boolean;
  readonly fired?: Sample;
}

export interface VectorCase {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly rng?: readonly number[];
  readonly steps: readonly Step[];
  readonly changes: readonly number[];
  readonly final: Readonly<Record<string, unknown>>;
}

export function readVectors<File = { readonly cases: readonly VectorCase[] }>(name: string): File {
  return JSON.parse(readFileSync(new URL(`../vectors/${name}.json`, import.meta.url), "utf8")) as File;
}

/** The numbers in turn, the last one for ever. */
function replay(numbers: readonly number[]): () => number {
  let next = 0;
  return () => numbers[Math.min(next++, numbers.length - 1)] as number;
}

interface FunctionSpec {
  readonly kind: string;
  readonly value?: number;
  readonly factor?: number;
  readonly by?: number;
}

function amount(given: unknown): unknown {
  const { kind, value, factor = 1, by = 1 } = given as FunctionSpec;
  if (kind === "const") return value;
  if (kind === "ceilSqrt" || kind === "sqrt") return "squareRoot";
  if (kind === "log10") return (limit: number) => factor * log10Root(limit);
  if (kind === "addLog10") return (estimated: number) => estimated + log10Root(estimated);
  if (kind === "subLog10") return (estimated: number) => estimated - log10Root(estimated);
  if (kind === "multiply") return (estimated: number) => estimated * by;
  throw new Error(`a function of kind ${kind}`);
}

const RENAMED: Readonly<Record<string, string>> = {
  maxConcurrency: "maxLimit",
  timeout: "timeoutMs",
  samplingWindow: "samplingWindowMs",
  maxHealthyRtt: "maxHealthyRttMs",
  minWindowTime: "minWindowMs",
  maxWindowTime: "maxWindowMs",
  minRttThreshold: "minRttMs",
  maxExtend: "maxExtendMs",
};

/** The options of a case under the names of this library. */
export function translate(options: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const translated: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    let here = value;
    if (name === "probeInterval" && value === -1) here = false;
    // The case never comes near it; a learning algorithm of this library must not reach 0.
    if (name === "minLimit" && value === 0) here = 1;
    if (["queueSize", "alpha", "beta", "threshold", "increase", "decrease"].includes(name))
      here = amount(value);
    if (name === "window" && typeof value === "object") {
      const { percentile, capacity } = value as { percentile: number; capacity: number };
      here = { percentile, capacity };
    }
    translated[RENAMED[name] ?? name] = here;
  }
  return translated;
}

export function create(kind: string, options: Readonly<Record<string, unknown>>, rng?: readonly number[]) {
  const given = translate(options);
  const random = rng === undefined ? {} : { random: replay(rng) };
  switch (kind) {
    case "fixed":
      return new FixedLimit(given["limit"] as number);
    case "settable":
      return new SettableLimit(given["limit"] as number);
    case "aimd":
      return new AimdLimit(given);
    case "windowed-aimd":
      return new WindowedAimdLimit(given);
    case "vegas":
      return new VegasLimit({ ...given, ...random });
    case "gradient":
      return new GradientLimit({ ...given, ...random });
    case "gradient2":
      return new Gradient2Limit({ queueSize: 4, ...given });
    case "anchored-gradient":
      return new AnchoredGradientLimit({ ...given, ...random });
    default:
      throw new Error(`an algorithm called ${kind}`);
  }
}

export function feed(limit: Limit, { start, rtt, inflight, didDrop }: Sample): void {
  limit.onSample(start, Number(rtt), inflight, didDrop ? "dropped" : "success");
}

/** The same number, but for the last digits. */
export function expectClose(actual: unknown, expected: number, what: string): void {
  expect(typeof actual, what).toBe("number");
  expect(Math.abs((actual as number) - expected), what).toBeLessThanOrEqual(1e-9 * Math.abs(expected));
}

/** The limits that listeners are told of, from now on; each call must begin where the last one ended. */
export function watchChanges(limit: Limit): number[] {
  const seen: number[] = [];
  let last = limit.limit;
  limit.onChange((now, previous) => {
    expect(previous, "a change begins where the last one ended").toBe(last);
    last = now;
    seen.push(now);
  });
  return seen;
}

/** Hands in the same sample a number of times; time goes on by its duration. */
export function repeat(
  limit: Limit,
  times: number,
  rtt: number,
  inFlight: number,
  outcome: LeaseOutcome = "success",
): number {
  for (let i = 0; i < times; i++) limit.onSample(i * rtt, rtt, inFlight, outcome);
  return limit.limit;
}
