import { describe, expect, it } from "vitest";
import {
  type Arrival,
  type ArrivalProcess,
  checkArrivalProcess,
  poissonArrivals,
  uniformArrivals,
} from "../../../adapters/simulator/arrivals.js";
import { closedLoopArrivals } from "../../../adapters/simulator/closed-loop-arrivals.js";
import { deterministic, exponential } from "../../../adapters/simulator/distributions.js";
import { mergeArrivals } from "../../../adapters/simulator/merged-arrivals.js";
import { createRandom } from "../../../adapters/simulator/random.js";
import { traceArrivals } from "../../../adapters/simulator/trace-arrivals.js";
import { onOffArrivals, scheduledArrivals } from "../../../adapters/simulator/varying-arrivals.js";

function start(process: ArrivalProcess, seed: number | string = 1) {
  return process.start(createRandom(seed, "arrivals"));
}

/** All arrivals before a moment. */
function until(process: ArrivalProcess, endMs: number, seed: number | string = 1): Arrival[] {
  const source = start(process, seed);
  const arrivals: Arrival[] = [];
  for (let next = source.next(); next !== undefined && next.atMs < endMs; next = source.next()) {
    arrivals.push(next);
  }
  return arrivals;
}

function times(process: ArrivalProcess, endMs: number, seed: number | string = 1): number[] {
  return until(process, endMs, seed).map((arrival) => arrival.atMs);
}

function countBetween(all: readonly number[], fromMs: number, toMs: number): number {
  return all.filter((atMs) => atMs >= fromMs && atMs < toMs).length;
}

/** A process of each kind. */
const EVERY_KIND: [string, ArrivalProcess][] = [
  ["poisson", poissonArrivals({ ratePerSecond: 500 })],
  ["uniform", uniformArrivals({ ratePerSecond: 500, jitter: 1 })],
  ["on and off", onOffArrivals({ onMs: 30, offMs: 70, onRatePerSecond: 900, offRatePerSecond: 10 })],
  [
    "on and off, random",
    onOffArrivals({ onMs: 30, offMs: 70, onRatePerSecond: 900, random: true, base: "uniform" }),
  ],
  [
    "scheduled",
    scheduledArrivals([
      { atMs: 500, ratePerSecond: 50 },
      { atMs: 1000, ratePerSecond: 900, shape: "ramp" },
      { atMs: 3000, ratePerSecond: 0, shape: "ramp" },
      { atMs: 5000, ratePerSecond: 100 },
    ]),
  ],
  ["trace", traceArrivals([{ atMs: 3 }, { atMs: 1 }])],
  ["closed loop", closedLoopArrivals({ users: 20, thinkMs: exponential(100) })],
  [
    "merged",
    mergeArrivals({ a: poissonArrivals({ ratePerSecond: 50 }), b: uniformArrivals({ ratePerSecond: 90 }) }),
  ],
];

describe("every kind of arrivals", () => {
  it.each(EVERY_KIND)("can be started again, and gives the same for the same seed: %s", (_, process) => {
    const first = until(process, 10_000);
    expect(first.length).toBeGreaterThan(1);
    expect(until(process, 10_000)).toEqual(first);
  });

  it.each(EVERY_KIND)("gives times that never go back: %s", (_, process) => {
    const all = times(process, 10_000, "order");
    expect(all.filter((atMs, i) => atMs < (all[i - 1] ?? 0))).toEqual([]);
    expect(all.every((atMs) => atMs >= 0)).toBe(true);
  });

  it.each(EVERY_KIND)("two sources at once do not disturb each other: %s", (_, process) => {
    const one = start(process);
    const other = start(process);
    for (let i = 0; i < 10; i++) expect(other.next()?.atMs).toBe(one.next()?.atMs);
  });
});

