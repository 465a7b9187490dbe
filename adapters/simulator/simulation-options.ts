import type { Clock } from "headgate";
import { checkFunction, checkMethods, checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";
import type { ArrivalProcess } from "./arrivals.js";
import { checkMoment, checkSpan, checkString, checkWhole, checkWord } from "./checks.js";
import { type ClientModel, checkClientModel } from "./clients.js";
import { checkDegradation } from "./degradations.js";
import { checkDistribution } from "./distributions.js";
import type { SimulatedLimiter } from "./gate.js";
import type { AttemptRecord } from "./result.js";
import { MOST_BUCKETS } from "./series.js";
import type { ServiceModel } from "./server.js";

/**
 * What a limiter is made with.
 *
 * @public
 */
export interface LimiterContext {
  /**
   * Virtual time: pass it to every limiter that is made, and to partitioned limiters too. The run fails when it sees one
   * that lives by another clock.
   */
  readonly clock: Clock;
  /** Random numbers from 0 to just below 1 of the run's own seed, for limiters that need some. */
  readonly random: () => number;
}

/**
 * Makes the limiter of a run; called once for each run. Undefined for no limiter.
 *
 * @public
 */
export type LimiterFactory = (context: LimiterContext) => SimulatedLimiter;

/**
 * What to simulate.
 *
 * @public
 */
export interface SimulationOptions {
  /** Who comes when. */
  readonly arrivals: ArrivalProcess;
  /** What stands behind the limiter. */
  readonly service: ServiceModel;
  /** How clients behave; by default they wait for ever and do not try again. */
  readonly clients?: ClientModel;
  /** Makes the limiter; without it everybody is let through. */
  readonly limiter?: LimiterFactory | undefined;
  /** How attempts ask the limiter. */
  readonly acquire?: {
    /** `acquire`, the default, waits where the limiter has a queue; `attempt` never waits. */
    readonly mode?: "acquire" | "attempt";
    /** The `maxWaitMs` of each `acquire`, in milliseconds; unbounded by default. */
    readonly maxWaitMs?: number;
  };
  /** What the lease of work that came too late reports; `dropped` by default. Only limiters that learn take notice. */
  readonly lateVerdict?: "dropped" | "success" | "ignored";
  /** How long arrivals come, in milliseconds: finite, at least 0. */
  readonly durationMs: number;
  /**
   * How long the run goes on after that for what is left, in milliseconds; may be infinite. By default the client's timeout,
   * and at least ten times the mean service time: so with clients that never give up (no `timeoutMs`) it goes on until
   * everything is done, however long that takes. It ends earlier when nothing is left, or nothing more can happen.
   */
  readonly drainMs?: number;
  /** Arrivals before this time are not counted, in milliseconds; 0 by default. They are in the series. */
  readonly warmupMs?: number;
  /** Where random numbers start: a finite number or any string; 1 by default. */
  readonly seed?: number | string;
  /** The length of a bucket of the series, in milliseconds; by default a 200th of `durationMs`, and at least 1. */
  readonly stepMs?: number;
  /** The run ends after so many events, with a warning; 50 000 000 by default. */
  readonly maxEvents?: number;
  /** Ends the run: the promise rejects with the signal's reason. What was held is given back to the limiter. */
  readonly signal?: AbortSignal | undefined;
  /** Told now and then which share of the time has passed, from 0 to 1; at the end 1. What it throws ends the run. */
  readonly onProgress?: ((share: number) => void) | undefined;
  /**
   * Told of each attempt when it is over, the warm-up included; for traces and animations. Slows the run down. What it throws
   * ends the run.
   */
  readonly onAttempt?: ((record: AttemptRecord) => void) | undefined;
}

/** The same, checked and complete. */
export interface SimulationSettings {
  readonly arrivals: ArrivalProcess;
  readonly service: ServiceModel;
  readonly clients: ClientModel;
  readonly timeoutMs: number;
  readonly limiter: LimiterFactory | undefined;
  readonly waits: boolean;
  readonly maxWaitMs: number | undefined;
  readonly lateVerdict: "dropped" | "success" | "ignored";
  readonly durationMs: number;
  readonly drainMs: number;
  readonly warmupMs: number;
  readonly seed: number | string;
  readonly stepMs: number;
  readonly maxEvents: number;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((share: number) => void) | undefined;
  readonly onAttempt: ((record: AttemptRecord) => void) | undefined;
}

const OPTION_NAMES: readonly (keyof SimulationOptions)[] = [
  "arrivals",
  "service",
  "clients",
  "limiter",
  "acquire",
  "lateVerdict",
  "durationMs",
  "drainMs",
  "warmupMs",
  "seed",
  "stepMs",
  "maxEvents",
  "signal",
  "onProgress",
  "onAttempt",
];

const SERVICE_NAMES: readonly (keyof ServiceModel)[] = [
  "servers",
  "time",
  "discipline",
  "contention",
  "queueLimit",
  "dequeueFilter",
  "degradations",
];

const DEFAULT_BUCKETS = 200;
const DEFAULT_MAX_EVENTS = 50_000_000;

/** @throws TypeError or RangeError that names the path of what is wrong. */
export function readOptions(options: SimulationOptions): SimulationSettings {
  checkOptionNames(options, OPTION_NAMES);
  const { arrivals, service, clients = {}, limiter, acquire = {}, lateVerdict = "dropped" } = options;
  checkMethods("options.arrivals", arrivals, ["start"]);
  checkServiceModel("options.service", service);
  checkClientModel("options.clients", clients);
  if (limiter !== undefined) checkFunction("options.limiter", limiter);
  checkOptionNames(acquire, ["mode", "maxWaitMs"], "options.acquire");
  const { mode = "acquire", maxWaitMs } = acquire;
  checkWord("options.acquire.mode", mode, ["acquire", "attempt"]);
  if (maxWaitMs !== undefined) checkMoment("options.acquire.maxWaitMs", maxWaitMs);
  checkWord("options.lateVerdict", lateVerdict, ["dropped", "success", "ignored"]);
  const { timeoutMs = Number.POSITIVE_INFINITY } = clients;
  return {
    arrivals,
    service: { ...service, degradations: (service.degradations ?? []).map((trouble) => ({ ...trouble })) },
    clients: { ...clients },
    timeoutMs,
    limiter,
    waits: mode === "acquire",
    maxWaitMs,
    lateVerdict,
    ...readTimes(options, Math.max(timeoutMs, 10 * (service.time?.mean ?? 0))),
    ...readHost(options),
  };
}

function readTimes(options: SimulationOptions, defaultDrainMs: number) {
  const { durationMs, drainMs = defaultDrainMs, warmupMs = 0, stepMs } = options;
  checkMoment("options.durationMs", durationMs);
  if (drainMs !== Number.POSITIVE_INFINITY) checkMoment("options.drainMs", drainMs);
  checkMoment("options.warmupMs", warmupMs);
  const allowed = `at most options.durationMs, ${durationMs}`;
  checkNumber("options.warmupMs", warmupMs, allowed, (n) => n <= durationMs);
  if (stepMs !== undefined) {
    checkSpan("options.stepMs", stepMs);
    const least = durationMs / MOST_BUCKETS;
    checkNumber(
      "options.stepMs",
      stepMs,
      `at least durationMs / ${MOST_BUCKETS}, ${least}`,
      (n) => n >= least,
    );
  }
  return { durationMs, drainMs, warmupMs, stepMs: stepMs ?? Math.max(1, durationMs / DEFAULT_BUCKETS) };
}

function readHost(options: SimulationOptions) {
  const { seed = 1, maxEvents = DEFAULT_MAX_EVENTS, signal, onProgress, onAttempt } = options;
  if (typeof seed !== "string")
    checkNumber("options.seed", seed, "a finite number or a string", Number.isFinite);
  checkString("options.seed", String(seed));
  checkWhole("options.maxEvents", maxEvents, 1);
  if (signal !== undefined && typeof signal?.aborted !== "boolean")
    throw wrongType("options.signal", "an AbortSignal", signal);
  if (onProgress !== undefined) checkFunction("options.onProgress", onProgress);
  if (onAttempt !== undefined) checkFunction("options.onAttempt", onAttempt);
  return { seed, maxEvents, signal, onProgress, onAttempt };
}

function checkServiceModel(path: string, service: unknown): asserts service is ServiceModel {
  checkOptionNames(service, SERVICE_NAMES, path);
  const { servers, time, discipline = "fifo", contention, queueLimit, ...rest } = service as ServiceModel;
  const { dequeueFilter, degradations = [] } = rest;
  if (servers !== Number.POSITIVE_INFINITY) checkWhole(`${path}.servers`, servers, 0);
  if (time !== undefined) checkDistribution(`${path}.time`, time);
  checkWord(`${path}.discipline`, discipline, ["fifo", "lifo", "ps"]);
  if (contention !== undefined) {
    const allowed = "a finite number of at least 0";
    checkNumber(`${path}.contention`, contention, allowed, (n) => n >= 0 && Number.isFinite(n));
    if (discipline !== "ps") throw new TypeError(`${path}.contention goes with discipline "ps" only.`);
  }
  if (queueLimit !== undefined && queueLimit !== Number.POSITIVE_INFINITY)
    checkWhole(`${path}.queueLimit`, queueLimit, 0);
  if (dequeueFilter !== undefined) {
    checkFunction(`${path}.dequeueFilter`, dequeueFilter);
    if (discipline === "ps") throw new TypeError(`${path}.dequeueFilter goes with a queue, not with "ps".`);
  }
  if (!Array.isArray(degradations)) throw wrongType(`${path}.degradations`, "an array", degradations);
  for (const [i, trouble] of degradations.entries()) checkDegradation(`${path}.degradations[${i}]`, trouble);
}
