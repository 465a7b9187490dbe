import {
  type Attributes,
  type BatchObservableCallback,
  type BatchObservableResult,
  diag,
  type Histogram,
  type Meter,
  type Observable,
} from "@opentelemetry/api";
import {
  type Frame,
  type Frames,
  frameIn,
  INSTRUMENTS,
  levelSeries,
  SERIES,
  type SeriesDefinition,
} from "./catalogue.js";
import type { Counters } from "./counters.js";
import { type Entry, Measured } from "./measured.js";

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

/** All limiters with the same attributes. */
class Group {
  readonly #attributes: Attributes;
  readonly #measured = new Map<Entry, Measured>();
  readonly #open = new Set<Measured>();
  /** All that were ever measured: whoever comes back has been counted already. */
  readonly #known = new WeakMap<object, Measured>();
  /** What limiters had counted that are no more. */
  readonly #kept: Frames = new Map();
  /** What is to be told to be 0. */
  readonly #zeros: Frames = new Map();
  readonly #attributesOf = new Map<string, Attributes>();
  /** Those in front of limiters that are no more, whose samples have not been handed over. */
  readonly #closed = new Set<Counters>();
  /** Those in front of disposed limiters, of which leases are still out. */
  readonly #late = new Map<Counters, Measured>();

  constructor(attributes: Attributes) {
    this.#attributes = attributes;
  }

  /** Whether there is nothing more to tell. */
  get hasEnded(): boolean {
    return (
      this.#open.size === 0 && this.#zeros.size === 0 && this.#late.size === 0 && this.#closed.size === 0
    );
  }

  add(entry: Entry): void {
    const target = entry.target.deref();
    if (target === undefined) return;
    const measured = this.#known.get(target) ?? new Measured(entry);
    this.#known.set(target, measured);
    measured.add(entry);
    this.#measured.set(entry, measured);
    this.#open.add(measured);
  }

  remove(entry: Entry): void {
    const measured = this.#measured.get(entry);
    if (measured === undefined) return;
    if (measured.entries.size === 1) {
      measured.read();
      this.#close(measured);
      return;
    }
    this.#measured.delete(entry);
    measured.leave(entry);
    if (entry.counters !== undefined) this.#closed.add(entry.counters);
  }

  /** Keeps what a limiter has counted, and has the rest told to be 0. */
  #close(measured: Measured): void {
    this.#open.delete(measured);
    for (const entry of measured.entries) {
      this.#measured.delete(entry);
      if (entry.counters !== undefined) this.#closed.add(entry.counters);
    }
    for (const [label, frame] of measured.frames) {
      frameIn(this.#kept, label).addAll(frame, true);
      frameIn(this.#zeros, label).addZeros(frame);
    }
    measured.restart();
  }

  /** Tells what there is; false when nothing is left to tell. */
  observe(result: BatchObservableResult, instruments: readonly Observable[]): boolean {
    for (const measured of this.#open) {
      if (measured.read()) continue;
      for (const { counters } of measured.entries)
        if (counters !== undefined && counters.active > 0) this.#late.set(counters, measured);
      this.#close(measured);
    }
    if (this.#open.size === 0 && this.#zeros.size === 0 && this.#late.size === 0) return false;
    const totals: Frames = new Map();
    this.#addLate(totals);
    for (const frames of [this.#kept, this.#zeros, ...Array.from(this.#open, (measured) => measured.frames)])
      for (const [label, frame] of frames) frameIn(totals, label).addAll(frame);
    this.#zeros.clear();
    for (const [label, frame] of totals) this.#tell(label, frame, result, instruments);
    return true;
  }

  /** What becomes of leases after their limiter has been disposed. */
  #addLate(totals: Frames): void {
    for (const [counters, measured] of this.#late) {
      frameIn(this.#kept, undefined).addAll(measured.sinceKept(counters), true);
      this.#closed.add(counters);
      frameIn(totals, undefined).add(levelSeries.active, counters.active);
      if (counters.active === 0) this.#late.delete(counters);
    }
  }

  #tell(
    label: string | undefined,
    frame: Frame,
    result: BatchObservableResult,
    instruments: readonly Observable[],
  ): void {
    for (const [index, { instrument }] of SERIES.entries()) {
      if (frame.isPresent[index] !== 1) continue;
      result.observe(
        instruments[instrument] as Observable,
        frame.values[index] as number,
        this.attributesFor(index, label),
      );
    }
  }

  /** Those who have samples to hand over; asked once for each collection. */
  takeCounters(): (Counters | undefined)[] {
    const closed = [...this.#closed];
    this.#closed.clear();
    return [...closed, ...Array.from(this.#measured.keys(), ({ counters }) => counters)];
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
      if (this.#groups.size >= MOST_NAMES) this.#forgetOne();
      if (this.#groups.size >= MOST_NAMES) {
        if (!this.#hasComplained)
          diag.warn(`headgate: more than ${MOST_NAMES} names of limiters; others are not measured`);
        this.#hasComplained = true;
        return;
      }
      group = new Group(entry.attributes);
      this.#groups.set(key, group);
    }
    group.add(entry);
    if (this.#isListening) return;
    this.#isListening = true;
    this.#meter.addBatchObservableCallback(this.#collect, this.#observables);
  }

  remove(entry: Entry): void {
    for (const group of this.#groups.values()) group.remove(entry);
  }

  /** Makes room for a new name: one that has ended goes, and begins anew if it ever comes back. */
  #forgetOne(): void {
    for (const [key, group] of this.#groups) {
      if (!group.hasEnded) continue;
      this.#groups.delete(key);
      return;
    }
  }

  readonly #collect: BatchObservableCallback = (result) => {
    try {
      let isBusy = false;
      for (const group of this.#groups.values()) {
        isBusy = group.observe(result, this.#instruments as Observable[]) || isBusy;
        this.#recordSamples(group);
      }
      // Not now: the SDK goes through its list of callbacks, and would skip the one after this.
      if (!isBusy) queueMicrotask(this.#leave);
    } catch (error) {
      diag.error("headgate: limiters cannot be measured", error);
    }
  };

  readonly #leave = (): void => {
    if (!this.#isListening || ![...this.#groups.values()].every((group) => group.hasEnded)) return;
    this.#isListening = false;
    this.#meter.removeBatchObservableCallback(this.#collect, this.#observables);
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
