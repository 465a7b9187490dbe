import { ConcurrencyLimiter, TokenBucketRateLimiter } from "headgate";
import {
  ConcurrencyLimitExceededError,
  type ConcurrencyLimitOptions,
  type ExecuteOptions,
  RateLimitExceededError,
  type RejectedEvent,
  Shield,
  ShieldKeys,
} from "headgate/shield";
import { getShieldState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { CountingClock } from "../../support.js";
import { failure, flush, gate, granted, ManualClock, StubLimiter, thrown, watch } from "./support.js";

const at = (priority: number | undefined): ExecuteOptions =>
  priority === undefined ? {} : { context: [ShieldKeys.priority.of(priority)] };

/** A full concurrency limit, and what comes of those who wait for it. */
function busy(options: Omit<ConcurrencyLimitOptions, "maxConcurrency">, clock = new ManualClock()) {
  const open = gate();
  const order: string[] = [];
  const reasons: unknown[] = [];
  const shield = Shield.empty.withClock(clock).concurrencyLimit(1, {
    onRejected: ({ reason }: RejectedEvent) => void reasons.push(reason),
    ...options,
  });
  const holder = shield.execute(() => open.promise);
  const wait = (name: string, priority?: number, more: ExecuteOptions = {}) =>
    watch(shield.execute(() => void order.push(name), { ...at(priority), ...more }));
  const drain = async () => {
    open.open();
    await holder;
    await flush();
  };
  const state = () => {
    const [first] = getShieldState(shield).strategies;
    if (first?.kind !== "concurrencyLimit") throw new Error("no concurrency limit");
    return first;
  };
  return { clock, shield, order, reasons, wait, drain, state };
}

describe("a priority queue", () => {
  it("serves the highest first, and equals in order of arrival; no priority is 0", async () => {
    const { wait, drain, order } = busy({ queueLimit: 6, usePriorityQueue: true });
    wait("a", 0);
    wait("b", 5);
    wait("c", -1);
    wait("d", 5);
    wait("e");
    wait("f", -0);
    await drain();
    expect(order).toEqual(["b", "d", "a", "e", "f", "c"]);
  });

  it("drops the newest of the lowest for a higher one, which is there before the dropped one hears of it", async () => {
    const seen: unknown[] = [];
    const { wait, drain, order, reasons, state } = busy({
      queueLimit: 2,
      usePriorityQueue: true,
      onRejected: ({ reason }) => {
        seen.push(reason, [...state().queuedByPriority], state().queuedExecutions);
      },
    });
    wait("a", 0);
    const b = wait("b", 0);
    wait("c", 1);
    await flush();
    expect(b.reason).toBeInstanceOf(ConcurrencyLimitExceededError);
    expect(b.reason).toMatchObject({ reason: "queue_evicted", retryAfterMs: undefined });
    expect(seen).toEqual([
      "queue_evicted",
      [
        [1, 1],
        [0, 1],
      ],
      2,
    ]);
    await drain();
    expect([order, reasons]).toEqual([["c", "a"], []]);
  });

  it("refuses equals and lower ones when it is full, and drops nobody for them", async () => {
    const { wait, drain, order } = busy({ queueLimit: 2, usePriorityQueue: true });
    wait("a", 3);
    wait("b", 3);
    const late = [wait("c", 3), wait("d", 2)];
    await flush();
    expect(late.map(({ reason }) => (reason as ConcurrencyLimitExceededError).reason)).toEqual([
      "queue_full",
      "queue_full",
    ]);
    await drain();
    expect(order).toEqual(["a", "b"]);
  });

  it("drops one after another for ever higher ones", async () => {
    const { wait, drain, order, reasons } = busy({ queueLimit: 3, usePriorityQueue: true });
    for (const [name, priority] of [
      ["a", 5],
      ["b", 1],
      ["c", 1],
      ["d", 2],
      ["e", 2],
      ["f", 2],
    ] as const) {
      wait(name, priority);
      await flush();
    }
    await drain();
    expect([order, reasons]).toEqual([
      ["a", "d", "e"],
      ["queue_evicted", "queue_evicted", "queue_full"],
    ]);
  });

  it("touches nothing that runs, and nothing without a queue", async () => {
    const shield = Shield.concurrencyLimit(1, { usePriorityQueue: true });
    const open = gate<number>();
    const a = shield.execute(() => open.promise, at(-10));
    expect(await failure(shield.execute(() => 2, at(100)))).toMatchObject({ reason: "limit_reached" });
    open.open(1);
    expect(await a).toBe(1);
  });

  it("is off by default: a priority alone changes nothing, and is not even looked at", async () => {
    const { wait, drain, order, state } = busy({ queueLimit: 1 });
    wait("a", 0);
    const b = wait("b", 9);
    const c = wait("c", Number.NaN);
    expect([state().queuedExecutions, state().queuedByPriority.size]).toEqual([1, 0]);
    await drain();
    expect([b.state, c.state, order]).toEqual(["rejected", "rejected", ["a"]]);
    expect(c.reason).toBeInstanceOf(ConcurrencyLimitExceededError);
  });

  it("shows who waits by priority, in a snapshot that nothing changes any more", async () => {
    const { wait, drain, state } = busy({ queueLimit: 4, usePriorityQueue: true });
    for (const priority of [undefined, 5, 5, -2]) wait("x", priority);
    const { queuedByPriority, queuedExecutions } = state();
    const expected = [
      [5, 2],
      [0, 1],
      [-2, 1],
    ];
    expect([...queuedByPriority]).toEqual(expected);
    expect(queuedExecutions).toBe(4);
    const map = queuedByPriority as Map<number, number>;
    for (const change of [() => map.set(1, 1), () => map.delete(5), () => map.clear()]) {
      expect(change).toThrow(TypeError);
    }
    await drain();
    expect([...queuedByPriority]).toEqual(expected);
    expect(state().queuedByPriority.size).toBe(0);
  });

  it.each<[unknown, typeof RangeError | typeof TypeError]>([
    [1.5, RangeError],
    [Number.NaN, RangeError],
    [2 ** 53, RangeError],
    ["1", TypeError],
  ])("refuses a priority of %s, and has changed nothing then", async (priority, type) => {
    const { shield, state, drain } = busy({ queueLimit: 1, usePriorityQueue: true });
    const before = state();
    const error = await failure(shield.execute(() => 1, at(priority as number)));
    expect(error).toBeInstanceOf(type);
    expect((error as Error).message).toMatch(/priority must be a safe integer/);
    expect(state()).toEqual(before);
    await drain();
  });

  it("a waiter that leaves before it is dropped is cancelled, one that was dropped and leaves before it hears of it too", async () => {
    for (const first of ["abort", "arrival"]) {
      const { wait, drain, reasons } = busy({ queueLimit: 1, usePriorityQueue: true });
      const leaving = new AbortController();
      const a = wait("a", 0, { signal: leaving.signal });
      if (first === "abort") leaving.abort("left");
      const b = wait("b", 1);
      if (first === "arrival") leaving.abort("left");
      await drain();
      expect([a.reason, b.state, reasons]).toEqual(["left", "fulfilled", []]);
    }
  });

  it("of a rate limit gives the permit to the highest when it comes, and keeps none for anybody", async () => {
    const clock = new ManualClock();
    const shield = Shield.empty
      .withClock(clock)
      .rateLimit(1, 1000, { queueLimit: 3, queueTimeoutMs: 3500, usePriorityQueue: true });
    await shield.execute(() => 1);
    const order: string[] = [];
    const wait = (name: string, priority: number, signal?: AbortSignal) =>
      watch(shield.execute(() => void order.push(name), { ...at(priority), signal }));
    wait("a", 0);
    clock.advance(500);
    wait("b", 5);
    clock.advance(500);
    await flush();
    expect(order).toEqual(["b"]);
    clock.advance(1000);
    await flush();
    expect(order).toEqual(["b", "a"]);
    // Dropped, given up and timed out in turn: none of them leaves a debt.
    const leaving = new AbortController();
    const gone = [wait("c", 0), wait("d", 1, leaving.signal), wait("e", 2), wait("f", 3)];
    leaving.abort("left");
    await flush();
    expect(gone.map(({ state }) => state)).toEqual(["rejected", "rejected", "pending", "pending"]);
    expect(gone[0]?.reason).toBeInstanceOf(RateLimitExceededError);
    clock.advance(10_000);
    await flush();
    expect(await shield.execute(() => "fresh")).toBe("fresh");
  });

  it("can starve the low, until their time is up", async () => {
    const { wait, clock } = busy({ queueLimit: 100, usePriorityQueue: true, queueTimeoutMs: 250 });
    const low = wait("low", 0);
    for (let t = 0; t < 250; t += 10) {
      wait("high", 9);
      clock.advance(10);
      await flush();
    }
    expect(low.reason).toMatchObject({ reason: "queue_timeout" });
  });
});

describe("a queue time-out", () => {
  it("ends the wait when it is over, and gives the place free at once", async () => {
    const { wait, clock, reasons, state, drain } = busy({ queueLimit: 1, queueTimeoutMs: 250 });
    const b = wait("b");
    clock.advance(249);
    await flush();
    expect(b.state).toBe("pending");
    clock.advance(1);
    expect(state().queuedExecutions).toBe(0);
    await flush();
    expect(b.reason).toMatchObject({ reason: "queue_timeout", retryAfterMs: undefined });
    expect(reasons).toEqual(["queue_timeout"]);
    await drain();
  });

  it("has no effect on a call that has been let through", async () => {
    const { shield, clock, drain } = busy({ queueLimit: 1, queueTimeoutMs: 250 });
    const work = gate<string>();
    const b = watch(shield.execute(() => work.promise));
    clock.advance(200);
    await drain();
    expect(clock.timerCount).toBe(0);
    clock.advance(10_000);
    work.open("b");
    expect(await b.promise).toBe("b");
  });

  it.each(["abort first", "time-out first"])("a caller who leaves comes before it: %s", async (first) => {
    const { wait, clock, reasons, drain } = busy({ queueLimit: 1, queueTimeoutMs: 250 });
    const leaving = new AbortController();
    const b = wait("b", undefined, { signal: leaving.signal });
    if (first === "abort first") leaving.abort("left");
    clock.advance(250);
    if (first === "time-out first") leaving.abort("left");
    await drain();
    expect([b.reason, reasons]).toEqual(["left", []]);
  });

  it("sets no timer for calls that do not wait", async () => {
    const clock = new CountingClock();
    const shield = Shield.empty.withClock(clock).concurrencyLimit(1, { queueTimeoutMs: 250 });
    const open = gate();
    const a = shield.execute(() => open.promise);
    await failure(shield.execute(() => 2));
    open.open();
    await a;
    const queueing = Shield.empty
      .withClock(clock)
      .concurrencyLimit(1, { queueLimit: 1, queueTimeoutMs: 250 });
    await queueing.execute(() => 1);
    expect(clock.timersSet).toBe(0);
  });

  it.each<[unknown, typeof TypeError | typeof RangeError]>([
    [0, RangeError],
    [-1, RangeError],
    [Number.NaN, RangeError],
    [Number.POSITIVE_INFINITY, RangeError],
    [4_294_967_295, RangeError],
    [null, TypeError],
    ["250", TypeError],
  ])("cannot be %s", (queueTimeoutMs, type) => {
    for (const make of [
      () => Shield.concurrencyLimit(1, { queueTimeoutMs: queueTimeoutMs as number }),
      () => Shield.rateLimit(1, 1, { queueTimeoutMs: queueTimeoutMs as number }),
    ]) {
      const error = thrown(make);
      expect(error).toBeInstanceOf(type);
      expect((error as Error).message).toMatch(
        /Options\.queueTimeoutMs must be a number of milliseconds above 0 and up to 4294967294, or left out/,
      );
    }
  });

  it("can be 4294967294 ms, longer than the timer of a host", async () => {
    const { wait, clock, drain } = busy({ queueLimit: 1, queueTimeoutMs: 4_294_967_294 });
    const b = wait("b");
    clock.advance(2 ** 31);
    await flush();
    expect(b.state).toBe("pending");
    clock.advance(4_294_967_294 - 2 ** 31);
    await flush();
    expect(b.reason).toMatchObject({ reason: "queue_timeout" });
    await drain();
  });

  it("counts for each call from its own arrival, by one timer", async () => {
    const { wait, clock, drain } = busy({ queueLimit: 3, queueTimeoutMs: 250 });
    const ended: [string, number][] = [];
    const arrive = (name: string) => {
      wait(name).promise.catch(() => ended.push([name, clock.now()]));
      expect(clock.timerCount).toBe(1);
    };
    for (let t = 0; t <= 450; t += 50) {
      if (t % 100 === 0 && t < 300) arrive(`at ${t}`);
      expect(clock.timerCount).toBeLessThan(2);
      clock.advance(50);
      await flush();
    }
    expect(ended).toEqual([
      ["at 0", 250],
      ["at 100", 350],
      ["at 200", 450],
    ]);
    await drain();
  });

  it("of a rate limit owes nothing to those whose time was up", async () => {
    const clock = new ManualClock();
    const shield = Shield.empty.withClock(clock).rateLimit(1, 1000, { queueLimit: 2, queueTimeoutMs: 400 });
    await shield.execute(() => 1);
    const calls = [shield.execute(() => 2), shield.execute(() => 3)].map(watch);
    clock.advance(400);
    await flush();
    for (const { reason } of calls)
      expect(reason).toMatchObject({ reason: "queue_timeout", retryAfterMs: undefined });
    clock.advance(600);
    expect(await shield.execute(() => 4)).toBe(4);
  });

  it("of a rate limit lets those behind move up", async () => {
    const clock = new ManualClock();
    const shield = Shield.empty.withClock(clock).rateLimit(1, 1000, { queueLimit: 2, queueTimeoutMs: 800 });
    await shield.execute(() => 1);
    const b = watch(shield.execute(() => "b"));
    clock.advance(300);
    const c = watch(shield.execute(() => "c"));
    clock.advance(500);
    await flush();
    expect([b.state, c.state]).toEqual(["rejected", "pending"]);
    clock.advance(200);
    await flush();
    expect(c.value).toBe("c");
  });
});

describe("a deadline", () => {
  const options = (clock: ManualClock, inMs: number): ExecuteOptions => ({
    context: [ShieldKeys.deadline.of(clock.now() + inMs)],
  });

  it("bounds the wait, and refuses at once who evidently cannot make it", async () => {
    const clock = new ManualClock({ startMs: 5000 });
    const shield = Shield.empty.withClock(clock).rateLimit(1, 1000, { queueLimit: 5 });
    await shield.execute(() => 1);
    const waiters = [shield.execute(() => 2), shield.execute(() => 3)].map(watch);
    expect(await failure(shield.execute(() => 4, options(clock, 2000)))).toMatchObject({
      reason: "deadline_unmet",
      retryAfterMs: 3000,
    });
    const inTime = watch(shield.execute(() => 5, options(clock, 3000)));
    clock.advance(3000);
    await flush();
    expect([...waiters.map(({ value }) => value), inTime.value]).toEqual([2, 3, 5]);
  });

  it("ends a wait that takes longer than it can", async () => {
    const { shield, clock, drain } = busy({ queueLimit: 1 });
    const b = watch(shield.execute(() => 2, options(clock, 300)));
    clock.advance(300);
    await flush();
    expect(b.reason).toMatchObject({ reason: "queue_timeout" });
    await drain();
  });

  it("that is now lets in only at once; one that has passed does not even that", async () => {
    const { shield, clock, drain } = busy({ queueLimit: 1 });
    expect(await failure(shield.execute(() => 2, options(clock, 0)))).toMatchObject({
      reason: "limit_reached",
    });
    await drain();
    expect(await shield.execute(() => 3, options(clock, 0))).toBe(3);
    expect(await failure(shield.execute(() => 4, options(clock, -1)))).toMatchObject({
      reason: "deadline_expired",
      strategyIndex: 0,
    });
  });

  it("leaves to each limit what the one before it has left", async () => {
    const clock = new ManualClock();
    const limiter = new StubLimiter(() => granted());
    const shield = Shield.empty
      .withClock(clock)
      .concurrencyLimit(1, { queueLimit: 1 })
      .useRateLimiter(limiter);
    const open = gate();
    const a = shield.execute(() => open.promise);
    const b = shield.execute(() => 2, options(clock, 500));
    clock.advance(200);
    open.open();
    await a;
    await b;
    expect(limiter.lastOptions?.maxWaitMs).toBe(300);
  });

  it("is measured by the shield's clock, and can be infinite", async () => {
    const limiter = new StubLimiter(() => granted());
    const shield = Shield.empty.useRateLimiter(limiter);
    await shield.execute(() => 1, {
      context: (context) => context.set(ShieldKeys.deadline, context.clock.now() + 500),
    });
    const left = limiter.lastOptions?.maxWaitMs ?? 0;
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(500);
    await shield.execute(() => 1, { context: [ShieldKeys.deadline.of(Number.POSITIVE_INFINITY)] });
    expect(limiter.lastOptions?.maxWaitMs).toBeUndefined();
  });

  it.each<[unknown, typeof TypeError | typeof RangeError]>([
    [Number.NaN, RangeError],
    ["soon", TypeError],
    [null, TypeError],
  ])("cannot be %s", async (deadline, type) => {
    const shield = Shield.concurrencyLimit(1);
    const error = await failure(
      shield.execute(() => 1, { context: [ShieldKeys.deadline.of(deadline as number)] }),
    );
    expect(error).toBeInstanceOf(type);
    expect((error as Error).message).toMatch(/ShieldKeys\.deadline must be a number of milliseconds/);
  });
});

describe("races", () => {
  it.each<[string, (abort: () => void, release: () => void) => void | Promise<void>, boolean]>([
    [
      "abort, then release",
      (abort, release) => {
        abort();
        release();
      },
      false,
    ],
    [
      "release, then abort",
      (abort, release) => {
        release();
        abort();
      },
      false,
    ],
    [
      "release, a microtask, then abort",
      async (abort, release) => {
        release();
        await Promise.resolve();
        abort();
      },
      true,
    ],
  ])("%s: the caller leaves, and the place is not lost", async (_, act, ran) => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = limiter.attemptAcquire();
    const shield = Shield.empty.useRateLimiter(limiter);
    const leaving = new AbortController();
    let started = false;
    const b = failure(
      shield.execute(({ signal }) => {
        started = true;
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
      }, leaving.signal),
    );
    await act(
      () => leaving.abort("left"),
      () => held.dispose(),
    );
    expect([await b, started]).toEqual(["left", ran]);
    const open = gate();
    const c = shield.execute(() => open.promise);
    const d = shield.execute(() => "d");
    expect(await failure(shield.execute(() => "e"))).toMatchObject({ reason: "queue_full" });
    open.open();
    await c;
    expect(await d).toBe("d");
  });

  it("32 rounds of success, failure, cancellation and replacement leave all places", async () => {
    const shield = Shield.concurrencyLimit(2, { queueLimit: 3 });
    let running = 0;
    let peak = 0;
    for (let round = 0; round < 32; round++) {
      const gates = [gate(), gate()];
      const counted = (work: () => unknown) => async () => {
        running += 1;
        peak = Math.max(peak, running);
        try {
          return await work();
        } finally {
          running -= 1;
        }
      };
      const leaving = new AbortController();
      const first = gates.map(({ promise }) => shield.execute(counted(() => promise)));
      const success = shield.execute(counted(() => "success"));
      const fails = failure(shield.execute(counted(() => Promise.reject("failure"))));
      const leaves = failure(
        shield.execute(
          counted(() => "never"),
          leaving.signal,
        ),
      );
      leaving.abort("left");
      const replacement = shield.execute(counted(() => "replacement"));
      for (const one of gates) one.open();
      await Promise.all(first);
      expect([await success, await fails, await leaves, await replacement]).toEqual([
        "success",
        "failure",
        "left",
        "replacement",
      ]);
      expect([peak, running]).toEqual([2, 0]);
    }
  });

  it("a call may abort the next one in the queue while it runs", async () => {
    const shield = Shield.concurrencyLimit(1, { queueLimit: 3 });
    const open = gate();
    const leaving = new AbortController();
    const a = shield.execute(() => open.promise);
    const b = shield.execute(() => leaving.abort("left"));
    const c = failure(shield.execute(() => "c", leaving.signal));
    const d = shield.execute(() => "d");
    open.open();
    await Promise.all([a, b]);
    expect([await c, await d]).toEqual(["left", "d"]);
  });

  it("a limiter that is disposed after it has granted has granted", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = limiter.attemptAcquire();
    const b = Shield.empty.useRateLimiter(limiter).execute(() => "b");
    held.dispose();
    limiter.dispose();
    expect(await b).toBe("b");
  });

  it("a bucket gives a grant back whose caller left between the grant and the start", async () => {
    const clock = new ManualClock();
    const bucket = new TokenBucketRateLimiter({
      tokenLimit: 1,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 1000,
      refill: "continuous",
      queueLimit: 2,
      clock,
    });
    const shield = Shield.empty.useRateLimiter(bucket);
    await shield.execute(() => 1);
    const leaving = new AbortController();
    const b = failure(shield.execute(() => 2, leaving.signal));
    const c = watch(shield.execute(() => 3));
    clock.advance(1000);
    leaving.abort("left");
    expect(await b).toBe("left");
    await flush();
    // Its permit is the next one's, at the very same moment.
    expect(c.value).toBe(3);
  });
});
