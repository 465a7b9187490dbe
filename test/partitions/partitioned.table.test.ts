import {
  type AcquireOptions,
  ConcurrencyLimiter,
  LimiterDisposedError,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  ReplenishingRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";
import { concurrencyByKey, E, errorOf, errorsOf, F, Stub, type StubPlan, show, stubbed } from "./support.js";

// Rows T-PART-01 to T-PART-31 of spec/system-threading-ratelimiting.md, by their ids. Where a row runs a heartbeat by
// hand, time passes here: the beat comes every 100 ms while somebody needs it, idle partitions are dropped after 10 s
// (design.md C-23, C-24), and what .NET's heartbeat throws reaches `onBackgroundError` (D-12).

/** A partitioned limiter whose cores must not be reached. */
class Unreachable extends PartitionedRateLimiter<string> {
  override getStatistics(): undefined {}
  protected override attemptAcquireCore(): RateLimitLease {
    return expect.unreachable("attemptAcquireCore was reached");
  }
  protected override acquireCore(): RateLimitLease {
    return expect.unreachable("acquireCore was reached");
  }
}

describe("a partitioned limiter that a user wrote", () => {
  it.each([-1, 1.5, Number.NaN])(
    "T-PART-01 T-PART-02 R-PART-1 is not asked for %d permits",
    async (count) => {
      expect(() => new Unreachable().attemptAcquire("r", count)).toThrow(RangeError);
      expect(await errorOf(() => new Unreachable().acquire("r", count))).toBeInstanceOf(RangeError);
    },
  );

  it("T-PART-03 R-PART-1 is not asked for a caller who has left", async () => {
    const signal = AbortSignal.abort(E);
    expect(await errorOf(() => new Unreachable().acquire("r", 1, { signal }))).toBe(E);
    expect(await errorOf(() => new Unreachable().acquire("r", { signal }))).toBe(E);
  });

  it("R-CORE-23 is disposed once by dispose, and asynchronously first by asyncDispose", async () => {
    const log: string[] = [];
    class Disposing extends Unreachable {
      protected override disposeCore(): void {
        log.push("sync");
      }
      protected override async disposeAsyncCore(): Promise<void> {
        await flush();
        log.push("async");
      }
    }
    new Disposing()[Symbol.dispose]();
    expect(log.splice(0)).toEqual(["sync"]);
    await new Disposing()[Symbol.asyncDispose]();
    expect(log).toEqual(["async", "sync"]);
  });

  it("R-CORE-3 hands on what has been checked, and rejects with what its core throws", async () => {
    const seen: unknown[] = [];
    class Throwing extends Unreachable {
      protected override acquireCore(
        ...args: [resource?: string, count?: number, options?: AcquireOptions]
      ): never {
        seen.push(args);
        throw E;
      }
    }
    const asked = new Throwing().acquire("r", { maxWaitMs: 5 });
    expect(seen).toEqual([["r", 1, { maxWaitMs: 5 }]]);
    expect(await errorOf(() => asked)).toBe(E);
  });
});

describe("a partition", () => {
  it("T-PART-04 R-PART-6 is asked by attempt", () => {
    const { limiter, made, log } = stubbed();
    expect(limiter.attemptAcquire("a", 3).isAcquired).toBe(true);
    expect([made, log]).toEqual([["a"], ["a attempt 3"]]);
  });

  it("T-PART-05 R-PART-6 is asked by acquire, with the options", async () => {
    const { limiter, made, log } = stubbed();
    const { signal } = new AbortController();
    await limiter.acquire("a");
    await limiter.acquire("a", 2, { signal, maxWaitMs: 9 });
    await limiter.acquire("a", { maxWaitMs: 0 });
    expect(made).toEqual(["a"]);
    expect(log).toEqual(["a acquire 1", "a acquire 2 abortable within 9", "a acquire 1 within 0"]);
  });

  it("T-PART-06 R-PART-6 is made and asked by getStatistics", () => {
    const { limiter, made, log } = stubbed();
    limiter.getStatistics("a");
    expect([made, log]).toEqual([["a"], ["a statistics"]]);
  });

  it("T-PART-07 R-PART-3 is made once", async () => {
    const { limiter, made, log } = stubbed();
    for (let i = 0; i < 2; i++) {
      limiter.attemptAcquire("a");
      await limiter.acquire("a");
    }
    expect(made).toEqual(["a"]);
    expect(log).toEqual(["a attempt 1", "a acquire 1", "a attempt 1", "a acquire 1"]);
  });

  it("T-PART-08 is chosen by the partitioner, whose later factories are ignored", () => {
    const made: string[] = [];
    const log: string[] = [];
    let run = 0;
    const limiter = PartitionedRateLimiter.create(
      (resource: string) => {
        run += 1;
        const name = `run ${run}`;
        return RateLimitPartition.get(resource === "1" ? 1 : 2, (key) => {
          made.push(`${key} by ${name}`);
          return new Stub(String(key), log);
        });
      },
      { clock: new ManualClock() },
    );
    for (const resource of ["1", "2", "1", "other"]) limiter.attemptAcquire(resource);
    expect(made).toEqual(["1 by run 1", "2 by run 2"]);
    expect(log).toEqual(["1 attempt 1", "2 attempt 1", "1 attempt 1", "2 attempt 1"]);
    expect(run).toBe(4);
  });

  it("T-PART-09 does not wait for another", async () => {
    const clock = new ManualClock();
    const log: string[] = [];
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        key === "1"
          ? RateLimitPartition.get(key, () => new Stub(key, log))
          : RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1, queueLimit: 2, clock })),
      { clock },
    );
    const held = await limiter.acquire("2");
    const waiting = watch(limiter.acquire("2"));
    const other = watch(limiter.acquire("1"));
    await flush();
    expect([waiting.state, other.state]).toEqual(["pending", "fulfilled"]);
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(log).toEqual(["1 acquire 1"]);
  });

  it("T-PART-10 R-PART-4 is made by the first of two callers of one turn", async () => {
    const { limiter, made, logged } = stubbed<number>();
    await Promise.all([1, 1, 2, 2].map((key) => limiter.acquire(key)));
    expect(made).toEqual([1, 2]);
    expect(logged()).toEqual(["1 acquire 1", "1 acquire 1", "2 acquire 1", "2 acquire 1"]);
  });

  it("T-PART-11 D-10 (C-22) is found as in a Map: there is no comparer", () => {
    const { limiter, made } = stubbed<unknown>();
    const object = {};
    const keys = [1, "1", 1n, Number.NaN, Number.NaN, 0, -0, object, object, {}, null, undefined, null];
    for (const key of keys) limiter.attemptAcquire(key);
    expect(made).toEqual([1, "1", 1n, Number.NaN, 0, object, {}, null, undefined]);
    expect(limiter.size).toBe(9);
  });

  it("T-PART-21 R-PART-6 passes the caller's leaving on", async () => {
    const { limiter } = concurrencyByKey(1, { queueLimit: 1 });
    limiter.attemptAcquire("a");
    const caller = new AbortController();
    const waiting = watch(limiter.acquire("a", 1, { signal: caller.signal }));
    await flush();
    expect(waiting.state).toBe("pending");
    caller.abort(E);
    await flush();
    expect(waiting.reason).toBe(E);
    expect(show(limiter.getStatistics("a"))).toBe("0/0/0/1");
  });

  it("R-PART-6 gives its own lease", async () => {
    const lease = new NoLimiter().attemptAcquire();
    class Same extends NoLimiter {
      protected override attemptAcquireCore(): RateLimitLease {
        return lease;
      }
    }
    const limiter = PartitionedRateLimiter.create(() => RateLimitPartition.get("k", () => new Same()), {
      clock: new ManualClock(),
    });
    expect(limiter.attemptAcquire("r")).toBe(lease);
    expect(await limiter.acquire("r")).toBe(lease);
  });
});

