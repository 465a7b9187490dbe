import { describe, expect, it } from "vitest";
import { erlangB, erlangC, littlesLaw, mmck } from "../../../adapters/simulator/queueing-theory.js";
import { relativeError, vectors } from "./vectors.js";

interface QueueingVectors {
  readonly littlesLaw: readonly {
    readonly throughputPerSec: number;
    readonly targetLatencyMs: number;
    readonly limit: number;
  }[];
  readonly erlang: readonly {
    readonly c: number;
    readonly offeredLoad: number;
    readonly erlangB: number;
    readonly erlangC?: number;
  }[];
  readonly mmc: readonly {
    readonly mu: number;
    readonly c: number;
    readonly lambda: number;
    readonly erlangC: number;
    readonly meanResponse: number;
    readonly meanInSystem: number;
  }[];
  readonly mmck: readonly {
    readonly mu: number;
    readonly c: number;
    readonly K: number;
    readonly lambda: number;
    readonly pBlock: number;
    readonly meanInSystem: number;
    readonly meanResponse: number;
  }[];
}

const expected = vectors<QueueingVectors>("queueing");

it("checks all rows", () => {
  const { littlesLaw: little, erlang, mmc, mmck: finite } = expected;
  expect([little, erlang, mmc, finite].map((rows) => rows.length)).toEqual([7, 10, 9, 10]);
});

describe("Little's law", () => {
  it.each(expected.littlesLaw)(
    "takes $limit permits for $throughputPerSec per second at $targetLatencyMs ms",
    ({ throughputPerSec, targetLatencyMs, limit }) => {
      expect(littlesLaw({ throughputPerSecond: throughputPerSec, latencyMs: targetLatencyMs })).toBe(limit);
    },
  );

  it("does not round up what is whole but for the arithmetic", () => {
    expect((0.07 * 100_000) / 1000).toBeGreaterThan(7);
    expect(littlesLaw({ throughputPerSecond: 0.07, latencyMs: 100_000 })).toBe(7);
    expect(littlesLaw({ throughputPerSecond: 1000.001, latencyMs: 100 })).toBe(101);
  });

  it("is at least 1", () => {
    expect(littlesLaw({ throughputPerSecond: 0, latencyMs: 1e-12 })).toBe(1);
  });

  it.each([
    [
      { throughputPerSecond: -1, latencyMs: 1 },
      "options.throughputPerSecond must be a number per second from 0",
    ],
    [{ throughputPerSecond: Number.NaN, latencyMs: 1 }, "options.throughputPerSecond must be"],
    [{ throughputPerSecond: 1, latencyMs: 0 }, "options.latencyMs must be a number of milliseconds above 0"],
    [{ throughputPerSecond: 1, latencyMs: Number.POSITIVE_INFINITY }, "options.latencyMs must be"],
  ])("refuses %j", (options, message) => {
    expect(() => littlesLaw(options)).toThrow(RangeError);
    expect(() => littlesLaw(options)).toThrow(message);
  });

  it("refuses names it does not know", () => {
    expect(() => littlesLaw({ throughputPerSec: 1, latencyMs: 1 } as never)).toThrow(
      new TypeError("options.throughputPerSec is not an option; did you mean options.throughputPerSecond?"),
    );
  });
});

