import {
  type AcquireOptions,
  ConcurrencyLimiter,
  type ConcurrencyLimiterOptions,
  type RateLimitLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { CountingClock, CountingController, flush, ManualClock, watch } from "../support.js";

const make = (options: Partial<ConcurrencyLimiterOptions> = {}) => {
  const clock = new CountingClock();
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10, clock, ...options });
  return { clock, limiter };
};
const wait = (limiter: ConcurrencyLimiter, permits = 1, options: AcquireOptions = {}) =>
  watch(limiter.acquire(permits, options));
const numbers = (limiter: ConcurrencyLimiter) => {
  const s = limiter.getStatistics();
  return [s.currentAvailablePermits, s.currentQueuedCount, s.totalFailedLeases, s.totalSuccessfulLeases];
};

describe("hand-over", () => {
  it("gives the permit to the waiter inside dispose, so that no newcomer slips in between (H48)", () => {
    const { limiter } = make({ permitLimit: 2 });
    const held = limiter.attemptAcquire();
    limiter.attemptAcquire();
    wait(limiter);
    held.dispose();
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    expect(numbers(limiter)).toEqual([0, 0, 1, 3]);
  });

  it("lets continuations run in the order of the grants, after dispose has returned", async () => {
    const { limiter } = make({ permitLimit: 3 });
    const held = limiter.attemptAcquire(3);
    const order: string[] = [];
    for (const name of ["a", "b", "c"]) void limiter.acquire().then(() => order.push(name));
    held.dispose();
    order.push("dispose returned");
    await flush();
    expect(order).toEqual(["dispose returned", "a", "b", "c"]);
  });

  it("stops at the first waiter that does not fit, however little those behind it want", async () => {
    const { limiter } = make({ permitLimit: 4 });
    const held = [limiter.attemptAcquire(2), limiter.attemptAcquire(2)];
    const large = wait(limiter, 4);
    const small = wait(limiter, 1);
    held[0]?.dispose();
    await flush();
    expect([large.state, small.state]).toEqual(["pending", "pending"]);
    held[1]?.dispose();
    await flush();
    expect([large.state, small.state]).toEqual(["fulfilled", "pending"]);
  });

  it("serves 10 batches of 100 through 4 permits, and batches around powers of two (H42)", async () => {
    const { limiter } = make({ permitLimit: 4, queueLimit: 1000 });
    let done = 0;
    const work = async (): Promise<void> => {
      using lease = await limiter.acquire();
      expect(lease.isAcquired).toBe(true);
      await Promise.resolve();
      done += 1;
    };
    const sizes = [...Array.from({ length: 10 }, () => 100), 15, 16, 17, 31, 32, 33];
    for (const size of sizes) await Promise.all(Array.from({ length: size }, work));
    expect(done).toBe(sizes.reduce((a, b) => a + b));
    expect(numbers(limiter)).toEqual([4, 0, 0, done]);
  });
});

