import { describe, expect, it } from "vitest";
import { exp, log } from "../../../adapters/simulator/logarithm.js";
import { normalQuantile } from "../../../adapters/simulator/normal-quantile.js";
import { createRandom } from "../../../adapters/simulator/random.js";

const NUMBER = new Float64Array(1);
const WORDS = new Uint32Array(NUMBER.buffer);

/** How far apart two numbers are, in units of the last place of the second. */
function unitsApart(actual: number, expected: number): number {
  if (actual === expected) return 0;
  const unit = 2 ** Math.max(-1074, Math.floor(Math.log2(Math.abs(expected))) - 52);
  return Math.abs(actual - expected) / unit;
}

/** Positive numbers of all sizes, each exponent as likely. */
function* anyNumbers(count: number, seed: string): Generator<number> {
  const random = createRandom(seed);
  for (let i = 0; i < count; i++) {
    WORDS[0] = random.uint32();
    WORDS[1] = random.uint32() >>> 1;
    const x = NUMBER[0] as number;
    if (x > 0 && x < Number.POSITIVE_INFINITY) yield x;
  }
}

describe("the logarithm", () => {
  it("agrees with the built-in one over all numbers there are", () => {
    let worst = 0;
    for (const x of anyNumbers(200_000, "log")) worst = Math.max(worst, unitsApart(log(x), Math.log(x)));
    // Each may be one unit off.
    expect(worst).toBeLessThanOrEqual(2);
  });

  it("agrees close to 1, where it is next to nothing", () => {
    const random = createRandom("near one");
    let worst = 0;
    for (let i = 0; i < 200_000; i++) {
      const x = 1 + (random.uniform() - 0.5) * 2 ** -(i % 52);
      worst = Math.max(worst, unitsApart(log(x), Math.log(x)));
    }
    expect(worst).toBeLessThanOrEqual(2);
  });

  it.each([
    [1, 0],
    [2, Math.LN2],
    [Math.E, 1],
    [0.5, -Math.LN2],
    [1e300, 690.7755278982137],
    [Number.MAX_VALUE, 709.782712893384],
    [2 ** -1022, -708.3964185322641],
    [2 ** -1023, -709.0895657128241],
    [Number.MIN_VALUE, -744.4400719213812],
    [1 - 2 ** -53, -1.1102230246251565e-16],
    [1 + 2 ** -52, 2.2204460492503128e-16],
    [0, Number.NEGATIVE_INFINITY],
    [-0, Number.NEGATIVE_INFINITY],
    [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
    [-1, Number.NaN],
    [-Number.MIN_VALUE, Number.NaN],
    [Number.NEGATIVE_INFINITY, Number.NaN],
    [Number.NaN, Number.NaN],
  ])("of %d is %d", (x, expected) => {
    expect(log(x)).toBe(expected);
  });
});

describe("the exponential", () => {
  it("agrees with the built-in one from where it is 0 to where it is infinite", () => {
    const random = createRandom("exp");
    let worst = 0;
    for (let i = 0; i < 200_000; i++) {
      const x = i % 2 === 0 ? -746 + random.uniform() * 1456 : (random.uniform() - 0.5) * 2 ** -(i % 60);
      worst = Math.max(worst, unitsApart(exp(x), Math.exp(x)));
    }
    expect(worst).toBeLessThanOrEqual(2);
  });

  it.each([
    [0, 1],
    [-0, 1],
    [1, Math.E],
    [10, 22026.465794806718],
    [709, 8.218407461554972e307],
    [709.782712893384, 1.797693134862273e308],
    [709.782712893385, Number.POSITIVE_INFINITY],
    [710, Number.POSITIVE_INFINITY],
    [1e308, Number.POSITIVE_INFINITY],
    [-708.3964185322641, 2.2250738585072626e-308],
    [-709, 1.216780750623423e-308],
    [-745.1, Number.MIN_VALUE],
    [-745.14, 0],
    [-746, 0],
    [-1e308, 0],
    [Number.MIN_VALUE, 1],
    [Number.NEGATIVE_INFINITY, 0],
    [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
  ])("of %d is %d", (x, expected) => {
    expect(unitsApart(exp(x), expected)).toBeLessThanOrEqual(1);
  });

  it("of what is no number is none", () => {
    expect(exp(Number.NaN)).toBeNaN();
  });

  it("undoes the logarithm", () => {
    let worst = 0;
    for (const x of anyNumbers(20_000, "both")) worst = Math.max(worst, Math.abs(exp(log(x)) / x - 1));
    // The logarithm of a large number has no room for its last digits.
    expect(worst).toBeLessThan(2e-13);
  });
});

describe("the normal quantile", () => {
  it.each([
    [0.5, 0],
    [0.975, 1.959963984540054],
    [0.025, -1.959963984540054],
    [0.84134474606854293, 1],
    [0.075, -1.4395314709384563],
    [0.925, 1.4395314709384563],
    [1e-10, -6.361340902404056],
    [1e-12, -7.034483825301132],
    [1e-300, -37.0470962993612],
    [2 ** -53, -8.209536151601387],
    [1 - 2 ** -53, 8.209536151601387],
  ])("of %d is %d", (p, expected) => {
    expect(Math.abs(normalQuantile(p) - expected)).toBeLessThanOrEqual(2e-15 * Math.abs(expected));
  });

  it("rises without a jump where one formula hands over to the next", () => {
    // From the middle to the shoulder, and from the shoulder to the tail (e to the power of -25).
    for (const p of [0.075, 0.925, 1.3887943864964021e-11]) {
      const step = p * 1e-9;
      const before = normalQuantile(p - step);
      const after = normalQuantile(p + step);
      const density = Math.exp((-before * before) / 2) / Math.sqrt(2 * Math.PI);
      expect((after - before) / ((2 * step) / density)).toBeCloseTo(1, 5);
    }
  });
});

/** Folds the bits of many numbers into one integer. */
function fold(hash: number, x: number): number {
  NUMBER[0] = x;
  return Math.imul(Math.imul(hash ^ (WORDS[0] as number), 0x01000193) ^ (WORDS[1] as number), 0x01000193);
}

it("gives the very same bits on every engine", () => {
  let hash = 0;
  for (const x of anyNumbers(50_000, "bits")) hash = fold(hash, log(x));
  const random = createRandom("bits");
  for (let i = 0; i < 50_000; i++) {
    hash = fold(hash, exp((random.uniform() - 0.5) * 1400));
    hash = fold(hash, random.normal());
    hash = fold(hash, random.exponential(10));
  }
  expect(hash >>> 0).toBe(2951593387);
});
