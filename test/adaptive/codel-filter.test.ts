import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CodelFilter } from "../../src/adaptive/codel-filter.js";
import { DropState } from "../../src/queue/codel.js";
import { CountingClock, ManualClock } from "../support.js";

interface Step {
  readonly enqueue: number;
  readonly now: number;
  readonly drop: boolean;
  readonly dropping: boolean;
  readonly count: number;
  readonly lastCount: number;
  readonly dropNext: number | null;
  readonly firstAbove: number | null;
  readonly drops: number;
}

interface Vectors {
  readonly cases: readonly {
    readonly name: string;
    readonly options: { readonly target?: number; readonly interval?: number };
    readonly steps: readonly Step[];
  }[];
}

const vectors = JSON.parse(
  readFileSync(new URL("vectors/codel-filter.json", import.meta.url), "utf8"),
) as Vectors;

/** Within a relative 1e-9. */
const near = (value: number | null) =>
  value === null ? null : expect.closeTo(value, 9 - Math.ceil(Math.log10(Math.max(1, Math.abs(value)))));

describe.each(vectors.cases)("the recorded run: $name", ({ options, steps }) => {
  const given = {
    ...(options.target === undefined ? {} : { targetMs: options.target }),
    ...(options.interval === undefined ? {} : { intervalMs: options.interval }),
  };

  it("is the same, step by step", () => {
    const filter = new CodelFilter(given);
    for (const [i, step] of steps.entries()) {
      const drop = filter.shouldDrop(step.enqueue, step.now);
      const { isDropping, droppedCount, pace, nextDropTime } = filter.describe();
      const next = step.dropping ? step.dropNext : step.firstAbove;
      expect({ i, drop, isDropping, droppedCount, pace, next: nextDropTime ?? null }).toEqual({
        i,
        drop: step.drop,
        isDropping: step.dropping,
        droppedCount: step.drops,
        pace: step.count,
        next: near(next),
      });
      expect([filter.isDropping, filter.droppedCount]).toEqual([step.dropping, step.drops]);
    }
  });

  it("has the same state inside", () => {
    const { targetMs, intervalMs } = new CodelFilter(given).describe();
    const state = new DropState({ targetMs, intervalMs });
    for (const [i, step] of steps.entries()) {
      state.shouldDrop(step.now - step.enqueue, step.now);
      const { isDropping, count, lastCount, dropNext, firstAboveTime } = state;
      expect({ i, isDropping, count, lastCount, dropNext, firstAboveTime }).toEqual({
        i,
        isDropping: step.dropping,
        count: step.count,
        lastCount: step.lastCount,
        dropNext: near(step.dropNext) ?? Number.NEGATIVE_INFINITY,
        firstAboveTime: near(step.firstAbove) ?? undefined,
      });
    }
  });
});

it("reads all recorded runs", () => {
  expect(vectors.cases.map((one) => one.steps.length).reduce((a, b) => a + b)).toBe(290);
});

/** A filter that is asked every millisecond about an item that has waited so long. */
class Asked {
  readonly clock: ManualClock = new ManualClock();
  readonly filter: CodelFilter;
  readonly droppedAt: number[] = [];

  constructor(options: { targetMs?: number; intervalMs?: number } = {}) {
    this.filter = new CodelFilter({ ...options, clock: this.clock });
  }

  for(ms: number, waitedMs: number): this {
    for (let i = 0; i < ms; i++) {
      this.clock.advance(1);
      const now = this.clock.now();
      if (this.filter.shouldDrop(now - waitedMs)) this.droppedAt.push(now);
    }
    return this;
  }

  until(drops: number, waitedMs: number): this {
    while (this.filter.droppedCount < drops) this.for(1, waitedMs);
    return this;
  }
}

