import { ConcurrencyLimiter } from "headgate";

/** The highest priority first; a full queue drops the newest of the lowest for a newcomer of a higher one. */
export default async function scenario(timeline) {
  const limiter = new ConcurrencyLimiter({
    permitLimit: 1,
    queueLimit: 4,
    queueProcessingOrder: "highestPriorityFirst",
    clock: timeline.clock,
  });
  timeline.columns = {
    held: () => timeline.held,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  const acquire = (name, priority) => timeline.acquire(`${name}(${priority})`, limiter, 1, { priority });
  await acquire("A", 0);
  await timeline.advance(10);
  await acquire("B", 0);
  await acquire("C", 0);
  await acquire("D", 5);
  await acquire("E", 5);
  await timeline.advance(10);
  await acquire("F", 9);
  await acquire("G", 0);
  await timeline.advance(10);
  for (const name of ["A(0)", "F(9)", "D(5)", "E(5)", "B(0)"]) {
    await timeline.dispose(name);
    await timeline.advance(10);
  }
}
