import { checkFunction, checkNumber } from "../contract/validation.js";

/** The number of decimal digits less one, and at least 1: 1 up to 99, 2 up to 999. Counted by division, so that it is exact. */
export function log10Root(limit: number): number {
  let root = 0;
  for (let rest = Math.trunc(limit); rest >= 10; rest = Math.trunc(rest / 10)) root++;
  return Math.max(1, root);
}

/** The square root, rounded down, and at least 4. */
export function sqrt4(limit: number): number {
  return Math.max(4, Math.trunc(Math.sqrt(limit)));
}

/** The square root, rounded up, and at least 1. */
export function ceilSqrt(limit: number): number {
  return Math.max(1, Math.ceil(Math.sqrt(Math.max(0, limit))));
}

/** Calls a user's function and checks what it returns: a number that is not one would stay in the estimate for ever. */
function checked(name: string, given: (value: number) => number, least: number): (value: number) => number {
  const result = `the result of ${name}`;
  const allowed = least === 0 ? "a finite number of at least 0" : "a finite number";
  const fits = (value: number): boolean => value >= least && value < Number.POSITIVE_INFINITY;
  return (value) => {
    const answer: unknown = given(value);
    checkNumber(result, answer, allowed, fits);
    return answer;
  };
}

/** An option that is a function from the limit or the estimate; `least` is 0, or minus the largest number for any. */
export function readFunction(
  name: string,
  given: unknown,
  least: number = -Number.MAX_VALUE,
): (value: number) => number {
  checkFunction(name, given);
  return checked(name, given as (value: number) => number, least);
}

/** An option that is a number of at least 0, or a function from the limit to one. */
export function readAmount(name: string, given: unknown): (limit: number) => number {
  if (typeof given === "function") return readFunction(name, given, 0);
  checkNumber(
    name,
    given,
    "a finite number of at least 0, or a function",
    (n) => n >= 0 && n < Number.POSITIVE_INFINITY,
  );
  return () => given;
}

/**
 * An option that says by how much the limit grows: a number above 0, the square root in the way of the algorithm, or a
 * function from the limit.
 */
export function readQueueSize(
  given: unknown,
  squareRoot: (limit: number) => number,
  maxLimit: number,
): (limit: number) => number {
  const name = "options.queueSize";
  if (given === "squareRoot") return squareRoot;
  if (typeof given === "function") return readFunction(name, given, 0);
  const allowed = `a number above 0 and at most options.maxLimit (${maxLimit}), "squareRoot", or a function`;
  checkNumber(name, given, allowed, (n) => n > 0 && n <= maxLimit);
  return () => given;
}

/** The option `random`, its results checked: a countdown that started from a wrong one would never end. */
export function readRandom(given: unknown = Math.random): () => number {
  checkFunction("options.random", given);
  const random = given as () => unknown;
  return () => {
    const drawn = random();
    checkNumber("the result of options.random", drawn, "from 0 to below 1", (n) => n >= 0 && n < 1);
    return drawn;
  };
}
