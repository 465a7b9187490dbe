import {
  deterministic,
  exponential,
  type SimulationOptions,
  simulate,
  traceArrivals,
  uniformArrivals,
} from "headgate/simulator";
import { describe, expect, it } from "vitest";

const BASE: SimulationOptions = {
  arrivals: uniformArrivals({ ratePerSecond: 100 }),
  service: { servers: 1, time: deterministic(1) },
  durationMs: 100,
};

const time = deterministic(1);
const retries = { max: 1, baseMs: 1 };
const outage = { fromMs: 0, toMs: 1 };

type Bad = readonly [path: string, options: unknown];

const ranges: readonly Bad[] = [
  ["options.service.servers", { service: { servers: -1, time } }],
  ["options.service.servers", { service: { servers: 1.5, time } }],
  ["options.service.servers", { service: { servers: Number.NaN, time } }],
  ["options.service.time.mean", { service: { servers: 1, time: { ...time, mean: -1 } } }],
  ["options.service.queueLimit", { service: { servers: 1, time, queueLimit: -1 } }],
  ["options.service.contention", { service: { servers: 1, time, discipline: "ps", contention: -1 } }],
  [
    "options.service.degradations[1].toMs",
    {
      service: {
        servers: 1,
        time,
        degradations: [
          { ...outage, pause: true },
          { fromMs: 5, toMs: 5, pause: true },
        ],
      },
    },
  ],
  [
    "options.service.degradations[0].fromMs",
    { service: { servers: 1, time, degradations: [{ fromMs: -1, toMs: 5, pause: true }] } },
  ],
  [
    "options.service.degradations[0].slowdown",
    { service: { servers: 1, time, degradations: [{ ...outage, slowdown: 0 }] } },
  ],
  [
    "options.service.degradations[0].servers",
    { service: { servers: 1, time, degradations: [{ ...outage, servers: 0.5 }] } },
  ],
  [
    "options.service.degradations[0].failRate",
    { service: { servers: 1, time, degradations: [{ ...outage, failRate: 1.1 }] } },
  ],
  ["options.clients.timeoutMs", { clients: { timeoutMs: 0 } }],
  ["options.clients.timeoutMs", { clients: { timeoutMs: Number.NaN } }],
  ["options.clients.retries.max", { clients: { retries: { ...retries, max: -1 } } }],
  ["options.clients.retries.baseMs", { clients: { retries: { ...retries, baseMs: -1 } } }],
  ["options.clients.retries.factor", { clients: { retries: { ...retries, factor: 0.5 } } }],
  ["options.clients.retries.capMs", { clients: { retries: { ...retries, capMs: -1 } } }],
  ["options.clients.retries.budgetRatio", { clients: { retries: { ...retries, budgetRatio: -1 } } }],
  ["options.acquire.maxWaitMs", { acquire: { maxWaitMs: -1 } }],
  ["options.durationMs", { durationMs: -1 }],
  ["options.durationMs", { durationMs: Number.POSITIVE_INFINITY }],
  ["options.durationMs", { durationMs: Number.NaN }],
  ["options.drainMs", { drainMs: -1 }],
  ["options.warmupMs", { warmupMs: 101 }],
  ["options.stepMs", { stepMs: 0 }],
  ["options.stepMs", { stepMs: 1e-9 }],
  ["options.seed", { seed: Number.POSITIVE_INFINITY }],
  ["options.maxEvents", { maxEvents: 0 }],
];

