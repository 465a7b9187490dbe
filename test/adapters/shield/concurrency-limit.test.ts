import { AsyncLocalStorage } from "node:async_hooks";
import { RateLimitRejectedError } from "headgate";
import {
  ConcurrencyLimitExceededError,
  type ConcurrencyLimitRejectedEvent,
  RateLimitExceededError,
  Shield,
  ShieldKey,
} from "headgate/shield";
import { getShieldState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { CountingController } from "../../support.js";
import { failure, flush, type Gate, gate, ManualClock, thrown, watch } from "./support.js";

const isFull = (error: unknown) => ConcurrencyLimitExceededError.is(error);

/** What the only limit of a shield looks like. */
function looks(shield: Shield) {
  const [state] = getShieldState(shield).strategies;
  if (state?.kind !== "concurrencyLimit") throw new Error("no concurrency limit");
  return state;
}

describe("a concurrency limit", () => {
  it("starts a call in the same turn when there is a place", async () => {
    const shield = Shield.concurrencyLimit(1);
    for (let i = 0; i < 2; i++) {
      let started = false;
      const call = shield.execute(() => {
        started = true;
      });
      expect(started).toBe(true);
      await call;
    }
  });

  it("refuses at once what finds no place, and lets in again when one is free", async () => {
    const shield = Shield.concurrencyLimit(1);
    const open = gate<string>();
    const a = shield.execute(() => open.promise);
    const error = await failure(shield.execute(() => "b"));
    expect(error).toBeInstanceOf(ConcurrencyLimitExceededError);
    expect(error).toMatchObject({
      name: "ConcurrencyLimitExceededError",
      code: "ERR_CONCURRENCY_LIMIT_EXCEEDED",
      reason: "limit_reached",
      retryAfterMs: undefined,
      strategyIndex: 0,
      message: "ConcurrencyLimit(1) (layer 0, limit_reached) refused the call.",
    });
    open.open("a");
    expect(await a).toBe("a");
    expect(await shield.execute(() => "c")).toBe("c");
  });

  it("queues up to its queue limit, and refuses the next", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 1 });
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    const b = shield.execute(() => 2);
    expect(await failure(shield.execute(() => 3))).toMatchObject({ reason: "queue_full" });
    open.open(1);
    expect([await a, await b]).toEqual([1, 2]);
  });

  it("gets the places of failed calls back", async () => {
    const shield = Shield.concurrencyLimit(1);
    for (const fail of [
      () => Promise.reject(new Error("x")),
      () => {
        throw new Error("x");
      },
    ]) {
      for (let i = 0; i < 5; i++) await failure(shield.execute(fail));
    }
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    expect(isFull(await failure(shield.execute(() => 2)))).toBe(true);
    open.open(1);
    expect(await a).toBe(1);
  });

  it("gives the place of a call that is aborted to another at once, without waiting for anybody", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 1 });
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    const leaving = new AbortController();
    const b = failure(shield.execute(() => 2, leaving.signal));
    expect(isFull(await failure(shield.execute(() => 3)))).toBe(true);
    leaving.abort("left");
    expect(looks(shield).queuedExecutions).toBe(0);
    const d = shield.execute(() => 4);
    expect(await b).toBe("left");
    open.open(1);
    expect([await a, await d]).toEqual([1, 4]);
  });

  it("never runs more than its limit, and as many as that", async () => {
    const shield = Shield.concurrencyLimit(3, { queueLimit: 50 });
    let running = 0;
    let peak = 0;
    const calls = Array.from({ length: 40 }, () =>
      shield.execute(async () => {
        running += 1;
        peak = Math.max(peak, running);
        await flush();
        running -= 1;
      }),
    );
    await Promise.all(calls);
    expect([peak, running]).toEqual([3, 0]);
  });

  it.each([
    [2, 3, 9],
    [3, 5, 15],
    [5, 0, 3],
    [20, 0, 3],
    [3, 0, 4],
    [3, 1, 5],
    [6, 3, 9],
    [5, 3, 8],
    [1, 6, 5],
  ])("with a limit of %i and a queue of %i, shares out %i calls as they come", async (limit, queue, load) => {
    const shield = Shield.concurrencyLimit(limit, { queueLimit: queue });
    const open: Gate[] = [];
    const calls = Array.from({ length: load }, () =>
      watch(
        shield.execute(() => {
          const one: Gate = gate();
          open.push(one);
          return one.promise;
        }),
      ),
    );
    await flush();
    const running = Math.min(load, limit);
    const queued = Math.min(load - running, queue);
    expect(looks(shield)).toMatchObject({
      runningExecutions: running,
      availablePermits: limit - running,
      queuedExecutions: queued,
    });
    expect(calls.filter((call) => call.state === "rejected")).toHaveLength(load - running - queued);
    for (let done = 0; done < running + queued; done++) {
      expect(open.length).toBe(Math.min(running + queued, running + done));
      open[done]?.open();
      await flush();
      const left = running + queued - done - 1;
      expect(looks(shield)).toMatchObject({
        runningExecutions: Math.min(left, limit),
        queuedExecutions: Math.max(0, left - limit),
      });
    }
    expect(calls.filter((call) => call.state === "fulfilled")).toHaveLength(running + queued);
  });

  it("shows free places and free places in the queue step by step", async () => {
    const shield = Shield.concurrencyLimit(2, { queueLimit: 2 });
    const open: Gate[] = [];
    const seen: string[] = [];
    const see = () => {
      const { availablePermits, queuedExecutions } = looks(shield);
      seen.push(`${availablePermits}/${2 - queuedExecutions}`);
    };
    see();
    for (let i = 0; i < 4; i++) {
      void shield.execute(() => {
        const one = gate();
        open.push(one);
        return one.promise;
      });
      see();
    }
    for (let i = 0; i < 4; i++) {
      open[i]?.open();
      await flush();
      see();
    }
    expect(seen).toEqual(["2/2", "1/2", "0/2", "0/1", "0/0", "0/1", "0/2", "1/2", "2/2"]);
  });

  it("is shared by all shields that are made of it", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 1 });
    const named = shield.withName("named");
    const composed = Shield.rateLimit(100, 1000).use(shield);
    const open = gate<number>();
    const a = named.execute(() => open.promise);
    const b = composed.execute(() => 2);
    expect(isFull(await failure(shield.execute(() => 3)))).toBe(true);
    open.open(1);
    expect([await a, await b]).toEqual([1, 2]);
  });

  it("two limits with the same options are two limits", async () => {
    const [one, other] = [Shield.concurrencyLimit(1), Shield.concurrencyLimit(1)];
    const open = gate();
    const a = one.execute(() => open.promise);
    expect(await other.execute(() => 2)).toBe(2);
    open.open();
    await a;
    expect(await one.use(other).execute(() => 3)).toBe(3);
  });

  it.each([
    [Number.MAX_SAFE_INTEGER, 0],
    [Number.MAX_SAFE_INTEGER - 1, 1],
    [Number.MAX_SAFE_INTEGER, 1],
    [1, Number.POSITIVE_INFINITY],
    [Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY],
  ])("works with a limit of %d and a queue of %d", async (maxConcurrency, queueLimit) => {
    const shield = Shield.concurrencyLimit({ maxConcurrency, queueLimit });
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    const b = shield.execute(() => 42);
    open.open(42);
    expect(await Promise.allSettled([a, b])).toMatchObject([{ value: 42 }, { value: 42 }]);
  });

  it("tells the hook of its options, its place and the context of the refused call", async () => {
    const events: ConcurrencyLimitRejectedEvent[] = [];
    const key = new ShieldKey<string>("who");
    const shield = Shield.rateLimit(100, 1000)
      .concurrencyLimit(1, {
        name: "bulkhead",
        onRejected: async (event) => {
          await flush();
          expect(event.context.get(key)).toBe("second");
          events.push(event);
        },
      })
      .withName("search");
    const open = gate();
    const a = shield.execute(() => open.promise, { context: [key.of("first")] });
    await failure(shield.execute(() => 2, { context: [key.of("second")] }));
    open.open();
    await a;
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      maxConcurrency: 1,
      queueLimit: 0,
      strategyIndex: 1,
      strategyName: "bulkhead",
      shieldName: "search",
      reason: "limit_reached",
    });
    // The context is for the time of the call.
    expect(() => events[0]?.context.get(key)).toThrow(/after its call had ended/);
  });

  it("does not tell the hook of a call that is given up", async () => {
    let hooks = 0;
    const shield = Shield.concurrencyLimit(1, {
      queueLimit: 1,
      onRejected: () => {
        hooks += 1;
      },
    });
    const open = gate();
    const a = shield.execute(() => open.promise);
    const leaving = new AbortController();
    const b = failure(shield.execute(() => 2, leaving.signal));
    leaving.abort("left");
    const c = shield.execute(() => 3);
    open.open();
    await a;
    expect([await b, await c, hooks]).toEqual(["left", 3, 0]);
  });

  it("a hook may use the shield again", async () => {
    const results: unknown[] = [];
    const open = gate();
    const shield: Shield = Shield.concurrencyLimit(1, {
      onRejected: async () => {
        open.open();
        await flush();
        results.push(await shield.execute(() => "inner"));
      },
    });
    const a = shield.execute(() => open.promise);
    expect(isFull(await failure(shield.execute(() => "outer")))).toBe(true);
    await a;
    expect(results).toEqual(["inner"]);
  });

  it("hands a place over: a newcomer cannot get in between the end of a call and the next in the queue", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 1 });
    const order: string[] = [];
    const open = gate();
    const a = shield.execute(() => open.promise).then(() => order.push("a"));
    const b = shield.execute(() => void order.push("b"));
    open.open();
    let newcomer: Promise<unknown> | undefined;
    // In each microtask from the end of the first call on somebody new tries.
    for (let i = 0; i < 10; i++) {
      await Promise.resolve();
      newcomer = shield.execute(() => void order.push(`new ${i}`));
      newcomer.catch(() => {});
      if (order.includes("b")) break;
    }
    await Promise.allSettled([a, b, newcomer]);
    expect(order.filter((one) => one === "b")).toEqual(["b"]);
    expect(order.findIndex((one) => one.startsWith("new"))).toBeGreaterThan(order.indexOf("b"));
  });

  it("an aborted waiter does not starve those behind it", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 10 });
    const open = gate();
    const a = shield.execute(() => open.promise);
    const leaving = new AbortController();
    const b = failure(shield.execute(() => "b", leaving.signal));
    const c = shield.execute(() => "c");
    leaving.abort("left");
    open.open();
    await a;
    expect([await b, await c]).toEqual(["left", "c"]);
    expect(looks(shield)).toMatchObject({ availablePermits: 1, queuedExecutions: 0 });
  });

  it("has one abort listener for all who wait with a signal, and none when they have gone", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 50 });
    const shared = new CountingController();
    const open = gate();
    const a = shield.execute(() => open.promise, shared.signal);
    const calls = Array.from({ length: 50 }, () => shield.execute(() => 1, shared.signal));
    expect([shared.listeners, shared.added]).toEqual([1, 1]);
    open.open();
    await Promise.all([a, ...calls]);
    expect(shared.listeners).toBe(0);
  });

  it("runs a call that waited, and its hook, in the caller's own async context", async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const shield = Shield.concurrencyLimit(1, {
      queueLimit: 1,
      queueTimeoutMs: 60_000,
      onRejected: () => void seen.push(`hook ${storage.getStore()}`),
    });
    const open = gate();
    const a = storage.run("releaser", () => shield.execute(() => open.promise));
    const b = storage.run("waiter", () =>
      shield.execute(async () => {
        seen.push(storage.getStore());
        await flush();
        seen.push(storage.getStore());
      }),
    );
    await storage.run("refused", () => failure(shield.execute(() => 3)));
    storage.run("opener", () => open.open());
    await a;
    await b;
    expect(seen).toEqual(["hook refused", "waiter", "waiter"]);
  });

  it("in shadow lets everything through, and tells of what it would have refused", async () => {
    const reasons: unknown[] = [];
    const shield = Shield.concurrencyLimit(1, {
      shadow: true,
      onRejected: ({ reason, isShadow }) => void reasons.push([reason, isShadow]),
    });
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    expect(await shield.execute(() => 2)).toBe(2);
    open.open(1);
    expect([await a, reasons]).toEqual([1, [["limit_reached", true]]]);
    expect(shield.describe()).toBe("ConcurrencyLimit(1, shadow)");
  });
});

