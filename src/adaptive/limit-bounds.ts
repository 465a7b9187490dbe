import { checkInteger, checkNumber } from "../contract/validation.js";

/** The highest limit that can be asked for: what a 32-bit integer holds. */
export const HIGHEST_LIMIT: number = 2 ** 31 - 1;

interface Bounds {
  readonly initialLimit: number;
  readonly minLimit: number;
  readonly maxLimit: number;
}

interface GivenBounds {
  readonly initialLimit?: number | undefined;
  readonly minLimit?: number | undefined;
  readonly maxLimit?: number | undefined;
}

/**
 * Reads the three options that all learning algorithms have. Defaults yield to what is given, so that `maxLimit: 10` alone is
 * no mistake.
 *
 * @param initialMayBeOutside - For algorithms that bring an initial limit outside of their default bounds within them by
 * the first sample; bounds that are given hold for it all the same.
 */
export function readBounds(given: GivenBounds, defaults: Bounds, initialMayBeOutside: boolean): Bounds {
  const { maxLimit = defaults.maxLimit } = given;
  checkInteger("options.maxLimit", maxLimit, 1, HIGHEST_LIMIT);
  const { minLimit = Math.min(defaults.minLimit, maxLimit) } = given;
  checkInteger("options.minLimit", minLimit, 1, maxLimit, " (maxLimit)");
  const { initialLimit = clamp(defaults.initialLimit, minLimit, maxLimit) } = given;
  const lowest = initialMayBeOutside ? (given.minLimit ?? 1) : minLimit;
  const highest = initialMayBeOutside ? (given.maxLimit ?? HIGHEST_LIMIT) : maxLimit;
  checkInteger("options.initialLimit", initialLimit, lowest, highest, " (minLimit to maxLimit)");
  return { initialLimit, minLimit, maxLimit };
}

/** The value, or the bound that it is beyond. */
export function clamp(value: number, min: number, max: number): number {
  return Math.max(min, Math.min(max, value));
}

/** Checks how many times something may be exceeded, or multiplied. */
export function checkTolerance(name: string, value: unknown): asserts value is number {
  const allowed = "a finite number of at least 1";
  checkNumber(name, value, allowed, (n) => n >= 1 && n < Number.POSITIVE_INFINITY);
}

/** Checks which part of the way to its target a limit goes at each step. */
export function checkSmoothing(name: string, value: unknown): asserts value is number {
  checkNumber(name, value, "above 0 and at most 1", (n) => n > 0 && n <= 1);
}

/** The option `probeInterval`: how many samples there are between two probes, or 0 for never. */
export function readProbeInterval(given: unknown): number {
  if (given === false) return 0;
  checkInteger("options.probeInterval", given, 1, HIGHEST_LIMIT, ", or false");
  return given;
}
