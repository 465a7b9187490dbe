import { readFileSync } from "node:fs";

/** Reads a file of expected numbers; they were computed by an independent program. */
export function vectors<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`vectors/${name}.json`, import.meta.url), "utf8")) as T;
}

/** By which part of what was expected a number is wrong. */
export function relativeError(actual: number, expected: number): number {
  return expected === actual ? 0 : Math.abs(actual - expected) / Math.abs(expected);
}
