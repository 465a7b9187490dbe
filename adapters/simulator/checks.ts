import { checkNumber, wrongType } from "../../src/internal.js";

/** More arrivals per second than this stand closer together than a long run can tell apart. */
const HIGHEST_RATE = 1e9;

/** Checks a span of time: above 0, and small enough that a few thousand of them are still a number. */
export function checkSpan(name: string, value: unknown): asserts value is number {
  const allowed = `a number of milliseconds above 0, at most ${Number.MAX_SAFE_INTEGER}`;
  checkNumber(name, value, allowed, (n) => n > 0 && n <= Number.MAX_SAFE_INTEGER);
}

/** Checks a moment since the start of a run, or a span of time that may be 0. */
export function checkMoment(name: string, value: unknown): asserts value is number {
  const allowed = `a number of milliseconds from 0 to ${Number.MAX_SAFE_INTEGER}`;
  checkNumber(name, value, allowed, (n) => n >= 0 && n <= Number.MAX_SAFE_INTEGER);
}

/** Checks a number of arrivals per second; 0 is allowed and means none. */
export function checkRate(name: string, value: unknown): asserts value is number {
  checkNumber(
    name,
    value,
    `a number per second from 0 to ${HIGHEST_RATE}`,
    (n) => n >= 0 && n <= HIGHEST_RATE,
  );
}

/** Checks a share of a whole. */
export function checkShare(name: string, value: unknown): asserts value is number {
  checkNumber(name, value, "a number from 0 to 1", (n) => n >= 0 && n <= 1);
}

/** Checks a whole number. */
export function checkWhole(
  name: string,
  value: unknown,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
): asserts value is number {
  const allowed = `an integer from ${min} to ${max}`;
  checkNumber(name, value, allowed, (n) => Number.isSafeInteger(n) && n >= min && n <= max);
}

/** Checks one of a few words. */
export function checkWord(name: string, value: unknown, words: readonly string[]): void {
  if (words.includes(value as string)) return;
  throw wrongType(name, words.map((word) => `"${word}"`).join(" or "), value);
}

/** Checks a string. */
export function checkString(name: string, value: unknown): asserts value is string {
  if (typeof value !== "string") throw wrongType(name, "a string", value);
}

/** Checks a yes or no. */
export function checkBoolean(name: string, value: unknown): void {
  if (typeof value !== "boolean") throw wrongType(name, "true or false", value);
}
