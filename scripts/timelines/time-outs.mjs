import { TokenBucketRateLimiter } from "headgate";

/** The ways in which time ends a wait, before it begins and afterwards. */
export default async function scenario(timeline) {
  const limiter = new TokenBucketRateLimiter({
    tokenLimit: 1,
    tokensPerPeriod: 1,
    replenishmentPeriodMs: 100,
    queueLimit: 5,
    queueTimeoutMs: 250,
    clock: timeline.clock,
  });
  timeline.columns = {
    queued: () => limiter.getStatistics().currentQueuedCount,
    "estimate (ms)": () => limiter.estimateWaitMs(),
  };
  const acquire = (name, maxWaitMs) => timeline.acquire(`${name}(${maxWaitMs})`, limiter, 1, { maxWaitMs });
  await timeline.acquire("A", limiter);
  await timeline.advance(10);
  await acquire("B", -1);
  await acquire("C", 0);
  await acquire("D", 50);
  await acquire("E", 100);
  await acquire("F", 200);
  await timeline.acquire("G", limiter);
  await timeline.acquire("H", limiter);
  await acquire("I", 300);
  await timeline.advance(300);
}
