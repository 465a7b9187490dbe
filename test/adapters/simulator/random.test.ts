import { describe, expect, it } from "vitest";
import { lognormal, pareto } from "../../../adapters/simulator/distributions.js";
import { createRandom, type RandomSource } from "../../../adapters/simulator/random.js";
import { relativeError, vectors } from "./vectors.js";

interface StreamCase {
  readonly seed: number | string;
  readonly stream: string;
  readonly u32: readonly number[];
  readonly uniform: readonly number[];
  readonly exponentialMean10: readonly number[];
  readonly paretoMean10Alpha2_5: readonly number[];
  readonly normal: readonly number[];
  readonly lognormalMean10Sigma1: readonly number[];
}

const { cases } = vectors<{ cases: readonly StreamCase[] }>("rng");

/** What a stream gives when it is asked as often as there are expected numbers. */
function drawn(one: StreamCase, expected: readonly number[], draw: (random: RandomSource) => number) {
  const random = createRandom(one.seed, one.stream);
  return expected.map(() => draw(random));
}

function take(random: RandomSource, count = 5): number[] {
  return Array.from({ length: count }, () => random.uint32());
}

describe("the expected streams", () => {
  it("are all there", () => {
    expect(cases).toHaveLength(8);
  });

  it.each(cases)("give the same integers and uniform numbers for seed $seed and stream $stream", (one) => {
    expect(drawn(one, one.u32, (random) => random.uint32())).toEqual(one.u32);
    expect(drawn(one, one.uniform, (random) => random.uniform())).toEqual(one.uniform);
  });

  it.each(cases)("give the same shaped numbers for seed $seed and stream $stream", (one) => {
    const heavy = pareto({ meanMs: 10, alpha: 2.5 });
    const skewed = lognormal({ meanMs: 10, sigma: 1 });
    const rows: [readonly number[], (random: RandomSource) => number][] = [
      [one.exponentialMean10, (random) => random.exponential(10)],
      [one.normal, (random) => random.normal()],
      [one.paretoMean10Alpha2_5, (random) => heavy.sample(random)],
      [one.lognormalMean10Sigma1, (random) => skewed.sample(random)],
    ];
    for (const [expected, draw] of rows) {
      const actual = drawn(one, expected, draw);
      expect(expected.length).toBeGreaterThan(5);
      for (const [i, value] of expected.entries()) {
        expect(relativeError(actual[i] as number, value)).toBeLessThan(1e-13);
      }
    }
  });
});

describe("a stream", () => {
  it("depends on nothing but its seed and its name", () => {
    const first = createRandom(7, "arrivals");
    const second = createRandom(7, "arrivals");
    createRandom(7, "service").uint32();
    expect(take(second)).toEqual(take(first));
    expect(take(createRandom(7, "service"))).not.toEqual(take(createRandom(7, "arrivals")));
    expect(take(createRandom(8, "arrivals"))).not.toEqual(take(createRandom(7, "arrivals")));
  });

  it("takes a number and its text for the same seed", () => {
    expect(take(createRandom("42", "a"))).toEqual(take(createRandom(42, "a")));
  });

  it("is forked by its name and not by what it has given", () => {
    const root = createRandom(1);
    const arrivals = root.fork("arrivals");
    expect(take(arrivals)).toEqual(take(createRandom(1, "arrivals")));
    take(root);
    expect(take(root.fork("arrivals").fork("tenant"))).toEqual(take(createRandom(1, "arrivals:tenant")));
  });

  it("uses one number for an integer and two for each of the others", () => {
    for (const draw of [
      (random: RandomSource) => random.uniform(),
      (random: RandomSource) => random.exponential(1),
      (random: RandomSource) => random.normal(),
    ]) {
      const random = createRandom(3);
      draw(random);
      const other = createRandom(3);
      take(other, 2);
      expect(take(random)).toEqual(take(other));
    }
  });

  it.each(["", "\u0000", "😀", "a/b", "\ud800"])("can be made from the seed %j", (seed) => {
    const numbers = take(createRandom(seed), 20);
    expect(new Set(numbers).size).toBe(20);
    expect(take(createRandom(seed), 20)).toEqual(numbers);
  });

  it("is hashed as UTF-8, so that letters beyond ASCII count in full", () => {
    expect(take(createRandom("ä"))).not.toEqual(take(createRandom("\u00c3")));
    expect(take(createRandom("😀"))).not.toEqual(take(createRandom("😁")));
  });

  it("refuses seeds that are none", () => {
    expect(() => createRandom(Number.POSITIVE_INFINITY)).toThrow(
      new RangeError("seed must be a finite number or a string; got Infinity."),
    );
    expect(() => createRandom(Number.NaN)).toThrow(RangeError);
    expect(() => createRandom(undefined as never)).toThrow(TypeError);
    expect(() => createRandom(1n as never)).toThrow(TypeError);
    expect(() => createRandom(1, null as never)).toThrow(new TypeError("stream must be a string; got null."));
    expect(() => createRandom(1).fork(1 as never)).toThrow(TypeError);
  });
});

