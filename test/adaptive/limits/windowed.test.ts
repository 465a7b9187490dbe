import type { LeaseOutcome } from "headgate";
import { describe, expect, it } from "vitest";
import { AimdLimit } from "../../../src/adaptive/aimd-limit.js";
import { AnchoredGradientLimit } from "../../../src/adaptive/anchored-gradient-limit.js";
import type { Limit } from "../../../src/adaptive/limit.js";
import { SettableLimit } from "../../../src/adaptive/settable-limit.js";
import { WindowedLimit, type WindowedLimitOptions } from "../../../src/adaptive/windowed-limit.js";
import { watchChanges } from "./support.js";

interface Heard {
  readonly start: number;
  readonly rtt: number;
  readonly inFlight: number;
  readonly outcome: LeaseOutcome;
  readonly running: number | undefined;
}

/** Notes what it is handed; the simplest algorithm that a user could write. */
class Listening implements Limit {
  readonly limit = 4;
  readonly heard: Heard[] = [];

  onSample(start: number, rtt: number, inFlight: number, outcome: LeaseOutcome, running?: number): void {
    this.heard.push({ start, rtt, inFlight, outcome, running });
  }

  onChange(): () => void {
    return () => {};
  }
}

function windowed(options: WindowedLimitOptions) {
  const inner = new Listening();
  return { inner, limit: new WindowedLimit(inner, options) };
}

const DISCARD: WindowedLimitOptions = { underfilled: "discard" };
const MILLISECOND: WindowedLimitOptions = { ...DISCARD, minWindowMs: 1, maxWindowMs: 1 };

describe("windows that are discarded when they are not full", () => {
  it("L-WL-6: samples below the threshold are never seen", () => {
    const { inner, limit } = windowed({ ...MILLISECOND, windowSize: 5, minRttMs: 0.1 });
    for (let i = 0; i < 200; i++) limit.onSample(i, 0.05, 1, "success");
    expect(inner.heard).toEqual([]);
  });

  it("L-WL-7: six samples are not twenty", () => {
    const { inner, limit } = windowed({ ...MILLISECOND, windowSize: 20 });
    for (let i = 0; i < 6; i++) limit.onSample(i * 5, 0.5, 1, "success");
    expect(inner.heard).toEqual([]);
    expect(limit.describe()).toEqual({
      algorithm: "WindowedLimit",
      limit: 4,
      windowsUsed: 0,
      windowsAppLimited: 0,
      windowsUnderfilled: 6,
      windowsStale: 0,
    });
  });

  it("L-WL-8: hands one sample on when enough time has passed and enough have come", () => {
    const { inner, limit } = windowed({ ...MILLISECOND, windowSize: 10 });
    for (let i = 0; i < 20; i++) limit.onSample(i / 10, 0.5, 1, "success");
    limit.onSample(3, 0.5, 1, "success");
    expect(inner.heard).toHaveLength(1);
    expect(inner.heard[0]).toMatchObject({ rtt: 0.5, inFlight: 1, outcome: "success", running: 0 });
  });

  it("L-WL-9: begins anew after each", () => {
    const { inner, limit } = windowed({ ...MILLISECOND, windowSize: 5 });
    let now = 0;
    for (const rtt of [0.125, 0.75]) {
      for (let i = 0; i < 10; i++) limit.onSample(now, rtt, 1, "success");
      now += 10;
      limit.onSample(now, rtt, 1, "success");
      now += 10;
    }
    expect(inner.heard.map((one) => one.rtt)).toEqual([0.125, 0.75]);
  });

  it("L-WL-10: windows are twice the shortest latency long, within bounds", () => {
    const starts = [2, 10].map((rtt) => {
      const { inner, limit } = windowed({ ...DISCARD, minWindowMs: 1, maxWindowMs: 10, windowSize: 1 });
      for (let now = 0; now < 100; now++) limit.onSample(now, rtt, 1, "success");
      return inner.heard.map((one) => one.start);
    });
    expect(starts[0]?.slice(0, 3)).toEqual([0, 5, 10]);
    expect(starts[1]?.slice(0, 3)).toEqual([0, 11, 22]);
  });
});

