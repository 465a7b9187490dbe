import type { LeaseOutcome } from "headgate";
import { describe, expect, it } from "vitest";
import { EFFORT, Random, SEED } from "../../property/support.js";
import { SUBJECTS, type Subject } from "./subjects.js";
import type { DescribedLimit } from "./support.js";

/*
 * Samples as no clock and no counter would make them. Whatever comes, the limit is a whole number within its bounds, and
 * afterwards it still goes down when work is dropped and slow, and up when all is well.
 *
 * HEADGATE_EFFORT=50 hands ten million samples to each algorithm.
 */

const SAMPLES = 200_000 * EFFORT;
const TIMEOUT_MS = 60_000 * Math.max(1, EFFORT / 5);

const STRANGE: readonly number[] = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  -1,
  -1e300,
  1e300,
  Number.MAX_VALUE,
  Number.MIN_VALUE,
  2.3e-308,
  -Number.MIN_VALUE,
  0,
  -0,
  Number.MAX_SAFE_INTEGER,
  2 ** 31,
  0.1,
  1,
  1e9,
];

const OUTCOMES: readonly LeaseOutcome[] = ["success", "success", "dropped", "failure", "ignored"];

function pick<T>(random: Random, from: readonly T[]): T {
  return from[random.below(from.length)] as T;
}

/** Any of 64 bits, now and then something strange, mostly something ordinary. */
function oddNumber(random: Random, ordinary: number): number {
  const kind = random.below(16);
  if (kind < 2) return pick(random, STRANGE);
  if (kind === 2) return (random.fraction() - 0.3) * 10 ** (random.below(616) - 308);
  return random.fraction() * ordinary;
}

function check(limit: DescribedLimit, { min, max }: Subject): void {
  const now = limit.limit;
  // Not `expect`, which would take most of the time.
  if (!Number.isInteger(now) || now < min || now > max) throw new Error(`the limit is ${now}`);
}

function checkDescription(limit: DescribedLimit): void {
  for (const [signal, value] of Object.entries(limit.describe())) {
    if (typeof value === "number" && !Number.isFinite(value)) throw new Error(`${signal} is ${value}`);
  }
}

function beHostile(limit: DescribedLimit, subject: Subject, random: Random): void {
  let now = 0;
  for (let i = 0; i < SAMPLES; i++) {
    now += random.fraction() * 10;
    const start = random.below(8) === 0 ? oddNumber(random, 1e9) : now;
    const inFlight = random.below(4) === 0 ? oddNumber(random, 500) : random.below(400);
    const running = random.below(4) === 0 ? oddNumber(random, 500) : random.below(400);
    limit.onSample(start, oddNumber(random, 100), inFlight, pick(random, OUTCOMES), running);
    check(limit, subject);
    if (i % 500 === 0) checkDescription(limit);
  }
}

/** Ordinary work from some time on; returns the lowest and the highest limit on the way. */
function beOrdinary(limit: DescribedLimit, from: number, rtt: number, outcome: LeaseOutcome, use: number) {
  let lowest = limit.limit;
  let highest = lowest;
  for (let i = 0; i < 60_000; i++) {
    limit.onSample(from + i, rtt, Math.ceil(limit.limit * use), outcome, 0);
    lowest = Math.min(lowest, limit.limit);
    highest = Math.max(highest, limit.limit);
  }
  return { lowest, highest };
}

describe.each(SUBJECTS)("$name", (subject) => {
  it(
    "bears whatever is handed in, and can still move",
    () => {
      const random = new Random(SEED);
      const limit = subject.create(() => random.fraction());
      const seen: number[] = [];
      let isUnbroken = true;
      let last = limit.limit;
      limit.onChange((now, previous) => {
        isUnbroken &&= previous === last && now !== previous;
        last = now;
        if (seen.length < 100) seen.push(now);
      });
      beHostile(limit, subject, random);
      expect(seen.length).toBeGreaterThan(1);
      // Well used but not full, so that every baseline finds its way back.
      beOrdinary(limit, 1e6, 10, "success", 0.8);
      const down = beOrdinary(limit, 1e6 + 60_000, 1000, "dropped", 1);
      expect(down.lowest).toBeLessThan(100);
      const up = beOrdinary(limit, 1e6 + 120_000, 10, "success", 1);
      expect(up.highest).toBeGreaterThan(Math.max(100, down.lowest));
      expect(isUnbroken).toBe(true);
      expect(last).toBe(limit.limit);
      checkDescription(limit);
    },
    TIMEOUT_MS,
  );

  it("is not moved by one sample that is no sample", () => {
    const limit = subject.create(() => 0.5);
    const before = limit.describe();
    for (const outcome of ["success", "failure", "dropped"] as const) {
      for (const rtt of [Number.NaN, -1, Number.NEGATIVE_INFINITY, -Number.MIN_VALUE]) {
        limit.onSample(0, rtt, 40, outcome);
        limit.onSample(1e9, rtt, 40, outcome);
      }
    }
    expect(limit.describe()).toEqual(before);
  });

  it("learns nothing from what was ignored", () => {
    const limit = subject.create(() => 0.5);
    const before = limit.describe();
    for (let i = 0; i < 100; i++) limit.onSample(i * 1000, 10 + i, 40, "ignored");
    expect(limit.describe()).toEqual(before);
  });

  if (subject.name !== "WindowedAimdLimit") {
    it("learns nothing from work that failed for a reason of its own", () => {
      const limit = subject.create(() => 0.5);
      const before = limit.describe();
      for (let i = 0; i < 100; i++) limit.onSample(i * 1000, 10 + i, 40, "failure");
      expect(limit.describe()).toEqual(before);
    });
  }
});
