import { NoLimiter } from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";

const UNLIMITED = {
  currentAvailablePermits: Number.MAX_SAFE_INTEGER,
  currentQueuedCount: 0,
  totalFailedLeases: 0,
  totalSuccessfulLeases: 0,
};

describe("NoLimiter", () => {
  it("T-HELP-03 grants the largest attempts again and again and has no less afterwards", () => {
    const limiter = new NoLimiter();
    expect(limiter.attemptAcquire(2147483647).isAcquired).toBe(true);
    expect(limiter.attemptAcquire(2147483647).isAcquired).toBe(true);
    expect(limiter.attemptAcquire(Number.MAX_SAFE_INTEGER).isAcquired).toBe(true);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(Number.MAX_SAFE_INTEGER);
  });

  it("T-HELP-03 grants the largest request at once, and its lease may be disposed any number of times", async () => {
    const limiter = new NoLimiter();
    const request = watch(limiter.acquire(2147483647));
    expect(limiter.getStatistics().totalSuccessfulLeases).toBe(1);
    await flush();
    expect(request.value.isAcquired).toBe(true);
    request.value.dispose();
    request.value.dispose();
    expect(request.value.isAcquired).toBe(true);
    expect(limiter.getStatistics()).toEqual({ ...UNLIMITED, totalSuccessfulLeases: 1 });
  });

  it("T-HELP-04 counts one success for each request, whatever its size, in a new snapshot each time", async () => {
    const limiter = new NoLimiter();
    const fresh = limiter.getStatistics();
    expect(fresh).toEqual(UNLIMITED);
    expect(limiter.getStatistics()).not.toBe(fresh);
    for (let size = 0; size <= 133; size++) expect(limiter.attemptAcquire(size).isAcquired).toBe(true);
    expect(limiter.getStatistics()).toEqual({ ...UNLIMITED, totalSuccessfulLeases: 134 });
    for (let size = 0; size < 165; size++) expect((await limiter.acquire(size)).isAcquired).toBe(true);
    expect(limiter.getStatistics()).toEqual({ ...UNLIMITED, totalSuccessfulLeases: 299 });
    expect(fresh).toEqual(UNLIMITED);
  });

  it("R-HELP-6 counts per limiter", () => {
    const used = new NoLimiter();
    used.attemptAcquire();
    expect(new NoLimiter().getStatistics()).toEqual(UNLIMITED);
  });

  it("R-HELP-6 R-IDLE-4 is never idle, so that nobody drops it for that", () => {
    const limiter = new NoLimiter();
    expect(limiter.idleDurationMs).toBeUndefined();
    limiter.attemptAcquire().dispose();
    expect(limiter.idleDurationMs).toBeUndefined();
  });

  it.each([
    ["dispose", (limiter: NoLimiter) => limiter.dispose()],
    ["asyncDispose", (limiter: NoLimiter) => limiter[Symbol.asyncDispose]()],
  ])("R-HELP-6 R-STAT-5 stays usable after %s", async (_, dispose) => {
    const limiter = new NoLimiter();
    await dispose(limiter);
    expect(limiter.attemptAcquire(7).isAcquired).toBe(true);
    expect((await limiter.acquire(7)).isAcquired).toBe(true);
    expect(limiter.getStatistics()).toEqual({ ...UNLIMITED, totalSuccessfulLeases: 2 });
  });

  it("R-LEASE-3 gives leases without metadata", () => {
    const lease = new NoLimiter().attemptAcquire();
    expect([...lease.metadataNames]).toEqual([]);
    expect([...lease.getAllMetadata()]).toEqual([]);
    expect(lease.tryGetMetadata("LIMIT")).toBeUndefined();
    expect(lease.reason).toBeUndefined();
    expect(lease.retryAfterMs).toBeUndefined();
  });

  it("C-7 has nothing to charge or to give back when a cost is corrected", () => {
    const limiter = new NoLimiter();
    const lease = limiter.attemptAcquire(5);
    lease.adjust(3);
    lease.report("failure");
    lease.refund();
    expect(limiter.getStatistics()).toEqual({ ...UNLIMITED, totalSuccessfulLeases: 1 });
  });

  it("R-CORE-4 lets an aborted signal win, without counting", async () => {
    const limiter = new NoLimiter();
    const reason = new Error("gone");
    await expect(limiter.acquire(1, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(limiter.getStatistics()).toEqual(UNLIMITED);
  });

  it("R-CORE-1 refuses a malformed count like every limiter, without counting", async () => {
    const limiter = new NoLimiter();
    expect(() => limiter.attemptAcquire(-1)).toThrow(RangeError);
    expect(() => limiter.attemptAcquire(2 ** 53)).toThrow(RangeError);
    await expect(limiter.acquire(0.5)).rejects.toThrow(RangeError);
    expect(limiter.getStatistics()).toEqual(UNLIMITED);
  });

  describe("in a pause", () => {
    const pausedFor = (durationMs: number) => {
      const clock = new ManualClock();
      const limiter = new NoLimiter({ clock });
      limiter.attemptAcquire();
      limiter.pause(durationMs);
      return { clock, limiter };
    };

    it("C-9 refuses attempts, says how long, and grants when it is over", () => {
      const { clock, limiter } = pausedFor(50);
      clock.advance(20);
      expect(limiter.attemptAcquire(7)).toMatchObject({
        isAcquired: false,
        reason: "server_pause",
        retryAfterMs: 30,
      });
      expect(limiter.getStatistics()).toEqual({
        ...UNLIMITED,
        totalFailedLeases: 1,
        totalSuccessfulLeases: 1,
      });
      clock.advance(30);
      const lease = limiter.attemptAcquire(7);
      expect([lease.isAcquired, ...lease.metadataNames]).toEqual([true]);
    });

    it("C-9 lets requests of any size wait until its end, all of them", async () => {
      const { clock, limiter } = pausedFor(50);
      const waits = [Number.MAX_SAFE_INTEGER, 0, Number.MAX_SAFE_INTEGER, 1].map((count) =>
        watch(limiter.acquire(count)),
      );
      clock.advance(49);
      await flush();
      expect(waits.map(({ state }) => state)).toEqual(waits.map(() => "pending"));
      clock.advance(1);
      await flush();
      expect(waits.map(({ value }) => value.isAcquired)).toEqual(waits.map(() => true));
      expect(limiter.getStatistics()).toEqual({ ...UNLIMITED, totalSuccessfulLeases: 5 });
      expect(clock.timerCount).toBe(0);
    });

    it("C-9 lets go who leaves or cannot wait that long", async () => {
      const { limiter } = pausedFor(50);
      const controller = new AbortController();
      const leaving = watch(limiter.acquire({ signal: controller.signal }));
      expect((await limiter.acquire({ maxWaitMs: 10 })).reason).toBe("deadline_unmet");
      expect((await limiter.acquire({ maxWaitMs: -1 })).reason).toBe("deadline_expired");
      expect((await new NoLimiter().acquire({ maxWaitMs: -1 })).reason).toBe("deadline_expired");
      controller.abort("left");
      await flush();
      expect(leaving.reason).toBe("left");
      expect(limiter.getStatistics()).toEqual({
        ...UNLIMITED,
        totalFailedLeases: 2,
        totalSuccessfulLeases: 1,
      });
    });

    it("C-9 is never shortened, and counts in the estimate", () => {
      const { clock, limiter } = pausedFor(50);
      limiter.pause(10);
      expect(limiter.estimateWaitMs(3)).toBe(50);
      limiter.acquire(2);
      limiter.acquire(0);
      clock.advance(20);
      expect(limiter.estimateWaitMs(3)).toBe(30);
      expect(limiter.getStatistics().currentQueuedCount).toBe(2);
      clock.advance(30);
      expect(limiter.estimateWaitMs(3)).toBe(0);
    });

    it("C-9 goes on, and its waiters wait, when it is disposed, which does nothing", async () => {
      const { clock, limiter } = pausedFor(50);
      const waiting = watch(limiter.acquire());
      limiter.dispose();
      expect(limiter.attemptAcquire().reason).toBe("server_pause");
      clock.advance(50);
      await flush();
      expect(waiting.value.isAcquired).toBe(true);
    });

    it("C-11 checks the duration and the options", () => {
      const limiter = new NoLimiter();
      expect(() => limiter.pause(0)).toThrow(RangeError);
      expect(() => limiter.pause("1" as never)).toThrow(TypeError);
      expect(limiter.attemptAcquire().isAcquired).toBe(true);
      expect(() => new NoLimiter({ clok: 1 } as never)).toThrow(/options\.clock/);
      expect(() => new NoLimiter({ clock: 1 } as never)).toThrow(/options\.clock must be an object/);
    });
  });

  it("C-8 estimates no wait, for any count that is one", () => {
    const limiter = new NoLimiter();
    expect([limiter.estimateWaitMs(), limiter.estimateWaitMs(2 ** 40)]).toEqual([0, 0]);
    expect(() => limiter.estimateWaitMs(-1)).toThrow(RangeError);
  });
});
