import type { Sight } from "./play.js";
import type { Spec, Step, Trace } from "./trace.js";

export interface Waiting {
  readonly id: number;
  readonly target: number;
  readonly permits: number;
}

/** Available, queued, failed, granted, idle time; undefined where a limiter has been disposed. */
export type Numbers = readonly number[] | undefined;

export function numbersOf(state: string): Numbers[] {
  return state.split(";").map((one) => {
    const parts = one.split(",");
    if (parts[0] === "D") return undefined;
    return parts.map((part) => (part === "-" ? -1 : part === "max" ? Number.MAX_SAFE_INTEGER : Number(part)));
  });
}

/** What is known of a trace from the outside up to a step: who waits, and when what happened. */
export class Ledger {
  readonly trace: Trace;
  readonly #specs: readonly Spec[];
  /** Those who wait, oldest first. */
  waiting: Waiting[] = [];
  /** What was asked, by step. */
  readonly permits = new Map<number, number>();
  /** When permits last came. */
  lastTick = 0;
  /** When each limiter was last seen with all its permits. */
  readonly lastFull: number[] = [];
  /** When a bucket that is alone was last credited, as the original reckons: a full one is not. */
  lastCredit = 0;
  #parts: readonly number[] = [];
  /** Keys whose factories have failed. */
  readonly broken = new Set<number>();

  constructor(trace: Trace, specs: readonly Spec[]) {
    this.trace = trace;
    this.#specs = specs;
  }

  /** The options of the limiter at a place in the state; a chain comes before its limiters. */
  specAt(place: number): Spec | undefined {
    return this.#specs[this.trace.kind === "chain" ? place - 1 : place];
  }

  /** The part of a token that the original has in a bucket. */
  partAt(place: number): number {
    return this.#parts[this.trace.kind === "chain" ? place - 1 : place] ?? 0;
  }

  /** Those who wait where this target's requests wait, in the order in which they are served. */
  queue(target: number, newest: boolean): Waiting[] {
    const keys = this.trace.leaves.length;
    const queue = this.waiting.filter((waiter) => waiter.target % keys === target % keys);
    return newest ? queue.reverse() : queue;
  }

  note(index: number, step: Step, before: string, theirs: Sight, now: number): void {
    const [letter, target = 0, permits = 0] = step.o;
    if (letter === "t" || letter === "q") this.permits.set(index, permits);
    if (letter === "q" && theirs.result === "w") this.waiting.push({ id: index, target, permits });
    if (theirs.result.endsWith("!factory")) for (const key of theirs.made) this.broken.add(key);
    this.waiting = this.waiting.filter(({ id }) => theirs.settled[id] === undefined);
    const wasFull = numbersOf(before)[0]?.[0] === this.specAt(0)?.[1];
    if (letter === "r" || letter === "z") {
      this.lastTick = now;
      if (!wasFull) this.lastCredit = now;
    }
    this.#parts = step.f ?? [];
    for (const [place, numbers] of numbersOf(theirs.state).entries()) {
      if (numbers !== undefined && numbers[0] === this.specAt(place)?.[1]) this.lastFull[place] = now;
    }
  }
}

/** Who is served, in this order, with so many permits; and what is left of them. */
export function serve(queue: readonly Waiting[], available: number): { served: Waiting[]; left: number } {
  const served: Waiting[] = [];
  let left = available;
  if (left <= 0) return { served, left };
  for (const waiter of queue) {
    if (waiter.permits > left) break;
    left -= waiter.permits;
    served.push(waiter);
  }
  return { served, left };
}
