import type { LeaseOutcome } from "headgate";
import { describe, expect, it } from "vitest";
import { WindowedAimdLimit } from "../../../src/adaptive/windowed-aimd-limit.js";
import { expectClose, watchChanges } from "./support.js";

/*
 * Two rules that the recorded steps cannot tell from others, since no limit in them depends on either: a window with a failure
 * leaves the baseline alone, and the peak of a new window begins with what is running then. Each case here says what the limit
 * is by our rule, and at the end what it would be by the other one.
 */

interface Completion {
  readonly start: number;
  readonly rtt: number;
  readonly inFlight: number;
  readonly outcome: LeaseOutcome;
  readonly running: number;
  readonly limit: number;
}

interface Rules {
  /** Whether the successes of a window with a failure move the baseline. */
  readonly failuresTeach: boolean;
  /** Whether the peak of a new window begins at 0. */
  readonly peakFromZero: boolean;
}

interface Difference {
  readonly name: string;
  readonly steps: readonly Completion[];
  /** At the end. */
  readonly baseline: number | undefined;
  /** What it would come to otherwise. */
  readonly otherwise: { readonly rules: Rules; readonly limit: number };
}

const TEACHING: Rules = { failuresTeach: true, peakFromZero: false };
const FROM_ZERO: Rules = { failuresTeach: false, peakFromZero: true };

function done(
  start: number,
  rtt: number,
  outcome: LeaseOutcome,
  inFlight: number,
  running: number,
  limit: number,
): Completion {
  return { start, rtt, inFlight, outcome, running, limit };
}

const DIFFERENCES: readonly Difference[] = [
  {
    name: "slow successes beside a failure do not become normal",
    steps: [
      done(0, 10, "success", 10, 0, 10),
      done(1000, 10, "success", 10, 0, 11),
      done(1100, 100, "success", 11, 0, 11),
      done(2010, 10, "failure", 11, 0, 9),
      done(3020, 25, "success", 9, 0, 8),
    ],
    baseline: 11.5,
    otherwise: { rules: TEACHING, limit: 10 },
  },
  {
    name: "quick successes beside a failure do not become normal either",
    steps: [
      done(0, 20, "success", 10, 0, 10),
      done(1000, 20, "success", 10, 0, 11),
      done(1500, 1, "success", 11, 0, 11),
      done(2020, 1, "dropped", 11, 0, 9),
      done(3020, 37, "success", 9, 0, 10),
    ],
    baseline: 21.7,
    otherwise: { rules: TEACHING, limit: 8 },
  },
  {
    name: "a first window with a failure sets no baseline",
    steps: [
      done(0, 1, "success", 10, 0, 10),
      done(1000, 1, "failure", 10, 0, 9),
      done(2000, 10, "success", 9, 0, 10),
    ],
    baseline: 10,
    otherwise: { rules: TEACHING, limit: 8 },
  },
  {
    name: "failures alone set none for as long as they last",
    steps: [
      done(0, 1, "success", 10, 0, 10),
      done(1000, 1, "failure", 10, 0, 9),
      done(1500, 1, "dropped", 10, 0, 9),
      done(2000, 1, "success", 10, 0, 8),
    ],
    baseline: undefined,
    otherwise: { rules: TEACHING, limit: 8 },
  },
  {
    name: "long calls from before count as in use",
    steps: [
      done(0, 1, "success", 10, 9, 10),
      done(1000, 1, "success", 1, 9, 11),
      done(2001, 1, "success", 1, 0, 12),
    ],
    baseline: 1,
    otherwise: { rules: FROM_ZERO, limit: 11 },
  },
  {
    name: "half of the limit running is enough",
    steps: [
      done(0, 1, "success", 10, 0, 10),
      done(1000, 1, "success", 10, 6, 11),
      done(2001, 1, "success", 1, 0, 12),
    ],
    baseline: 1,
    otherwise: { rules: FROM_ZERO, limit: 11 },
  },
  {
    name: "the same after a window that was congested",
    steps: [
      done(0, 1, "success", 10, 0, 10),
      done(1000, 1, "failure", 10, 9, 9),
      done(2001, 1, "success", 1, 0, 10),
    ],
    baseline: 1,
    otherwise: { rules: FROM_ZERO, limit: 9 },
  },
];

/** The algorithm written down once more, with the rules to choose from. */
function limitsBy(rules: Rules, steps: readonly Completion[]): number[] {
  let limit = 10;
  let baseline = 0;
  let opened: number | undefined;
  let rtts: number[] = [];
  let peak = 0;
  let hasFailure = false;
  return steps.map(({ start, rtt, inFlight, outcome, running }) => {
    const end = start + rtt;
    opened ??= end;
    peak = Math.max(peak, inFlight);
    if (outcome === "success") rtts.push(rtt);
    else hasFailure = true;
    if (end - opened < 1000) return limit;
    const mean = rtts.length === 0 ? undefined : rtts.reduce((a, b) => a + b, 0) / rtts.length;
    if (mean !== undefined && (!hasFailure || rules.failuresTeach)) baseline ||= mean;
    if (hasFailure || (mean !== undefined && mean > 2 * baseline)) limit = Math.trunc(limit * 0.9);
    else if (peak * 2 >= limit) limit += 1;
    if (mean !== undefined && (!hasFailure || rules.failuresTeach)) baseline += 0.1 * (mean - baseline);
    opened = end;
    rtts = [];
    hasFailure = false;
    peak = rules.peakFromZero ? 0 : running;
    return limit;
  });
}