describe("abort", () => {
  it("lets those through whom a large head blocked, without any release (H15, D-4)", async () => {
    const { limiter } = make({ permitLimit: 10, queueLimit: 11 });
    limiter.attemptAcquire(1);
    const controller = new AbortController();
    const large = wait(limiter, 10, { signal: controller.signal });
    const small = wait(limiter, 1);
    controller.abort("left");
    expect(numbers(limiter)).toEqual([8, 0, 0, 2]);
    await flush();
    expect([large.reason, small.value.isAcquired]).toEqual(["left", true]);
  });

  it("does not let a waiter for 0 permits through while nothing is free", async () => {
    const { limiter } = make({ permitLimit: 2 });
    const held = limiter.attemptAcquire(2);
    const controller = new AbortController();
    wait(limiter, 2, { signal: controller.signal });
    const probe = wait(limiter, 0);
    controller.abort();
    await flush();
    expect(probe.state).toBe("pending");
    held.adjust(1);
    await flush();
    expect(probe.value.isAcquired).toBe(true);
  });

  it("does so for newest-first too, where the newest blocks", async () => {
    const { limiter } = make({ permitLimit: 3, queueProcessingOrder: "newestFirst" });
    const held = [limiter.attemptAcquire(1), limiter.attemptAcquire(2)];
    const controller = new AbortController();
    const older = wait(limiter, 1);
    wait(limiter, 3, { signal: controller.signal });
    held[0]?.dispose();
    await flush();
    expect(older.state).toBe("pending");
    controller.abort();
    await flush();
    expect(older.value.isAcquired).toBe(true);
  });

  it("makes the waiter's place free at once", async () => {
    const { limiter } = make({ queueLimit: 1 });
    limiter.attemptAcquire();
    const controller = new AbortController();
    wait(limiter, 1, { signal: controller.signal });
    controller.abort();
    const next = wait(limiter);
    await flush();
    expect(next.state).toBe("pending");
  });

  it("uses one listener for all waiters of a signal, and rejects them in order of arrival", async () => {
    const { limiter } = make();
    limiter.attemptAcquire();
    const controller = new CountingController();
    const order: number[] = [];
    for (let i = 0; i < 5; i++) {
      limiter.acquire(1, { signal: controller.signal }).catch(() => order.push(i));
    }
    expect([controller.listeners, controller.added]).toEqual([1, 1]);
    controller.abort();
    expect(numbers(limiter)).toEqual([0, 0, 0, 1]);
    await flush();
    expect(order).toEqual([0, 1, 2, 3, 4]);
  });

  it("keeps the listener as long as one waiter of the signal is left, wherever in the queue it is", () => {
    const { limiter } = make({ permitLimit: 3 });
    const held = [1, 1, 1].map(() => limiter.attemptAcquire());
    const controller = new CountingController();
    for (let i = 0; i < 3; i++) wait(limiter, 1, { signal: controller.signal });
    for (const [i, lease] of held.entries()) {
      expect(controller.listeners).toBe(1);
      lease.dispose();
      expect(controller.listeners).toBe(i === 2 ? 0 : 1);
    }
  });

  it("takes the newest of a signal's waiters off its list as well", () => {
    const { limiter } = make({ permitLimit: 3, queueProcessingOrder: "newestFirst" });
    const held = limiter.attemptAcquire(2);
    limiter.attemptAcquire();
    const controller = new CountingController();
    for (const n of [1, 3, 2]) wait(limiter, n, { signal: controller.signal });
    held.dispose();
    expect(numbers(limiter)).toEqual([0, 4, 0, 3]);
    controller.abort();
    expect(numbers(limiter)).toEqual([0, 0, 0, 3]);
  });

  it("listens to each signal of its own, and to the same signal again after its waiters are gone", () => {
    const { limiter } = make({ permitLimit: 1 });
    const held = limiter.attemptAcquire();
    const [a, b] = [new CountingController(), new CountingController()];
    wait(limiter, 1, { signal: a.signal });
    wait(limiter, 1, { signal: b.signal });
    held.dispose();
    expect([a.listeners, b.listeners]).toEqual([0, 1]);
    wait(limiter, 1, { signal: a.signal });
    expect([a.listeners, a.added, b.listeners]).toEqual([1, 2, 1]);
  });

  it("leaves no listener on a signal after 100 000 aborted waits and as many served ones (H41)", async () => {
    const { limiter } = make({ queueLimit: 200_000 });
    const shared = new CountingController();
    const held = limiter.attemptAcquire();
    const rejections: Promise<unknown>[] = [];
    for (let i = 0; i < 100_000; i++) {
      rejections.push(limiter.acquire(1, { signal: shared.signal }).catch(() => undefined));
    }
    const leaving = new CountingController();
    for (let i = 0; i < 100_000; i++) {
      rejections.push(limiter.acquire(1, { signal: leaving.signal }).catch(() => undefined));
    }
    leaving.abort();
    expect(leaving.listeners).toBe(0);
    let last: RateLimitLease = held;
    for (let i = 0; i < 100_000; i++) {
      last.dispose();
      last = (await rejections[i]) as RateLimitLease;
    }
    last.dispose();
    expect(shared.listeners).toBe(0);
    expect(shared.added).toBe(1);
    expect(numbers(limiter)).toEqual([1, 0, 0, 100_001]);
  });

  it("meets a release in the same turn, in either order, without losing or doubling the permit (H35, H36)", async () => {
    for (const abortFirst of [true, false]) {
      const { limiter } = make();
      const held = limiter.attemptAcquire();
      const controller = new AbortController();
      const first = wait(limiter, 1, { signal: controller.signal });
      const second = wait(limiter);
      if (abortFirst) controller.abort();
      held.dispose();
      if (!abortFirst) controller.abort();
      await flush();
      expect([first.state, second.state]).toEqual(
        abortFirst ? ["rejected", "fulfilled"] : ["fulfilled", "pending"],
      );
      expect(numbers(limiter)[0]).toBe(0);
    }
  });

  it("may itself release what others wait for: the waiter settles once (H2)", async () => {
    const { limiter } = make({ queueLimit: 2 });
    const held = limiter.attemptAcquire();
    const controller = new AbortController();
    controller.signal.addEventListener("abort", () => held.dispose());
    const waiting = wait(limiter, 1, { signal: controller.signal });
    controller.abort();
    await flush();
    // Its caller has left, although our own listener has not been called yet: it gets nothing.
    expect(waiting.reason).toBe(controller.signal.reason);
    expect(numbers(limiter)).toEqual([1, 0, 0, 1]);
  });

  it("hands the permit on when the head is aborted and the holder lets go (H19)", async () => {
    const { limiter } = make({ queueLimit: 3 });
    const held = limiter.attemptAcquire();
    const controller = new AbortController();
    wait(limiter, 1, { signal: controller.signal });
    const [second, third] = [wait(limiter), wait(limiter)];
    controller.abort();
    held.dispose();
    await flush();
    second.value.dispose();
    await flush();
    third.value.dispose();
    expect(numbers(limiter)).toEqual([1, 0, 0, 3]);
  });

  it("counts an aborted waiter once when newcomers then push others out (H3)", async () => {
    const { limiter } = make({ permitLimit: 2, queueLimit: 2, queueProcessingOrder: "newestFirst" });
    limiter.attemptAcquire(2);
    const controller = new AbortController();
    wait(limiter, 1, { signal: controller.signal });
    const second = wait(limiter, 1);
    controller.abort();
    const third = wait(limiter, 2);
    await flush();
    expect(second.value.reason).toBe("queue_evicted");
    expect(third.state).toBe("pending");
    expect(numbers(limiter)).toEqual([0, 2, 1, 1]);
  });
});