describe("poisson arrivals", () => {
  it("have exponential gaps: mean and spread are both the mean gap", () => {
    const all = times(poissonArrivals({ ratePerSecond: 1000 }), 200_000, "gaps");
    const gaps = all.map((atMs, i) => atMs - (all[i - 1] ?? 0));
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length;
    expect(Math.abs(mean - 1)).toBeLessThan(0.01);
    expect(Math.abs(Math.sqrt(variance) - 1)).toBeLessThan(0.015);
  });

  it("are as many as the rate says, give or take the square root", () => {
    for (const seed of [1, 2, 3, 4, 5]) {
      const { length } = times(poissonArrivals({ ratePerSecond: 200 }), 100_000, seed);
      expect(Math.abs(length - 20_000)).toBeLessThan(4 * Math.sqrt(20_000));
    }
  });

  it("are other ones for another seed", () => {
    const process = poissonArrivals({ ratePerSecond: 10 });
    expect(times(process, 1000, 2)).not.toEqual(times(process, 1000, 1));
  });

  it("keep their customers when the rate doubles, only closer together", () => {
    const slow = times(poissonArrivals({ ratePerSecond: 10 }), 10_000);
    const fast = times(poissonArrivals({ ratePerSecond: 20 }), 5000);
    expect(fast).toHaveLength(slow.length);
    for (const [i, atMs] of slow.entries()) expect(fast[i]).toBeCloseTo(atMs / 2, 9);
  });

  it("never come at a rate of 0", () => {
    const source = start(poissonArrivals({ ratePerSecond: 0 }));
    expect([source.next(), source.next()]).toEqual([undefined, undefined]);
  });

  it("leave open everything but their time", () => {
    expect(
      Object.entries(start(poissonArrivals({ ratePerSecond: 1 })).next() ?? {}).filter(
        ([, v]) => v !== undefined,
      ),
    ).toHaveLength(1);
  });
});

describe("uniform arrivals", () => {
  it("come at even distances from 0 on, without drifting", () => {
    expect(times(uniformArrivals({ ratePerSecond: 1000 }), 200)).toEqual(
      Array.from({ length: 200 }, (_, i) => i),
    );
    const thirds = times(uniformArrivals({ ratePerSecond: 3 }), 1_000_000);
    expect(thirds).toHaveLength(3000);
    expect(thirds.at(-3)).toBe(999_000);
  });

  it("use no random numbers without jitter", () => {
    const random = createRandom(1);
    const source = uniformArrivals({ ratePerSecond: 1000 }).start(random);
    for (let i = 0; i < 10; i++) source.next();
    expect(random.uint32()).toBe(createRandom(1).uint32());
  });

  it("are late by up to the jitter, each on its own", () => {
    const late = times(uniformArrivals({ ratePerSecond: 100, jitter: 0.5 }), 100_000).map(
      (atMs, i) => atMs - i * 10,
    );
    expect(Math.min(...late)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...late)).toBeLessThan(5);
    expect(Math.max(...late)).toBeGreaterThan(4.99);
    expect(Math.abs(late.reduce((sum, ms) => sum + ms, 0) / late.length - 2.5)).toBeLessThan(0.06);
  });
});

describe("on-off arrivals", () => {
  it("come in busy phases only, the first at the start", () => {
    const process = onOffArrivals({ onMs: 100, offMs: 900, onRatePerSecond: 50, base: "uniform" });
    expect(times(process, 2100)).toEqual([
      0, 20, 40, 60, 80, 1000, 1020, 1040, 1060, 1080, 2000, 2020, 2040, 2060, 2080,
    ]);
  });

  it("come at both rates", () => {
    const process = onOffArrivals({ onMs: 1000, offMs: 3000, onRatePerSecond: 400, offRatePerSecond: 100 });
    const all = times(process, 400_000, "both");
    const busy = all.filter((atMs) => atMs % 4000 < 1000).length;
    expect(Math.abs(busy - 40_000)).toBeLessThan(4 * Math.sqrt(40_000));
    expect(Math.abs(all.length - busy - 30_000)).toBeLessThan(4 * Math.sqrt(30_000));
  });

  it("have phases of random lengths that are right on average", () => {
    const process = onOffArrivals({
      onMs: 100,
      offMs: 300,
      onRatePerSecond: 1000,
      random: true,
      base: "uniform",
    });
    const all = times(process, 2_000_000, "phases");
    // Five thousand cycles, whose number of arrivals varies by about 1.4 times its mean.
    expect(Math.abs(all.length - 500_000)).toBeLessThan(4 * 1.4 * (500_000 / Math.sqrt(5000)));
    const pauses = all.map((atMs, i) => atMs - (all[i - 1] ?? 0)).filter((gap) => gap > 1.5);
    const mean = pauses.reduce((sum, gap) => sum + gap, 0) / pauses.length;
    expect(Math.abs(mean - 300)).toBeLessThan(20);
  });

  it("have the same phases at every rate", () => {
    const phases = (onRatePerSecond: number) => {
      const all = times(onOffArrivals({ onMs: 500, offMs: 500, onRatePerSecond, random: true }), 20_000);
      return all.filter((atMs, i) => atMs - (all[i - 1] ?? 0) > 20);
    };
    const slow = phases(1000);
    const fast = phases(4000);
    expect(slow.length).toBeGreaterThan(5);
    expect(fast).toHaveLength(slow.length);
    // The first of a phase comes within a few mean gaps.
    for (const [i, atMs] of slow.entries()) expect(Math.abs((fast[i] as number) - atMs)).toBeLessThan(10);
  });

  it("never come when neither phase has any", () => {
    expect(start(onOffArrivals({ onMs: 1, offMs: 1, onRatePerSecond: 0 })).next()).toBeUndefined();
    expect(
      start(onOffArrivals({ onMs: 1, offMs: 1, onRatePerSecond: 0, random: true })).next(),
    ).toBeUndefined();
  });

  it("are found quickly, though most cycles have none", () => {
    const process = onOffArrivals({ onMs: 0.001, offMs: 1, onRatePerSecond: 1000, random: true });
    expect(start(process).next()?.atMs).toBeGreaterThan(0);
  });
});

