import { describe, expect, it } from "vitest";
import { exp } from "../../../adapters/simulator/logarithm.js";
import { createRandom, type RandomSource } from "../../../adapters/simulator/random.js";
import { fairnessOf, SummaryRecorder } from "../../../adapters/simulator/summary.js";
import { relativeError, vectors } from "./vectors.js";

interface StatisticsVectors {
  readonly percentile: readonly {
    readonly values: readonly number[] | "range 1..100";
    readonly p50: number | null;
    readonly p90: number | null;
    readonly p99: number | null;
    readonly p100: number | null;
    readonly mean: number | null;
  }[];
  readonly jain: readonly { readonly x: readonly number[]; readonly index: number | null }[];
}

const expected = vectors<StatisticsVectors>("stats");

function recorded(values: Iterable<number>): SummaryRecorder {
  const recorder = new SummaryRecorder();
  for (const value of values) recorder.record(value);
  return recorder;
}

const PERCENTILES = [
  ["p50", 500],
  ["p90", 900],
  ["p95", 950],
  ["p99", 990],
  ["p999", 999],
] as const;

/** The smallest value that at least so many thousandths of all values do not exceed, by its definition. */
function byDefinition(sorted: Float64Array, thousandths: number): number {
  const needed = Math.ceil((sorted.length * thousandths) / 1000);
  return sorted[needed - 1] as number;
}

describe("a summary of few values", () => {
  it.each(expected.percentile)("of $values", ({ values, p50, p90, p99, p100, mean }) => {
    const all = values === "range 1..100" ? Array.from({ length: 100 }, (_, i) => i + 1) : values;
    const recorder = recorded(all);
    expect(recorder.summarize()).toMatchObject({
      count: all.length,
      p50,
      p90,
      p99,
      max: p100,
      mean,
      exact: true,
    });
    expect(recorder.percentile(1000)).toBe(p100);
  });

  it("has nothing to say about no values", () => {
    expect(new SummaryRecorder().summarize()).toEqual({
      count: 0,
      mean: null,
      min: null,
      max: null,
      p50: null,
      p90: null,
      p95: null,
      p99: null,
      p999: null,
      exact: true,
    });
  });

  it("always has its members in the same order", () => {
    const names = ["count", "mean", "min", "max", "p50", "p90", "p95", "p99", "p999", "exact"];
    expect(Object.keys(recorded([1]).summarize())).toEqual(names);
  });

  it("takes the value at the rank, not the one above, whatever the arithmetic does", () => {
    for (let count = 1; count <= 1200; count++) {
      const recorder = recorded(Array.from({ length: count }, (_, i) => i + 1));
      expect(recorder.percentile(999)).toBe(count - Math.floor(count / 1000));
      expect(recorder.percentile(950)).toBe(count - Math.floor(count / 20));
    }
    expect(0.07 * 100).toBeGreaterThan(7);
    expect(recorded(Array.from({ length: 100 }, (_, i) => i + 1)).percentile(70)).toBe(7);
  });

  it("can be asked in between, and goes on", () => {
    const recorder = recorded([3, 1]);
    expect(recorder.percentile(500)).toBe(1);
    recorder.record(2);
    expect(recorder.summarize()).toMatchObject({ count: 3, p50: 2, min: 1, max: 3, mean: 2 });
    expect(recorder.count).toBe(3);
  });

  it("knows no negative zero", () => {
    const { min, max, p50 } = recorded([-0]).summarize();
    expect([min, max, p50]).toEqual([0, 0, 0]);
  });

  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, -Number.MIN_VALUE])(
    "refuses %d and stays as it was",
    (value) => {
      const recorder = recorded([1, 2]);
      const before = recorder.summarize();
      expect(() => recorder.record(value)).toThrow(RangeError);
      expect(recorder.summarize()).toEqual(before);
    },
  );
});