describe("the options of a concurrency limit", () => {
  it("are 10 places and no queue by default", () => {
    expect(Shield.concurrencyLimit({}).describe()).toBe("ConcurrencyLimit(10)");
  });

  it.each<[() => unknown, typeof TypeError | typeof RangeError, RegExp]>([
    [() => Shield.concurrencyLimit(0), RangeError, /maxConcurrency must be an integer from 1 .*; got 0\./],
    [() => Shield.concurrencyLimit(1.5), RangeError, /maxConcurrency must .*; got 1\.5\./],
    [() => Shield.concurrencyLimit("3" as never), TypeError, /maxConcurrency must .*; got "3"\./],
    [() => Shield.concurrencyLimit(undefined as never), TypeError, /maxConcurrency must .*; got undefined\./],
    [
      () => Shield.concurrencyLimit(null as never),
      TypeError,
      /ConcurrencyLimitOptions must be an object; got null/,
    ],
    [() => Shield.concurrencyLimit({ maxConcurrency: 0 }), RangeError, /maxConcurrency must .*; got 0\./],
    [() => Shield.concurrencyLimit(1, { queueLimit: -1 }), RangeError, /queueLimit must .*; got -1\./],
    [
      () => Shield.concurrencyLimit(1, { queueLimit: "3" as never }),
      TypeError,
      /queueLimit must .*; got "3"\./,
    ],
    [
      () => Shield.concurrencyLimit(1, { queueLimit: null as never }),
      TypeError,
      /queueLimit must .*; got null\./,
    ],
    [
      () => Shield.concurrencyLimit(1, { quueLimit: 1 } as never),
      TypeError,
      /quueLimit is not an option; did you mean ConcurrencyLimitOptions\.queueLimit\?/,
    ],
    [
      () => Shield.concurrencyLimit(1, { maxConcurrency: 1 } as never),
      TypeError,
      /maxConcurrency is not an option/,
    ],
    [
      () => Shield.concurrencyLimit({ usePriorityQueue: 1 as never }),
      TypeError,
      /usePriorityQueue must be true or false; got 1\./,
    ],
    [() => Shield.concurrencyLimit({ name: 1 as never }), TypeError, /name must be a string; got 1\./],
    [
      () => Shield.concurrencyLimit({ onRejected: 1 as never }),
      TypeError,
      /onRejected must be a function; got 1\./,
    ],
    [
      () => Shield.concurrencyLimit({ shadow: 1 as never }),
      TypeError,
      /shadow must be true or false; got 1\./,
    ],
  ])("%s is an error that names the options, the option and the value", (make, type, message) => {
    const error = thrown(make) as Error;
    expect(error).toBeInstanceOf(type);
    expect(error.message).toMatch(/^ConcurrencyLimitOptions/);
    expect(error.message).toMatch(message);
  });

  it("are copied", async () => {
    const options = { maxConcurrency: 1, queueLimit: 0, onRejected: () => {} };
    const shield = Shield.concurrencyLimit(options);
    Object.assign(options, {
      maxConcurrency: 5,
      queueLimit: 5,
      onRejected: () => {
        throw new Error("not this one");
      },
    });
    const open = gate();
    const a = shield.execute(() => open.promise);
    expect(isFull(await failure(shield.execute(() => 2)))).toBe(true);
    open.open();
    await a;
  });
});

