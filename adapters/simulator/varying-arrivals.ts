import { checkOptionNames, wrongType } from "../../src/internal.js";
import type { ArrivalProcess, ArrivalSource } from "./arrivals.js";
import { evenly, independently, inTurn, type RateCurve, type RateSegment } from "./arrivals-by-rate.js";
import { checkBoolean, checkMoment, checkRate, checkSpan, checkWord } from "./checks.js";
import type { RandomSource } from "./random.js";

const BASES = ["poisson", "uniform"] as const;

/** Below this many arrivals in a cycle of two phases, the search for the next one would take longer than a run. */
const FEWEST_IN_A_CYCLE = 0.001;

/**
 * Options of {@link onOffArrivals}.
 *
 * @public
 */
export interface OnOffArrivalsOptions {
  /** How long a busy phase is, in milliseconds, above 0; with `random`, on average. The run starts with one. Required. */
  readonly onMs: number;
  /** How long a quiet phase is, in milliseconds, above 0; with `random`, on average. Required. */
  readonly offMs: number;
  /** Arrivals per second in a busy phase: from 0 to 1 000 000 000. Required. */
  readonly onRatePerSecond: number;
  /** Arrivals per second in a quiet phase: from 0 to 1 000 000 000; 0 by default. */
  readonly offRatePerSecond?: number | undefined;
  /** Whether the lengths of the phases are drawn, exponentially distributed; false by default. */
  readonly random?: boolean | undefined;
  /** How arrivals are spread within a phase: as independent customers (`poisson`, the default) or evenly (`uniform`). */
  readonly base?: "poisson" | "uniform" | undefined;
}

/**
 * Busy and quiet phases by turns, as with batch jobs, or a cache that is filled anew.
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range; RangeError also
 * when there is less than one arrival in a thousand cycles of both phases, but not none at all.
 *
 * @public
 */
export function onOffArrivals(options: OnOffArrivalsOptions): ArrivalProcess {
  checkOptionNames(options, ["onMs", "offMs", "onRatePerSecond", "offRatePerSecond", "random", "base"]);
  const {
    onMs,
    offMs,
    onRatePerSecond,
    offRatePerSecond = 0,
    random: isRandom = false,
    base = "poisson",
  } = options;
  checkSpan("options.onMs", onMs);
  checkSpan("options.offMs", offMs);
  checkRate("options.onRatePerSecond", onRatePerSecond);
  checkRate("options.offRatePerSecond", offRatePerSecond);
  checkBoolean("options.random", isRandom);
  checkWord("options.base", base, BASES);
  const perCycle = (onMs * onRatePerSecond + offMs * offRatePerSecond) / 1000;
  if (perCycle > 0 && perCycle < FEWEST_IN_A_CYCLE) {
    throw new RangeError(
      `options.onMs and options.offMs must be long enough for ${FEWEST_IN_A_CYCLE} arrivals together; got ${perCycle}.`,
    );
  }
  const phases = [segment(onMs, onRatePerSecond), segment(offMs, offRatePerSecond)] as const;
  const lengths = `${onMs} ms and ${offRatePerSecond} per second for ${offMs} ms`;
  return {
    description: `on and off, ${base}, ${onRatePerSecond} per second for ${lengths}${isRandom ? " on average" : ""}`,
    start(random) {
      if (perCycle === 0) return NOBODY;
      return start(base, random, byTurns(phases, isRandom ? random.fork("phases") : undefined));
    },
  };
}

/**
 * From when on how many arrive per second, in {@link scheduledArrivals}.
 *
 * @public
 */
export interface RatePoint {
  /** When, in milliseconds since the start of the run: at least 0, and later than the point before. */
  readonly atMs: number;
  /** Arrivals per second from then on: from 0 to 1 000 000 000. */
  readonly ratePerSecond: number;
  /**
   * How the rate gets there: all at once (`step`, the default), or evenly since the point before (`ramp`). Before the first
   * point there is nobody, so a ramp to it starts at 0.
   */
  readonly shape?: "step" | "ramp" | undefined;
}

/**
 * Options of {@link scheduledArrivals}.
 *
 * @public
 */
export interface ScheduledArrivalsOptions {
  /** How arrivals are spread: as independent customers (`poisson`, the default) or evenly (`uniform`). */
  readonly base?: "poisson" | "uniform" | undefined;
}

/**
 * A rate that changes at given times, in steps or ramps: a spike, a morning, a day. After the last point it stays.
 *
 * @throws TypeError or RangeError when a point or an option has the wrong type, an unknown name, or is out of range; the
 * message says which, as `points[2].atMs`.
 *
 * @example
 * ```ts
 * import { scheduledArrivals } from "headgate/simulator";
 *
 * const spike = scheduledArrivals([
 *   { atMs: 0, ratePerSecond: 200 },
 *   { atMs: 30_000, ratePerSecond: 2000 },
 *   { atMs: 40_000, ratePerSecond: 2000 },
 *   { atMs: 60_000, ratePerSecond: 200, shape: "ramp" },
 * ]);
 * ```
 *
 * @public
 */
export function scheduledArrivals(
  points: readonly RatePoint[],
  options: ScheduledArrivalsOptions = {},
): ArrivalProcess {
  checkOptionNames(options, ["base"]);
  const { base = "poisson" } = options;
  checkWord("options.base", base, BASES);
  const segments = segmentsOf(points);
  const last = points.at(-1) as RatePoint;
  return {
    description: `${base}, rate set at ${points.length} times, in the end ${last.ratePerSecond} per second`,
    start: (random) => start(base, random, inTurn(segments)),
  };
}

function segmentsOf(points: readonly RatePoint[]): readonly RateSegment[] {
  if (!Array.isArray(points)) throw wrongType("points", "an array", points);
  if (points.length === 0) throw new RangeError("points must have at least one point; got none.");
  const segments: RateSegment[] = [];
  let lastMs = 0;
  let rate = 0;
  for (const [i, point] of points.entries()) {
    checkOptionNames(point, ["atMs", "ratePerSecond", "shape"], `points[${i}]`);
    const { atMs, ratePerSecond, shape = "step" } = point as RatePoint;
    checkMoment(`points[${i}].atMs`, atMs);
    if (i > 0 && atMs <= lastMs) {
      throw new RangeError(
        `points[${i}].atMs must be above that of the point before, ${lastMs}; got ${atMs}.`,
      );
    }
    checkRate(`points[${i}].ratePerSecond`, ratePerSecond);
    checkWord(`points[${i}].shape`, shape, ["step", "ramp"]);
    if (atMs > lastMs) segments.push(segment(atMs - lastMs, rate, shape === "ramp" ? ratePerSecond : rate));
    lastMs = atMs;
    rate = ratePerSecond;
  }
  segments.push(segment(Number.POSITIVE_INFINITY, rate));
  return segments;
}

/** Nobody comes. */
const NOBODY: ArrivalSource = { next: () => undefined };

function start(base: "poisson" | "uniform", random: RandomSource, curve: RateCurve): ArrivalSource {
  return base === "poisson" ? independently(random, curve) : evenly(random, curve);
}

function segment(lengthMs: number, startRate: number, endRate = startRate): RateSegment {
  return { lengthMs, startRate, endRate };
}

/** Two phases by turns; their lengths are drawn if there is something to draw from. */
function byTurns(phases: readonly [RateSegment, RateSegment], random: RandomSource | undefined): RateCurve {
  let isOn = false;
  return () => {
    isOn = !isOn;
    const phase = isOn ? phases[0] : phases[1];
    return random === undefined ? phase : segment(random.exponential(phase.lengthMs), phase.startRate);
  };
}
