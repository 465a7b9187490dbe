import {
  FixedWindowRateLimiter,
  MetadataName,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../support.js";
import { chainOf, FRONTS, partitionOf, REPLENISHING } from "./support.js";

// Who is told when to come back is told the truth.

describe.each(FRONTS)("a fixed window %s", (_, front) => {
  it("tells what is left of the window and not all of it (H4: dotnet/runtime#92557)", async () => {
    const clock = new ManualClock();
    const limiter = front(new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 20_000, clock }));
    limiter.attemptAcquire(2);
    clock.advance(19_000);
    const refused = limiter.attemptAcquire();
    expect(refused.retryAfterMs).toBe(1000);
    expect(() => refused.orThrow()).toThrow(expect.objectContaining({ retryAfterMs: 1000 }));
    expect((await limiter.acquire()).retryAfterMs).toBe(1000);
  });
});

describe("the retry-after that a limiter has a name for", () => {
  const clock = new ManualClock();
  const windowOf = () =>
    new SlidingWindowRateLimiter({ permitLimit: 5, windowMs: 30_000, segmentsPerWindow: 3, clock });
  const bucketOf = () =>
    new TokenBucketRateLimiter({ tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 10_000, clock });

  it.each([
    ["a sliding window", windowOf, 5, 1000, 29_000],
    ["a chained sliding window", () => chainOf(windowOf()), 5, 1000, 29_000],
    ["a bucket", bucketOf, 1, 9000, 1000],
    ["a bucket as a partition", () => partitionOf(bucketOf()), 1, 9000, 1000],
  ])("has a value, and it is what is left: %s (H5: dotnet/runtime#129036)", (_, make, limit, at, leftMs) => {
    clock.set(0);
    const limiter = make();
    limiter.attemptAcquire(limit);
    clock.set(at);
    const refused = limiter.attemptAcquire();
    const names = [...refused.metadataNames];
    const values = new Map(refused.getAllMetadata());
    expect(values.get(MetadataName.retryAfter.name)).toBe(leftMs);
    expect(names).toContain(MetadataName.retryAfter.name);
    // Each value has a name, and each name a value.
    expect([...values.keys()]).toEqual(names);
  });
});

describe.each(REPLENISHING)("%s", (_, make) => {
  it.each([1300, 1000 / 3, 0.7])(
    "grants whoever waited exactly as told, 1000 times in a row, with %d ms (H14: golang/go#34861)",
    (periodMs) => {
      const clock = new ManualClock({ startMs: 0.1 });
      const limiter = make(1, { clock }, periodMs);
      limiter.attemptAcquire();
      for (let round = 1; round <= 1000; round++) {
        const refused = limiter.attemptAcquire();
        expect(refused.isAcquired).toBe(false);
        clock.advance(refused.retryAfterMs as number);
        expect([round, limiter.attemptAcquire().isAcquired]).toEqual([round, true]);
      }
      // Nobody had to wait longer than the rate says, either.
      expect(clock.now()).toBeLessThan(1001 * periodMs + 1);
    },
  );
});
