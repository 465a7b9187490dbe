import { describe, expect, it } from "vitest";
import {
  AnchoredGradientLimit,
  type AnchoredGradientLimitOptions,
} from "../../../src/adaptive/anchored-gradient-limit.js";
import { GradientLimit } from "../../../src/adaptive/gradient-limit.js";

function anchored(options: AnchoredGradientLimitOptions = {}) {
  const limit = new AnchoredGradientLimit({ random: () => 0, ...options });
  let now = 0;
  /** One window, fully used unless said otherwise. */
  function window(rtt: number, inFlight = limit.limit, outcome: "success" | "dropped" = "success"): number {
    limit.onSample(now, rtt, inFlight, outcome);
    now += 1000;
    return limit.limit;
  }
  function signal(name: string): unknown {
    return limit.describe()[name];
  }
  return { limit, window, signal };
}

describe("the anchored gradient", () => {
  it("grows by twice the root until the first congestion, then by the root", () => {
    const { window } = anchored();
    expect([window(100), window(150), window(150)]).toEqual([30, 42, 56]);
    expect([window(200), window(100), window(100)]).toEqual([49, 56, 64]);
  });

  it("shrinks by a quarter at most in one window", () => {
    const { window } = anchored({ initialLimit: 100, probeInterval: false });
    window(100);
    expect(window(1e9)).toBe(90);
    expect(window(1e9, 90, "dropped")).toBe(67);
  });

  it("does not let the baseline rise while the limit is fully used, for however long", () => {
    const { window, signal } = anchored({ probeInterval: false, maxLimit: 20 });
    for (let i = 0; i < 20; i++) window(100);
    for (let i = 0; i < 1000; i++) window(140);
    expect(signal("baselineRttMs")).toBe(100);
    expect(signal("isBaselineFrozen")).toBe(true);
    window(140, 15);
    expect(signal("baselineRttMs")).toBeGreaterThan(100);
    expect(signal("isBaselineFrozen")).toBe(false);
  });

  it("measures anew after ten windows with half of the limit, and puts it back", () => {
    const { window, signal } = anchored({ maxLimit: 40 });
    for (let i = 0; i < 10; i++) window(100);
    expect([window(100), signal("phase")]).toEqual([20, "drain"]);
    expect([window(100), signal("phase")]).toEqual([20, "measure"]);
    expect([window(80), signal("phase"), signal("baselineRttMs")]).toEqual([40, "run", 80]);
  });

  it("a measurement never raises the baseline", () => {
    const { window, signal } = anchored({ maxLimit: 40 });
    for (let i = 0; i < 12; i++) window(100);
    expect(signal("phase")).toBe("measure");
    window(120);
    expect([signal("phase"), signal("baselineRttMs")]).toEqual(["run", 100]);
  });

  it("waits with the measurement for work that started after the probe, for five windows at most", () => {
    const { limit, window, signal } = anchored({ maxLimit: 40 });
    for (let i = 0; i < 11; i++) window(100);
    for (let i = 0; i < 4; i++) {
      limit.onSample(10_050, 9000, 20, "success");
      expect(signal("phase")).toBe("drain");
    }
    limit.onSample(10_050, 9000, 20, "success");
    expect(signal("phase")).toBe("measure");
  });

  it("does not measure when the limit is not fully used, or is at the minimum, and draws anew", () => {
    let draws = 0;
    const random = (): number => {
      draws += 1;
      return 0;
    };
    const idle = anchored({ quickProbe: 1, probeInterval: 2, random });
    for (let i = 0; i < 20; i++) idle.window(100, 3);
    expect([idle.signal("phase"), idle.limit.limit, draws]).toEqual(["run", 20, 7]);
    const lowest = anchored({ quickProbe: 1, probeInterval: 2, initialLimit: 4, maxLimit: 4, random });
    for (let i = 0; i < 20; i++) expect(lowest.window(100)).toBe(4);
    expect(lowest.signal("phase")).toBe("run");
  });

  it("takes for normal what stays congested at the minimum, but not what is unhealthy", () => {
    const healthy = anchored({ initialLimit: 5, probeInterval: false });
    healthy.window(100);
    for (let i = 0; i < 40 && healthy.signal("rebaseCount") === 0; i++) healthy.window(1000);
    expect([healthy.signal("rebaseCount"), healthy.signal("baselineRttMs"), healthy.limit.limit]).toEqual([
      1, 1000, 4,
    ]);
    expect(healthy.window(1000)).toBe(6);
    const hanging = anchored({ initialLimit: 5, probeInterval: false, maxHealthyRttMs: 900 });
    hanging.window(100);
    for (let i = 0; i < 40; i++) hanging.window(1000);
    expect([hanging.signal("rebaseCount"), hanging.signal("baselineRttMs"), hanging.limit.limit]).toEqual([
      0, 100, 4,
    ]);
  });

  it("shrinks with every window that is unhealthy, even before it knows a baseline", () => {
    const { window, signal } = anchored({ initialLimit: 100, maxHealthyRttMs: 500, probeInterval: false });
    expect([window(5000), window(5000)]).toEqual([95, 90]);
    expect(signal("baselineRttMs")).toBeUndefined();
  });

  it("knows nothing at first", () => {
    const { limit } = anchored();
    expect(limit.describe()).toEqual({
      algorithm: "AnchoredGradientLimit",
      limit: 20,
      estimated: 20,
      isBaselineFrozen: false,
      phase: "run",
      rebaseCount: 0,
    });
    expect(limit.maxLimit).toBe(1000);
  });
});

