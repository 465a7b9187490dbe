import type { RejectionReason } from "headgate";
import type { Summary } from "./summary.js";

/**
 * Why an attempt was refused: the limiter's own reason; `other` when it gave none that is known; `server_queue` and `dequeue`
 * when it was the modelled server's queue that turned the attempt away.
 *
 * @public
 */
export type SimulatedRejection = RejectionReason | "server_queue" | "dequeue" | "other";

/**
 * What became of one attempt.
 *
 * - `delivered`: it finished, and the client was still waiting.
 * - `late`: it finished after the client had given up; wasted work.
 * - `error`: it finished as an error, and the client was still waiting.
 * - `rejected`: it was refused.
 * - `cancelled`: the client gave up, and took it back.
 * - `unfinished`: it was still waiting or running when the run ended.
 *
 * @public
 */
export type AttemptOutcome = "delivered" | "late" | "error" | "rejected" | "cancelled" | "unfinished";

/**
 * One attempt, when it is over. Times are virtual milliseconds; undefined where there is none.
 *
 * @public
 */
export interface AttemptRecord {
  /** The number of the arrival, from 0; retries have the same. */
  readonly id: number;
  /** How many attempts came before for the same arrival: 0 for the first. */
  readonly attempt: number;
  /** For whom; `default` where the arrival does not say. */
  readonly tenant: string;
  /** What became of it. */
  readonly outcome: AttemptOutcome;
  /** Why it was refused; undefined when it was not. */
  readonly reason: SimulatedRejection | undefined;
  /** When the client made it. */
  readonly atMs: number;
  /** When the limiter let it through. */
  readonly grantedMs: number | undefined;
  /** When the server began to work on it. */
  readonly startedMs: number | undefined;
  /** When the client gave up. */
  readonly timedOutMs: number | undefined;
  /** When it was over. */
  readonly endMs: number;
}

/**
 * How often things happened, for the arrivals of the measured period (those after the warm-up). An attempt is one call on the
 * limiter; an arrival has one attempt and one more for each retry.
 *
 * @public
 */
export interface SimulationCounts {
  /** Customers: first attempts. */
  readonly arrivals: number;
  /** `arrivals` and `retries` together. */
  readonly attempts: number;
  /** Attempts after the first of an arrival. */
  readonly retries: number;
  /** Attempts that the limiter let through. */
  readonly admitted: number;
  /** Attempts that the limiter or the server's queue refused. */
  readonly rejected: number;
  /** Attempts that the client took back. */
  readonly cancelled: number;
  /** Attempts that the server finished: `delivered`, `late` and `errors` together. */
  readonly completed: number;
  /** Attempts that finished well, with the client still waiting; at most one for each arrival. */
  readonly delivered: number;
  /** Attempts that finished after the client had given up. */
  readonly late: number;
  /** Attempts that finished as an error, with the client still waiting. */
  readonly errors: number;
  /** Arrivals whose client got no answer and does not try again. */
  readonly gaveUp: number;
  /** Arrivals that the run ended for; `arrivals` is `delivered`, `gaveUp` and `unfinished` together. */
  readonly unfinished: number;
}

/**
 * What happened in the measured period (from `warmupMs` to `durationMs`), for each second of it. Unlike the counts, which
 * follow the arrivals of that period to their end, these go by when something happens, whenever its arrival was: what is
 * finished after the period does not count, and so no server finishes more than it can. An attempt or a refusal at the
 * instant at which the period ends is not in it, work that is finished then is.
 *
 * @public
 */
export interface SimulationRates {
  /** First attempts made. */
  readonly offered: number;
  /** All attempts made. */
  readonly attempts: number;
  /** Attempts that the server finished. */
  readonly completed: number;
  /** Attempts that finished well and in time: what all of this is for. */
  readonly goodput: number;
  /** Attempts that finished too late. */
  readonly late: number;
  /** Attempts that were refused. */
  readonly rejected: number;
}

