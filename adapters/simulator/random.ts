import { checkNumber } from "../../src/internal.js";
import { checkString } from "./checks.js";
import { log } from "./logarithm.js";
import { normalQuantile } from "./normal-quantile.js";

/*
 * Random numbers that are the same for everybody.
 *
 * The question: how do two limiters get compared fairly? Both must meet the very same customers, so the numbers must come
 * from a seed. And a limiter that causes one retry more must not move the arrivals, so each purpose draws from a stream of
 * its own: arrivals, service times, retries. A stream is named, not numbered, so that a new one moves no other.
 *
 * The seed and the name of the stream are one string, "1/arrivals". Its hash (FNV-1a, 32 bits, over UTF-8) is stretched
 * (splitmix32) into the three words that sfc32 starts from, a small generator with a period of about 2^127 on average
 * and at least 2^32. Its first twelve numbers are thrown away, as they still look like the seed.
 * Example: seed 1, stream "arrivals": hash 2740627175, first numbers 1980104246, 1501367020, 3009633066.
 *
 * The surprise: for all its 128 bits of state, 32 bits of hash are all that tells two streams apart, so that in a thousand
 * streams two are the same one time in 8600. Enough for a model of queues; nothing here is for secrets.
 */

/**
 * A stream of random numbers; the same seed and name give the same stream, on every host. Made by {@link createRandom}.
 *
 * Not for secrets: whoever sees a few numbers can tell the rest.
 *
 * @public
 */
export interface RandomSource {
  /** The next integer from 0 to 4 294 967 295, each as likely. Uses one number of the stream. */
  uint32(): number;
  /** The next number from 0 to just below 1, in steps of 2^-53. Uses two numbers of the stream, as those below do. */
  uniform(): number;
  /** The next exponentially distributed number, such as the gap between two independent arrivals. At least 0. */
  exponential(mean: number): number;
  /** The next normally distributed number with mean 0 and standard deviation 1. */
  normal(): number;
  /**
   * Another stream of the same seed, which starts afresh whatever this one has given: `stream` appended to the name
   * of this one, after a colon if this one has a name.
   */
  fork(stream: string): RandomSource;
}

/**
 * Makes a stream of random numbers.
 *
 * @param seed - A finite number or any string; 1 and "1" are the same seed.
 * @param stream - The name of the stream; none by default. Streams of one seed do not depend on each other.
 * @throws TypeError when the seed is neither number nor string, or the stream no string; RangeError when the seed is not
 * finite.
 *
 * @example
 * ```ts
 * import { createRandom } from "headgate/simulator";
 *
 * const random = createRandom(1, "arrivals");
 * const gapMs = random.exponential(10);
 * ```
 *
 * @public
 */
export function createRandom(seed: number | string, stream = ""): RandomSource {
  if (typeof seed !== "string") checkNumber("seed", seed, "a finite number or a string", Number.isFinite);
  checkString("stream", stream);
  return new SmallFastCounter(String(seed), stream);
}

/** The generator sfc32. */
class SmallFastCounter implements RandomSource {
  readonly #seed: string;
  readonly #stream: string;
  /** Its three words and its counter. In an array of their own none is ever boxed. */
  readonly #words: Int32Array;

  constructor(seed: string, stream: string) {
    this.#seed = seed;
    this.#stream = stream;
    const hash = hashOf(`${seed}/${stream}`);
    this.#words = Int32Array.of(
      stretch(hash + GOLDEN),
      stretch(hash + 2 * GOLDEN),
      stretch(hash + 3 * GOLDEN),
      1,
    );
    for (let i = 0; i < 12; i++) this.#next();
  }

  uint32(): number {
    return this.#next() >>> 0;
  }

  uniform(): number {
    const high = this.#next() >>> 5;
    return (high * 2 ** 26 + (this.#next() >>> 6)) / 2 ** 53;
  }

  exponential(mean: number): number {
    return -log(1 - this.uniform()) * mean;
  }

  normal(): number {
    let p = this.uniform();
    while (p === 0) p = this.uniform();
    return normalQuantile(p);
  }

  fork(stream: string): RandomSource {
    checkString("stream", stream);
    return new SmallFastCounter(this.#seed, this.#stream === "" ? stream : `${this.#stream}:${stream}`);
  }

  /** The next 32 bits, as an integer with a sign. */
  #next(): number {
    const words = this.#words;
    const b = words[1] as number;
    const c = words[2] as number;
    const counter = words[3] as number;
    const result = ((words[0] as number) + b + counter) | 0;
    words[0] = b ^ (b >>> 9);
    words[1] = c + (c << 3);
    words[2] = ((c << 21) | (c >>> 11)) + result;
    words[3] = counter + 1;
    return result;
  }
}

/** 2^32 by the golden ratio, as a step that visits all 32-bit numbers evenly. */
const GOLDEN = 0x9e3779b9;

/** One step of splitmix32: every bit of the input has a say in every bit of the result. */
function stretch(input: number): number {
  let z = input | 0;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return z ^ (z >>> 15);
}

/** FNV-1a over UTF-8. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return hash >>> 0;
}
