import { describe, expect, it } from "vitest";
import { AimdLimit } from "../../../src/adaptive/aimd-limit.js";
import { AnchoredGradientLimit } from "../../../src/adaptive/anchored-gradient-limit.js";
import { FixedLimit } from "../../../src/adaptive/fixed-limit.js";
import { GradientLimit } from "../../../src/adaptive/gradient-limit.js";
import { Gradient2Limit } from "../../../src/adaptive/gradient2-limit.js";
import { SettableLimit } from "../../../src/adaptive/settable-limit.js";
import { VegasLimit } from "../../../src/adaptive/vegas-limit.js";
import { WindowedAimdLimit } from "../../../src/adaptive/windowed-aimd-limit.js";
import { WindowedLimit } from "../../../src/adaptive/windowed-limit.js";
import type { DescribedLimit } from "./support.js";

type Given = Readonly<Record<string, unknown>>;
type Create = (options: Given) => DescribedLimit;

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

const CREATE: Readonly<Record<string, Create>> = {
  SettableLimit: (options) => new SettableLimit(5, options),
  AimdLimit: (options) => new AimdLimit(options),
  WindowedAimdLimit: (options) => new WindowedAimdLimit(options),
  VegasLimit: (options) => new VegasLimit(options),
  GradientLimit: (options) => new GradientLimit(options),
  Gradient2Limit: (options) => new Gradient2Limit(options),
  AnchoredGradientLimit: (options) => new AnchoredGradientLimit(options),
  WindowedLimit: (options) => new WindowedLimit(new FixedLimit(5), options),
};

const INTEGERS = [0, -1, 1.5, nan, infinity, 2 ** 31];
const RATIOS = [0, -0.1, 1, 1.5, nan, infinity];
const DURATIONS = [0, -1, nan, infinity];
const TOLERANCES = [0.9, 0, -1, nan, infinity];
const SMOOTHINGS = [0, -0.1, 1.1, nan, infinity];
const HALVES = [0.49, 0, 1, nan, infinity];

/** For each option the numbers that are out of range; a string is of the wrong type for all of them. */
const OUT_OF_RANGE: Readonly<Record<string, Readonly<Record<string, readonly unknown[]>>>> = {
  AimdLimit: {
    initialLimit: INTEGERS,
    minLimit: INTEGERS,
    maxLimit: INTEGERS,
    backoffRatio: HALVES,
    timeoutMs: DURATIONS,
  },
  WindowedAimdLimit: {
    initialLimit: [...INTEGERS, 101],
    minLimit: INTEGERS,
    maxLimit: INTEGERS,
    samplingWindowMs: DURATIONS,
    decreaseFactor: RATIOS,
    latencyTolerance: TOLERANCES,
  },
  VegasLimit: {
    initialLimit: INTEGERS,
    maxLimit: INTEGERS,
    smoothing: SMOOTHINGS,
    probeMultiplier: TOLERANCES,
    alpha: [-1, nan, infinity],
    beta: [-1, nan, infinity],
    threshold: [-1, nan, infinity],
  },
  GradientLimit: {
    initialLimit: [...INTEGERS, 1001],
    minLimit: INTEGERS,
    maxLimit: [...INTEGERS, 3],
    smoothing: SMOOTHINGS,
    queueSize: [0, -1, nan, infinity, 1001],
    rttTolerance: TOLERANCES,
    probeInterval: INTEGERS,
    backoffRatio: [0.49, 1.01, nan],
  },
  Gradient2Limit: {
    initialLimit: INTEGERS,
    minLimit: INTEGERS,
    maxLimit: INTEGERS,
    smoothing: SMOOTHINGS,
    longWindow: INTEGERS,
    rttTolerance: TOLERANCES,
    queueSize: [0, -1, nan, infinity, 201],
  },
  AnchoredGradientLimit: {
    initialLimit: [...INTEGERS, 3, 1001],
    minLimit: INTEGERS,
    maxLimit: INTEGERS,
    rttTolerance: TOLERANCES,
    longWindow: [...INTEGERS, 9],
    backoffRatio: HALVES,
    decreaseSmoothing: SMOOTHINGS,
    probeInterval: INTEGERS,
    quickProbe: INTEGERS,
    probeFraction: RATIOS,
    rebaseAfter: INTEGERS,
    maxHealthyRttMs: DURATIONS,
  },
  WindowedLimit: {
    minWindowMs: DURATIONS,
    maxWindowMs: DURATIONS,
    windowSize: INTEGERS,
    minRttMs: [-0.1, nan, infinity],
    maxExtendMs: [...DURATIONS, 999],
    minExtendSamples: [...INTEGERS, 11],
    dropThreshold: [-0.1, 1, nan, infinity],
  },
};

