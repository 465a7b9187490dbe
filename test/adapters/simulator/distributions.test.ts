import { describe, expect, it } from "vitest";
import {
  bimodal,
  checkDistribution,
  type Distribution,
  deterministic,
  empirical,
  exponential,
  lognormal,
  pareto,
} from "../../../adapters/simulator/distributions.js";
import { createRandom } from "../../../adapters/simulator/random.js";
import { relativeError, vectors } from "./vectors.js";

function samples(distribution: Distribution, count: number, seed = "samples"): Float64Array {
  const random = createRandom(seed, "service");
  return Float64Array.from({ length: count }, () => distribution.sample(random));
}

function momentsOf(values: Float64Array): { readonly mean: number; readonly variance: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, variance: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length };
}

describe("samples", () => {
  it.each([
    // How far mean and variance of 400 000 samples may be off: about four standard errors.
    [exponential(10), 0.007, 0.02],
    [lognormal({ meanMs: 10, sigma: 0.5 }), 0.004, 0.03],
    [lognormal({ meanMs: 10, sigma: 1 }), 0.01, 0.25],
    [pareto({ meanMs: 10, alpha: 5 }), 0.002, 0.1],
    [bimodal({ lowShare: 0.9, lowMs: 5, highMs: 55 }), 0.01, 0.02],
    [empirical([1, 2, 3, 4, 20]), 0.008, 0.02],
  ])("have the mean and the variance that are stated", (distribution, ofMean, ofVariance) => {
    const { mean, variance } = momentsOf(samples(distribution, 400_000));
    expect(relativeError(mean, distribution.mean)).toBeLessThan(ofMean);
    expect(relativeError(variance, distribution.variance as number)).toBeLessThan(ofVariance);
  });

  it.each([
    deterministic(0),
    exponential(1e-12),
    exponential(Number.MAX_SAFE_INTEGER),
    lognormal({ meanMs: 1e15, sigma: 5 }),
    lognormal({ meanMs: 1e-12, sigma: 0 }),
    pareto({ meanMs: 1e15, alpha: 1 + 2 ** -52 }),
    pareto({ meanMs: 1, alpha: 1000 }),
    bimodal({ lowShare: 0.5, lowMs: 0, highMs: Number.MAX_SAFE_INTEGER }),
    empirical([0]),
  ])("are finite and not negative at the edges: $description", (distribution) => {
    const wrong = samples(distribution, 20_000).filter((ms) => !(ms >= 0 && ms < Number.POSITIVE_INFINITY));
    expect([...wrong]).toEqual([]);
  });

  it("take one uniform number each, but a fixed time takes none", () => {
    for (const distribution of [
      exponential(1),
      lognormal({ meanMs: 1, sigma: 1 }),
      pareto({ meanMs: 1, alpha: 2 }),
      bimodal({ lowShare: 1, lowMs: 1, highMs: 1 }),
      empirical([1, 2]),
    ]) {
      const random = createRandom(5);
      distribution.sample(random);
      const other = createRandom(5);
      other.uniform();
      expect(random.uint32()).toBe(other.uint32());
    }
    const random = createRandom(5);
    deterministic(1).sample(random);
    expect(random.uint32()).toBe(createRandom(5).uint32());
  });
});

describe("second moments", () => {
  interface Row {
    readonly service: string;
    readonly meanMs?: number;
    readonly secondMoment: number;
    readonly sigma?: number;
    readonly alpha?: number;
    readonly p?: number;
    readonly lowMs?: number;
    readonly highMs?: number;
  }
  const rows = vectors<{ readonly mg1: readonly Row[] }>("queueing").mg1;

  function distributionOf(row: Row): Distribution {
    const { service, meanMs = 0, sigma = 0, alpha = 0, p = 0, lowMs = 0, highMs = 0 } = row;
    switch (service) {
      case "deterministic":
        return deterministic(meanMs);
      case "exponential":
        return exponential(meanMs);
      case "lognormal":
        return lognormal({ meanMs, sigma });
      case "pareto":
        return pareto({ meanMs, alpha });
      default:
        return bimodal({ lowShare: p, lowMs, highMs });
    }
  }

  it.each(rows)("are those of the formulas: $service, $secondMoment", (row) => {
    const { mean, variance } = distributionOf(row);
    expect(relativeError(mean, row.meanMs ?? 10)).toBeLessThan(1e-9);
    expect(relativeError(mean * mean + (variance as number), row.secondMoment)).toBeLessThan(1e-9);
  });
});

