import { describe, expect, it } from "vitest";
import { AimdLimit } from "../../../src/adaptive/aimd-limit.js";
import { FixedLimit } from "../../../src/adaptive/fixed-limit.js";
import { Gradient2Limit, type Gradient2LimitOptions } from "../../../src/adaptive/gradient2-limit.js";
import { SettableLimit } from "../../../src/adaptive/settable-limit.js";
import { VegasLimit, type VegasLimitOptions } from "../../../src/adaptive/vegas-limit.js";
import {
  WindowedAimdLimit,
  type WindowedAimdLimitOptions,
} from "../../../src/adaptive/windowed-aimd-limit.js";
import { WindowedLimit } from "../../../src/adaptive/windowed-limit.js";
import { repeat, watchChanges } from "./support.js";

// The tests of the libraries that these algorithms come from, as rows: given, when, then. Rows about a whole limiter are
// tested with the limiter.

describe("fixed and settable limits", () => {
  it("a fixed one never moves, and is its own maximum", () => {
    const limit = new FixedLimit(10);
    limit.onChange(() => expect.unreachable())();
    expect(repeat(limit, 10, 1, 10, "dropped")).toBe(10);
    expect(limit.maxLimit).toBe(10);
    expect(limit.describe()).toEqual({ algorithm: "FixedLimit", limit: 10 });
  });

  it("a settable one moves only when it is set, may be 0, and has no maximum", () => {
    const limit = new SettableLimit(10);
    expect(repeat(limit, 10, 1, 10, "dropped")).toBe(10);
    limit.setLimit(0);
    expect(limit.describe()).toEqual({ algorithm: "SettableLimit", limit: 0 });
    expect(limit.maxLimit).toBeUndefined();
    expect(new SettableLimit(0).limit).toBe(0);
  });

  it("a settable one refuses what is no limit, and stays", () => {
    const limit = new SettableLimit(10);
    for (const bad of [-1, 1.5, Number.NaN, 2 ** 31]) expect(() => limit.setLimit(bad)).toThrow(RangeError);
    expect(() => limit.setLimit("5" as never)).toThrow(TypeError);
    expect(limit.limit).toBe(10);
  });
});

describe("AIMD", () => {
  it("N-AIMD-1: begins with the initial limit", () => {
    expect(new AimdLimit({ initialLimit: 10 }).limit).toBe(10);
  });

  it("N-AIMD-2: grows by 1 if half was in use", () => {
    expect(repeat(new AimdLimit({ initialLimit: 20 }), 1, 1, 10)).toBe(21);
  });

  it("N-AIMD-3: shrinks by a tenth when work was dropped, whatever it took and was in flight", () => {
    expect(repeat(new AimdLimit({ initialLimit: 30 }), 1, 0, 0, "dropped")).toBe(27);
  });

  it("N-AIMD-4: does not pass the maximum", () => {
    expect(repeat(new AimdLimit({ initialLimit: 21, maxLimit: 21, minLimit: 1 }), 1, 1, 10)).toBe(21);
  });

  it("a latency that is infinite is a time-out", () => {
    expect(repeat(new AimdLimit({ initialLimit: 30 }), 1, Number.POSITIVE_INFINITY, 30)).toBe(27);
  });
});

describe("Vegas", () => {
  function vegas(options: VegasLimitOptions): VegasLimit {
    return new VegasLimit({ random: () => 0.5, ...options });
  }
  const small: VegasLimitOptions = { alpha: 3, beta: 6, smoothing: 1, initialLimit: 10, maxLimit: 20 };

  it("N-VEG-1: 10000 grows by beta, 24, when there is no queue", () => {
    const limit = vegas({ initialLimit: 10000, maxLimit: 20000 });
    limit.onSample(0, 10_000, 5000, "success");
    expect(limit.limit).toBe(10000);
    limit.onSample(0, 10_000, 6000, "success");
    expect(limit.limit).toBe(10024);
  });

  it.each([
    ["N-VEG-2: no queue: from 10 to 16", 10, 11, 16],
    ["N-VEG-3: a queue of 8: from 10 to 9", 50, 11, 9],
    ["N-VEG-4: a queue of 3: 10 stays", 14, 14, 10],
  ])("%s", (_, rtt, inFlight, expected) => {
    const limit = vegas(small);
    limit.onSample(0, 10, 10, "success");
    expect(limit.limit).toBe(10);
    limit.onSample(10, rtt, inFlight, "success");
    expect(limit.limit).toBe(expected);
  });

  it.each([
    ["N-VEG-5: halved with smoothing: 100, 75, 56", 0.5, [100, 75, 56]],
    ["N-VEG-6: halved without: 100, 50, 25", 1, [100, 50, 25]],
  ])("%s", (_, smoothing, expected) => {
    const limit = vegas({ decrease: (n) => n / 2, smoothing, initialLimit: 100, maxLimit: 200 });
    expect([10, 20, 20].map((rtt) => repeat(limit, 1, rtt, 100))).toEqual(expected);
  });

  it("a queue of exactly alpha or beta is just right; the steps begin beyond", () => {
    const steps = { increase: (n: number) => n + 1, decrease: (n: number) => n - 1 };
    // With 10 ms of no load and a limit of 10, an rtt of 100 / (10 - q) is a queue of q.
    for (const [queue, expected] of [
      [1, 16],
      [2, 11],
      [3, 10],
      [6, 10],
      [7, 9],
    ] as const) {
      const limit = vegas({ ...small, ...steps });
      limit.onSample(0, 10, 10, "success");
      limit.onSample(0, 100 / (10 - queue) - 1e-9, 10, "success");
      expect([queue, limit.describe()["queueEstimate"], limit.limit]).toEqual([queue, queue, expected]);
    }
  });

  it("an initial limit above the maximum is brought down to it by the first change, smoothing or not", () => {
    const limit = vegas({ initialLimit: 50, maxLimit: 30, smoothing: 0.1 });
    expect(limit.limit).toBe(50);
    repeat(limit, 2, 10, 50);
    expect(limit.limit).toBe(30);
  });
});