describe("a partitioner", () => {
  it("R-PART-2 PT-1 T-PT1 that throws is the caller's error, and makes nothing", async () => {
    let broken = true;
    const limiter = PartitionedRateLimiter.create(
      (key: string) => {
        if (broken) throw E;
        return RateLimitPartition.get(key, () => new NoLimiter());
      },
      { clock: new ManualClock() },
    );
    const calls = [
      () => limiter.attemptAcquire("a"),
      () => limiter.acquire("a"),
      () => limiter.getStatistics("a"),
      () => limiter.peekStatistics("a"),
      () => limiter.forResource("a"),
    ];
    for (const call of calls) expect(await errorOf(call)).toBe(E);
    expect(limiter.size).toBe(0);
    broken = false;
    expect(limiter.attemptAcquire("a").isAcquired).toBe(true);
  });

  it.each<[string, unknown]>([
    ["a promise", Promise.resolve(RateLimitPartition.getNoLimiter("a"))],
    ["nothing", undefined],
    ["a key", "a"],
    ["an object that looks like a partition", { partitionKey: "a", factory: () => new NoLimiter() }],
  ])("PT-1 R-PART-17 that answers with %s is a TypeError", async (_, answer) => {
    const limiter = PartitionedRateLimiter.create(() => answer as never, { clock: new ManualClock() });
    for (const call of [() => limiter.attemptAcquire("r"), () => limiter.acquire("r")]) {
      const error = await errorOf(call);
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toMatch(/what the partitioner returns must be a RateLimitPartition; got/);
    }
    expect(limiter.size).toBe(0);
  });

  it("R-PART-1 R-PART-2 runs once for a call, after the arguments are checked, before it is known to be disposed", async () => {
    const seen: string[] = [];
    const limiter = PartitionedRateLimiter.create(
      (key: string) => {
        seen.push(key);
        return RateLimitPartition.getNoLimiter(key);
      },
      { clock: new ManualClock() },
    );
    await errorOf(() => limiter.attemptAcquire("a", -1));
    await errorOf(() => limiter.acquire("a", 0.5));
    await errorOf(() => limiter.acquire("a", { maxWaitMs: Number.NaN }));
    await errorOf(() => limiter.acquire("a", { signal: AbortSignal.abort() }));
    expect(seen).toEqual([]);
    limiter.attemptAcquire("b");
    await limiter.acquire("c");
    limiter.getStatistics("d");
    limiter.peekStatistics("e");
    limiter.dispose();
    expect(await errorOf(() => limiter.acquire("f"))).toBeInstanceOf(LimiterDisposedError);
    expect(seen.join("")).toBe("bcdef");
  });
});

