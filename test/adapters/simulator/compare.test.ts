import { ConcurrencyLimiter } from "headgate";
import { compare, exponential, poissonArrivals, simulate, sweep } from "headgate/simulator";
import { describe, expect, it } from "vitest";

const BASE = {
  arrivals: poissonArrivals({ ratePerSecond: 500 }),
  service: { servers: 50, time: exponential(200) },
  clients: { timeoutMs: 2000 },
  durationMs: 20_000,
};

const limitOf = (permitLimit: number) => ({
  ...BASE,
  limiter: ({ clock }: { clock: ConstructorParameters<typeof ConcurrencyLimiter>[0]["clock"] }) =>
    new ConcurrencyLimiter({ permitLimit, clock }),
});

describe("compare", () => {
  it("runs each limiter with each seed, as if each had been run alone", async () => {
    const { limiter } = limitOf(50);
    const comparison = await compare(BASE, { none: undefined, fifty: limiter }, { seeds: [1, "b"] });
    expect(comparison).toMatchObject({ format: "headgate-comparison/1", seeds: ["1", "b"] });
    expect(Object.keys(comparison.limiters)).toEqual(["none", "fifty"]);
    const { none, fifty } = comparison.limiters;
    expect(fifty?.results).toEqual([
      await simulate({ ...BASE, limiter }),
      await simulate({ ...BASE, limiter, seed: "b" }),
    ]);
    const goodputs = fifty?.results.map((result) => result.perSecond.goodput) ?? [];
    expect(fifty?.goodput).toEqual({
      mean: ((goodputs[0] ?? 0) + (goodputs[1] ?? 0)) / 2,
      min: Math.min(...goodputs),
      max: Math.max(...goodputs),
    });
    expect(none?.goodput.max).toBeLessThan(100);
    expect(fifty?.goodput.min).toBeGreaterThan(220);
    expect(none?.rejectedOfAttempts).toEqual({ mean: 0, min: 0, max: 0 });
    expect(none?.wastedOfCompleted.mean).toBeGreaterThan(0.5);
  });

  it("shows every limiter the same customers", async () => {
    const { limiters } = await compare(BASE, { a: limitOf(10).limiter, b: limitOf(90).limiter });
    expect(limiters["a"]?.results[0]?.series.offered).toEqual(
      limiters["b"]?.results[0]?.series.offered.slice(0, limiters["a"]?.results[0]?.series.offered.length),
    );
    expect(limiters["a"]?.results[0]?.counts.arrivals).toBe(limiters["b"]?.results[0]?.counts.arrivals);
  });

  it("takes any name, and uses the seed of the model when it is given none", async () => {
    const { limiters, seeds } = await compare(
      { ...BASE, durationMs: 100, seed: 7 },
      { ["constructor"]: undefined },
    );
    expect(Object.keys(limiters)).toEqual(["constructor"]);
    expect(seeds).toEqual(["7"]);
    expect(limiters["constructor"]?.results[0]?.seed).toBe("7");
    const unseeded = await compare({ ...BASE, durationMs: 100 }, { none: undefined });
    expect(unseeded.seeds).toEqual(["1"]);
  });

  it("has null for what no run has", async () => {
    const { limiters } = await compare({ ...BASE, durationMs: 0 }, { none: undefined });
    expect(limiters["none"]?.p99).toEqual({ mean: null, min: null, max: null });
  });

  it("reports the progress of all runs together", async () => {
    const shares: number[] = [];
    const onProgress = (share: number) => shares.push(share);
    await compare({ ...BASE, onProgress }, { a: undefined, b: undefined }, { seeds: [1, 2] });
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    expect(shares[0]).toBeLessThan(0.25);
    expect(shares.at(-1)).toBe(1);
  });

  it.each([
    [[BASE, undefined], TypeError, "limiters must be"],
    [[BASE, []], TypeError, "limiters must be"],
    [[BASE, { a: 5 }], TypeError, "limiters.a must be"],
    [[BASE, {}, { seed: [1] }], TypeError, "options.seed is not an option"],
    [[BASE, {}, { seeds: 1 }], TypeError, "options.seeds must be"],
    [[BASE, {}, { seeds: [] }], RangeError, "options.seeds must hold"],
    [[BASE, {}, { seeds: [1, {}] }], TypeError, "options.seeds[1] must be"],
    [[BASE, {}, { seeds: [Number.NaN] }], RangeError, "options.seeds[0] must be"],
    [[{ ...BASE, durationMs: -1 }, { a: undefined }], RangeError, "options.durationMs must be"],
  ] as const)("refuses bad arguments: case %#", async (args, type, message) => {
    const error = await compare(...(args as unknown as Parameters<typeof compare>)).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(type);
    expect((error as Error).message.startsWith(message)).toBe(true);
  });
});

describe("sweep", () => {
  it("runs the model for each value, and finds the best", async () => {
    const values = [10, 50, 90];
    const points = await sweep(
      values,
      (permitLimit) => ({
        ...limitOf(permitLimit),
        service: { ...BASE.service, discipline: "ps", contention: 1.67 },
      }),
      { seeds: [1, 2] },
    );
    expect(points.map((point) => point.value)).toEqual(values);
    expect(points.map((point) => point.results.length)).toEqual([2, 2, 2]);
    const [low = 0, best = 0, high = 0] = points.map((point) => point.goodput.mean ?? 0);
    expect(best).toBeGreaterThan(low);
    expect(best).toBeGreaterThan(high);
  });

  it("leaves each model its own seed", async () => {
    const points = await sweep([3, 4], (seed) => ({ ...BASE, durationMs: 100, seed }));
    expect(points.map((point) => point.results[0]?.seed)).toEqual(["3", "4"]);
  });

  it("refuses bad arguments", async () => {
    await expect(sweep([1, 2], (value) => (value === 1 ? BASE : undefined) as never)).rejects.toThrow(
      new TypeError("The result of make(values[1]) must be an object of options; got undefined."),
    );
    await expect(sweep(5 as never, () => BASE)).rejects.toThrow(TypeError);
    await expect(sweep([1], 5 as never)).rejects.toThrow(TypeError);
    await expect(sweep([1], () => ({ ...BASE, durationMs: -1 }))).rejects.toThrow(RangeError);
  });
});
