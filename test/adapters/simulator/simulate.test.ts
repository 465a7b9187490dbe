import {
  ConcurrencyLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  RateLimitPartition,
} from "headgate";
import {
  deterministic,
  exponential,
  type LimiterContext,
  pareto,
  poissonArrivals,
  SimulationError,
  type SimulationOptions,
  simulate,
  traceArrivals,
  uniformArrivals,
} from "headgate/simulator";
import { describe, expect, it } from "vitest";
import { ForeignSemaphore, ONE_SERVER, trace } from "./support.js";

const EVERY_10_MS = uniformArrivals({ ratePerSecond: 100 });

const BASE: SimulationOptions = { arrivals: EVERY_10_MS, service: ONE_SERVER, durationMs: 1000 };

describe("what is counted", () => {
  it("are the arrivals before the end, and what becomes of them", async () => {
    const result = await simulate(BASE);
    expect(result.counts).toEqual({
      arrivals: 100,
      attempts: 100,
      retries: 0,
      admitted: 100,
      rejected: 0,
      cancelled: 0,
      completed: 100,
      delivered: 100,
      late: 0,
      errors: 0,
      gaveUp: 0,
      unfinished: 0,
    });
    expect(result.perSecond).toMatchObject({ offered: 100, goodput: 100, rejected: 0 });
    expect(result.ratios).toMatchObject({
      goodputOfCapacity: 1,
      deliveredOfArrivals: 1,
      wastedOfCompleted: 0,
    });
    expect(result.latency.delivered).toMatchObject({ count: 100, min: 10, max: 10, mean: 10 });
    expect(result.latency.rejection).toMatchObject({ count: 0, mean: null, p99: null });
    expect(result.setup).toMatchObject({ servers: 1, limiter: null, timeoutMs: null });
  });

  it("as rates is what happens in the measured period: no server finishes more than it can", async () => {
    // Twice as much as can be served, to patient clients: all is done in the end, half of it after the last arrival.
    const { counts, perSecond, ratios } = await simulate({
      ...BASE,
      service: { servers: 1, time: deterministic(20) },
      warmupMs: 500,
    });
    expect(counts).toMatchObject({ arrivals: 50, delivered: 50 });
    expect(perSecond).toMatchObject({ offered: 100, attempts: 100, completed: 50, goodput: 50, late: 0 });
    expect(ratios).toMatchObject({ goodputOfCapacity: 1, deliveredOfArrivals: 1 });
  });

  it("as rates has retries and refusals when they happen, whoever came when", async () => {
    const { counts, perSecond } = await simulate({
      ...BASE,
      arrivals: traceArrivals([{ atMs: 390 }, { atMs: 990 }]),
      clients: { retries: { max: 1, baseMs: 20 } },
      limiter: () => new ForeignSemaphore(0),
      durationMs: 1000,
      warmupMs: 400,
    });
    expect(counts).toMatchObject({ arrivals: 1, attempts: 2, rejected: 2 });
    // The retry at 410 of who came in the warm-up, and the first attempt at 990; not that at 1010.
    expect(perSecond.attempts).toBeCloseTo(2 / 0.6, 9);
    expect(perSecond.rejected).toBeCloseTo(2 / 0.6, 9);
    expect(perSecond.offered).toBeCloseTo(1 / 0.6, 9);
  });

  it("measures capacity by the work that has come", async () => {
    const arrivals = traceArrivals(Array.from({ length: 1000 }, (_, i) => ({ atMs: i, serviceMs: 10 })));
    const { ratios, warnings } = await simulate({
      ...BASE,
      arrivals,
      service: { servers: 10, time: deterministic(200) },
      clients: { timeoutMs: 1000 },
    });
    expect(ratios.goodputOfCapacity).toBeCloseTo(0.991, 9);
    expect(warnings).toEqual([]);
  });

  it("leaves out who came during the warm-up, but not from the series", async () => {
    const result = await simulate({ ...BASE, warmupMs: 400, stepMs: 100 });
    expect(result.counts).toMatchObject({ arrivals: 60, delivered: 60 });
    expect(result.perSecond.goodput).toBeCloseTo(100, 9);
    expect(result.series.offered.slice(0, 4)).toEqual([110, 100, 100, 100]);
  });

  it("calls those unfinished for whom there was no time left", async () => {
    const slow = { ...BASE, service: { servers: 1, time: deterministic(30) } };
    // 33 are done in 1000 ms, the 34th in 20 more.
    const cut = await simulate({ ...slow, drainMs: 20 });
    expect(cut.counts).toMatchObject({ arrivals: 100, delivered: 34, unfinished: 66 });
    expect(cut.endMs).toBe(1020);
    const patient = await simulate({ ...slow, drainMs: Number.POSITIVE_INFINITY });
    expect(patient.counts).toMatchObject({ delivered: 100, unfinished: 0 });
    expect(patient.endMs).toBe(3000);
  });

  it("drains for the client's timeout by default, and at least ten times the mean service time", async () => {
    const slow = { ...BASE, service: { servers: 1, time: deterministic(30) } };
    expect((await simulate({ ...slow, clients: { timeoutMs: 500 } })).setup.drainMs).toBe(500);
    expect((await simulate({ ...slow, clients: { timeoutMs: 50 } })).setup.drainMs).toBe(300);
    expect((await simulate(slow)).setup.drainMs).toBeNull();
  });

  it("of an empty run is nothing, without a division by nothing", async () => {
    for (const options of [
      { ...BASE, durationMs: 0 },
      { ...BASE, arrivals: traceArrivals([]) },
      { ...BASE, arrivals: uniformArrivals({ ratePerSecond: 0 }) },
    ]) {
      const result = await simulate(options);
      expect(result.counts).toMatchObject({ arrivals: 0, attempts: 0, completed: 0 });
      expect(result.ratios.deliveredOfArrivals).toBeNull();
      expect(JSON.stringify(result)).not.toMatch(/NaN|Infinity/);
    }
  });

  it("tells tenants apart where arrivals have them", async () => {
    const result = await simulate({
      ...BASE,
      arrivals: traceArrivals([
        { atMs: 0, tenant: "__proto__", serviceMs: 5 },
        { atMs: 1, tenant: "b", serviceMs: 50 },
        { atMs: 2, tenant: "b", serviceMs: 50 },
      ]),
      clients: { timeoutMs: 60 },
    });
    expect(Object.entries(result.fairness.tenants)).toEqual([
      ["__proto__", { arrivals: 1, delivered: 1, rejected: 0, late: 0, p99: 5 }],
      ["b", { arrivals: 2, delivered: 1, rejected: 0, late: 1, p99: 54 }],
    ]);
    expect(result.fairness).toMatchObject({ jainGoodput: 1, jainSuccessRatio: 0.9 });
    expect((await simulate(BASE)).fairness).toEqual({
      jainGoodput: null,
      jainSuccessRatio: null,
      tenants: {},
    });
  });
});