describe("the gradient", () => {
  it("grows by the queue size at once, and shrinks a fifth of the way", () => {
    const limit = new GradientLimit({ initialLimit: 100, random: () => 0 });
    for (const [rtt, expected] of [
      [10, 110],
      [20, 120],
      [40, 110],
    ] as const) {
      limit.onSample(0, rtt, 200, "success");
      expect(limit.limit).toBe(expected);
    }
    expect(limit.describe()).toMatchObject({
      gradient: 0.5,
      queueSize: 10,
      noLoadRttMs: 10,
      windowRttMs: 40,
    });
  });

  it("counts down to the next probe, which forgets the no-load time", () => {
    const limit = new GradientLimit({ initialLimit: 100, probeInterval: 2, random: () => 0.5 });
    expect(limit.describe()["samplesUntilProbe"]).toBe(3);
    for (let i = 0; i < 3; i++) limit.onSample(0, 10, 0, "success");
    expect([limit.limit, limit.describe()["samplesUntilProbe"]]).toEqual([100, 0]);
    limit.onSample(0, 10, 0, "success");
    expect([limit.limit, limit.describe()["noLoadRttMs"]]).toEqual([10, undefined]);
    expect(new GradientLimit({ probeInterval: false }).describe()["samplesUntilProbe"]).toBeUndefined();
  });

  it("a queue size that is too large counts only up to the maximum", () => {
    const limit = new GradientLimit({ initialLimit: 10, maxLimit: 20, queueSize: () => 500 });
    limit.onSample(0, 10, 10, "success");
    expect(limit.limit).toBe(20);
    limit.onSample(0, 10, 10, "dropped");
    expect(limit.limit).toBe(20);
  });
});

describe("windows in which work was dropped", () => {
  const baselineOf = (limit: AnchoredGradientLimit) => limit.describe()["baselineRttMs"];

  /** A limit that has learned that work takes 100 ms. */
  function warm(quickProbe: number): AnchoredGradientLimit {
    const limit = new AnchoredGradientLimit({ initialLimit: 50, maxLimit: 50, quickProbe, random: () => 0 });
    for (let i = 0; i < 12; i++) limit.onSample(i * 1000, 100, limit.limit, "success");
    expect(baselineOf(limit)).toBe(100);
    return limit;
  }

  it("do not lower the baseline, since refusals come fast", () => {
    const limit = warm(1000);
    for (let i = 12; i < 30; i++) limit.onSample(i * 1000, 1, limit.limit, "dropped");
    expect(baselineOf(limit)).toBe(100);
    limit.onSample(30_000, 50, limit.limit, "success");
    expect(baselineOf(limit)).toBeLessThan(100);
  });

  it("are no measurement at the end of a probe", () => {
    const limit = warm(12);
    limit.onSample(12_000, 100, limit.limit, "success");
    expect(limit.describe()["phase"]).toBe("drain");
    limit.onSample(13_000, 100, 1, "success");
    expect(limit.describe()["phase"]).toBe("measure");
    limit.onSample(14_000, 1, 1, "dropped");
    expect(limit.describe()["phase"]).toBe("run");
    expect(baselineOf(limit)).toBe(100);
    expect(limit.limit).toBe(50);
  });
});
