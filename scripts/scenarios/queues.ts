import {
  ConcurrencyLimiter,
  type ConcurrencyLimiterOptions,
  PartitionedRateLimiter,
  RateLimitPartition,
} from "headgate";
import { AdaptiveConcurrencyLimiter, FixedLimit } from "headgate/adaptive";
import {
  exponential,
  mergeArrivals,
  poissonArrivals,
  type SimulatedRequest,
  type SimulationOptions,
  type SimulationResult,
  simulate,
} from "headgate/simulator";
import { mean } from "./run.js";
import type { Target } from "./targets.js";

/*
 * What waits in front of a limit, and who shares it: 50 servers with 200 ms of work each, a limit of 50.
 */

const CAPACITY = 250;
const service = { servers: 50, time: exponential(200) };

/** Rows of cells; the first is the name. */
export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  readonly targets: readonly Target[];
}

function run(
  seed: number,
  options: Pick<SimulationOptions, "arrivals" | "limiter"> & Partial<SimulationOptions>,
) {
  return simulate({ service, durationMs: 120_000, warmupMs: 20_000, seed, ...options });
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

function target(what: string, values: readonly number[], bound: number): Target {
  return {
    what: `${what} ≥ ${percent(bound)}`,
    measured: `${percent(Math.min(...values))} – ${percent(Math.max(...values))}`,
    isMet: values.every((value) => value >= bound),
  };
}

const UNBOUNDED = { queueLimit: 1_000_000 };
const CODEL = { targetMs: 20, intervalMs: 100 };

const QUEUES: Readonly<Record<string, Partial<ConcurrencyLimiterOptions>>> = {
  "oldest first, without a bound": UNBOUNDED,
  "oldest first, 100": { queueLimit: 100 },
  "oldest first, time-out 1 s": { ...UNBOUNDED, queueTimeoutMs: 1000 },
  "newest first, without a bound": { ...UNBOUNDED, queueProcessingOrder: "newestFirst" },
  "newest first, 100": { queueLimit: 100, queueProcessingOrder: "newestFirst" },
  "codel, interval minimum": { ...UNBOUNDED, codel: CODEL },
  "codel, control law": { ...UNBOUNDED, codel: { ...CODEL, form: "controlLaw" } },
};

/** S11: what waits in front of 50 permits when clients give up after 1 s. */
export async function queueTable(seeds: readonly number[]): Promise<Table> {
  const loads = [1.2, 2];
  const goodput: Record<string, number[][]> = {};
  for (const [name, options] of Object.entries(QUEUES)) {
    goodput[name] = [];
    for (const times of loads) {
      const results = await Promise.all(
        seeds.map((seed) =>
          run(seed, {
            arrivals: poissonArrivals({ ratePerSecond: times * CAPACITY }),
            clients: { timeoutMs: 1000 },
            limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 50, clock, ...options }),
          }),
        ),
      );
      goodput[name].push(results.map((result) => result.perSecond.goodput));
    }
  }
  const shares = (name: string, load: number) =>
    (goodput[name]?.[load] ?? []).map((value) => value / CAPACITY);
  return {
    title: "S11: what waits in front of the limit, when clients give up after a second",
    head: ["queue", ...loads.map((times) => `served a second at ${times} × capacity`)],
    rows: Object.entries(goodput).map(([name, cells]) => [
      name,
      ...cells.map((values) => mean(values).toFixed(0)),
    ]),
    targets: [
      target("newest first at 1.2", shares("newest first, without a bound", 0), 0.97),
      target("newest first at 2", shares("newest first, without a bound", 1), 0.97),
      target("interval minimum at 1.2", shares("codel, interval minimum", 0), 0.97),
      target("interval minimum at 2", shares("codel, interval minimum", 1), 0.97),
      target("control law at 1.2", shares("codel, control law", 0), 0.97),
      target("control law at 2", shares("codel, control law", 1), 0.8),
    ],
  };
}

const successOf = ({ fairness }: SimulationResult, tenant: string) => {
  const { delivered = 0, arrivals = 0 } = fairness.tenants[tenant] ?? {};
  return delivered / arrivals;
};

