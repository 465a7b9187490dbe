import { ConcurrencyLimiter, RateLimiter, type RejectionReason } from "headgate";
import { AdaptiveConcurrencyLimiter, FixedLimit } from "headgate/adaptive";
import { describe, expect, it } from "vitest";
import { type InsideLimiter, inside } from "../../src/internal.js";
import { flush, ManualClock } from "../support.js";

function refusalsOf(limiter: InsideLimiter): Record<string, number> {
  const counts: Record<string, number> = {};
  limiter[inside]?.forEachRefusal?.((reason: RejectionReason, count) => {
    counts[reason] = (counts[reason] ?? 0) + count;
  });
  return counts;
}

describe("what was refused, by reason", () => {
  it("adds up to all that was refused, those refused by dispose included", async () => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2, queueTimeoutMs: 100, clock });
    expect(refusalsOf(limiter)).toEqual({});
    limiter.attemptAcquire();
    for (let i = 0; i < 5; i++) limiter.attemptAcquire();
    void limiter.acquire();
    void limiter.acquire();
    void limiter.acquire();
    void limiter.acquire({ maxWaitMs: -1 });
    clock.advance(100);
    limiter.pause(50);
    limiter.attemptAcquire();
    void limiter.acquire();
    limiter.dispose();
    await flush();
    expect(refusalsOf(limiter)).toEqual({
      limit_reached: 5,
      queue_full: 1,
      deadline_expired: 1,
      queue_timeout: 2,
      server_pause: 1,
      limiter_disposed: 1,
    });
  });

  it("is that of all shares for an adaptive limiter as a whole, and of its own for each share", () => {
    const limiter = new AdaptiveConcurrencyLimiter({ limit: new FixedLimit(1), shares: { a: 0.5 } });
    limiter.attemptAcquire();
    limiter.attemptAcquire();
    limiter.forShare("a").attemptAcquire();
    limiter.forShare("a").attemptAcquire();
    expect(refusalsOf(limiter)).toEqual({ share_exceeded: 2 });
    expect(refusalsOf(limiter.forShare("a"))).toEqual({ share_exceeded: 1 });
  });

  it("is not told by a chain, which refuses nothing itself", () => {
    expect(refusalsOf(RateLimiter.createChained(new ConcurrencyLimiter({ permitLimit: 1 })))).toEqual({});
  });
});
