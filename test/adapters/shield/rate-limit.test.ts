import {
  RateLimitExceededError,
  type RateLimitOptions,
  type RateLimitRejectedEvent,
  Shield,
} from "headgate/shield";
import { getShieldState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { failure, flush, ManualClock, thrown, watch } from "./support.js";

function limited(
  permits: number,
  windowMs: number,
  options: Omit<RateLimitOptions, "permits" | "windowMs"> = {},
  clock = new ManualClock(),
) {
  const shield = Shield.empty.withClock(clock).rateLimit(permits, windowMs, options);
  const run = <T>(value: T, signal?: AbortSignal) => watch(shield.execute(() => value, { signal }));
  const available = () => {
    const [state] = getShieldState(shield).strategies;
    return state?.kind === "rateLimit" ? [state.availablePermits, state.queuedExecutions] : undefined;
  };
  return { clock, shield, run, available };
}

/** How many of so many calls pass now; the others are refused. */
async function passing({ shield }: { shield: Shield }, calls: number): Promise<number> {
  const results = await Promise.allSettled(Array.from({ length: calls }, () => shield.execute(() => 1)));
  return results.filter(({ status }) => status === "fulfilled").length;
}

const hint = async ({ shield }: { shield: Shield }) => {
  const error = await failure(shield.execute(() => 1));
  if (!RateLimitExceededError.is(error)) throw error;
  return error.retryAfterMs;
};

describe("a rate limit", () => {
  it("refuses what comes too soon, and says when there will be a permit", async () => {
    const limit = limited(2, 10_000);
    expect(await passing(limit, 2)).toBe(2);
    expect(await failure(limit.shield.execute(() => 3))).toMatchObject({
      name: "RateLimitExceededError",
      code: "ERR_RATE_LIMIT_EXCEEDED",
      reason: "limit_reached",
      retryAfterMs: 5000,
    });
    limit.clock.advance(5000);
    expect(await passing(limit, 2)).toBe(1);
  });

  it.each([
    [1, 10_000, undefined, 10_000],
    [1, 10_000, 5, 10_000],
    [100, 1000, 200, 10],
    [1, 8_640_000_000, undefined, 8_640_000_000],
    [1, 1000, undefined, 1000],
    [1, 2000, undefined, 2000],
    [1, 5000, undefined, 5000],
  ])(
    "%i per %i ms with bursts of %s: a full bucket, then a permit in %i ms",
    async (permits, windowMs, burst, wait) => {
      const limit = limited(permits, windowMs, { burst });
      expect(await passing(limit, (burst ?? permits) + 3)).toBe(burst ?? permits);
      expect(await hint(limit)).toBe(wait);
      limit.clock.advance(wait - 1);
      expect(await hint(limit)).toBe(1);
      limit.clock.advance(1);
      expect(await passing(limit, 2)).toBe(1);
    },
  );

  it("refills evenly, and never beyond the burst", async () => {
    const limit = limited(10, 10_000);
    await passing(limit, 10);
    limit.clock.advance(1000);
    expect(await passing(limit, 2)).toBe(1);
    limit.clock.advance(600_000);
    expect(await passing(limit, 12)).toBe(10);
    const bucket = limited(100, 1000, { burst: 200 });
    await passing(bucket, 200);
    bucket.clock.advance(500);
    expect(bucket.available()).toEqual([50, 0]);
  });

  it.each([0.5, 1, 2, 5])(
    "after %d windows an empty bucket holds as much of it, at most all",
    async (windows) => {
      const limit = limited(100, 1000);
      await passing(limit, 100);
      limit.clock.advance(1000 * windows);
      expect(await passing(limit, 120)).toBe(Math.min(100, 100 * windows));
    },
  );

  it("does not give permits back for calls that fail", async () => {
    const limit = limited(2, 10_000);
    for (let i = 0; i < 2; i++) await failure(limit.shield.execute(() => Promise.reject(new Error("x"))));
    expect(await passing(limit, 1)).toBe(0);
  });

  it.each([-1000, 2 ** 40])(
    "keeps a step of a microsecond when its clock starts at %d ms",
    async (startMs) => {
      const limit = limited(1_000_000, 1000, { burst: 1 }, new ManualClock({ startMs }));
      expect(await passing(limit, 2)).toBe(1);
    },
  );

  it("lets calls wait for a permit up to its queue limit, in order", async () => {
    const limit = limited(1, 1000, { queueLimit: 2 });
    const calls = [1, 2, 3].map((value) => limit.run(value));
    expect(await failure(limit.shield.execute(() => 4))).toMatchObject({
      reason: "queue_full",
      retryAfterMs: 3000,
    });
    const states = () => calls.map(({ state }) => state);
    expect(states()).toEqual(["fulfilled", "pending", "pending"]);
    limit.clock.advance(1000);
    await flush();
    expect(states()).toEqual(["fulfilled", "fulfilled", "pending"]);
    limit.clock.advance(1000);
    await flush();
    expect(states()).toEqual(["fulfilled", "fulfilled", "fulfilled"]);
  });

  it("admits a crowd one by one, with advice for all it refuses", async () => {
    const limit = limited(1, 1000, { burst: 2, queueLimit: 3 });
    const calls = Array.from({ length: 12 }, (_, i) => limit.run(i));
    await flush();
    const count = (state: string) => calls.filter((call) => call.state === state).length;
    expect([count("fulfilled"), count("rejected"), count("pending")]).toEqual([2, 7, 3]);
    for (const { state, reason } of calls) {
      if (state === "rejected") expect((reason as RateLimitExceededError).retryAfterMs).toBeGreaterThan(0);
    }
    for (let second = 1; second <= 3; second++) {
      limit.clock.advance(1000);
      await flush();
      expect(count("fulfilled")).toBe(2 + second);
    }
  });

  it.each([0, 1, 2])("when waiter %i of three leaves, those behind it move up", async (leaver) => {
    const limit = limited(1, 1000, { queueLimit: 3 });
    await limit.run("first").promise;
    const leaving = new AbortController();
    const order: string[] = [];
    const waiters = [0, 1, 2].map((i) =>
      watch(limit.shield.execute(() => void order.push(`w${i}`), i === leaver ? leaving.signal : undefined)),
    );
    leaving.abort("left");
    const replacement = watch(limit.shield.execute(() => void order.push("replacement")));
    for (let second = 0; second < 3; second++) {
      limit.clock.advance(1000);
      await flush();
      expect(order).toHaveLength(second + 1);
    }
    expect(waiters[leaver]?.reason).toBe("left");
    expect(replacement.state).toBe("fulfilled");
    expect(order).toEqual([...[0, 1, 2].filter((i) => i !== leaver).map((i) => `w${i}`), "replacement"]);
  });

  it("owes nothing for those who left", async () => {
    const limit = limited(1, 1000, { queueLimit: 1 });
    await limit.run(0).promise;
    for (let i = 0; i < 50; i++) {
      const leaving = new AbortController();
      const call = limit.run(i, leaving.signal);
      leaving.abort("left");
      await flush();
      expect(call.reason).toBe("left");
    }
    const last = limit.run("last");
    limit.clock.advance(1000);
    await flush();
    expect(last.value).toBe("last");
  });

  it("a permit that has been granted is used, whatever its caller does then", async () => {
    const limit = limited(1, 1000, { queueLimit: 1 });
    await limit.run(0).promise;
    const leaving = new AbortController();
    const waiter = limit.run("waiter", leaving.signal);
    limit.clock.advance(1000);
    await flush();
    leaving.abort("left");
    expect(waiter.value).toBe("waiter");
    const next = limit.run("next");
    limit.clock.advance(999);
    await flush();
    expect(next.state).toBe("pending");
    limit.clock.advance(1);
    await flush();
    expect(next.value).toBe("next");
  });

  it.each(["before", "after"])(
    "aborting the second %s the first is let through touches the second only",
    async (when) => {
      const limit = limited(1, 1000, { queueLimit: 2 });
      await limit.run(0).promise;
      const leaving = new AbortController();
      const head = limit.run("head");
      const second = limit.run("second", leaving.signal);
      if (when === "before") leaving.abort("left");
      limit.clock.advance(1000);
      if (when === "after") leaving.abort("left");
      await flush();
      expect([head.value, second.reason]).toEqual(["head", "left"]);
    },
  );

  it("shows what is available and who waits", async () => {
    const limit = limited(2, 1000, { queueLimit: 1 });
    expect(limit.available()).toEqual([2, 0]);
    await limit.run(1).promise;
    expect(limit.available()).toEqual([1, 0]);
    await limit.run(2).promise;
    expect(limit.available()).toEqual([0, 0]);
    const leaving = new AbortController();
    limit.run(3, leaving.signal);
    expect(limit.available()).toEqual([0, 1]);
    leaving.abort();
    expect(limit.available()).toEqual([0, 0]);
  });

  it("tells the hook of its options, and not of calls that are given up", async () => {
    const events: RateLimitRejectedEvent[] = [];
    const limit = limited(1, 2000, { name: "orders", onRejected: (event) => void events.push(event) });
    await limit.run(1).promise;
    await failure(limit.shield.execute(() => 2));
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      retryAfterMs: 2000,
      permits: 1,
      windowMs: 2000,
      burst: 1,
      queueLimit: 0,
      strategyIndex: 0,
      strategyName: "orders",
      reason: "limit_reached",
    });
    const queued = limited(1, 1000, { queueLimit: 1, onRejected: (event) => void events.push(event) });
    await queued.run(1).promise;
    const leaving = new AbortController();
    queued.run(2, leaving.signal);
    leaving.abort();
    const replacement = queued.run(3);
    queued.clock.advance(1000);
    await flush();
    expect([replacement.value, events.length]).toEqual([3, 1]);
  });

  it("refunds a permit whose caller leaves in the turn of the grant", async () => {
    const limit = limited(1, 1000, { queueLimit: 1 });
    await limit.run(0).promise;
    const leaving = new AbortController();
    const call = limit.run(1, leaving.signal);
    limit.clock.advance(1000);
    leaving.abort("left");
    await flush();
    expect(call.reason).toBe("left");
    expect(await limit.run(2).promise).toBe(2);
  });

  it("in shadow lets everything through, and tells of what it would have refused", async () => {
    const hints: unknown[] = [];
    const limit = limited(1, 1000, {
      shadow: true,
      onRejected: (event) => void hints.push(event.retryAfterMs),
    });
    expect(await passing(limit, 3)).toBe(3);
    expect(hints).toEqual([1000, 1000]);
    expect(limit.shield.describe()).toBe("RateLimit(1/1s, shadow)");
  });
});

