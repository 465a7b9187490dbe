import { log } from "./logarithm.js";

/*
 * Normal numbers, one for each uniform number.
 *
 * The question: how does a uniform number become a normal one? The usual trick (Box-Muller) makes two at a time and needs a
 * sine; another (polar) throws some away. Then the n-th customer no longer uses the n-th number, and a change in one place
 * moves all that follows. So the uniform number is taken as a probability p, and the answer is the value that a normal number
 * stays below with that probability: p = 0.5 is 0, p = 0.975 is 1.95996.
 *
 * There is no closed form. This is algorithm AS 241 (Wichura, Applied Statistics 37, 1988): a quotient of two polynomials
 * in the middle, two others for the tails, right to about 16 digits.
 */

// From the highest power of r to the lowest.
const CENTER_ABOVE = [
  2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987, 13731.69376550946,
  1971.5909503065513, 133.14166789178438, 3.3871328727963665,
];
const CENTER_BELOW = [
  5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597, 5394.196021424751,
  687.1870074920579, 42.31333070160091, 1,
];
const SHOULDER_ABOVE = [
  0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684, 3.6478483247632045,
  5.769497221460691, 4.630337846156546, 1.4234371107496835,
];
const SHOULDER_BELOW = [
  1.0507500716444169e-9, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008, 0.6897673349851,
  1.6763848301838038, 2.053191626637759, 1,
];
const TAIL_ABOVE = [
  2.0103343992922881e-7, 2.7115555687434876e-5, 0.0012426609473880784, 0.026532189526576124,
  0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103,
];
const TAIL_BELOW = [
  2.0442631033899397e-15, 1.421511758316446e-7, 1.8463183175100548e-5, 0.0007868691311456133,
  0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1,
];

/**
 * The value that a normal number (mean 0, standard deviation 1) stays below with a probability.
 *
 * @param p - The probability, above 0 and below 1.
 */
export function normalQuantile(p: number): number {
  const q = p - 0.5;
  if (q >= -0.425 && q <= 0.425) return q * quotient(CENTER_ABOVE, CENTER_BELOW, 0.180625 - q * q);
  const r = Math.sqrt(-log(q < 0 ? p : 1 - p));
  const distance =
    r <= 5 ? quotient(SHOULDER_ABOVE, SHOULDER_BELOW, r - 1.6) : quotient(TAIL_ABOVE, TAIL_BELOW, r - 5);
  return q < 0 ? -distance : distance;
}

/** One polynomial of r divided by another of the same length. */
function quotient(above: readonly number[], below: readonly number[], r: number): number {
  let dividend = 0;
  let divisor = 0;
  for (let i = 0; i < above.length; i++) {
    dividend = dividend * r + (above[i] as number);
    divisor = divisor * r + (below[i] as number);
  }
  return dividend / divisor;
}