describe("the series", () => {
  it("has what happened in each bucket, and what stood at its end", async () => {
    const { series } = await simulate({
      arrivals: traceArrivals([
        { atMs: 0, serviceMs: 15 },
        { atMs: 1, serviceMs: 15 },
        { atMs: 2, serviceMs: 15 },
      ]),
      service: ONE_SERVER,
      clients: { timeoutMs: 20 },
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock }),
      durationMs: 40,
      stepMs: 10,
    });
    expect(series).toEqual({
      stepMs: 10,
      startMs: 0,
      offered: [300, 0, 0, 0],
      attempts: [300, 0, 0, 0],
      goodput: [0, 100, 0, 0],
      late: [0, 0, 100, 0],
      rejected: [100, 0, 0, 0],
      permitsInUse: [1, 1, 0, 0],
      limiterQueue: [1, 0, 0, 0],
      serverQueue: [0, 0, 0, 0],
      limit: [1, 1, 1, 1],
      p50: [null, 15, null, null],
      p99: [null, 15, null, null],
    });
  });

  it("has rates for the time that a shorter last bucket has", async () => {
    const { series } = await simulate({ ...BASE, durationMs: 1050, stepMs: 100 });
    expect(series.offered).toEqual([110, ...Array.from({ length: 9 }, () => 100), 80]);
    expect(series.goodput.at(-1)).toBe(100);
  });

  it.each([
    ["a server without servers", { service: { servers: 0, time: deterministic(10) } }],
    [
      "a pause without end",
      {
        service: {
          ...ONE_SERVER,
          degradations: [{ fromMs: 0, toMs: Number.POSITIVE_INFINITY, pause: true as const }],
        },
      },
    ],
    [
      "partitions in front of such a server",
      {
        service: { servers: 0, time: deterministic(10) },
        limiter: ({ clock }: LimiterContext) =>
          PartitionedRateLimiter.create(
            () => RateLimitPartition.getConcurrencyLimiter("all", () => ({ permitLimit: 5, clock })),
            { clock },
          ),
      },
    ],
  ])("ends with the arrivals when nothing more can happen: %s", async (_name, options) => {
    const { counts, endMs, series } = await simulate({ ...BASE, ...options });
    expect(counts).toMatchObject({ arrivals: 100, completed: 0 });
    expect(endMs).toBeLessThanOrEqual(1005);
    expect(series.offered.length).toBeLessThanOrEqual(201);
  });

  it("goes on while work is left, and has 200 buckets of the time of arrivals", async () => {
    const { series } = await simulate({ ...BASE, service: { servers: 1, time: deterministic(20) } });
    expect(series.stepMs).toBe(5);
    expect(series.goodput).toHaveLength(400);
    expect(series.serverQueue[199]).toBe(49);
    expect(series.limit[0]).toBeNull();
  });

  it("follows a limit that moves", async () => {
    const { result } = await trace({
      ...BASE,
      limiter: ({ clock }) => {
        const limiter = new ConcurrencyLimiter({ permitLimit: 8, clock });
        clock.setTimer(() => {
          limiter.permitLimit = 2;
        }, 500);
        return limiter;
      },
      stepMs: 250,
    });
    expect(result.series.limit.slice(0, 4)).toEqual([8, 2, 2, 2]);
    expect(result.limiter).toMatchObject({ limitMin: 2, limitMax: 8, limitEnd: 2, limitMean: 5 });
  });

  it("knows no limit where there is none", async () => {
    const { limiter, series } = await simulate({ ...BASE, limiter: () => new NoLimiter() });
    expect(limiter).toMatchObject({ limitMean: null, limitEnd: null, timeAtLimit: 0 });
    expect(series.limit.every((limit) => limit === null)).toBe(true);
  });
});