describe("a factory", () => {
  it("R-PART-5 D-11 PT-2 T-PT1 that throws is not remembered", async () => {
    const errors = [E, F];
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () => {
          const error = errors.shift();
          if (error !== undefined) throw error;
          return new NoLimiter();
        }),
      { clock: new ManualClock() },
    );
    expect(await errorOf(() => limiter.attemptAcquire("a"))).toBe(E);
    expect(await errorOf(() => limiter.acquire("a"))).toBe(F);
    expect(limiter.size).toBe(0);
    expect(limiter.attemptAcquire("a").isAcquired).toBe(true);
    expect(limiter.size).toBe(1);
  });

  it.each([undefined, null, {}, () => new NoLimiter(), Promise.resolve(new NoLimiter())])(
    "R-PART-17 that returns %o instead of a limiter is a TypeError at use",
    async (value) => {
      const limiter = PartitionedRateLimiter.create(
        (key: string) => RateLimitPartition.get(key, () => value as never),
        { clock: new ManualClock() },
      );
      for (const call of [() => limiter.attemptAcquire("a"), () => limiter.acquire("a")]) {
        expect(String(await errorOf(call))).toMatch(
          /^TypeError: what the factory returns must be a RateLimiter/,
        );
      }
      expect(limiter.size).toBe(0);
    },
  );
});