function play(steps: readonly Completion[]): WindowedAimdLimit {
  const limit = new WindowedAimdLimit();
  for (const [i, { start, rtt, inFlight, outcome, running, limit: expected }] of steps.entries()) {
    limit.onSample(start, rtt, inFlight, outcome, running);
    expect(limit.limit, `step ${i}`).toBe(expected);
  }
  return limit;
}

describe("what a window with a failure teaches, and where the peak of a window begins", () => {
  it.each(DIFFERENCES)("$name", ({ steps, baseline, otherwise }) => {
    const limit = play(steps);
    if (baseline === undefined) expect(limit.describe()["baselineRttMs"]).toBeUndefined();
    else expectClose(limit.describe()["baselineRttMs"], baseline, "baseline");
    const ours = steps.map((step) => step.limit);
    expect(limitsBy({ failuresTeach: false, peakFromZero: false }, steps)).toEqual(ours);
    expect(limitsBy(otherwise.rules, steps).at(-1)).toBe(otherwise.limit);
  });

  it("is told apart by all of these cases but the one about the missing baseline", () => {
    const alike = DIFFERENCES.filter(({ steps, otherwise }) => steps.at(-1)?.limit === otherwise.limit);
    expect(alike.map(({ name }) => name)).toEqual(["failures alone set none for as long as they last"]);
  });

  it("less than half of the limit running is not enough", () => {
    play([
      done(0, 1, "success", 10, 0, 10),
      done(1000, 1, "success", 10, 5, 11),
      done(2001, 1, "success", 1, 0, 11),
    ]);
  });

  it("what was running counts for one window only", () => {
    play([
      done(0, 1, "success", 10, 0, 10),
      done(1000, 1, "success", 10, 9, 11),
      done(2001, 1, "success", 1, 0, 12),
      done(3002, 1, "success", 1, 0, 12),
    ]);
  });

  it("what runs at a completion within the window does not count", () => {
    play([
      done(0, 1, "success", 10, 0, 10),
      done(1000, 1, "success", 10, 0, 11),
      done(1500, 1, "success", 1, 11, 11),
      done(2001, 1, "success", 1, 0, 11),
    ]);
  });

  it("is 0 running where nobody says how many", () => {
    const limit = new WindowedAimdLimit();
    for (const [start, inFlight] of [
      [0, 10],
      [1000, 10],
      [2000, 1],
    ] as const) {
      limit.onSample(start, 0, inFlight, "success");
    }
    expect(limit.limit).toBe(11);
  });
});

describe("windowed AIMD", () => {
  it("steps when a completion comes exactly at the end of the window, not before", () => {
    const limit = new WindowedAimdLimit({ samplingWindowMs: 100 });
    limit.onSample(0, 0, 10, "success");
    limit.onSample(99.999, 0, 10, "success");
    expect(limit.limit).toBe(10);
    limit.onSample(100, 0, 10, "success");
    expect(limit.limit).toBe(11);
  });

  it("learns nothing from work that was ignored, or took less than no time", () => {
    const limit = new WindowedAimdLimit();
    const before = limit.describe();
    limit.onSample(0, 5, 10, "ignored");
    limit.onSample(9000, 5, 10, "ignored");
    limit.onSample(9000, -1, 10, "failure");
    limit.onSample(9000, Number.NaN, 10, "failure");
    limit.onSample(90_000, Number.NaN, 10, "success");
    expect(limit.describe()).toEqual(before);
  });

  it("is not held up for ever by one sample from the far future", () => {
    const limit = new WindowedAimdLimit();
    limit.onSample(1000, 1, 10, "success");
    limit.onSample(1e15, 1, 10, "success");
    const changes = watchChanges(limit);
    for (let i = 0; i < 30; i++) limit.onSample(2000 + i * 1000, 1, 50, "success");
    expect(changes.length).toBeGreaterThan(10);
  });

  it("a few late samples are left out, and do not close a window", () => {
    const limit = new WindowedAimdLimit();
    limit.onSample(100_000, 1, 10, "success");
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < 9; i++) limit.onSample(1000 + i, 1, 10, "failure");
      limit.onSample(100_001 + round, 1, 10, "success");
    }
    limit.onSample(101_001, 1, 10, "success");
    expect(limit.limit).toBe(11);
  });

  it("samples that end somewhat out of order are all used", () => {
    const limit = new WindowedAimdLimit();
    limit.onSample(50_000, 1, 10, "success");
    limit.onSample(25_000, 1, 10, "failure");
    limit.onSample(51_001, 1, 10, "success");
    expect(limit.limit).toBe(9);
  });
});
