import { ConcurrencyLimiter } from "headgate";

/** A concurrency limiter goes by the pace at which permits came back, and may be wrong; then the wait itself ends in time. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5, clock });
  timeline.columns = {
    queued: () => limiter.getStatistics().currentQueuedCount,
    "estimate (ms)": () => limiter.estimateWaitMs() ?? "unknown",
  };
  let lease = limiter.attemptAcquire();
  await timeline.step("one holds the permit");
  for (let i = 0; i < 10; i++) {
    const next = limiter.acquire();
    clock.advance(20);
    lease.dispose();
    lease = await next;
  }
  await timeline.step("10 have waited 20 ms each");
  await timeline.acquire("A(25)", limiter, 1, { maxWaitMs: 25 });
  await timeline.acquire("B(25)", limiter, 1, { maxWaitMs: 25 });
  await timeline.acquire("C(45)", limiter, 1, { maxWaitMs: 45 });
  await timeline.advance(30);
  await timeline.step("the holder is slow, and returns 1", () => lease.dispose());
  await timeline.dispose("C(45)");
}