describe("dispose", () => {
  it("T-PART-12 of a limiter without partitions does nothing", async () => {
    const { limiter, made, clock } = stubbed();
    limiter.dispose();
    await limiter.disposeAsync();
    expect([made, clock.timerCount]).toEqual([[], 0]);
  });

  it.each<[string, (limiter: { dispose(): void }) => unknown, string[]]>([
    ["T-PART-13 dispose", (limiter) => limiter.dispose(), ["dispose"]],
    [
      "T-PART-16 asyncDispose",
      (limiter) => (limiter as PartitionedRateLimiter<string>)[Symbol.asyncDispose](),
      ["disposeAsync", "dispose"],
    ],
  ])(
    "%s R-PART-12 R-PART-14 disposes all limiters once, however often it is called",
    async (_, dispose, words) => {
      const { limiter, logged, clock } = stubbed();
      limiter.attemptAcquire("a");
      limiter.attemptAcquire("b");
      logged();
      await dispose(limiter);
      await dispose(limiter);
      limiter.dispose();
      await limiter.disposeAsync();
      const lines = words.flatMap((word) => [`a ${word}`, `b ${word}`]);
      expect(logged().sort()).toEqual(lines.sort());
      expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    },
  );

  const throwing = () => {
    const errors = { a: E, b: F };
    const fail = (key: "a" | "b") => () => {
      throw errors[key];
    };
    const subject = stubbed((key: "a" | "b") => ({ onDispose: fail(key), onDisposeAsync: fail(key) }));
    for (const key of ["a", "b"] as const) subject.limiter.attemptAcquire(key);
    subject.logged();
    return subject;
  };

  it("T-PART-14 disposes all limiters when some throw, and then says so", async () => {
    const { limiter, logged } = throwing();
    expect(await errorsOf(() => limiter.dispose())).toEqual([E, F]);
    expect(logged()).toEqual(["a dispose", "b dispose"]);
    limiter.dispose();
    expect(logged()).toEqual([]);
  });

  it("T-PART-17 T-PT8 PT-12 disposes all limiters asynchronously when some throw, and then says so", async () => {
    const { limiter, logged } = throwing();
    expect(await errorsOf(() => limiter.disposeAsync())).toEqual([E, F]);
    expect(logged()).toEqual(["a disposeAsync", "b disposeAsync"]);
  });

  it("T-PART-15 R-PART-13 makes every later call fail, and no limiter", async () => {
    const { limiter, made } = stubbed();
    const view = limiter.forResource("a");
    limiter.dispose();
    const calls = [
      () => limiter.attemptAcquire("a"),
      () => limiter.acquire("a"),
      () => limiter.getStatistics("a"),
      () => limiter.peekStatistics("a"),
      () => limiter.getTotals(),
      () => [...limiter.entries()],
      () => limiter.delete("a"),
      () => limiter.tryReplenish(),
      () => view.attemptAcquire(),
      () => view.pause(1),
    ];
    for (const call of calls) expect(await errorOf(call)).toBeInstanceOf(LimiterDisposedError);
    expect([made, limiter.size]).toEqual([[], 0]);
  });

  it("R-PART-12 waits for limiters that take their time, and a second one waits for the first", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { limiter } = stubbed(() => ({ onDisposeAsync: () => gate }));
    limiter.attemptAcquire("a");
    const disposals = [watch(limiter.disposeAsync()), watch(limiter.disposeAsync())];
    expect(() => limiter.attemptAcquire("a")).toThrow(LimiterDisposedError);
    await flush();
    expect(disposals.map(({ state }) => state)).toEqual(["pending", "pending"]);
    release();
    await flush();
    expect(disposals.map(({ state }) => state)).toEqual(["fulfilled", "fulfilled"]);
  });

  it("R-JS-7 waits for evicted limiters that are still being disposed, when it is asynchronous", async () => {
    let release = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    const { limiter } = stubbed(() => ({ idleMs: 1, onDisposeAsync: () => gate }));
    limiter.attemptAcquire("a");
    expect(limiter.delete("a")).toBe(true);
    const disposal = watch(limiter.disposeAsync());
    await flush();
    expect(disposal.state).toBe("pending");
    release();
    await flush();
    expect(disposal.state).toBe("fulfilled");
  });

  it("PT-12 refuses those who wait", async () => {
    const { limiter } = concurrencyByKey(1, { queueLimit: 2 });
    for (const key of ["a", "b"]) limiter.attemptAcquire(key);
    const waiting = ["a", "b"].map((key) => watch(limiter.acquire(key)));
    limiter.dispose();
    await flush();
    expect(waiting.map(({ value }) => value.reason)).toEqual(["limiter_disposed", "limiter_disposed"]);
  });
});