describe("scheduled arrivals", () => {
  it("change their rate in steps", () => {
    const process = scheduledArrivals(
      [
        { atMs: 100, ratePerSecond: 100 },
        { atMs: 150, ratePerSecond: 0 },
        { atMs: 300, ratePerSecond: 50 },
      ],
      { base: "uniform" },
    );
    expect(times(process, 400)).toEqual([100, 110, 120, 130, 140, 300, 320, 340, 360, 380]);
  });

  it("change their rate in ramps, up and down", () => {
    const process = scheduledArrivals(
      [
        { atMs: 10_000, ratePerSecond: 10, shape: "ramp" },
        { atMs: 20_000, ratePerSecond: 0, shape: "ramp" },
      ],
      { base: "uniform" },
    );
    const all = times(process, 100_000);
    expect(all).toHaveLength(100);
    // After t seconds up, t²/2 customers are expected, and the same from the other end.
    for (let i = 0; i <= 50; i++) expect(all[i]).toBeCloseTo(Math.sqrt(2 * i) * 1000, 6);
    for (let i = 50; i < 100; i++) expect(all[i]).toBeCloseTo(20_000 - Math.sqrt(2 * (100 - i)) * 1000, 6);
  });

  it("carry no long gap from a quiet time into a busy one", () => {
    const process = scheduledArrivals([
      { atMs: 0, ratePerSecond: 0.001 },
      { atMs: 1000, ratePerSecond: 1000 },
    ]);
    for (let seed = 0; seed < 50; seed++) expect(start(process, seed).next()?.atMs).toBeLessThan(1010);
  });

  it("are as many as the area under the rate, also at random", () => {
    const process = scheduledArrivals([
      { atMs: 0, ratePerSecond: 100 },
      { atMs: 50_000, ratePerSecond: 500, shape: "ramp" },
      { atMs: 60_000, ratePerSecond: 200 },
    ]);
    const all = times(process, 100_000, "area");
    for (const [fromMs, toMs, expected] of [
      [0, 25_000, 5000],
      [25_000, 50_000, 10_000],
      [50_000, 60_000, 5000],
      [60_000, 100_000, 8000],
    ] as const) {
      expect(Math.abs(countBetween(all, fromMs, toMs) - expected)).toBeLessThan(4 * Math.sqrt(expected));
    }
  });

  it("are over when the last rate is 0", () => {
    const source = start(
      scheduledArrivals(
        [
          { atMs: 0, ratePerSecond: 100 },
          { atMs: 50, ratePerSecond: 0 },
        ],
        { base: "uniform" },
      ),
    );
    const given = Array.from({ length: 7 }, () => source.next()?.atMs);
    expect(given).toEqual([0, 10, 20, 30, 40, undefined, undefined]);
  });

  it("copy the points", () => {
    const points = [{ atMs: 0, ratePerSecond: 100 }];
    const process = scheduledArrivals(points, { base: "uniform" });
    points[0] = { atMs: 0, ratePerSecond: 1 };
    expect(times(process, 25)).toEqual([0, 10, 20]);
  });
});

