import { PartitionedRateLimiter, RateLimitPartition } from "headgate";

/** Strangers fill the partitions: with `share` a newcomer gets what they leave, with `reject` nothing. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  const options = { permitLimit: 2, windowMs: 100, clock };
  for (const overflow of ["share", "reject"]) {
    const limiter = PartitionedRateLimiter.create(
      (client) => RateLimitPartition.getFixedWindowLimiter(client, () => options),
      { maxPartitions: 2, overflow, clock },
    );
    timeline.columns = { partitions: () => limiter.size };
    const attempt = (name) => timeline.attempt(name, limiter.forResource(name));
    await timeline.step(`-- ${overflow}`);
    for (const name of ["regular", "fake 1", "fake 2", "fake 3", "honest", "regular"]) await attempt(name);
    await timeline.advance(100);
    await timeline.step("the windows are over");
    await attempt("honest");
    await timeline.advance(100);
    limiter.dispose();
  }
}
