import { mean, type Run, type Scenario } from "./run.js";

/** What the default algorithm has to reach, and what it reached, over all seeds. */
export interface Target {
  readonly what: string;
  readonly measured: string;
  readonly isMet: boolean;
}

/** The runs of one scenario, a list of seeds for each algorithm. */
export type Runs = Readonly<Record<string, readonly Run[]>>;

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
const range = (values: readonly number[], show: (value: number) => string) => {
  const [low, high] = [Math.min(...values), Math.max(...values)].map(show);
  return low === high ? String(low) : `${low} – ${high}`;
};

function atLeast(what: string, values: readonly number[], bound: number, show = percent): Target {
  return {
    what: `${what} ≥ ${show(bound)}`,
    measured: range(values, show),
    isMet: values.every((value) => value >= bound),
  };
}

function atMost(what: string, values: readonly number[], bound: number, show = percent): Target {
  return {
    what: `${what} ≤ ${show(bound)}`,
    measured: range(values, show),
    isMet: values.every((value) => value <= bound),
  };
}

const whole = (value: number) => value.toFixed(0);
const tenths = (value: number) => value.toFixed(2);

/** The best of the fixed limits: the smallest that serves within a percent of the most. */
export function bestStaticOf(runs: Runs): readonly Run[] {
  const statics = Object.entries(runs).filter(([name]) => name.startsWith("static"));
  const goodputOf = (of: readonly Run[]) => mean(of.map((run) => run.goodput()));
  const most = Math.max(0, ...statics.map(([, of]) => goodputOf(of)));
  return statics.find(([, of]) => goodputOf(of) >= 0.99 * most)?.[1] ?? [];
}

/** Those that a scenario names. All share one more: no less than 85 % of what the best other algorithm serves. */
export function targetsOf({ id, capacity, options }: Scenario, runs: Runs): readonly Target[] {
  const ours = runs["default"] ?? [];
  const { servers } = options.service;
  const bestRun = bestStaticOf(runs);
  const bestStatic = mean(bestRun.map((run) => run.goodput()));
  const ofStatic = () => ours.map((run) => run.goodput() / bestStatic);
  switch (id) {
    case "S1":
      return [
        atLeast("served, of the best fixed limit", ofStatic(), 0.95),
        atMost(
          "p99, times that of the best fixed limit",
          ours.map((run) => run.p99S / mean(bestRun.map((one) => one.p99S))),
          1.25,
          tenths,
        ),
        atMost(
          "seconds until it has converged",
          ours.map((run) => run.convergenceS(bestStatic)),
          15,
          whole,
        ),
        atMost(
          "served a second without a limit, after 30 s",
          (runs["none"] ?? []).map((run) => run.goodput()),
          0.5,
          tenths,
        ),
      ];
    case "S1b":
      return [
        atLeast("served, of the best fixed limit", ofStatic(), 0.95),
        atMost(
          "limit, 95th percentile",
          ours.map((run) => run.limitP95),
          1.5 * servers,
          whole,
        ),
      ];
    case "S3":
      return [
        atMost(
          "refused",
          ours.map((run) => run.result.ratios.rejectedOfAttempts ?? 0),
          0.001,
        ),
        atMost(
          "p99, times that without a limit",
          ours.map((run, i) => run.p99S / (runs["none"]?.[i]?.p99S ?? 0)),
          1.05,
          tenths,
        ),
      ];
    case "S4":
      return [atLeast("served, of the best fixed limit", ofStatic(), 0.85)];
    case "S5":
      return [
        atLeast(
          "served from 60 s after the spike, of before it",
          ours.map((run) => run.goodput(150) / run.goodput(10, 60)),
          0.95,
        ),
        atMost(
          "served a second without a limit, after the spike",
          (runs["none"] ?? []).map((run) => run.goodput()),
          1,
          tenths,
        ),
      ];
    case "S6":
      return [
        atLeast(
          "served in the slow phase, of what can be",
          ours.map((run) => run.goodput(180, 420) / (capacity / 2)),
          0.95,
        ),
        atLeast(
          "served from 60 s after it, of what can be",
          ours.map((run) => run.goodput(480) / capacity),
          0.95,
        ),
        atMost(
          "mean limit in the last quarter",
          ours.map((run) => mean(run.limits(675))),
          2 * servers,
          whole,
        ),
      ];
    case "S7":
      return [
        atLeast(
          "served in seconds 5 to 9 of the burst, of what can be",
          ours.map((run) => run.goodput(604, 609) / capacity),
          0.85,
        ),
        atLeast(
          "served in seconds 10 to 19, of what can be",
          ours.map((run) => run.goodput(609, 619) / capacity),
          0.95,
        ),
        atMost(
          "limits seen in the quiet minutes",
          ours.map((run) => new Set(run.limits(10, 600)).size),
          1,
          whole,
        ),
      ];
    case "S8":
      return [
        atLeast(
          "limit, 5th percentile",
          ours.map(
            (run) => run.limits().sort((a, b) => a - b)[Math.ceil(0.05 * run.limits().length) - 1] ?? 0,
          ),
          servers,
          whole,
        ),
      ];
    case "S9":
      return [
        atLeast(
          "served from 120 s on, of what can be",
          ours.map((run) => run.goodput() / capacity),
          0.9,
        ),
      ];
    case "S10":
      return [
        atMost(
          "seconds until it has converged",
          ours.map((run) => run.convergenceS(capacity)),
          60,
          whole,
        ),
        atMost(
          "limit, 95th percentile",
          ours.map((run) => run.limitP95),
          1.5 * servers,
          whole,
        ),
      ];
    default:
      return [
        atLeast(
          "served, of what can be",
          ours.map((run) => run.goodput() / capacity),
          0.95,
        ),
        atMost(
          "limit, 95th percentile",
          ours.map((run) => run.limitP95),
          2 * servers,
          whole,
        ),
        atMost(
          "drift of the limit",
          ours.map((run) => run.drift),
          1.15,
          tenths,
        ),
        atMost(
          "swing of the limit, 5th to 95th percentile against its mean",
          ours.map((run) => run.oscillation),
          0.5,
          tenths,
        ),
      ];
  }
}

/** What must be so in every run. */
export function soundness(runs: Runs): Target {
  const all = Object.values(runs).flat();
  const sound = all.filter((run) => run.isSound).length;
  return {
    what: "limits within their bounds, and all permits back",
    measured: `${sound} of ${all.length} runs`,
    isMet: sound === all.length,
  };
}

/** Nowhere much worse than the best of the others; with hiccups, hardly worse. */
export function comparedTarget({ id }: Scenario, runs: Runs, others: readonly string[]): Target {
  const goodput = (name: string) => mean((runs[name] ?? []).map((run) => run.goodput()));
  const best = Math.max(...others.map(goodput));
  return atLeast(
    "served, of the best other algorithm",
    [goodput("default") / best],
    id === "S8" ? 0.96 : 0.85,
  );
}