describe("a trace", () => {
  it("is sorted by time, and those of one instant keep their order", () => {
    const process = traceArrivals([
      { atMs: 20, tenant: "c" },
      { atMs: 10, tenant: "a" },
      { atMs: 20, tenant: "d" },
      { atMs: 10, tenant: "b" },
    ]);
    expect(until(process, 100).map(({ tenant }) => tenant)).toEqual(["a", "b", "c", "d"]);
    expect(process.description).toBe("trace of 4 arrivals");
  });

  it("gives all that is known of each arrival", () => {
    const arrival: Arrival = {
      atMs: 1,
      serviceMs: 2,
      tenant: "t",
      priority: -3,
      permitCount: 4,
      data: { five: 5 },
    };
    const given = start(traceArrivals([arrival])).next();
    expect(given).toEqual(arrival);
    expect(given?.data).toBe(arrival.data);
  });

  it("is read once, and copied", () => {
    const arrival = { atMs: 1 };
    const process = traceArrivals(
      (function* () {
        yield arrival;
      })(),
    );
    arrival.atMs = 50;
    expect(times(process, 100)).toEqual([1]);
    expect(times(process, 100)).toEqual([1]);
  });

  it("may be empty, and may ask for as many permits as can be counted", () => {
    expect(times(traceArrivals([]), 100)).toEqual([]);
    expect(until(traceArrivals([{ atMs: 0, permitCount: Number.MAX_SAFE_INTEGER }]), 1)).toHaveLength(1);
  });
});

describe("a closed loop", () => {
  it("starts every user once, spread over the time to think", () => {
    const source = start(closedLoopArrivals({ users: 1000, thinkMs: 100 }));
    const first = Array.from({ length: 1000 }, () => source.next()?.atMs as number);
    expect(source.next()).toBeUndefined();
    expect(Math.max(...first)).toBeLessThan(100);
    expect(Math.abs(first.reduce((sum, atMs) => sum + atMs, 0) / 1000 - 50)).toBeLessThan(4);
  });

  it("brings a user back a time to think after the answer, and not before", () => {
    const source = start(closedLoopArrivals({ users: 1, thinkMs: 100 }));
    const first = source.next() as Arrival;
    expect(source.next()).toBeUndefined();
    expect(source.settled?.(first, 777)?.atMs).toBe(877);
    expect(source.next()).toBeUndefined();
  });

  it("draws the time to think", () => {
    const source = start(closedLoopArrivals({ users: 1, thinkMs: exponential(50) }));
    let arrival = source.next() as Arrival;
    let thought = 0;
    for (let i = 0; i < 20_000; i++) {
      const answeredMs = arrival.atMs + 5;
      arrival = source.settled?.(arrival, answeredMs) as Arrival;
      thought += arrival.atMs - answeredMs;
    }
    expect(Math.abs(thought / 20_000 - 50)).toBeLessThan(1.5);
  });

  it("says that it is closed, also when it is one of several tenants", () => {
    const closed = closedLoopArrivals({ users: 1, thinkMs: deterministic(1) });
    const open = poissonArrivals({ ratePerSecond: 1 });
    expect([closed.isClosed, open.isClosed === true]).toEqual([true, false]);
    expect(mergeArrivals({ open, closed }).isClosed).toBe(true);
    expect(mergeArrivals({ open }).isClosed).toBe(false);
  });
});

