import { ConcurrencyLimiter } from "headgate";

/** Newest first: a full queue drops its oldest waiters, until the newcomer fits. */
export default async function scenario(timeline) {
  const limiter = new ConcurrencyLimiter({
    permitLimit: 2,
    queueLimit: 3,
    queueProcessingOrder: "newestFirst",
    clock: timeline.clock,
  });
  timeline.columns = {
    held: () => timeline.held,
    free: () => limiter.getStatistics().currentAvailablePermits,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  await timeline.acquire("A", limiter, 1);
  await timeline.advance(10);
  await timeline.acquire("B", limiter, 2);
  await timeline.acquire("C", limiter, 1);
  await timeline.advance(10);
  await timeline.acquire("D", limiter, 1);
  await timeline.acquire("E", limiter, 1);
  await timeline.advance(10);
  await timeline.dispose("A");
  await timeline.advance(10);
  await timeline.dispose("C");
}
