/**
 * An average that forgets: the plain mean of the first few numbers, and from then on each number moves it by 2 in
 * `window` + 1.
 */
export class ExponentialAverage {
  #value = 0;
  #sum = 0;
  #count = 0;
  readonly #warmup: number;
  readonly #weight: number;

  /**
   * @param window - Roughly how many numbers it remembers.
   * @param warmup - Of how many numbers it is the plain mean first.
   */
  constructor(window: number, warmup: number) {
    this.#warmup = warmup;
    this.#weight = 2 / (window + 1);
  }

  /** 0 until there is one. */
  get value(): number {
    return this.#value;
  }

  /** Takes a number in. One that would make the average infinite is left out, since it could never be forgotten. */
  add(value: number): number {
    const isWarm = this.#count >= this.#warmup;
    const sum = this.#sum + value;
    const next = isWarm ? this.#value * (1 - this.#weight) + value * this.#weight : sum / (this.#count + 1);
    if (!Number.isFinite(next)) return this.#value;
    if (!isWarm) {
      this.#sum = sum;
      this.#count += 1;
    }
    this.#value = next;
    return next;
  }

  /** Puts another value in its place; before the end of the warm-up, the next number overwrites it. */
  replace(value: number): void {
    this.#value = value;
  }

  reset(): void {
    this.#value = 0;
    this.#sum = 0;
    this.#count = 0;
  }
}
