import { type Attributes, diag } from "@opentelemetry/api";
import { Frame, type Frames, frameIn } from "./catalogue.js";
import type { Counters } from "./counters.js";
import { ENDED, type Reader } from "./readers.js";
import { Tally } from "./tally.js";

/** One instrumentation of a limiter. The limiter is held weakly: measuring keeps nothing alive. */
export class Entry {
  readonly target: WeakRef<object>;
  readonly reader: Reader;
  readonly counters: Counters | undefined;
  readonly attributes: Attributes;

  constructor(target: object, reader: Reader, counters: Counters | undefined, attributes: Attributes) {
    this.target = new WeakRef(target);
    this.reader = reader;
    this.counters = counters;
    this.attributes = attributes;
  }
}

/**
 * A limiter under one name. However often it is instrumented, what it tells itself counts once; what is counted in front of
 * it is added, where the limiter itself does not tell it.
 */
export class Measured {
  readonly entries: Set<Entry> = new Set();
  /** What there is to tell, by label. */
  frames: Frames = new Map();
  readonly #target: WeakRef<object>;
  readonly #reader: Reader;
  readonly #tallies = new Map<string | undefined, Tally>();
  /** What those who count in front had counted when it was kept elsewhere. */
  readonly #kept = new WeakMap<Counters, Frame>();
  /** What those have counted who do not any more. */
  #gone = new Frame();
  #tellsAll = false;
  #hasComplained = false;

  constructor({ target, reader }: Entry) {
    this.#target = target;
    this.#reader = reader;
  }

  add(entry: Entry): void {
    this.entries.add(entry);
    if (entry.counters === undefined) this.#tellsAll = true;
  }

  /** Ends one instrumentation of several. */
  leave(entry: Entry): void {
    this.entries.delete(entry);
    if (entry.counters !== undefined) this.#gone.addAll(this.sinceKept(entry.counters), true);
  }

  /** Reads anew; false when there will be nothing more to read. What cannot be read stays as it was. */
  read(): boolean {
    const target = this.#target.deref();
    if (target === undefined) return false;
    try {
      const fresh: Frames = new Map();
      const end = this.#reader.read(target, (label) => frameIn(fresh, label), !this.#tellsAll);
      for (const label of fresh.keys()) if (!this.#tallies.has(label)) this.#tallies.set(label, new Tally());
      const frames: Frames = new Map();
      for (const [label, tally] of this.#tallies)
        frames.set(label, tally.follow(fresh.get(label) ?? new Frame()));
      // What can go down is not read any more, and has to be known to be told as 0.
      if (end === ENDED) addLevels(frames, this.frames);
      const inFront = new Frame();
      inFront.addAll(this.#gone);
      for (const { counters } of this.entries)
        if (counters !== undefined) inFront.addAll(this.#readCounters(counters));
      const whole = frameIn(frames, undefined);
      if (this.#tellsAll) whole.addMissing(inFront);
      else whole.addAll(inFront);
      this.frames = frames;
      return end !== ENDED;
    } catch (error) {
      if (!this.#hasComplained) diag.error("headgate: a limiter cannot be measured", error);
      this.#hasComplained = true;
      return true;
    }
  }

  /** What was told is kept elsewhere from now on: if the limiter comes back, it tells what comes on top of that. */
  restart(): void {
    const fresh: Frames = new Map();
    try {
      const target = this.#target.deref();
      // All of it, since it may come back without anybody in front of it.
      if (target !== undefined) this.#reader.read(target, (label) => frameIn(fresh, label), false);
    } catch {
      // It has been complained about.
    }
    for (const label of fresh.keys()) if (!this.#tallies.has(label)) this.#tallies.set(label, new Tally());
    for (const [label, tally] of this.#tallies) tally.restart(fresh.get(label) ?? new Frame());
    for (const { counters } of this.entries) if (counters !== undefined) this.sinceKept(counters);
    this.entries.clear();
    this.#gone = new Frame();
    this.#tellsAll = false;
  }

  /** What has been counted in front since it was kept last; it is kept now. */
  sinceKept(counters: Counters): Frame {
    const frame = this.#readCounters(counters);
    const raw = new Frame();
    counters.read(raw);
    this.#kept.set(counters, raw);
    return frame;
  }

  #readCounters(counters: Counters): Frame {
    const frame = new Frame();
    counters.read(frame);
    const kept = this.#kept.get(counters);
    if (kept !== undefined) frame.subtractTotals(kept);
    return frame;
  }
}

/** Has all that could go down told as 0, where it is not told any more. */
function addLevels(frames: Frames, before: Frames): void {
  for (const [label, frame] of before) {
    const zeros = new Frame();
    zeros.addZeros(frame);
    frameIn(frames, label).addMissing(zeros);
  }
}
