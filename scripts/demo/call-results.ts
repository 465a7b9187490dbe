import type { CallResult } from "./call.js";

export function failuresOf(results: readonly CallResult[]): string[] {
  return results.flatMap(({ failure }) => failure ?? []);
}

/** The latency that this share of the answered requests stayed within; undefined when none was answered. */
export function quantile(results: readonly CallResult[], share: number): number | undefined {
  const answered = results.filter(({ failure }) => failure === undefined).map(({ ms }) => ms);
  answered.sort((a, b) => a - b);
  return answered[Math.max(0, Math.ceil(share * answered.length) - 1)];
}
