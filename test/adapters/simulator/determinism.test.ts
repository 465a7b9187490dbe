import { createHash } from "node:crypto";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  RateLimitPartition,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import {
  bimodal,
  closedLoopArrivals,
  deterministic,
  exponential,
  lognormal,
  mergeArrivals,
  onOffArrivals,
  pareto,
  poissonArrivals,
  type SimulatedRequest,
  type SimulationOptions,
  scheduledArrivals,
  simulate,
  uniformArrivals,
} from "headgate/simulator";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ForeignSemaphore, trace } from "./support.js";

const poisson = poissonArrivals({ ratePerSecond: 500 });
const retries = { max: 3, baseMs: 20, jitter: "full" } as const;

/** Runs that between them use everything there is. */
const RUNS: Readonly<Record<string, SimulationOptions>> = {
  "no limiter": { arrivals: poisson, service: { servers: 8, time: exponential(15) }, durationMs: 5000 },
  "a concurrency limiter with a queue": {
    arrivals: poisson,
    service: { servers: 4, time: lognormal({ meanMs: 10, sigma: 1 }) },
    clients: { timeoutMs: 100, onTimeout: "cancel-waiting", retries },
    limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 4, queueLimit: 20, clock }),
    durationMs: 5000,
    seed: "two",
  },
  "a queue that is left by the last": {
    arrivals: onOffArrivals({ onMs: 300, offMs: 700, onRatePerSecond: 1500 }),
    service: { servers: 5, time: pareto({ meanMs: 8, alpha: 2.5 }), discipline: "lifo", queueLimit: 30 },
    clients: { timeoutMs: 80, onTimeout: "cancel-all", retries: { ...retries, budgetRatio: 0.2 } },
    limiter: ({ clock }) =>
      new ConcurrencyLimiter({ permitLimit: 20, queueLimit: 9, queueProcessingOrder: "newestFirst", clock }),
    durationMs: 5000,
    warmupMs: 1000,
  },
  "processor sharing with troubles": {
    arrivals: poisson,
    service: {
      servers: 6,
      time: exponential(10),
      discipline: "ps",
      contention: 0.7,
      degradations: [
        { fromMs: 500, toMs: 900, slowdown: 3 },
        { fromMs: 800, toMs: 1000, pause: true },
        { fromMs: 1500, toMs: 2500, failRate: 0.3 },
        { fromMs: 2000, toMs: 3000, servers: 2 },
      ],
    },
    clients: { timeoutMs: 200, retries },
    limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 12, clock }),
    durationMs: 5000,
    seed: 3,
  },
  "a fixed window": {
    arrivals: scheduledArrivals([
      { atMs: 0, ratePerSecond: 100 },
      { atMs: 3000, ratePerSecond: 900, shape: "ramp" },
    ]),
    service: { servers: 50, time: bimodal({ lowShare: 0.9, lowMs: 5, highMs: 55 }) },
    limiter: ({ clock }) =>
      new FixedWindowRateLimiter({
        permitLimit: 100,
        windowMs: 333.3,
        queueLimit: 50,
        queueTimeoutMs: 100,
        clock,
      }),
    durationMs: 5000,
  },
  "a sliding window": {
    arrivals: uniformArrivals({ ratePerSecond: 700, jitter: 0.5 }),
    service: { servers: 50, time: deterministic(7) },
    limiter: ({ clock }) =>
      new SlidingWindowRateLimiter({ permitLimit: 100, windowMs: 250, segmentsPerWindow: 5, clock }),
    clients: { retries: { max: 2, baseMs: 1, retryAfter: "jittered" } },
    durationMs: 5000,
  },
  "a token bucket, whose clients wait for their turn": {
    arrivals: poisson,
    service: { servers: 50, time: exponential(20) },
    limiter: ({ clock }) =>
      new TokenBucketRateLimiter({
        tokenLimit: 30,
        tokensPerPeriod: 3,
        replenishmentPeriodMs: 10,
        queueLimit: 90,
        clock,
      }),
    acquire: { maxWaitMs: 70 },
    durationMs: 5000,
  },
  "one limiter for each tenant": {
    arrivals: mergeArrivals({ a: poisson, b: poissonArrivals({ ratePerSecond: 50 }) }),
    service: { servers: 9, time: exponential(20) },
    limiter: ({ clock }) =>
      PartitionedRateLimiter.create(
        (request: SimulatedRequest) =>
          RateLimitPartition.getConcurrencyLimiter(request.tenant, () => ({
            permitLimit: 4,
            queueLimit: 3,
            clock,
          })),
        { clock },
      ),
    durationMs: 5000,
  },
  "a chain": {
    arrivals: poisson,
    service: { servers: 6, time: exponential(12) },
    limiter: ({ clock }) =>
      RateLimiter.createChained(
        new TokenBucketRateLimiter({ tokenLimit: 50, tokensPerPeriod: 4, replenishmentPeriodMs: 10, clock }),
        new ConcurrencyLimiter({ permitLimit: 6, queueLimit: 6, clock }),
      ),
    durationMs: 2000,
  },
  "a limiter that a user wrote": {
    arrivals: poisson,
    service: { servers: 6, time: exponential(12) },
    clients: { timeoutMs: 60, onTimeout: "cancel-waiting" },
    limiter: () => new ForeignSemaphore(6, 6),
    durationMs: 2000,
  },
  "a closed loop": {
    arrivals: closedLoopArrivals({ users: 40, thinkMs: exponential(60) }),
    service: { servers: 6, time: exponential(12) },
    clients: { timeoutMs: 50 },
    durationMs: 5000,
  },
  "many attempts, of which percentiles are estimates": {
    arrivals: poissonArrivals({ ratePerSecond: 50_000 }),
    service: { servers: 500, time: exponential(8) },
    limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 420, clock }),
    durationMs: 2000,
    stepMs: 50,
  },
};

