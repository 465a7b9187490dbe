import {
  LimiterDisposedError,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimiterStatistics,
} from "headgate";
import { type InsideLimiter, inside, type LimiterSnapshot, wrongType } from "../../src/internal.js";
import {
  completionSeries,
  type Frame,
  levelSeries,
  otherSeries,
  rejectionSeriesOf,
  requestSeries,
  shadowSeries,
  windowSeries,
} from "./catalogue.js";

/** Says that there is nothing more to read: the limiter has been disposed. */
export const ENDED: unique symbol = Symbol("ended");

/** Reads what a limiter tells; frames by label of its partitions, undefined where it has none. */
export interface Reader {
  /** The kind of limiter, as an attribute. */
  readonly type: string;
  /** Tells what there is; only what nobody counts in front of it, if asked so. */
  read(
    target: object,
    frameOf: (label: string | undefined) => Frame,
    isCountedInFront: boolean,
  ): typeof ENDED | undefined;
}

const TYPES: Readonly<Record<string, string>> = {
  ConcurrencyLimiter: "concurrency",
  FixedWindowRateLimiter: "fixed_window",
  SlidingWindowRateLimiter: "sliding_window",
  TokenBucketRateLimiter: "token_bucket",
  AdaptiveConcurrencyLimiter: "adaptive_concurrency",
};
/** Those whose leases hold permits until they are disposed. */
const HOLDING = new Set(["concurrency", "adaptive_concurrency"]);

/** Whether leases hold permits of such a limiter. */
export function holdsPermits({ kind }: LimiterSnapshot): boolean {
  return HOLDING.has(TYPES[kind] ?? kind);
}

const SECOND_MS = 1000;

/** What an adaptive limiter has besides the contract; read by shape, so that it is not loaded for those who have none. */
interface Adaptive {
  readonly limit: { describe?(): Readonly<Record<string, unknown>> };
}
interface AdaptiveStatistics extends RateLimiterStatistics {
  readonly permitLimit: number;
  readonly inFlight: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly dropped: number;
  readonly ignored: number;
  readonly bypassed: number;
}

function statisticsOf(target: {
  getStatistics(): RateLimiterStatistics | undefined;
}): RateLimiterStatistics | undefined | typeof ENDED {
  try {
    return target.getStatistics();
  } catch (error) {
    if (error instanceof LimiterDisposedError) return ENDED;
    throw error;
  }
}

/** The four numbers that every limiter tells, as far as it does. */
function addStatistics(frame: Frame, statistics: RateLimiterStatistics, onlyLevels = false): void {
  if (!onlyLevels) {
    frame.add(requestSeries.acquired, statistics.totalSuccessfulLeases);
    frame.add(requestSeries.rejected, statistics.totalFailedLeases);
  }
  frame.add(levelSeries.available, statistics.currentAvailablePermits);
  frame.add(levelSeries.queueUsage, statistics.currentQueuedCount);
}

/** Limiters. */
class LimiterReader implements Reader {
  readonly type: string;
  readonly #snapshot: LimiterSnapshot = {} as LimiterSnapshot;

