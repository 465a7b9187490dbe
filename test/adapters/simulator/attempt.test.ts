import { describe, expect, it } from "vitest";
import { AttemptPool } from "../../../adapters/simulator/attempt.js";
import { ForeignLease } from "./support.js";

describe("attempts", () => {
  it("that are over are used again, and hold on to nothing meanwhile", () => {
    const nothing = () => {};
    const pool = new AttemptPool({ begin: nothing, complete: nothing, answered: nothing, failed: nothing });
    const first = pool.take();
    first.arrival = { atMs: 5, data: "something large" };
    first.lease = new ForeignLease(true);
    first.ticket = { cancel: () => true };
    const second = pool.take();
    expect(pool.inUse).toBe(2);
    pool.give(first);
    expect(first).toMatchObject({ lease: undefined, ticket: undefined, tenant: undefined });
    expect(first.arrival.data).toBeUndefined();
    expect(pool.take()).toBe(first);
    pool.give(first);
    pool.give(second);
    for (let i = 0; i < 1000; i++) pool.give(pool.take());
    expect(pool.all).toHaveLength(2);
    expect(pool.inUse).toBe(0);
  });
});