/** SHA-256 of their results. A change here is a change of what every user sees: say so in the changelog. */
const HASHES: Readonly<Record<string, string>> = {
  "no limiter": "5835710544c64a437e0ee980c66ab0fc2b0217232fa175c3e9a0276ed83d4668",
  "a concurrency limiter with a queue": "dfb0e23c4e680bd2de9b4ee434b7d7f0f5d46c864a9b0a6aace783cc6dfbf38e",
  "a queue that is left by the last": "53320e218c040a23d5ee10ec9509237785cc4f7c94add5dcd7c297fe5d1fa365",
  "processor sharing with troubles": "3a74cde2abe4c5dd44fd37a55a9cf7ed489a3134030d213c9c4539f6ca8d31f7",
  "a fixed window": "45d4ff0e0d20a5cbb3fc6395d0e48c7fb7404fac1bedd4dc77c23e6aae8d7fde",
  "a sliding window": "08d83168a387c884584c253522fa4ab3d1cb9b9cbd7f64c9d9f983eb86550701",
  "a token bucket, whose clients wait for their turn":
    "9947f670bf11f7d94658fd883bc489f423a965a08beea2a0737a46ed31feaddb",
  "one limiter for each tenant": "8a3af7eb01ec55d44b1a7ae2e4f0ce5e069dc9bf9c48f3b549bc62dfd234ccba",
  "a chain": "40b1fd935de12787c622153fab58cbff401ff2431b5e0757d3f3531c01ff35c1",
  "a limiter that a user wrote": "af6e11116994fd27bf57a69a64d2bc2a16f5aba43265a328e2b950451a9d8db9",
  "a closed loop": "77b5b42142c5e2050a37956193af2a6c1f1e875b556bf4ab1747b745fc148dad",
  "many attempts, of which percentiles are estimates":
    "e3a483c47db26b116c400708b647e80108c0898cd142920e769b27f5a7a8e60f",
};