describe("the errors of a shield", () => {
  it("are refusals, and know one another apart, also across copies of the library", async () => {
    const full = await failure(
      Shield.concurrencyLimit(1)
        .use(Shield.empty)
        .execute(() => {
          throw Object.create(ConcurrencyLimitExceededError.prototype);
        }),
    );
    expect([isFull(full), RateLimitRejectedError.is(full), RateLimitExceededError.is(full)]).toEqual([
      true,
      true,
      false,
    ]);
    const other = { [Symbol.for("headgate.RateLimitExceededError")]: true };
    expect([RateLimitExceededError.is(other), isFull(other)]).toEqual([true, false]);
    for (const no of [undefined, null, 1, {}, new Error("x"), new RateLimitRejectedError()]) {
      expect([isFull(no), RateLimitExceededError.is(no)]).toEqual([false, false]);
    }
  });

  it("tell which layer of which shield refused, in fields and in words", async () => {
    const clock = new ManualClock();
    const shield = Shield.empty
      .withClock(clock)
      .withName("search")
      .concurrencyLimit(5)
      .rateLimit(1, 10_000, { name: "quota" });
    await shield.execute(() => 1);
    expect(await failure(shield.execute(() => 2))).toMatchObject({
      strategyIndex: 1,
      strategyName: "quota",
      shieldName: "search",
      message:
        'RateLimit(1/10s) "quota" of shield "search" (layer 1, limit_reached) refused the call; retry after 10000 ms.',
    });
  });
});