describe("a filter", () => {
  it("keeps what has not waited", () => {
    expect(new Asked().for(1000, 0).droppedAt).toEqual([]);
  });

  it("keeps everything while waits are just below the target", () => {
    expect(new Asked().for(500, 4.999).droppedAt).toEqual([]);
  });

  it.each([5, 6, 1e6])(
    "drops once all waits have been %d ms, the target or more, for an interval",
    (waitedMs) => {
      const asked = new Asked().for(100, waitedMs);
      expect([asked.droppedAt, asked.filter.isDropping]).toEqual([[], false]);
      asked.for(1, waitedMs);
      expect([asked.droppedAt, asked.filter.isDropping]).toEqual([[101], true]);
    },
  );

  it("starts over when one wait in an interval was short", () => {
    expect(new Asked().for(99, 10).for(1, 4).for(100, 10).droppedAt).toEqual([]);
  });

  it("ends dropping with the first short wait, and keeps its count", () => {
    const asked = new Asked().until(3, 10).for(1, 0);
    expect([asked.filter.isDropping, asked.filter.droppedCount]).toEqual([false, 3]);
    expect(asked.for(50, 10).filter.droppedCount).toBe(3);
  });

  it("drops at a pace that grows with the square root of the drops", () => {
    const asked = new Asked().until(200, 10);
    let due = 101;
    for (const [i, at] of asked.droppedAt.entries()) {
      expect(at).toBe(Math.ceil(due - 1e-9));
      due += 100 / Math.sqrt(i + 1);
    }
    expect(asked.droppedAt.slice(0, 6)).toEqual([101, 201, 272, 330, 380, 425]);
  });

  it("starts at the slowest pace again after a long rest", () => {
    const asked = new Asked().until(5, 10).for(2000, 0).until(6, 10);
    expect(asked.filter.describe().pace).toBe(1);
  });

  it("resumes the pace after a short rest: as many as were added since the episode began", () => {
    const asked = new Asked().until(5, 10).for(100, 0).until(6, 10);
    const { pace, nextDropTime } = asked.filter.describe();
    expect([pace, nextDropTime]).toEqual([4, asked.clock.now() + 50]);
  });

  it("resumes at the slowest pace when the last episode had added no more than one", () => {
    expect(new Asked().until(2, 10).for(100, 0).until(3, 10).filter.describe().pace).toBe(1);
  });

  it("measures the growth of an episode from where it began, not from 1", () => {
    // Three drops; then from pace 2 up to 7; then 5 remain.
    const asked = new Asked().until(3, 10).for(100, 0).until(4, 10);
    expect(asked.filter.describe().pace).toBe(2);
    asked.until(9, 10);
    expect(asked.filter.describe().pace).toBe(7);
    const { pace, nextDropTime } = asked.for(50, 0).until(10, 10).filter.describe();
    expect(pace).toBe(5);
    expect(nextDropTime).toBeCloseTo(asked.clock.now() + 44.7214, 4);
  });

  it("counts all drops of all episodes", () => {
    const asked = new Asked().until(7, 10).for(500, 0);
    expect([asked.filter.droppedCount, asked.filter.isDropping]).toEqual([7, false]);
    asked.until(10, 10);
    expect([asked.filter.droppedCount, asked.filter.isDropping]).toEqual([10, true]);
    expect(asked.for(1, 0).filter.isDropping).toBe(false);
  });

  it("takes a time in the future for no wait", () => {
    const asked = new Asked().for(1000, -1000);
    expect([asked.droppedAt, asked.filter.describe().pace]).toEqual([[], 0]);
    expect(asked.until(1, 10).for(1, -1).filter.isDropping).toBe(false);
  });

  it("catches up with one drop per call when it was not asked for a while", () => {
    const asked = new Asked().until(1, 10);
    asked.clock.advance(1000);
    // 100 + 70.7 + … + 17.7 ms after one another: 32 are due by then.
    const answers = Array.from({ length: 40 }, () => asked.filter.shouldDrop(0));
    expect(answers.filter((dropped) => dropped)).toHaveLength(32);
    expect(answers.slice(0, 33)).toEqual([...Array<boolean>(32).fill(true), false]);
  });

  it("may have a target as long as its interval", () => {
    expect(new Asked({ targetMs: 5, intervalMs: 5 }).for(6, 5).droppedAt).toEqual([6]);
  });

  it("says what it knows", () => {
    const asked = new Asked({ targetMs: 20, intervalMs: 200 });
    const known = { targetMs: 20, intervalMs: 200, isDropping: false, droppedCount: 0, pace: 0 };
    expect(asked.filter.describe()).toEqual({ ...known, nextDropTime: undefined });
    expect(asked.for(1, 20).filter.describe()).toEqual({ ...known, nextDropTime: 201 });
    const dropping = { ...known, isDropping: true, droppedCount: 1, pace: 1, nextDropTime: 401 };
    expect(asked.for(200, 20).filter.describe()).toEqual(dropping);
    expect(asked.for(1, 0).filter.describe()).toEqual({
      ...dropping,
      isDropping: false,
      nextDropTime: undefined,
    });
    expect(new CodelFilter().describe()).toMatchObject({ targetMs: 5, intervalMs: 100 });
  });

  it("reads the clock only when it is not told the time, and sets no timer", () => {
    const clock = new CountingClock();
    const filter = new CodelFilter({ clock });
    for (let now = 0; now < 500; now++) filter.shouldDrop(now - 10, now);
    expect([filter.droppedCount > 0, clock.reads, clock.timersSet]).toEqual([true, 0, 0]);
    filter.shouldDrop(0);
    expect([clock.reads, clock.timersSet]).toEqual([1, 0]);
  });

  it("has the system's clock when it is given none", () => {
    const filter = new CodelFilter({ targetMs: 1, intervalMs: 1 });
    expect(filter.shouldDrop(performance.now() - 10_000)).toBe(false);
    const { nextDropTime = 0 } = filter.describe();
    expect(nextDropTime).toBeGreaterThan(0);
    expect(nextDropTime).toBeLessThanOrEqual(performance.now() + 1);
  });
});