describe("the options of a rate limit", () => {
  it("are 100 a second by default", () => {
    expect(Shield.rateLimit({}).describe()).toBe("RateLimit(100/1s)");
  });

  it.each<[() => unknown, typeof TypeError | typeof RangeError, RegExp]>([
    [() => Shield.rateLimit(0, 1000), RangeError, /permits must .*; got 0\./],
    [() => Shield.rateLimit({ permits: "5" as never }), TypeError, /permits must .*; got "5"\./],
    [
      () => Shield.rateLimit(1, 0),
      RangeError,
      /windowMs must be a finite number of milliseconds above 0; got 0\./,
    ],
    [() => Shield.rateLimit(1, Number.POSITIVE_INFINITY), RangeError, /windowMs must .*; got Infinity\./],
    [() => Shield.rateLimit(1, undefined as never), TypeError, /windowMs must .*; got undefined\./],
    [() => Shield.rateLimit({ windowMs: null as never }), TypeError, /windowMs must .*; got null\./],
    [() => Shield.rateLimit(1, 1, { burst: 0 }), RangeError, /burst must .*; got 0\./],
    [() => Shield.rateLimit(1, 1, { queueLimit: -1 }), RangeError, /queueLimit must .*; got -1\./],
    [() => Shield.rateLimit(1, 1, { permits: 3 } as never), TypeError, /permits is not an option/],
    [
      () => Shield.rateLimit({ window: 3 } as never),
      TypeError,
      /window is not an option; did you mean RateLimitOptions\.windowMs\?/,
    ],
  ])("%s is an error that names the options, the option and the value", (make, type, message) => {
    const error = thrown(make) as Error;
    expect(error).toBeInstanceOf(type);
    expect(error.message).toMatch(/^RateLimitOptions\./);
    expect(error.message).toMatch(message);
  });
});
