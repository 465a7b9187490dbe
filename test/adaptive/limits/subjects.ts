import { AimdLimit } from "../../../src/adaptive/aimd-limit.js";
import { AnchoredGradientLimit } from "../../../src/adaptive/anchored-gradient-limit.js";
import { GradientLimit } from "../../../src/adaptive/gradient-limit.js";
import { Gradient2Limit } from "../../../src/adaptive/gradient2-limit.js";
import { VegasLimit } from "../../../src/adaptive/vegas-limit.js";
import { WindowedAimdLimit } from "../../../src/adaptive/windowed-aimd-limit.js";
import { WindowedLimit } from "../../../src/adaptive/windowed-limit.js";
import type { DescribedLimit } from "./support.js";

/** An algorithm that learns, with bounds that are no default, for tests that put all of them through the same. */
export interface Subject {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  create(random: () => number): DescribedLimit;
}

const bounds = { initialLimit: 40, minLimit: 6, maxLimit: 300 };
const brief = { windowSize: 3, minWindowMs: 5, maxWindowMs: 20 };

export const SUBJECTS: readonly Subject[] = [
  { name: "AimdLimit", min: 6, max: 300, create: () => new AimdLimit(bounds) },
  {
    name: "WindowedAimdLimit",
    min: 6,
    max: 300,
    create: () => new WindowedAimdLimit({ ...bounds, samplingWindowMs: 20 }),
  },
  {
    name: "VegasLimit",
    min: 1,
    max: 300,
    create: (random) => new VegasLimit({ initialLimit: 40, maxLimit: 300, random }),
  },
  {
    name: "VegasLimit, smoothed",
    min: 1,
    max: 300,
    create: (random) => new VegasLimit({ initialLimit: 40, maxLimit: 300, smoothing: 0.3, random }),
  },
  { name: "GradientLimit", min: 6, max: 300, create: (random) => new GradientLimit({ ...bounds, random }) },
  { name: "Gradient2Limit", min: 6, max: 300, create: () => new Gradient2Limit(bounds) },
  {
    name: "AnchoredGradientLimit",
    min: 6,
    max: 300,
    create: (random) => new AnchoredGradientLimit({ ...bounds, random }),
  },
  {
    name: "AnchoredGradientLimit, unhealthy above a second",
    min: 6,
    max: 300,
    create: (random) => new AnchoredGradientLimit({ ...bounds, random, maxHealthyRttMs: 1000 }),
  },
  {
    name: "AnchoredGradientLimit behind a window",
    min: 6,
    max: 300,
    create: (random) =>
      new WindowedLimit(new AnchoredGradientLimit({ ...bounds, random }), { ...brief, dropThreshold: 0.05 }),
  },
  {
    name: "Gradient2Limit behind a window that is discarded",
    min: 6,
    max: 300,
    create: () =>
      new WindowedLimit(new Gradient2Limit(bounds), {
        ...brief,
        underfilled: "discard",
        window: { percentile: 0.9, capacity: 100 },
      }),
  },
];
