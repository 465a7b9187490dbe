import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  shadowed,
} from "headgate";
import { describe, expect, it } from "vitest";
import { CountingClock, flush, ManualClock, watch } from "../support.js";
import { concurrencyByKey, E, errorOf, show, stubbed } from "./support.js";

// The limiter of one resource as a member of chains and shadows, and what looking at it does: C-2, C-9, C-12, C-17, PT-16 of
// spec/rxjs-opentelemetry.md.

/** A partitioned limiter that does not say which clock its limiters live by: its own is the system's. */
function elsewhere(clock: ManualClock, queueLimit = 1, maxPartitions?: number) {
  const options = { permitLimit: 1, queueLimit, clock };
  return PartitionedRateLimiter.create(
    (key: string) => RateLimitPartition.getConcurrencyLimiter(key, () => options),
    { maxPartitions },
  );
}

describe("a chain of limiters of resources", () => {
  it.each<[string, (clock: ManualClock) => PartitionedRateLimiter<string>]>([
    ["with a clock of its own", (clock) => concurrencyByKey(1, { queueLimit: 1, clock }).limiter],
    ["whose limiters alone have the clock", (clock) => elsewhere(clock)],
    [
      "that is a view",
      (clock) =>
        concurrencyByKey<string>(1, { queueLimit: 1, clock }).limiter.withTranslatedKey(String, {
          leaveOpen: false,
        }),
    ],
    ["that is a chain", (clock) => PartitionedRateLimiter.createChained(elsewhere(clock), elsewhere(clock))],
  ])(
    "C-2 bounds the wait in all of them together by maxWaitMs: a partitioned limiter %s",
    async (_, make) => {
      const clock = new ManualClock();
      const [a, b] = [make(clock), make(clock)];
      const chain = RateLimiter.createChained(a.forResource("r"), b.forResource("r"));
      const [heldA, heldB] = [a.attemptAcquire("r"), b.attemptAcquire("r")];
      const waiting = watch(chain.acquire({ maxWaitMs: 100 }));
      clock.advance(80);
      heldA.dispose();
      await flush();
      expect(waiting.state).toBe("pending");
      clock.advance(20);
      await flush();
      expect(waiting.value.reason).toBe("queue_timeout");
      heldB.dispose();
      a.dispose();
      b.dispose();
    },
  );

  it("C-2 does so for the first request of all, before any limiter was there to tell the clock", async () => {
    const clock = new ManualClock({ startMs: 5e9 });
    const shared = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
    const held = shared.attemptAcquire();
    const a = PartitionedRateLimiter.create((key: string) => RateLimitPartition.get(key, () => shared));
    const b = elsewhere(clock);
    const heldB = b.attemptAcquire("r");
    const chain = RateLimiter.createChained(a.forResource("r"), b.forResource("r"));
    const waiting = watch(chain.acquire({ maxWaitMs: 100 }));
    clock.advance(80);
    held.dispose();
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(20);
    await flush();
    expect(waiting.value.reason).toBe("queue_timeout");
    heldB.dispose();
    for (const limiter of [a, b]) limiter.dispose();
  });

  it("C-2 does so in a chain of partitioned limiters whose limiters alone have the clock", async () => {
    const clock = new ManualClock();
    const [a, b] = [elsewhere(clock), elsewhere(clock)];
    const [heldA, heldB] = [a.attemptAcquire("r"), b.attemptAcquire("r")];
    const waiting = watch(PartitionedRateLimiter.createChained(a, b).acquire("r", { maxWaitMs: 100 }));
    clock.advance(80);
    heldA.dispose();
    await flush();
    clock.advance(20);
    await flush();
    expect(waiting.value.reason).toBe("queue_timeout");
    heldB.dispose();
    for (const limiter of [a, b]) limiter.dispose();
  });

  it("C-17 C-19 is handed over in one turn, so that nobody slips in between", () => {
    const a = concurrencyByKey(1, { queueLimit: 2 });
    const b = concurrencyByKey(1, { queueLimit: 2 });
    const chain = RateLimiter.createChained(a.limiter.forResource("r"), b.limiter.forResource("r"));
    const held = a.limiter.attemptAcquire("r");
    watch(chain.acquire());
    expect(show(b.limiter.peekStatistics("r"))).toBe("none");
    held.dispose();
    expect(show(b.limiter.peekStatistics("r"))).toBe("0/0/0/1");
  });

  it("C-17 has the place given up when the caller leaves, and who waits in a driven one keeps the process alive", async () => {
    const clock = new CountingClock();
    const options = { permitLimit: 1, windowMs: 1000, queueLimit: 1, autoReplenishment: false, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.getFixedWindowLimiter(key, () => options),
      { clock },
    );
    const chain = RateLimiter.createChained(limiter.forResource("a"));
    chain.attemptAcquire();
    const caller = new AbortController();
    const waiting = watch(chain.acquire({ signal: caller.signal }));
    expect(clock.keepAliveTimerCount).toBe(1);
    expect(show(limiter.peekStatistics("a"))).toBe("0/1/0/1");
    caller.abort(E);
    await flush();
    expect([waiting.reason, show(limiter.peekStatistics("a"))]).toEqual([E, "0/0/0/1"]);
  });

  it("PT-7 is refused where there is no room for a partition, and by a limiter that was disposed", async () => {
    const { limiter } = concurrencyByKey(1, { maxPartitions: 1, overflow: "reject" });
    limiter.attemptAcquire("a");
    const one = limiter.forResource("b");
    const chain = RateLimiter.createChained(one);
    expect((await chain.acquire()).reason).toBe("partition_overflow");
    one.dispose();
    expect(String(await errorOf(() => chain.acquire()))).toMatch(/^LimiterDisposedError/);
  });
});

