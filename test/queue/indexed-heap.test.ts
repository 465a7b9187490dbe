import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IndexedHeap } from "../../src/queue/indexed-heap.js";

class Item {
  readonly key: number;
  place = -1;
  otherPlace = -1;

  constructor(key: number) {
    this.key = key;
  }
}

const makeHeap = () => {
  const counted = { comparisons: 0 };
  const heap = new IndexedHeap<"place", Item>("place", (a, b) => {
    counted.comparisons += 1;
    return a.key < b.key;
  });
  return { heap, counted };
};

/** Takes everything out, the first first. */
function drain(heap: IndexedHeap<"place", Item>): number[] {
  const keys: number[] = [];
  for (let first = heap.first; first !== undefined; first = heap.first) {
    keys.push(first.key);
    heap.remove(first);
  }
  return keys;
}

describe("the indexed heap", () => {
  it("has no first while it is empty, before and after it held something", () => {
    const { heap } = makeHeap();
    expect(heap.first).toBeUndefined();
    const item = new Item(1);
    heap.add(item);
    expect(heap.first).toBe(item);
    heap.remove(item);
    expect(heap.first).toBeUndefined();
  });

  it("gives items out in order, whatever the order in which they came, equal ones included", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -20, max: 20 }), { maxLength: 60 }), (keys) => {
        const { heap } = makeHeap();
        for (const key of keys) heap.add(new Item(key));
        expect(drain(heap)).toEqual([...keys].sort((a, b) => a - b));
      }),
    );
  });

  it("does what a sorted array does, while items come and leave from anywhere", () => {
    const step = fc.oneof(
      fc.record({ add: fc.integer({ min: -9, max: 9 }) }),
      fc.record({ remove: fc.nat({ max: 40 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const { heap } = makeHeap();
        const inside: Item[] = [];
        for (const one of steps) {
          if ("add" in one) {
            const item = new Item(one.add);
            heap.add(item);
            inside.push(item);
          } else if (inside.length > 0) {
            const [item] = inside.splice(one.remove % inside.length, 1) as [Item];
            heap.remove(item);
            expect(item.place).toBe(-1);
          }
          const lowest = inside.length === 0 ? undefined : Math.min(...inside.map(({ key }) => key));
          expect(heap.first?.key).toBe(lowest);
          // Everybody who is in it has a place of its own.
          expect(new Set(inside.map(({ place }) => place)).size).toBe(inside.length);
        }
        expect(drain(heap)).toEqual(inside.map(({ key }) => key).sort((a, b) => a - b));
      }),
    );
  });

  it("takes no notice of the removal of an item that is not in it, twice removed ones included", () => {
    const { heap } = makeHeap();
    const [a, b] = [new Item(1), new Item(2)];
    heap.add(b);
    heap.remove(a);
    expect(heap.first).toBe(b);
    heap.add(a);
    heap.remove(a);
    heap.remove(a);
    expect(drain(heap)).toEqual([2]);
  });

  it("lets an item be in two heaps at once, each with a place of its own", () => {
    const up = new IndexedHeap<"place", Item>("place", (a, b) => a.key < b.key);
    const down = new IndexedHeap<"otherPlace", Item>("otherPlace", (a, b) => a.key > b.key);
    const items = [3, 1, 2].map((key) => new Item(key));
    for (const item of items) {
      up.add(item);
      down.add(item);
    }
    expect([up.first?.key, down.first?.key]).toEqual([1, 3]);
    up.remove(items[1] as Item);
    down.remove(items[0] as Item);
    expect([up.first?.key, down.first?.key]).toEqual([2, 2]);
    expect(items.map(({ place }) => place === -1)).toEqual([false, true, false]);
    expect(items.map(({ otherPlace }) => otherPlace === -1)).toEqual([true, false, false]);
  });

  it("takes an item back that it had before", () => {
    const { heap } = makeHeap();
    const item = new Item(1);
    heap.add(item);
    heap.remove(item);
    heap.add(item);
    heap.add(new Item(0));
    expect(drain(heap)).toEqual([0, 1]);
  });

  it("compares once to add an item that comes in order, and a logarithm of times to remove one", () => {
    const { heap, counted } = makeHeap();
    const items = Array.from({ length: 4096 }, (_, key) => new Item(key));
    for (const item of items) heap.add(item);
    expect(counted.comparisons).toBe(4095);
    let most = 0;
    // Every place once: 4093 and 4096 have no common divisor but 1.
    for (let i = 0; i < 4096; i++) {
      counted.comparisons = 0;
      heap.remove(items[(i * 4093) % 4096] as Item);
      most = Math.max(most, counted.comparisons);
    }
    // Twice for each of 12 levels on the way down, and once on the way up.
    expect(most).toBeGreaterThan(2);
    expect(most).toBeLessThanOrEqual(2 * 12 + 1);
    expect(heap.first).toBeUndefined();
  });
});
