import {
  FixedWindowRateLimiter,
  LimiterDisposedError,
  PartitionedRateLimiter,
  RateLimiter,
  RateLimitPartition,
  ReplenishingRateLimiter,
  withLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { CountingClock, flush, ManualClock, watch } from "../support.js";
import { concurrencyByKey, E, errorOf, Stub, type StubPlan, show, stubbed } from "./support.js";

// What a KeyedRateLimiter can do besides the contract: PT-13, PT-16, PT-18 of spec/rxjs-opentelemetry.md, D-12.

function windows(permitLimit = 2, windowMs = 1000) {
  const clock = new ManualClock();
  const options = { permitLimit, windowMs, queueLimit: 5, clock };
  const limiter = PartitionedRateLimiter.create(
    (key: string) => RateLimitPartition.getFixedWindowLimiter(key, () => options),
    { clock },
  );
  return { limiter, clock };
}

describe("size and peekStatistics", () => {
  it("PT-13 T-PT9 tell of partitions without making any", () => {
    const { limiter } = windows();
    expect([limiter.size, limiter.peekStatistics("a")]).toEqual([0, undefined]);
    expect(limiter.size).toBe(0);
    limiter.attemptAcquire("a");
    limiter.getStatistics("b");
    expect(limiter.size).toBe(2);
    expect(["a", "b"].map((key) => show(limiter.peekStatistics(key)))).toEqual(["1/0/0/1", "2/0/0/0"]);
    expect([limiter.peekStatistics("c"), limiter.size]).toEqual([undefined, 2]);
  });
});

describe("getTotals", () => {
  it("PT-13 adds up all partitions", () => {
    const { limiter } = windows();
    expect(show(limiter.getTotals())).toBe("0/0/0/0");
    for (const key of ["a", "a", "a", "b"]) limiter.attemptAcquire(key);
    watch(limiter.acquire("a", 2));
    expect(show(limiter.getTotals())).toBe("1/2/1/3");
    expect(limiter.getTotals()).not.toBe(limiter.getTotals());
  });

  it("PT-13 T-PT9 R-PART-10 keeps its totals when partitions are dropped, whose own restart", () => {
    const { limiter, clock } = windows();
    for (const key of ["a", "a", "a", "b", "c", "c", "c", "c"]) limiter.attemptAcquire(key);
    expect(show(limiter.getTotals())).toBe("1/0/3/5");
    clock.advance(1000);
    expect(["a", "b"].map((key) => limiter.delete(key))).toEqual([true, true]);
    expect(show(limiter.getTotals())).toBe("2/0/3/5");
    clock.advance(60_000);
    expect(limiter.size).toBe(0);
    expect(show(limiter.getTotals())).toBe("0/0/3/5");
    limiter.attemptAcquire("a");
    expect(show(limiter.peekStatistics("a"))).toBe("1/0/0/1");
    expect(show(limiter.getTotals())).toBe("1/0/3/6");
  });

  it("PT-13 never goes down, whatever comes and goes", () => {
    const { limiter, clock } = windows(1, 3000);
    let last = 0;
    for (let i = 0; i < 2000; i++) {
      limiter.attemptAcquire(`key ${(i * i) % 97}`);
      if (i % 7 === 0) clock.advance(1500);
      if (i % 11 === 0) limiter.delete(`key ${i % 97}`);
      const { totalFailedLeases: no, totalSuccessfulLeases: yes } = limiter.getTotals();
      expect(no + yes).toBe(i + 1);
      expect(yes).toBeGreaterThanOrEqual(last);
      last = yes;
    }
  });

  it("D-15 stays a safe number with unlimited partitions, and skips limiters without statistics", () => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: number) =>
        key < 3
          ? RateLimitPartition.getNoLimiter(key)
          : RateLimitPartition.get(key, () => new Stub("stub", [])),
      { clock },
    );
    for (let key = 0; key < 5; key++) limiter.attemptAcquire(key);
    expect(show(limiter.getTotals())).toBe(`${Number.MAX_SAFE_INTEGER}/0/0/3`);
  });
});

