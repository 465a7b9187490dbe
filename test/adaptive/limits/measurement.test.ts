import { describe, expect, it } from "vitest";
import { ExponentialAverage } from "../../../src/adaptive/exponential-average.js";
import { ceilSqrt, log10Root, sqrt4 } from "../../../src/adaptive/growth.js";
import { AverageWindow, PercentileWindow, type SampleWindow } from "../../../src/adaptive/sample-window.js";
import { expectClose, readVectors } from "./support.js";

interface Operation {
  readonly add?: number;
  readonly scale?: number;
  readonly reset?: boolean;
  readonly value: number;
}

interface Recorded {
  readonly functions: Readonly<Record<string, readonly (readonly [number, number])[]>>;
  readonly percentileWindows: readonly {
    readonly percentile: number;
    readonly capacity: number;
    readonly samples: readonly number[];
    readonly tracked: number;
    readonly count: number;
    readonly min: number | null;
  }[];
  readonly averageWindows: readonly { readonly samples: readonly number[]; readonly tracked: number }[];
  readonly cases: readonly {
    readonly name: string;
    readonly window: number;
    readonly warmup: number;
    readonly ops: readonly Operation[];
  }[];
}

const recorded = readVectors<Recorded>("measurement");
const FUNCTIONS: Readonly<Record<string, (limit: number) => number>> = {
  log10Root,
  sqrtRootMin4: sqrt4,
  ceilSqrt,
};

function filled<Window extends SampleWindow>(
  window: Window,
  rtts: readonly number[],
  didDrop = false,
): Window {
  for (const rtt of rtts) window.add(rtt, 1, didDrop);
  return window;
}

describe("how much a limit grows", () => {
  it.each(Object.entries(recorded.functions))("is recorded for %s", (name, rows) => {
    const grow = FUNCTIONS[name] as (limit: number) => number;
    for (const [limit, expected] of rows) expect(grow(limit), String(limit)).toBe(expected);
  });

  it("N-FN: is 1, 2, 4 by digits at 0, 100, 10000; and 4, 31, 50 by roots at 0, 999, 2500", () => {
    expect([0, 100, 10000].map(log10Root)).toEqual([1, 2, 4]);
    expect([0, 999, 2500].map(sqrt4)).toEqual([4, 31, 50]);
  });

  it("counts digits exactly at every power of ten, where a logarithm is off", () => {
    for (let digits = 3, power = 100; power < 1e15; power *= 10, digits++) {
      expect(log10Root(power - 1)).toBe(Math.max(1, digits - 2));
      expect(log10Root(power)).toBe(digits - 1);
    }
  });

  it("is a number even for a limit that is none", () => {
    expect([log10Root(Number.NaN), log10Root(-5), ceilSqrt(-4)]).toEqual([1, 1, 1]);
  });
});

describe("the exponential average", () => {
  it.each(recorded.cases)("$name", ({ window, warmup, ops }) => {
    const average = new ExponentialAverage(window, warmup);
    for (const { add, scale, reset, value } of ops) {
      if (add !== undefined) expectClose(average.add(add), value, `add ${add}`);
      if (scale !== undefined) average.replace(average.value * scale);
      if (reset === true) average.reset();
      expectClose(average.value, value, "value");
    }
  });

  it("N-EXP: is the plain mean of the first ten, then follows slowly", () => {
    const average = new ExponentialAverage(100, 10);
    const means = Array.from({ length: 10 }, (_, i) => average.add(10 + i));
    expect(means).toEqual([10, 10.5, 11, 11.5, 12, 12.5, 13, 13.5, 14, 14.5]);
    expect(average.add(100)).toBeCloseTo(16.2, 1);
  });

  it("L-EXP: five, one, three and one number to warm up", () => {
    const five = new ExponentialAverage(100, 5);
    expect([10, 20, 30, 40, 50].map((n) => five.add(n))).toEqual([10, 15, 20, 25, 30]);
    const one = new ExponentialAverage(9, 1);
    expect([100, 50, 70].map((n) => one.add(n))).toEqual([100, 90, 86]);
    const three = new ExponentialAverage(100, 3);
    expect([three.add(100), three.add(200)]).toEqual([100, 150]);
    three.reset();
    expect([three.value, three.add(50), three.add(150)]).toEqual([0, 50, 100]);
    const replaced = new ExponentialAverage(100, 1);
    replaced.add(200);
    replaced.replace(replaced.value * 0.5);
    expect(replaced.value).toBe(100);
    replaced.replace(replaced.value + 7);
    expect(replaced.value).toBe(107);
  });

  it("leaves out what would make it infinite, and goes on", () => {
    const average = new ExponentialAverage(9, 2);
    expect(average.add(10)).toBe(10);
    expect(average.add(Number.POSITIVE_INFINITY)).toBe(10);
    expect(average.add(Number.NaN)).toBe(10);
    expect(average.add(20)).toBe(15);
    expect(average.add(Number.POSITIVE_INFINITY)).toBe(15);
    expect(average.add(20)).toBe(16);
  });
});