describe("limiters that somebody has to replenish", () => {
  const manual = { tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 100, queueLimit: 1 } as const;

  it.each([
    ["T-PART-18 from a helper", "helper"],
    ["T-PART-19 from a raw get", "raw"],
  ])("%s are replenished by the beat alone", async (_, how) => {
    const clock = new ManualClock();
    const options = {
      ...manual,
      queueProcessingOrder: "newestFirst",
      autoReplenishment: false,
      clock,
    } as const;
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        how === "raw"
          ? RateLimitPartition.get(key, () => new TokenBucketRateLimiter(options))
          : RateLimitPartition.getTokenBucketLimiter(key, () => options),
      { clock },
    );
    expect(limiter.attemptAcquire("a").isAcquired).toBe(true);
    const waiting = watch(limiter.acquire("a"));
    clock.advance(99);
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("T-PART-18 (C-23) from a helper need no beat when they are left at their default", async () => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.getTokenBucketLimiter(key, () => ({ ...manual, clock })),
      { clock },
    );
    limiter.attemptAcquire("a");
    const waiting = watch(limiter.acquire("a"));
    clock.advance(100);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(limiter.tryReplenish()).toBe(false);
  });

  it("T-PART-20 are replenished in all partitions, also those that come later", async () => {
    const clock = new ManualClock();
    const options = { ...manual, autoReplenishment: false, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: number) => RateLimitPartition.get(key, () => new TokenBucketRateLimiter(options)),
      { clock },
    );
    limiter.attemptAcquire(1);
    const first = watch(limiter.acquire(1));
    clock.advance(100);
    await flush();
    expect(first.value.isAcquired).toBe(true);
    clock.advance(50);
    limiter.attemptAcquire(2);
    const both = [1, 2].map((key) => watch(limiter.acquire(key)));
    clock.advance(200);
    await flush();
    expect(both.map(({ value }) => value.isAcquired)).toEqual([true, true]);
  });
});

describe("idle partitions", () => {
  it("T-PART-22 R-PART-8 R-PART-10 are dropped, disposed asynchronously, and made anew when they are needed", async () => {
    const plan: StubPlan = {};
    const { limiter, made, clock, logged } = stubbed(() => plan);
    limiter.attemptAcquire("a");
    plan.idleMs = 60_000;
    clock.advance(20_000);
    await flush();
    expect(logged("dispose")).toEqual(["a disposeAsync", "a dispose"]);
    delete plan.idleMs;
    limiter.attemptAcquire("a");
    expect(made).toEqual(["a", "a"]);
  });

  it("T-PART-22 R-PART-8 are not replenished any more, and are kept for exactly the idle limit", () => {
    const plan: StubPlan = { manual: true, idleMs: 10_000 };
    const { limiter, clock, logged } = stubbed(() => plan);
    limiter.attemptAcquire("a");
    clock.advance(30_000);
    expect(limiter.size).toBe(1);
    plan.idleMs = 10_000.1;
    clock.advance(20_000);
    expect(limiter.size).toBe(0);
    logged();
    clock.advance(1000);
    expect(logged()).toEqual([]);
  });

  it("T-PART-23 R-PART-11 that let everything through are dropped when nobody has used them for long", () => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create((key: string) => RateLimitPartition.getNoLimiter(key), {
      clock,
    });
    limiter.attemptAcquire("a");
    for (let i = 0; i < 8; i++) {
      clock.advance(9000);
      limiter.getStatistics("a");
    }
    expect(show(limiter.peekStatistics("a"))).toMatch(/\/1$/);
    clock.advance(20_001);
    expect(limiter.size).toBe(0);
    limiter.attemptAcquire("a");
    expect(show(limiter.peekStatistics("a"))).toMatch(/\/1$/);
  });

  it("T-PART-24 R-PART-11 that never say how long they have been idle are kept", () => {
    const { limiter, made, clock } = stubbed();
    limiter.attemptAcquire("a");
    clock.advance(3_600_000);
    limiter.attemptAcquire("a");
    expect(made).toEqual(["a"]);
  });

  it("T-PART-25 R-PART-9 are all dropped when their disposal throws, and that is reported", async () => {
    const errors: unknown[] = [];
    const plan = (error: Error): StubPlan => ({
      onDisposeAsync: () => {
        throw error;
      },
    });
    const plans: Record<string, StubPlan> = { a: plan(E), b: plan(F) };
    const { limiter, clock, logged } = stubbed((key: string) => plans[key] as StubPlan, {
      onBackgroundError: (error) => errors.push(error),
    });
    for (const key of ["a", "b"]) limiter.attemptAcquire(key);
    for (const idle of Object.values(plans)) idle.idleMs = 60_000;
    clock.advance(60_000);
    await flush();
    expect(logged("disposeAsync").sort()).toEqual(["a disposeAsync", "b disposeAsync"]);
    expect(new Set(errors)).toEqual(new Set([E, F]));
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
  });

  it("T-PART-26 R-PART-9 PT-11 T-PT8 are dropped although another one's replenishment throws", async () => {
    const errors: unknown[] = [];
    const plans: Record<string, StubPlan> = {
      "1": {},
      "2": {
        manual: true,
        onReplenish: () => {
          throw E;
        },
      },
    };
    const { limiter, clock, logged } = stubbed((key: string) => plans[key] ?? {}, {
      onBackgroundError: (error) => errors.push(error),
    });
    for (const key of ["2", "1"]) limiter.attemptAcquire(key);
    (plans["1"] as StubPlan).idleMs = 60_000;
    clock.advance(200);
    await flush();
    expect(logged("dispose")).toEqual(["1 disposeAsync", "1 dispose"]);
    expect(errors).toEqual([E, E]);
    expect(limiter.size).toBe(1);
  });
});

