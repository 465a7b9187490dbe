import { ConcurrencyLimiter } from "headgate";
import { describe, expect, test } from "vitest";

/** A signal that counts its listeners. */
function countedSignal() {
  const controller = new AbortController();
  const { signal } = controller;
  let listeners = 0;
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...args: Parameters<typeof add>) => {
    listeners += 1;
    add(...args);
  };
  signal.removeEventListener = (...args: Parameters<typeof remove>) => {
    listeners -= 1;
    remove(...args);
  };
  return { controller, signal, count: () => listeners };
}

function fullLimiters(count: number): ConcurrencyLimiter[] {
  return Array.from({ length: count }, () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10 });
    limiter.attemptAcquire();
    return limiter;
  });
}

describe("one signal for many limiters", () => {
  test("has one listener, and none once nobody waits", async () => {
    const { controller, signal, count } = countedSignal();
    const limiters = fullLimiters(100);
    const waits = limiters.map((limiter) => limiter.acquire({ signal }));
    expect(count()).toBe(1);
    controller.abort("shutdown");
    const results = await Promise.allSettled(waits);
    expect(results.every((one) => one.status === "rejected" && one.reason === "shutdown")).toBe(true);
    expect(count()).toBe(0);
    expect(limiters.every((one) => one.getStatistics()?.currentQueuedCount === 0)).toBe(true);
  });

  test("goes on for those who stay, whoever leaves first", async () => {
    const { controller, signal, count } = countedSignal();
    const limiters = fullLimiters(5);
    const waits = limiters.map((limiter) => limiter.acquire({ signal }));
    for (const i of [2, 0, 4]) limiters[i]?.dispose();
    expect(count()).toBe(1);
    controller.abort("late");
    const results = await Promise.allSettled(waits);
    expect(results.map((one) => one.status)).toEqual([
      "fulfilled",
      "rejected",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(count()).toBe(0);
  });

  test("can be used again after all have left", async () => {
    const { controller, signal, count } = countedSignal();
    const [first, second] = fullLimiters(2) as [ConcurrencyLimiter, ConcurrencyLimiter];
    const gone = first.acquire({ signal });
    first.dispose();
    expect((await gone).isAcquired).toBe(false);
    expect(count()).toBe(0);
    const waits = second.acquire({ signal });
    expect(count()).toBe(1);
    controller.abort("now");
    await expect(waits).rejects.toBe("now");
  });
});
