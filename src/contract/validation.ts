/**
 * Every check of an argument or an option in this library, so that all complaints read alike: they name the
 * argument, say what is allowed, and show what was given. A wrong type is a `TypeError`, a number out of range a
 * `RangeError`. They run before any state changes.
 */

/** Shows a bad value in an error message: short, on one line, whatever it is. */
function show(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "function") return "a function";
  if (typeof value === "object" && value !== null) return Array.isArray(value) ? "an array" : "an object";
  return String(value);
}

/** A complaint about a value of the wrong type. */
export function wrongType(name: string, allowed: string, value: unknown): TypeError {
  return new TypeError(`${name} must be ${allowed}; got ${show(value)}.`);
}

/** Checks a number; `fits` is not asked about anything else. */
export function checkNumber(
  name: string,
  value: unknown,
  allowed: string,
  fits: (value: number) => boolean,
): asserts value is number {
  if (typeof value !== "number") throw wrongType(name, allowed, value);
  if (!fits(value)) throw new RangeError(`${name} must be ${allowed}; got ${show(value)}.`);
}

/** Checks a whole number from `min` to `max`. The hint is added to what is allowed. */
export function checkInteger(
  name: string,
  value: unknown,
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
  hint = "",
): asserts value is number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return;
  checkNumber(name, value, `an integer from ${min} to ${max}${hint}`, () => false);
}

/** Checks a count of permits: an integer, 0 allowed. */
export function checkPermitCount(value: unknown, name = "permitCount"): asserts value is number {
  const mayBeOptions = typeof value === "object" && name === "permitCount";
  const hint = mayBeOptions ? " (attemptAcquire takes no options, it never waits)" : "";
  checkInteger(name, value, 0, Number.MAX_SAFE_INTEGER, hint);
}

/** The complaint about a request that could never be granted. It is the caller's mistake, not a refusal. */
export function countAboveLimit(permitCount: number, limit: number, unit = "permit"): RangeError {
  return new RangeError(
    `permitCount ${permitCount} is more ${unit}s than the limit of ${limit} ${unit}${limit === 1 ? "" : "s"}.`,
  );
}

/** Edits needed to turn one word into another (Levenshtein), for "did you mean". */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const substituted = (row[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next[j] = Math.min(substituted, (row[j] as number) + 1, (next[j - 1] as number) + 1);
    }
    row = next;
  }
  return row[b.length] as number;
}

/**
 * Refuses what is not an options object, and names in it that are not known: a misspelled option would otherwise
 * be a limit that silently is not there.
 */
export function checkOptionNames(options: unknown, known: readonly string[], name = "options"): void {
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw wrongType(name, "an object", options);
  }
  for (const key in options) {
    if (known.includes(key) || !Object.hasOwn(options, key)) continue;
    const nearest = known.reduce((a, b) => (editDistance(key, b) < editDistance(key, a) ? b : a));
    const isNear = editDistance(key, nearest) * 3 <= Math.max(key.length, nearest.length);
    const hint = isNear ? `did you mean ${name}.${nearest}?` : `the options are ${known.join(", ")}.`;
    throw new TypeError(`${name}.${key.slice(0, 40)} is not an option; ${hint}`);
  }
}

/** Checks a number of milliseconds: finite and above 0, fractions allowed. */
export function checkDuration(name: string, value: unknown): asserts value is number {
  const allowed = "a finite number of milliseconds above 0";
  checkNumber(name, value, allowed, (n) => n > 0 && n < Number.POSITIVE_INFINITY);
}

/** Checks one of a few words. */
export function checkChoice(name: string, value: unknown, choices: readonly string[]): void {
  if (choices.includes(value as string)) return;
  throw wrongType(name, choices.map((choice) => `"${choice}"`).join(" or "), value);
}

/** Checks an object that has certain methods, such as a clock. */
export function checkMethods(name: string, value: unknown, methods: readonly string[]): void {
  const candidate = value as Record<string, unknown> | null | undefined;
  if (
    typeof candidate !== "object" ||
    candidate === null ||
    !methods.every((m) => typeof candidate[m] === "function")
  ) {
    throw wrongType(name, `an object with ${methods.map((m) => `${m}()`).join(" and ")}`, value);
  }
}

/** Checks a yes or no. */
export function checkBoolean(name: string, value: unknown): void {
  if (typeof value !== "boolean") throw wrongType(name, "true or false", value);
}

/** Checks a function. */
export function checkFunction(name: string, value: unknown): void {
  if (typeof value !== "function") throw wrongType(name, "a function", value);
}
