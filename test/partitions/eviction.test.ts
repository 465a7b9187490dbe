import {
  FixedWindowRateLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  type PartitionedRateLimiterOptions,
  RateLimitPartition,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { CountingClock, flush, ManualClock, watch } from "../support.js";
import { concurrencyByKey, Stub, type StubPlan, show, stubbed } from "./support.js";

// Partitions that come and go: PT-4 to PT-10 and PT-19 of spec/rxjs-opentelemetry.md, design.md C-22 to C-24, 4.4 and 4.7.

const HOUR = 3_600_000;
const IDLE = 10_000;

/** A window limiter for each key. */
function windows<Key = number>(
  permitLimit: number,
  windowMs: number,
  options: PartitionedRateLimiterOptions = {},
  clock = new ManualClock(),
) {
  const shared = { permitLimit, windowMs, queueLimit: 1, clock };
  const limiter = PartitionedRateLimiter.create(
    (key: Key) => RateLimitPartition.getFixedWindowLimiter(key, () => shared),
    { clock, ...options },
  );
  return { limiter, clock };
}

/** Windows that somebody has to replenish. */
function driven(windowMs = 1000, clock = new CountingClock()) {
  const shared = { permitLimit: 1, windowMs, queueLimit: 5, autoReplenishment: false, clock };
  const limiter = PartitionedRateLimiter.create(
    (key: number) => RateLimitPartition.get(key, () => new FixedWindowRateLimiter(shared)),
    { clock },
  );
  return { limiter, clock };
}

describe("consumption", () => {
  it("H45 T-PT4 PT-5 is not forgiven to a client that comes every 20 s, by a limit of 10 an hour", () => {
    const clock = new ManualClock();
    const bucket = { tokenLimit: 10, tokensPerPeriod: 10, replenishmentPeriodMs: HOUR, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.getTokenBucketLimiter(key, () => bucket),
      { clock },
    );
    let granted = 0;
    for (let i = 0; i < 180; i++) {
      if (limiter.attemptAcquire("client").isAcquired) granted += 1;
      clock.advance(20_000);
    }
    // 10 at once, and less than 10 that came back within the hour.
    expect(granted).toBeGreaterThanOrEqual(19);
    expect(granted).toBeLessThan(21);
  });

  it.each([
    ["a window", windows],
    [
      "a sliding window",
      (permitLimit: number, windowMs: number) => {
        const clock = new ManualClock();
        const options = { permitLimit, windowMs, segmentsPerWindow: 10, clock };
        const limiter = PartitionedRateLimiter.create(
          (key: number) => RateLimitPartition.getSlidingWindowLimiter(key, () => options),
          { clock },
        );
        return { limiter, clock };
      },
    ],
  ])("PT-5 H45 is remembered by %s until it counts no more, however long nobody comes", (_, make) => {
    const { limiter, clock } = make(1, HOUR);
    limiter.attemptAcquire(1);
    clock.advance(HOUR - 1);
    expect(limiter.size).toBe(1);
    expect(limiter.attemptAcquire(1).isAcquired).toBe(false);
    clock.advance(1 + 3 * IDLE);
    expect(limiter.size).toBe(0);
  });

  it("PT-5 PT-8 pins a partition: as do leases that are out, waiters and pauses", async () => {
    const { limiter, clock } = concurrencyByKey(1, { queueLimit: 1 });
    const held = limiter.attemptAcquire("held");
    limiter.forResource("paused").pause(HOUR);
    clock.advance(HOUR / 2);
    const waiting = watch(limiter.acquire("paused"));
    clock.advance(HOUR / 2 - 1);
    await flush();
    expect([limiter.size, waiting.state]).toEqual([2, "pending"]);
    clock.advance(1);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    clock.advance(HOUR);
    expect(limiter.size).toBe(2);
    held.dispose();
    waiting.value.dispose();
    clock.advance(4 * IDLE);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
  });

  it("PT-5 of a paused partition: the pause is not forgotten when nobody comes", () => {
    const { limiter, clock } = concurrencyByKey(1);
    limiter.forResource("a").pause(HOUR);
    clock.advance(HOUR - 5);
    const refused = limiter.attemptAcquire("a");
    expect([refused.reason, refused.retryAfterMs]).toEqual(["server_pause", 5]);
  });

  it("R-PART-10 is gone with a partition that was dropped: it restarts from the factory", () => {
    const { limiter, clock } = windows(3, 1000);
    limiter.attemptAcquire(1, 2);
    clock.advance(1000 + 3 * IDLE);
    expect(limiter.size).toBe(0);
    expect(show(limiter.getStatistics(1))).toBe("3/0/0/0");
  });
});

describe("clocks that misbehave", () => {
  it("design 4.4 drop nothing and add nothing when they go back", () => {
    const clock = new ManualClock({ startMs: 1_000_000 });
    const { limiter } = windows(1, HOUR, {}, clock);
    const free = PartitionedRateLimiter.create((key: number) => RateLimitPartition.getNoLimiter(key), {
      clock,
    });
    limiter.attemptAcquire(1);
    free.attemptAcquire(1);
    clock.set(0);
    clock.advance(5 * IDLE);
    expect([limiter.size, free.size]).toEqual([1, 1]);
    expect(limiter.attemptAcquire(1).isAcquired).toBe(false);
    clock.set(1_000_000 + HOUR);
    clock.advance(5 * IDLE);
    expect([limiter.size, free.size, clock.timerCount]).toEqual([0, 0, 0]);
  });

  it.each([-0.9, 400, 25_000])("C-1 drop idle partitions all the same when timers fire %d ms off", (skew) => {
    const { limiter, clock } = windows(1, 1000, {}, new ManualClock({ timerSkewMs: skew }));
    for (let key = 0; key < 5; key++) limiter.attemptAcquire(key);
    clock.advance(1000 + 4 * (IDLE + Math.max(0, skew)));
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
  });
});

describe("dropping idle partitions", () => {
  // Some slack, since timers have whole milliseconds.
  const SLACK = 0.1 * IDLE;

  it.each([1, 2, 3, 5, 300, 512, 513, 1500])(
    "C-24 R-PART-8 is over within two idle limits, for %d partitions",
    (count) => {
      // They become idle at different times between two looks.
      const left = [1, 4000, 9000, 11_000, 15_500].map((windowMs) => {
        const { limiter, clock } = windows(1, windowMs);
        for (let key = 0; key < count; key++) limiter.attemptAcquire(key);
        clock.advance(windowMs + IDLE);
        expect(limiter.size).toBe(count);
        clock.advance(IDLE + SLACK);
        return limiter.size;
      });
      expect(left).toEqual([0, 0, 0, 0, 0]);
    },
  );

  it.each([1, 2, 3, 300, 1500])(
    "C-24 C-21 is over within three idle limits for %d limiters that count their idle time from the first look",
    (count) => {
      const left = [1, 4000, 11_000, 15_500].map((heldMs) => {
        const { limiter, clock } = concurrencyByKey<number>(1);
        const leases = Array.from({ length: count }, (_, key) => limiter.attemptAcquire(key));
        clock.advance(heldMs);
        for (const lease of leases) lease.dispose();
        clock.advance(IDLE);
        expect(limiter.size).toBe(count);
        clock.advance(2 * IDLE + SLACK);
        return limiter.size;
      });
      expect(left).toEqual([0, 0, 0, 0]);
    },
  );

  it("H44 C-24 is over within two idle limits for 100 000 keys that were used once", () => {
    const { limiter, clock } = windows(1, 1000);
    for (let key = 0; key < 100_000; key++) limiter.attemptAcquire(key);
    clock.advance(1000 + IDLE);
    expect(limiter.size).toBeGreaterThan(0);
    clock.advance(IDLE + SLACK);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    expect(show(limiter.getTotals())).toBe("0/0/0/100000");
  });

  it("H44 C-24 keeps up with keys that come one after another and are used once", () => {
    const { limiter, clock } = windows(1, 1000);
    let most = 0;
    for (let key = 0; key < 100_000; key++) {
      limiter.attemptAcquire(key);
      clock.advance(1);
      most = Math.max(most, limiter.size);
    }
    // 1000 a second, each remembered for up to a second, then idle for 10 to 20 s.
    expect(most).toBeLessThan(22_500);
  });

  it("C-24 spares a partition that is used again before its time", () => {
    const { limiter, clock } = windows(1, 1000);
    for (let i = 0; i < 20; i++) {
      limiter.attemptAcquire(1);
      clock.advance(IDLE);
      expect(limiter.size).toBe(1);
    }
    expect(show(limiter.peekStatistics(1))).toBe("1/0/0/20");
  });

  it("PT-6 keeps to the given idle limit", () => {
    const { limiter, clock } = windows(1, 1000, { idleLimitMs: 50 });
    limiter.attemptAcquire(1);
    limiter.attemptAcquire(2);
    clock.advance(1050);
    expect(limiter.size).toBe(2);
    clock.advance(60);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
  });
});

describe("the work of one turn", () => {
  it.each([
    ["that replenish themselves", false],
    ["that have to be replenished", true],
  ])("C-24 is at most 512 partitions, of 10 000 %s", (_, manual) => {
    let looks = 0;
    let beats = 0;
    const perTurn: number[] = [];
    class Watching extends CountingClock {
      override setTimer(callback: () => void, delayMs: number, keepAlive?: boolean): { cancel(): void } {
        const counted = () => {
          looks = 0;
          beats = 0;
          callback();
          perTurn.push(looks + beats);
        };
        return super.setTimer(counted, delayMs, keepAlive);
      }
    }
    const clock = new Watching();
    const plan: StubPlan = {
      manual,
      onLook: () => {
        looks += 1;
      },
      onReplenish: () => {
        beats += 1;
      },
    };
    const { limiter } = stubbed<number>(() => plan, { clock });
    for (let key = 0; key < 10_000; key++) {
      looks = 0;
      limiter.attemptAcquire(key);
      expect(looks).toBeLessThanOrEqual(16);
    }
    clock.advance(20_000);
    expect(limiter.size).toBe(10_000);
    expect(perTurn.length).toBeGreaterThan(19);
    expect(Math.max(...perTurn)).toBeLessThanOrEqual(512);
    plan.idleMs = 60_000;
    clock.advance(100_000);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    expect(Math.max(...perTurn)).toBeLessThanOrEqual(512);
  });

  it("C-24 is at most a few partitions when there is no room for a new one", () => {
    let looks = 0;
    const plan: StubPlan = {
      onLook: () => {
        looks += 1;
      },
    };
    const { limiter } = stubbed<number>(() => plan, { maxPartitions: 5000, overflow: "reject" });
    for (let key = 0; key < 5000; key++) limiter.attemptAcquire(key);
    looks = 0;
    expect(limiter.attemptAcquire(-1).reason).toBe("partition_overflow");
    expect(looks).toBeGreaterThan(0);
    expect(looks).toBeLessThanOrEqual(16);
  });

  it("C-24 arms no timer and looks at nobody when a partition is there already", () => {
    let looks = 0;
    const clock = new CountingClock();
    const { limiter } = stubbed(() => ({ onLook: () => void looks++ }), { clock });
    limiter.attemptAcquire("a");
    const before = [looks, clock.timersSet, clock.reads];
    for (let i = 0; i < 100; i++) limiter.attemptAcquire("a");
    expect([looks, clock.timersSet, clock.reads]).toEqual(before);
  });
});

describe("the timer", () => {
  it("PT-10 D-13 T-PT7 is one, only while there are partitions, and keeps no process alive", () => {
    const { limiter, clock } = windows(1, 1000);
    expect(clock.timerCount).toBe(0);
    for (let key = 0; key < 2000; key++) limiter.attemptAcquire(key);
    for (let i = 0; i < 9; i++) {
      expect([clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 0]);
      clock.advance(1000);
    }
    clock.advance(60_000);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    limiter.attemptAcquire(1);
    expect(clock.timerCount).toBe(1);
    limiter.dispose();
    expect(clock.timerCount).toBe(0);
  });

  it("PT-10 ends with the last partition that is deleted, and when it is disposed asynchronously", async () => {
    const { limiter, clock } = concurrencyByKey(1);
    for (const key of ["a", "b"]) limiter.attemptAcquire(key).dispose();
    limiter.delete("a");
    expect(clock.timerCount).toBe(1);
    limiter.delete("b");
    expect(clock.timerCount).toBe(0);
    limiter.attemptAcquire("c");
    await limiter.disposeAsync();
    expect(clock.timerCount).toBe(0);
  });

  it("PT-10 is one for driven and self-replenishing partitions together, whichever comes first", () => {
    for (const plans of [
      [true, false],
      [false, true],
    ]) {
      const { limiter, clock } = stubbed<number>((key) => ({ manual: plans[key] === true }));
      limiter.attemptAcquire(0);
      limiter.attemptAcquire(1);
      expect(clock.timerCount).toBe(1);
      clock.advance(1000);
      expect(clock.timerCount).toBe(1);
    }
  });

  it("C-23 beats every 100 ms only while there are partitions that need it", () => {
    const plans: Record<string, StubPlan> = { a: {}, b: { manual: true } };
    const clock = new CountingClock();
    const { limiter } = stubbed((key: string) => plans[key] ?? {}, { clock });
    limiter.attemptAcquire("a");
    clock.advance(9000);
    expect(clock.timersSet).toBeLessThan(5);
    limiter.attemptAcquire("b");
    const before = clock.timersSet;
    clock.advance(1000);
    expect(clock.timersSet - before).toBe(10);
    (plans["b"] as StubPlan).idleMs = 1;
    expect(limiter.delete("b")).toBe(true);
    clock.advance(1000);
    const without = clock.timersSet;
    clock.advance(9000);
    expect(clock.timersSet - without).toBeLessThan(5);
  });

  it.each([1, 2, 100, 256, 257, 300, 512, 1000])(
    "C-23 replenishes each of %d driven partitions every 100 ms or so",
    (count) => {
      const { limiter, clock, logged } = stubbed<number>(() => ({ manual: true }));
      for (let key = 0; key < count; key++) limiter.attemptAcquire(key);
      logged();
      clock.advance(2000);
      const beats = new Map<string, number>();
      for (const line of logged("tryReplenish")) beats.set(line, (beats.get(line) ?? 0) + 1);
      expect(beats.size).toBe(count);
      // 20 on the dot; less where the slices of 256 do not fit.
      expect(Math.min(...beats.values())).toBeGreaterThanOrEqual(15);
      expect(Math.max(...beats.values())).toBeLessThanOrEqual(25);
    },
  );

  it.each([20, 150, 7, 10_000])(
    "C-23 beats every 100 ms, however often it looks: idle limit %d",
    (idleLimitMs) => {
      const { limiter, clock, logged } = stubbed<number>(() => ({ manual: true }), { idleLimitMs });
      limiter.attemptAcquire(1);
      logged();
      clock.advance(1000);
      expect(logged("tryReplenish").length).toBe(10);
    },
  );

  it.each([-0.9, 0.9])("C-23 beats every 100 ms or so when timers fire %d ms off", (timerSkewMs) => {
    const clock = new CountingClock({ timerSkewMs });
    const { limiter, logged } = stubbed<number>(() => ({ manual: true }), { clock });
    limiter.attemptAcquire(1);
    logged();
    const before = clock.timersSet;
    clock.advance(1000);
    const beats = logged("tryReplenish").length;
    expect([9, 10]).toContain(beats);
    expect(clock.timersSet - before).toBe(beats);
  });

  it("C-23 goes on beating when the clock goes back, and begins anew with the first that needs it", () => {
    let shiftMs = 0;
    class Shifted extends ManualClock {
      override now(): number {
        return super.now() + shiftMs;
      }
    }
    const clock = new Shifted();
    let manual = true;
    const { limiter, logged } = stubbed<number>(() => ({ manual, idleMs: 1 }), { clock });
    limiter.attemptAcquire(1);
    shiftMs = -HOUR;
    logged();
    clock.advance(1000);
    expect(logged("tryReplenish").length).toBeGreaterThanOrEqual(9);
    shiftMs = HOUR;
    clock.advance(1000);
    expect(logged("tryReplenish").length).toBe(10);
    manual = false;
    limiter.attemptAcquire(2);
    limiter.delete(1);
    clock.advance(350);
    manual = true;
    limiter.attemptAcquire(3);
    logged();
    clock.advance(99);
    expect(logged("tryReplenish")).toEqual([]);
    clock.advance(1);
    expect(logged("tryReplenish").length).toBe(1);
  });

  it("C-23 is not put off by those who begin to wait", () => {
    const { limiter, clock } = driven(60);
    limiter.attemptAcquire(1);
    clock.advance(90);
    watch(limiter.acquire(1));
    clock.advance(10);
    expect(show(limiter.peekStatistics(1))).toBe("0/0/0/2");
  });

  it("C-24 R-JS-10 keeps the process alive exactly while somebody waits in a driven partition", async () => {
    const { limiter, clock } = driven();
    limiter.attemptAcquire(1);
    expect(clock.keepAliveTimerCount).toBe(0);
    const waiting = watch(limiter.acquire(1));
    expect([clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 1]);
    for (let i = 0; i < 9; i++) {
      clock.advance(100);
      expect([clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 1]);
    }
    clock.advance(100);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect([clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 0]);
  });

  it("C-24 R-JS-10 lets the process end when the partition that was waited for is gone, and others are there", async () => {
    const clock = new CountingClock();
    const options = { permitLimit: 1, windowMs: 100, queueLimit: 1, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.getFixedWindowLimiter(key, () => ({
          ...options,
          windowMs: key === "driven" ? 100 : HOUR,
          autoReplenishment: key !== "driven",
        })),
      { clock },
    );
    for (const key of ["other", "driven"]) limiter.attemptAcquire(key);
    watch(limiter.acquire("driven"));
    clock.advance(200);
    limiter.tryReplenish();
    expect(limiter.delete("driven")).toBe(true);
    clock.advance(IDLE);
    expect([clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 0]);
  });

  it("C-24 R-JS-10 lets the process end when the last who waited has left", () => {
    const { limiter, clock } = driven();
    limiter.attemptAcquire(1);
    const caller = new AbortController();
    watch(limiter.acquire(1, { signal: caller.signal }));
    watch(limiter.acquire(1, { signal: caller.signal }));
    clock.advance(100);
    expect(clock.keepAliveTimerCount).toBe(1);
    caller.abort();
    clock.advance(100);
    expect([clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 0]);
  });

  it("C-24 R-JS-10 keeps the process alive for one who waits in any of 2000 driven partitions", async () => {
    const { limiter, clock } = driven(60_000);
    for (let key = 0; key < 2000; key++) limiter.attemptAcquire(key);
    const waiting = watch(limiter.acquire(1500));
    for (let i = 0; i < 50; i++) {
      clock.advance(37);
      expect(clock.keepAliveTimerCount).toBe(1);
    }
    clock.advance(60_000);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(clock.keepAliveTimerCount).toBe(0);
  });

  it("C-24 does not keep the process alive for a request that was answered at once", async () => {
    const { limiter, clock } = driven();
    expect((await limiter.acquire(1)).isAcquired).toBe(true);
    expect((await limiter.acquire(1, { maxWaitMs: 0 })).isAcquired).toBe(false);
    expect(clock.keepAliveTimerCount).toBe(0);
  });
});

describe("maxPartitions", () => {
  const keys = 1_000_000;

  it("PT-4 PT-19 T-PT3 T-PT14 bounds the partitions under a million keys, and refuses those beyond it", () => {
    const { limiter, clock } = windows(2, HOUR, { maxPartitions: 1000, overflow: "reject" });
    expect(limiter.attemptAcquire(-1, 2).isAcquired).toBe(true);
    let most = 0;
    const outcomes = { granted: 0, refused: 0 };
    for (let key = 0; key < keys; key++) {
      const lease = limiter.attemptAcquire(key);
      if (lease.isAcquired) outcomes.granted += 1;
      else outcomes.refused += 1;
      most = Math.max(most, limiter.size);
    }
    expect([most, outcomes]).toEqual([1000, { granted: 999, refused: keys - 999 }]);
    // What has been used up is not forgiven; who is known already is served as ever.
    expect(limiter.attemptAcquire(-1).reason).toBe("limit_reached");
    expect(limiter.attemptAcquire(5).isAcquired).toBe(true);
    // An honest newcomer is shut out, and told why.
    const refused = limiter.attemptAcquire("newcomer" as never);
    expect([refused.isAcquired, refused.reason]).toEqual([false, "partition_overflow"]);
    expect([...refused.metadataNames]).toContain("REJECTION_REASON");
    expect(limiter.getTotals().totalFailedLeases).toBe(keys - 999 + 2);
    // ... until nothing would be lost without somebody else's partition.
    clock.advance(HOUR);
    expect(limiter.attemptAcquire(-2).isAcquired).toBe(true);
    expect(limiter.size).toBeLessThanOrEqual(1000);
  });

  it("PT-4 PT-7 PT-19 T-PT3 bounds the partitions under a million keys, and has those beyond it share one limiter", () => {
    const { limiter, clock } = windows(2, HOUR, { maxPartitions: 1000 });
    limiter.attemptAcquire(-1, 2);
    let granted = 0;
    for (let key = 0; key < keys; key++) if (limiter.attemptAcquire(key).isAcquired) granted += 1;
    // 999 with a partition of their own, and two of the shared limiter.
    expect([limiter.size, granted]).toEqual([1000, 1001]);
    expect(limiter.attemptAcquire(-1).reason).toBe("limit_reached");
    expect(limiter.attemptAcquire(5).isAcquired).toBe(true);
    // An honest newcomer is slowed down by the strangers, for as long as their shared limiter says.
    const refused = limiter.attemptAcquire(-2);
    expect([refused.reason, refused.retryAfterMs]).toEqual(["limit_reached", HOUR]);
    expect(show(limiter.getTotals())).toBe(`998/0/${keys - 1001 + 2}/1003`);
    expect(limiter.peekStatistics(-2)).toBeUndefined();
    clock.advance(HOUR);
    expect(limiter.attemptAcquire(-2).isAcquired).toBe(true);
    expect(limiter.size).toBeLessThanOrEqual(1000);
  });

  it.each([1, 2, 3, 16])("PT-6 has a new key take the place of an idle partition, of %d", (maxPartitions) => {
    const { limiter } = concurrencyByKey<number>(1, { maxPartitions, overflow: "reject" });
    for (let key = 0; key < 100; key++) {
      const lease = limiter.attemptAcquire(key);
      expect(`key ${key}: ${lease.reason}`).toBe(`key ${key}: undefined`);
      lease.dispose();
      expect(limiter.size).toBe(Math.min(key + 1, maxPartitions));
    }
  });

  it("PT-6 takes the place of no partition that is in use", () => {
    const { limiter } = concurrencyByKey<number>(1, { maxPartitions: 3, overflow: "reject" });
    const leases = [0, 1, 2].map((key) => limiter.attemptAcquire(key));
    expect(limiter.attemptAcquire(3).reason).toBe("partition_overflow");
    leases[1]?.dispose();
    expect(limiter.attemptAcquire(3).isAcquired).toBe(true);
    expect([...limiter.entries()].map(({ key }) => key)).toEqual([0, 2, 3]);
  });

  it("PT-7 refuses an acquire without room at once, as a lease that holds nothing", async () => {
    const { limiter } = concurrencyByKey(1, { maxPartitions: 1, overflow: "reject", queueLimit: 5 });
    limiter.attemptAcquire("a");
    const refused = await limiter.acquire("b", 1, { maxWaitMs: 5 });
    expect([refused.isAcquired, refused.reason]).toEqual([false, "partition_overflow"]);
    expect(() => refused.orThrow()).toThrow(expect.objectContaining({ reason: "partition_overflow" }));
    refused.dispose();
    refused.refund();
    expect(limiter.getStatistics("b")).toBeUndefined();
    expect(limiter.size).toBe(1);
    const one = limiter.forResource("c");
    expect(one.attemptAcquire().reason).toBe("partition_overflow");
    expect(() => one.pause(5)).toThrow(TypeError);
  });

  it("PT-7 makes the shared limiter once, by the first key that has no room, and disposes it with the others", () => {
    const { limiter, made, logged } = stubbed<string>(() => ({}), { maxPartitions: 1 });
    for (const key of ["a", "b", "c", "b"]) limiter.attemptAcquire(key);
    expect(made).toEqual(["a", "b"]);
    expect(logged()).toEqual(["a attempt 1", "b attempt 1", "b attempt 1", "b attempt 1"]);
    limiter.dispose();
    expect(logged()).toEqual(["a dispose", "b dispose"]);
  });

  it("PT-7 serves who waits in the shared limiter", async () => {
    const { limiter } = concurrencyByKey(1, { maxPartitions: 1, queueLimit: 1 });
    const a = limiter.attemptAcquire("a");
    const b = limiter.attemptAcquire("b");
    const waiting = watch(limiter.acquire("c"));
    a.dispose();
    await flush();
    expect(waiting.state).toBe("pending");
    b.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("C-23 replenishes the shared limiter too, when somebody has to", async () => {
    const clock = new ManualClock();
    const bucket = { tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 100, queueLimit: 1 };
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(
          key,
          () => new TokenBucketRateLimiter({ ...bucket, autoReplenishment: false, clock }),
        ),
      { clock, maxPartitions: 1 },
    );
    limiter.attemptAcquire("a");
    watch(limiter.acquire("a"));
    limiter.attemptAcquire("b");
    const waiting = watch(limiter.acquire("c"));
    expect(clock.keepAliveTimerCount).toBe(1);
    clock.advance(300);
    await flush();
    expect(waiting.state).toBe("fulfilled");
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("C-24 starts anew when all partitions are gone, with room for everybody", () => {
    const { limiter, clock } = windows(1, 1000, { maxPartitions: 2, overflow: "reject" });
    for (const key of [1, 2, 3]) limiter.attemptAcquire(key);
    clock.advance(60_000);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    expect([4, 5].map((key) => limiter.attemptAcquire(key).isAcquired)).toEqual([true, true]);
  });

  it("C-24 4.7 drops the shared limiter too when nothing would be lost without it, and with it the timer", () => {
    const { limiter, clock } = windows(1, 1000, { maxPartitions: 1 });
    for (const key of [1, 2, 3]) limiter.attemptAcquire(key);
    expect(show(limiter.getTotals())).toBe("0/0/1/2");
    clock.advance(60_000);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    expect(show(limiter.getTotals())).toBe("0/0/1/2");
  });

  /** Windows of 1, and keys without a limit, which start with "free". */
  const withFree = (overflow: "share" | "reject", helper: boolean) => {
    const clock = new ManualClock();
    const made: string[] = [];
    const limiter = PartitionedRateLimiter.create(
      (key: string) => {
        if (helper && key.startsWith("free")) return RateLimitPartition.getNoLimiter(key);
        return RateLimitPartition.get(key, () => {
          made.push(key);
          if (key.startsWith("free")) return new NoLimiter();
          return new FixedWindowRateLimiter({ permitLimit: 1, windowMs: HOUR, clock });
        });
      },
      { clock, maxPartitions: 2, overflow },
    );
    const ask = (key: string) => limiter.attemptAcquire(key).reason ?? "granted";
    return { limiter, clock, made, ask };
  };

  it.each([
    ["getNoLimiter", true],
    ["a factory", false],
  ])("PT-7 never has a NoLimiter of %s for the shared limiter", (_, helper) => {
    const { ask } = withFree("share", helper);
    expect(["a", "b", "free", "c", "d", "free"].map(ask)).toEqual([
      ...["granted", "granted", "granted", "granted", "limit_reached"],
      helper ? "granted" : "limit_reached",
    ]);
  });

  it.each(["share", "reject"] as const)("C-22 gives no place to a key without a limit: %s", (overflow) => {
    const { limiter, clock, ask } = withFree(overflow, true);
    for (let i = 0; i < 10; i++) expect(ask(`free ${i}`)).toBe("granted");
    expect([limiter.size, clock.timerCount, [...limiter.entries()]]).toEqual([0, 0, []]);
    expect(["a", "b"].map(ask)).toEqual(["granted", "granted"]);
    expect(ask("free 10")).toBe("granted");
    expect(show(limiter.getTotals())).toBe(`${Number.MAX_SAFE_INTEGER}/0/0/13`);
    expect(show(limiter.forResource("free 11").getStatistics())).toBe(`${Number.MAX_SAFE_INTEGER}/0/0/11`);
    expect([limiter.size, limiter.delete("free 0")]).toEqual([2, false]);
    clock.advance(2 * HOUR);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    limiter.dispose();
  });

  it("PT-7 keeps a NoLimiter that a user has extended like any other", () => {
    class Counting extends NoLimiter {}
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => new Counting()),
      { clock: new ManualClock(), maxPartitions: 2 },
    );
    for (const key of ["a", "b", "c"]) limiter.attemptAcquire(key);
    expect(limiter.size).toBe(2);
  });

  it("C-22 keeps a NoLimiter for each key where partitions are not counted, as in .NET", () => {
    const limiter = PartitionedRateLimiter.create((key: string) => RateLimitPartition.getNoLimiter(key), {
      clock: new ManualClock(),
    });
    for (const key of ["a", "b", "b"]) limiter.attemptAcquire(key);
    expect(limiter.size).toBe(2);
    expect(limiter.peekStatistics("b")?.totalSuccessfulLeases).toBe(2);
  });

  it("C-22 is unbounded by default", () => {
    const { limiter } = windows(1, HOUR);
    for (let key = 0; key < 20_000; key++) expect(limiter.attemptAcquire(key).isAcquired).toBe(true);
    expect(limiter.size).toBe(20_000);
  });
});

describe("a limiter that a factory made long ago", () => {
  it("PT-8 R-PART-15 is not dropped between lookup and use", () => {
    const clock = new ManualClock();
    const { limiter } = stubbed(() => ({ idleMs: 60_000 }), { clock });
    limiter.attemptAcquire("warm");
    const log: string[] = [];
    const old = new Stub("old", log, { idleMs: 60_000 });
    const other = PartitionedRateLimiter.create((key: string) => RateLimitPartition.get(key, () => old), {
      clock,
    });
    other.attemptAcquire("a");
    expect(log).toEqual(["old attempt 1"]);
  });
});