const ROWS = Object.entries(OUT_OF_RANGE).flatMap(([name, options]) =>
  Object.entries(options).map(([option, values]) => ({ name, option, values })),
);

describe("options", () => {
  it.each(ROWS)("$name refuses $option out of range, and of another type", ({ name, option, values }) => {
    const create = CREATE[name] as Create;
    for (const value of values) {
      expect(() => create({ [option]: value }), String(value)).toThrow(RangeError);
      expect(() => create({ [option]: value })).toThrow(
        new RegExp(`^options\\.${option} must be .*${value}`),
      );
    }
    for (const value of ["1", null, {}, []]) {
      expect(() => create({ [option]: value }), String(value)).toThrow(TypeError);
      expect(() => create({ [option]: value })).toThrow(new RegExp(`^options\\.${option}`));
    }
  });

  it.each(Object.entries(CREATE))(
    "%s refuses names that it does not know, and what is no object",
    (_, create) => {
      expect(() => create({ maxConcurency: 5 })).toThrow(TypeError);
      expect(() => create(null as never)).toThrow(TypeError);
      expect(() => create(5 as never)).toThrow(TypeError);
    },
  );

  it.each(Object.entries(CREATE))("%s takes undefined for the default", (name, create) => {
    const names = Object.keys(OUT_OF_RANGE[name] ?? {});
    const chance = name === "GradientLimit" ? { random: () => 0.5 } : {};
    const explicit = create({ ...Object.fromEntries(names.map((option) => [option, undefined])), ...chance });
    expect(explicit.describe()).toEqual(create(chance).describe());
  });

  it.each([
    ["VegasLimit", ["alpha", "beta", "threshold"], [true]],
    ["VegasLimit", ["increase", "decrease", "random"], [1, "x", {}]],
    ["GradientLimit", ["queueSize"], ["root", true]],
    ["GradientLimit", ["random"], [0.5]],
    ["GradientLimit", ["probeInterval"], [true]],
    ["Gradient2Limit", ["queueSize"], ["root", true]],
    ["AnchoredGradientLimit", ["random"], [0.5]],
    ["AnchoredGradientLimit", ["probeInterval"], [true]],
    ["WindowedLimit", ["window"], ["mean", 5, null, []]],
    ["WindowedLimit", ["underfilled"], ["keep", true]],
  ] as const)("%s refuses for %s: %s", (name, options, values) => {
    for (const option of options) {
      for (const value of values) {
        expect(() => (CREATE[name] as Create)({ [option]: value })).toThrow(TypeError);
      }
    }
  });

  it("onDiagnostic must be a function", () => {
    for (const [name, create] of Object.entries(CREATE)) {
      if (name !== "WindowedLimit") expect(() => create({ onDiagnostic: 5 }), name).toThrow(TypeError);
    }
  });

  it("bounds must not contradict one another", () => {
    for (const create of [
      AimdLimit,
      WindowedAimdLimit,
      GradientLimit,
      Gradient2Limit,
      AnchoredGradientLimit,
    ]) {
      expect(() => new create({ minLimit: 11, maxLimit: 10 })).toThrow(
        new RangeError("options.minLimit must be an integer from 1 to 10 (maxLimit); got 11."),
      );
      expect(() => new create({ minLimit: 10, initialLimit: 9 })).toThrow(
        /^options.initialLimit must be .*; got 9.$/,
      );
      expect(() => new create({ maxLimit: 10, initialLimit: 11 })).toThrow(
        /^options.initialLimit must be .*; got 11.$/,
      );
    }
  });

  it("defaults yield to the bounds that are given", () => {
    for (const create of [
      AimdLimit,
      WindowedAimdLimit,
      VegasLimit,
      GradientLimit,
      Gradient2Limit,
      AnchoredGradientLimit,
    ]) {
      const limit = new create({ maxLimit: 5 });
      expect([limit.limit, limit.maxLimit]).toEqual([5, 5]);
    }
    for (const create of [
      AimdLimit,
      WindowedAimdLimit,
      GradientLimit,
      Gradient2Limit,
      AnchoredGradientLimit,
    ]) {
      expect(new create({ minLimit: 60, maxLimit: 70 }).limit).toBe(60);
    }
  });

  it("an initial limit outside of the default bounds is brought within them by the first sample, where that is so", () => {
    const aimd = new AimdLimit({ initialLimit: 300 });
    const gradient2 = new Gradient2Limit({ initialLimit: 5 });
    for (const limit of [aimd, gradient2]) limit.onSample(0, 1, 3, "success");
    expect([aimd.limit, gradient2.limit]).toEqual([200, 20]);
  });

  it("are copied", () => {
    const options = { initialLimit: 20, minLimit: 1, maxLimit: 20, timeoutMs: 100 };
    const limit = new AimdLimit(options);
    Object.assign(options, { maxLimit: 500, timeoutMs: 1 });
    limit.onSample(0, 50, 20, "success");
    expect([limit.limit, limit.maxLimit]).toEqual([20, 20]);
  });

  it("a window must have room for its samples", () => {
    const create = (percentile: unknown, capacity: unknown): DescribedLimit =>
      (CREATE["WindowedLimit"] as Create)({ window: { percentile, capacity }, windowSize: 20 });
    expect(() => create(0.5, 19)).toThrow(
      new RangeError(
        "options.window.capacity must be an integer from 20 to 1000000 (at least windowSize); got 19.",
      ),
    );
    expect(create(0.5, 20).limit).toBe(5);
    for (const percentile of RATIOS) expect(() => create(percentile, 20)).toThrow(RangeError);
    expect(() => create("0.5", 20)).toThrow(TypeError);
    expect(() => create(0.5, undefined)).toThrow(TypeError);
    expect(() => new WindowedLimit(new FixedLimit(5), { window: { percentil: 0.5 } as never })).toThrow(
      new TypeError("options.window.percentil is not an option; did you mean options.window.percentile?"),
    );
  });

  it("L-WL-1 to 5: spans and sizes of a window must fit together", () => {
    const inner = new FixedLimit(5);
    expect(() => new WindowedLimit(inner, { minWindowMs: 200, maxWindowMs: 100 })).toThrow(
      new RangeError("options.maxWindowMs must be at least minWindowMs (200); got 100."),
    );
    expect(() => new WindowedLimit(inner, { maxWindowMs: 100, maxExtendMs: 99 })).toThrow(
      new RangeError("options.maxExtendMs must be at least maxWindowMs (100); got 99."),
    );
    expect(() => new WindowedLimit(inner, { windowSize: 2, minExtendSamples: 3 })).toThrow(RangeError);
    for (const options of [
      { minWindowMs: 60_000 },
      { maxWindowMs: 60_000 },
      { maxWindowMs: 10 },
      { windowSize: 1 },
    ]) {
      expect(new WindowedLimit(inner, options).limit).toBe(5);
    }
  });

  it("a window needs an algorithm", () => {
    for (const bad of [undefined, null, 5, {}, { onSample() {} }]) {
      expect(() => new WindowedLimit(bad as never)).toThrow(
        /^delegate must be an object with onSample\(\) and onChange\(\); got/,
      );
    }
  });

  it("a fixed or settable limit must be a whole number in range", () => {
    for (const bad of INTEGERS) expect(() => new FixedLimit(bad)).toThrow(RangeError);
    for (const bad of INTEGERS.slice(1)) expect(() => new SettableLimit(bad)).toThrow(RangeError);
    expect(() => new FixedLimit("5" as never)).toThrow(TypeError);
    expect(() => new SettableLimit({} as never)).toThrow(TypeError);
  });
});

