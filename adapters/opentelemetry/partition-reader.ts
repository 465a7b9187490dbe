import type { KeyedRateLimiter } from "headgate";
import { checkInteger, checkOptionNames, wrongType } from "../../src/internal.js";
import { type Frame, levelSeries, otherSeries, requestSeries } from "./catalogue.js";
import type { PartitionSeriesOptions } from "./options.js";
import { ENDED, type Reader } from "./readers.js";

/** What all partitions without a series of their own are called. */
const OTHER = "_other";
const LONGEST_LABEL = 64;
/** SDKs fold what is beyond 2000 series of an instrument into one, which then tells nonsense; each label has two of requests. */
const MOST_LABELS = 500;

/** How a partition looked when it was last seen. */
interface Seen {
  readonly label: string;
  acquired: number;
  rejected: number;
  isHere: boolean;
}

/** The sums of what has gone of a label. */
interface Gone {
  acquired: number;
  rejected: number;
}

/**
 * A partitioned limiter: sums over its partitions, and a few of those by name.
 *
 * A partition's totals end with it, and begin anew when it comes back, but a series must not go down. So what was last
 * seen of a partition that has gone is kept for its label. What it did after that is in the limiter's own totals, and so in
 * `_other`, which is what those have beyond the labels.
 */
export class PartitionReader implements Reader {
  readonly type = "partitioned";
  readonly #labelOf: ((key: unknown) => string | undefined) | undefined;
  readonly #max: number;
  readonly #labels = new Set<string>();
  readonly #seen = new Map<unknown, Seen>();
  readonly #gone = new Map<string, Gone>();
  /** Keys without a name of their own; asked for once, since what is in `_other` cannot leave it. */
  #others = new Set<unknown>();

  constructor(options: PartitionSeriesOptions | undefined) {
    if (options === undefined) {
      this.#max = 0;
      return;
    }
    checkOptionNames(options, ["keys", "max"], "options.partitions");
    const { keys, max = 50 } = options;
    checkInteger("options.partitions.max", max, 1, MOST_LABELS);
    this.#max = max;
    if (typeof keys === "function") {
      this.#labelOf = keys;
    } else {
      if (!Array.isArray(keys)) throw wrongType("options.partitions.keys", "an array or a function", keys);
      const known = new Set(keys.map(String));
      this.#labelOf = (key) => {
        const name = typeof key === "object" || typeof key === "function" ? undefined : String(key);
        return name !== undefined && known.has(name) ? name : undefined;
      };
    }
  }

  read(
    limiter: KeyedRateLimiter<never, unknown>,
    frameOf: (label: string | undefined) => Frame,
  ): typeof ENDED | undefined {
    let totals: ReturnType<typeof limiter.getTotals>;
    try {
      totals = limiter.getTotals();
    } catch {
      return ENDED;
    }
    const { totalSuccessfulLeases, totalFailedLeases, currentAvailablePermits, currentQueuedCount } = totals;
    const rest = { acquired: totalSuccessfulLeases, rejected: totalFailedLeases };
    let available = currentAvailablePermits;
    let queued = currentQueuedCount;
    frameOf(undefined).add(otherSeries.partitions, limiter.size);
    if (this.#labelOf !== undefined) {
      for (const [label, sums] of this.#readLabels(limiter)) {
        rest.acquired -= sums.acquired;
        rest.rejected -= sums.rejected;
        available -= sums.available;
        queued -= sums.queued;
        addSums(frameOf(label), sums);
      }
    }
    const label = this.#labelOf === undefined ? undefined : OTHER;
    addSums(frameOf(label), { ...rest, available: Math.max(0, available), queued });
    return undefined;
  }

  #readLabels(limiter: KeyedRateLimiter<never, unknown>): Map<string, Sums> {
    const sums = new Map<string, Sums>();
    const sumsOf = (label: string): Sums => {
      const known = sums.get(label) ?? { acquired: 0, rejected: 0, available: 0, queued: 0 };
      sums.set(label, known);
      return known;
    };
    for (const seen of this.#seen.values()) seen.isHere = false;
    const others = new Set<unknown>();
    for (const { key, statistics } of limiter.entries()) {
      const label = this.#others.has(key) ? undefined : (this.#seen.get(key)?.label ?? this.#label(key));
      if (label === undefined) others.add(key);
      if (label === undefined || statistics === undefined) continue;
      const seen = this.#seen.get(key) ?? { label, acquired: 0, rejected: 0, isHere: true };
      this.#seen.set(key, seen);
      seen.isHere = true;
      const { totalSuccessfulLeases: acquired, totalFailedLeases: rejected } = statistics;
      // It has gone and come back.
      if (acquired < seen.acquired || rejected < seen.rejected) this.#bury(seen);
      seen.acquired = acquired;
      seen.rejected = rejected;
      const of = sumsOf(label);
      of.acquired += acquired;
      of.rejected += rejected;
      of.available += statistics.currentAvailablePermits;
      of.queued += statistics.currentQueuedCount;
    }
    this.#others = others;
    for (const [key, seen] of this.#seen) {
      if (seen.isHere) continue;
      this.#bury(seen);
      this.#seen.delete(key);
    }
    for (const [label, gone] of this.#gone) {
      const of = sumsOf(label);
      of.acquired += gone.acquired;
      of.rejected += gone.rejected;
    }
    return sums;
  }

  #bury({ label, acquired, rejected }: Seen): void {
    const gone = this.#gone.get(label) ?? { acquired: 0, rejected: 0 };
    gone.acquired += acquired;
    gone.rejected += rejected;
    this.#gone.set(label, gone);
  }

  #label(key: unknown): string | undefined {
    let wanted: unknown;
    try {
      wanted = this.#labelOf?.(key);
    } catch {
      // One key that has no name does not hide the others.
    }
    if (typeof wanted !== "string") return undefined;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for.
    const label = wanted.slice(0, LONGEST_LABEL).replaceAll(/[\u0000-\u001f\u007f]/g, "_");
    if (!this.#labels.has(label)) {
      if (this.#labels.size >= this.#max) return undefined;
      this.#labels.add(label);
    }
    return label;
  }
}

interface Sums {
  acquired: number;
  rejected: number;
  available: number;
  queued: number;
}

function addSums(frame: Frame, { acquired, rejected, available, queued }: Sums): void {
  frame.add(requestSeries.acquired, acquired);
  frame.add(requestSeries.rejected, rejected);
  frame.add(levelSeries.available, available);
  frame.add(levelSeries.queueUsage, queued);
}