describe("merged arrivals", () => {
  it("are those of all tenants by time, and by place at the same instant", () => {
    const process = mergeArrivals({
      slow: uniformArrivals({ ratePerSecond: 100 }),
      fast: uniformArrivals({ ratePerSecond: 200 }),
      trace: traceArrivals([
        { atMs: 10, tenant: "ignored", serviceMs: 3, priority: 2, permitCount: 7, data: "d" },
      ]),
    });
    const all = until(process, 16);
    expect(all.map(({ atMs, tenant }) => `${atMs} ${tenant}`)).toEqual([
      "0 slow",
      "0 fast",
      "5 fast",
      "10 slow",
      "10 fast",
      "10 trace",
      "15 fast",
    ]);
    expect(all[5]).toMatchObject({ serviceMs: 3, priority: 2, permitCount: 7, data: "d" });
  });

  it("have the same customers of one tenant whoever the others are", () => {
    const a = poissonArrivals({ ratePerSecond: 100 });
    const b = poissonArrivals({ ratePerSecond: 300 });
    const alone = until(mergeArrivals({ a }), 1000).map(({ atMs }) => atMs);
    const together = until(mergeArrivals({ b, a }), 1000);
    expect(together.filter(({ tenant }) => tenant === "a").map(({ atMs }) => atMs)).toEqual(alone);
    expect(alone).toEqual(
      (() => {
        const source = a.start(createRandom(1, "arrivals:a"));
        return alone.map(() => source.next()?.atMs);
      })(),
    );
  });

  it("keep a thousand tenants in order", () => {
    const parts = Object.fromEntries(
      Array.from({ length: 1000 }, (_, i) => [`t${i}`, poissonArrivals({ ratePerSecond: 1 + (i % 7) })]),
    );
    const all = until(mergeArrivals(parts), 5000);
    expect(Math.abs(all.length - 20_000)).toBeLessThan(4 * Math.sqrt(20_000));
    expect(all.filter(({ atMs }, i) => atMs < (all[i - 1]?.atMs ?? 0))).toEqual([]);
    expect(new Set(all.map(({ tenant }) => tenant)).size).toBeGreaterThan(990);
  });

  it("end when all have ended", () => {
    const source = start(
      mergeArrivals({
        a: traceArrivals([{ atMs: 2 }]),
        b: traceArrivals([]),
        c: traceArrivals([{ atMs: 1 }]),
      }),
    );
    expect([source.next()?.tenant, source.next()?.tenant, source.next(), source.next()]).toEqual([
      "c",
      "a",
      undefined,
      undefined,
    ]);
  });

  it("tell a closed loop, also one within, when its own customers are settled", () => {
    const told: string[] = [];
    const loop = (name: string): ArrivalProcess => ({
      description: name,
      isClosed: true,
      start: () => {
        const arrivals: Arrival[] = [{ atMs: 1, data: name }];
        return {
          next: () => arrivals.shift(),
          settled(arrival, atMs) {
            told.push(`${name} ${String(arrival.data)} ${atMs}`);
            return atMs < 10 ? { atMs: atMs + 1, data: `${name} again` } : undefined;
          },
        };
      },
    });
    const source = start(
      mergeArrivals({ outer: mergeArrivals({ x: loop("x"), y: loop("y") }), z: loop("z") }),
    );
    const [x, y, z] = [source.next(), source.next(), source.next()] as [Arrival, Arrival, Arrival];
    expect([x.tenant, y.tenant, z.tenant]).toEqual(["outer", "outer", "z"]);
    const again = source.settled?.(y, 5) as Arrival;
    expect(again).toMatchObject({ atMs: 6, tenant: "outer", data: "y again" });
    expect(source.settled?.(again, 20)).toBeUndefined();
    source.settled?.(z, 8);
    expect(told).toEqual(["y y 5", "y y again 20", "z z 8"]);
    expect(source.settled?.({ atMs: 0 }, 1)).toBeUndefined();
  });

  it("bring nobody back to an open tenant", () => {
    const source = start(mergeArrivals({ a: traceArrivals([{ atMs: 0 }]) }));
    expect(source.settled?.(source.next() as Arrival, 5)).toBeUndefined();
  });

  it("take any name for a tenant", () => {
    const names = ["__proto__", "", "constructor", "\u0000"];
    const parts = Object.fromEntries(names.map((name) => [name, traceArrivals([{ atMs: 0 }])]));
    expect(until(mergeArrivals(parts), 1).map(({ tenant }) => tenant)).toEqual(names);
  });
});