describe("the numbers of a stream", () => {
  const count = 200_000;

  it("fall evenly into 64 boxes, whichever bits are looked at", () => {
    const random = createRandom("boxes");
    const byHigh = new Array<number>(64).fill(0);
    const byLow = new Array<number>(64).fill(0);
    const byUniform = new Array<number>(64).fill(0);
    for (let i = 0; i < count; i++) {
      const word = random.uint32();
      byHigh[word >>> 26] = (byHigh[word >>> 26] as number) + 1;
      byLow[word & 63] = (byLow[word & 63] as number) + 1;
      const box = Math.floor(random.uniform() * 64);
      byUniform[box] = (byUniform[box] as number) + 1;
    }
    for (const boxes of [byHigh, byLow, byUniform]) {
      const chiSquared = boxes.reduce((sum, n) => sum + (n - count / 64) ** 2 / (count / 64), 0);
      // 63 degrees of freedom: between these in 99.8 % of all streams.
      expect(chiSquared).toBeGreaterThan(34);
      expect(chiSquared).toBeLessThan(104);
    }
  });

  it("do not follow one another: neighbours are not correlated", () => {
    const random = createRandom("neighbours");
    let last = random.uniform();
    let sum = 0;
    for (let i = 0; i < count; i++) {
      const next = random.uniform();
      sum += (last - 0.5) * (next - 0.5);
      last = next;
    }
    expect(Math.abs((sum / count) * 12)).toBeLessThan(3.3 / Math.sqrt(count));
  });

  it("stay in their range", () => {
    const random = createRandom("range");
    const wrong: number[] = [];
    const check = (value: number, fits: boolean) => fits || wrong.push(value);
    for (let i = 0; i < 20_000; i++) {
      const word = random.uint32();
      check(word, Number.isInteger(word) && word >= 0 && word < 2 ** 32);
      const share = random.uniform();
      check(share, share >= 0 && share < 1);
      const gap = random.exponential(5);
      check(gap, gap >= 0 && gap < 5 * 37);
      const value = random.normal();
      check(value, Math.abs(value) < 8.3);
    }
    expect(wrong).toEqual([]);
  });

  it("are exponential, and normal, in mean, variance and tail", () => {
    const random = createRandom("shape");
    let [sum, squares, long, sumNormal, squaresNormal, far] = [0, 0, 0, 0, 0, 0];
    for (let i = 0; i < count; i++) {
      const gap = random.exponential(10);
      sum += gap;
      squares += gap * gap;
      if (gap > 30) long++;
      const value = random.normal();
      sumNormal += value;
      squaresNormal += value * value;
      if (value > 1.959963984540054) far++;
    }
    expect(Math.abs(sum / count - 10)).toBeLessThan(0.08);
    expect(Math.abs(squares / count - 200)).toBeLessThan(4);
    expect(Math.abs(long / count - Math.exp(-3))).toBeLessThan(0.0015);
    expect(Math.abs(sumNormal / count)).toBeLessThan(0.008);
    expect(Math.abs(squaresNormal / count - 1)).toBeLessThan(0.011);
    expect(Math.abs(far / count - 0.025)).toBeLessThan(0.0012);
  });
});