describe("entries", () => {
  it("D-12 gives key, statistics and idle time of each partition, oldest first", () => {
    const { limiter, clock } = windows();
    limiter.attemptAcquire("b");
    limiter.getStatistics("a");
    clock.advance(50);
    const all = [...limiter.entries()];
    expect(all.map(({ key, idleDurationMs }) => [key, idleDurationMs])).toEqual([
      ["b", undefined],
      ["a", 50],
    ]);
    expect(all.map(({ statistics }) => show(statistics))).toEqual(["1/0/0/1", "2/0/0/0"]);
    expect(limiter.size).toBe(2);
  });

  it("PT-13 go on while partitions are dropped and made", () => {
    const { limiter } = concurrencyByKey(1);
    for (const key of ["a", "b", "c", "d"]) limiter.attemptAcquire(key).dispose();
    const seen: string[] = [];
    for (const { key } of limiter.entries()) {
      seen.push(key);
      if (key === "a") for (const gone of ["a", "b"]) limiter.delete(gone);
      if (key === "c") limiter.attemptAcquire("e");
    }
    expect(seen).toEqual(["a", "c", "d", "e"]);
  });

  it("PT-13 end when the limiter is disposed meanwhile", () => {
    const { limiter } = concurrencyByKey(1);
    for (const key of ["a", "b"]) limiter.attemptAcquire(key);
    const seen: string[] = [];
    for (const { key } of limiter.entries()) {
      seen.push(key);
      limiter.dispose();
    }
    expect(seen).toEqual(["a"]);
  });
});

describe("delete", () => {
  it("PT-18 T-PT13 drops an idle partition, and neither a busy nor an unknown one", () => {
    const { limiter } = concurrencyByKey(1, { queueLimit: 1 });
    const lease = limiter.attemptAcquire("a");
    expect([limiter.delete("a"), limiter.delete("b"), limiter.size]).toEqual([false, false, 1]);
    lease.dispose();
    expect([limiter.delete("a"), limiter.delete("a"), limiter.size]).toEqual([true, false, 0]);
  });

  it("PT-5 leaves a partition that remembers consumption, somebody who waits, or a pause", async () => {
    const { limiter, clock } = windows(1);
    limiter.attemptAcquire("used");
    limiter.attemptAcquire("waited for");
    const waiting = watch(limiter.acquire("waited for"));
    limiter.forResource("paused").pause(5000);
    const keys = ["used", "waited for", "paused"];
    const tryAll = () => keys.map((key) => limiter.delete(key));
    expect(tryAll()).toEqual([false, false, false]);
    clock.advance(1000);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(tryAll()).toEqual([true, false, false]);
    clock.advance(1000);
    expect(tryAll()).toEqual([false, true, false]);
    expect(limiter.attemptAcquire("paused").reason).toBe("server_pause");
    clock.advance(3000);
    expect(tryAll()).toEqual([false, false, true]);
  });

  it("R-PART-11 drops a partition that lets everything through, not one of a limiter that never says it is idle", () => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        key === "free"
          ? RateLimitPartition.getNoLimiter(key)
          : RateLimitPartition.get(key, () => new Stub(key, [])),
      { clock },
    );
    for (const key of ["free", "mine"]) limiter.attemptAcquire(key);
    expect([limiter.delete("free"), limiter.delete("mine")]).toEqual([true, false]);
  });

  it("R-PART-14 disposes what it drops, so that a new plan's limiter can take its place", () => {
    const clock = new ManualClock();
    let permitLimit = 1;
    const made: RateLimiter[] = [];
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () => {
          const one = new FixedWindowRateLimiter({ permitLimit, windowMs: 1000, clock });
          made.push(one);
          return one;
        }),
      { clock },
    );
    limiter.attemptAcquire("acme");
    clock.advance(1000);
    permitLimit = 5;
    expect(limiter.delete("acme")).toBe(true);
    expect(() => made[0]?.attemptAcquire()).toThrow(LimiterDisposedError);
    expect(limiter.attemptAcquire("acme", 5).isAcquired).toBe(true);
  });
});

