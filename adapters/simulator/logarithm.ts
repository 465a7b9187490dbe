/*
 * Logarithm and exponential that give the same bits everywhere.
 *
 * The question: why not `Math.log`? The language leaves its last bit to the engine, and engines differ. One last bit in one
 * gap between two arrivals swaps an arrival and a completion somewhere in a long run, and from there on two browsers show
 * two different histories for the same seed. What the language does fix to the last bit is + - × ÷ and the square root, and
 * how a number is laid out in 64 bits. So only these are used here.
 *
 * Logarithm: x = 2^k × m, with m between √½ and √2. With f = m - 1 and s = f / (2 + f),
 *
 *     ln m = 2 (s + s³/3 + s⁵/5 + ...)
 *
 * and as |s| is below 0.172, the term in s^23 is the first that does not count. The first one, 2s, has the error of a
 * division, which shows beside 1, where the logarithm is next to nothing. It is the same as f - s × f, with an exact f.
 *
 * Exponential: x = k × ln 2 + r, with |r| below 0.347, so e^x = 2^k × e^r; and in e^r = 1 + r + r²/2! + ... the term in r^14
 * is the first that does not count. To take away k × ln 2 exactly, ln 2 is in two parts, of which the first ends in zeros.
 * Example: e^10 has k = 14 and r = 0.29594; e^r is 1.34438, and 16384 times that is 22026.47.
 *
 * The surprise: nothing is lost. The error stays below one unit in the last place, as with the built-in functions; the
 * exponential is as fast as the built-in one, and the logarithm takes about twice as long.
 */

const LN2_HIGH = 0.6931471805592082;
const LN2_LOW = 7.371002565167799e-13;
const SMALLEST_NORMAL = 2 ** -1022;

/** One number, as a number and as bits. */
const NUMBER = new Float64Array(1);
const WORDS = new Int32Array(NUMBER.buffer);
NUMBER[0] = 1;
/** Where the word with sign and exponent is; hosts differ. */
const HIGH = WORDS[1] === 0 ? 0 : 1;

// Put together from bits, a power of two would take longer than this look-up.
const POWERS_OF_TWO = new Float64Array(2047);
for (let k = 0, power = 2 ** -1023; k < POWERS_OF_TWO.length; k++, power *= 2) POWERS_OF_TWO[k] = power;

/** The natural logarithm. Of 0 it is -Infinity, of less NaN. */
export function log(x: number): number {
  if (!(x > 0)) return x === 0 ? Number.NEGATIVE_INFINITY : Number.NaN;
  if (x === Number.POSITIVE_INFINITY) return x;
  if (x < SMALLEST_NORMAL) return log(x * 2 ** 54) - 54 * Math.LN2;
  NUMBER[0] = x;
  let k = ((WORDS[HIGH] as number) >> 20) - 1023;
  let m = x * powerOfTwo(-k);
  if (m > Math.SQRT2) {
    m *= 0.5;
    k++;
  }
  const f = m - 1;
  const s = f / (2 + f);
  const z = s * s;
  const w = z * z;
  // Every other term apart, so that the two sums are made side by side.
  const odd = 2 / 3 + w * (2 / 7 + w * (2 / 11 + w * (2 / 15 + w * (2 / 19))));
  const even = w * (2 / 5 + w * (2 / 9 + w * (2 / 13 + w * (2 / 17 + w * (2 / 21)))));
  const rest = z * odd + even;
  return k * LN2_HIGH + (f - (s * (f - rest) - k * LN2_LOW));
}

/** e to the power of x. */
export function exp(x: number): number {
  if (x > 709.8) return Number.POSITIVE_INFINITY;
  if (x < -745.2) return 0;
  const k = (x * Math.LOG2E + (x < 0 ? -0.5 : 0.5)) | 0;
  const high = x - k * LN2_HIGH;
  const low = k * LN2_LOW;
  const r = high - low;
  const w = r * r;
  const even =
    w * (1 / 2 + w * (1 / 24 + w * (1 / 720 + w * (1 / 40320 + w * (1 / 3628800 + w / 479001600)))));
  const odd =
    w * (1 / 6 + w * (1 / 120 + w * (1 / 5040 + w * (1 / 362880 + w * (1 / 39916800 + w / 6227020800)))));
  const y = 1 + (high - (low - (even + r * odd)));
  // Where 2^k is no ordinary number, half the way first.
  if (k > 1023) return y * powerOfTwo(1023) * 2;
  if (k < -1022) return y * powerOfTwo(k + 100) * 2 ** -100;
  return y * powerOfTwo(k);
}

/** 2^k, for k from -1023 to 1023. */
function powerOfTwo(k: number): number {
  return POWERS_OF_TWO[k + 1023] as number;
}
