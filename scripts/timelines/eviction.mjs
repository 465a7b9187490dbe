import { PartitionedRateLimiter, RateLimitPartition } from "headgate";

/** What a window remembers keeps its partition; after that, and the idle limit, it goes. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  const options = { permitLimit: 2, windowMs: 1000, clock };
  const limiter = PartitionedRateLimiter.create(
    (tenant) => RateLimitPartition.getFixedWindowLimiter(tenant, () => options),
    { idleLimitMs: 300, clock },
  );
  timeline.columns = {
    partitions: () => limiter.size,
    "granted in all": () => limiter.getTotals().totalSuccessfulLeases,
    timers: () => clock.timerCount,
  };
  const acme = limiter.forResource("acme");
  const globex = limiter.forResource("globex");
  await timeline.attempt("acme", acme, 2);
  await timeline.advance(400);
  await timeline.step("idle limit over; the window remembers");
  await timeline.attempt("acme", acme, 1);
  await timeline.advance(500);
  await timeline.attempt("globex", globex, 1);
  for (let { size } = limiter; size > 0; ) {
    await timeline.advance(1);
    if (limiter.size === size) continue;
    size = limiter.size;
    await timeline.step("one is dropped");
  }
  await timeline.attempt("acme", acme, 1);
}
