import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimiter,
  type RateLimitLease,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";

interface Subject {
  readonly limiter: RateLimiter;
  /** What a subclass reaches. */
  attempt(permitCount: number): RateLimitLease;
}

describe.each<[string, () => Subject]>([
  [
    "ConcurrencyLimiter",
    () => {
      class Sub extends ConcurrencyLimiter {
        readonly attempt = (n: number) => this.attemptAcquireCore(n);
      }
      const limiter = new Sub({ permitLimit: 2 });
      return { limiter, attempt: limiter.attempt };
    },
  ],
  [
    "FixedWindowRateLimiter",
    () => {
      class Sub extends FixedWindowRateLimiter {
        readonly attempt = (n: number) => this.attemptAcquireCore(n);
      }
      const limiter = new Sub({ permitLimit: 2, windowMs: 1000 });
      return { limiter, attempt: limiter.attempt };
    },
  ],
  [
    "SlidingWindowRateLimiter",
    () => {
      class Sub extends SlidingWindowRateLimiter {
        readonly attempt = (n: number) => this.attemptAcquireCore(n);
      }
      const limiter = new Sub({ permitLimit: 2, windowMs: 1000, segmentsPerWindow: 2 });
      return { limiter, attempt: limiter.attempt };
    },
  ],
  [
    "TokenBucketRateLimiter",
    () => {
      class Sub extends TokenBucketRateLimiter {
        readonly attempt = (n: number) => this.attemptAcquireCore(n);
      }
      const limiter = new Sub({ tokenLimit: 2, tokensPerPeriod: 1, replenishmentPeriodMs: 1000 });
      return { limiter, attempt: limiter.attempt };
    },
  ],
])("a subclass of %s", (_, make) => {
  it("reaches the same attempt by the protected core as callers do", () => {
    const { limiter, attempt } = make();
    expect(attempt(1).isAcquired).toBe(true);
    expect(attempt(2).isAcquired).toBe(false);
    expect(() => attempt(3)).toThrow(RangeError);
    expect(limiter.getStatistics()).toMatchObject({ totalSuccessfulLeases: 1, totalFailedLeases: 1 });
  });
});