describe("what cannot be", () => {
  const onOff = { onMs: 1, offMs: 1, onRatePerSecond: 1000 };
  it.each([
    [
      () => poissonArrivals({ ratePerSecond: -1 }),
      "options.ratePerSecond must be a number per second from 0 to 1000000000; got -1.",
    ],
    [() => poissonArrivals({ ratePerSecond: Number.NaN }), "options.ratePerSecond must be"],
    [() => poissonArrivals({ ratePerSecond: 1.1e9 }), "options.ratePerSecond must be"],
    [() => uniformArrivals({ ratePerSecond: Number.POSITIVE_INFINITY }), "options.ratePerSecond must be"],
    [
      () => uniformArrivals({ ratePerSecond: 1, jitter: 1.5 }),
      "options.jitter must be a number from 0 to 1; got 1.5.",
    ],
    [() => onOffArrivals({ ...onOff, onMs: 0 }), "options.onMs must be"],
    [() => onOffArrivals({ ...onOff, offMs: Number.POSITIVE_INFINITY }), "options.offMs must be"],
    [() => onOffArrivals({ ...onOff, onRatePerSecond: -1 }), "options.onRatePerSecond must be"],
    [() => onOffArrivals({ ...onOff, offRatePerSecond: Number.NaN }), "options.offRatePerSecond must be"],
    [
      () => onOffArrivals({ ...onOff, onRatePerSecond: 0.1 }),
      "options.onMs and options.offMs must be long enough",
    ],
    [() => scheduledArrivals([]), "points must have at least one point; got none."],
    [() => scheduledArrivals([{ atMs: -1, ratePerSecond: 1 }]), "points[0].atMs must be"],
    [() => scheduledArrivals([{ atMs: 0, ratePerSecond: -1 }]), "points[0].ratePerSecond must be"],
    [
      () =>
        scheduledArrivals([
          { atMs: 5, ratePerSecond: 1 },
          { atMs: 5, ratePerSecond: 2 },
        ]),
      "points[1].atMs must be above that of the point before, 5; got 5.",
    ],
    [() => traceArrivals([{ atMs: 0 }, { atMs: -1 }]), "records[1].atMs must be"],
    [() => traceArrivals([{ atMs: Number.NaN }]), "records[0].atMs must be"],
    [() => traceArrivals([{ atMs: 0, serviceMs: -1 }]), "records[0].serviceMs must be"],
    [() => traceArrivals([{ atMs: 0, priority: 0.5 }]), "records[0].priority must be a safe integer"],
    [() => traceArrivals([{ atMs: 0, permitCount: 2 ** 53 }]), "records[0].permitCount must be"],
    [
      () => closedLoopArrivals({ users: 0, thinkMs: 1 }),
      "options.users must be an integer from 1 to 1000000; got 0.",
    ],
    [() => closedLoopArrivals({ users: 1.5, thinkMs: 1 }), "options.users must be"],
    [() => closedLoopArrivals({ users: 1, thinkMs: -1 }), "options.thinkMs must be"],
    [() => mergeArrivals({}), "parts must have at least one tenant; got none."],
  ])("is a RangeError that says what is wrong: %#", (make, message) => {
    expect(make).toThrow(RangeError);
    expect(make).toThrow(message);
  });

  it.each([
    [() => poissonArrivals(100 as never), "options must be an object; got 100."],
    [() => poissonArrivals({ ratePerSec: 1 } as never), "did you mean options.ratePerSecond?"],
    [() => poissonArrivals({ ratePerSecond: "1" } as never), 'got "1".'],
    [() => uniformArrivals({ ratePerSecond: 1, jitter: null } as never), "options.jitter must be"],
    [
      () => onOffArrivals({ ...onOff, base: "normal" } as never),
      'options.base must be "poisson" or "uniform"; got "normal".',
    ],
    [() => onOffArrivals({ ...onOff, random: 1 } as never), "options.random must be true or false; got 1."],
    [() => scheduledArrivals({} as never), "points must be an array; got an object."],
    [() => scheduledArrivals([5] as never), "points[0] must be an object; got 5."],
    [
      () => scheduledArrivals([{ atMs: 0, ratePerSecond: 1, shape: "curve" }] as never),
      'points[0].shape must be "step" or "ramp"',
    ],
    [() => scheduledArrivals([{ atMs: 0, ratePerSecond: 1 }], { base: 1 } as never), "options.base must be"],
    [() => traceArrivals(5 as never), "records must be something to iterate over"],
    [() => traceArrivals(null as never), "records must be something to iterate over"],
    [() => traceArrivals([{ atMs: 0, service: 1 }] as never), "records[0].service is not an option"],
    [() => traceArrivals([{ atMs: 0, tenant: 5 }] as never), "records[0].tenant must be a string; got 5."],
    [() => closedLoopArrivals({ users: 1, thinkMs: "1" } as never), "options.thinkMs must be"],
    [
      () => closedLoopArrivals({ users: 1, thinkMs: null } as never),
      "options.thinkMs must be a distribution",
    ],
    [() => closedLoopArrivals({ users: 1, thinkMs: {} } as never), "options.thinkMs must be a distribution"],
    [() => mergeArrivals([] as never), "parts must be an object"],
    [() => mergeArrivals(null as never), "parts must be an object"],
    [() => mergeArrivals({ a: 1 } as never), 'parts["a"] must be an object with start()'],
    [() => checkArrivalProcess("arrivals", { start: () => ({}) }), "arrivals.description must be a string"],
  ])("is a TypeError when it has the wrong type: %#", (make, message) => {
    expect(make).toThrow(TypeError);
    expect(make).toThrow(message);
  });
});
