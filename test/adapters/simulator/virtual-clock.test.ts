import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
import { SimulationError, VirtualClock } from "headgate/simulator";
import { describe, expect, it, vi } from "vitest";
import { EventLoop } from "../../../adapters/simulator/event-loop.js";

describe("VirtualClock", () => {
  it("stands still until it is told to run, and ends where it was told to", async () => {
    const clock = new VirtualClock(5);
    expect(clock.now()).toBe(5);
    await clock.runUntil(100);
    expect(clock.now()).toBe(100);
    await clock.runUntil(50);
    expect(clock.now()).toBe(100);
  });

  it("fires timers at their moments and in their order, also those that timers set", async () => {
    const clock = new VirtualClock();
    const log: string[] = [];
    const note = (name: string) => () => void log.push(`${clock.now()} ${name}`);
    clock.setTimer(note("b"), 20);
    clock.setTimer(() => {
      note("a")();
      clock.setTimer(note("a'"), 10);
    }, 10);
    clock.setTimer(note("c"), 20);
    clock.setTimer(note("too late"), 101);
    expect(clock.pendingTimers).toBe(4);
    await clock.runUntil(100);
    expect(log).toEqual(["10 a", "20 b", "20 c", "20 a'"]);
    expect(clock.pendingTimers).toBe(1);
  });

  it.each([0, -1, Number.NaN, Number.NEGATIVE_INFINITY, 1e-300])(
    "runs a timer with a delay of %d at the same instant, and not inside setTimer",
    async (delayMs) => {
      const clock = new VirtualClock(1000);
      let firedAt: number | undefined;
      clock.setTimer(() => {
        firedAt = clock.now();
      }, delayMs);
      expect(firedAt).toBeUndefined();
      await clock.runUntil(1000);
      expect(firedAt).toBe(1000);
    },
  );

  it("takes delays that hosts do not", async () => {
    const clock = new VirtualClock();
    const callback = vi.fn();
    clock.setTimer(callback, 2 ** 40);
    await clock.runUntil(2 ** 40 - 1);
    expect(callback).not.toHaveBeenCalled();
    await clock.runUntil(2 ** 40);
    expect(callback).toHaveBeenCalledOnce();
  });

  it("forgets a cancelled timer, and bears a second cancel and one after the fact", async () => {
    const clock = new VirtualClock();
    const cancelled = vi.fn();
    const timer = clock.setTimer(cancelled, 10);
    const fired = clock.setTimer(() => {}, 5);
    timer.cancel();
    timer.cancel();
    expect(clock.pendingTimers).toBe(1);
    await clock.runUntil(20);
    fired.cancel();
    expect(cancelled).not.toHaveBeenCalled();
    expect(clock.pendingTimers).toBe(0);
    const next = vi.fn();
    clock.setTimer(next, 1);
    fired.cancel();
    timer.cancel();
    await clock.runUntil(30);
    expect(next).toHaveBeenCalledOnce();
  });

  it("lets promises come to their end before time moves on", async () => {
    const clock = new VirtualClock();
    const seen: number[] = [];
    clock.setTimer(() => {
      void (async () => {
        for (let i = 0; i < 50; i++) await Promise.resolve();
        seen.push(clock.now());
      })();
    }, 10);
    clock.setTimer(() => {}, 11);
    await clock.runUntil(100);
    expect(seen).toEqual([10]);
  });

  it("drives limiters: waiters are served window by window", async () => {
    const clock = new VirtualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 1000, queueLimit: 10, clock });
    const grantedAt: number[] = [];
    for (let i = 0; i < 6; i++) void limiter.acquire().then(() => grantedAt.push(clock.now()));
    await clock.runUntil(10_000);
    expect(grantedAt).toEqual([0, 0, 1000, 1000, 2000, 2000]);
  });

  it("drives programs: each waits for a permit, sleeps and gives it back", async () => {
    const clock = new VirtualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10, clock });
    const sleep = (ms: number) => new Promise<void>((resolve) => void clock.setTimer(resolve, ms));
    const log: string[] = [];
    const work = async (name: string) => {
      using lease = await limiter.acquire();
      log.push(`${clock.now()} ${name} ${lease.isAcquired}`);
      await sleep(30);
    };
    for (const name of ["a", "b", "c"]) void work(name);
    await clock.runUntil(1000);
    expect(log).toEqual(["0 a true", "30 b true", "60 c true"]);
  });

  it("stops with an error when timers are set for the present without end, and names the function", async () => {
    const clock = new VirtualClock(7);
    const spin = () => void clock.setTimer(spin, 0);
    // The chain is made in one timer, since a turn of the host after each would take long.
    clock.setTimer(() => {
      for (let i = 0; i <= 100_001; i++) spin();
    }, 1);
    const error = await clock.runUntil(100).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(SimulationError);
    expect(error).toMatchObject({ timeMs: 8, message: expect.stringContaining("time does not advance") });
    expect((error as Error).message).toContain("spin");
  });

  it("does not mind as many such timers at different times", () => {
    const loop = new EventLoop();
    for (let i = 1; i <= 100_001; i++) {
      loop.setTimer(() => {}, 0);
      loop.moveTo(i);
    }
    expect(loop.pendingTimers).toBe(100_001);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])(
    "refuses to start at %d, or to run until then",
    async (time) => {
      expect(() => new VirtualClock(time)).toThrow(RangeError);
      await expect(new VirtualClock().runUntil(time)).rejects.toThrow(RangeError);
      await expect(new VirtualClock().runUntil("5" as never)).rejects.toThrow(TypeError);
    },
  );
});
