import { ConcurrencyLimiter } from "headgate";
import {
  AdaptiveConcurrencyLimiter,
  AimdLimit,
  AnchoredGradientLimit,
  Gradient2Limit,
  GradientLimit,
  type Limit,
  VegasLimit,
  WindowedAimdLimit,
  WindowedLimit,
} from "headgate/adaptive";
import type { LimiterFactory } from "headgate/simulator";

/** What every algorithm is told about a scenario. */
export interface Bounds {
  readonly initialLimit: number;
  readonly minLimit: number;
  readonly maxLimit: number;
}

type Make = (bounds: Bounds, random: () => number) => Limit;

/** The window in which the originals of these algorithms are used: too few samples are thrown away. */
const stockWindow = (limit: Limit) => new WindowedLimit(limit, { underfilled: "discard" });

const MAKERS: Readonly<Record<string, Make>> = {
  AIMD: (bounds) => stockWindow(new AimdLimit(bounds)),
  "windowed AIMD": (bounds) => new WindowedAimdLimit(bounds),
  Vegas: ({ initialLimit, maxLimit }, random) =>
    stockWindow(new VegasLimit({ initialLimit, maxLimit, random })),
  Gradient: (bounds, random) => stockWindow(new GradientLimit({ ...bounds, random })),
  "Gradient2, 4": (bounds) => stockWindow(new Gradient2Limit({ ...bounds, queueSize: 4 })),
  "Gradient2, √": (bounds) => stockWindow(new Gradient2Limit(bounds)),
  default: (bounds, random) =>
    new WindowedLimit(new AnchoredGradientLimit({ ...bounds, random }), { dropThreshold: 0.05 }),
};

export type Algorithm = "none" | `static ${number}` | keyof typeof MAKERS;

/** Those that learn. */
export const LEARNING: readonly string[] = Object.keys(MAKERS);

/** The limiter of a run. `static 50` is a limit that stays 50. */
export function limiterOf(algorithm: Algorithm, bounds: Bounds): LimiterFactory | undefined {
  if (algorithm === "none") return undefined;
  const fixed = /^static (\d+)$/.exec(algorithm)?.[1];
  if (fixed !== undefined) {
    return ({ clock }) => new ConcurrencyLimiter({ permitLimit: Number(fixed), clock });
  }
  const make = MAKERS[algorithm];
  if (make === undefined) throw new RangeError(`no such algorithm: ${algorithm}`);
  return ({ clock, random }) => new AdaptiveConcurrencyLimiter({ limit: make(bounds, random), clock });
}