/**
 * How one tenant fared.
 *
 * @public
 */
export interface TenantResult {
  /** Customers: first attempts. */
  readonly arrivals: number;
  /** Attempts that finished well and in time. */
  readonly delivered: number;
  /** Attempts that were refused. */
  readonly rejected: number;
  /** Attempts that finished too late. */
  readonly late: number;
  /** The 99th percentile of the response time of what was delivered, in milliseconds. */
  readonly p99: number | null;
}

/**
 * The run over time, in buckets of equal length; arrays of equal length. Events are counted when they happen, as rates for each
 * second; a bucket includes what happens at the instant at which it ends. The rest is as it was at the end of the bucket. The
 * warm-up is included. Where `durationMs` is no multiple of `stepMs`, the last bucket may be shorter; its rates are for the time
 * that it has.
 *
 * @public
 */
export interface SimulationSeries {
  /** The length of a bucket, in milliseconds. */
  readonly stepMs: number;
  /** When the first begins. */
  readonly startMs: number;
  /** First attempts a second. */
  readonly offered: readonly number[];
  /** Attempts a second. */
  readonly attempts: readonly number[];
  /** Delivered a second. */
  readonly goodput: readonly number[];
  /** Finished too late, a second. */
  readonly late: readonly number[];
  /** Refused a second. */
  readonly rejected: readonly number[];
  /** Permits that attempts in the server hold; without a limiter, how many attempts there are, if each wants one. */
  readonly permitsInUse: readonly number[];
  /** Attempts that wait for the limiter. */
  readonly limiterQueue: readonly number[];
  /** Attempts in the server beyond its servers. */
  readonly serverQueue: readonly number[];
  /** The limiter's limit; null where there is none, or it cannot be told. */
  readonly limit: readonly (number | null)[];
  /** The median and the 99th percentile of the response times delivered in the bucket, in milliseconds. */
  readonly p50: readonly (number | null)[];
  /** See `p50`. */
  readonly p99: readonly (number | null)[];
}

/**
 * What a run came to. Plain data: `JSON.stringify` gives the same bytes for the same options and seed, on every host.
 *
 * @public
 */
