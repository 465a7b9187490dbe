import { SlidingWindowRateLimiter, TokenBucketRateLimiter } from "headgate";
import { ManualClock } from "headgate/testing";
import { describe, expect, test } from "vitest";

/*
 * A request that says how long it may wait is refused at once only when it cannot be served in time. So the estimate must
 * never be above the wait of somebody who just waits.
 */
describe("nobody is refused for a deadline that would have been met", () => {
  test("a sliding window, when more wait than one window serves", async () => {
    const clock = new ManualClock();
    const limiter = new SlidingWindowRateLimiter({
      permitLimit: 10,
      windowMs: 1000,
      segmentsPerWindow: 10,
      queueLimit: 100,
      clock,
    });
    limiter.attemptAcquire(5);
    clock.advance(900);
    limiter.attemptAcquire(5);
    void limiter.acquire(5);
    void limiter.acquire(5);
    expect(limiter.estimateWaitMs(5)).toBe(1100);
    const inTime = limiter.acquire(5, { maxWaitMs: 1100 });
    expect((await limiter.acquire(5, { maxWaitMs: 1099 })).reason).toBe("deadline_unmet");
    clock.advance(1100);
    expect((await inTime).isAcquired).toBe(true);
  });

  test("a sliding window with a debt, which the first permits pay", async () => {
    const clock = new ManualClock();
    const limiter = new SlidingWindowRateLimiter({
      permitLimit: 4,
      windowMs: 400,
      segmentsPerWindow: 4,
      queueLimit: 100,
      clock,
    });
    const lease = limiter.attemptAcquire(2);
    clock.advance(100);
    limiter.attemptAcquire(2).adjust(4);
    lease.adjust(3);
    // The segments give back 3 at 400 and 4 at 500; of the first, 3 go for the debt.
    for (let i = 0; i < 4; i++) void limiter.acquire(1);
    expect(limiter.estimateWaitMs(1)).toBe(800);
    const next = limiter.acquire(1);
    clock.advance(799);
    clock.advance(1);
    expect((await next).isAcquired).toBe(true);
  });

  test("a token bucket with a debt, whose steps bring more than it holds", async () => {
    const clock = new ManualClock();
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 10,
      tokensPerPeriod: 25,
      replenishmentPeriodMs: 100,
      queueLimit: 100,
      clock,
    });
    limiter.attemptAcquire(10).adjust(32);
    void limiter.acquire(3);
    expect(limiter.estimateWaitMs(10)).toBe(200);
    const inTime = limiter.acquire(10, { maxWaitMs: 200 });
    expect((await limiter.acquire(10, { maxWaitMs: 200 })).reason).toBe("deadline_unmet");
    clock.advance(200);
    expect((await inTime).isAcquired).toBe(true);
  });
});

test("a bucket whose period is no whole number of microseconds brings no token too many", () => {
  const clock = new ManualClock();
  const limiter = new TokenBucketRateLimiter({
    tokenLimit: 1e9,
    tokensPerPeriod: 1,
    replenishmentPeriodMs: 1.0004,
    refill: "continuous",
    clock,
  });
  limiter.attemptAcquire(1e9);
  clock.advance(1_000_400);
  expect(limiter.getStatistics()?.currentAvailablePermits).toBeLessThanOrEqual(1_000_000);
});
