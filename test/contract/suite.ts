import {
  LimiterDisposedError,
  type QueueProcessingOrder,
  type RateLimiter,
  type RateLimitLease,
} from "headgate";
import type { ManualClock } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { ManualClock as Clock, CountingController, flush, type Watched, watch } from "../support.js";

/** A kind of limiter, to be held against the contract. */
export interface ContractSubject {
  readonly name: string;
  /** Makes a limiter of so many permits; undefined options are left at their defaults. */
  create(options: {
    readonly permitLimit: number;
    readonly queueLimit: number;
    readonly queueProcessingOrder?: QueueProcessingOrder;
    readonly clock: ManualClock;
  }): RateLimiter;
  /** Brings the permits of these leases back, by disposing them or by letting time pass. */
  bringBack(leases: readonly RateLimitLease[], limiter: RateLimiter, clock: ManualClock): void;
  /** Whether it refuses anything at all; true by default. */
  readonly isLimited?: boolean;
  /** Whether it has a queue; true by default. */
  readonly queues?: boolean;
  /** Whether dispose reaches those who wait; true by default. */
  readonly ownsQueue?: boolean;
  /** Whether dispose makes it unusable; true by default. */
  readonly canBeDisposed?: boolean;
}

/** What every limiter does, whatever its algorithm. */
export function describeRateLimiterContract(subject: ContractSubject): void {
  const { isLimited = true, canBeDisposed = true, ownsQueue = true } = subject;
  const queues = isLimited && (subject.queues ?? true);
  // What does not apply to a kind of limiter is left out, not skipped.
  const itIf = (applies: boolean) => (applies ? it : () => {});
  const limited = itIf(isLimited);
  const queued = itIf(queues);
  const disposable = itIf(canBeDisposed);

  const make = (permitLimit = 2, queueLimit = 4, queueProcessingOrder?: QueueProcessingOrder) => {
    const clock = new Clock();
    const limiter = subject.create({
      permitLimit,
      queueLimit,
      clock,
      ...(queueProcessingOrder === undefined ? {} : { queueProcessingOrder }),
    });
    return { clock, limiter };
  };
  const numbers = (limiter: RateLimiter): readonly number[] => {
    const s = limiter.getStatistics();
    if (s === undefined) throw new Error("no statistics");
    return [s.currentAvailablePermits, s.currentQueuedCount, s.totalFailedLeases, s.totalSuccessfulLeases];
  };

  describe(`contract: ${subject.name}`, () => {
    it("grants what is free, by attempt and by acquire", async () => {
      const { limiter } = make();
      expect(limiter.attemptAcquire().isAcquired).toBe(true);
      expect((await limiter.acquire(1)).isAcquired).toBe(true);
    });

    it("accepts options in the place of the count", async () => {
      const { limiter } = make();
      const { signal } = new AbortController();
      expect((await limiter.acquire({ signal })).isAcquired).toBe(true);
      expect((await limiter.acquire(undefined, { signal })).isAcquired).toBe(true);
    });

    it("keeps isAcquired when a lease is disposed, and bears a second dispose", () => {
      const { limiter } = make();
      const lease = limiter.attemptAcquire();
      lease.dispose();
      const before = numbers(limiter);
      lease.dispose();
      lease[Symbol.dispose]();
      expect(lease.isAcquired).toBe(true);
      expect(numbers(limiter)).toEqual(before);
    });

    it.each([Number.NaN, 1.5, -1, Number.POSITIVE_INFINITY, 2 ** 53])(
      "refuses a count of %s with a RangeError, by attempt and by acquire, and changes nothing",
      async (count) => {
        const { limiter } = make();
        const before = numbers(limiter);
        expect(() => limiter.attemptAcquire(count)).toThrow(RangeError);
        await expect(limiter.acquire(count)).rejects.toThrow(RangeError);
        expect(numbers(limiter)).toEqual(before);
      },
    );

    it.each(["1", null, true, 1n, [], Symbol("1")])(
      "refuses %o as a count with a TypeError",
      async (count) => {
        const { limiter } = make();
        expect(() => limiter.attemptAcquire(count as never)).toThrow(TypeError);
        await expect(limiter.acquire(count as never)).rejects.toThrow(TypeError);
      },
    );

    limited("refuses a count above its limit with a RangeError that names both", async () => {
      const { limiter } = make(3);
      expect(() => limiter.attemptAcquire(4)).toThrow(/\b4\b.*\b3\b/);
      expect(() => limiter.attemptAcquire(4)).toThrow(RangeError);
      await expect(limiter.acquire(4)).rejects.toThrow(RangeError);
      expect(numbers(limiter)[2]).toBe(0);
    });

    it("rejects with the reason of an aborted signal before anything else but a malformed argument", async () => {
      const { limiter } = make();
      const reason = { why: "gone" };
      const signal = AbortSignal.abort(reason);
      await expect(limiter.acquire(1, { signal })).rejects.toBe(reason);
      await expect(limiter.acquire(1000, { signal })).rejects.toBe(reason);
      await expect(limiter.acquire(-1, { signal })).rejects.toThrow(RangeError);
      expect(numbers(limiter)[3]).toBe(0);
      limiter.dispose();
      await expect(limiter.acquire(1, { signal })).rejects.toBe(reason);
    });

    limited("refuses an attempt when nothing is free, with a lease that holds nothing", () => {
      const { limiter } = make(2);
      limiter.attemptAcquire(2);
      const refused = limiter.attemptAcquire();
      expect(refused.isAcquired).toBe(false);
      expect(refused.reason).toBe("limit_reached");
      expect(() => refused.orThrow()).toThrow(expect.objectContaining({ code: "ERR_RATE_LIMIT_REJECTED" }));
      refused.dispose();
      refused.dispose();
      expect(numbers(limiter)).toEqual([0, 0, 1, 1]);
    });

    limited("grants again when permits have come back", () => {
      const { limiter, clock } = make(2);
      subject.bringBack([limiter.attemptAcquire(2)], limiter, clock);
      expect(limiter.attemptAcquire(2).isAcquired).toBe(true);
    });

    limited("probes with a count of 0, taking nothing", async () => {
      const { limiter } = make(1);
      expect(limiter.attemptAcquire(0).isAcquired).toBe(true);
      expect((await limiter.acquire(0)).isAcquired).toBe(true);
      limiter.attemptAcquire(1);
      expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
      expect(numbers(limiter)).toEqual([0, 0, 1, 3]);
    });

    limited("refuses an acquire at once when the queue has no room", async () => {
      const { limiter } = make(1, queues ? 1 : 0);
      limiter.attemptAcquire();
      if (queues) watch(limiter.acquire());
      const lease = await limiter.acquire();
      expect(lease.isAcquired).toBe(false);
      expect(lease.reason).toBe(queues ? "queue_full" : "limit_reached");
    });

    queued("serves waiters oldest first, and lets no attempt pass them", async () => {
      const { limiter, clock } = make(2, 4);
      const held = limiter.attemptAcquire(2);
      const waiters = [limiter.acquire(2), limiter.acquire(2)].map(watch);
      const [first, second] = waiters as [Watched<RateLimitLease>, Watched<RateLimitLease>];
      subject.bringBack([held], limiter, clock);
      expect(limiter.attemptAcquire().isAcquired).toBe(false);
      await flush();
      expect([first.state, second.state]).toEqual(["fulfilled", "pending"]);
      subject.bringBack([first.value], limiter, clock);
      await flush();
      expect(second.value.isAcquired).toBe(true);
    });

    queued("serves waiters newest first, and drops the oldest from a full queue", async () => {
      const { limiter, clock } = make(2, 4, "newestFirst");
      const held = limiter.attemptAcquire(2);
      const waiters = [limiter.acquire(2), limiter.acquire(2), limiter.acquire(2)].map(watch);
      await flush();
      expect(waiters.map((w) => w.state)).toEqual(["fulfilled", "pending", "pending"]);
      expect(waiters[0]?.value.reason).toBe("queue_evicted");
      subject.bringBack([held], limiter, clock);
      await flush();
      expect(waiters.map((w) => w.state)).toEqual(["fulfilled", "pending", "fulfilled"]);
    });

    queued("takes an aborted waiter out at once, with its listener", async () => {
      const { limiter, clock } = make(1, 1);
      const held = limiter.attemptAcquire();
      const controller = new CountingController();
      const waiting = watch(limiter.acquire(1, { signal: controller.signal }));
      const reason = new Error("the caller left");
      controller.abort(reason);
      expect(numbers(limiter)).toEqual([0, 0, 0, 1]);
      expect(controller.listeners).toBe(0);
      const next = watch(limiter.acquire());
      await flush();
      expect(waiting.reason).toBe(reason);
      subject.bringBack([held], limiter, clock);
      await flush();
      expect(next.value.isAcquired).toBe(true);
    });

    queued("leaves no listener behind when a waiter is served", async () => {
      const { limiter, clock } = make(2, 2);
      const controller = new CountingController();
      const held = limiter.attemptAcquire(2);
      const waiters = [1, 1].map((n) => watch(limiter.acquire(n, { signal: controller.signal })));
      expect(controller.listeners).toBe(1);
      subject.bringBack([held], limiter, clock);
      await flush();
      expect(waiters.map((w) => w.state)).toEqual(["fulfilled", "fulfilled"]);
      expect(controller.listeners).toBe(0);
    });

    queued("does nothing to a lease when the signal is aborted after the grant", async () => {
      const { limiter, clock } = make(1, 1);
      const controller = new AbortController();
      const held = limiter.attemptAcquire();
      const waiting = watch(limiter.acquire(1, { signal: controller.signal }));
      subject.bringBack([held], limiter, clock);
      controller.abort();
      await flush();
      expect(waiting.value.isAcquired).toBe(true);
    });

    itIf(queues && ownsQueue)("refuses its waiters when it is disposed", async () => {
      const { limiter } = make(1, 3);
      limiter.attemptAcquire();
      const waiters = [0, 1, 1].map((n) => watch(limiter.acquire(n)));
      limiter.dispose();
      await flush();
      expect(waiters.map((w) => [w.value.isAcquired, w.value.reason])).toEqual(
        waiters.map(() => [false, "limiter_disposed"]),
      );
    });

    disposable("fails every call after dispose, and bears leases and disposes that come later", async () => {
      const { limiter } = make();
      const lease = limiter.attemptAcquire();
      limiter.dispose();
      limiter.dispose();
      await limiter.disposeAsync();
      lease.dispose();
      expect(() => limiter.attemptAcquire()).toThrow(LimiterDisposedError);
      expect(() => limiter.attemptAcquire(0)).toThrow(LimiterDisposedError);
      expect(() => limiter.getStatistics()).toThrow(LimiterDisposedError);
      await expect(limiter.acquire()).rejects.toThrow(LimiterDisposedError);
    });

    disposable("is disposed by await using, before the promise of disposeAsync is awaited", async () => {
      const { limiter } = make();
      const disposed = limiter[Symbol.asyncDispose]();
      expect(() => limiter.attemptAcquire()).toThrow(LimiterDisposedError);
      await disposed;
    });

    it("gives statistics that stay as they were", () => {
      const { limiter } = make();
      const before = limiter.getStatistics();
      const copy = { ...before };
      limiter.attemptAcquire();
      expect(limiter.getStatistics()).not.toBe(before);
      expect(before).toEqual(copy);
      expect(numbers(limiter)[3]).toBe(1);
    });

    limited("is idle from the start, not while permits are out, and again when they are back", () => {
      const { limiter, clock } = make(1);
      clock.advance(15);
      expect(limiter.idleDurationMs).toBe(15);
      const lease = limiter.attemptAcquire();
      expect(limiter.idleDurationMs).toBeUndefined();
      subject.bringBack([lease], limiter, clock);
      expect(limiter.idleDurationMs).toBeGreaterThanOrEqual(0);
    });
  });
}
