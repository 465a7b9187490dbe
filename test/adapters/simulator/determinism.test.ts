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
  "no limiter": "95e82c97d7dfda0a967b7be142a69dc0190832f23c28b8a6688cfa6eeb304339",
  "a concurrency limiter with a queue": "69798942e3e1fc01f65e8f2ccd2cf0372f48774a34bfb28654cfa7e3b593b912",
  "a queue that is left by the last": "4a1ef17143f1f8d9e02fb92a411118eea73a83ae575b1b53dab8ab290b37ec8c",
  "processor sharing with troubles": "452620d6e5153476392539ce590f6de1c805b3df0ec6c8b6489cdaaa9996f7ee",
  "a fixed window": "cf4501d9316c5914098990abb69fa404bda6ca42e8f3da38d48c070ef4b03a36",
  "a sliding window": "6c5fb57b3768872539d316e6127e2aba430e36bc23b99d6f378da80d69040166",
  "a token bucket, whose clients wait for their turn":
    "84a1ef51bec26896522a83d28e077f9febbfbf1d79c6c921099997aea5a43a45",
  "one limiter for each tenant": "f93963155ab5538bbb64b87c27a4340710bc50d042cdce447179c0845f85f5ab",
  "a chain": "c93e64e2a4b017717f0dc7793c876667a7d464565de87e68643e573c0f84c98a",
  "a limiter that a user wrote": "bfe22b711dc4a055eac70cf075562952a19c77328e286a2886fe56eed57b3170",
  "a closed loop": "2f6f7a18ad42e3cb0cd2458d8521d25738cc2941ac2237f1386ca2fb8bdffa07",
  "many attempts, of which percentiles are estimates":
    "41ba4cb6cfb3e058c28044b4fb0f851cf745b353cf929fef1ef0868ab211ae25",
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
