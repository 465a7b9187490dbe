import { SlidingWindowRateLimiter } from "headgate";

/** The worst case: all permits at the end of a segment, and again as soon as that segment has left the window. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  let limiter;
  timeline.columns = { free: () => limiter.getStatistics().currentAvailablePermits };
  for (const segmentsPerWindow of [3, 12]) {
    limiter = new SlidingWindowRateLimiter({ permitLimit: 6, windowMs: 60, segmentsPerWindow, clock });
    const segmentMs = limiter.replenishmentPeriodMs;
    await timeline.step(`-- ${segmentsPerWindow} segments of ${segmentMs} ms`);
    await timeline.advance(segmentMs - 1);
    await timeline.attempt("A", limiter, 6);
    await timeline.attempt("B", limiter, 6);
    await timeline.advance(60 - (segmentMs - 1));
    await timeline.attempt("B", limiter, 6);
    await timeline.advance(60);
  }
}
