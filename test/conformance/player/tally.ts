import { DIFFERENCES } from "../differences.js";
import { isPlayable, play } from "./play.js";
import type { Spec, Trace } from "./trace.js";
import type { Mode } from "./world.js";

/** So many operations show every difference. */
const ENOUGH = 100_000;

const MODES: readonly Mode[] = ["manual", "auto"];

function add(counts: Map<string, number>, key: string, n = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + n);
}

/** Plays traces, and counts what was compared and what differed. */
export class Tally {
  traces = 0;
  /** Operations recorded, and those compared in each mode. */
  operations = 0;
  readonly compared = new Map<Mode, number>();
  readonly explained = new Map<string, number>();
  readonly answers = new Map<string, number>();
  readonly limiters = new Map<string, number>();
  readonly faults: string[] = [];

  async add(trace: Trace): Promise<void> {
    this.traces += 1;
    this.operations += trace.steps?.length ?? 1;
    this.#noteLimiters(trace);
    for (const mode of MODES) {
      if (!isPlayable(trace, mode)) continue;
      const outcome = await play(trace, mode);
      this.compared.set(mode, (this.compared.get(mode) ?? 0) + outcome.compared);
      for (const [id, n] of outcome.explained) add(this.explained, id, n);
      for (const [answer, n] of outcome.answers) add(this.answers, answer, n);
      if (outcome.fault === undefined) continue;
      this.faults.push(outcome.fault);
      break;
    }
  }

  get comparedInAll(): number {
    return [...this.compared.values()].reduce((all, n) => all + n, 0);
  }

  /** The share of the compared steps that a difference explains. */
  shareOf(id: string): number {
    return (this.explained.get(id) ?? 0) / this.comparedInAll;
  }

  /** Everything that is not as it should be. */
  wrong(): string[] {
    const wrong = [...this.faults];
    // A few traces say nothing about what is rare.
    if (this.operations < ENOUGH) return wrong;
    for (const { id, most } of DIFFERENCES) {
      const share = this.shareOf(id);
      if (share === 0) wrong.push(`the difference "${id}" was never seen`);
      if (share > most) wrong.push(`the difference "${id}" explains ${percent(share)} of the steps`);
    }
    return wrong;
  }

  report(): string[] {
    const modes = MODES.map((mode) => `${this.compared.get(mode) ?? 0} ${mode}`).join(", ");
    return [
      `${this.traces} traces, ${this.operations} operations recorded, ${this.comparedInAll} compared (${modes})`,
      `limiters: ${[...this.limiters]
        .sort()
        .map(([kind, n]) => `${kind} ${n}`)
        .join(", ")}`,
      ...DIFFERENCES.map(
        ({ id }) => `  ${id}: ${this.explained.get(id) ?? 0} steps (${percent(this.shareOf(id))})`,
      ),
      `${this.faults.length} unexplained`,
    ];
  }

  #noteLimiters(trace: Trace): void {
    const nameOf = ([kind, , , newest]: Spec) =>
      `${kind}${kind === "n" ? "" : newest === 1 ? "-newest" : "-oldest"}`;
    add(this.limiters, trace.kind === "single" ? `single ${nameOf(trace.leaves[0] as Spec)}` : trace.kind);
  }
}

const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;