describe("tryReplenish", () => {
  it("D-12 replenishes all limiters that do not do so by themselves, and says whether there was one", () => {
    const plans: Record<string, StubPlan> = { a: { manual: true }, b: {}, c: { manual: true } };
    const { limiter, logged } = stubbed((key: string) => plans[key] ?? {});
    expect(limiter.tryReplenish()).toBe(false);
    limiter.attemptAcquire("b");
    expect(limiter.tryReplenish()).toBe(false);
    for (const key of ["a", "c"]) limiter.attemptAcquire(key);
    logged();
    expect(limiter.tryReplenish()).toBe(true);
    expect(logged()).toEqual(["a tryReplenish", "c tryReplenish"]);
  });

  it("R-PART-9 goes on past errors, and then throws them", async () => {
    const onReplenish = () => {
      throw E;
    };
    const plans: Record<string, StubPlan> = { a: { manual: true, onReplenish }, b: { manual: true } };
    const { limiter, logged } = stubbed((key: string) => plans[key] ?? {});
    for (const key of ["a", "b"]) limiter.attemptAcquire(key);
    logged();
    expect(await errorOf(() => limiter.tryReplenish())).toMatchObject({ errors: [E] });
    expect(logged()).toEqual(["a tryReplenish", "b tryReplenish"]);
  });

  it("T-PART-19 serves who waits, in the turn of the call", async () => {
    const clock = new ManualClock();
    const options = { permitLimit: 1, windowMs: 50, queueLimit: 1, autoReplenishment: false, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.getFixedWindowLimiter(key, () => options),
      { clock },
    );
    limiter.attemptAcquire("a");
    const waiting = watch(limiter.acquire("a"));
    clock.advance(50);
    limiter.tryReplenish();
    expect(show(limiter.peekStatistics("a"))).toBe("0/0/0/2");
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });
});