describe("Erlang's formulas", () => {
  it.each(expected.erlang)("hold for $c servers and a load of $offeredLoad", (row) => {
    expect(relativeError(erlangB(row.c, row.offeredLoad), row.erlangB)).toBeLessThan(1e-9);
    if (row.erlangC !== undefined) {
      expect(relativeError(erlangC(row.c, row.offeredLoad), row.erlangC)).toBeLessThan(1e-9);
    } else {
      expect(erlangC(row.c, row.offeredLoad)).toBe(1);
    }
  });

  it.each(expected.mmc)("give the wait of $c servers at $lambda per ms", (row) => {
    const load = row.lambda / row.mu;
    const mustWait = erlangC(row.c, load);
    expect(relativeError(mustWait, row.erlangC)).toBeLessThan(1e-9);
    const response = (1 + mustWait / (row.c - load)) / row.mu;
    expect(relativeError(response, row.meanResponse)).toBeLessThan(1e-9);
    expect(relativeError(response * row.lambda, row.meanInSystem)).toBeLessThan(1e-9);
  });

  it("hold for no load, and for any", () => {
    expect(erlangB(5, 0)).toBe(0);
    expect(erlangC(5, 0)).toBe(0);
    expect(erlangB(5, Number.MAX_VALUE)).toBe(1);
    expect(erlangC(5, Number.MAX_VALUE)).toBe(1);
    expect(erlangB(100_000, 1)).toBe(0);
    expect(erlangC(100_000, 1)).toBe(0);
  });

  it.each([
    [0, 1, "servers must be an integer from 1 to 10000000; got 0."],
    [1.5, 1, "servers must be an integer from 1 to 10000000; got 1.5."],
    [2 ** 53, 1, "servers must be an integer"],
    [Number.NaN, 1, "servers must be an integer"],
    [1, -1, "offeredLoad must be a finite number of at least 0; got -1."],
    [1, Number.NaN, "offeredLoad must be a finite number"],
    [1, Number.POSITIVE_INFINITY, "offeredLoad must be a finite number"],
  ])("refuse %d servers and a load of %d", (servers, load, message) => {
    for (const formula of [erlangB, erlangC]) {
      expect(() => formula(servers, load)).toThrow(RangeError);
      expect(() => formula(servers, load)).toThrow(message);
    }
  });

  it("refuse what is no number", () => {
    expect(() => erlangB("5" as never, 1)).toThrow(TypeError);
    expect(() => erlangC(5, undefined as never)).toThrow(TypeError);
  });
});

describe("the queue with limited room", () => {
  it.each(expected.mmck)("holds for $c servers, room for $K, and $lambda per ms", (row) => {
    const actual = mmck({
      arrivalsPerSecond: row.lambda * 1000,
      serviceMs: 1 / row.mu,
      servers: row.c,
      capacity: row.K,
    });
    expect(relativeError(actual.blockedShare, row.pBlock)).toBeLessThan(1e-9);
    expect(relativeError(actual.meanResponseMs, row.meanResponse)).toBeLessThan(1e-9);
    expect(relativeError(actual.meanInSystem, row.meanInSystem)).toBeLessThan(1e-9);
  });

  it("is Erlang's first formula when there is no room to wait", () => {
    const { blockedShare, meanResponseMs } = mmck({
      arrivalsPerSecond: 400,
      serviceMs: 10,
      servers: 5,
      capacity: 5,
    });
    expect(relativeError(blockedShare, erlangB(5, 4))).toBeLessThan(1e-12);
    expect(relativeError(meanResponseMs, 10)).toBeLessThan(1e-12);
  });

  it("obeys Little's law", () => {
    const room = mmck({ arrivalsPerSecond: 700, serviceMs: 12, servers: 7, capacity: 30 });
    const admittedPerMs = 0.7 * (1 - room.blockedShare);
    expect(relativeError(admittedPerMs * room.meanResponseMs, room.meanInSystem)).toBeLessThan(1e-12);
  });

  it("has an answer at both ends", () => {
    expect(mmck({ arrivalsPerSecond: 0, serviceMs: 10, servers: 2, capacity: 4 })).toEqual({
      blockedShare: 0,
      meanResponseMs: 10,
      meanInSystem: 0,
    });
    expect(
      mmck({ arrivalsPerSecond: 1e9, serviceMs: Number.MAX_SAFE_INTEGER, servers: 1, capacity: 50 }),
    ).toEqual({
      blockedShare: 1,
      meanResponseMs: 50 * Number.MAX_SAFE_INTEGER,
      meanInSystem: 50,
    });
  });

  it.each([
    ["arrivalsPerSecond", -1],
    ["arrivalsPerSecond", 1e10],
    ["serviceMs", 0],
    ["serviceMs", 1e16],
    ["servers", 0],
    ["servers", 1.5],
    ["capacity", 4],
    ["capacity", 10_000_001],
  ])("refuses an %s of %d", (name, value) => {
    const options = { arrivalsPerSecond: 1, serviceMs: 1, servers: 5, capacity: 5, [name]: value };
    expect(() => mmck(options)).toThrow(RangeError);
    expect(() => mmck(options)).toThrow(new RegExp(`^options\\.${name} must be .*; got ${value}\\.$`));
  });
});
