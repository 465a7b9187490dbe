import { TokenBucketRateLimiter } from "headgate";

/** Costs that are known afterwards: less goes back, more is a debt that is paid before anybody else is served. */
export default async function scenario(timeline) {
  const limiter = new TokenBucketRateLimiter({
    tokenLimit: 1000,
    tokensPerPeriod: 60_000,
    replenishmentPeriodMs: 60_000,
    refill: "continuous",
    queueLimit: 1000,
    clock: timeline.clock,
  });
  timeline.columns = {
    free: () => limiter.getStatistics().currentAvailablePermits,
    queued: () => limiter.getStatistics().currentQueuedCount,
  };
  const leases = new Map();
  const take = async (name, permits) => {
    leases.set(name, limiter.attemptAcquire(permits));
    await timeline.step(
      `${name} attempts ${permits}: ${leases.get(name).isAcquired ? "granted" : "refused"}`,
    );
  };
  const adjust = (name, permits) =>
    timeline.step(`${name} adjusts to ${permits}`, () => {
      leases.get(name).adjust(permits);
      leases.get(name).dispose();
    });
  await take("A", 400);
  await take("B", 600);
  await timeline.advance(100);
  await adjust("A", 150);
  await timeline.advance(50);
  await adjust("B", 1200);
  await timeline.attempt("C", limiter, 1);
  await timeline.acquire("D", limiter, 300);
  await timeline.advance(400);
  await timeline.advance(100);
}
