import type { Waiter } from "./waiter.js";

/** Below this many empty places it is not worth moving anybody. */
const FEW = 32;

/**
 * Waiters in order of arrival. Each knows its place, so that leaving costs the same from anywhere: O(1), amortised over
 * the moves that close the gaps.
 *
 * An array and not a linked list: a hundred thousand waiters that point at each other are a chain that the garbage
 * collector has to follow link by link, and every new link is a write from old memory to new; the array measured a third
 * faster under a deep queue.
 */
export class WaiterList {
  #places: (Waiter | undefined)[] = [];
  /** The first place that may be taken, and the number of waiters. */
  #first = 0;
  #count = 0;
  /** The sum of what the waiters want; waiters for 0 permits add nothing. */
  permits = 0;

  get count(): number {
    return this.#count;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  get oldest(): Waiter | undefined {
    if (this.#count === 0) return undefined;
    while (this.#places[this.#first] === undefined) this.#first += 1;
    return this.#places[this.#first];
  }

  get newest(): Waiter | undefined {
    if (this.#count === 0) return undefined;
    while (this.#places[this.#places.length - 1] === undefined) this.#places.pop();
    return this.#places[this.#places.length - 1];
  }

  append(waiter: Waiter): void {
    waiter.place = this.#places.length;
    this.#places.push(waiter);
    this.#count += 1;
    this.permits += waiter.permits;
  }

  remove(waiter: Waiter): void {
    this.#places[waiter.place] = undefined;
    this.#count -= 1;
    this.permits -= waiter.permits;
    if (this.#places.length > 2 * this.#count + FEW) this.#close();
  }

  /** The waiters as they are now, oldest first. */
  toArray(): Waiter[] {
    return this.#places.filter((waiter) => waiter !== undefined);
  }

  #close(): void {
    const places = this.#places;
    let place = 0;
    for (let from = this.#first; from < places.length; from++) {
      const waiter = places[from];
      if (waiter === undefined) continue;
      waiter.place = place;
      places[place] = waiter;
      place += 1;
    }
    places.length = place;
    this.#first = 0;
  }
}
