import type { Waiter } from "./waiter.js";

/**
 * Waiters by deadline, the earliest first: a binary heap in which each waiter knows its place, so that one that leaves
 * early leaves the heap too. O(log n) to add and remove; O(1) to add with deadlines that only grow.
 */
export class DeadlineHeap {
  readonly #waiters: Waiter[] = [];

  get earliest(): Waiter | undefined {
    return this.#waiters[0];
  }

  add(waiter: Waiter): void {
    this.#waiters.push(waiter);
    this.#rise(waiter, this.#waiters.length - 1);
  }

  /** Takes a waiter out; nothing happens when it is not in the heap. */
  remove(waiter: Waiter): void {
    const hole = waiter.heapIndex;
    if (hole === -1) return;
    waiter.heapIndex = -1;
    const last = this.#waiters.pop() as Waiter;
    if (last === waiter) return;
    this.#rise(last, hole);
    this.#sink(last);
  }

  #rise(waiter: Waiter, from: number): void {
    let index = from;
    while (index > 0) {
      const parent = this.#waiters[(index - 1) >> 1] as Waiter;
      if (parent.deadline <= waiter.deadline) break;
      this.#place(parent, index);
      index = (index - 1) >> 1;
    }
    this.#place(waiter, index);
  }

  #sink(waiter: Waiter): void {
    let index = waiter.heapIndex;
    for (;;) {
      const left = this.#waiters[2 * index + 1];
      const right = this.#waiters[2 * index + 2];
      const child = right !== undefined && right.deadline < (left as Waiter).deadline ? right : left;
      if (child === undefined || child.deadline >= waiter.deadline) break;
      const next = child.heapIndex;
      this.#place(child, index);
      index = next;
    }
    this.#place(waiter, index);
  }

  #place(waiter: Waiter, index: number): void {
    this.#waiters[index] = waiter;
    waiter.heapIndex = index;
  }
}
