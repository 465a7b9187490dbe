import { ConcurrencyLimiter } from "headgate";

/** Oldest first, with a large request at the head: it blocks small ones that would fit. */
export default async function scenario(timeline) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 4, queueLimit: 6, clock: timeline.clock });
  timeline.columns = {
    held: () => timeline.held,
    free: () => limiter.getStatistics().currentAvailablePermits,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  await timeline.acquire("A", limiter, 2);
  await timeline.acquire("B", limiter, 1);
  await timeline.advance(10);
  await timeline.acquire("C", limiter, 4);
  await timeline.acquire("D", limiter, 1);
  await timeline.attempt("E", limiter, 1);
  await timeline.acquire("F", limiter, 2);
  await timeline.advance(10);
  await timeline.dispose("A");
  await timeline.advance(10);
  await timeline.dispose("B");
  await timeline.advance(10);
  await timeline.dispose("C");
  await timeline.advance(10);
  await timeline.dispose("D");
}
