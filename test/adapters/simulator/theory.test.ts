import { ConcurrencyLimiter, type RateLimiter } from "headgate";
import {
  bimodal,
  type Distribution,
  deterministic,
  erlangB,
  exponential,
  type LimiterContext,
  lognormal,
  pareto,
  poissonArrivals,
  type ServiceModel,
  type SimulationOptions,
  simulate,
  traceArrivals,
} from "headgate/simulator";
import { describe, expect, it } from "vitest";
import { trace } from "./support.js";
import { vectors } from "./vectors.js";

interface Vectors {
  readonly mmc: readonly {
    readonly lambda: number;
    readonly mu: number;
    readonly c: number;
    readonly rho: number;
    readonly erlangC: number;
    readonly meanResponse: number;
    readonly responseP99: number;
    readonly meanInSystem: number;
  }[];
  readonly mmck: readonly {
    readonly lambda: number;
    readonly mu: number;
    readonly c: number;
    readonly K: number;
    readonly pBlock: number;
    readonly meanResponse: number;
  }[];
  readonly mg1: readonly {
    readonly lambda: number;
    readonly service: string;
    readonly meanMs?: number;
    readonly sigma?: number;
    readonly alpha?: number;
    readonly p?: number;
    readonly lowMs?: number;
    readonly highMs?: number;
    readonly rho: number;
    readonly fifoMeanResponse: number;
    readonly psMeanResponse: number;
  }[];
  readonly ddc: readonly {
    readonly arrivals: number;
    readonly interarrivalMs: number;
    readonly serviceMs: number;
    readonly servers: number;
    readonly capacity: number | null;
    readonly rows: readonly {
      readonly at: number;
      readonly start?: number;
      readonly end?: number;
      readonly outcome: "served" | "rejected";
    }[];
  }[];
  readonly fluid: readonly {
    readonly servers: number;
    readonly serviceMs: number;
    readonly lambda: number;
    readonly timeoutMs: number;
    readonly lastUsefulDeliveryMs: number;
  }[];
}

const queueing = vectors<Vectors>("queueing");

/** So many customers at random, with the time they take to come. */
function customers(count: number, lambdaPerMs: number) {
  return {
    arrivals: poissonArrivals({ ratePerSecond: lambdaPerMs * 1000 }),
    durationMs: count / lambdaPerMs,
    drainMs: Number.POSITIVE_INFINITY,
  };
}

const limitOf =
  (permitLimit: number, queueLimit = 0) =>
  ({ clock }: LimiterContext): RateLimiter =>
    new ConcurrencyLimiter({ permitLimit, queueLimit, clock });

/** How far off a share of its right value a number is. */
const deviation = (value: number | null, right: number) => Math.abs((value ?? Number.NaN) / right - 1);

/** The number in the system is the rate times the time that each spends there (Little's law). */
async function simulateAndCheck(options: SimulationOptions) {
  const result = await simulate(options);
  const { completed } = result.latency;
  const rate = completed.count / result.endMs;
  const { durationMs } = options;
  const inSystem = ((result.limiter.permitsInUseMean ?? 0) + (result.limiter.queueMean ?? 0)) * durationMs;
  expect(deviation(inSystem / result.endMs, rate * (completed.mean ?? 0))).toBeLessThan(0.01);
  return result;
}

describe("customers at random, one queue and c servers", () => {
  it.each(queueing.mmc)("wait as long as theory says: $c servers, load $rho", async (row) => {
    const { c, lambda, meanResponse, mu, responseP99, rho } = row;
    const [count, ofMean, ofP99] =
      rho < 0.85 ? [3e5, 0.03, 0.05] : rho < 0.91 ? [1e6, 0.06, 0.08] : [1e6, 0.1, 0.12];
    // So near to capacity one run says little, so it is the mean of three.
    const seeds = rho > 0.91 ? [1, 2, 3] : [1];
    let mean = 0;
    let p99 = 0;
    for (const seed of seeds) {
      const service = { servers: c, time: exponential(1 / mu) };
      const { latency, utilization } = await simulateAndCheck({ ...customers(count, lambda), service, seed });
      expect(utilization.servers).toBeCloseTo(rho, 2);
      mean += (latency.delivered.mean ?? 0) / seeds.length;
      p99 += (latency.delivered.p99 ?? 0) / seeds.length;
    }
    expect(deviation(mean, meanResponse)).toBeLessThan(ofMean);
    expect(deviation(p99, responseP99)).toBeLessThan(ofP99);
  });

  it("have to wait at all as often as Erlang's formula says", async () => {
    for (const { c, erlangC, lambda, mu } of queueing.mmc.filter((row) => row.c === 2 || row.c === 5)) {
      let waited = 0;
      const service = { servers: c, time: exponential(1 / mu) };
      const { counts } = await simulate({
        ...customers(1e5, lambda),
        service,
        onAttempt: ({ grantedMs, startedMs }) => {
          if (startedMs !== grantedMs) waited += 1;
        },
      });
      expect(Math.abs(waited / counts.arrivals - erlangC)).toBeLessThan(0.02);
    }
  });

  it.each(queueing.mmck)("are refused as often as theory says: $c servers, room for $K", async (row) => {
    const { K, c, lambda, meanResponse, mu, pBlock } = row;
    const service = { servers: c, time: exponential(1 / mu) };
    const { latency, ratios } = await simulateAndCheck({
      ...customers(3e5, lambda),
      service,
      limiter: limitOf(c, K - c),
    });
    expect(Math.abs((ratios.rejectedOfAttempts ?? 1) - pBlock)).toBeLessThan(0.005);
    expect(deviation(latency.delivered.mean, meanResponse)).toBeLessThan(0.03);
  });
});

