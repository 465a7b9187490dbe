import type { RateLimitLease } from "headgate";
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

  constructor(owner: AdmissionOwner, lease: RateLimitLease) {
    this.#owner = owner;
    this.#lease = lease;
  }

  /**
   * Charges what the call turned out to cost, now or when it is known; the lease is kept until then. What is not a count of
   * permits changes nothing, since servers have a hand in it: the estimate stays charged.
   */
  charge(actualPermits: number | undefined | PromiseLike<number | undefined>): void {
    if (typeof (actualPermits as PromiseLike<number> | undefined)?.then === "function") {
      this.#isCostPending = true;
      Promise.resolve(actualPermits).then(this.#settle, () => this.#settle(undefined));
    } else if (Number.isSafeInteger(actualPermits) && (actualPermits as number) >= 0) {
      this.#lease.adjust(actualPermits as number);
    }
  }

  readonly #settle = (actualPermits: number | undefined): void => {
    if (!this.#isCostPending) return;
    this.#isCostPending = false;
    try {
      if (typeof actualPermits === "number") this.charge(actualPermits);
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
    signal.addEventListener("abort", this.end, { once: true });
  }

  /** The work is over: the lease goes back. Only the first call counts. */
  readonly end = (): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#signal?.removeEventListener("abort", this.end);
    this.#signal = undefined;
    if (!this.#isCostPending) this.#giveBack();
    // Where the body is over, so is the copy. Else nobody may read the body any more, and the copy would never end.
    else this.copy?.fail(new Error("The body has not been read to its end."));
  };

  /** The lease goes back whatever is still to come. */
  expire(): void {
    const awaitsCost = this.#isCostPending;
    this.#isCostPending = false;
    if (this.#isOver && awaitsCost) this.#giveBack();
    else this.end();
  }

  /** Nothing came of it: the permits go back as far as they can. */
  undo(): void {
    this.#lease.adjust(0);
    this.end();
  }

  #giveBack(): void {
    try {
      this.#lease.dispose();
    } finally {
      this.#owner.ended(this);
    }
  }
}