describe("a shadow of the limiter of a resource", () => {
  it("counts who would have waited", async () => {
    const { limiter } = concurrencyByKey(1, { queueLimit: 1 });
    const shadow = shadowed(limiter.forResource("a"));
    await shadow.acquire();
    await shadow.acquire();
    expect([shadow.wouldHaveWaited, shadow.wouldHaveRefused]).toEqual([1, 0]);
    watch(limiter.acquire("a"));
    await shadow.acquire();
    expect([shadow.wouldHaveWaited, shadow.wouldHaveRefused]).toEqual([1, 1]);
  });

  it("counts who has no room for a partition as refused", async () => {
    const { limiter } = concurrencyByKey(1, { maxPartitions: 1, overflow: "reject", queueLimit: 1 });
    limiter.attemptAcquire("a");
    const shadow = shadowed(limiter.forResource("b"));
    await shadow.acquire();
    expect([shadow.wouldHaveWaited, shadow.wouldHaveRefused]).toEqual([0, 1]);
  });
});

describe("looking at the limiter of a resource", () => {
  it("PT-13 PT-16 makes no partition", () => {
    const { limiter, made } = stubbed<string>();
    const one = limiter.forResource("a");
    expect([one.getStatistics(), one.estimateWaitMs()]).toEqual([undefined, undefined]);
    // Nothing would be lost without what is not there.
    expect(one.idleDurationMs).toBe(Number.POSITIVE_INFINITY);
    RateLimiter.createChained(one).getStatistics();
    expect([made, limiter.size]).toEqual([[], 0]);
  });

  it("PT-13 shows the shared limiter to those for whom there is no room", () => {
    const { limiter } = concurrencyByKey(2, { maxPartitions: 1 });
    limiter.attemptAcquire("a");
    limiter.attemptAcquire("b", 2);
    const one = limiter.forResource("c");
    expect([show(one.getStatistics()), one.idleDurationMs]).toEqual(["0/0/0/1", undefined]);
    expect(limiter.size).toBe(1);
  });

  it("PT-6 lets partitions be dropped whose limiters are those of resources elsewhere", () => {
    const { limiter: inner, clock } = concurrencyByKey(1);
    const outer = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => inner.forResource(key)),
      { clock },
    );
    outer.attemptAcquire("a").dispose();
    expect(inner.delete("a")).toBe(true);
    clock.advance(60_000);
    expect([outer.size, inner.size]).toEqual([0, 0]);
  });

  it.each(["estimateWaitMs", "pause"] as const)("C-11 C-12 checks the arguments of %s first", (name) => {
    const full = concurrencyByKey(1, { maxPartitions: 1, overflow: "reject" });
    full.limiter.attemptAcquire("a");
    const resources = [
      stubbed<string>().limiter.forResource("a"),
      full.limiter.forResource("b"),
      PartitionedRateLimiter.createChained(full.limiter).forResource("a"),
    ];
    for (const one of resources) {
      expect(() => one[name](-5)).toThrow(RangeError);
      expect(() => one[name]("5" as never)).toThrow(TypeError);
      one.dispose();
      expect(() => one[name](-5)).toThrow(RangeError);
    }
  });
});

