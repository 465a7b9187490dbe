import type { RateLimitLease } from "headgate";
import type { AcquireSink, AcquireTicket } from "../../src/internal.js";

/** A call's wait for its turn. It becomes a promise only when there is something to wait for. */
export class Turn implements AcquireSink {
  readonly #waiting: Set<Turn>;
  #ticket: AcquireTicket | undefined;
  #settle: (() => void) | undefined;
  #lease: RateLimitLease | undefined;
  #error: unknown;
  #state: "open" | "settled" | "failed" = "open";

  /** @param waiting - Holds the turn while it is waited for. */
  constructor(waiting: Set<Turn>) {
    this.#waiting = waiting;
  }

  settled(lease: RateLimitLease | undefined): void {
    this.#lease = lease;
    this.#end("settled");
  }

  failed(error: unknown): void {
    this.#error = error;
    this.#end("failed");
  }

  /** The lease, acquired or not; undefined when the wrapper has been disposed. */
  wait(ticket: AcquireTicket): Promise<RateLimitLease | undefined> {
    this.#ticket = ticket;
    return new Promise((resolve, reject) => {
      this.#settle = () => {
        if (this.#state === "failed") reject(this.#error);
        else resolve(this.#lease);
      };
      // The answer may have come while the request was being made.
      if (this.#state === "open") this.#waiting.add(this);
      else this.#settle();
    });
  }

  /** Leaves the queue; its caller is told that there is no lease. */
  leave(): void {
    if (this.#ticket?.cancel() === true) this.settled(undefined);
  }

  #end(state: "settled" | "failed"): void {
    this.#state = state;
    this.#waiting.delete(this);
    this.#settle?.();
  }
}