describe("warnings", () => {
  const warningsOf = async (options: Partial<SimulationOptions>) =>
    (await simulate({ ...BASE, ...options })).warnings.join("\n");

  it("say when nothing limits too much load, and when it will all be in vain", async () => {
    const overload = {
      arrivals: poissonArrivals({ ratePerSecond: 2500 }),
      service: { servers: 50, time: deterministic(200) },
      clients: { timeoutMs: 5000 },
      durationMs: 4000,
    };
    expect(await warningsOf(overload)).toMatch(/9\.77 times the capacity .* after about 5\.5 s/);
    const limiter: SimulationOptions["limiter"] = ({ clock }) =>
      new ConcurrencyLimiter({ permitLimit: 50, clock });
    expect(await warningsOf({ ...overload, limiter })).not.toContain("times the capacity");
    const { clients, service } = overload;
    const harmless: readonly Partial<SimulationOptions>[] = [
      { service: { ...service, queueLimit: 50 } },
      { service: { ...service, discipline: "lifo" } },
      { service: { ...service, servers: 0 } },
      { service: { ...service, servers: Number.POSITIVE_INFINITY } },
      { service: { ...service, dequeueFilter: () => (enqueuedAtMs, nowMs) => nowMs - enqueuedAtMs > 4000 } },
      { service: { ...service, degradations: [{ fromMs: 0, toMs: 9000, servers: 500 }] } },
      { clients: { ...clients, onTimeout: "cancel-all" } },
      { clients: {}, drainMs: 1000 },
    ];
    for (const part of harmless)
      expect(await warningsOf({ ...overload, ...part })).not.toContain("times the capacity");
    for (const discipline of ["fifo", "ps"] as const) {
      const cancelling = { ...clients, onTimeout: "cancel-waiting" } as const;
      const doomed = { service: { ...service, discipline }, clients: cancelling };
      expect(await warningsOf({ ...overload, ...doomed })).toContain("times the capacity");
    }
  });

  it("say when numbers are weak", async () => {
    expect(await warningsOf({ durationMs: 100 })).toContain("Only 10 were delivered");
    const nearCapacity = {
      arrivals: poissonArrivals({ ratePerSecond: 98 }),
      service: { servers: 1, time: exponential(10) },
      durationMs: 20_000,
    };
    expect(await warningsOf(nearCapacity)).toContain("known to ±");
    expect(
      await warningsOf({ ...nearCapacity, arrivals: poissonArrivals({ ratePerSecond: 5 }), durationMs: 2e6 }),
    ).toBe("");
    const service = { servers: 1, time: pareto({ meanMs: 1, alpha: 1.5 }) };
    expect(await warningsOf({ service })).toContain("infinite variance");
  });

  it("say when the first arrival comes after the end", async () => {
    const arrivals = traceArrivals([{ atMs: 1_700_000_000_000 }, { atMs: 1_700_000_000_005 }]);
    expect(await warningsOf({ arrivals })).toContain(
      "Nobody came: the first arrival is at 1700000000000 ms of virtual time, which begins at 0, and arrivals end at 1000 ms.",
    );
    expect(await warningsOf({ arrivals: traceArrivals([{ atMs: 999 }, { atMs: 5000 }]) })).not.toContain(
      "Nobody",
    );
    // The second one comes later than any clock can tell.
    const rare = await simulate({ ...BASE, arrivals: uniformArrivals({ ratePerSecond: 1e-13 }) });
    expect(rare.counts.arrivals).toBe(1);
  });

  it("say when there are too many tenants to tell apart", async () => {
    const arrivals = traceArrivals(
      Array.from({ length: 10_001 }, (_, i) => ({ atMs: i / 100, tenant: `${i}` })),
    );
    const result = await simulate({ ...BASE, arrivals });
    expect(Object.keys(result.fairness.tenants)).toHaveLength(10_000);
    expect(result.warnings.join()).toContain("Only the first 10000 tenants");
  });

  it("say when the run was ended for having too many events", async () => {
    const result = await simulate({ ...BASE, maxEvents: 50 });
    expect(result.events).toBe(50);
    expect(result.endMs).toBeLessThan(300);
    expect(result.warnings[0]).toContain("after 50 events");
    expect(result.counts.arrivals).toBeGreaterThan(10);
  });
});