/** S12: live work beside batch work that wants ten times the capacity. */
export async function shareTable(seeds: readonly number[]): Promise<Table> {
  const demands = [0.3, 0.5, 0.65];
  const measure = (live: number, isShared: boolean) =>
    Promise.all(
      seeds.map((seed) =>
        run(seed, {
          arrivals: mergeArrivals({
            live: poissonArrivals({ ratePerSecond: live * CAPACITY }),
            batch: poissonArrivals({ ratePerSecond: 10 * CAPACITY }),
          }),
          clients: { timeoutMs: 5000 },
          limiter: ({ clock }) => {
            const shares = isShared ? { live: 0.7, batch: 0.3 } : {};
            const limiter = new AdaptiveConcurrencyLimiter({ limit: new FixedLimit(50), shares, clock });
            return PartitionedRateLimiter.create(
              ({ tenant }: SimulatedRequest) =>
                RateLimitPartition.get(tenant, (name) => limiter.forShare(name)),
              { clock },
            );
          },
        }),
      ),
    );
  const rows: string[][] = [];
  const targets: Target[] = [];
  for (const isShared of [false, true]) {
    for (const live of demands) {
      const results = await measure(live, isShared);
      const success = results.map((result) => successOf(result, "live"));
      const total = results.map((result) => result.perSecond.goodput);
      const most = Math.max(...results.map((result) => result.limiter.permitsInUseMax ?? 0));
      rows.push([
        isShared ? "live 0.7, batch 0.3" : "none",
        String(live),
        percent(mean(success)),
        mean(total).toFixed(0),
        String(most),
      ]);
      if (!isShared) continue;
      if (live <= 0.5) targets.push(target(`live work served at a demand of ${live}`, success, 0.97));
      targets.push(
        target(
          `served in all at a demand of ${live}, of what can be`,
          total.map((value) => value / CAPACITY),
          0.98,
        ),
      );
    }
  }
  return {
    title: "S12: shares of a limit of 50, with batch work that wants ten times the capacity",
    head: [
      "shares",
      "live work wants, of the capacity",
      "of it served",
      "served a second in all",
      "most in flight",
    ],
    rows,
    targets,
  };
}

const SMALL = Array.from({ length: 10 }, (_, i) => `small ${i + 1}`);

/** S13: ten small clients and one that wants as much as all of them. */
export async function fairnessTable(seeds: readonly number[]): Promise<Table> {
  const rows: string[][] = [];
  const targets: Target[] = [];
  for (const isPerClient of [false, true]) {
    const results = await Promise.all(
      seeds.map((seed) =>
        run(seed, {
          arrivals: mergeArrivals({
            ...Object.fromEntries(
              SMALL.map((name) => [name, poissonArrivals({ ratePerSecond: 0.08 * CAPACITY })]),
            ),
            heavy: poissonArrivals({ ratePerSecond: 0.8 * CAPACITY }),
          }),
          clients: { timeoutMs: 5000 },
          limiter: ({ clock }) =>
            isPerClient
              ? PartitionedRateLimiter.create(
                  ({ tenant }: SimulatedRequest) =>
                    RateLimitPartition.getConcurrencyLimiter(tenant, () => ({ permitLimit: 8, clock })),
                  { clock },
                )
              : new ConcurrencyLimiter({ permitLimit: 50, clock }),
        }),
      ),
    );
    const small = results.map((result) => SMALL.map((name) => successOf(result, name)));
    const jainSmall = small.map(
      (values) =>
        values.reduce((a, b) => a + b, 0) ** 2 / (SMALL.length * values.reduce((a, b) => a + b * b, 0)),
    );
    rows.push([
      isPerClient ? "8 for each client" : "50 for all",
      percent(mean(small.flat())),
      percent(mean(results.map((result) => successOf(result, "heavy")))),
      mean(jainSmall).toFixed(3),
      mean(results.map((result) => result.fairness.jainGoodput ?? 0)).toFixed(2),
      mean(results.map((result) => result.perSecond.goodput)).toFixed(0),
    ]);
    targets.push(
      target(
        `Jain's index of the small ones, ${isPerClient ? "a limit for each" : "one limit"}`,
        jainSmall,
        0.98,
      ),
    );
    if (isPerClient) targets.push(target("small clients served, a limit for each", small.map(mean), 0.95));
  }
  return {
    title: "S13: ten small clients, and one that wants as much as all of them",
    head: [
      "limit",
      "small ones served",
      "heavy one served",
      "Jain, small ones",
      "Jain, all, by what was served",
      "served a second in all",
    ],
    rows,
    targets,
  };
}
