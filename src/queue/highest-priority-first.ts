import { IndexedHeap } from "./indexed-heap.js";
import type { Waiter } from "./waiter.js";
import { WaiterList } from "./waiter-list.js";
import type { WaiterOrder } from "./waiter-order.js";

/** The waiters of one priority, in order of arrival. */
class Level extends WaiterList {
  readonly priority: number;
  highPlace = -1;
  lowPlace = -1;

  constructor(priority: number) {
    super();
    this.priority = priority;
  }
}

/**
 * The highest priority goes first, and within one whoever has waited longest. A full queue drops the newest of the lowest
 * priority for a newcomer of a higher one. O(1) within a priority; a priority that nobody had before costs O(log L), with L
 * priorities that somebody waits with. Those that nobody waits with are forgotten.
 */
export class HighestPriorityFirst implements WaiterOrder {
  readonly #levels = new Map<number, Level>();
  readonly #byHighest = new IndexedHeap<"highPlace", Level>("highPlace", (a, b) => a.priority > b.priority);
  readonly #byLowest = new IndexedHeap<"lowPlace", Level>("lowPlace", (a, b) => a.priority < b.priority);
  count = 0;
  permits = 0;

  get isEmpty(): boolean {
    return this.count === 0;
  }

  get first(): Waiter | undefined {
    return this.#byHighest.first?.oldest;
  }

  append(waiter: Waiter): void {
    let level = this.#levels.get(waiter.priority);
    if (level === undefined) {
      level = new Level(waiter.priority);
      this.#levels.set(waiter.priority, level);
      this.#byHighest.add(level);
      this.#byLowest.add(level);
    }
    level.append(waiter);
    this.count += 1;
    this.permits += waiter.permits;
  }

  remove(waiter: Waiter): void {
    const level = this.#levels.get(waiter.priority) as Level;
    level.remove(waiter);
    this.count -= 1;
    this.permits -= waiter.permits;
    if (!level.isEmpty) return;
    this.#levels.delete(waiter.priority);
    this.#byHighest.remove(level);
    this.#byLowest.remove(level);
  }

  goesFirst(priority: number): boolean {
    const highest = this.#byHighest.first;
    return this.permits === 0 || highest === undefined || priority > highest.priority;
  }

  permitsAhead(priority: number): number {
    return this.permits - this.permitsThatYield(priority);
  }

  permitsThatYield(priority: number): number {
    let permits = 0;
    for (const level of this.#levels.values()) if (level.priority < priority) permits += level.permits;
    return permits;
  }

  nextToYield(priority: number): Waiter | undefined {
    const lowest = this.#byLowest.first;
    return lowest === undefined || lowest.priority >= priority ? undefined : lowest.newest;
  }

  toArray(): Waiter[] {
    const levels = [...this.#levels.values()].sort((a, b) => b.priority - a.priority);
    return levels.flatMap((level) => level.toArray());
  }
}