describe("functions of the user", () => {
  const good = { random: () => 0.5, initialLimit: 50 };
  /** Swaps a function for one that throws or returns nonsense, and back. */
  const ROLES: readonly (readonly [
    string,
    (call: (n: number) => number) => DescribedLimit,
    (n: number) => number,
  ])[] = [
    ["Gradient queueSize", (call) => new GradientLimit({ ...good, queueSize: call }), () => 4],
    [
      "Gradient random",
      (call) => new GradientLimit({ ...good, probeInterval: 1, random: () => call(0) }),
      () => 0,
    ],
    ["Gradient2 queueSize", (call) => new Gradient2Limit({ initialLimit: 50, queueSize: call }), () => 4],
    ["Vegas alpha", (call) => new VegasLimit({ ...good, alpha: call, threshold: 0, beta: 9 }), () => 6],
    ["Vegas beta", (call) => new VegasLimit({ ...good, beta: call }), () => 6],
    ["Vegas threshold", (call) => new VegasLimit({ ...good, threshold: call }), () => 1],
    ["Vegas increase", (call) => new VegasLimit({ ...good, increase: call, alpha: 1e6 }), (n) => n + 1],
    ["Vegas decrease", (call) => new VegasLimit({ ...good, decrease: call }), (n) => n - 1],
    [
      "Vegas random",
      (call) => new VegasLimit({ initialLimit: 50, maxLimit: 60, probeMultiplier: 1, random: () => call(0) }),
      () => 0.5,
    ],
    [
      "Anchored random",
      (call) =>
        new AnchoredGradientLimit({
          initialLimit: 50,
          quickProbe: 1,
          probeInterval: 1,
          random: () => call(0),
        }),
      () => 0,
    ],
  ];

  it.each(ROLES)(
    "%s that throws or returns no number is heard of, and does no harm",
    (name, create, usual) => {
      let call = usual;
      const limit = create((n) => call(n));
      let now = 0;
      function work(times: number): unknown[] {
        const errors: unknown[] = [];
        for (let i = 0; i < times; i++, now += 100) {
          const rtt = [10, 11, 40][i % 3] as number;
          try {
            limit.onSample(now, rtt, 5000, name === "Vegas decrease" ? "dropped" : "success");
          } catch (error) {
            errors.push(error);
          }
        }
        return errors;
      }
      expect(work(6)).toEqual([]);
      const failure = new Error("a function of the user");
      const failures: readonly ((n: number) => unknown)[] = [
        () => {
          throw failure;
        },
        () => Number.NaN,
        () => Number.POSITIVE_INFINITY,
        () => "7",
        () => undefined,
      ];
      for (const failing of failures) {
        call = failing as typeof usual;
        const errors = work(120);
        expect(errors.length, String(failing)).toBeGreaterThan(0);
        for (const error of errors) {
          if (error !== failure)
            expect(String(error)).toMatch(/^(Range|Type)Error: the result of options\.\w+ must be/);
        }
        const { limit: after, estimated } = limit.describe();
        expect([Number.isInteger(after), Number.isFinite(estimated)]).toEqual([true, true]);
      }
      call = usual;
      const seen = new Set<number>();
      limit.onChange((to) => seen.add(to));
      expect(work(300)).toEqual([]);
      for (let i = 0; i < 50; i++, now += 100) limit.onSample(now, 4000, 5000, "dropped");
      expect(seen.size).toBeGreaterThan(0);
    },
  );

  it("random must stay below 1, in the constructor too", () => {
    for (const bad of [1, -0.1, Number.NaN]) {
      expect(() => new VegasLimit({ random: () => bad })).toThrow(
        /^the result of options.random must be from 0 to below 1/,
      );
    }
  });

  it("are called on the numbers that they are for", () => {
    const limit = new VegasLimit({
      random: () => 0.5,
      initialLimit: 10,
      maxLimit: 20,
      smoothing: 0.5,
      increase: (estimated) => estimated + 0.5,
      alpha: (n) => n,
      threshold: 0,
      beta: 10,
    });
    for (const rtt of [10, 11, 11]) limit.onSample(0, rtt, 20, "success");
    expect(limit.describe()).toMatchObject({ limit: 10, estimated: 10.5 });
  });
});
