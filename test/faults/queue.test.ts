import {
  LimiterDisposedError,
  PartitionedRateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  withLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { ask, available, fates, numbers } from "../limiters/replenishing-support.js";
import { ManualClock, watch } from "../support.js";
import { ALL, admitted, comeBack, concurrency, FRONTS, LIMITERS, unhandledWhile } from "./support.js";

// Whoever waits is told in the end, in order, and nobody passes.

describe.each(ALL)("%s", (_, make) => {
  it("tells whom a newcomer pushed out, whenever he listens (H21: SGrondin/bottleneck#136)", async () => {
    const limiter = make(1, {
      ...{ clock: new ManualClock(), queueLimit: 1, queueProcessingOrder: "newestFirst" },
    });
    limiter.attemptAcquire();
    const first = limiter.acquire();
    let second: Promise<RateLimitLease> | undefined;
    const unhandled = await unhandledWhile(() => {
      second = limiter.acquire();
    });
    expect(unhandled).toEqual([]);
    const { isAcquired, reason } = await first;
    expect([isAcquired, reason]).toEqual([false, "queue_evicted"]);
    expect(await fates(watch(second as Promise<RateLimitLease>))).toBe(".");
  });

  it("lets no small request pass a large one that waits (H25: Effect-TS/effect#2107)", async () => {
    const clock = new ManualClock();
    const limiter = make(4, { clock });
    const lease = limiter.attemptAcquire(2);
    const large = ask(limiter, 4);
    const small = ask(limiter);
    const order: string[] = [];
    void large.promise.then(() => order.push("large"));
    void small.promise.then(() => order.push("small"));
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    expect(await fates(large, small)).toBe("..");
    comeBack(clock, lease);
    await fates();
    comeBack(clock, large.value);
    expect(await fates(large, small)).toBe("++");
    expect(order).toEqual(["large", "small"]);
  });

  it("gives a permit to who waits before anybody can barge in (H48: appstrate/appstrate#430)", async () => {
    const clock = new ManualClock();
    const limiter = make(2, { clock });
    const leases = [limiter.attemptAcquire(), limiter.attemptAcquire()];
    const waiters = [ask(limiter), ask(limiter)];
    comeBack(clock, ...leases);
    expect(admitted(limiter, 1)).toBe(0);
    expect(await fates(...waiters)).toBe("++");
    expect(available(limiter)).toBe(0);
  });
});

describe.each(FRONTS)("a concurrency limiter %s", (_, front) => {
  it.each<[string, (lease: RateLimitLease) => void]>([
    ["dispose", (lease) => lease.dispose()],
    ["refund", (lease) => lease.refund()],
    ["adjust(0)", (lease) => lease.adjust(0)],
  ])("hands the permit over inside %s (H48: appstrate/appstrate#430)", async (_, giveBack) => {
    const limiter = front(concurrency(2));
    const lease = limiter.attemptAcquire();
    limiter.attemptAcquire();
    const waiting = ask(limiter);
    giveBack(lease);
    expect([admitted(limiter, 1), available(limiter)]).toEqual([0, 0]);
    expect(await fates(waiting)).toBe("+");
  });

  it.each(["oldestFirst", "newestFirst", "highestPriorityFirst"] as const)(
    "loses nobody, in batches of all sizes, %s (H42: ForbesLindesay/throat#61)",
    async (queueProcessingOrder) => {
      const limiter = front(concurrency(4, { queueLimit: 1000, queueProcessingOrder }));
      const sizes = [...Array<number>(10).fill(100), 15, 16, 17, 31, 32, 33];
      let done = 0;
      for (const size of sizes) {
        await Promise.all(
          Array.from({ length: size }, (_, i) => withLease(limiter, () => fates(), { priority: i % 3 })),
        );
        done += size;
        expect(numbers(limiter)).toBe(`4/0/0/${done}`);
      }
      // And in a queue that is never empty while it moves on.
      const standing = Array.from({ length: 60 }, () => ask(limiter));
      for (let i = 0; i < 500; i++) {
        await fates();
        const next = standing.find((waiter) => waiter.state === "fulfilled");
        if (next === undefined) throw new Error(`nobody was served in round ${i}`);
        standing.splice(standing.indexOf(next), 1);
        standing.push(ask(limiter));
        next.value.dispose();
      }
      expect(numbers(limiter)).toBe(`0/56/0/${done + 504}`);
    },
  );
});

describe("a concurrency limiter under small requests", () => {
  it("serves a large one as soon as the first have ended (H25: Effect-TS/effect#2107)", async () => {
    const clock = new ManualClock();
    const limiter = concurrency(4, { clock, queueLimit: 2000 });
    const held = limiter.attemptAcquire(2);
    const grantedAt: number[] = [];
    const sizes: number[] = [];
    const hold = async (permits: number) => {
      const lease = await limiter.acquire(permits);
      grantedAt.push(clock.now());
      sizes.push(permits);
      clock.setTimer(() => lease.dispose(), 15);
    };
    void hold(4);
    for (let at = 10; at <= 10_000; at += 10) {
      clock.advance(10);
      if (at === 100) held.dispose();
      void hold(1);
      await fates();
    }
    expect([sizes[0], grantedAt[0], grantedAt[1]]).toEqual([4, 100, 120]);
    // What was asked for meanwhile has been made up for: 10 ms, 15 ms and 4 permits leave room.
    expect(limiter.getStatistics()).toMatchObject({ currentQueuedCount: 0, totalSuccessfulLeases: 1002 });
  });
});

describe.each(LIMITERS)("%s that is disposed", (_, make) => {
  it("refuses all who wait, and bears what comes after (H46: sindresorhus/p-limit#25)", async () => {
    const clock = new ManualClock();
    const limiter = make(1, { clock });
    const lease = limiter.attemptAcquire();
    const waiters = [ask(limiter), ask(limiter), ask(limiter)];
    limiter.dispose();
    limiter.dispose();
    expect(await fates(...waiters)).toBe("---");
    expect(waiters.map((waiter) => waiter.value.reason)).toEqual(Array(3).fill("limiter_disposed"));
    await expect(limiter.acquire()).rejects.toThrow(LimiterDisposedError);
    expect(() => comeBack(clock, lease)).not.toThrow();
    expect(clock.timerCount).toBe(0);
  });
});

describe("a partitioned limiter that is disposed", () => {
  it("refuses all who wait in any partition (H46: sindresorhus/p-limit#25)", async () => {
    const options = { permitLimit: 1, queueLimit: 3 };
    const limiter = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => options),
    );
    const held = ["a", "b"].map((key) => limiter.attemptAcquire(key));
    const waiters = ["a", "b", "b"].map((key) => watch(limiter.acquire(key)));
    limiter.dispose();
    limiter.dispose();
    expect(await fates(...waiters)).toBe("---");
    await expect(limiter.acquire("a")).rejects.toThrow(LimiterDisposedError);
    for (const lease of held) expect(() => lease.dispose()).not.toThrow();
  });
});
