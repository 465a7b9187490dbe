/** Something that keeps its own place in a heap: -1 while it is in none. */
export type Placed<Place extends string> = { [place in Place]: number };

/**
 * A binary heap in which each item knows its place, so that one that leaves early can be taken out: O(log n) to add and
 * to remove, O(1) to look at the first, and O(1) to add items that come in order.
 */
export class IndexedHeap<Place extends string, Item extends Placed<Place>> {
  readonly #items: Item[] = [];
  readonly #place: Place;
  readonly #isBefore: (a: Item, b: Item) => boolean;

  /**
   * @param place - The property in which the items keep their place in this heap.
   * @param isBefore - Whether one item comes before another.
   */
  constructor(place: Place, isBefore: (a: Item, b: Item) => boolean) {
    this.#place = place;
    this.#isBefore = isBefore;
  }

  get first(): Item | undefined {
    return this.#items[0];
  }

  add(item: Item): void {
    this.#items.push(item);
    this.#rise(item, this.#items.length - 1);
  }

  /** Takes an item out; nothing happens when it is not in the heap. */
  remove(item: Item): void {
    const hole: number = item[this.#place];
    if (hole === -1) return;
    this.#setPlace(item, -1);
    const last = this.#items.pop() as Item;
    if (last === item) return;
    this.#rise(last, hole);
    this.#sink(last);
  }

  #rise(item: Item, from: number): void {
    let index = from;
    while (index > 0) {
      const parent = this.#items[(index - 1) >> 1] as Item;
      if (!this.#isBefore(item, parent)) break;
      this.#put(parent, index);
      index = (index - 1) >> 1;
    }
    this.#put(item, index);
  }

  #sink(item: Item): void {
    let index: number = item[this.#place];
    for (;;) {
      const left = this.#items[2 * index + 1];
      const right = this.#items[2 * index + 2];
      const child = right !== undefined && this.#isBefore(right, left as Item) ? right : left;
      if (child === undefined || !this.#isBefore(child, item)) break;
      const next: number = child[this.#place];
      this.#put(child, index);
      index = next;
    }
    this.#put(item, index);
  }

  #put(item: Item, index: number): void {
    this.#items[index] = item;
    this.#setPlace(item, index);
  }

  #setPlace(item: Placed<Place>, index: number): void {
    item[this.#place] = index as Placed<Place>[Place];
  }
}
