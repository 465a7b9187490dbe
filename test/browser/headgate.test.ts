import { ConcurrencyLimiter, RateLimiter, withLease } from "headgate";
import { expect, it } from "vitest";

it("limits, queues, pauses and aborts in a browser, with its own clock", async () => {
  using limiter = new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 100 });
  let running = 0;
  let peak = 0;
  await Promise.all(
    Array.from({ length: 20 }, () =>
      withLease(limiter, async () => {
        running += 1;
        peak = Math.max(peak, running);
        await new Promise((resolve) => requestAnimationFrame(resolve));
        running -= 1;
      }),
    ),
  );
  expect([peak, running]).toEqual([2, 0]);

  limiter.pause(30);
  const start = performance.now();
  (await limiter.acquire()).dispose();
  expect(performance.now() - start).toBeGreaterThanOrEqual(30);

  const chain = RateLimiter.createChained(limiter);
  using held = await chain.acquire(2);
  expect(held.isAcquired).toBe(true);
  await expect(limiter.acquire({ signal: AbortSignal.timeout(20) })).rejects.toHaveProperty(
    "name",
    "TimeoutError",
  );
  expect(limiter.getStatistics().currentQueuedCount).toBe(0);
});
