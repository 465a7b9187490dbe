import { TokenBucketRateLimiter } from "headgate";

/** The same rate, in steps and continuously. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  const rate = { tokenLimit: 5, tokensPerPeriod: 2, replenishmentPeriodMs: 100, queueLimit: 5, clock };
  const stepped = new TokenBucketRateLimiter({ ...rate, refill: "stepped" });
  const continuous = new TokenBucketRateLimiter({ ...rate, refill: "continuous" });
  timeline.columns = {
    stepped: () => stepped.getStatistics().currentAvailablePermits,
    continuous: () => continuous.getStatistics().currentAvailablePermits,
  };
  await timeline.attempt("stepped: A", stepped, 5);
  await timeline.attempt("continuous: A", continuous, 5);
  await timeline.advance(30);
  await timeline.attempt("stepped: B", stepped);
  await timeline.attempt("continuous: B", continuous);
  await timeline.advance(20);
  await timeline.step("a token has flowed in");
  await timeline.acquire("stepped: C", stepped, 2);
  await timeline.acquire("continuous: C", continuous, 2);
  await timeline.attempt("stepped: D", stepped);
  await timeline.attempt("continuous: D", continuous);
  await timeline.advance(150);
  await timeline.step("two periods are over");
}
