import type { LeaseOutcome } from "headgate";
import { describe, expect, it } from "vitest";
import type { Limit } from "../../../src/adaptive/limit.js";
import { WindowedLimit } from "../../../src/adaptive/windowed-limit.js";
import {
  create,
  type DescribedLimit,
  expectClose,
  feed,
  readVectors,
  type Sample,
  type Step,
  translate,
  type VectorCase,
  watchChanges,
} from "./support.js";

/** Where the numbers of a case's end are to be found in a description. */
const SIGNALS: Readonly<Record<string, string>> = {
  estimated: "estimated",
  rttNoLoad: "noLoadRttMs",
  longRtt: "longRttMs",
  baseline: "baselineRttMs",
};

/**
 * Ends that are different on purpose: a window in which anything failed does not teach the baseline of WindowedAimdLimit, where
 * the recorded ones let its successes do so. No limit differs, at no step.
 */
const DIFFERENT_BASELINE: Readonly<Record<string, { readonly recorded: number; readonly here: undefined }>> =
  {
    "shrink while four are running": { recorded: 1, here: undefined },
  };

function checkStep(limit: DescribedLimit, step: Step, what: string): void {
  expect(limit.limit, what).toBe(step.limit);
  if (step.estimated !== undefined) expectClose(limit.describe()["estimated"], step.estimated, what);
}

function checkEnd(limit: DescribedLimit, one: VectorCase): void {
  const description = limit.describe();
  expect(description.limit).toBe(one.final["limit"]);
  for (const [name, value] of Object.entries(one.final)) {
    const signal = SIGNALS[name];
    const different = name === "baseline" ? DIFFERENT_BASELINE[one.name] : undefined;
    if (different !== undefined) {
      expect(value).toBe(different.recorded);
      expect(description[signal as string]).toBe(different.here);
    } else if (signal !== undefined && value !== 0) {
      expectClose(description[signal], value as number, name);
    } else if (signal !== undefined) {
      expect(description[signal], name).toBeUndefined();
    } else if (name === "phase") {
      expect(description["phase"]).toBe(value);
    } else {
      // When a window closes next is not shown; the samples that are handed on tell.
      expect(["limit", "nextUpdate", "fires"]).toContain(name);
    }
  }
}

/** How many cases and steps there are, so that none can get lost. */
const COUNTS: Readonly<Record<string, readonly [cases: number, steps: number]>> = {
  fixed: [8, 31],
  settable: [8, 24],
  aimd: [14, 52],
  "windowed-aimd": [15, 206],
  vegas: [16, 125],
  gradient: [14, 149],
  gradient2: [17, 668],
  "anchored-gradient": [14, 258],
};

function countSteps(cases: readonly VectorCase[]): number {
  return cases.reduce((sum, one) => sum + one.steps.length, 0);
}

describe.each(Object.entries(COUNTS))("the recorded steps of %s", (kind, [caseCount, stepCount]) => {
  const { cases } = readVectors(kind);

  it("are all there", () => {
    expect([cases.length, countSteps(cases)]).toEqual([caseCount, stepCount]);
  });

  it.each(cases)("$name", (one) => {
    const limit: DescribedLimit = create(kind, one.options, one.rng);
    const changes = watchChanges(limit);
    for (const [i, step] of one.steps.entries()) {
      if (step.set !== undefined)
        (limit as DescribedLimit & { setLimit(n: number): void }).setLimit(step.set);
      else feed(limit, step);
      checkStep(limit, step, `step ${i}`);
    }
    expect(changes).toEqual(one.changes);
    checkEnd(limit, one);
  });
});

/** Notes what reaches an algorithm. */
class Overheard implements Limit {
  readonly heard: Sample[] = [];
  readonly inner: DescribedLimit;

  constructor(inner: DescribedLimit) {
    this.inner = inner;
  }

  get limit(): number {
    return this.inner.limit;
  }

  onSample(start: number, rtt: number, inflight: number, outcome: LeaseOutcome): void {
    this.heard.push({ start, rtt, inflight, didDrop: outcome === "dropped" });
    this.inner.onSample(start, rtt, inflight, outcome);
  }

  onChange(listener: (limit: number, previous: number) => void): () => void {
    return this.inner.onChange(listener);
  }

  describe() {
    return this.inner.describe();
  }
}

interface WindowedOptions {
  readonly window: Readonly<Record<string, unknown>>;
  readonly delegate: { readonly kind: string; readonly options: Readonly<Record<string, unknown>> };
}

describe("the recorded steps of a window", () => {
  const { cases } = readVectors("windowed");

  it("are all there", () => {
    expect([cases.length, countSteps(cases)]).toEqual([18, 1003]);
  });

  it.each(cases)("$name", (one) => {
    const { window, delegate } = one.options as unknown as WindowedOptions;
    const overheard = new Overheard(create(delegate.kind, delegate.options, one.rng));
    const limit = new WindowedLimit(overheard, { underfilled: "discard", ...translate(window) });
    const changes = watchChanges(limit);
    for (const [i, step] of one.steps.entries()) {
      const heardBefore = overheard.heard.length;
      feed(limit, step);
      checkStep(limit, step, `step ${i}`);
      const [heard, ...more] = overheard.heard.slice(heardBefore);
      expect(more, `step ${i}`).toEqual([]);
      expect(heard === undefined, `step ${i}`).toBe(step.fired === undefined);
      if (heard === undefined || step.fired === undefined) continue;
      expect({ ...heard, rtt: 0 }, `step ${i}`).toEqual({ ...step.fired, rtt: 0 });
      expectClose(heard.rtt, Number(step.fired.rtt), `step ${i}`);
    }
    expect(changes).toEqual(one.changes);
    checkEnd(limit, one);
    const { windowsUsed, windowsAppLimited } = limit.describe();
    expect(Number(windowsUsed) + Number(windowsAppLimited)).toBe(one.final["fires"]);
  });
});