describe("the limiter of one resource", () => {
  it("PT-16 runs the partitioner once, and makes nothing before it is used", async () => {
    const seen: string[] = [];
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (resource: { tenant: string }) => {
        seen.push(resource.tenant);
        return RateLimitPartition.getConcurrencyLimiter(resource.tenant, () => ({ permitLimit: 2, clock }));
      },
      { clock },
    );
    const resource = { tenant: "acme" };
    const one = limiter.forResource(resource);
    expect(limiter.size).toBe(0);
    resource.tenant = "other";
    expect(one.attemptAcquire().isAcquired).toBe(true);
    expect((await one.acquire()).isAcquired).toBe(true);
    expect(show(one.getStatistics())).toBe("0/0/0/2");
    expect([seen, limiter.size]).toEqual([["acme"], 1]);
    expect(one).toBeInstanceOf(RateLimiter);
  });

  it("PT-16 T-PT12 serves whatever takes a plain limiter, such as withLease and chains", async () => {
    const { limiter } = concurrencyByKey(1);
    const one = limiter.forResource("a");
    expect(await withLease(one, () => show(limiter.peekStatistics("a")))).toBe("0/0/0/1");
    expect(show(limiter.peekStatistics("a"))).toBe("1/0/0/1");
    const lease = RateLimiter.createChained(one, limiter.forResource("b")).attemptAcquire();
    expect(show(limiter.getTotals())).toBe("0/0/0/3");
    lease.dispose();
    expect(show(limiter.getTotals())).toBe("2/0/0/3");
  });

  it("PT-16 is harmless to the partition when it is disposed, and fails then", async () => {
    const { limiter } = concurrencyByKey(2);
    const one = limiter.forResource("a");
    const held = one.attemptAcquire();
    one.dispose();
    await one.disposeAsync();
    expect(show(limiter.peekStatistics("a"))).toBe("1/0/0/1");
    held.dispose();
    expect(limiter.forResource("a").attemptAcquire(2).isAcquired).toBe(true);
    const calls = [
      () => one.attemptAcquire(),
      () => one.acquire(),
      () => one.getStatistics(),
      () => one.idleDurationMs,
      () => one.pause(1),
      () => one.estimateWaitMs(),
    ];
    for (const call of calls) expect(await errorOf(call)).toBeInstanceOf(LimiterDisposedError);
  });

  it("C-9 pauses the partition, and nobody else's", async () => {
    const { limiter, clock } = concurrencyByKey(1, { queueLimit: 1 });
    const one = limiter.forResource("a");
    one.pause(500);
    const refused = limiter.attemptAcquire("a");
    expect([refused.reason, refused.retryAfterMs]).toEqual(["server_pause", 500]);
    expect(one.estimateWaitMs()).toBe(500);
    expect(limiter.attemptAcquire("b").isAcquired).toBe(true);
    const waiting = watch(one.acquire());
    clock.advance(499);
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("C-9 says so when its limiter cannot be paused or cannot estimate", () => {
    const { limiter } = stubbed();
    const one = limiter.forResource("a");
    expect(() => one.pause(5)).toThrow(TypeError);
    expect(one.estimateWaitMs()).toBeUndefined();
    const chain = PartitionedRateLimiter.createChained(concurrencyByKey(1).limiter).forResource("a");
    expect(() => chain.pause(5)).toThrow(TypeError);
    expect([chain.estimateWaitMs(), chain.idleDurationMs]).toEqual([undefined, undefined]);
    expect([chain.attemptAcquire().isAcquired, chain.attemptAcquire().isAcquired]).toEqual([true, false]);
    expect(show(chain.getStatistics())).toBe("0/0/1/1");
  });

  it("C-8 estimates the wait by the limiter of the partition, for the count that is asked", () => {
    const { limiter } = windows(4);
    const one = limiter.forResource("a");
    expect(one.estimateWaitMs(4)).toBeUndefined();
    one.attemptAcquire(0);
    expect(one.estimateWaitMs(4)).toBe(0);
    expect(() => one.estimateWaitMs(5)).toThrow(RangeError);
    one.attemptAcquire(3);
    expect([one.estimateWaitMs(), one.estimateWaitMs(2)]).toEqual([0, 1000]);
    expect(() => one.estimateWaitMs(-1)).toThrow(RangeError);
  });

  it("PT-16 is idle as the partition is, and lives on in a new one when that is dropped", () => {
    const { limiter, clock } = concurrencyByKey(1);
    const one = limiter.forResource("a");
    const lease = one.attemptAcquire();
    expect(one.idleDurationMs).toBeUndefined();
    lease.dispose();
    expect(one.idleDurationMs).toBe(0);
    clock.advance(7);
    expect(one.idleDurationMs).toBe(7);
    expect(limiter.delete("a")).toBe(true);
    expect(one.attemptAcquire().isAcquired).toBe(true);
    expect(show(limiter.peekStatistics("a"))).toBe("0/0/0/1");
  });

  it("R-PART-1 R-PART-6 checks and passes on counts and options", async () => {
    const { limiter, log } = stubbed();
    const one = limiter.forResource("a");
    const { signal } = new AbortController();
    await one.acquire(2, { signal, maxWaitMs: 5 });
    await one.acquire({ maxWaitMs: -1 });
    expect(log.splice(0)).toEqual(["a acquire 2 abortable within 5", "a acquire 1 within -1"]);
    expect(() => one.attemptAcquire(-1)).toThrow(RangeError);
    expect(await errorOf(() => one.acquire(1, { signal: AbortSignal.abort(E) }))).toBe(E);
    expect(log).toEqual([]);
  });

  it("C-24 has who waits in a driven partition through it keep the process alive", () => {
    const clock = new CountingClock();
    const options = { permitLimit: 1, windowMs: 1000, queueLimit: 1, autoReplenishment: false, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.getFixedWindowLimiter(key, () => options),
      { clock },
    );
    const one = limiter.forResource("a");
    one.attemptAcquire();
    expect(clock.keepAliveTimerCount).toBe(0);
    watch(one.acquire());
    expect([clock.keepAliveTimerCount, clock.timerCount]).toEqual([1, 1]);
    expect(one).not.toBeInstanceOf(ReplenishingRateLimiter);
  });
});
