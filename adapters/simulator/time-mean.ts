/** The mean over time of something that changes in steps, within a period; and its extremes there. */
export class TimeMean {
  readonly #to: number;
  #value: number;
  #since: number;
  #area = 0;
  #min = Number.POSITIVE_INFINITY;
  #max = Number.NEGATIVE_INFINITY;
  #measuredMs = 0;

  /** What is NaN is not known, and left out. */
  constructor(from: number, to: number, value = 0) {
    this.#to = to;
    this.#value = value;
    this.#since = from;
  }

  get value(): number {
    return this.#value;
  }

  set(value: number, now: number): void {
    if (value === this.#value) return;
    this.advance(now);
    this.#value = value;
  }

  add(change: number, now: number): void {
    this.set(this.#value + change, now);
  }

  /** Brings the sums up to the present. */
  advance(now: number): void {
    const until = Math.min(now, this.#to);
    const length = until - this.#since;
    if (length <= 0) return;
    this.#since = until;
    const value = this.#value;
    if (Number.isNaN(value)) return;
    this.#area += value * length;
    this.#measuredMs += length;
    if (value < this.#min) this.#min = value;
    if (value > this.#max) this.#max = value;
  }

  /** The mean over the part of the period in which it was known; undefined when that is empty. */
  get mean(): number | undefined {
    return this.#measuredMs > 0 ? this.#area / this.#measuredMs : undefined;
  }

  /** Value times milliseconds. */
  get area(): number {
    return this.#area;
  }

  get min(): number | undefined {
    return this.#measuredMs > 0 ? this.#min : undefined;
  }

  get max(): number | undefined {
    return this.#measuredMs > 0 ? this.#max : undefined;
  }
}