describe("single distributions", () => {
  it("a fixed time is always that time", () => {
    expect(new Set(samples(deterministic(8), 100))).toEqual(new Set([8]));
    expect(deterministic(8)).toMatchObject({ mean: 8, variance: 0, description: "always 8 ms" });
  });

  it("a Pareto distribution has a shortest time, and no variance at an alpha of 2", () => {
    const times = samples(pareto({ meanMs: 10, alpha: 2.5 }), 100_000).sort();
    expect(times[0]).toBeGreaterThanOrEqual(6);
    expect(times[0]).toBeLessThan(6.001);
    // One in a hundred is longer than 6 × 100^(1/2.5).
    expect(relativeError(times[99_000] as number, 37.857)).toBeLessThan(0.03);
    expect(pareto({ meanMs: 10, alpha: 2 }).variance).toBe(Number.POSITIVE_INFINITY);
    expect(pareto({ meanMs: 10, alpha: 1.5 }).variance).toBe(Number.POSITIVE_INFINITY);
    expect(pareto({ meanMs: 10, alpha: 2.5 }).variance).toBeCloseTo(80, 10);
  });

  it("a lognormal distribution without sigma is a fixed time", () => {
    for (const time of samples(lognormal({ meanMs: 10, sigma: 0 }), 100)) expect(time).toBeCloseTo(10, 12);
  });

  it("a lognormal distribution with sigma 1 has its 99th percentile at six times the mean", () => {
    const times = samples(lognormal({ meanMs: 10, sigma: 1 }), 100_000).sort();
    expect(relativeError(times[99_000] as number, 62.1)).toBeLessThan(0.03);
  });

  it("two times come as often as they should, also always and never", () => {
    const times = samples(bimodal({ lowShare: 0.9, lowMs: 5, highMs: 55 }), 100_000);
    expect(Math.abs(times.filter((time) => time === 5).length - 90_000)).toBeLessThan(400);
    expect(new Set(times)).toEqual(new Set([5, 55]));
    expect(new Set(samples(bimodal({ lowShare: 1, lowMs: 5, highMs: 55 }), 1000))).toEqual(new Set([5]));
    expect(new Set(samples(bimodal({ lowShare: 0, lowMs: 5, highMs: 55 }), 1000))).toEqual(new Set([55]));
  });

  it("measured times are copied, and each is as likely", () => {
    const measured = [3, 1, 2];
    const distribution = empirical(measured);
    measured[0] = 1000;
    const times = samples(distribution, 30_000);
    for (const time of [1, 2, 3]) {
      expect(Math.abs(times.filter((one) => one === time).length - 10_000)).toBeLessThan(350);
    }
    expect(distribution).toMatchObject({ mean: 2, variance: 2 / 3 });
  });
});