describe("a chain in a partition", () => {
  /** A partitioned limiter with a chain of stubs and limiters. */
  function chained(limiters: (log: string[]) => RateLimiter[]) {
    const clock = new ManualClock();
    const log: string[] = [];
    const errors: unknown[] = [];
    let made = 0;
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () => {
          made += 1;
          return RateLimiter.createChained(...limiters(log));
        }),
      { clock, onBackgroundError: (error) => errors.push(error) },
    );
    limiter.attemptAcquire("a");
    log.splice(0);
    const replenished = () => log.splice(0).filter((line) => line.endsWith("tryReplenish"));
    return { limiter, clock, errors, replenished, made: () => made };
  }
  const manual: StubPlan = { manual: true };

  it("T-PART-27 has its replenishing limiter replenished by each beat", () => {
    const { clock, replenished } = chained((log) => [
      new ConcurrencyLimiter({ permitLimit: 9, clock: new ManualClock() }),
      new Stub("b", log, manual),
    ]);
    clock.advance(100);
    expect(replenished()).toEqual(["b tryReplenish"]);
    clock.advance(300);
    expect(replenished()).toHaveLength(3);
  });

  it("T-PART-28 has all of its replenishing limiters replenished by each beat", () => {
    const { clock, replenished } = chained((log) => ["a", "b"].map((name) => new Stub(name, log, manual)));
    clock.advance(100);
    expect(replenished()).toEqual(["a tryReplenish", "b tryReplenish"]);
  });

  it("T-PART-29 has the others replenished when one throws, and that is reported", () => {
    const onReplenish = () => {
      throw E;
    };
    const { clock, replenished, errors } = chained((log) => [
      new Stub("a", log, { ...manual, onReplenish }),
      new Stub("b", log, manual),
    ]);
    clock.advance(100);
    expect(replenished()).toEqual(["a tryReplenish", "b tryReplenish"]);
    expect(errors).toEqual([expect.objectContaining({ name: "AggregateError", errors: [E] })]);
  });

  it.each<[string, StubPlan, number]>([
    ["T-PART-30 is kept while one of its limiters is in use", {}, 1],
    ["T-PART-31 is dropped when all of its limiters are idle", { idleMs: 60_000 }, 2],
  ])("%s", (_, plan, runs) => {
    const plans: StubPlan[] = [{}, {}];
    const { limiter, clock, made } = chained((log) => plans.map((p, i) => new Stub("ab".charAt(i), log, p)));
    Object.assign(plans[0] as StubPlan, { idleMs: 60_000 });
    Object.assign(plans[1] as StubPlan, plan);
    clock.advance(20_000);
    limiter.attemptAcquire("a");
    expect(made()).toBe(runs);
  });

  it("R-PART-8 is not replenished when all of its limiters do so themselves", () => {
    const { clock, replenished, limiter } = chained((log) => [new Stub("a", log), new Stub("b", log)]);
    clock.advance(1000);
    expect(replenished()).toEqual([]);
    expect(limiter.tryReplenish()).toBe(false);
  });

  it("C-23 is a replenishing limiter from a raw get, so that who waits in it is served", async () => {
    const own = new ManualClock();
    const bucket = { tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 300, clock: own };
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () =>
          RateLimiter.createChained(
            new ConcurrencyLimiter({ permitLimit: 9, clock: own }),
            new TokenBucketRateLimiter({ ...bucket, queueLimit: 1, autoReplenishment: false }),
          ),
        ),
      { clock: own },
    );
    limiter.attemptAcquire("a");
    const waiting = watch(limiter.acquire("a"));
    own.advance(300);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(limiter.forResource("a")).not.toBeInstanceOf(ReplenishingRateLimiter);
  });
});
