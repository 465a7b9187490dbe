import type { Clock } from "headgate";

/**
 * A lease that has been granted and not yet disposed. A snapshot: later activity does not change it.
 *
 * @public
 */
export interface HeldLease {
  /** How many permits were asked for, or what `adjust` has made of that. */
  readonly permitCount: number;
  /** When it was granted, in milliseconds by the tracker's clock. */
  readonly acquiredAt: number;
  /** Where it was asked for: the lines of a stack trace, callers of `acquire` or `attemptAcquire` first. */
  readonly stack: string;
}

/** What the ledger writes down of a lease; it must not lead to the lease, which could not be collected then. */
export interface LedgerEntry extends HeldLease {
  permitCount: number;
}

const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;
const ms = (time: number): string => `${Number(time.toFixed(3))} ms`;

/** Knows the leases that are out. */
export class LeaseLedger {
  readonly #clock: Clock;
  readonly #entries = new Set<LedgerEntry>();
  readonly #registry: FinalizationRegistry<LedgerEntry> | undefined;

  constructor(clock: Clock, onCollected: ((held: HeldLease) => void) | undefined) {
    this.#clock = clock;
    if (onCollected === undefined) return;
    this.#registry = new FinalizationRegistry((entry) => onCollected(Object.freeze({ ...entry })));
  }

  /** The leases that are out, in the order in which they were granted. */
  get held(): readonly HeldLease[] {
    return Object.freeze(Array.from(this.#entries, (entry) => Object.freeze({ ...entry })));
  }

  /** Writes down a lease that is granted now. */
  open(permitCount: number, stack: string): LedgerEntry {
    const entry = { permitCount, acquiredAt: this.#clock.now(), stack };
    this.#entries.add(entry);
    return entry;
  }

  /** Notices when the entry's lease is collected before the entry is closed. */
  watch(entry: LedgerEntry, lease: object): void {
    this.#registry?.register(lease, entry, entry);
  }

  /** Crosses out a lease that is disposed. */
  close(entry: LedgerEntry): void {
    this.#entries.delete(entry);
    this.#registry?.unregister(entry);
  }

  /** Throws when a lease is out; the message tells of each. */
  assertNoneHeld(): void {
    const count = this.#entries.size;
    if (count === 0) return;
    const now = this.#clock.now();
    const lines = Array.from(
      this.#entries,
      ({ permitCount, acquiredAt, stack }, i) =>
        `${i + 1}. ${plural(permitCount, "permit")}, held for ${ms(now - acquiredAt)} (since ${ms(acquiredAt)}), acquired\n${stack}`,
    );
    throw new Error(
      `${plural(count, "lease")} ${count === 1 ? "has" : "have"} not been disposed:\n${lines.join("\n")}`,
    );
  }
}
