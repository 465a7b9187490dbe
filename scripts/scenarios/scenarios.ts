import {
  bimodal,
  type Distribution,
  deterministic,
  exponential,
  lognormal,
  poissonArrivals,
  type ServiceModel,
  type SimulationOptions,
  scheduledArrivals,
} from "headgate/simulator";
import type { Bounds } from "./algorithms.js";
import type { Scenario } from "./run.js";

/*
 * Thirteen kinds of trouble, for algorithms that set a concurrency limit. If not said otherwise: 50 servers, work of 200 ms
 * (exponential), so 250 requests a second at best; clients give up after 5 s, and the server does not notice; nobody waits
 * for the limiter; limits start at 20.
 */

const SERVERS = 50;
const WORK_MS = 200;
const CAPACITY = (SERVERS * 1000) / WORK_MS;
const BOUNDS: Bounds = { initialLimit: 20, minLimit: 4, maxLimit: 1000 };
const S = 1000;

/** Poisson arrivals at so many times the capacity. */
const load = (times: number, capacity = CAPACITY) => poissonArrivals({ ratePerSecond: times * capacity });

function scenario(
  id: string,
  title: string,
  options: Partial<SimulationOptions> & Pick<SimulationOptions, "arrivals" | "durationMs">,
  {
    service,
    capacity = CAPACITY,
    bounds = {},
  }: { service?: Partial<ServiceModel>; capacity?: number; bounds?: Partial<Bounds> } = {},
): Scenario {
  return {
    id,
    title,
    capacity,
    bounds: { ...BOUNDS, ...bounds },
    options: {
      clients: { timeoutMs: 5 * S },
      ...options,
      service: { servers: SERVERS, time: exponential(WORK_MS), ...service },
    },
  };
}

const DISTRIBUTIONS: Readonly<Record<string, Distribution>> = {
  exponential: exponential(WORK_MS),
  deterministic: deterministic(WORK_MS),
  lognormal: lognormal({ meanMs: WORK_MS, sigma: 1 }),
  bimodal: bimodal({ lowShare: 0.9, lowMs: 0.5 * WORK_MS, highMs: 5.5 * WORK_MS }),
};

const big = { service: { servers: 10 * SERVERS }, capacity: 10 * CAPACITY, bounds: { maxLimit: 5000 } };

/** Every ten seconds the server is six times as slow for 300 ms. */
const pauses = Array.from({ length: 30 }, (_, i) => ({
  fromMs: (i + 1) * 10 * S - 300,
  toMs: (i + 1) * 10 * S,
  slowdown: 6,
}));

export const SCENARIOS: readonly Scenario[] = [
  scenario("S1", "ten times the capacity", { arrivals: load(10), durationMs: 120 * S, warmupMs: 30 * S }),
  scenario(
    "S1b",
    "the same with 500 servers",
    { arrivals: load(10, big.capacity), durationMs: 90 * S, warmupMs: 45 * S },
    big,
  ),
  ...Object.entries(DISTRIBUTIONS).map(([name, time]) =>
    scenario(
      `S2 ${name}`,
      `twice the capacity for 15 minutes, ${name} work`,
      { arrivals: load(2), durationMs: 900 * S, warmupMs: 120 * S },
      { service: { time } },
    ),
  ),
  scenario("S3", "no overload: 0.7 of the capacity", {
    arrivals: load(0.7),
    durationMs: 240 * S,
    warmupMs: 60 * S,
  }),
  scenario(
    "S4",
    "work that gets slower the more of it runs",
    { arrivals: load(2), durationMs: 240 * S, warmupMs: 60 * S },
    { service: { discipline: "ps", contention: 1.67 } },
  ),
  scenario(
    "S5",
    "a spike of 30 s, with clients who try again: does it recover?",
    {
      arrivals: scheduledArrivals([
        { atMs: 0, ratePerSecond: 0.8 * CAPACITY },
        { atMs: 60 * S, ratePerSecond: 2.4 * CAPACITY },
        { atMs: 90 * S, ratePerSecond: 0.8 * CAPACITY },
      ]),
      durationMs: 240 * S,
      warmupMs: 150 * S,
      clients: { timeoutMs: S, retries: { max: 3, baseMs: 200, factor: 2, jitter: "full" } },
    },
    { service: { discipline: "ps", contention: 0.5 } },
  ),
  scenario(
    "S6",
    "the capacity halves for five minutes, and comes back",
    { arrivals: load(2), durationMs: 900 * S, warmupMs: 60 * S },
    { service: { degradations: [{ fromMs: 120 * S, toMs: 420 * S, slowdown: 2 }] } },
  ),
  scenario("S7", "ten quiet minutes, then twice the capacity", {
    arrivals: scheduledArrivals([
      { atMs: 0, ratePerSecond: 5 },
      { atMs: 600 * S, ratePerSecond: 2 * CAPACITY },
    ]),
    durationMs: 720 * S,
    warmupMs: 600 * S,
  }),
  scenario(
    "S8",
    "a hiccup of 300 ms every ten seconds",
    { arrivals: load(0.9), durationMs: 300 * S, warmupMs: 60 * S },
    { service: { degradations: pauses } },
  ),
  scenario(
    "S9",
    "a slow, small backend, and a limit that starts too high",
    { arrivals: load(10, 5), durationMs: 600 * S, warmupMs: 120 * S, clients: { timeoutMs: 3 * S } },
    { service: { servers: 5, time: deterministic(1000) }, capacity: 5, bounds: { minLimit: 1 } },
  ),
  scenario(
    "S10",
    "a limit that has to grow from 20 to 500",
    { arrivals: load(2, big.capacity), durationMs: 240 * S, warmupMs: 120 * S },
    big,
  ),
];
