import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimitLease,
  TokenBucketRateLimiter,
} from "headgate";
import { ManualClock } from "headgate/testing";
import { describe, expect, test } from "vitest";
import { requestWith } from "../../src/internal.js";

describe("a lease that is changed while it is being changed", () => {
  test("is charged once, when time that passed serves somebody who adjusts the same lease", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 10, windowMs: 100, queueLimit: 10, clock });
    const lease = limiter.attemptAcquire(10);
    requestWith(limiter, 1, {}, { settled: () => lease.adjust(14), failed: () => {} });
    clock.set(100);
    lease.adjust(14);
    expect(limiter.getStatistics()?.currentAvailablePermits).toBe(5);
  });

  test("gives nothing back any more, when that somebody disposes it", () => {
    const clock = new ManualClock();
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 10,
      tokensPerPeriod: 6,
      replenishmentPeriodMs: 100,
      queueLimit: 10,
      clock,
    });
    const lease: RateLimitLease = limiter.attemptAcquire(10);
    requestWith(limiter, 1, {}, { settled: () => lease.dispose(), failed: () => {} });
    clock.set(100);
    lease.adjust(7);
    expect(limiter.getStatistics()?.currentAvailablePermits).toBe(5);
    lease.adjust(0);
    expect(limiter.getStatistics()?.currentAvailablePermits).toBe(5);
  });
});

describe("idle", () => {
  test("a lease for 0 permits that is raised counts as use", () => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 2, clock });
    const lease = limiter.attemptAcquire(0);
    clock.advance(100);
    lease.adjust(2);
    expect(limiter.idleDurationMs).toBeUndefined();
    clock.advance(100);
    lease.dispose();
    clock.advance(100);
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(50);
    expect(limiter.idleDurationMs).toBe(50);
  });
});

test("a refused attempt makes no lease while others wait", () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
  limiter.attemptAcquire();
  void limiter.acquire();
  expect(limiter.attemptAcquire()).toBe(limiter.attemptAcquire());
  expect(limiter.getStatistics()?.totalFailedLeases).toBe(2);
});

test("who waits exactly as long as a pause said is not refused again", () => {
  const clock = new ManualClock();
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, clock });
  for (let i = 1; i <= 5000; i++) {
    clock.advance(i / 7);
    limiter.pause(1 / i + i / 3);
    clock.advance(1 / 11);
    const { retryAfterMs } = limiter.attemptAcquire();
    if (retryAfterMs === undefined) continue;
    clock.advance(retryAfterMs);
    limiter.attemptAcquire().orThrow().dispose();
  }
});

test("a clock that throws once does not stop the queue for good", async () => {
  const inner = new ManualClock();
  let isBroken = false;
  const clock = {
    now: () => {
      if (isBroken) {
        isBroken = false;
        throw new Error("broken clock");
      }
      return inner.now();
    },
    setTimer: inner.setTimer.bind(inner),
  };
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2, clock });
  const lease = limiter.attemptAcquire();
  const first = limiter.acquire();
  const second = limiter.acquire();
  isBroken = true;
  expect(() => lease.dispose()).toThrow("broken clock");
  (await first).dispose();
  (await second).dispose();
});