describe("the host", () => {
  const LONG = { ...BASE, arrivals: poissonArrivals({ ratePerSecond: 10_000 }), durationMs: 20_000 };

  it("can end a run, which then rejects with the signal's reason", async () => {
    const reason = new Error("enough");
    await expect(simulate({ ...LONG, signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const controller = new AbortController();
    const running = simulate({ ...LONG, signal: controller.signal });
    setImmediate(() => controller.abort(reason));
    await expect(running).rejects.toBe(reason);
  });

  it("is told how far the run is, in steps that only grow, and that changes nothing", async () => {
    const shares: number[] = [];
    const watched = await simulate({ ...LONG, durationMs: 1000, onProgress: (share) => shares.push(share) });
    expect(shares.length).toBeGreaterThan(3);
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    expect(shares.every((share) => share >= 0 && share <= 1)).toBe(true);
    expect(JSON.stringify(watched)).toBe(JSON.stringify(await simulate({ ...LONG, durationMs: 1000 })));
  });

  it.each([
    ["a limiter that a user wrote", () => new ForeignSemaphore(2, 3)],
    [
      "a chain",
      ({ clock }: LimiterContext) =>
        RateLimiter.createChained(
          new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 3, clock }),
          new ConcurrencyLimiter({ permitLimit: 5, clock }),
        ),
    ],
  ])("has its turns also while somebody waits all the time: %s", async (_name, limiter) => {
    const reason = new Error("enough");
    const controller = new AbortController();
    let shares = 0;
    const onProgress = () => {
      shares += 1;
      if (shares === 3) controller.abort(reason);
    };
    const arrivals = poissonArrivals({ ratePerSecond: 300 });
    const running = simulate({
      ...LONG,
      arrivals,
      durationMs: 50_000,
      limiter,
      signal: controller.signal,
      onProgress,
    });
    await expect(running).rejects.toBe(reason);
    expect(shares).toBe(3);
    // Also before the first of the turns that are for progress.
    const early = new AbortController();
    const short = simulate({ ...LONG, arrivals, limiter, signal: early.signal });
    setImmediate(() => early.abort(reason));
    await expect(short).rejects.toBe(reason);
  });

  it("is told of the end, however short the run", async () => {
    const shares: number[] = [];
    await simulate({ ...BASE, durationMs: 50, onProgress: (share) => shares.push(share) });
    expect(shares).toEqual([1]);
    shares.length = 0;
    await simulate({ ...LONG, durationMs: 1000, onProgress: (share) => shares.push(share) });
    expect(shares.filter((share) => share === 1)).toEqual([1]);
    expect(shares.at(-1)).toBe(1);
  });

  it("gets every lease back, and every place in a queue, however the run ends", async () => {
    const fail = () => {
      throw new Error("mine");
    };
    const ends: readonly Partial<SimulationOptions>[] = [
      { onAttempt: ({ id }) => void (id === 600 && fail()) },
      { drainMs: 0, onAttempt: ({ outcome }) => void (outcome === "unfinished" && fail()) },
      { onProgress: fail },
      { onProgress: (share) => void (share === 1 && fail()) },
      {
        service: {
          servers: 2,
          time: exponential(10),
          dequeueFilter: () => (enqueuedAtMs) => enqueuedAtMs > 500 && fail(),
        },
      },
    ];
    for (const end of ends) {
      const own: ConcurrencyLimiter[] = [];
      const foreign = new ForeignSemaphore(3, 9);
      const options = {
        ...BASE,
        arrivals: poissonArrivals({ ratePerSecond: 1000 }),
        service: { servers: 2, time: exponential(10) },
        ...end,
      };
      const limiter = ({ clock }: LimiterContext) => {
        const made = new ConcurrencyLimiter({ permitLimit: 3, queueLimit: 9, clock });
        own.push(made);
        return made;
      };
      await expect(simulate({ ...options, limiter })).rejects.toBeInstanceOf(SimulationError);
      const clients = { timeoutMs: 50, onTimeout: "cancel-waiting" } as const;
      await expect(simulate({ ...options, clients, limiter: () => foreign })).rejects.toThrow("mine");
      expect(own[0]?.getStatistics()).toMatchObject({ currentAvailablePermits: 3, currentQueuedCount: 0 });
      expect(foreign).toMatchObject({ held: 0, waiting: 0 });
    }
    const controller = new AbortController();
    const limiter = new ForeignSemaphore(3, 9);
    const onProgress = () => controller.abort(new Error("enough"));
    const { signal } = controller;
    const run = simulate({
      ...LONG,
      service: { servers: 2, time: exponential(10) },
      signal,
      onProgress,
      limiter: () => limiter,
    });
    await expect(run).rejects.toThrow("enough");
    await Promise.resolve();
    expect(limiter).toMatchObject({ held: 0 });
  });

  it("hears of what its own functions throw", async () => {
    const cause = new Error("mine");
    const fail = () => {
      throw cause;
    };
    const broken: Partial<SimulationOptions>[] = [
      { onAttempt: fail },
      { onProgress: fail },
      { arrivals: { description: "", start: () => ({ next: fail }) } },
      { arrivals: { description: "", start: fail } },
      { service: { servers: 1, time: { mean: 1, description: "", sample: fail } } },
      { service: { ...ONE_SERVER, dequeueFilter: () => fail } },
    ];
    for (const part of broken) {
      const error = await simulate({ ...BASE, ...part }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(SimulationError);
      expect((error as SimulationError).cause).toBe(cause);
    }
  });

  it("hears of what goes wrong when a waiter is served", async () => {
    const cause = new Error("mine");
    let asked = 0;
    const error = await simulate({
      ...BASE,
      arrivals: traceArrivals([{ atMs: 0 }, { atMs: 1 }]),
      service: {
        ...ONE_SERVER,
        dequeueFilter: () => () => {
          asked += 1;
          if (asked === 2) throw cause;
          return false;
        },
      },
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock }),
    }).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ cause, timeMs: 10, requestId: 1 });
  });

  it("is told when arrivals or service times are no times", async () => {
    const arrivals = (...atMs: number[]) => ({
      description: "",
      start: () => {
        const left = atMs.map((time) => ({ atMs: time }));
        return { next: () => left.shift() };
      },
    });
    await expect(simulate({ ...BASE, arrivals: arrivals(5, 4) })).rejects.toThrow(/arrival.atMs/);
    await expect(simulate({ ...BASE, arrivals: arrivals(Number.NaN) })).rejects.toThrow(/arrival.atMs/);
    const time = { mean: 1, description: "", sample: () => -1 };
    await expect(simulate({ ...BASE, service: { servers: 1, time } })).rejects.toThrow(/service time/);
    const permits = { description: "", start: () => ({ next: () => ({ atMs: 0, permitCount: 2 ** 53 }) }) };
    await expect(simulate({ ...BASE, arrivals: permits })).rejects.toThrow(/permitCount/);
  });
});
