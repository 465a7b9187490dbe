import {
  FixedWindowRateLimiter,
  type RateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it, vi } from "vitest";
import { ask, available, fates } from "../limiters/replenishing-support.js";
import { ManualClock } from "../support.js";
import {
  ALL,
  admitted,
  comeBack,
  concurrency,
  LIMITERS,
  partitionOf,
  REPLENISHING,
  STEPPED,
} from "./support.js";

// Early, late and very long timers, clocks that jump, and time that is counted in pieces. The clock of the tests throws
// when it is asked for a delay that hosts would turn into 1 ms.

const DAY_MS = 24 * 3_600_000;

describe.each(STEPPED)("%s", (_, make) => {
  it("loses no window to timers that are 15 ms early or late by turns (H6: dotnet/runtime#74056)", async () => {
    let skew = 15;
    const clock = new ManualClock({
      timerSkewMs: () => {
        skew = -skew;
        return skew;
      },
    });
    const limiter = make(1, { clock });
    const waiters = Array.from({ length: 25 }, () => ask(limiter));
    for (let window = 0; window < 25; window++) {
      clock.set(window * 1000);
      clock.advance(999);
      expect((await fates(...waiters)).indexOf(".")).toBe(window === 24 ? -1 : window + 1);
    }
  });

  it("admits its limit once per window when timers are 300 ms late (H40: denoland/std#7237)", async () => {
    const clock = new ManualClock({ timerSkewMs: 300 });
    const limiter = make(5, { clock });
    limiter.attemptAcquire(5);
    const waiting = ask(limiter);
    clock.advance(1250);
    const early = admitted(limiter, 5);
    clock.advance(50);
    expect(await fates(waiting)).toBe("+");
    clock.advance(10);
    const late = admitted(limiter, 5);
    clock.advance(680);
    // With the waiter these are the 5 of the window from 1000 to 2000.
    expect([early, late, admitted(limiter, 5)]).toEqual([4, 0, 0]);
    // In a sliding window they come back at 2250, since they were taken after 1000 + 250.
    clock.advance(260);
    expect(admitted(limiter, 6)).toBe(5);
  });
});

describe.each(REPLENISHING)("%s", (_, make) => {
  it("stays shut for the 317 years of its period (H12: golang/go#71154)", async () => {
    const clock = new ManualClock();
    const limiter = make(1, { clock }, 1e13);
    limiter.attemptAcquire();
    const waiting = ask(limiter);
    clock.advance(3_600_000);
    const { isAcquired, retryAfterMs } = limiter.attemptAcquire();
    expect(isAcquired).toBe(false);
    expect(retryAfterMs).toBeGreaterThanOrEqual(1e13 - 3_600_000);
    expect(retryAfterMs).toBeLessThan(Number.POSITIVE_INFINITY);
    expect(await fates(waiting)).toBe(".");
  });

  it("is not changed by attempts that it refuses (H13: golang/time#22)", () => {
    const [asked, left] = [new ManualClock(), new ManualClock()];
    const limiters = [asked, left].map((clock) => make(3, { clock }, 3000));
    for (const limiter of limiters) limiter.attemptAcquire(3);
    const course = Array.from({ length: 40 }, (_, i) => {
      left.set(i * 99.9);
      asked.set(i * 99.9);
      // Only one of the two limiters is asked for more than there is.
      const free = available(limiters[0] as RateLimiter) as number;
      if (free < 3) expect(limiters[0]?.attemptAcquire(free + 1).isAcquired).toBe(false);
      return limiters.map(available);
    });
    expect(course.filter(([a, b]) => a !== b)).toEqual([]);
    expect(course.at(-1)).toEqual([3, 3]);
  });

  it("admits 5 in each of 4 windows, as a partition (H43: BasedHardware/omi#10164)", () => {
    const clock = new ManualClock();
    const limiter = partitionOf(make(5, { clock }));
    const counts = [0, 1000, 2000, 3000].map((at) => {
      clock.set(at);
      return admitted(limiter, 7);
    });
    expect(counts).toEqual([5, 5, 5, 5]);
  });

  it("goes by no wall clock, be it set back or forward (H37: jhurliman/node-rate-limiter#22)", () => {
    const limiter = make(10, {}, 3_600_000);
    const { now } = Date;
    limiter.attemptAcquire();
    vi.spyOn(Date, "now").mockImplementation(() => now() - 3_600_000);
    expect(admitted(limiter, 10)).toBe(9);
    const { retryAfterMs } = limiter.attemptAcquire();
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(3_600_000);
    vi.spyOn(Date, "now").mockImplementation(() => now() + 2 * 3_600_000);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
  });
});

