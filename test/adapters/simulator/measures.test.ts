import { SimulationError } from "headgate/simulator";
import { describe, expect, it } from "vitest";
import { Attempt, type AttemptOwner } from "../../../adapters/simulator/attempt.js";
import { Measures, type Tally } from "../../../adapters/simulator/measures.js";
import { TimeMean } from "../../../adapters/simulator/time-mean.js";

const NOBODY: AttemptOwner = { begin: () => {}, complete: () => {}, answered: () => {}, failed: () => {} };

/** Counts of which 10 attempts by 8 arrivals are everywhere they can be. */
function sound(): Measures {
  const measures = new Measures(0, 100);
  Object.assign(measures.measured, {
    arrivals: 8,
    attempts: 10,
    retries: 2,
    waiting: 1,
    admitted: 6,
    refusedByLimiter: 2,
    leftLimiter: 1,
    inService: 0,
    refusedByServer: 1,
    leftServer: 1,
    completed: 4,
    delivered: 2,
    late: 1,
    errors: 1,
  });
  return measures;
}

describe("what must be true of every run", () => {
  it("is checked: everybody is somewhere exactly once", () => {
    expect(() => sound().check(100, [])).not.toThrow();
    const names = Object.keys(new Measures(0, 1).measured).filter((name) => name !== "gaveUp");
    for (const name of names as (keyof Tally)[]) {
      const measures = sound();
      measures.measured[name] += 1;
      expect(() => measures.check(100, []), name).toThrow(SimulationError);
    }
  });

  it("is checked: the time in the server is the same by both counts", () => {
    const attempt = new Attempt(NOBODY);
    attempt.grantedAt = 10;
    const measures = new Measures(0, 100);
    measures.entersService(10);
    expect(() => measures.check(50, [attempt])).not.toThrow();
    expect(() => measures.check(50, [])).toThrow(/time in service/);
    measures.leavesService(attempt, 60);
    expect(() => measures.check(70, [])).not.toThrow();
    attempt.grantedAt = 11;
    measures.entersService(70);
    measures.leavesService(attempt, 80);
    expect(() => measures.check(90, [])).toThrow(/time in service/);
  });
});

describe("a mean over time", () => {
  it("weighs values by how long they last, within its period", () => {
    const mean = new TimeMean(10, 20, 5);
    mean.set(1, 4);
    mean.set(3, 12);
    mean.add(4, 18);
    mean.advance(25);
    // 1 for 2 ms, 3 for 6 ms and 7 for 2 ms.
    expect(mean.mean).toBeCloseTo((2 + 18 + 14) / 10, 12);
    expect(mean).toMatchObject({ min: 1, max: 7, value: 7 });
  });

  it("leaves out what is not known, and knows nothing of an empty period", () => {
    const mean = new TimeMean(0, 10, Number.NaN);
    mean.set(4, 6);
    mean.set(Number.NaN, 8);
    mean.advance(10);
    expect(mean.mean).toBe(4);
    const empty = new TimeMean(5, 5, 1);
    empty.advance(9);
    expect([empty.mean, empty.min, empty.max]).toEqual([undefined, undefined, undefined]);
  });
});