describe("pausing a resource that cannot be paused", () => {
  it("C-9 says why: no room", () => {
    const { limiter } = concurrencyByKey(1, { maxPartitions: 1, overflow: "reject" });
    limiter.attemptAcquire("a");
    expect(() => limiter.forResource("b").pause(5)).toThrow(
      new TypeError("This resource cannot be paused: there is no room for its partition."),
    );
  });

  it("C-9 says why: its limiter has no pause method", () => {
    const { limiter } = stubbed();
    expect(() => limiter.forResource("a").pause(5)).toThrow(
      new TypeError("This resource cannot be paused: its limiter, a Stub, has no pause method."),
    );
  });

  it("C-9 says why: nobody tells which limiter it is", () => {
    const chain = PartitionedRateLimiter.createChained(concurrencyByKey(1).limiter);
    expect(() => chain.forResource("a").pause(5)).toThrow(
      new TypeError(
        "This resource cannot be paused: its partitioned limiter was not made by PartitionedRateLimiter.create.",
      ),
    );
  });
});

describe("pausing a resource without a limit", () => {
  const HOUR = 3_600_000;
  const free = (maxPartitions?: number) => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () =>
          key.startsWith("free")
            ? new NoLimiter({ clock })
            : new ConcurrencyLimiter({ permitLimit: 1, clock }),
        ),
      { clock, maxPartitions },
    );
    return { clock, limiter };
  };

  it.each([undefined, 1])("C-9 pauses no other, and is not forgotten: maxPartitions %s", (maxPartitions) => {
    const { clock, limiter } = free(maxPartitions);
    for (const key of ["free 1", "free 2"]) limiter.attemptAcquire(key);
    limiter.forResource("free 1").pause(HOUR);
    const reasons = () => ["free 1", "free 2"].map((key) => limiter.attemptAcquire(key).reason);
    expect(reasons()).toEqual(["server_pause", undefined]);
    clock.advance(HOUR - 1);
    expect(reasons()).toEqual(["server_pause", undefined]);
    expect(limiter.delete("free 1")).toBe(false);
    clock.advance(1);
    expect(reasons()).toEqual([undefined, undefined]);
    clock.advance(60_000);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
  });

  it.each([
    ["a factory", "free"],
    ["getNoLimiter", "internal"],
  ])("C-9 says so when there is no room, and pauses nobody else: NoLimiter of %s", (_, key) => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (name: string) => {
        if (name === "internal") return RateLimitPartition.getNoLimiter(name);
        return RateLimitPartition.get(name, () =>
          name === "free" ? new NoLimiter() : new ConcurrencyLimiter({ permitLimit: 1, clock }),
        );
      },
      { clock, maxPartitions: 1 },
    );
    limiter.attemptAcquire("a");
    expect(() => limiter.forResource(key).pause(5)).toThrow(/there is no room for its partition/);
    expect(limiter.attemptAcquire(key).isAcquired).toBe(true);
    expect(limiter.attemptAcquire("b").isAcquired).toBe(true);
    expect(() => limiter.forResource("internal").pause(5)).toThrow(/there is no room for its partition/);
    expect(limiter.attemptAcquire("c").reason).toBe("limit_reached");
  });
});