describe("a window", () => {
  const open: WindowedLimitOptions = { windowSize: 4, minWindowMs: 100, maxWindowMs: 100 };

  it("hands on the mean, the peak, whether work was dropped, and how many are running", () => {
    const { inner, limit } = windowed(open);
    limit.onSample(0, 10, 1, "success", 7);
    limit.onSample(0, 20, 9, "success", 8);
    limit.onSample(0, 30, 3, "dropped", 9);
    limit.onSample(111, 60, 2, "success", 5);
    expect(inner.heard).toEqual([{ start: 111, rtt: 30, inFlight: 9, outcome: "dropped", running: 5 }]);
  });

  it("takes no notice of failures and of what was ignored", () => {
    const { inner, limit } = windowed(open);
    for (let i = 0; i < 4; i++) {
      limit.onSample(i * 50, 10, 1, "success");
      limit.onSample(i * 50, 5000, 9, "failure");
      limit.onSample(i * 50, 5000, 9, "ignored");
    }
    expect(inner.heard).toEqual([{ start: 150, rtt: 10, inFlight: 1, outcome: "success", running: 0 }]);
  });

  it.each([
    [0, 1, "dropped"],
    [0.25, 1, "success"],
    [0.25, 2, "dropped"],
    [0.99, 3, "success"],
    [0.99, 4, "dropped"],
  ] as const)("with a threshold of %d, and %d of 4 dropped: %s", (dropThreshold, drops, expected) => {
    const { inner, limit } = windowed({ ...open, dropThreshold });
    for (let i = 0; i < 4; i++) limit.onSample(i * 50, 10, 1, i < drops ? "dropped" : "success");
    expect(inner.heard.map((one) => one.outcome)).toEqual([expected]);
  });

  it("by default stays open until it is full", () => {
    const { inner, limit } = windowed(open);
    for (let i = 0; i < 4; i++) limit.onSample(i * 5000, 10, 1, "success");
    expect(inner.heard.map((one) => one.start)).toEqual([15_000]);
  });

  it.each([
    [10, 1010, 102],
    [200, 1800, 10],
    [12_000, 36_000, 4],
  ])("of completions every %d ms closes after %d ms with %d of them", (every, closed, count) => {
    const { inner, limit } = windowed({});
    // The mean of 1, 2, 3 … tells how many there were.
    for (let i = 0; inner.heard.length === 0; i++) limit.onSample(i * every - (i + 1), i + 1, 4, "success");
    expect(inner.heard).toMatchObject([{ start: closed - count, rtt: (count + 1) / 2 }]);
  });

  it("makes do with few samples after the longest extension, and throws fewer away", () => {
    const { inner, limit } = windowed({ ...open, maxExtendMs: 1000, minExtendSamples: 3 });
    for (const start of [0, 500, 1000]) limit.onSample(start, 10, 1, "success");
    expect(inner.heard).toHaveLength(1);
    for (const start of [2000, 3000]) limit.onSample(start, 10, 1, "success");
    expect(inner.heard).toHaveLength(1);
    expect(limit.describe()).toMatchObject({ windowsAppLimited: 1, windowsUnderfilled: 1, windowsStale: 0 });
  });

  it("counts as used from half of the limit on", () => {
    for (const [inFlight, used] of [
      [1, 0],
      [2, 1],
    ] as const) {
      const { limit } = windowed(open);
      for (let i = 0; i < 4; i++) limit.onSample(i * 50, 10, inFlight, "success");
      expect(limit.describe()).toMatchObject({ limit: 4, windowsUsed: used, windowsAppLimited: 1 - used });
    }
  });

  it("is stale after a gap longer than the longest extension", () => {
    const { inner, limit } = windowed({ ...open, maxExtendMs: 1000 });
    for (const start of [0, 1, 2, 1003]) limit.onSample(start, 10, 1, "success");
    expect(inner.heard).toEqual([]);
    expect(limit.describe()).toMatchObject({ windowsStale: 1 });
  });

  it("starts over when the clock was set back, and is not held up by one sample from the far future", () => {
    for (const underfilled of ["extend", "discard"] as const) {
      const { inner, limit } = windowed({ ...open, underfilled });
      for (let i = 0; i < 3; i++) limit.onSample(1e9 + i, 10, 1, "success");
      for (let i = 0; i < 9; i++) limit.onSample(i * 30, 10, 1, "success");
      limit.onSample(1e9 + 3, 10, 1, "success");
      expect(inner.heard).toEqual([]);
      limit.onSample(1e15, 10, 1, "success");
      inner.heard.length = 0;
      for (let i = 0; i < 30; i++) limit.onSample(i * 30, 10, 1, "success");
      expect(inner.heard.length).toBeGreaterThan(2);
    }
  });

  it("is empty again before the algorithm runs, so that one that throws does no harm", () => {
    const inner = new Listening();
    let throwNow = true;
    const limit = new WindowedLimit(
      {
        limit: 4,
        onSample: (...sample) => {
          if (throwNow) throw new Error("an algorithm");
          inner.onSample(...sample);
        },
        onChange: () => () => {},
      },
      open,
    );
    for (let i = 0; i < 3; i++) limit.onSample(i * 50, 10, 1, "success");
    expect(() => limit.onSample(150, 10, 1, "success")).toThrow("an algorithm");
    throwNow = false;
    for (let i = 4; i < 8; i++) limit.onSample(i * 50, 20, 1, "success");
    expect(inner.heard.map((one) => one.rtt)).toEqual([20]);
  });

  it("takes samples from a listener of its algorithm", () => {
    const limit = new WindowedLimit(new AimdLimit({ minLimit: 1, initialLimit: 20 }), {
      ...open,
      windowSize: 1,
      underfilled: "discard",
    });
    const changes = watchChanges(limit);
    limit.onChange((now) => {
      if (now < 23) limit.onSample(now * 1000, 10, 100, "success");
    });
    limit.onSample(0, 10, 100, "success");
    expect(changes).toEqual([21, 22, 23]);
  });
});

describe("what a window shows of its algorithm", () => {
  it("is its limit, maximum, changes and description", () => {
    const inner = new AnchoredGradientLimit({ maxLimit: 300 });
    const limit = new WindowedLimit(inner, { dropThreshold: 0.05 });
    const changes = watchChanges(limit);
    expect([limit.limit, limit.maxLimit]).toEqual([20, 300]);
    for (let i = 0; i <= 22; i++) limit.onSample(i * 101, 100, 20, "success");
    expect(changes).toEqual([30, 42]);
    expect(limit.limit).toBe(42);
    expect(limit.describe()).toEqual({
      ...inner.describe(),
      windowsUsed: 2,
      windowsAppLimited: 0,
      windowsUnderfilled: 0,
      windowsStale: 0,
    });
    expect(limit.describe()).toMatchObject({ algorithm: "AnchoredGradientLimit", baselineRttMs: 100 });
  });

  it("has no maximum if the algorithm has none", () => {
    expect(new WindowedLimit(new SettableLimit(5)).maxLimit).toBeUndefined();
  });
});