describe("Gradient2", () => {
  function gradient2(options: Gradient2LimitOptions): Gradient2Limit {
    return new Gradient2Limit(options);
  }

  it("L-G2-1: begins with the initial limit", () => {
    expect(gradient2({ initialLimit: 50 }).limit).toBe(50);
  });

  it("L-G2-2: at full use and steady latency it only grows, up to the maximum", () => {
    const limit = gradient2({ initialLimit: 20, maxLimit: 200, queueSize: 4 });
    const changes = watchChanges(limit);
    expect(repeat(limit, 1000, 1, 200)).toBe(200);
    expect(changes).toEqual([...changes].sort((a, b) => a - b));
  });

  it("L-G2-3: a spike shrinks it", () => {
    const limit = gradient2({ initialLimit: 50, minLimit: 1 });
    const before = repeat(limit, 50, 1, 200);
    expect(repeat(limit, 1, 10, 200)).toBeLessThan(before);
  });

  it("L-G2-4: once bad times are over, it rises", () => {
    const limit = gradient2({ longWindow: 50, queueSize: 4 });
    const after = repeat(limit, 100, 10, 200);
    const long = limit.describe()["longRttMs"] as number;
    let isHigher = false;
    for (let i = 0; i < 200 && !isHigher; i++) isHigher = repeat(limit, 1, 1, 200) > after;
    expect(isHigher).toBe(true);
    expect(limit.describe()["longRttMs"]).toBeLessThan(long);
  });

  it("L-G2-5: a quarter in use moves nothing", () => {
    const limit = gradient2({ initialLimit: 50 });
    expect(repeat(limit, 1, 100, 12)).toBe(50);
    expect(limit.describe()["longRttMs"]).toBe(100);
  });

  it("L-G2-6: is never below the minimum", () => {
    const limit = gradient2({ initialLimit: 50, minLimit: 10, longWindow: 20, queueSize: 1 });
    repeat(limit, 20, 1, 200);
    const changes = watchChanges(limit);
    repeat(limit, 500, 20, 200);
    expect(Math.min(...changes)).toBeGreaterThanOrEqual(10);
    for (let rtt = 40; rtt < 1e100; rtt *= 4) repeat(limit, 1, rtt, 200);
    expect(Math.min(...changes)).toBe(10);
  });

  it("L-G2-7: is never above the maximum", () => {
    const limit = gradient2({ maxLimit: 100, queueSize: 50 });
    const changes = watchChanges(limit);
    repeat(limit, 200, 1, 200);
    expect(Math.max(...changes)).toBe(100);
  });

  it("L-G2-8: smoothing 1 gets to 60 where 0.1 gets to 96", () => {
    const ends = [1, 0.1].map((smoothing) => {
      const limit = gradient2({ initialLimit: 100, maxLimit: 100, minLimit: 1, smoothing });
      repeat(limit, 20, 1, 100);
      return repeat(limit, 1, 10, 100);
    });
    expect(ends).toEqual([60, 96]);
  });

  it("L-G2-9: 1.4 times as slow is tolerated", () => {
    const limit = gradient2({ initialLimit: 50, minLimit: 1 });
    const before = repeat(limit, 30, 1, 200);
    expect(repeat(limit, 1, 1.4, 200)).toBeGreaterThanOrEqual(before);
  });

  it("L-G2-10: a latency of 0 is left out, then it goes on as if nothing had been", () => {
    const limit = gradient2({ initialLimit: 50 });
    const description = limit.describe();
    expect(repeat(limit, 1, 0, 50)).toBe(50);
    expect(limit.describe()).toEqual(description);
    expect(repeat(limit, 30, 1, 200)).toBeGreaterThan(50);
  });

  it("L-G2-11: the last that listeners hear is the limit", () => {
    const limit = gradient2({});
    const changes = watchChanges(limit);
    repeat(limit, 200, 1, 200);
    expect(changes.at(-1)).toBe(limit.limit);
  });

  it("L-G2-12: queueSize is called once per sample, with the limit; without it, it is the root rounded up", () => {
    const asked: number[] = [];
    const limit = gradient2({
      initialLimit: 100,
      queueSize: (n) => {
        asked.push(n);
        return 10;
      },
    });
    const usual = gradient2({ initialLimit: 100 });
    expect([repeat(limit, 1, 1, 100), repeat(usual, 1, 1, 100)]).toEqual([102, 102]);
    repeat(limit, 1, 1, 100);
    expect(asked).toEqual([100, 102]);
    expect(usual.describe()["queueSize"]).toBe(10);
  });
});