describe("a paused limiter", () => {
  it("goes by no wall clock either (H37: jhurliman/node-rate-limiter#22)", () => {
    const limiter = concurrency(1);
    const { now } = Date;
    limiter.pause(3_600_000);
    for (const jump of [-3_600_000, 2 * 3_600_000]) {
      vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
      const { reason, retryAfterMs } = limiter.attemptAcquire();
      expect(reason).toBe("server_pause");
      expect(retryAfterMs).toBeLessThanOrEqual(3_600_000);
    }
  });
});

describe("windows", () => {
  const LIMIT = { permitLimit: 6, windowMs: 1000 };

  it("that are fixed admit twice their limit around a boundary and never more (H7: dotnet/runtime#101612)", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ ...LIMIT, clock });
    clock.set(950);
    expect(admitted(limiter, 7)).toBe(6);
    clock.set(1000);
    expect(admitted(limiter, 7)).toBe(6);
    clock.set(1949);
    expect(admitted(limiter, 1)).toBe(0);
  });

  it("that slide admit no second burst around a boundary (H7: dotnet/runtime#101612)", () => {
    const clock = new ManualClock();
    const limiter = new SlidingWindowRateLimiter({ ...LIMIT, segmentsPerWindow: 10, clock });
    const counts = [950, 1000, 1500, 1899.999, 1900].map((at) => {
      clock.set(at);
      return admitted(limiter, 7);
    });
    expect(counts).toEqual([6, 0, 0, 0, 6]);
  });
});

describe.each(LIMITERS)("a queue time-out of %s", (_, make) => {
  it("of Infinity is an error: for ever is undefined (H27: resilience4j/resilience4j#1701, C-11)", () => {
    expect(() => make(1, { queueTimeoutMs: Number.POSITIVE_INFINITY })).toThrow(RangeError);
  });

  it.each([undefined, Number.MAX_VALUE, 2 ** 53])(
    "of %s ms lets in who has waited for a day (H27: resilience4j/resilience4j#1701)",
    async (queueTimeoutMs) => {
      const clock = new ManualClock();
      const limiter = make(1, { clock, queueTimeoutMs }, DAY_MS);
      const lease = limiter.attemptAcquire();
      const waiting = ask(limiter);
      clock.advance(DAY_MS - 1000);
      expect(await fates(waiting)).toBe(".");
      comeBack(clock, lease);
      expect(await fates(waiting)).toBe("+");
    },
  );
});

describe.each(ALL)("a caller's patience with %s", (_, make) => {
  it.each([Number.MAX_VALUE, 2 ** 53])(
    "may be %d ms (H27: resilience4j/resilience4j#1701)",
    async (maxWaitMs) => {
      const clock = new ManualClock();
      const limiter = make(1, { clock }, DAY_MS);
      const lease = limiter.attemptAcquire();
      let isAcquired: boolean | undefined;
      void limiter.acquire({ maxWaitMs }).then((granted) => {
        ({ isAcquired } = granted);
      });
      clock.advance(DAY_MS - 1000);
      await fates();
      expect(isAcquired).toBeUndefined();
      comeBack(clock, lease);
      await fates();
      expect(isAcquired).toBe(true);
    },
  );
});

describe("a bucket", () => {
  const RATES = {
    "100 a second, as they accrue": [100, 100, 1000, "continuous"],
    "100 a second, one by one": [100, 1, 10, "stepped"],
    "1 in 10 s, as it accrues": [1, 1, 10_000, "continuous"],
    "1 in 10 s, in steps": [1, 1, 10_000, "stepped"],
  } as const;

  it.each([
    ["100 a second, as they accrue", 1, 1000, 100],
    ["100 a second, one by one", 1, 1000, 100],
    ["1 in 10 s, as it accrues", 1000, 10_000, 1],
    ["1 in 10 s, in steps", 1000, 10_000, 1],
  ] as const)(
    "gives those who ask often all that comes: %s, asked every %d ms for %d ms (H49: apache/polaris#3433)",
    (rate, everyMs, forMs, expected) => {
      const clock = new ManualClock();
      const [tokenLimit, tokensPerPeriod, replenishmentPeriodMs, refill] = RATES[rate];
      const limiter = partitionOf(
        new TokenBucketRateLimiter({ tokenLimit, tokensPerPeriod, replenishmentPeriodMs, refill, clock }),
      );
      limiter.attemptAcquire(tokenLimit);
      const grantedAt: number[] = [];
      while (clock.now() < forMs) {
        clock.advance(everyMs);
        if (limiter.attemptAcquire().isAcquired) grantedAt.push(clock.now());
      }
      expect(grantedAt).toHaveLength(expected);
      expect(grantedAt.at(-1)).toBe(forMs);
    },
  );
});
