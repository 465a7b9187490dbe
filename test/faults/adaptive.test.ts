import {
  AdaptiveConcurrencyLimiter,
  AimdLimit,
  AnchoredGradientLimit,
  GradientLimit,
  type Limit,
} from "headgate/adaptive";
import { expect, it } from "vitest";
import { ManualClock } from "../support.js";

/** The same work again and again, with as much in flight as the limit allows; the limit after each. */
function saturate(
  limit: Limit,
  samples: number,
  rttOf: (i: number) => number,
  outcome: "success" | "dropped",
) {
  const limits: number[] = [];
  let now = 0;
  for (let i = 0; i < samples; i++) {
    const rtt = rttOf(i);
    limit.onSample(now, rtt, limit.limit, outcome);
    now += rtt > 0 ? rtt : 1;
    limits.push(limit.limit);
  }
  return limits;
}

it("climbs to its maximum and stays there, since reaching it is no congestion (H29: Netflix/concurrency-limits#155)", () => {
  const limit = new AimdLimit({ initialLimit: 10, minLimit: 10, maxLimit: 20 });
  const limits = saturate(limit, 1000, () => 10, "success");
  expect(limits.slice(0, 10)).toEqual([11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
  expect(new Set(limits.slice(9))).toEqual(new Set([20]));
});

it("goes down to its minimum when everything times out after the same time, which is no calm (H30: Netflix/concurrency-limits#137)", () => {
  const random = () => 0.5;
  for (const limit of [
    new GradientLimit({ initialLimit: 200, minLimit: 20, maxLimit: 200, random }),
    new AnchoredGradientLimit({ initialLimit: 200, minLimit: 20, maxLimit: 200, random }),
  ]) {
    const limits = saturate(limit, 500, () => 5000, "dropped");
    expect(limits.at(-1)).toBe(20);
    expect(Math.max(...limits)).toBeLessThan(200);
  }
});

it("goes down by way of the limiter too, in the window of the default (H30: Netflix/concurrency-limits#137)", () => {
  const clock = new ManualClock();
  const limiter = new AdaptiveConcurrencyLimiter({ initialLimit: 200, minLimit: 20, maxLimit: 200, clock });
  for (let i = 0; i < 500; i++) {
    const leases = Array.from({ length: limiter.permitLimit }, () => limiter.attemptAcquire());
    clock.advance(5000);
    for (const lease of leases) {
      lease.report("dropped");
      lease.dispose();
    }
  }
  expect(limiter.permitLimit).toBe(20);
});

it("never leaves its bounds, whatever the latency (H31: envoyproxy/envoy#9947)", () => {
  const strange = [0, Number.NaN, Number.POSITIVE_INFINITY, -1, 1e-300, 1e300];
  for (const make of [
    () => new GradientLimit({ initialLimit: 50, minLimit: 5, maxLimit: 100, queueSize: 4 }),
    () => new AnchoredGradientLimit({ initialLimit: 50, minLimit: 5, maxLimit: 100 }),
  ]) {
    const limit = make();
    const limits = [
      ...saturate(limit, 100, () => 10, "success"),
      ...saturate(limit, 1000, () => 1000, "success"),
      ...saturate(limit, 1000, (i) => strange[i % strange.length] ?? 0, "success"),
    ];
    for (const one of limits) {
      expect(Number.isInteger(one) && one >= 5 && one <= 100).toBe(true);
    }
    expect(Math.min(...limits)).toBeLessThan(50);
  }
});
