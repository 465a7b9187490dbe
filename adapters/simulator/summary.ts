/*
 * Percentiles of as many values as a run makes.
 *
 * The question: the 99th percentile of ten million times, without keeping ten million times? Up to 65 536 values are
 * kept and sorted, and the answer is exact: the smallest value that at least 99 % of all values do not exceed. From then on
 * values are only counted, in buckets that grow with the value: each span from a power of two to the next has 64 of the same
 * width. A bucket answers with its middle, which is off by half a width at most, 1/128 of the smallest value in it.
 * Example: from 8 to 16 ms buckets are 0.125 ms wide, so 10.01 ms is counted in 10 to 10.125 and answers 10.0625, 0.5 % off.
 *
 * The exponent of a number and the first six bits after it say which bucket it is in, so nothing is computed. A span has
 * its counts only once a value was in it, 512 bytes, and 2046 spans hold every number there is.
 *
 * The surprise: the smallest, the largest, the mean and the count stay exact all the same, and no percentile leaves the
 * range between the two.
 */

/**
 * What a set of values looks like. Percentiles are the smallest value that at least so many values do not exceed, so each
 * is a value that occurred. Null where there was no value.
 *
 * @public
 */
export interface Summary {
  /** How many values. */
  readonly count: number;
  /** Their mean. */
  readonly mean: number | null;
  /** The smallest. */
  readonly min: number | null;
  /** The largest. */
  readonly max: number | null;
  /** The median. */
  readonly p50: number | null;
  /** The 90th percentile. */
  readonly p90: number | null;
  /** The 95th percentile. */
  readonly p95: number | null;
  /** The 99th percentile. */
  readonly p99: number | null;
  /** The 99.9th percentile. */
  readonly p999: number | null;
  /** Whether the percentiles are exact, which they are for up to 65 536 values; else they are off by 1/128 at most. */
  readonly exact: boolean;
}

/** How many values are kept before they are only counted. */
const MOST_KEPT = 65_536;
const BUCKETS_PER_SPAN = 64;
const SMALLEST_NORMAL = 2 ** -1022;

/** One number, as a number and as bits. */
const NUMBER = new Float64Array(1);
const WORDS = new Int32Array(NUMBER.buffer);
NUMBER[0] = 1;
/** Where the word with the exponent is; hosts differ. */
const HIGH = WORDS[1] === 0 ? 0 : 1;

/** Collects values and sums them up. Its memory does not grow with their number. */
export class SummaryRecorder {
  #kept: Float64Array = new Float64Array(64);
  /** By exponent, how many values were in each bucket; undefined while values are kept. */
  #spans: (Float64Array | undefined)[] | undefined;
  /** How many values were 0, or so small that they may count as 0. */
  #zeros = 0;
  #count = 0;
  #sum = 0;
  #min: number = Number.POSITIVE_INFINITY;
  #max = 0;

  /** How many values there were. */
  get count(): number {
    return this.#count;
  }

  /** @throws RangeError when the value is not a finite number of at least 0. */
  record(measured: number): void {
    if (!(measured >= 0 && measured < Number.POSITIVE_INFINITY)) {
      throw new RangeError(`value must be a finite number of at least 0; got ${measured}.`);
    }
    // A negative zero becomes an ordinary one.
    const value = measured + 0;
    if (this.#spans !== undefined) this.#countIn(this.#spans, value);
    else if (this.#count < MOST_KEPT) this.#keep(value);
    else this.#countIn(this.#startCounting(), value);
    this.#count++;
    this.#sum += value;
    if (value < this.#min) this.#min = value;
    if (value > this.#max) this.#max = value;
  }

  /** Forgets all values. */
  clear(): void {
    this.#spans = undefined;
    this.#zeros = 0;
    this.#count = 0;
    this.#sum = 0;
    this.#min = Number.POSITIVE_INFINITY;
    this.#max = 0;
  }

  /** What the values look like so far. */
  summarize(): Summary {
    this.#sort();
    const isEmpty = this.#count === 0;
    return {
      count: this.#count,
      mean: isEmpty ? null : this.#sum / this.#count,
      min: isEmpty ? null : this.#min,
      max: isEmpty ? null : this.#max,
      p50: this.#percentile(500),
      p90: this.#percentile(900),
      p95: this.#percentile(950),
      p99: this.#percentile(990),
      p999: this.#percentile(999),
      exact: this.#spans === undefined,
    };
  }

  /** One percentile, given in thousandths: 990 is the 99th. Null when there was no value. */
  percentile(thousandths: number): number | null {
    this.#sort();
    return this.#percentile(thousandths);
  }

  #sort(): void {
    if (this.#spans === undefined) this.#kept.subarray(0, this.#count).sort();
  }

  #percentile(thousandths: number): number | null {
    if (this.#count === 0) return null;
    // Whole thousandths, since 0.07 × 100 is above 7.
    const rank = Math.max(1, Math.ceil((thousandths * this.#count) / 1000));
    return this.#spans === undefined ? (this.#kept[rank - 1] as number) : this.#ranked(rank, this.#spans);
  }

  #keep(value: number): void {
    if (this.#count === this.#kept.length) {
      const larger = new Float64Array(this.#kept.length * 4);
      larger.set(this.#kept);
      this.#kept = larger;
    }
    this.#kept[this.#count] = value;
  }

  #startCounting(): (Float64Array | undefined)[] {
    const spans: (Float64Array | undefined)[] = [];
    this.#spans = spans;
    for (const value of this.#kept) this.#countIn(spans, value);
    this.#kept = new Float64Array(64);
    return spans;
  }

  #countIn(spans: (Float64Array | undefined)[], value: number): void {
    if (value < SMALLEST_NORMAL) {
      this.#zeros++;
      return;
    }
    NUMBER[0] = value;
    const high = WORDS[HIGH] as number;
    const exponent = high >> 20;
    let span = spans[exponent];
    if (span === undefined) {
      while (spans.length <= exponent) spans.push(undefined);
      span = new Float64Array(BUCKETS_PER_SPAN);
      spans[exponent] = span;
    }
    const bucket = (high >> 14) & (BUCKETS_PER_SPAN - 1);
    span[bucket] = (span[bucket] as number) + 1;
  }

  #ranked(rank: number, spans: (Float64Array | undefined)[]): number {
    let seen = this.#zeros;
    if (seen >= rank) return this.#min;
    for (const [exponent, span] of spans.entries()) {
      if (span === undefined) continue;
      for (const [bucket, count] of span.entries()) {
        seen += count;
        if (seen >= rank) return Math.min(this.#max, Math.max(this.#min, middleOf(exponent, bucket)));
      }
    }
    return this.#max;
  }
}

function middleOf(exponent: number, bucket: number): number {
  WORDS[1 - HIGH] = 0;
  WORDS[HIGH] = (exponent << 20) | (bucket << 14) | (1 << 13);
  return NUMBER[0] as number;
}

/**
 * How evenly something is shared out (Jain's index): 1 when all have the same, 1/n when one of n has it all. 1 when nobody has
 * anything, null when there is nobody.
 */
export function fairnessOf(shares: readonly number[]): number | null {
  if (shares.length === 0) return null;
  let sum = 0;
  let squares = 0;
  for (const share of shares) {
    sum += share;
    squares += share * share;
  }
  return squares === 0 ? 1 : (sum * sum) / (shares.length * squares);
}