describe("a bad priority", () => {
  const byPriority = () => {
    const clock = new ManualClock();
    const options = {
      permitLimit: 1,
      queueLimit: 5,
      queueProcessingOrder: "highestPriorityFirst" as const,
      clock,
    };
    return PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.getConcurrencyLimiter(key, () => options),
      { clock },
    );
  };
  const bad = { priority: 1.5, signal: AbortSignal.abort("ab") };

  it.each<[string, (limiter: PartitionedRateLimiter<string>) => Promise<RateLimitLease>]>([
    ["a partitioned limiter", (limiter) => limiter.acquire("x", 1, bad)],
    ["a chain", (limiter) => PartitionedRateLimiter.createChained(limiter).acquire("x", 1, bad)],
    ["a view", (limiter) => limiter.withTranslatedKey(String, { leaveOpen: true }).acquire("x", 1, bad)],
    [
      "the limiter of a resource",
      (limiter) => {
        limiter.attemptAcquire("x").dispose();
        return limiter.forResource("x").acquire(1, bad);
      },
    ],
  ])("C-12 comes before an aborted signal in %s", async (_, call) => {
    const error = await errorOf(() => call(byPriority()));
    expect(String(error)).toMatch(/^RangeError: options\.priority must be a safe integer; got 1\.5/);
  });

  it("C-12 comes before a count above the limit, and a type is a TypeError", async () => {
    const limiter = byPriority();
    expect(String(await errorOf(() => limiter.acquire("x", 9, { priority: 1.5 })))).toContain("priority");
    const text = { priority: "1" as never, signal: AbortSignal.abort("ab") };
    expect(await errorOf(() => limiter.acquire("x", 1, text))).toBeInstanceOf(TypeError);
  });

  it("C-12 means nothing to limiters that use none, to user's limiters, and to disposed ones", async () => {
    const { limiter, made } = stubbed<string>();
    expect((await concurrencyByKey(1).limiter.acquire("x", 1, { priority: 1.5 })).isAcquired).toBe(true);
    expect(await errorOf(() => concurrencyByKey(1).limiter.acquire("x", 1, bad))).toBe("ab");
    expect(await errorOf(() => limiter.acquire("x", 1, { ...bad, priority: 1 }))).toBe("ab");
    expect(made).toEqual([]);
    const disposed = byPriority();
    disposed.dispose();
    expect(await errorOf(() => disposed.acquire("x", 1, bad))).toBe("ab");
  });
});

describe("the inside of the limiter of a resource", () => {
  it("C-17 leads to that of the partition", async () => {
    const { getLimiterState } = await import("headgate/testing");
    const { limiter } = concurrencyByKey(3, { queueLimit: 2 });
    const one = limiter.forResource("a");
    expect(getLimiterState(one).isDisposed).toBe(false);
    expect(limiter.size).toBe(0);
    one.attemptAcquire(3);
    watch(one.acquire());
    const state = getLimiterState(one);
    expect([state.kind, state.permitLimit, state.queuedRequests]).toEqual(["ConcurrencyLimiter", 3, 1]);
    expect([...(state.queuedByPriority ?? [])]).toEqual([[0, 1]]);
    limiter.dispose();
    expect(getLimiterState(one).isDisposed).toBe(true);
  });
});

describe("a limiter that somebody else disposed", () => {
  it("PT-6 is dropped, so that a new one takes its place", () => {
    const clock = new ManualClock();
    const made: FixedWindowRateLimiter[] = [];
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () => {
          const one = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000, clock });
          made.push(one);
          return one;
        }),
      { clock, onBackgroundError: () => {} },
    );
    limiter.attemptAcquire("a");
    made[0]?.dispose();
    clock.advance(60_000);
    expect(limiter.size).toBe(0);
    expect(limiter.attemptAcquire("a").isAcquired).toBe(true);
  });

  it("PT-6 is dropped when it was a chain", () => {
    const clock = new ManualClock();
    const errors: unknown[] = [];
    const chain = RateLimiter.createChained(
      new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000, clock }),
    );
    const limiter = PartitionedRateLimiter.create((key: string) => RateLimitPartition.get(key, () => chain), {
      clock,
      onBackgroundError: (error) => errors.push(error),
    });
    limiter.attemptAcquire("a");
    chain.dispose();
    expect(show(limiter.getTotals())).toBe("0/0/0/0");
    clock.advance(60_000);
    expect([limiter.size, errors]).toEqual([0, []]);
  });

  it("PT-13 is shown by what it granted and refused before", () => {
    const clock = new ManualClock();
    const window = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000, clock });
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => window),
      { clock },
    );
    for (const key of ["a", "a"]) limiter.attemptAcquire(key);
    window.dispose();
    expect(show(limiter.getTotals())).toBe("0/0/1/1");
    expect([...limiter.entries()].map(({ statistics }) => show(statistics))).toEqual(["0/0/1/1"]);
  });
});