describe("the same options and seed", () => {
  it.each(Object.entries(RUNS))("give the same bytes everywhere: %s", async (name, options) => {
    const text = JSON.stringify(await simulate(options));
    expect(text).toBe(JSON.stringify(await simulate(options)));
    expect(text).not.toMatch(/NaN|Infinity/);
    expect(createHash("sha256").update(text).digest("hex")).toBe(HASHES[name]);
  });

  it("give the same when several runs share the host's turns", async () => {
    const all = [RUNS["a chain"], RUNS["a limiter that a user wrote"], RUNS["a fixed window"]] as const;
    const options = all.map((run) => ({ ...(run as SimulationOptions), onProgress: () => {} }));
    const together = await Promise.all(options.map(simulate));
    for (const [i, run] of options.entries()) {
      expect(JSON.stringify(together[i])).toBe(JSON.stringify(await simulate(run)));
    }
  });

  it("give the same in another time zone and language", async () => {
    const run = RUNS["a closed loop"] as SimulationOptions;
    const here = JSON.stringify(await simulate(run));
    vi.stubEnv("TZ", "Pacific/Chatham");
    vi.stubEnv("LANG", "tr_TR.UTF-8");
    expect(JSON.stringify(await simulate(run))).toBe(here);
    vi.unstubAllEnvs();
  });

  it("another seed gives another run", async () => {
    const run = RUNS["no limiter"] as SimulationOptions;
    const texts = [1, 2, "1 ", "x"].map(async (seed) =>
      JSON.stringify((await simulate({ ...run, seed })).latency),
    );
    expect(new Set(await Promise.all(texts)).size).toBe(4);
    const number = JSON.stringify(await simulate({ ...run, seed: 1 }));
    expect(JSON.stringify(await simulate({ ...run, seed: "1" }))).toBe(number);
  });
});

describe("virtual time", () => {
  afterEach(() => void vi.restoreAllMocks());

  it("is the only time there is: no clock, timer or random number of the host is used", async () => {
    const forbidden = (name: string) => () => {
      throw new Error(`${name} was called`);
    };
    const spies = [
      vi.spyOn(Date, "now").mockImplementation(forbidden("Date.now")),
      vi.spyOn(performance, "now").mockImplementation(forbidden("performance.now")),
      vi.spyOn(Math, "random").mockImplementation(forbidden("Math.random")),
      vi.spyOn(globalThis, "setTimeout").mockImplementation(forbidden("setTimeout") as never),
      vi.spyOn(globalThis, "setInterval").mockImplementation(forbidden("setInterval") as never),
      vi.spyOn(globalThis, "setImmediate").mockImplementation(forbidden("setImmediate") as never),
    ];
    const names = Object.keys(RUNS).filter(
      (name) => !["a chain", "a limiter that a user wrote"].includes(name),
    );
    let failure: unknown;
    let runs = 0;
    try {
      for (const name of names) {
        await simulate(RUNS[name] as SimulationOptions);
        runs += 1;
      }
    } catch (error) {
      failure = error;
    }
    const calls = spies.map((spy) => spy.mock.calls.length);
    for (const spy of spies) spy.mockRestore();
    expect(failure).toBeUndefined();
    expect(calls).toEqual([0, 0, 0, 0, 0, 0]);
    expect(runs).toBe(10);
  });

  it("lets the host have its turns through a message channel where there is no setImmediate", async () => {
    const run = RUNS["a chain"] as SimulationOptions;
    const expected = JSON.stringify(await simulate(run));
    vi.stubGlobal("setImmediate", undefined);
    const texts = [JSON.stringify(await simulate({ ...run, onProgress: () => {} }))];
    vi.stubGlobal("MessageChannel", undefined);
    texts.push(JSON.stringify(await simulate(run)));
    vi.unstubAllGlobals();
    expect(texts).toEqual([expected, expected]);
  });
});

describe("customers", () => {
  it("are the same whatever the limiter does: when they come, and what they want", async () => {
    const service = { servers: Number.POSITIVE_INFINITY, time: exponential(20) };
    const base = { arrivals: poisson, service, durationMs: 3000 };
    const free = await trace(base);
    const half = await trace({
      ...base,
      clients: { retries },
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 5, clock }),
    });
    const first = ({ attempts }: typeof free) => attempts.filter((attempt) => attempt.attempt === 0);
    expect(first(half).map((attempt) => attempt.atMs)).toEqual(first(free).map((attempt) => attempt.atMs));
    const work = new Map(free.attempts.map((attempt) => [attempt.id, attempt.endMs - attempt.atMs]));
    const served = half.attempts.filter((attempt) => attempt.outcome === "delivered");
    expect(served.length).toBeGreaterThan(500);
    expect(served.some((attempt) => attempt.attempt > 0)).toBe(true);
    for (const { id, endMs, grantedMs = 0 } of served)
      expect(endMs - grantedMs).toBeCloseTo(work.get(id) ?? -1, 6);
  });
});