describe("a summary of many values", () => {
  const shapes: [string, (random: RandomSource) => number][] = [
    ["uniform", (random) => random.uniform() * 100],
    ["exponential", (random) => random.exponential(50)],
    ["of all sizes", (random) => exp(random.uniform() * 1400 - 700)],
    ["nearly all the same", (random) => (random.uniform() < 0.001 ? 1e6 : 200)],
    ["often 0", (random) => (random.uniform() < 0.6 ? 0 : random.uniform())],
    ["whole", (random) => Math.floor(random.exponential(20))],
    ["next to powers of two", (random) => 2 ** (random.uint32() & 15) - 2 ** -40],
  ];

  it.each(shapes)("is off by 1/128 at most: values that are %s", (name, draw) => {
    const random = createRandom(name);
    const values = Float64Array.from({ length: 200_000 }, () => draw(random));
    const summary = recorded(values).summarize();
    values.sort();
    expect(summary.exact).toBe(false);
    for (const [percentile, thousandths] of PERCENTILES) {
      const exact = byDefinition(values, thousandths);
      expect(relativeError(summary[percentile] as number, exact)).toBeLessThanOrEqual(1 / 128);
    }
    expect(summary.count).toBe(200_000);
    expect(summary.min).toBe(values[0]);
    expect(summary.max).toBe(values.at(-1));
  });

  it("is off by 1/128 for every single value, also the tiny and the huge ones", () => {
    let worst = 0;
    for (let x = -1022 * Math.LN2 + 1; x < 709; x += 13) {
      const value = exp(x);
      // The 99.9th percentile is this value, and neither the smallest nor the largest holds it in place.
      const recorder = recorded(new Float64Array(65_535).fill(value));
      recorder.record(0);
      recorder.record(Number.MAX_VALUE);
      worst = Math.max(worst, relativeError(recorder.percentile(500) as number, value));
    }
    expect(worst).toBeLessThanOrEqual(1 / 128);
    expect(worst).toBeGreaterThan(1 / 256);
  });

  it("is exact for 65 536 values and counts from then on", () => {
    const random = createRandom("edge");
    const values = Float64Array.from({ length: 65_536 }, () => random.exponential(10));
    const recorder = recorded(values);
    const sorted = values.slice().sort();
    const before = recorder.summarize();
    expect(before.exact).toBe(true);
    expect(before.p99).toBe(byDefinition(sorted, 990));
    recorder.record(before.p50 as number);
    const after = recorder.summarize();
    expect(after).toMatchObject({ exact: false, count: 65_537, min: before.min, max: before.max });
    expect(after.p99).not.toBe(before.p99);
    expect(relativeError(after.p99 as number, before.p99 as number)).toBeLessThanOrEqual(1 / 128);
  });

  it("counts the smallest numbers of all as 0, and stays within the smallest and the largest", () => {
    const tiny = recorded(new Float64Array(70_000).fill(Number.MIN_VALUE)).summarize();
    expect(tiny).toMatchObject({ p50: Number.MIN_VALUE, p999: Number.MIN_VALUE });
    const same = recorded(new Float64Array(70_000).fill(200.9)).summarize();
    expect(same).toMatchObject({ min: 200.9, p50: 200.9, p999: 200.9, max: 200.9 });
  });

  it("is the same whatever the order", () => {
    const random = createRandom("order");
    const values = Array.from({ length: 100_000 }, () => Math.floor(random.exponential(1000)));
    expect(recorded([...values].reverse()).summarize()).toEqual(recorded(values).summarize());
  });

  it("forgets all of them", () => {
    const recorder = recorded(new Float64Array(70_000).fill(5));
    recorder.clear();
    expect(recorder.summarize()).toEqual(new SummaryRecorder().summarize());
    recorder.record(7);
    expect(recorder.summarize()).toEqual(recorded([7]).summarize());
    const again = recorded(new Float64Array(70_000));
    again.clear();
    again.record(1);
    for (let i = 0; i < 70_000; i++) again.record(5);
    expect(again.percentile(500)).toBe(5);
  });

  it("takes no more memory for ten times as many", () => {
    const sizes = [100_000, 1_000_000].map((count) => {
      const made: number[] = [];
      const original = Float64Array;
      class Counted extends original {
        constructor(length: number) {
          super(length);
          made.push(length);
        }
      }
      globalThis.Float64Array = Counted as unknown as Float64ArrayConstructor;
      try {
        const random = createRandom("memory");
        const recorder = new SummaryRecorder();
        for (let i = 0; i < count; i++) recorder.record(1 + (i % 1000) + random.uniform());
      } finally {
        globalThis.Float64Array = original;
      }
      return made.reduce((sum, length) => sum + length, 0);
    });
    expect(sizes[0]).toBeGreaterThan(65_536);
    expect(sizes[1]).toBe(sizes[0]);
  });
});

describe("the fairness", () => {
  it.each(expected.jain)("of $x is $index", ({ x, index }) => {
    expect(fairnessOf(x)).toBe(index);
  });

  it("falls between 1/n and 1, and does not depend on the unit", () => {
    const random = createRandom("fairness");
    for (let i = 0; i < 500; i++) {
      const shares = Array.from({ length: 1 + (i % 20) }, () => random.exponential(1));
      const fairness = fairnessOf(shares) as number;
      expect(fairness).toBeGreaterThanOrEqual(1 / shares.length - 1e-12);
      expect(fairness).toBeLessThanOrEqual(1 + 1e-12);
      expect(fairnessOf(shares.map((share) => share * 1024))).toBe(fairness);
    }
  });
});

it("checks all rows", () => {
  expect([expected.percentile.length, expected.jain.length]).toEqual([8, 8]);
});
