import { ConcurrencyLimiter } from "headgate";

/** Steady work of a high priority leaves nothing for the low one, until its time in the queue is over. */
export default async function scenario(timeline) {
  const limiter = new ConcurrencyLimiter({
    permitLimit: 1,
    queueLimit: 4,
    queueProcessingOrder: "highestPriorityFirst",
    queueTimeoutMs: 50,
    clock: timeline.clock,
  });
  timeline.columns = { queued: () => limiter.getStatistics().currentQueuedCount };
  const acquire = (name, priority) => timeline.acquire(`${name}(${priority})`, limiter, 1, { priority });
  await acquire("A", 5);
  await acquire("low", 0);
  let holder = "A(5)";
  for (const name of ["B", "C", "D"]) {
    await timeline.advance(10);
    await acquire(name, 5);
    await timeline.advance(10);
    await timeline.dispose(holder);
    holder = `${name}(5)`;
  }
}