describe("a window of samples", () => {
  it.each(recorded.averageWindows)("has the mean of $samples", ({ samples, tracked }) => {
    expectClose(filled(new AverageWindow(), samples).trackedRtt, tracked, "mean");
  });

  it.each(recorded.percentileWindows)(
    "has percentile $percentile of $samples.length with room for $capacity",
    (row) => {
      const window = filled(new PercentileWindow(row.percentile, row.capacity), row.samples);
      expect(window.trackedRtt).toBe(row.tracked);
      expect(window.count).toBe(row.count);
      expect(window.minRtt).toBe(row.min ?? Number.POSITIVE_INFINITY);
    },
  );

  it("has a mean of 0 while it is empty, and after a reset", () => {
    const window = new AverageWindow();
    expect(window.trackedRtt).toBe(0);
    filled(window, [5]).reset();
    expect(filled(window, [1, 3]).trackedRtt).toBe(2);
  });

  it("N-WIN-AVG: counts what was dropped like the rest", () => {
    const window = filled(new AverageWindow(), [5000, 500, 10]);
    expect(window.trackedRtt).toBeCloseTo(1836.67, 2);
    filled(window, [5000], true);
    expect(window.trackedRtt).toBe(2627.5);
    expect(window.drops).toBe(1);
  });

  it("N-WIN-PCT: has the median, drops or not, and in any order", () => {
    expect(filled(new PercentileWindow(0.5, 10), [5000, 500, 10]).trackedRtt).toBe(500);
    expect(filled(new PercentileWindow(0.5, 10), [10, 5000, 500]).trackedRtt).toBe(500);
    const window = filled(new PercentileWindow(0.5, 10), [10]);
    expect(filled(window, [5000, 5000], true).trackedRtt).toBe(5000);
    expect(filled(new PercentileWindow(0.999, 10), [5000, 500, 10]).trackedRtt).toBe(5000);
  });

  it("L-WIN-PCT: keeps the first, counts all, and forgets everything at a reset", () => {
    expect(filled(new PercentileWindow(0.5, 16), [5, 1, 3, 4, 2]).trackedRtt).toBe(3);
    const many = [...Array.from({ length: 99 }, () => 1), 999];
    expect(filled(new PercentileWindow(0.999, 256), many).trackedRtt).toBe(999);
    const window = filled(new PercentileWindow(0.5, 4), [10, 20, 30, 40, 50, 60], true);
    expect([window.count, window.drops, window.trackedRtt]).toEqual([6, 6, 20]);
    window.reset();
    expect([window.count, window.drops, window.maxInFlight, window.trackedRtt]).toEqual([0, 0, 0, 0]);
    expect(window.minRtt).toBe(Number.POSITIVE_INFINITY);
  });

  it("keeps the highest number in flight, whatever is handed in between", () => {
    const window = new AverageWindow();
    window.add(1, 5, false);
    window.add(1, Number.NaN, false);
    window.add(1, 3, false);
    expect(window.maxInFlight).toBe(5);
  });
});
