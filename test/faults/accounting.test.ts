import { NoLimiter, PartitionedRateLimiter, RateLimiter, RateLimitPartition } from "headgate";
import { describe, expect, it } from "vitest";
import { ask, available, fates, numbers } from "../limiters/replenishing-support.js";
import { ManualClock } from "../support.js";
import { ALL, admitted, concurrency, fixed, partitionOf, REPLENISHING, sliding } from "./support.js";

// Permits are charged once, given back at most once, and only to where they came from.

describe.each(REPLENISHING)("a chain of %s and a concurrency limiter", (_, make) => {
  const setUp = (limit = 10) => {
    const outer = make(limit, { clock: new ManualClock() }, 60_000);
    const inner = concurrency(1, { queueLimit: 1 });
    return { outer, inner, chain: RateLimiter.createChained(outer, inner) };
  };

  it("charges the first once, although the second makes callers wait (H8: dotnet/runtime#113314)", async () => {
    const { outer, chain } = setUp();
    const held = chain.attemptAcquire();
    const waiting = ask(chain);
    expect([await fates(waiting), available(outer)]).toEqual([".", 8]);
    held.dispose();
    expect([await fates(waiting), available(outer)]).toEqual(["+", 8]);
  });

  it("charges the first nothing for whom the second refuses or loses (H8: dotnet/runtime#113314, C-19)", async () => {
    const { outer, inner, chain } = setUp();
    chain.attemptAcquire();
    const caller = new AbortController();
    const waiting = ask(chain, 1, caller.signal);
    expect(chain.attemptAcquire().isAcquired).toBe(false);
    expect(await fates(ask(chain), waiting)).toBe("-.");
    caller.abort();
    expect(await fates(waiting)).toBe("x");
    expect([available(outer), numbers(inner)]).toEqual([9, "0/0/2/1"]);
  });
});

describe("what a limiter was made from", () => {
  it("may change afterwards: the limiters of a chain (H11: dotnet/runtime#107230)", () => {
    const limiters = [concurrency(5), concurrency(5)];
    const kept = [...limiters];
    const chain: RateLimiter = RateLimiter.createChained.apply(undefined, limiters);
    limiters.length = 0;
    limiters.push(concurrency(1));
    chain.attemptAcquire(2);
    expect(kept.map(available)).toEqual([3, 3]);
  });

  it("may change afterwards: the partitioned limiters of a chain (H11: dotnet/runtime#107230)", () => {
    const limiters = [1, 2].map(() =>
      PartitionedRateLimiter.create(() => RateLimitPartition.get("key", () => concurrency(5))),
    );
    const kept = [...limiters];
    const chain = PartitionedRateLimiter.createChained(...limiters);
    limiters.length = 0;
    chain.attemptAcquire(undefined, 2);
    expect(kept.map((limiter) => limiter.getTotals().currentAvailablePermits)).toEqual([3, 3]);
  });

  it("may change afterwards: the options that partitions share (H11: dotnet/runtime#107230)", () => {
    const options = { permitLimit: 5 };
    const limiter = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => options),
    );
    expect(limiter.attemptAcquire("key").isAcquired).toBe(true);
    options.permitLimit = 1;
    expect(limiter.getStatistics("key")?.currentAvailablePermits).toBe(4);
    expect(limiter.attemptAcquire("key", 4).isAcquired).toBe(true);
  });
});

describe.each(REPLENISHING)("a lease of %s", (_, make) => {
  const setUp = () => {
    const clock = new ManualClock();
    const limiter = make(10, { clock });
    const lease = limiter.attemptAcquire(3);
    clock.set(1000);
    return { limiter, lease };
  };

  it("gives nothing to a period in which all is there (H24: express-rate-limit/express-rate-limit#647)", () => {
    const { limiter, lease } = setUp();
    lease.refund();
    lease.refund();
    expect([available(limiter), admitted(limiter, 12)]).toEqual([10, 10]);
  });

  it("never makes more than the limit of what is there (H24: express-rate-limit/express-rate-limit#647)", () => {
    const { limiter, lease } = setUp();
    limiter.attemptAcquire();
    lease.adjust(0);
    expect(available(limiter)).toBeLessThanOrEqual(10);
    // Debt is no less real: what turns out to cost more takes it from the present period.
    const another = limiter.attemptAcquire(available(limiter));
    another.adjust(12);
    expect([available(limiter), admitted(limiter, 12)]).toEqual([0, 0]);
  });
});

describe.each([
  ["a fixed window", fixed],
  ["a sliding window", sliding],
] as const)("a lease of an earlier window, %s", (_, make) => {
  it("gives nothing to the present one (H24: express-rate-limit/express-rate-limit#647)", () => {
    const clock = new ManualClock();
    const limiter = partitionOf(make(10, { clock }));
    const lease = limiter.attemptAcquire(3);
    clock.set(1000);
    limiter.attemptAcquire(4);
    lease.refund();
    expect(admitted(limiter, 12)).toBe(6);
  });
});

describe.each(ALL)("%s", (_, make) => {
  it("refuses with a RangeError what it could never grant, and nothing has changed (H32: google/guava#7130)", async () => {
    const limiter = make(10, { clock: new ManualClock() });
    limiter.attemptAcquire(5);
    for (const count of [11, 100, 5000, 2 ** 31, 2 ** 53 - 1]) {
      expect(() => limiter.attemptAcquire(count)).toThrow(RangeError);
      await expect(limiter.acquire(count)).rejects.toThrow(RangeError);
    }
    expect(numbers(limiter)).toMatch(/^5\/0\/0\//);
    expect(admitted(limiter, 6)).toBe(5);
  });
});

describe("a chain", () => {
  it("has given everything back when a later limiter could never grant it (H32: google/guava#7130)", async () => {
    const clock = new ManualClock();
    const first = fixed(10_000, { clock });
    const chain = RateLimiter.createChained(first, new NoLimiter(), sliding(5, { clock }));
    expect(() => chain.attemptAcquire(5000)).toThrow(RangeError);
    await expect(chain.acquire(5000)).rejects.toThrow(RangeError);
    expect(available(first)).toBe(10_000);
  });
});
