import type { Waiter } from "./waiter.js";
import { WaiterList } from "./waiter-list.js";

/** Waiters in the order in which they are served. A priority matters only to orders that go by it. */
export interface WaiterOrder {
  readonly count: number;
  readonly isEmpty: boolean;
  /** What the waiters want, in all; those for 0 permits add nothing. */
  readonly permits: number;
  /** Who is served next. */
  readonly first: Waiter | undefined;
  append(waiter: Waiter): void;
  remove(waiter: Waiter): void;
  /** Whether a newcomer would be served before everybody who waits. */
  goesFirst(priority: number): boolean;
  /** What those want who would be served before a newcomer. */
  permitsAhead(priority: number): number;
  /** What those want who would have to leave a full queue for a newcomer, in all. */
  permitsThatYield(priority: number): number;
  /** Who has to leave next for a newcomer. */
  nextToYield(priority: number): Waiter | undefined;
  /** The waiters as they are now. */
  toArray(): Waiter[];
}

/** Whoever has waited longest goes first, and a full queue refuses newcomers. */
export class OldestFirst extends WaiterList implements WaiterOrder {
  get first(): Waiter | undefined {
    return this.oldest;
  }

  goesFirst(): boolean {
    return this.permits === 0;
  }

  permitsAhead(): number {
    return this.permits;
  }

  permitsThatYield(): number {
    return 0;
  }

  nextToYield(): undefined {
    return undefined;
  }
}

/** Whoever came last goes first, and a full queue drops those who have waited longest. */
export class NewestFirst extends WaiterList implements WaiterOrder {
  get first(): Waiter | undefined {
    return this.newest;
  }

  goesFirst(): boolean {
    return true;
  }

  permitsAhead(): number {
    return 0;
  }

  permitsThatYield(): number {
    return this.permits;
  }

  nextToYield(): Waiter | undefined {
    return this.oldest;
  }
}
