import type { Waiter } from "./waiter.js";

/** Waiters in order of arrival. Everything is O(1): the waiters themselves are the nodes. */
export class WaiterList {
  oldest: Waiter | undefined = undefined;
  newest: Waiter | undefined = undefined;
  /** The sum of what the waiters want; waiters for 0 permits add nothing. */
  permits = 0;

  append(waiter: Waiter): void {
    waiter.previous = this.newest;
    if (this.newest === undefined) this.oldest = waiter;
    else this.newest.next = waiter;
    this.newest = waiter;
    this.permits += waiter.permits;
  }

  remove(waiter: Waiter): void {
    const { next, previous } = waiter;
    if (previous === undefined) this.oldest = next;
    else previous.next = next;
    if (next === undefined) this.newest = previous;
    else next.previous = previous;
    waiter.next = undefined;
    waiter.previous = undefined;
    this.permits -= waiter.permits;
  }
}