describe("what cannot be", () => {
  it.each([
    [
      () => exponential(-1),
      "meanMs must be a number of milliseconds above 0, at most 9007199254740991; got -1.",
    ],
    [() => exponential(0), "meanMs must be"],
    [() => exponential(Number.NaN), "meanMs must be"],
    [() => exponential(Number.POSITIVE_INFINITY), "meanMs must be"],
    [() => deterministic(-1), "ms must be a number of milliseconds from 0 to 9007199254740991; got -1."],
    [() => deterministic(Number.NaN), "ms must be"],
    [() => lognormal({ meanMs: 0, sigma: 1 }), "options.meanMs must be"],
    [() => lognormal({ meanMs: 1, sigma: 5.1 }), "options.sigma must be a number from 0 to 5; got 5.1."],
    [() => lognormal({ meanMs: 1, sigma: -1 }), "options.sigma must be"],
    [() => lognormal({ meanMs: 1, sigma: Number.NaN }), "options.sigma must be"],
    [() => pareto({ meanMs: 1, alpha: 1 }), "options.alpha must be a number above 1, at most 1000; got 1."],
    [() => pareto({ meanMs: 1, alpha: Number.POSITIVE_INFINITY }), "options.alpha must be"],
    [() => pareto({ meanMs: -1, alpha: 2 }), "options.meanMs must be"],
    [() => bimodal({ lowShare: 1.1, lowMs: 1, highMs: 2 }), "options.lowShare must be a number from 0 to 1"],
    [() => bimodal({ lowShare: 0.5, lowMs: -1, highMs: 2 }), "options.lowMs must be"],
    [() => bimodal({ lowShare: 0.5, lowMs: 1, highMs: 1e300 }), "options.highMs must be"],
    [
      () => bimodal({ lowShare: 0.5, lowMs: 3, highMs: 2 }),
      "options.highMs must be at least options.lowMs, 3; got 2.",
    ],
    [() => empirical([]), "samplesMs must have at least one number; got none."],
    [() => empirical([1, -2]), "samplesMs[1] must be"],
    [() => empirical([1, Number.NaN]), "samplesMs[1] must be"],
  ])("is a RangeError that says what is wrong: %#", (make, message) => {
    expect(make).toThrow(RangeError);
    expect(make).toThrow(message);
  });

  it.each([
    [
      () => exponential("10" as never),
      'meanMs must be a number of milliseconds above 0, at most 9007199254740991; got "10".',
    ],
    [() => deterministic(undefined as never), "ms must be"],
    [() => lognormal(10 as never), "options must be an object; got 10."],
    [
      () => pareto({ meanMs: 1, alpa: 2 } as never),
      "options.alpa is not an option; did you mean options.alpha?",
    ],
    [() => pareto({ meanMs: 1 } as never), "options.alpha must be"],
    [
      () => empirical("12" as never),
      'samplesMs must be something to iterate over, such as an array of numbers; got "12".',
    ],
    [() => empirical(["12"] as never), "samplesMs[0] must be a number"],
    [() => empirical(new Array(3) as never), "samplesMs[0] must be"],
    [
      () => checkDistribution("service.time", { mean: 1 }),
      "service.time must be a distribution, such as exponential(10)",
    ],
    [() => checkDistribution("service.time", null), "service.time must be a distribution"],
    [
      () => checkDistribution("service.time", { mean: "1", description: "", sample: () => 1 }),
      "service.time.mean must be",
    ],
    [
      () => checkDistribution("service.time", { mean: 1, sample: () => 1 }),
      "service.time.description must be a string",
    ],
  ])("is a TypeError when it has the wrong type: %#", (make, message) => {
    expect(make).toThrow(TypeError);
    expect(make).toThrow(message);
  });

  it("is not confused with a distribution of one's own", () => {
    const own: Distribution = { mean: 1, description: "mine", sample: () => 1 };
    expect(() => checkDistribution("service.time", own)).not.toThrow();
  });
});

describe("measured times", () => {
  it("may come in anything that can be iterated over", () => {
    const same = [new Float64Array([1, 2, 2]), new Uint16Array([1, 2, 2]), [1, 2, 2].values()].map(empirical);
    for (const { mean, description } of same) {
      expect({ mean, description }).toEqual({
        mean: 5 / 3,
        description: `one of 3 measured times, mean ${5 / 3} ms`,
      });
    }
    expect(empirical(new Set([4, 8])).mean).toBe(6);
  });
});
