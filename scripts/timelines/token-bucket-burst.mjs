import { TokenBucketRateLimiter } from "headgate";

/** After a quiet time the burst comes on top of the rate, and of steps there may be one more than periods. */
export default async function scenario(timeline) {
  const limiter = new TokenBucketRateLimiter({
    tokenLimit: 10,
    tokensPerPeriod: 5,
    replenishmentPeriodMs: 100,
    clock: timeline.clock,
  });
  timeline.columns = { free: () => limiter.getStatistics().currentAvailablePermits };
  await timeline.advance(99);
  await timeline.attempt("A", limiter, 10);
  await timeline.advance(1);
  await timeline.attempt("B", limiter, 5);
  await timeline.advance(100);
  await timeline.attempt("C", limiter, 5);
  await timeline.attempt("D", limiter, 1);
}
