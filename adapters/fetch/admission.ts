import type { LeaseOutcome, RateLimitLease } from "headgate";
import { listen, unlisten } from "./abort-listeners.js";
import type { BodyCopy } from "./held-response.js";

/** Whoever counts calls that hold a lease. */
export interface AdmissionOwner {
  /** A lease has gone back. */
  ended(admission: Admission): void;
}

/** The lease of a call that was let through, from the grant until it goes back. */
export class Admission {
  readonly #owner: AdmissionOwner;
  readonly #lease: RateLimitLease;
  readonly #maxActualPermits: number;
  #signal: AbortSignal | undefined;
  #isOver = false;
  #isCostPending = false;
  get isCostPending(): boolean {
    return this.#isCostPending;
  }

  /** When the body began to hold it, by the clock of the wrapper. */
  heldSince = 0;
  /** The copy of the body that the cost is read from. */
  copy: BodyCopy | undefined = undefined;

  constructor(owner: AdmissionOwner, lease: RateLimitLease, maxActualPermits: number) {
    this.#owner = owner;
    this.#lease = lease;
    this.#maxActualPermits = maxActualPermits;
  }

  /** Tells the limiter how it went. A lease that cannot take it is given back all the same. */
  report(outcome: LeaseOutcome): void {
    try {
      this.#lease.report(outcome);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /**
   * Charges what the call turned out to cost, now or when it is known; the lease is kept until then. What is not a count of
   * permits changes nothing, since servers have a hand in it: the estimate stays charged. For the same reason it is bounded:
   * no answer may put a debt on the limiter that lasts for years.
   */
  charge(actualPermits: number | undefined | PromiseLike<number | undefined>): void {
    if (typeof (actualPermits as PromiseLike<number> | undefined)?.then === "function") {
      this.#isCostPending = true;
      Promise.resolve(actualPermits).then(this.#settle, () => this.#settle(undefined));
    } else if (Number.isSafeInteger(actualPermits) && (actualPermits as number) >= 0) {
      this.#lease.adjust(Math.min(actualPermits as number, this.#maxActualPermits));
    }
  }

  readonly #settle = (actualPermits: number | undefined): void => {
    if (!this.#isCostPending) return;
    this.#isCostPending = false;
    this.#leaveCopy();
    try {
      if (typeof actualPermits === "number") this.charge(actualPermits);
    } catch {
      // A limiter that somebody wrote has failed to take it, and there is nobody left to tell: the estimate stays charged.
    } finally {
      if (this.#isOver) this.#giveBack();
    }
  };

  /** Has the lease go back when the caller's signal is aborted, whether or not anybody reads the body then. */
  watch(signal: AbortSignal | undefined): void {
    if (signal === undefined || this.#isOver) return;
    if (signal.aborted) {
      this.end();
      return;
    }
    this.#signal = signal;
    listen(signal, this.end);
  }

  /** The work is over: the lease goes back. Only the first call counts. */
  readonly end = (): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#signal !== undefined) unlisten(this.#signal, this.end);
    this.#signal = undefined;
    if (!this.#isCostPending) this.#giveBack();
    // Where the body is over, so is the copy. Else nobody may read the body any more, and the copy would never end.
    else this.#leaveCopy();
  };

  /** Nobody waits for the copy any more: what comes later is not kept for it. Changes nothing when it is complete. */
  #leaveCopy(): void {
    this.copy?.fail(new Error("The body has not been read to its end."));
  }

  /** The lease goes back whatever is still to come. */
  expire(): void {
    const awaitsCost = this.#isCostPending;
    this.#isCostPending = false;
    this.#leaveCopy();
    if (this.#isOver && awaitsCost) this.#giveBack();
    else this.end();
  }

  /** Nothing was sent: the permits go back as far as they can. */
  undo(outcome: LeaseOutcome): void {
    this.report(outcome);
    try {
      this.#lease.adjust(0);
    } finally {
      this.end();
    }
  }

  #giveBack(): void {
    try {
      this.#lease.dispose();
    } finally {
      this.#owner.ended(this);
    }
  }
}
