import { ConcurrencyLimiter, FixedWindowRateLimiter, TokenBucketRateLimiter } from "headgate";
import { expect, test } from "vitest";

test("options that change between two limiters are noticed, wrong ones too", () => {
  const options = { permitLimit: 1, windowMs: 1000 };
  expect(new FixedWindowRateLimiter(options).getStatistics()?.currentAvailablePermits).toBe(1);
  options.permitLimit = 2;
  expect(new FixedWindowRateLimiter(options).getStatistics()?.currentAvailablePermits).toBe(2);
  options.permitLimit = 0;
  expect(() => new FixedWindowRateLimiter(options)).toThrow(RangeError);
  options.permitLimit = 1;
  expect(new FixedWindowRateLimiter(options).getStatistics()?.currentAvailablePermits).toBe(1);
});

test("options that change and are inherited are noticed", () => {
  let permitLimit = 1;
  class Options {
    get permitLimit() {
      return permitLimit;
    }
  }
  const options = new Options();
  expect(new ConcurrencyLimiter(options).permitLimit).toBe(1);
  permitLimit = 3;
  expect(new ConcurrencyLimiter(options).permitLimit).toBe(3);
  permitLimit = Number.NaN;
  expect(() => new ConcurrencyLimiter(options)).toThrow(RangeError);
});

test("limiters of many tiers, made in turn, each have their own limit", () => {
  const tiers = Array.from({ length: 20 }, (_, i) => ({
    tokenLimit: i + 1,
    tokensPerPeriod: 1,
    replenishmentPeriodMs: 1000 + i,
  }));
  for (let round = 0; round < 2; round++) {
    for (const tier of tiers) {
      const limiter = new TokenBucketRateLimiter(tier);
      expect(limiter.getStatistics()?.currentAvailablePermits).toBe(tier.tokenLimit);
      expect(limiter.replenishmentPeriodMs).toBe(tier.replenishmentPeriodMs);
    }
  }
});
