import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Waiter } from "../../src/queue/waiter.js";
import { WaiterList } from "../../src/queue/waiter-list.js";

class Probe extends Waiter {
  constructor(permits = 1) {
    super(permits, 0);
  }

  override settle(): void {}

  override abort(): void {}
}

/** Everything that a list shows. */
const seen = (list: WaiterList) => ({
  count: list.count,
  isEmpty: list.isEmpty,
  permits: list.permits,
  oldest: list.oldest,
  newest: list.newest,
  all: list.toArray(),
});
const expected = (waiters: readonly Waiter[]) => ({
  count: waiters.length,
  isEmpty: waiters.length === 0,
  permits: waiters.reduce((sum, { permits }) => sum + permits, 0),
  oldest: waiters[0],
  newest: waiters.at(-1),
  all: [...waiters],
});

describe("the list of waiters", () => {
  it("is empty at first", () => {
    expect(seen(new WaiterList())).toEqual(expected([]));
  });

  it("counts those who wait and what they want; waiters for 0 permits count, and want nothing", () => {
    const list = new WaiterList();
    const [a, b, c] = [new Probe(0), new Probe(5), new Probe(0)];
    for (const waiter of [a, b, c]) list.append(waiter);
    expect([list.count, list.permits, list.isEmpty]).toEqual([3, 5, false]);
    list.remove(b);
    expect([list.count, list.permits, list.isEmpty]).toEqual([2, 0, false]);
    expect([list.oldest, list.newest]).toEqual([a, c]);
  });

  it("does what an array does, while waiters come, and leave from either end and from within", () => {
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ append: fc.nat({ max: 3 }) }) },
      { weight: 4, arbitrary: fc.record({ remove: fc.nat({ max: 200 }) }) },
      { weight: 1, arbitrary: fc.record({ oldest: fc.nat({ max: 60 }) }) },
      { weight: 1, arbitrary: fc.record({ newest: fc.nat({ max: 60 }) }) },
      // So many at once, so that gaps are closed on the way.
      { weight: 1, arbitrary: fc.record({ many: fc.nat({ max: 60 }) }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const list = new WaiterList();
        let model: Waiter[] = [];
        const append = (permits: number): void => {
          const waiter = new Probe(permits);
          list.append(waiter);
          model.push(waiter);
        };
        const remove = (waiter: Waiter | undefined): void => {
          if (waiter === undefined) return;
          list.remove(waiter);
          model = model.filter((other) => other !== waiter);
        };
        for (const one of steps) {
          if ("append" in one) append(one.append);
          else if ("remove" in one) remove(model[one.remove % Math.max(1, model.length)]);
          else if ("many" in one) for (let i = 0; i < one.many; i++) append(1);
          else if ("oldest" in one) for (let i = 0; i < one.oldest; i++) remove(list.oldest);
          else for (let i = 0; i < one.newest; i++) remove(list.newest);
          const [is, should] = [seen(list), expected(model)];
          if (is.all.length !== should.all.length || is.all.some((waiter, i) => waiter !== should.all[i]))
            throw new Error(`${is.all.length} waiters instead of ${should.all.length}, or in another order`);
          expect({ ...is, all: [] }).toEqual({ ...should, all: [] });
        }
      }),
    );
  });

  it("does not keep a place for everybody who ever waited: 100 000 come and leave past one who stays", () => {
    const list = new WaiterList();
    const staying = new Probe();
    list.append(staying);
    let furthest = 0;
    for (let i = 0; i < 100_000; i++) {
      const waiter = new Probe();
      list.append(waiter);
      furthest = Math.max(furthest, waiter.place);
      list.remove(waiter);
    }
    expect(furthest).toBeLessThan(100);
    expect(seen(list)).toEqual(expected([staying]));
  });

  it("nor when the oldest leave as new ones come, as in a queue that is never empty", () => {
    const list = new WaiterList();
    let furthest = 0;
    for (let i = 0; i < 10; i++) list.append(new Probe());
    for (let i = 0; i < 100_000; i++) {
      const waiter = new Probe();
      list.append(waiter);
      furthest = Math.max(furthest, waiter.place);
      list.remove(list.oldest as Waiter);
    }
    expect(furthest).toBeLessThan(100);
    expect(list.count).toBe(10);
  });

  it("does not move waiters at every removal: 10 000 who leave from the middle move fewer than 20 000", () => {
    const list = new WaiterList();
    const waiters = Array.from({ length: 20_000 }, () => new Probe());
    let moves = 0;
    for (const waiter of waiters) {
      list.append(waiter);
      let { place } = waiter;
      Object.defineProperty(waiter, "place", {
        get: () => place,
        set: (to: number) => {
          moves += 1;
          place = to;
        },
      });
    }
    for (let i = 5000; i < 15_000; i++) list.remove(waiters[i] as Probe);
    expect(moves).toBeLessThan(20_000);
    expect(list.count).toBe(10_000);
    expect([list.oldest, list.newest]).toEqual([waiters[0], waiters[19_999]]);
  });

  it("shows those who wait as they were when it was asked", () => {
    const list = new WaiterList();
    const [a, b] = [new Probe(), new Probe()];
    list.append(a);
    list.append(b);
    const before = list.toArray();
    list.remove(a);
    expect([before, list.toArray()]).toEqual([[a, b], [b]]);
  });
});
