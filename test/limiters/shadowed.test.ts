import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  RateLimitPartition,
  ReplenishingRateLimiter,
  type ShadowedRateLimiter,
  type ShadowRejection,
  shadowed,
} from "headgate";
import { getLimiterState, trackLeases } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../support.js";

const make = (queueLimit = 0, permitLimit = 1) => {
  const clock = new ManualClock();
  const inner = new ConcurrencyLimiter({ permitLimit, queueLimit, clock });
  const rejections: ShadowRejection[] = [];
  const limiter = shadowed(inner, { onRejected: (rejection) => void rejections.push(rejection) });
  const counts = () => [limiter.wouldHaveRefused, limiter.wouldHaveWaited];
  return { clock, inner, limiter, rejections, counts };
};

describe("shadowed", () => {
  it("hands out the limiter's own leases while it grants", async () => {
    const { limiter, inner, counts } = make();
    const lease = await limiter.acquire();
    expect(lease.isAcquired).toBe(true);
    expect(inner.getStatistics().currentAvailablePermits).toBe(0);
    lease.dispose();
    expect(inner.getStatistics().currentAvailablePermits).toBe(1);
    expect(counts()).toEqual([0, 0]);
  });

  it("lets through what the limiter would have refused, says why, and charges nothing", async () => {
    const { limiter, inner, rejections, counts } = make();
    limiter.attemptAcquire();
    for (const lease of [limiter.attemptAcquire(), await limiter.acquire()]) {
      expect([lease.isAcquired, lease.reason, [...lease.metadataNames]]).toEqual([true, undefined, []]);
      lease.adjust(5);
      lease.dispose();
    }
    expect(inner.getStatistics().currentAvailablePermits).toBe(0);
    expect(counts()).toEqual([2, 0]);
    expect(rejections[0]).toEqual({
      permitCount: 1,
      wouldHaveWaited: false,
      reason: "limit_reached",
      retryAfterMs: undefined,
      error: undefined,
    });
  });

  it("tells waiting from refusal, by whether the queue has room", async () => {
    const { limiter, counts } = make(2, 3);
    limiter.attemptAcquire(3);
    await limiter.acquire(2);
    expect(counts()).toEqual([0, 1]);
    await limiter.acquire(3);
    expect(counts()).toEqual([1, 1]);
    limiter.attemptAcquire();
    await limiter.acquire(1, { maxWaitMs: 0 });
    expect(counts()).toEqual([3, 1]);
  });

  it("tells it for a chain too, from all of its limiters, and for a shadow of a shadow", async () => {
    const clock = new ManualClock();
    const queueing = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5, clock });
    const open = new NoLimiter();
    const strict = new ConcurrencyLimiter({ permitLimit: 2, clock });
    const limiter = shadowed(shadowed(RateLimiter.createChained(open, queueing, strict)));
    limiter.attemptAcquire();
    await limiter.acquire();
    // A shadow in a shadow always grants: the inner one counted.
    expect([limiter.wouldHaveWaited, limiter.wouldHaveRefused]).toEqual([0, 0]);
    const outer = shadowed(RateLimiter.createChained(queueing, strict));
    await outer.acquire();
    expect([outer.wouldHaveWaited, outer.wouldHaveRefused]).toEqual([1, 0]);
    strict.attemptAcquire(1);
    await outer.acquire();
    expect([outer.wouldHaveWaited, outer.wouldHaveRefused]).toEqual([1, 1]);
  });

  it("lets through in a chain and behind the tracker too, which ask by the inside door", async () => {
    const { limiter, counts } = make();
    limiter.attemptAcquire();
    expect((await RateLimiter.createChained(limiter).acquire()).isAcquired).toBe(true);
    expect((await trackLeases(limiter).acquire()).isAcquired).toBe(true);
    expect(counts()).toEqual([2, 0]);
  });

  it("counts the limiter's errors as refusals, but not the caller's mistakes", async () => {
    const { limiter, inner, rejections, counts } = make();
    expect(limiter.attemptAcquire(2).isAcquired).toBe(true);
    inner.dispose();
    expect((await limiter.acquire()).isAcquired).toBe(true);
    expect(rejections.map((r) => (r.error as Error).name)).toEqual(["RangeError", "LimiterDisposedError"]);
    expect(counts()).toEqual([2, 0]);
    expect(() => limiter.attemptAcquire(Number.NaN)).toThrow(RangeError);
    await expect(limiter.acquire(1, { signal: AbortSignal.abort("left") })).rejects.toBe("left");
    expect(counts()).toEqual([2, 0]);
  });

  it("C-2 counts a caller whose deadline has passed, and takes nothing from the limiter", async () => {
    const { limiter, inner, rejections, counts } = make(1);
    expect((await limiter.acquire({ maxWaitMs: -1 })).isAcquired).toBe(true);
    expect(counts()).toEqual([1, 0]);
    expect(rejections).toEqual([
      {
        permitCount: 1,
        wouldHaveWaited: false,
        reason: "deadline_expired",
        retryAfterMs: undefined,
        error: undefined,
      },
    ]);
    expect(inner.getStatistics()).toMatchObject({ currentAvailablePermits: 1, totalSuccessfulLeases: 0 });
  });

  it("tells how long a paused limiter would have held the caller off", () => {
    const { limiter, inner, rejections } = make();
    inner.pause(500);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
    expect(rejections[0]).toMatchObject({ reason: "server_pause", retryAfterMs: 500 });
  });

  it("passes on what the callback throws, with its counts right", async () => {
    const error = new Error("hook");
    const limiter = shadowed(new ConcurrencyLimiter({ permitLimit: 1 }), {
      onRejected: () => {
        throw error;
      },
    });
    limiter.attemptAcquire();
    expect(() => limiter.attemptAcquire()).toThrow(error);
    await expect(limiter.acquire()).rejects.toBe(error);
    expect(limiter.wouldHaveRefused).toBe(2);
  });

  it("shows the limiter's statistics and idle time, and disposes it", async () => {
    const { limiter, inner, clock } = make();
    clock.advance(5);
    expect(limiter.idleDurationMs).toBe(5);
    expect(limiter.getStatistics()).toEqual(inner.getStatistics());
    limiter.dispose();
    await limiter.disposeAsync();
    expect(() => inner.attemptAcquire()).toThrow("disposed");
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it("is a ReplenishingRateLimiter when the limiter is one", () => {
    const clock = new ManualClock();
    const options = { permitLimit: 1, windowMs: 1000, clock };
    const inner = new FixedWindowRateLimiter({ ...options, autoReplenishment: false });
    const limiter: ShadowedRateLimiter & ReplenishingRateLimiter = shadowed(inner);
    expect(limiter).toBeInstanceOf(ReplenishingRateLimiter);
    expect(shadowed(new NoLimiter())).not.toBeInstanceOf(ReplenishingRateLimiter);
    expect([limiter.isAutoReplenishing, limiter.replenishmentPeriodMs]).toEqual([false, 1000]);
    limiter.attemptAcquire();
    limiter.attemptAcquire();
    expect([limiter.wouldHaveRefused, limiter.wouldHaveWaited]).toEqual([1, 0]);
    clock.advance(1000);
    expect(limiter.tryReplenish()).toBe(true);
    expect(inner.getStatistics().currentAvailablePermits).toBe(1);
    expect(getLimiterState(limiter).kind).toBe("FixedWindowRateLimiter");
    const auto = shadowed(new FixedWindowRateLimiter(options));
    expect([auto.isAutoReplenishing, auto.tryReplenish()]).toEqual([true, false]);
  });

  it("counts, shows and disposes alike when the limiter replenishes", async () => {
    const clock = new ManualClock();
    const inner = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000, queueLimit: 1, clock });
    const limiter = shadowed(inner);
    clock.advance(5);
    expect(limiter.idleDurationMs).toBe(5);
    await limiter.acquire();
    await limiter.acquire();
    expect([limiter.wouldHaveRefused, limiter.wouldHaveWaited]).toEqual([0, 1]);
    expect(limiter.getStatistics()).toEqual(inner.getStatistics());
    limiter.dispose();
    await limiter.disposeAsync();
    expect(() => inner.attemptAcquire()).toThrow("disposed");
  });

  it("of a limiter replenished by hand is driven in a partition, and in a chain", () => {
    const clock = new ManualClock();
    const make = () =>
      shadowed(
        new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 100, autoReplenishment: false, clock }),
      );
    const limiters = PartitionedRateLimiter.create(() => RateLimitPartition.get("key", make), { clock });
    limiters.attemptAcquire(1);
    clock.advance(200);
    expect(limiters.getStatistics(1)?.currentAvailablePermits).toBe(1);
    limiters.dispose();
    const inner = make();
    const chain = RateLimiter.createChained(inner) as unknown as ReplenishingRateLimiter;
    chain.attemptAcquire();
    clock.advance(100);
    expect(chain.tryReplenish()).toBe(true);
    expect(inner.getStatistics()?.currentAvailablePermits).toBe(1);
  });

  it("refuses what is not a limiter, a callback that is none, and unknown options", () => {
    expect(() => shadowed({} as never)).toThrow(/limiter must be a RateLimiter/);
    expect(() => shadowed(new NoLimiter(), { onRejected: 1 as never })).toThrow(
      /onRejected must be a function/,
    );
    expect(() => shadowed(new NoLimiter(), { onReject: () => {} } as never)).toThrow(/onReject .*onRejected/);
  });
});
