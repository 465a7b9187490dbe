import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EventQueue } from "../../../adapters/simulator/event-queue.js";

describe("the queue of events", () => {
  it("gives events by time, then by class, then in the order in which they were added", () => {
    const queue = new EventQueue<string>();
    queue.add(5, 3, "late arrival");
    queue.add(1, 3, "arrival");
    queue.add(1, 0, "completion");
    queue.add(1, 1, "timer");
    queue.add(1, 0, "second completion");
    queue.add(0, 4, "first of all");
    const order = Array.from({ length: 6 }, () => queue.take());
    expect(order).toEqual([
      "first of all",
      "completion",
      "second completion",
      "timer",
      "arrival",
      "late arrival",
    ]);
    expect(queue.take()).toBeUndefined();
    expect(queue.nextTime).toBe(Number.POSITIVE_INFINITY);
  });

  it("leaves out what was cancelled, also at the top", () => {
    const queue = new EventQueue<string>();
    const first = queue.add(1, 0, "a");
    queue.add(2, 0, "b");
    const third = queue.add(3, 0, "c");
    queue.add(4, 0, "d");
    queue.cancel(first);
    expect(queue.nextTime).toBe(2);
    queue.cancel(third);
    expect(queue.size).toBe(2);
    expect([queue.take(), queue.take(), queue.take()]).toEqual(["b", "d", undefined]);
  });

  it("is never more than half dead", () => {
    const queue = new EventQueue<number>();
    const tickets: number[] = [];
    for (let i = 0; i < 10_000; i++) tickets.push(queue.add(1e6 - i, 0, i));
    let worst = 0;
    for (const ticket of tickets.slice(0, 9_990)) {
      queue.cancel(ticket);
      worst = Math.max(worst, queue.heapLength / queue.size);
    }
    expect(queue.size).toBe(10);
    expect(worst).toBeLessThanOrEqual(2);
  });

  it("uses the places of events that are over again", () => {
    const queue = new EventQueue<number>();
    const tickets = new Set<number>();
    for (let i = 0; i < 1000; i++) {
      tickets.add(queue.add(i, 0, i));
      if (i % 2 === 0) queue.take();
      else queue.cancel(queue.add(i + 1, 0, -1));
      queue.take();
    }
    expect(tickets.size).toBeLessThan(20);
  });

  it("agrees with a sorted list, whatever is added, cancelled and taken", () => {
    const step = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({ add: fc.integer({ min: 0, max: 9 }), of: fc.integer({ min: 0, max: 4 }) }),
      },
      { weight: 2, arbitrary: fc.record({ cancel: fc.nat() }) },
      { weight: 2, arbitrary: fc.constant({ take: true }) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new EventQueue<number>();
        let model: { time: number; of: number; id: number; ticket: number }[] = [];
        let id = 0;
        for (const action of steps) {
          if ("add" in action) {
            const ticket = queue.add(action.add, action.of, id);
            model.push({ time: action.add, of: action.of, id, ticket });
            model.sort((a, b) => a.time - b.time || a.of - b.of || a.id - b.id);
            id += 1;
          } else if ("cancel" in action) {
            const victim = model[action.cancel % Math.max(1, model.length)];
            if (victim === undefined) continue;
            queue.cancel(victim.ticket);
            model = model.filter((event) => event !== victim);
          } else {
            expect(queue.take()).toBe(model.shift()?.id);
          }
          expect(queue.size).toBe(model.length);
          expect(queue.heapLength).toBeLessThanOrEqual(2 * queue.size + 1);
          expect(queue.nextTime).toBe(model[0]?.time ?? Number.POSITIVE_INFINITY);
        }
      }),
      { numRuns: 500 },
    );
  });
});