  constructor(limiter: InsideLimiter) {
    const hasSnapshot = limiter[inside]?.snapshot(this.#snapshot) === true;
    const known = hasSnapshot ? TYPES[this.#snapshot.kind] : undefined;
    if (limiter instanceof NoLimiter) this.type = "noop";
    else this.type = known ?? (limiter[inside] === undefined || hasSnapshot ? "custom" : "composite");
  }

  read(
    target: InsideLimiter,
    frameOf: (label: string | undefined) => Frame,
    isCountedInFront: boolean,
  ): typeof ENDED | undefined {
    const frame = frameOf(undefined);
    const snapshot = this.#snapshot;
    const door = target[inside];
    const wouldHave = target as Partial<Record<"wouldHaveRefused" | "wouldHaveWaited", number>>;
    if (door?.snapshot(snapshot) !== true) {
      const statistics = statisticsOf(target);
      if (statistics === ENDED) return ENDED;
      if (statistics === undefined) return undefined;
      addStatistics(frame, statistics, isCountedInFront);
      return undefined;
    }
    const isShadow = wouldHave.wouldHaveRefused !== undefined;
    if (!isCountedInFront) {
      frame.add(requestSeries.acquired, snapshot.granted);
      frame.add(requestSeries.canceled, snapshot.aborted);
      frame.add(requestSeries.rejected, isShadow ? 0 : snapshot.refused);
      if (!isShadow) {
        door.forEachRefusal?.((reason, count) => {
          if (count > 0) frame.add(rejectionSeriesOf(reason), count);
        });
      }
    }
    if (wouldHave.wouldHaveRefused !== undefined) {
      const waited = wouldHave.wouldHaveWaited as number;
      frame.add(shadowSeries.would_refuse, wouldHave.wouldHaveRefused);
      frame.add(shadowSeries.would_wait, waited);
      if (!isCountedInFront) frame.add(requestSeries.bypassed, wouldHave.wouldHaveRefused + waited);
    }
    if (snapshot.isDisposed) return ENDED;
    this.#addLevels(frame);
    if ("limit" in target) this.#addAdaptive(frame, target, isCountedInFront);
    return undefined;
  }

  #addLevels(frame: Frame): void {
    const { permitLimit, available, isPaused, queuedRequests, queuedPermits, queueLimit } = this.#snapshot;
    frame.add(levelSeries.limit, permitLimit);
    frame.add(levelSeries.available, isPaused ? 0 : Math.max(0, available));
    if (holdsPermits(this.#snapshot)) frame.add(levelSeries.usage, permitLimit - available);
    frame.add(levelSeries.queueLength, queuedRequests);
    frame.add(levelSeries.queueUsage, queuedPermits);
    if (queueLimit < Number.MAX_SAFE_INTEGER) frame.add(levelSeries.queueLimit, queueLimit);
  }

  #addAdaptive(frame: Frame, target: InsideLimiter, isCountedInFront: boolean): void {
    const statistics = target.getStatistics() as AdaptiveStatistics | undefined;
    if (statistics?.inFlight === undefined) return;
    const { permitLimit, inFlight, succeeded, failed, dropped, ignored, bypassed } = statistics;
    frame.values[levelSeries.limit] = permitLimit;
    frame.values[levelSeries.usage] = inFlight;
    frame.add(requestSeries.bypassed, bypassed);
    if (!isCountedInFront) {
      const ended = { success: succeeded, failure: failed, dropped, ignored };
      for (const [outcome, count] of Object.entries(ended)) {
        frame.add(completionSeries[outcome as keyof typeof ended], count);
      }
    }
    addSignals(frame, (target as unknown as Adaptive).limit.describe?.() ?? {});
  }
}

/** The signals of the algorithm of an adaptive limiter. Each has its own; those of the same meaning have one name here. */
function addSignals(frame: Frame, signals: Readonly<Record<string, unknown>>): void {
  const addMs = (series: number, value: unknown): void => {
    if (typeof value === "number") frame.add(series, value / SECOND_MS);
  };
  const add = (series: number, value: unknown): void => {
    if (typeof value === "number") frame.add(series, value);
  };
  addMs(otherSeries.baseline, signals["baselineRttMs"] ?? signals["longRttMs"] ?? signals["noLoadRttMs"]);
  addMs(otherSeries.windowRtt, signals["windowRttMs"]);
  add(otherSeries.allowance, signals["queueSize"]);
  add(otherSeries.gradient, signals["gradient"]);
  add(windowSeries.used, signals["windowsUsed"]);
  add(windowSeries.app_limited, signals["windowsAppLimited"]);
  add(windowSeries.underfilled, signals["windowsUnderfilled"]);
  add(windowSeries.stale, signals["windowsStale"]);
}

/** Anything that tells statistics, such as a limiter whose state is somewhere else. */
class StatisticsReader implements Reader {
  readonly type = "custom";

  read(
    target: { getStatistics(): RateLimiterStatistics | undefined },
    frameOf: (label: string | undefined) => Frame,
  ): typeof ENDED | undefined {
    const statistics = statisticsOf(target);
    if (statistics === ENDED) return ENDED;
    if (statistics !== undefined) addStatistics(frameOf(undefined), statistics);
    return undefined;
  }
}

/** A CoDel filter of a queue of the user's own. */
class FilterReader implements Reader {
  readonly type = "codel_filter";

  read(
    target: { describe(): { readonly droppedCount: number; readonly isDropping: boolean } },
    frameOf: (label: string | undefined) => Frame,
  ): undefined {
    const { droppedCount, isDropping } = target.describe();
    frameOf(undefined).add(otherSeries.codelDrops, droppedCount);
    frameOf(undefined).add(otherSeries.codelDropping, isDropping ? 1 : 0);
  }
}

/** How to read something; PartitionReader is made by whoever knows about labels. */
export function readerOf(target: object): Reader {
  if (target instanceof RateLimiter) return new LimiterReader(target);
  const { describe, getStatistics } = target as Partial<Record<"describe" | "getStatistics", unknown>>;
  if (target instanceof PartitionedRateLimiter) {
    throw wrongType(
      "limiter",
      "a partitioned limiter that was made by PartitionedRateLimiter.create",
      target,
    );
  }
  if (typeof getStatistics === "function") return new StatisticsReader();
  if (typeof describe === "function") return new FilterReader();
  throw wrongType("limiter", "a limiter, or something else with getStatistics() or describe()", target);
}