export interface SimulationResult {
  /** The form of this object. */
  readonly format: "headgate-simulation/1";
  /** The seed, as a string. */
  readonly seed: string;
  /** What was run, as words and numbers. */
  readonly setup: SimulationSetup;
  /** How often things happened. */
  readonly counts: SimulationCounts;
  /** Attempts refused, by reason. */
  readonly rejections: Readonly<Record<SimulatedRejection, number>>;
  /** What happened in each second. */
  readonly perSecond: SimulationRates;
  /** Shares from 0 to 1; null where there is nothing to have a share of. */
  readonly ratios: {
    /**
     * `perSecond.goodput` as a share of what the server can do without degradations, by the work that arrivals brought on
     * average; null when that has no bound, or nobody came.
     */
    readonly goodputOfCapacity: number | null;
    /** Attempts that were refused. */
    readonly rejectedOfAttempts: number | null;
    /** Finished work that came too late. */
    readonly wastedOfCompleted: number | null;
    /** Arrivals that got what they wanted. */
    readonly deliveredOfArrivals: number | null;
  };
  /** Times in milliseconds. Each attempt counts from when the client made it, so that waiting counts too. */
  readonly latency: {
    /** From the attempt to its answer, for what was delivered. */
    readonly delivered: Summary;
    /** The same for all that the server finished. */
    readonly completed: Summary;
    /** From the attempt to its permits. */
    readonly limiterWait: Summary;
    /** From its permits to the server's beginning. */
    readonly serverWait: Summary;
    /** From the attempt to its refusal. */
    readonly rejection: Summary;
  };
  /** Means over the measured period; null without servers or time. */
  readonly utilization: {
    /** The share of the servers that was busy, of as many as there were. */
    readonly servers: number | null;
    /** The share of the finished work, by time on the servers, that came too late. */
    readonly wasted: number | null;
  };
  /** Over the measured period. */
  readonly limiter: {
    /** The share of the time in which one more permit would have been refused or had to wait; null when it cannot be told. */
    readonly timeAtLimit: number | null;
    /**
     * The limit on permits that are held at the same time, as the limiter says; null for limiters that have none, such as
     * windows, buckets and chains, and for partitions.
     */
    readonly limitMean: number | null;
    /** See `limitMean`. */
    readonly limitMin: number | null;
    /** See `limitMean`. */
    readonly limitMax: number | null;
    /** The limit at the end of the run. */
    readonly limitEnd: number | null;
    /** Permits that attempts in the server hold. */
    readonly permitsInUseMean: number | null;
    /** See `permitsInUseMean`. */
    readonly permitsInUseMax: number | null;
    /** Attempts that wait for the limiter. */
    readonly queueMean: number | null;
  };
  /** How tenants fared, where arrivals have any. */
  readonly fairness: {
    /** Jain's index over the tenants: 1 when all have the same, 1/n when one of n has it all. */
    readonly jainGoodput: number | null;
    /** The same over the share of arrivals that was delivered. */
    readonly jainSuccessRatio: number | null;
    /** By name. */
    readonly tenants: Readonly<Record<string, TenantResult>>;
  };
  /** The run over time. */
  readonly series: SimulationSeries;
  /** When the run was over, in virtual milliseconds. */
  readonly endMs: number;
  /** How many events it had; this and the wall time tell how fast it was. */
  readonly events: number;
  /** What to know before these numbers are believed. */
  readonly warnings: readonly string[];
}

/**
 * What was run, as words and numbers.
 *
 * @public
 */
export interface SimulationSetup {
  /** The description of the arrivals. */
  readonly arrivals: string;
  /** The description of the service time. */
  readonly service: string;
  /** How many servers; null for infinitely many. */
  readonly servers: number | null;
  /** What happens to more requests than servers. */
  readonly discipline: "fifo" | "lifo" | "ps";
  /** The kind of limiter, such as `ConcurrencyLimiter`; `RateLimiter` for chains and for those of users; null for none. */
  readonly limiter: string | null;
  /** How long clients wait, in milliseconds; null for ever. */
  readonly timeoutMs: number | null;
  /** How often clients try again at most. */
  readonly retries: number;
  /** How long arrivals came, in milliseconds. */
  readonly durationMs: number;
  /** How long the run may go on after that, in milliseconds; null for ever. */
  readonly drainMs: number | null;
  /** Arrivals before this time are not counted, in milliseconds. */
  readonly warmupMs: number;
}

const REJECTIONS: readonly SimulatedRejection[] = [
  "limit_reached",
  "queue_full",
  "queue_timeout",
  "queue_evicted",
  "deadline_unmet",
  "deadline_expired",
  "limiter_disposed",
  "codel",
  "partition_overflow",
  "share_exceeded",
  "server_pause",
  "store_unavailable",
  "priority_shed",
  "pressure",
  "client_unknown",
  "draining",
  "server_queue",
  "dequeue",
  "other",
];

const LIMITER_REASONS: ReadonlySet<unknown> = new Set(
  REJECTIONS.filter((reason) => reason !== "server_queue" && reason !== "dequeue"),
);

/** A limiter's reason; `other` for what is none, which limiters that users wrote may give. */
export function reasonOf(reason: unknown): SimulatedRejection {
  return LIMITER_REASONS.has(reason) ? (reason as SimulatedRejection) : "other";
}

/** One number for each reason, always in the same order. */
export function noRejections(): Record<SimulatedRejection, number> {
  return Object.fromEntries(REJECTIONS.map((reason) => [reason, 0])) as Record<SimulatedRejection, number>;
}
