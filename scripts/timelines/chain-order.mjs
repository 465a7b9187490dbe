import { ConcurrencyLimiter, RateLimiter } from "headgate";

/** The wrong order: requests that wait for a slow host hold the permits that all hosts share. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  const all = new ConcurrencyLimiter({ permitLimit: 3, clock });
  const slow = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2, clock });
  const fast = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2, clock });
  timeline.columns = {
    "all free": () => all.getStatistics().currentAvailablePermits,
    "slow queued": () => slow.getStatistics().currentQueuedCount,
  };
  const run = async (label, toSlow, toFast) => {
    await timeline.step(label);
    await timeline.acquire("A", toSlow);
    await timeline.acquire("B", toSlow);
    await timeline.acquire("C", toSlow);
    await timeline.acquire("D", toFast);
    await timeline.advance(10);
    await timeline.dispose("A");
    await timeline.dispose("B");
    await timeline.dispose("C");
  };
  await run("-- all, then host", RateLimiter.createChained(all, slow), RateLimiter.createChained(all, fast));
  await timeline.advance(10);
  await run("-- host, then all", RateLimiter.createChained(slow, all), RateLimiter.createChained(fast, all));
  await timeline.dispose("D");
}
