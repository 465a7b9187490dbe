import { type LeaseOutcome, RateLimitLease, type RejectionReason } from "headgate";
import type { Counters } from "./counters.js";

/** A lease whose end is counted; all else is the lease behind it. */
export class CountedLease extends RateLimitLease {
  readonly #lease: RateLimitLease;
  readonly #counters: Counters;
  readonly #signal: AbortSignal | undefined;
  readonly #startMs: number;
  #outcome: LeaseOutcome | undefined = undefined;
  #isOver = false;

  constructor(lease: RateLimitLease, counters: Counters, signal: AbortSignal | undefined) {
    super();
    this.#lease = lease;
    this.#counters = counters;
    this.#signal = signal;
    this.#startMs = counters.clock.now();
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
    this.#outcome ??= outcome;
    this.#lease.report(outcome);
  }

  override adjust(actualPermits: number): void {
    this.#lease.adjust(actualPermits);
  }

  override refund(): void {
    this.#end(() => this.#lease.refund());
  }

  override dispose(): void {
    this.#end(() => this.#lease.dispose());
  }

  #end(giveBack: () => void): void {
    if (this.#isOver) {
      giveBack();
      return;
    }
    this.#isOver = true;
    const isDelivered = this.#signal === undefined ? undefined : !this.#signal.aborted;
    const heldMs = this.#counters.clock.now() - this.#startMs;
    try {
      giveBack();
    } finally {
      this.#counters.completed(this.#outcome ?? "ignored", heldMs, isDelivered);
    }
  }
}