describe("hostile input", () => {
  it.each<[string, unknown, new (message: string) => Error, RegExp]>([
    ["no object", 5, TypeError, /^options must be an object; got 5\.$/],
    ["null", null, TypeError, /^options must be an object; got null\.$/],
    ["a misspelt name", { targetms: 5 }, TypeError, /did you mean options\.targetMs\?/],
    ["a form, which a filter has not", { form: "controlLaw" }, TypeError, /options\.form is not an option/],
    ["a target of 0", { targetMs: 0 }, RangeError, /^options\.targetMs must be .* above 0; got 0\.$/],
    ["a negative target", { targetMs: -1 }, RangeError, /^options\.targetMs must be/],
    ["a target that is NaN", { targetMs: Number.NaN }, RangeError, /^options\.targetMs must be/],
    ["a target in words", { targetMs: "5" }, TypeError, /^options\.targetMs must be/],
    ["an interval of 0", { intervalMs: 0 }, RangeError, /^options\.intervalMs must be/],
    ["a negative interval", { intervalMs: -100 }, RangeError, /^options\.intervalMs must be/],
    [
      "an endless interval",
      { intervalMs: Number.POSITIVE_INFINITY },
      RangeError,
      /^options\.intervalMs must be/,
    ],
    ["an interval of null", { intervalMs: null }, TypeError, /^options\.intervalMs must be/],
    [
      "an interval below the target",
      { targetMs: 5, intervalMs: 4.9 },
      RangeError,
      /^options\.intervalMs must be at least targetMs, which is 5; got 4\.9\.$/,
    ],
    ["a clock without a time", { clock: {} }, TypeError, /^options\.clock must be an object with now\(\)/],
  ])("%s is refused", (_, options, kind, message) => {
    const make = () => new CodelFilter(options as never);
    expect(make).toThrow(kind);
    expect(make).toThrow(message);
  });

  it.each<[string, unknown[], new (message: string) => Error, RegExp]>([
    ["no time", [], TypeError, /^enqueuedAt must be a finite number of milliseconds; got undefined\.$/],
    ["a date", [new Date(0), 1], TypeError, /^enqueuedAt must be/],
    ["NaN", [Number.NaN, 1], RangeError, /^enqueuedAt must be/],
    ["Infinity", [Number.POSITIVE_INFINITY, 1], RangeError, /^enqueuedAt must be/],
    ["NaN for now", [0, Number.NaN], RangeError, /^now must be a finite number of milliseconds; got NaN\.$/],
    ["Infinity for now", [0, Number.POSITIVE_INFINITY], RangeError, /^now must be/],
    ["text for now", [0, "1"], TypeError, /^now must be/],
  ])("%s is refused, and changes nothing", (_, times, kind, message) => {
    const { filter } = new Asked().until(2, 10);
    const before = filter.describe();
    const ask = () => filter.shouldDrop(...(times as [number, number]));
    expect(ask).toThrow(kind);
    expect(ask).toThrow(message);
    expect(filter.describe()).toEqual(before);
  });

  it("options are read once, and may change afterwards", () => {
    const reads: string[] = [];
    const options = new Proxy(
      { targetMs: 20, intervalMs: 200, clock: new ManualClock() },
      {
        get(target, name) {
          reads.push(String(name));
          return Reflect.get(target, name) as unknown;
        },
      },
    );
    const filter = new CodelFilter(options);
    expect(reads).toEqual(["targetMs", "intervalMs", "clock"]);
    expect(filter.describe()).toMatchObject({ targetMs: 20, intervalMs: 200 });
  });

  it("a clock that goes back drops nothing for an interval, and then goes on", () => {
    const asked = new Asked().until(5, 10);
    const ask = (from: number, ms: number) => {
      const dropped: number[] = [];
      for (let now = from; now < from + ms; now++)
        if (asked.filter.shouldDrop(now - 10, now)) dropped.push(now);
      return dropped;
    };
    expect(ask(-1e9, 100)).toEqual([]);
    expect(ask(-1e9 + 100, 60)).toEqual([-1e9 + 100, -1e9 + 150]);
  });
});
