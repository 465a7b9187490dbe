import { withLease } from "headgate";
import { describe, expect, it } from "vitest";
import { numbers } from "../limiters/replenishing-support.js";
import { concurrency, FRONTS, unhandledWhile } from "./support.js";

// Work that is run under a lease may go wrong in every way. The reports are about queues of tasks, as a shield is one; until
// there is a shield, withLease runs them.

describe.each(FRONTS)("work under a lease of a concurrency limiter %s", (_, front) => {
  it("leaves one rejection when its input fails, and that is handled (H47: sindresorhus/p-limit#110)", async () => {
    const limiter = front(concurrency(1));
    function* input() {
      yield 1;
      throw new Error("the iterator's");
    }
    const rejections: unknown[] = [];
    const all = async () => {
      const started: Promise<unknown>[] = [];
      try {
        for (const item of input()) {
          started.push(withLease(limiter, () => Promise.reject(new Error(`task ${item}`))));
        }
      } finally {
        // withLease owes its caller one promise, and keeps no other that could reject behind his back.
        for (const result of await Promise.allSettled(started)) {
          if (result.status === "rejected") rejections.push(result.reason);
        }
      }
    };
    const unhandled = await unhandledWhile(() => expect(all()).rejects.toThrow("the iterator's"));
    expect(unhandled).toEqual([]);
    expect(rejections).toEqual([new Error("task 1")]);
    expect(numbers(limiter)).toBe("1/0/0/1");
  });

  it("may throw, or return no promise, and the next one runs (H50: sindresorhus/p-queue#33)", async () => {
    const limiter = front(concurrency(1));
    const order: string[] = [];
    const task = (name: string, work: () => unknown) =>
      withLease(limiter, () => {
        order.push(name);
        return work();
      });
    // biome-ignore lint/suspicious/noThenProperty: a thenable that is no promise is the case
    const thenable = { then: (resolve: (value: string) => void) => resolve("thenable") };
    const throwing = () => {
      throw new Error("at once");
    };
    const unhandled = await unhandledWhile(async () => {
      const results = await Promise.allSettled([
        task("first", throwing),
        task("second", () => thenable),
        task("third", () => "plain"),
        task("fourth", throwing),
        task("fifth", () => undefined),
      ]);
      expect(results.map((result) => ("value" in result ? result.value : result.reason))).toEqual([
        new Error("at once"),
        "thenable",
        "plain",
        new Error("at once"),
        undefined,
      ]);
    });
    expect(unhandled).toEqual([]);
    expect(order).toEqual(["first", "second", "third", "fourth", "fifth"]);
    expect(numbers(limiter)).toBe("1/0/0/5");
  });
});
