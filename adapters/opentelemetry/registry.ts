import {
  type Attributes,
  type BatchObservableCallback,
  type BatchObservableResult,
  diag,
  type Histogram,
  type Meter,
  type Observable,
} from "@opentelemetry/api";
import { Frame, INSTRUMENTS, SERIES, type SeriesDefinition } from "./catalogue.js";
import type { Counters } from "./counters.js";
import { ENDED, type Reader } from "./readers.js";

/*
 * One meter and all that it measures.
 *
 * An SDK keeps a list of callbacks and looks for one in it by going through, and of two callbacks that tell the same series
 * the last one wins. So there is one callback for each meter, whatever the number of limiters, and limiters of the same name
 * are added up before they are told.
 *
 * The surprise is what SDKs do with a series that is not told any more: a reader that adds up (Prometheus is one) goes on to
 * export its last value for ever, and a limiter that was disposed while it was full would look full until the process ends.
 * So after the end all that can go down is told to be 0, once, which is enough for every reader; what only grows keeps its
 * value, and grows on from there when a limiter of the same name comes.
 */

/** How many names a meter tells apart; more are a mistake, such as a limiter for each request. */
const MOST_NAMES = 256;

/** A limiter that is measured. It is held weakly: measuring keeps nothing alive. */
export class Entry {
  readonly target: WeakRef<object>;
  readonly reader: Reader;
  readonly counters: Counters | undefined;
  readonly attributes: Attributes;
  /** What it told last, by label. */
  frames: ReadonlyMap<string | undefined, Frame> = new Map();
  #hasComplained = false;

  constructor(target: object, reader: Reader, counters: Counters | undefined, attributes: Attributes) {
    this.target = new WeakRef(target);
    this.reader = reader;
    this.counters = counters;
    this.attributes = attributes;
  }

  /** Reads anew; false when there will be nothing more to read. What cannot be read stays as it was. */
  read(): boolean {
    const target = this.target.deref();
    if (target === undefined) return false;
    const fresh = new Map<string | undefined, Frame>();
    try {
      const end = this.reader.read(target, (label) => frameIn(fresh, label));
      this.counters?.read(frameIn(fresh, undefined));
      if (end === ENDED) for (const [label, frame] of this.frames) frameIn(fresh, label).addMissing(frame);
      this.frames = fresh;
      return end !== ENDED;
    } catch (error) {
      if (!this.#hasComplained) diag.error("headgate: a limiter cannot be measured", error);
      this.#hasComplained = true;
      return true;
    }
  }
}

/** All limiters with the same attributes. */
class Group {
  readonly entries = new Set<Entry>();
  readonly #attributes: Attributes;
  /** What limiters had counted that are no more. */
  readonly #kept = new Map<string | undefined, Frame>();
  /** What is to be told to be 0. */
  readonly #zeros = new Map<string | undefined, Frame>();
  readonly #attributesOf = new Map<string, Attributes>();
  /** Limiters that are no more, whose samples have not been handed over. */
  readonly #closed: Counters[] = [];

  constructor(attributes: Attributes) {
    this.#attributes = attributes;
  }

