import { answerOf } from "./promises.js";
import { show } from "./show.js";

/** Fails unless the two are the same; arrays are compared item by item. */
export function equal(what: string, actual: unknown, expected: unknown): void {
  const isSame =
    Array.isArray(actual) && Array.isArray(expected)
      ? actual.length === expected.length && actual.every((item, i) => Object.is(item, expected[i]))
      : Object.is(actual, expected);
  if (!isSame) throw new Error(`${what}: expected ${show(expected)}, got ${show(actual)}.`);
}

/** An error that is expected. */
export interface ExpectedError {
  readonly shown: string;
  fits(error: unknown): boolean;
}

/** An error of a class, whose message fits. */
export function errorOf(
  type: typeof TypeError | typeof RangeError,
  message: RegExp = /(?:)/,
  shown = "",
): ExpectedError {
  return {
    shown: `a ${type.name}${shown}`,
    fits: (error) => error instanceof type && message.test(error.message),
  };
}

/** An error with a code. */
export function errorWithCode(code: string): ExpectedError {
  return {
    shown: `an error with the code ${code}`,
    fits: (error) => error instanceof Error && "code" in error && error.code === code,
  };
}

/** This very value. */
export function theReason(reason: unknown): ExpectedError {
  return { shown: "the reason of the signal", fits: (error) => error === reason };
}

function checkError(what: string, how: string, error: unknown, expected: ExpectedError): void {
  if (!expected.fits(error)) throw new Error(`${what}: expected ${expected.shown}, ${how} ${show(error)}.`);
}

/** Fails unless the call throws what is expected. */
export function throws(what: string, call: () => unknown, expected: ExpectedError): void {
  let answer: unknown;
  try {
    answer = call();
  } catch (error) {
    checkError(what, "but it threw", error, expected);
    return;
  }
  throw new Error(`${what}: expected ${expected.shown}, but it returned ${show(answer)}.`);
}

/** Fails unless the call returns a promise that rejects with what is expected. */
export async function rejects(
  what: string,
  call: () => Promise<unknown>,
  expected: ExpectedError,
): Promise<void> {
  let promise: Promise<unknown>;
  try {
    promise = call();
  } catch (error) {
    throw new Error(`${what}: expected a promise that rejects, but it threw ${show(error)}.`);
  }
  const verdict = promise.then(
    (answer) => {
      throw new Error(`${what}: expected ${expected.shown}, but it fulfilled with ${show(answer)}.`);
    },
    (error: unknown) => checkError(what, "but it rejected with", error, expected),
  );
  await answerOf(what, verdict);
}
