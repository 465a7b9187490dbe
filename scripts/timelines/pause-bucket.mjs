import { TokenBucketRateLimiter } from "headgate";

/** Tokens accrue in a pause, and go out in a burst when it ends. */
export default async function scenario(timeline) {
  const limiter = new TokenBucketRateLimiter({
    tokenLimit: 3,
    tokensPerPeriod: 1,
    replenishmentPeriodMs: 20,
    queueLimit: 10,
    clock: timeline.clock,
  });
  timeline.columns = {
    free: () => limiter.getStatistics().currentAvailablePermits,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  await timeline.acquire("A", limiter, 3);
  await timeline.advance(10);
  await timeline.step("a 429 for A; pause(100)", () => limiter.pause(100));
  await timeline.attempt("B", limiter);
  await timeline.acquire("C", limiter, 2);
  await timeline.acquire("D", limiter, 1);
  await timeline.acquire("E", limiter, 1);
  await timeline.advance(120);
}