describe("maxWaitMs", () => {
  it("refuses with queue_timeout once the caller has waited as long as it can, and sets one timer", async () => {
    const { limiter, clock } = make();
    limiter.attemptAcquire();
    const waiting = wait(limiter, 1, { maxWaitMs: 100 });
    expect([clock.timerCount, clock.keepAliveTimerCount, clock.timersSet]).toEqual([1, 1, 1]);
    clock.advance(99.5);
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(0.5);
    await flush();
    expect([waiting.value.isAcquired, waiting.value.reason]).toEqual([false, "queue_timeout"]);
    expect(waiting.value.retryAfterMs).toBeUndefined();
    expect(clock.timerCount).toBe(0);
    expect(numbers(limiter)).toEqual([0, 0, 1, 1]);
  });

  it("sets one timer for any number of waiters, and none once they are gone", async () => {
    const { limiter, clock } = make({ queueLimit: 100 });
    const held = limiter.attemptAcquire();
    const waits = [50, 10, 90, 30, 70, 20, 60, 40, 80].map((ms) => wait(limiter, 1, { maxWaitMs: ms }));
    expect(clock.timerCount).toBe(1);
    for (let t = 10; t <= 80; t += 10) {
      clock.advance(10);
      await flush();
      expect(waits.filter((w) => w.state === "fulfilled")).toHaveLength(t / 10);
    }
    held.dispose();
    await flush();
    expect(waits[2]?.value.isAcquired).toBe(true);
    expect(clock.timerCount).toBe(0);
  });

  it("lets those through whom the expired head blocked (H34)", async () => {
    const { limiter, clock } = make({ permitLimit: 4 });
    limiter.attemptAcquire(2);
    const large = wait(limiter, 4, { maxWaitMs: 50 });
    const small = wait(limiter, 1);
    clock.advance(50);
    await flush();
    expect(large.value.reason).toBe("queue_timeout");
    expect(small.value.isAcquired).toBe(true);
  });

  it("has no effect after the grant, nor after an abort", async () => {
    const { limiter, clock } = make();
    const held = limiter.attemptAcquire();
    const controller = new AbortController();
    const granted = wait(limiter, 1, { maxWaitMs: 50 });
    const aborted = wait(limiter, 1, { maxWaitMs: 50, signal: controller.signal });
    held.dispose();
    controller.abort("left");
    expect(clock.timerCount).toBe(0);
    clock.advance(1000);
    await flush();
    expect([granted.value.isAcquired, aborted.reason]).toEqual([true, "left"]);
    expect(numbers(limiter)).toEqual([0, 0, 0, 2]);
  });

  it("of 0 never waits, and grants what is free", async () => {
    const { limiter, clock } = make();
    expect((await limiter.acquire(1, { maxWaitMs: 0 })).isAcquired).toBe(true);
    const refused = await limiter.acquire(1, { maxWaitMs: 0 });
    expect([refused.isAcquired, refused.reason]).toEqual([false, "limit_reached"]);
    expect(refused.tryGetMetadata("REASON_PHRASE")).toBeUndefined();
    expect((await make({ queueLimit: 0 }).limiter.acquire(1, { maxWaitMs: 0 })).isAcquired).toBe(true);
    expect(clock.timersSet).toBe(0);
  });

  it("below 0 is refused with deadline_expired even when a permit is free, and counted", async () => {
    const { limiter } = make();
    const refused = await limiter.acquire(1, { maxWaitMs: -0.001 });
    expect([refused.isAcquired, refused.reason]).toEqual([false, "deadline_expired"]);
    expect(numbers(limiter)).toEqual([1, 0, 1, 0]);
  });

  it("may be longer than hosts' timers go: 30 days, and 2**53 ms (H22, H27)", async () => {
    const { limiter, clock } = make();
    const held = limiter.attemptAcquire();
    const month = 30 * 24 * 3600_000;
    const waiting = wait(limiter, 1, { maxWaitMs: month });
    const patient = wait(limiter, 1, { maxWaitMs: 2 ** 53 });
    clock.advance(month - 1);
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(waiting.value.reason).toBe("queue_timeout");
    held.dispose();
    await flush();
    expect(patient.value.isAcquired).toBe(true);
  });
});

