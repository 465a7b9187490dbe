import { ConcurrencyLimiter } from "headgate";
import { AdaptiveConcurrencyLimiter } from "headgate/adaptive";
import { exponential, type LimiterFactory, poissonArrivals, simulate } from "headgate/simulator";
import { describe, expect, it } from "vitest";
import { type Run, run } from "../../scripts/scenarios/run.js";
import { SCENARIOS } from "../../scripts/scenarios/scenarios.js";
import { targetsOf } from "../../scripts/scenarios/targets.js";

// The judge's scenarios in which the default has to reach its targets, with one seed; `npm run scenarios` runs all of them, with
// three seeds and every algorithm.
const WANTED: Readonly<Record<string, readonly string[]>> = {
  S1: ["none", "static 50", "default"],
  "S2 exponential": ["default"],
  "S2 bimodal": ["default"],
  S3: ["none", "default"],
  S5: ["none", "default"],
  S6: ["default"],
  S7: ["default"],
  S9: ["default"],
};

describe("the default algorithm reaches its targets", () => {
  for (const [id, algorithms] of Object.entries(WANTED)) {
    it(`in scenario ${id}`, async () => {
      const scenario = SCENARIOS.find((one) => one.id === id);
      if (scenario === undefined) throw new Error(`no scenario ${id}`);
      const runs: Record<string, Run[]> = {};
      for (const algorithm of algorithms) runs[algorithm] = [await run(scenario, algorithm, 1)];
      const targets = targetsOf(scenario, runs);
      expect(targets.length).toBeGreaterThan(0);
      expect(targets.filter(({ isMet }) => !isMet)).toEqual([]);
      for (const { limiter, series } of (runs["default"] ?? []).map((one) => one.result)) {
        expect(limiter.limitMin).toBeGreaterThanOrEqual(scenario.bounds.minLimit);
        expect(limiter.limitMax).toBeLessThanOrEqual(scenario.bounds.maxLimit);
        expect(series.permitsInUse.every(Number.isFinite)).toBe(true);
      }
    });
  }
});

describe("a service that can answer 500 requests a second, asked for 5000, by clients with 5 s of patience", () => {
  const serve = (limiter?: LimiterFactory) =>
    simulate({
      arrivals: poissonArrivals({ ratePerSecond: 5000 }),
      service: { servers: 100, time: exponential(200) },
      clients: { timeoutMs: 5000 },
      durationMs: 60_000,
      warmupMs: 20_000,
      limiter,
    });

  it("serves nobody without a limit, while it is as busy as can be", async () => {
    const { perSecond, utilization } = await serve();
    expect(perSecond.goodput).toBeLessThan(0.005 * 500);
    expect(utilization.servers).toBeGreaterThan(0.99);
  });

  it("serves as much with a limit that it finds by itself as with the best one, and as fast as if it were alone", async () => {
    const best = await serve(({ clock }) => new ConcurrencyLimiter({ permitLimit: 100, clock }));
    const found = await serve(({ clock }) => new AdaptiveConcurrencyLimiter({ clock, initialLimit: 20 }));
    expect(found.perSecond.goodput).toBeGreaterThan(0.95 * best.perSecond.goodput);
    // Alone, the 99th percentile of exponential work of 200 ms is 921 ms.
    expect(found.latency.delivered.p99).toBeLessThan(1.25 * 921);
    expect(found.warnings.filter((text) => text.includes("permits"))).toEqual([]);
  });
});