  /** Keeps what a limiter has counted, and has the rest told to be 0. */
  close(entry: Entry): void {
    if (!this.entries.delete(entry)) return;
    entry.read();
    if (entry.counters !== undefined) this.#closed.push(entry.counters);
    for (const [label, frame] of entry.frames) {
      frameIn(this.#kept, label).addAll(frame, true);
      frameIn(this.#zeros, label).addZeros(frame);
    }
  }

  /** Tells what there is; false when nothing is left to tell. */
  observe(result: BatchObservableResult, instruments: readonly Observable[]): boolean {
    for (const entry of this.entries) if (!entry.read()) this.close(entry);
    if (this.entries.size === 0 && this.#zeros.size === 0) return false;
    const totals = new Map<string | undefined, Frame>();
    for (const [label, frame] of this.#kept) frameIn(totals, label).addAll(frame);
    for (const [label, frame] of this.#zeros) frameIn(totals, label).addAll(frame);
    for (const entry of this.entries)
      for (const [label, frame] of entry.frames) frameIn(totals, label).addAll(frame);
    this.#zeros.clear();
    for (const [label, frame] of totals) {
      for (const [index, { instrument }] of SERIES.entries()) {
        if (frame.isPresent[index] !== 1) continue;
        result.observe(
          instruments[instrument] as Observable,
          frame.values[index] as number,
          this.attributesFor(index, label),
        );
      }
    }
    return true;
  }

  /** Those who have samples to hand over; asked once for each collection. */
  takeCounters(): (Counters | undefined)[] {
    return [...this.#closed.splice(0), ...Array.from(this.entries, ({ counters }) => counters)];
  }

  /** The attributes of a series; the same object each time, since SDKs may keep it. */
  attributesFor(index: number, label: string | undefined): Attributes {
    const key = `${index} ${label ?? ""}`;
    const known = this.#attributesOf.get(key);
    if (known !== undefined) return known;
    const attributes: Attributes = { ...this.#attributes, ...SERIES[index]?.attributes };
    if (label !== undefined) attributes["headgate.partition.key"] = label;
    this.#attributesOf.set(key, attributes);
    return attributes;
  }
}

function frameIn(frames: Map<string | undefined, Frame>, label: string | undefined): Frame {
  const known = frames.get(label);
  if (known !== undefined) return known;
  const frame = new Frame();
  frames.set(label, frame);
  return frame;
}

/** All that one meter measures. */
export class Registry {
  readonly #meter: Meter;
  readonly #groups = new Map<string, Group>();
  readonly #instruments: (Observable | Histogram)[];
  /** The very list that the callback was registered with: it takes the same to end that. */
  readonly #observables: Observable[];
  #isListening = false;
  #hasComplained = false;

  constructor(meter: Meter) {
    this.#meter = meter;
    this.#instruments = INSTRUMENTS.map((definition) => make(meter, definition));
    this.#observables = this.#instruments.filter(
      (_, i) => INSTRUMENTS[i]?.kind !== "histogram",
    ) as Observable[];
  }

  add(entry: Entry): void {
    const key = JSON.stringify(Object.entries(entry.attributes).sort());
    let group = this.#groups.get(key);
    if (group === undefined) {
      if (this.#groups.size >= MOST_NAMES) {
        if (!this.#hasComplained)
          diag.warn(`headgate: more than ${MOST_NAMES} names of limiters; others are not measured`);
        this.#hasComplained = true;
        return;
      }
      group = new Group(entry.attributes);
      this.#groups.set(key, group);
    }
    group.entries.add(entry);
    if (this.#isListening) return;
    this.#isListening = true;
    this.#meter.addBatchObservableCallback(this.#collect, this.#observables);
  }

  remove(entry: Entry): void {
    for (const group of this.#groups.values()) group.close(entry);
  }

  readonly #collect: BatchObservableCallback = (result) => {
    try {
      let isBusy = false;
      for (const group of this.#groups.values()) {
        isBusy = group.observe(result, this.#instruments as Observable[]) || isBusy;
        this.#recordSamples(group);
      }
      if (isBusy) return;
      this.#isListening = false;
      this.#meter.removeBatchObservableCallback(this.#collect, this.#observables);
    } catch (error) {
      diag.error("headgate: limiters cannot be measured", error);
    }
  };

  #recordSamples(group: Group): void {
    for (const counters of group.takeCounters()) {
      counters?.flush((index, seconds) => {
        const instrument = this.#instruments[(SERIES[index] as SeriesDefinition).instrument] as Histogram;
        instrument.record(seconds, group.attributesFor(index, undefined));
      });
    }
  }
}

function make(
  meter: Meter,
  { kind, name, unit, description, bounds }: (typeof INSTRUMENTS)[number],
): Observable | Histogram {
  const options = { unit, description };
  if (kind === "counter") return meter.createObservableCounter(name, options);
  if (kind === "updown") return meter.createObservableUpDownCounter(name, options);
  if (kind === "gauge") return meter.createObservableGauge(name, options);
  return meter.createHistogram(name, {
    ...options,
    advice: { explicitBucketBoundaries: [...(bounds as readonly number[])] },
  });
}

const registries = new WeakMap<Meter, Registry>();

/** What a meter measures. */
export function registryOf(meter: Meter): Registry {
  const known = registries.get(meter);
  if (known !== undefined) return known;
  const registry = new Registry(meter);
  registries.set(meter, registry);
  return registry;
}