describe("pause", () => {
  it("refuses attempts with server_pause and the time left, and grants again when it is over", () => {
    const { limiter, clock } = make();
    limiter.pause(1000);
    clock.advance(400);
    const refused = limiter.attemptAcquire();
    expect([refused.isAcquired, refused.reason, refused.retryAfterMs]).toEqual([false, "server_pause", 600]);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
    clock.advance(600);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
    expect(clock.timersSet).toBe(0);
  });

  it("makes those wait who may, and serves them at its end by one timer that keeps the process alive", async () => {
    const { limiter, clock } = make({ permitLimit: 2 });
    limiter.pause(1000);
    const waits = [wait(limiter), wait(limiter), wait(limiter, 0)];
    expect([clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 1]);
    clock.advance(999);
    await flush();
    expect(waits.map((w) => w.state)).toEqual(["pending", "pending", "pending"]);
    clock.advance(1);
    await flush();
    expect(waits.map((w) => w.value.isAcquired)).toEqual([true, true, true]);
    expect(clock.timerCount).toBe(0);
  });

  it("holds back what is released meanwhile", async () => {
    const { limiter, clock } = make();
    const held = limiter.attemptAcquire();
    const waiting = wait(limiter);
    limiter.pause(100);
    held.dispose();
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(100);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("is never shortened, only prolonged", () => {
    const { limiter, clock } = make();
    limiter.pause(1000);
    limiter.pause(10);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(1000);
    limiter.pause(2000);
    clock.advance(1500);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(500);
  });

  it("refuses an acquire without a place with server_pause too", async () => {
    const { limiter } = make({ queueLimit: 0 });
    limiter.pause(1000);
    const refused = await limiter.acquire();
    expect([refused.reason, refused.retryAfterMs]).toEqual(["server_pause", 1000]);
  });

  it("keeps the limiter from being idle, and ends with dispose", async () => {
    const { limiter, clock } = make();
    limiter.pause(1000);
    expect(limiter.idleDurationMs).toBeUndefined();
    const waiting = wait(limiter);
    limiter.dispose();
    await flush();
    expect(waiting.value.reason).toBe("limiter_disposed");
    limiter.pause(1000);
    expect(clock.timerCount).toBe(0);
    expect(limiter.idleDurationMs).toBe(0);
  });

  it("is over for good when it is over, also if the clock then goes back", () => {
    const { limiter, clock } = make();
    limiter.pause(1000);
    clock.advance(1000);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
    clock.set(0);
    limiter.permitLimit = 2;
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });
});

describe("permitLimit", () => {
  it("serves waiters when it is raised", async () => {
    const { limiter } = make({ permitLimit: 1 });
    limiter.attemptAcquire();
    const waits = [wait(limiter), wait(limiter), wait(limiter)];
    limiter.permitLimit = 3;
    await flush();
    expect(waits.map((w) => w.state)).toEqual(["fulfilled", "fulfilled", "pending"]);
    expect(limiter.permitLimit).toBe(3);
  });

  it("takes nothing away when it is lowered; permits come back until fewer are held than the limit", () => {
    const { limiter } = make({ permitLimit: 10 });
    const held = Array.from({ length: 10 }, () => limiter.attemptAcquire());
    limiter.permitLimit = 4;
    for (const [i, lease] of held.entries()) {
      expect(numbers(limiter)[0]).toBe(Math.max(0, i - 6));
      expect(limiter.attemptAcquire(0).isAcquired).toBe(i > 6);
      lease.dispose();
    }
    expect(numbers(limiter)[0]).toBe(4);
    expect(() => limiter.attemptAcquire(5)).toThrow(RangeError);
  });

  it("refuses waiters that can never fit any more, at once and wherever they stand", async () => {
    const { limiter } = make({ permitLimit: 5, queueLimit: 20 });
    limiter.attemptAcquire(5);
    const waits = [1, 5, 2, 4, 3].map((n) => wait(limiter, n));
    limiter.permitLimit = 3;
    await flush();
    expect(waits.map((w) => w.state === "fulfilled" && w.value.reason)).toEqual([
      false,
      "limit_reached",
      false,
      "limit_reached",
      false,
    ]);
    expect(numbers(limiter)).toEqual([0, 6, 2, 1]);
  });

  it("lets those through whom such a waiter blocked", async () => {
    const { limiter } = make({ permitLimit: 5 });
    limiter.attemptAcquire(1);
    wait(limiter, 5);
    const small = wait(limiter, 1);
    limiter.permitLimit = 4;
    await flush();
    expect(small.value.isAcquired).toBe(true);
  });
});

describe("adjust", () => {
  it("gives back what was too much, and serves waiters with it", async () => {
    const { limiter } = make({ permitLimit: 5 });
    const lease = limiter.attemptAcquire(5);
    const waiting = wait(limiter, 2);
    lease.adjust(3);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    lease.dispose();
    expect(numbers(limiter)).toEqual([3, 0, 0, 2]);
  });

  it("takes what was too little, into debt if need be, and grants nothing until that is paid", () => {
    const { limiter } = make({ permitLimit: 5 });
    const [lease, other] = [limiter.attemptAcquire(2), limiter.attemptAcquire(3)];
    lease.adjust(4);
    expect(numbers(limiter)[0]).toBe(0);
    other.adjust(1);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
    other.dispose();
    expect(numbers(limiter)[0]).toBe(1);
    lease.dispose();
    expect(numbers(limiter)[0]).toBe(5);
  });

  it("does nothing after dispose, and refund is adjust(0) and dispose", () => {
    const { limiter } = make({ permitLimit: 5 });
    const lease = limiter.attemptAcquire(2);
    lease.refund();
    lease.adjust(5);
    lease.refund();
    expect(numbers(limiter)).toEqual([5, 0, 0, 1]);
  });

  it("works on a lease of 0 permits, which then holds some", () => {
    const { limiter } = make({ permitLimit: 5 });
    const lease = limiter.attemptAcquire(0);
    lease.adjust(2);
    expect(numbers(limiter)[0]).toBe(3);
    lease.dispose();
    expect(numbers(limiter)[0]).toBe(5);
  });
});

describe("cost, counted", () => {
  it("reads no clock, sets no timer and adds no listener for an uncontended acquire and dispose", async () => {
    const { limiter, clock } = make();
    const controller = new CountingController();
    clock.reads = 0;
    for (let i = 0; i < 10; i++) {
      limiter.attemptAcquire().dispose();
      (await limiter.acquire()).dispose();
      (await limiter.acquire(1, { signal: controller.signal, maxWaitMs: 10 })).dispose();
      limiter.attemptAcquire(0).dispose();
    }
    const lease = limiter.attemptAcquire();
    limiter.attemptAcquire();
    limiter.getStatistics();
    lease.dispose();
    expect([clock.reads, clock.timersSet, controller.added]).toEqual([0, 0, 0]);
  });

  it("sets no timer for a waiter, and reads the clock when one begins to wait and when one is served", async () => {
    const { limiter, clock } = make();
    const held = limiter.attemptAcquire();
    clock.reads = 0;
    const waiting = wait(limiter);
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect([clock.reads, clock.timersSet]).toEqual([2, 0]);
  });

  it("makes one object and one promise for an uncontended acquire, and the same refusal for every attempt", async () => {
    const { limiter } = make({ permitLimit: 2 });
    const promise = limiter.acquire();
    expect(promise.constructor).toBe(Promise);
    const [a, b] = [await promise, await limiter.acquire()];
    expect(a).not.toBe(b);
    expect(limiter.attemptAcquire()).toBe(limiter.attemptAcquire());
  });

  it("sets no timer for 10 000 idle limiters, used or not", () => {
    const clock = new CountingClock();
    const limiters = Array.from({ length: 10_000 }, () => new ConcurrencyLimiter({ permitLimit: 1, clock }));
    for (const limiter of limiters) limiter.attemptAcquire().dispose();
    expect([clock.timersSet, clock.reads]).toEqual([0, 10_000]);
  });
});

describe("a clock that goes back", () => {
  it("lengthens no wait beyond its deadline by the clock, and never shows a negative retry-after", async () => {
    const clock = new ManualClock({ startMs: 10_000 });
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
    clock.set(9000);
    expect(limiter.idleDurationMs).toBe(0);
    limiter.attemptAcquire();
    const waiting = wait(limiter, 1, { maxWaitMs: 100 });
    clock.set(0);
    clock.advance(9099);
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(waiting.value.reason).toBe("queue_timeout");
  });
});
