import type { Arrival, ArrivalSource } from "./arrivals.js";
import type { RandomSource } from "./random.js";

/*
 * Arrivals whose rate changes with time.
 *
 * The question: the rate climbs from 10 to 50 per second within a minute; when does the next customer come? The naive answer
 * draws a gap at the rate of now, and so carries it over into a time with another rate: one long gap drawn at the quiet
 * end of a night sleeps through the morning. Instead, it is settled first how many customers are to be *expected* until the
 * next one, and then the time is looked up at which that many are: the area under the rate up to there.
 *
 * For independent customers the expected numbers between two of them are exponential with mean 1, whatever the rate does; for
 * even ones they are 1 each. Within one stretch of time, where the rate goes evenly from r to r + a × t, n customers are
 * expected after
 *
 *     x = 2n / (r + √(r² + 2an))
 *
 * Example: a rate that climbs from 0 to 10 per second within 10 s. 5 customers are expected after √(2 × 5) = 3.162 s,
 * all 50 after 10 s.
 *
 * The surprise: the quotient is the school formula for a quadratic equation turned upside down, and it is the one that
 * also works for a steady rate, where a is 0 and x = n / r.
 */

/** A stretch of time in which the rate is steady, or goes evenly from one value to another. */
export interface RateSegment {
  /** Its length; Infinity for the rest of time. */
  readonly lengthMs: number;
  /** Arrivals per second at its start. */
  readonly startRate: number;
  /** Arrivals per second at its end. */
  readonly endRate: number;
}

/** Gives one stretch of time after the other; undefined when there are no more. */
export type RateCurve = () => RateSegment | undefined;

/** The same rate for all time. */
export function steady(ratePerSecond: number): RateCurve {
  return inTurn([{ lengthMs: Number.POSITIVE_INFINITY, startRate: ratePerSecond, endRate: ratePerSecond }]);
}

/** Some stretches of time, one after the other. */
export function inTurn(segments: readonly RateSegment[]): RateCurve {
  let taken = 0;
  return () => segments[taken++];
}

/** Customers who know nothing of each other. */
export function independently(random: RandomSource, curve: RateCurve): ArrivalSource {
  return new ArrivalsByRate(curve, random, true, 0);
}

/** Customers one expected customer apart, the first at once; each up to `jitter` of that later than its turn. */
export function evenly(random: RandomSource, curve: RateCurve, jitter = 0): ArrivalSource {
  return new ArrivalsByRate(curve, random, false, jitter);
}

// Expected customers are counted in thousandths: that is what a rate per second has in a millisecond.
const ONE = 1000;

class ArrivalsByRate implements ArrivalSource {
  readonly #curve: RateCurve;
  readonly #random: RandomSource;
  readonly #isPoisson: boolean;
  readonly #jitter: number;
  #made = 0;
  /** How many customers are expected from the start of the current stretch up to the last arrival. */
  #expected = 0;
  /** How many were expected up to the start of the current stretch. */
  #expectedBefore = 0;
  #startMs = 0;
  #lengthMs = 0;
  #startRate = 0;
  #slope = 0;
  #capacity = 0;
  #lastMs = 0;

  constructor(curve: RateCurve, random: RandomSource, isPoisson: boolean, jitter: number) {
    this.#curve = curve;
    this.#random = random;
    this.#isPoisson = isPoisson;
    this.#jitter = jitter;
  }

  next(): Arrival | undefined {
    this.#expected = this.#isPoisson ? this.#expected + this.#random.exponential(ONE) : this.#nextTurn();
    while (this.#expected >= this.#capacity) if (!this.#nextSegment()) return undefined;
    this.#lastMs = Math.max(this.#lastMs, this.#startMs + this.#msUntil(this.#expected));
    return arrivalAt(this.#lastMs);
  }

  #nextTurn(): number {
    const turn = this.#made++;
    const later = this.#jitter === 0 ? 0 : this.#jitter * this.#random.uniform();
    return (turn + later) * ONE - this.#expectedBefore;
  }

  #nextSegment(): boolean {
    const segment = this.#curve();
    if (segment === undefined) return false;
    this.#expected -= this.#capacity;
    this.#expectedBefore += this.#capacity;
    this.#startMs += this.#lengthMs;
    const { lengthMs, startRate, endRate } = segment;
    this.#lengthMs = lengthMs;
    this.#startRate = startRate;
    this.#slope = (endRate - startRate) / lengthMs;
    // Without a rate, endless time has no customers either.
    this.#capacity = startRate + endRate === 0 ? 0 : ((startRate + endRate) / 2) * lengthMs;
    return true;
  }

  /** How long after the start of the stretch so many customers are expected. */
  #msUntil(expected: number): number {
    if (this.#slope === 0) return expected / this.#startRate;
    if (expected === 0) return 0;
    const squared = this.#startRate * this.#startRate + 2 * this.#slope * expected;
    const ms = (2 * expected) / (this.#startRate + Math.sqrt(Math.max(0, squared)));
    return Math.min(ms, this.#lengthMs);
  }
}

/** An arrival that leaves everything open but its time. All arrivals of this package have the same members. */
export function arrivalAt(atMs: number): Arrival {
  return {
    atMs,
    serviceMs: undefined,
    tenant: undefined,
    priority: undefined,
    permitCount: undefined,
    data: undefined,
  };
}
