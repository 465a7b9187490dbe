import { RateLimitRejectedError } from "headgate";
import {
  type AdaptiveConcurrencyLimitOptions,
  ConcurrencyLimitExceededError,
  type ConcurrencyLimitRejectedEvent,
  Shield,
} from "headgate/shield";
import { getShieldDescriptor, getShieldState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { failure, type Gate, gate, ManualClock, thrown } from "./support.js";

/** A shield whose limit finds its own number, in virtual time. */
function adaptive(options: Partial<AdaptiveConcurrencyLimitOptions> = {}) {
  const clock = new ManualClock();
  const shield = Shield.empty.withClock(clock).concurrencyLimit({ algorithm: "aimd", ...options });
  const state = () => {
    const [first] = getShieldState(shield).strategies;
    if (first?.kind !== "concurrencyLimit") throw new Error("no concurrency limit");
    return first;
  };
  /** Runs so many calls at the same time, for so long. */
  const run = async (durationMs: number, together = 1, work: () => unknown = () => undefined) => {
    const open = gate();
    const calls = Array.from({ length: together }, () =>
      shield.execute(async () => {
        await open.promise;
        return work();
      }),
    );
    clock.advance(durationMs);
    open.open();
    await Promise.allSettled(calls);
  };
  return { clock, shield, state, run, limit: () => state().currentLimit };
}

const fails = () => Promise.reject(new Error("overloaded"));

describe("an adaptive concurrency limit", () => {
  it("moves once for each window, and does not grow while less than half is in use", async () => {
    const { run, limit, clock } = adaptive();
    await run(100); // the first completion, at 100, opens the window
    clock.advance(799);
    await run(100);
    await run(101);
    expect(limit()).toBe(10);
  });

  it("grows by one after a healthy window in which half was in use", async () => {
    const { run, limit, clock } = adaptive();
    await run(100, 5);
    clock.advance(800);
    await run(100);
    expect(limit()).toBe(10);
    await run(100);
    expect(limit()).toBe(11);
  });

  it("shrinks after a window with slow calls, and follows latency that stays", async () => {
    const { shield, run, limit } = adaptive({ samplingWindowMs: 1 });
    // Enough that half of the limit is always in use.
    const open = gate();
    const holders = Array.from({ length: 5 }, () => shield.execute(() => open.promise));
    const seen: number[] = [];
    for (const ms of [100, 100, 300, 300, 300, 300]) {
      await run(ms);
      seen.push(limit());
    }
    // The first completion opens a window; each later one closes one. The usual latency goes 100, 120, 138, 154.2.
    expect(seen).toEqual([10, 11, 9, 8, 7, 8]);
    open.open();
    await Promise.all(holders);
  });

  it("shrinks after each window with a failure, down to the lowest limit", async () => {
    const { run, limit } = adaptive({ minLimit: 2 });
    await run(1, 1, fails);
    const seen: number[] = [];
    for (let window = 0; window < 9; window++) {
      await run(1000, 1, fails);
      seen.push(limit());
    }
    expect(seen).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 2]);
  });

  it("takes one step for a long quiet time, not many", async () => {
    const { run, limit, clock } = adaptive();
    await run(100, 5);
    clock.advance(10_000);
    await run(100);
    expect(limit()).toBe(11);
  });

  it.each<[string, () => unknown, number]>([
    ["an error", fails, 9],
    ["a time-out", () => Promise.reject(new DOMException("x", "TimeoutError")), 9],
    ["a refusal further in", () => Promise.reject(new RateLimitRejectedError()), 9],
    ["a response that says overload", () => new Response(null, { status: 503 }), 9],
    ["a value that stands for an error", () => ({ error: "overloaded" }), 10],
    ["a response that says not found", () => new Response(null, { status: 404 }), 10],
  ])("takes %s for what it is", async (_, work, expected) => {
    const { run, limit } = adaptive();
    await run(1);
    await run(1000, 1, work);
    expect(limit()).toBe(expected);
  });

  it("learns nothing from calls that are given up, nor from its own refusals", async () => {
    const { shield, run, limit, clock } = adaptive({ initialLimit: 1, maxLimit: 1 });
    const { limit: other, run: runOther, shield: otherShield, clock: otherClock } = adaptive();
    await runOther(1);
    const leaving = new AbortController();
    const call = failure(
      otherShield.execute(
        ({ signal }) => new Promise((_, no) => signal.addEventListener("abort", () => no(signal.reason))),
        leaving.signal,
      ),
    );
    otherClock.advance(2000);
    leaving.abort("left");
    expect(await call).toBe("left");
    await runOther(1);
    expect(other()).toBe(10);
    await run(1);
    const open = gate();
    const holder = shield.execute(() => open.promise);
    for (let i = 0; i < 5; i++) await failure(shield.execute(() => 1));
    clock.advance(2000);
    open.open();
    await holder;
    expect(limit()).toBe(1);
  });

  it("takes nothing from calls that run when it shrinks, and lets in again when they have gone", async () => {
    const events: ConcurrencyLimitRejectedEvent[] = [];
    const { shield, state, clock } = adaptive({
      initialLimit: 11,
      onRejected: (event) => void events.push(event),
    });
    const open: Gate[] = Array.from({ length: 11 }, () => gate());
    const calls = open.map(({ promise }) => shield.execute(() => promise));
    await failure(shield.execute(() => 1));
    expect(events).toMatchObject([{ maxConcurrency: 11, queueLimit: 0, reason: "limit_reached" }]);
    for (const call of calls) call.catch(() => {});
    open[0]?.fail(new Error("first"));
    await failure(calls[0] as Promise<unknown>);
    const refill = gate();
    const extra = shield.execute(() => refill.promise);
    clock.advance(1000);
    open[1]?.fail(new Error("at the end of the window"));
    await failure(calls[1] as Promise<unknown>);
    expect(state()).toMatchObject({ currentLimit: 9, runningExecutions: 10, availablePermits: 0 });
    expect(await failure(shield.execute(() => 1))).toBeInstanceOf(ConcurrencyLimitExceededError);
    expect(events.at(-1)).toMatchObject({ maxConcurrency: 9 });
    for (const one of open.slice(2, 4)) one.open();
    await Promise.all(calls.slice(2, 4));
    expect(state().runningExecutions).toBe(8);
    expect(await shield.execute(() => "in")).toBe("in");
    refill.open();
    for (const one of open.slice(4)) one.open();
    await Promise.all([extra, ...calls.slice(4)]);
  });

  it("is shared by all shields that are made of it, and keeps what it was made with", async () => {
    const options: AdaptiveConcurrencyLimitOptions = { algorithm: "aimd", initialLimit: 1 };
    const shield = Shield.concurrencyLimit(options);
    Object.assign(options, { initialLimit: 50 });
    const open = gate();
    const holder = shield.withName("other").execute(() => open.promise);
    expect(await failure(Shield.empty.use(shield).execute(() => 1))).toMatchObject({
      name: "ConcurrencyLimitExceededError",
      message: "ConcurrencyLimit(aimd 1..100, initial 1) (layer 0, limit_reached) refused the call.",
    });
    open.open();
    await holder;
  });

  it("starts a call in the same turn", async () => {
    let started = false;
    const call = Shield.concurrencyLimit({ algorithm: "aimd" }).execute(() => {
      started = true;
    });
    expect(started).toBe(true);
    await call;
  });

  it("is described by its settings", () => {
    expect(
      getShieldDescriptor(Shield.concurrencyLimit({ algorithm: "aimd", shadow: true })).strategies,
    ).toEqual([
      {
        kind: "adaptiveConcurrencyLimit",
        name: undefined,
        description: "ConcurrencyLimit(aimd 1..100, initial 10, shadow)",
        algorithm: "aimd",
        minLimit: 1,
        initialLimit: 10,
        maxLimit: 100,
        samplingWindowMs: 1000,
        decreaseFactor: 0.9,
        latencyTolerance: 2,
        shadow: true,
        hasNotification: false,
      },
    ]);
  });

  it.each([
    [{ minLimit: 20 }, "20..100, initial 20"],
    [{ maxLimit: 5 }, "1..5, initial 5"],
    [{ minLimit: 200 }, "200..200, initial 200"],
    [{}, "1..100, initial 10"],
  ])("has defaults that yield to %j", (options, text) => {
    const shield = Shield.concurrencyLimit({ algorithm: "aimd", ...options });
    expect(shield.describe()).toBe(`ConcurrencyLimit(aimd ${text})`);
  });

  it.each<[object, RegExp]>([
    [{ minLimit: 0 }, /minLimit must be an integer from 1/],
    [{ minLimit: 11, initialLimit: 10 }, /initialLimit must be an integer from 11 to 100 .*; got 10/],
    [{ initialLimit: 101 }, /initialLimit must be an integer from 1 to 100/],
    [{ minLimit: 5, initialLimit: 5, maxLimit: 4 }, /maxLimit must be an integer from 5/],
    [{ initialLimit: 2.5 }, /initialLimit must be an integer/],
    [{ samplingWindowMs: 0 }, /samplingWindowMs must be a finite number of milliseconds above 0/],
    [{ samplingWindowMs: Number.POSITIVE_INFINITY }, /samplingWindowMs must be/],
    [{ decreaseFactor: 0 }, /decreaseFactor must be above 0 and below 1; got 0/],
    [{ decreaseFactor: 1 }, /decreaseFactor must be/],
    [{ decreaseFactor: Number.NaN }, /decreaseFactor must be/],
    [{ latencyTolerance: 0.99 }, /latencyTolerance must be a finite number of at least 1/],
    [{ latencyTolerance: Number.POSITIVE_INFINITY }, /latencyTolerance must be/],
    [{ algorithm: "vegas" }, /algorithm must be "aimd"; got "vegas"/],
    [{ queueLimit: 3 }, /queueLimit is not an option/],
    [{ maxConcurrency: 3 }, /maxConcurrency is not an option/],
    [{ name: 3 }, /name must be a string/],
    [{ shadow: 3 }, /shadow must be true or false/],
  ])("refuses %j", (options, message) => {
    const error = thrown(() => Shield.concurrencyLimit({ algorithm: "aimd", ...options } as never)) as Error;
    expect(error.message).toMatch(/^AdaptiveConcurrencyLimitOptions\./);
    expect(error.message).toMatch(message);
  });
});