const SHAPES: readonly (readonly [string, Distribution])[] = [
  ["deterministic", deterministic(10)],
  ["exponential", exponential(10)],
  ["lognormal", lognormal({ meanMs: 10, sigma: 1 })],
  ["pareto", pareto({ meanMs: 10, alpha: 2.5 })],
  ["bimodal", bimodal({ lowShare: 0.9, lowMs: 5, highMs: 55 })],
];

describe("the shape of service times", () => {
  it.each(SHAPES)("makes no difference to how many are refused without a queue: %s", async (_name, time) => {
    const { ratios } = await simulateAndCheck({
      ...customers(2e5, 0.4),
      service: { servers: 5, time },
      limiter: limitOf(5),
    });
    expect(erlangB(5, 4)).toBeCloseTo(0.199067, 6);
    expect(Math.abs((ratios.rejectedOfAttempts ?? 1) - 0.199067)).toBeLessThan(0.005);
  });

  it.each(SHAPES)("makes no difference to the mean time in a shared server: %s", async (_name, time) => {
    const service: ServiceModel = { servers: 1, time, discipline: "ps" };
    const { latency } = await simulateAndCheck({ ...customers(2e5, 0.08), service });
    expect(deviation(latency.delivered.mean, 50)).toBeLessThan(0.04);
  });

  it.each(queueing.mg1)("matters to who waits in line: $service, load $rho", async (row) => {
    const { alpha = 3, fifoMeanResponse, highMs = 0, lambda, lowMs = 0, meanMs = 10, p = 1, sigma = 1 } = row;
    const shapes: Readonly<Record<string, Distribution>> = {
      deterministic: deterministic(meanMs),
      exponential: exponential(meanMs),
      lognormal: lognormal({ meanMs, sigma }),
      pareto: pareto({ meanMs, alpha }),
      bimodal: bimodal({ lowShare: p, lowMs, highMs }),
    };
    const time = shapes[row.service] as Distribution;
    const fifo = await simulateAndCheck({ ...customers(3e5, lambda), service: { servers: 1, time } });
    const lifo = await simulateAndCheck({
      ...customers(3e5, lambda),
      service: { servers: 1, time, discipline: "lifo" },
    });
    expect(deviation(fifo.latency.delivered.mean, fifoMeanResponse)).toBeLessThan(0.04);
    // The order makes no difference to the mean, but much to the worst.
    expect(deviation(lifo.latency.delivered.mean, fifo.latency.delivered.mean ?? 0)).toBeLessThan(0.02);
    expect(lifo.latency.delivered.p99).toBeGreaterThan(fifo.latency.delivered.p99 ?? 0);
  });
});

describe("customers at even distances, with work that is always the same", () => {
  const title = "$arrivals every $interarrivalMs ms, $serviceMs ms, servers $servers, room for $capacity";

  it.each(queueing.ddc)(`are served exactly when they should be: ${title}`, async (row) => {
    const { capacity, interarrivalMs, rows, serviceMs, servers } = row;
    const options: SimulationOptions = {
      arrivals: traceArrivals(Array.from({ length: row.arrivals }, (_, i) => ({ atMs: i * interarrivalMs }))),
      service: { servers, time: deterministic(serviceMs) },
      durationMs: 1000,
    };
    const room = (capacity ?? Number.POSITIVE_INFINITY) - servers;
    const queueLimit = Math.min(room, 1e6);
    const runs = [
      await trace({ ...options, limiter: limitOf(servers, queueLimit) }),
      await trace({ ...options, service: { ...options.service, queueLimit: room } }),
    ];
    for (const { attempts } of runs) {
      expect(
        attempts.map((attempt) => ({
          at: attempt.atMs,
          ...(attempt.outcome === "delivered"
            ? { start: attempt.startedMs, end: attempt.endMs, response: attempt.endMs - attempt.atMs }
            : {}),
          outcome: attempt.outcome === "delivered" ? "served" : attempt.outcome,
        })),
      ).toEqual(rows);
    }
  });
});

describe("more load than capacity, and nothing that limits it", () => {
  it.each(queueing.fluid)("is in vain after as long as a fluid would take: $servers servers", async (row) => {
    const { lambda, lastUsefulDeliveryMs, serviceMs, servers, timeoutMs } = row;
    let last = 0;
    const result = await simulate({
      arrivals: poissonArrivals({ ratePerSecond: lambda * 1000 }),
      service: { servers, time: deterministic(serviceMs) },
      clients: { timeoutMs },
      durationMs: 2 * lastUsefulDeliveryMs,
      onAttempt: ({ endMs, outcome }) => {
        if (outcome === "delivered") last = Math.max(last, endMs);
      },
    });
    expect(deviation(last, lastUsefulDeliveryMs)).toBeLessThan(0.15);
    expect(result.counts.late).toBeGreaterThan(result.counts.delivered);
  });
});
