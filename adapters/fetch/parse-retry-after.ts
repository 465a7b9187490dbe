import { checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";
import { parseHttpDate } from "./http-date.js";

/**
 * Options of {@link parseRetryAfter}.
 *
 * @public
 */
export interface ParseRetryAfterOptions {
  /** The present, in milliseconds since 1970; `Date.now()` by default. Only dates are measured against it. */
  readonly now?: number | undefined;
  /**
   * The `Date` header of the same response. When it is a proper date, a `Retry-After` date is measured against it instead of
   * `now`: both are then readings of the same clock.
   */
  readonly date?: string | null | undefined;
  /** The longest answer, in milliseconds; `Number.MAX_SAFE_INTEGER` by default. What is longer is cut down to it. */
  readonly maxMs?: number | undefined;
}

function isBlank(character: string | undefined): boolean {
  return character === " " || character === "\t";
}

/** Spaces and tabs around a header's value do not belong to it. No pattern: those take the square of the length. */
export function trim(value: string): string {
  let start = 0;
  let end = value.length;
  while (isBlank(value[start])) start += 1;
  while (end > start && isBlank(value[end - 1])) end -= 1;
  return value.slice(start, end);
}

/** When the response was made, by its own clock; the present where it does not say. */
export function dateOf(date: string | null | undefined, now: number): number {
  return (typeof date === "string" ? parseHttpDate(trim(date), now) : undefined) ?? now;
}

/**
 * Reads a `Retry-After` header: digits, which are seconds, or one of the three forms of an HTTP date.
 *
 * Anything else is no answer, and never 0: signs, fractions, exponents, hexadecimal, two values with a comma between them,
 * dates that do not exist or have the wrong weekday. Vendors do send these, and `Date.parse` and `parseFloat` take most of
 * them for something.
 *
 * @example
 * ```ts
 * import { parseRetryAfter } from "headgate/fetch";
 *
 * function waitMs(response: Response): number {
 *   const { headers } = response;
 *   return parseRetryAfter(headers.get("retry-after"), { date: headers.get("date"), maxMs: 60_000 }) ?? 1000;
 * }
 * ```
 *
 * @param value - The header's value; `null` when there is none, as `headers.get` says it.
 * @param options - What a date is measured against, and the longest answer.
 * @returns Milliseconds to wait, 0 for a date that is over; undefined when the value is not a proper one.
 * @throws TypeError or RangeError when an argument is not what it should be.
 *
 * @public
 */
export function parseRetryAfter(
  value: string | null | undefined,
  options: ParseRetryAfterOptions = {},
): number | undefined {
  checkOptionNames(options, ["now", "date", "maxMs"]);
  const { now = Date.now(), date, maxMs = Number.MAX_SAFE_INTEGER } = options;
  checkNumber("options.now", now, "a finite number of milliseconds", Number.isFinite);
  checkNumber(
    "options.maxMs",
    maxMs,
    "a finite number of milliseconds of at least 0",
    (n) => n >= 0 && Number.isFinite(n),
  );
  if (value === null || value === undefined) return undefined;
  if (typeof value !== "string") throw wrongType("value", "a string, or null", value);
  const text = trim(value);
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, maxMs);
  const moment = parseHttpDate(text, dateOf(date, now));
  return moment === undefined ? undefined : Math.min(Math.max(moment - dateOf(date, now), 0), maxMs);
}
