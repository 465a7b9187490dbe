import { TokenBucketRateLimiter } from "headgate";
import { describe, expect, it } from "vitest";
import { type InsideLimiter, isLease, request, requestWith } from "../../src/internal.js";
import { ManualClock } from "../support.js";

describe("an acquire that finds a permit free", () => {
  it("is not granted when somebody who is served on the way has aborted it", () => {
    const clock = new ManualClock();
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 2,
      tokensPerPeriod: 2,
      replenishmentPeriodMs: 1000,
      queueLimit: 1,
      clock,
    });
    limiter.attemptAcquire(2);
    const leaving = new AbortController();
    const waiting = requestWith(
      limiter as InsideLimiter,
      1,
      {},
      {
        settled: () => leaving.abort("served before you"),
        failed: () => expect.unreachable("it is served"),
      },
    );
    expect(isLease(waiting)).toBe(false);
    // The time has come, but the alarm has not: who asks next brings the limiter up to the present.
    clock.set(1000);
    let thrown: unknown;
    try {
      request(limiter, 1, { signal: leaving.signal });
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBe("served before you");
    expect(limiter.getStatistics()?.currentAvailablePermits).toBe(1);
  });
});
