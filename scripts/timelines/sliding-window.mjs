import { SlidingWindowRateLimiter } from "headgate";

/** What was taken in a segment comes back when that segment is a window old, and no sooner. */
export default async function scenario(timeline) {
  const limiter = new SlidingWindowRateLimiter({
    permitLimit: 6,
    windowMs: 60,
    segmentsPerWindow: 3,
    queueLimit: 3,
    clock: timeline.clock,
  });
  timeline.columns = {
    free: () => limiter.getStatistics().currentAvailablePermits,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  await timeline.advance(5);
  await timeline.acquire("A", limiter, 2);
  await timeline.advance(20);
  await timeline.acquire("B", limiter, 3);
  await timeline.advance(20);
  await timeline.acquire("C", limiter, 1);
  await timeline.attempt("D", limiter, 1);
  await timeline.attempt("E", limiter, 3);
  await timeline.advance(15);
  await timeline.step("the segment of A leaves the window");
  await timeline.acquire("F", limiter, 3);
  await timeline.advance(20);
  await timeline.advance(20);
  await timeline.step("the segment of C leaves the window");
}
