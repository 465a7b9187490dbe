import { type LeaseOutcome, RateLimitLease, type RejectionReason } from "headgate";
import type { LeaseLedger, LedgerEntry } from "./lease-ledger.js";

/** A lease that is crossed out in the ledger when it is disposed; all else is the lease behind it. */
export class TrackedLease extends RateLimitLease {
  readonly #lease: RateLimitLease;
  readonly #ledger: LeaseLedger;
  readonly #entry: LedgerEntry;

  constructor(lease: RateLimitLease, ledger: LeaseLedger, entry: LedgerEntry) {
    super();
    this.#lease = lease;
    this.#ledger = ledger;
    this.#entry = entry;
    ledger.watch(entry, this);
  }

  override get isAcquired(): boolean {
    return this.#lease.isAcquired;
  }

  override get metadataNames(): Iterable<string> {
    return this.#lease.metadataNames;
  }

  override get retryAfterMs(): number | undefined {
    return this.#lease.retryAfterMs;
  }

  override get reason(): RejectionReason | undefined {
    return this.#lease.reason;
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.#lease.tryGetMetadata(name);
  }

  override report(outcome: LeaseOutcome): void {
    this.#lease.report(outcome);
  }

  override adjust(actualPermits: number): void {
    this.#lease.adjust(actualPermits);
    this.#entry.permitCount = actualPermits;
  }

  // Crossed out first: whoever gets the permits gets them in the very call, and may look at the ledger.
  override refund(): void {
    this.#ledger.close(this.#entry);
    this.#lease.refund();
  }

  override dispose(): void {
    this.#ledger.close(this.#entry);
    this.#lease.dispose();
  }
}
