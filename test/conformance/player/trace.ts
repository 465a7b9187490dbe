import { readdirSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

/** Kind (concurrency, fixed, sliding, token bucket, none), limit, queue limit, newest first, period, segments, per period, auto. */
export type Spec = readonly [
  "c" | "f" | "s" | "t" | "n",
  number,
  number,
  0 | 1,
  number,
  number,
  number,
  0 | 1,
];

/** An operation: a letter and its arguments. The recorder's Trace.cs tells what each does. */
export type Operation = readonly [string, ...number[]];

/** What an observer of the original saw after an operation; what is left out was empty, or as before. */
export interface Step {
  readonly o: Operation;
  /** The result. */
  readonly r?: string;
  /** The waiters that settled, by the number of their step. */
  readonly w?: Readonly<Record<string, string>>;
  /** The keys whose factories ran. */
  readonly k?: readonly number[];
  /** Statistics and idle time of every limiter. */
  readonly s?: string;
  /** The part of a token that each bucket held, as the original computed it. */
  readonly f?: readonly number[];
}

export interface Trace {
  readonly seed: number;
  /** Of a trace that was not left to chance. */
  readonly name?: string;
  /** To be compared with what was expected of the original only. */
  readonly original?: 1;
  readonly kind: "single" | "chain" | "part" | "translated" | "partchain" | "bad";
  readonly leaves: readonly Spec[];
  readonly second?: readonly Spec[];
  /** Whether disposing a translated limiter leaves the inner one. */
  readonly open?: 0 | 1;
  /** Permits come back at whole periods only, and at each of them. */
  readonly grid?: 1;
  /** The timer comes late now and then. */
  readonly skew?: 1;
  readonly wild?: 1;
  readonly start: string;
  readonly steps: readonly Step[];
  /** Of bad options: what the constructor did. */
  readonly r?: string;
}

/** The traces in the text of a recording: its first line says what was recorded. */
function parseTraces(text: string): Trace[] {
  return text
    .split("\n")
    .filter((line) => line.startsWith('{"seed"'))
    .map((line) => JSON.parse(line) as Trace);
}

/** The recordings in a folder: traces by the name of their file. */
export function readRecordings(folder: URL): Map<string, Trace[]> {
  const recordings = new Map<string, Trace[]>();
  for (const name of readdirSync(folder).sort()) {
    if (!name.endsWith(".jsonl.gz")) continue;
    recordings.set(name, parseTraces(gunzipSync(readFileSync(new URL(name, folder))).toString("utf8")));
  }
  return recordings;
}