describe("Gradient2 behind a window", () => {
  const options: Gradient2LimitOptions = {
    initialLimit: 50,
    minLimit: 5,
    maxLimit: 200,
    longWindow: 20,
    queueSize: 4,
  };

  function simulated(given: Gradient2LimitOptions = options) {
    const limit = new WindowedLimit(new Gradient2Limit(given), { underfilled: "discard" });
    let now = 0;
    /** Windows of a second, ten samples in each. */
    function windows(count: number, rtt: (window: number) => number, inFlight = 200): number {
      for (let i = 0; i < count; i++) {
        for (let sample = 0; sample < 10; sample++, now += 101) {
          limit.onSample(now, rtt(i), inFlight, "success");
        }
      }
      return limit.limit;
    }
    return { limit, windows };
  }

  it("L-SIM-1: a lasting spike shrinks it, and it recovers", () => {
    const { windows } = simulated();
    const steady = windows(20, () => 1);
    const slow = windows(30, () => 10);
    expect(slow).toBeLessThan(steady);
    expect(windows(2000, () => 1)).toBeGreaterThanOrEqual(steady);
  });

  it("L-SIM-2: latency that swings keeps it below one that is steady", () => {
    const swinging = simulated().windows(100, (i) => (i % 2 === 0 ? 1 : 10));
    expect(swinging).toBeLessThan(simulated().windows(100, () => 1));
  });

  it("L-SIM-3: 30 windows with one in flight move nothing", () => {
    const { limit, windows } = simulated({ ...options, minLimit: 1 });
    expect(windows(30, () => 100, 1)).toBe(50);
    expect(limit.describe()["windowsAppLimited"]).toBeGreaterThanOrEqual(27);
    expect(limit.describe()["windowsUsed"]).toBe(0);
  });
});

describe("windowed AIMD", () => {
  function windowed(options: WindowedAimdLimitOptions): WindowedAimdLimit {
    return new WindowedAimdLimit({ decreaseFactor: 0.5, maxLimit: 10, ...options });
  }

  it("K-1: grows once in each window, up to the maximum", () => {
    const limit = windowed({ initialLimit: 2, maxLimit: 5 });
    const limits = [0, 1000, 2000, 3000, 4000, 5000].map((start) => {
      for (let inFlight = 1; inFlight <= limit.limit; inFlight++)
        limit.onSample(start, 1, inFlight, "success");
      return limit.limit;
    });
    expect(limits).toEqual([2, 3, 4, 5, 5, 5]);
    for (let i = 0; i < 100; i++) limit.onSample(5002, 0, 5, "success");
    expect(limit.limit).toBe(5);
  });

  it.each(["failure", "dropped"] as const)("K-2: ten failures in a window are one step (%s)", (outcome) => {
    const limit = windowed({ initialLimit: 4 });
    for (let i = 0; i < 10; i++) limit.onSample(0, 0, 1, outcome);
    expect(limit.limit).toBe(4);
    const limits = [1000, 2000, 3000].map((start) => {
      limit.onSample(start, 0, 1, outcome);
      return limit.limit;
    });
    expect(limits).toEqual([2, 1, 1]);
  });

  it("K-3: latency above the tolerance shrinks it", () => {
    const limit = windowed({ initialLimit: 4 });
    const limits = [
      [0, 1],
      [1001, 1],
      [1002, 20],
      [2022, 20],
    ].map(([start, rtt]) => {
      limit.onSample(start as number, rtt as number, 1, "success");
      return limit.limit;
    });
    expect(limits).toEqual([4, 4, 4, 2]);
    expect(limit.describe()).toMatchObject({ isCongested: true, windowRttMs: 20 });
  });

  it("K-4: an hour without calls is one window, and changes nothing by itself", () => {
    const limit = windowed({ initialLimit: 8 });
    limit.onSample(0, 1, 1, "success");
    limit.onSample(3_600_001, 1, 1, "success");
    expect(limit.limit).toBe(8);
    expect(limit.describe()["isCongested"]).toBe(false);
  });

  it("K-7: what the caller gave up is no sample", () => {
    const limit = windowed({ initialLimit: 4 });
    limit.onSample(0, 1, 1, "success");
    limit.onSample(0, 10_000, 4, "ignored");
    limit.onSample(1000, 1, 1, "success");
    expect(limit.limit).toBe(4);
  });

  it("K-9: does not care where its clock begins", () => {
    for (const epoch of [-5e12, 0, 1.7e12]) {
      const limit = windowed({ initialLimit: 4 });
      for (const [at, expected] of [
        [0, 4],
        [1000, 2],
        [2000, 1],
      ] as const) {
        limit.onSample(epoch + at, 0, 1, "failure");
        expect(limit.limit).toBe(expected);
      }
    }
  });
});
