import { wrongType } from "../../src/internal.js";
import { type Arrival, type ArrivalProcess, type ArrivalSource, checkArrivalProcess } from "./arrivals.js";
import type { RandomSource } from "./random.js";

/**
 * Several tenants at once, each with customers of its own kind.
 *
 * Each tenant draws from a stream of its own, so that one more tenant does not move the customers of the others. At the same
 * instant, tenants come in the order in which they are listed.
 *
 * @param parts - By the name of the tenant, how its customers arrive; at least one. The name becomes the `tenant` of every
 * arrival, whatever it was. Copied.
 * @throws TypeError or RangeError when that is something else.
 *
 * @example
 * ```ts
 * import { mergeArrivals, onOffArrivals, poissonArrivals } from "headgate/simulator";
 *
 * const arrivals = mergeArrivals({
 *   steady: poissonArrivals({ ratePerSecond: 50 }),
 *   batch: onOffArrivals({ onMs: 1000, offMs: 9000, onRatePerSecond: 500 }),
 * });
 * ```
 *
 * @public
 */
export function mergeArrivals(parts: Readonly<Record<string, ArrivalProcess>>): ArrivalProcess {
  if (typeof parts !== "object" || parts === null || Array.isArray(parts)) {
    throw wrongType("parts", "an object with an arrival process for each tenant", parts);
  }
  const entries = Object.entries(parts);
  if (entries.length === 0) throw new RangeError("parts must have at least one tenant; got none.");
  for (const [tenant, process] of entries) checkArrivalProcess(`parts[${JSON.stringify(tenant)}]`, process);
  return {
    description: entries.map(([tenant, { description }]) => `${tenant}: ${description}`).join("; "),
    isClosed: entries.some(([, process]) => process.isClosed === true),
    start: (random) => new MergedArrivals(entries, random),
  };
}

/** An arrival of a tenant, which remembers what its source must be told when it is settled. */
class TenantArrival implements Arrival {
  readonly atMs: number;
  readonly serviceMs: number | undefined;
  readonly tenant: string;
  readonly priority: number | undefined;
  readonly permitCount: number | undefined;
  readonly data: unknown;
  readonly part: Part;
  readonly original: Arrival;

  constructor(part: Part, original: Arrival) {
    this.atMs = original.atMs;
    this.serviceMs = original.serviceMs;
    this.tenant = part.tenant;
    this.priority = original.priority;
    this.permitCount = original.permitCount;
    this.data = original.data;
    this.part = part;
    this.original = original;
  }
}

interface Part {
  readonly tenant: string;
  readonly source: ArrivalSource;
  /** Where it is in the list. */
  readonly place: number;
  /** What it gives next. */
  coming: Arrival;
}

/** The tenants are a binary heap, the one whose customer is next on top. */
class MergedArrivals implements ArrivalSource {
  readonly #heap: Part[] = [];

  constructor(entries: readonly (readonly [string, ArrivalProcess])[], random: RandomSource) {
    for (const [place, [tenant, process]] of entries.entries()) {
      const source = process.start(random.fork(tenant));
      const coming = source.next();
      if (coming !== undefined) this.#heap.push({ tenant, source, place, coming });
    }
    for (let i = this.#heap.length >> 1; i >= 0; i--) this.#sink(i);
  }

  next(): Arrival | undefined {
    const part = this.#heap[0];
    if (part === undefined) return undefined;
    const arrival = new TenantArrival(part, part.coming);
    const coming = part.source.next();
    if (coming !== undefined) {
      part.coming = coming;
    } else {
      const last = this.#heap.pop() as Part;
      if (this.#heap.length > 0) this.#heap[0] = last;
    }
    this.#sink(0);
    return arrival;
  }

  settled(arrival: Arrival, atMs: number): Arrival | undefined {
    if (!(arrival instanceof TenantArrival)) return undefined;
    const next = arrival.part.source.settled?.(arrival.original, atMs);
    return next === undefined ? undefined : new TenantArrival(arrival.part, next);
  }

  #sink(from: number): void {
    const heap = this.#heap;
    let i = from;
    for (;;) {
      const part = heap[i];
      const left = heap[2 * i + 1];
      const right = heap[2 * i + 2];
      if (part === undefined || left === undefined) return;
      const isRight = right !== undefined && isBefore(right, left);
      const child = isRight ? right : left;
      if (!isBefore(child, part)) return;
      heap[i] = child;
      i = 2 * i + (isRight ? 2 : 1);
      heap[i] = part;
    }
  }
}

function isBefore(a: Part, b: Part): boolean {
  return a.coming.atMs < b.coming.atMs || (a.coming.atMs === b.coming.atMs && a.place < b.place);
}