const types: readonly Bad[] = [
  ["options.duration", { duration: 5 }],
  ["options.arrivals", { arrivals: undefined }],
  ["options.arrivals", { arrivals: 5 }],
  ["options.service", { service: undefined }],
  ["options.service.time", { service: { servers: 1, time: 5 } }],
  ["options.service.server", { service: { server: 1, servers: 1, time } }],
  ["options.service.discipline", { service: { servers: 1, time, discipline: "sjf" } }],
  ["options.service.contention", { service: { servers: 1, time, contention: 1 } }],
  ["options.service.dequeueFilter", { service: { servers: 1, time, dequeueFilter: 5 } }],
  [
    "options.service.dequeueFilter",
    { service: { servers: 1, time, discipline: "ps", dequeueFilter: () => () => true } },
  ],
  ["options.service.degradations", { service: { servers: 1, time, degradations: {} } }],
  ["options.service.degradations[0]", { service: { servers: 1, time, degradations: [outage] } }],
  [
    "options.service.degradations[0]",
    { service: { servers: 1, time, degradations: [{ ...outage, pause: true, slowdown: 2 }] } },
  ],
  [
    "options.service.degradations[0].pause",
    { service: { servers: 1, time, degradations: [{ ...outage, pause: false }] } },
  ],
  ["options.clients", { clients: 5 }],
  ["options.clients.onTimeout", { clients: { onTimeout: "cancel" } }],
  ["options.clients.retries", { clients: { retries: 3 } }],
  ["options.clients.retries.jitter", { clients: { retries: { ...retries, jitter: "half" } } }],
  ["options.clients.retries.on", { clients: { retries: { ...retries, on: "rejected" } } }],
  ["options.clients.retries.on[0]", { clients: { retries: { ...retries, on: ["late"] } } }],
  ["options.clients.retries.retryAfter", { clients: { retries: { ...retries, retryAfter: true } } }],
  ["options.limiter", { limiter: {} }],
  ["options.acquire", { acquire: "attempt" }],
  ["options.acquire.mode", { acquire: { mode: "try" } }],
  ["options.lateVerdict", { lateVerdict: "drop" }],
  ["options.durationMs", { durationMs: "5" }],
  ["options.seed", { seed: {} }],
  ["options.signal", { signal: {} }],
  ["options.onProgress", { onProgress: 1 }],
  ["options.onAttempt", { onAttempt: 1 }],
];

describe("options of a simulation", () => {
  it.each(ranges)("%s out of range is a RangeError that names it: case %#", async (path, options) => {
    const error = await simulate({ ...BASE, ...(options as object) }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(RangeError);
    expect((error as Error).message.startsWith(`${path} must be `)).toBe(true);
  });

  it.each(types)("%s of a wrong kind is a TypeError that names it: case %#", async (path, options) => {
    const error = await simulate({ ...BASE, ...(options as object) }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message.startsWith(path)).toBe(true);
  });

  it("need no service time when every arrival has its own, and say so when one has not", async () => {
    const service = { servers: 1 };
    const arrivals = traceArrivals([{ atMs: 0, serviceMs: 3 }, { atMs: 5 }]);
    const own = await simulate({ ...BASE, service, arrivals: traceArrivals([{ atMs: 0, serviceMs: 3 }]) });
    expect(own.latency.delivered.mean).toBe(3);
    expect(own.setup.service).toBe("as arrivals say");
    await expect(simulate({ ...BASE, service, arrivals })).rejects.toMatchObject({
      message: expect.stringContaining("options.service.time must be given unless every arrival has"),
      cause: expect.any(TypeError),
    });
  });

  it("are refused before anything is asked of them", async () => {
    let started = 0;
    const arrivals = { description: "", start: () => ({ next: () => void started++ }) as never };
    const limiter = () => void started++ as undefined;
    await expect(simulate({ ...BASE, arrivals, limiter, durationMs: -1 })).rejects.toThrow(RangeError);
    expect(started).toBe(0);
  });

  it.each([
    ["very many arrivals at once", { arrivals: uniformArrivals({ ratePerSecond: 1e9 }), maxEvents: 5000 }],
    ["hardly any work", { service: { servers: 1, time: exponential(1e-12) } }],
    ["work without end", { service: { servers: 1, time: exponential(1e15) }, drainMs: 1000 }],
    ["no work", { service: { servers: 1, time: deterministic(0) } }],
    ["odd seeds", { seed: "\u0000" }],
    ["an empty seed", { seed: "" }],
    ["a negative seed", { seed: -1.5 }],
    ["a hair of a step", { durationMs: 1, stepMs: 0.00001 }],
  ] as const)("%s is a run like any other", async (_name, options) => {
    const result = await simulate({ ...BASE, ...options });
    expect(result.counts.arrivals).toBeGreaterThan(0);
    expect(JSON.stringify(result)).not.toMatch(/NaN|Infinity/);
  });

  it("are copied: changing them during the run changes nothing", async () => {
    const degradations = [{ fromMs: 0, toMs: 50, slowdown: 2 }];
    const service = { servers: 1, time: deterministic(1), degradations };
    const expected = JSON.stringify(await simulate({ ...BASE, service }));
    const running = simulate({ ...BASE, service });
    service.servers = 99;
    (degradations[0] as { slowdown: number }).slowdown = 99;
    expect(JSON.stringify(await running)).toBe(expected);
  });
});
