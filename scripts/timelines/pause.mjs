import { ConcurrencyLimiter } from "headgate";

/** A pause: attempts are refused, who may wait waits, a shorter pause changes nothing. */
export default async function scenario(timeline) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 2, clock: timeline.clock });
  timeline.columns = {
    held: () => timeline.held,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  const pause = (ms) => timeline.step(`pause(${ms})`, () => limiter.pause(ms));
  await timeline.acquire("A", limiter);
  await timeline.advance(10);
  await pause(100);
  await timeline.attempt("B", limiter);
  await timeline.acquire("C", limiter);
  await timeline.acquire("D", limiter, 1, { maxWaitMs: 50 });
  await timeline.advance(20);
  await timeline.dispose("A");
  await pause(30);
  await timeline.attempt("E", limiter);
  await timeline.advance(100);
}
