import { ConcurrencyLimiter } from "headgate";

/** Lowering the limit takes nothing away; raising it serves at once. */
export default async function scenario(timeline) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 4, queueLimit: 8, clock: timeline.clock });
  timeline.columns = {
    limit: () => limiter.permitLimit,
    held: () => timeline.held,
    free: () => limiter.getStatistics().currentAvailablePermits,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  const setLimit = (limit) =>
    timeline.step(`limit set to ${limit}`, () => {
      limiter.permitLimit = limit;
    });
  await timeline.acquire("A", limiter, 2);
  await timeline.acquire("B", limiter, 1);
  await timeline.acquire("C", limiter, 1);
  await timeline.acquire("D", limiter, 3);
  await timeline.acquire("E", limiter, 1);
  await timeline.acquire("F", limiter, 1);
  await timeline.advance(10);
  await setLimit(2);
  await timeline.advance(10);
  await timeline.dispose("B");
  await timeline.dispose("C");
  await timeline.advance(10);
  await timeline.dispose("A");
  await timeline.advance(10);
  await setLimit(4);
}
