/**
 * At most so many of the numbers it is told, spread evenly over them, and the greatest. When it is full it keeps every second
 * one, and from then on takes in only half as many.
 */
export class Samples {
  readonly #size: number;
  #values: number[] = [];
  #stride = 1;
  #seen = 0;
  #greatest = Number.NEGATIVE_INFINITY;

  constructor(size: number) {
    this.#size = size;
  }

  add(value: number): void {
    const index = this.#seen;
    this.#seen += 1;
    if (value > this.#greatest) this.#greatest = value;
    if (index % this.#stride !== 0) return;
    if (this.#values.length === this.#size) {
      this.#values = this.#values.filter((_, i) => i % 2 === 0);
      this.#stride *= 2;
      if (index % this.#stride !== 0) return;
    }
    this.#values.push(value);
  }

  /** Hands all over and begins anew. */
  flush(record: (value: number) => void): void {
    if (this.#seen === 0) return;
    for (const value of this.#values) record(value);
    if (!this.#values.includes(this.#greatest)) record(this.#greatest);
    this.#values = [];
    this.#stride = 1;
    this.#seen = 0;
    this.#greatest = Number.NEGATIVE_INFINITY;
  }
}
