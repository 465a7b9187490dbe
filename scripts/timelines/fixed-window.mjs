import { FixedWindowRateLimiter } from "headgate";

/** All permits come back at the boundary: twice the limit right around it, then nothing for a whole window. */
export default async function scenario(timeline) {
  const limiter = new FixedWindowRateLimiter({
    permitLimit: 4,
    windowMs: 100,
    queueLimit: 2,
    clock: timeline.clock,
  });
  timeline.columns = {
    free: () => limiter.getStatistics().currentAvailablePermits,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  await timeline.advance(90);
  await timeline.acquire("A", limiter, 4);
  await timeline.attempt("B", limiter);
  await timeline.advance(10);
  await timeline.acquire("C", limiter, 4);
  await timeline.advance(20);
  await timeline.acquire("D", limiter, 2);
  await timeline.attempt("E", limiter);
  await timeline.advance(80);
}
