import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  RateLimitPartition,
  shadowed,
} from "headgate";
import { getLimiterState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { ManualClock, watch } from "../../support.js";

describe("getLimiterState", () => {
  it("tells all of a limiter in use", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 5, queueLimit: 6, clock: new ManualClock() });
    limiter.attemptAcquire(5);
    limiter.attemptAcquire(3);
    const controller = new AbortController();
    for (const n of [4, 0]) watch(limiter.acquire(n));
    watch(limiter.acquire(1, { signal: controller.signal }));
    controller.abort();
    expect(getLimiterState(limiter)).toEqual({
      kind: "ConcurrencyLimiter",
      permitLimit: 5,
      availablePermits: 0,
      queueLimit: 6,
      queuedPermits: 4,
      queuedRequests: 2,
      queuedByPriority: new Map([[0, 4]]),
      totalGranted: 1,
      totalRefused: 1,
      totalAborted: 1,
      isPaused: false,
      isDisposed: false,
    });
  });

  it("lists the priorities from the highest down", () => {
    const limiter = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 9,
      queueProcessingOrder: "highestPriorityFirst",
      clock: new ManualClock(),
    });
    limiter.attemptAcquire();
    for (const priority of [-1, 5, 0, 5]) watch(limiter.acquire(1, { priority }));
    expect([...(getLimiterState(limiter).queuedByPriority ?? [])]).toEqual([
      [5, 2],
      [0, 1],
      [-1, 1],
    ]);
  });

  it("shows a debt as permits below 0", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 2 });
    limiter.attemptAcquire(2).adjust(5);
    expect(getLimiterState(limiter).availablePermits).toBe(-3);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(0);
  });

  it("brings a limiter up to what its clock shows", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 100, clock });
    limiter.attemptAcquire(2);
    limiter.pause(150);
    expect(getLimiterState(limiter)).toMatchObject({ availablePermits: 0, isPaused: true });
    clock.advance(100);
    expect(getLimiterState(limiter)).toMatchObject({ availablePermits: 2, isPaused: true });
    clock.advance(50);
    expect(getLimiterState(limiter)).toMatchObject({ availablePermits: 2, isPaused: false });
  });

  it("looks at a disposed limiter too", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 2 });
    limiter.attemptAcquire();
    limiter.dispose();
    expect(getLimiterState(limiter)).toMatchObject({
      kind: "ConcurrencyLimiter",
      totalGranted: 1,
      isDisposed: true,
    });
  });

  it("is a frozen snapshot that stays as it was", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 5 });
    const before = getLimiterState(limiter);
    limiter.attemptAcquire(2);
    watch(limiter.acquire());
    expect(before).toMatchObject({ availablePermits: 2, queuedPermits: 0, queuedByPriority: new Map() });
    expect(Object.isFrozen(before)).toBe(true);
  });

  it("shows the limiter behind a shadow", () => {
    const limiter = shadowed(new ConcurrencyLimiter({ permitLimit: 2 }));
    limiter.attemptAcquire();
    expect(getLimiterState(limiter)).toMatchObject({ kind: "ConcurrencyLimiter", availablePermits: 1 });
  });

  it("tells of limiters without an inside what their statistics do", () => {
    const chain = RateLimiter.createChained(new ConcurrencyLimiter({ permitLimit: 2 }));
    chain.attemptAcquire();
    const known = { availablePermits: 1, queuedPermits: 0, totalGranted: 1, totalRefused: 0 };
    expect(getLimiterState(chain)).toEqual({ ...known, isDisposed: false });
    expect(Object.isFrozen(getLimiterState(chain))).toBe(true);
    chain.dispose();
    expect(getLimiterState(chain)).toEqual({ isDisposed: true });
    expect(getLimiterState(new NoLimiter())).toEqual({
      ...known,
      availablePermits: Number.MAX_SAFE_INTEGER,
      totalGranted: 0,
      isDisposed: false,
    });
    using partitioned = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 7 })),
    );
    partitioned.attemptAcquire("a").dispose();
    expect(getLimiterState(partitioned.forResource("a")).availablePermits).toBe(7);
  });

  it("tells nothing of a limiter that keeps no statistics", () => {
    class Silent extends NoLimiter {
      override getStatistics(): never {
        return undefined as never;
      }
    }
    expect(getLimiterState(new Silent())).toEqual({ isDisposed: false });
  });

  it("passes on what getStatistics throws, and refuses what is no limiter", () => {
    const error = new Error("statistics");
    class Failing extends NoLimiter {
      override getStatistics(): never {
        throw error;
      }
    }
    expect(() => getLimiterState(new Failing())).toThrow(error);
    expect(() => getLimiterState({} as never)).toThrow(
      new TypeError("limiter must be a RateLimiter; got an object."),
    );
  });
});
