import type { LeaseOutcome } from "../contract/outcome.js";
import { RateLimitLease } from "../contract/rate-limit-lease.js";
import { checkChoice, checkPermitCount } from "../contract/validation.js";
import type { Share } from "./share.js";

const OUTCOMES: readonly LeaseOutcome[] = ["success", "failure", "dropped", "ignored"];

/** Stands for the permits of a lease that has been disposed. */
const RETURNED = -1;

/** Holds permits until it is disposed, and tells the algorithm then how the work went. */
export class AdaptiveLease extends RateLimitLease {
  readonly #share: Share;
  #permits: number;
  readonly #startTime: number;
  /** Permits in flight right after the grant; 0 when none was asked for. */
  readonly #inFlight: number;
  #outcome: LeaseOutcome | undefined = undefined;
  #endTime = 0;

  constructor(share: Share, permits: number, startTime: number, inFlight: number) {
    super();
    this.#share = share;
    this.#permits = permits;
    this.#startTime = startTime;
    this.#inFlight = inFlight;
  }

  override get isAcquired(): boolean {
    return true;
  }

  override get metadataNames(): Iterable<string> {
    return this.#share.queue.metadataNames;
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.#share.queue.standing(name);
  }

  override report(outcome: LeaseOutcome): void {
    if (outcome !== "success") checkChoice("outcome", outcome, OUTCOMES);
    if (this.#permits === RETURNED || this.#outcome !== undefined) return;
    this.#outcome = outcome;
    if (outcome !== "ignored" && this.#inFlight > 0) this.#endTime = this.#share.queue.clock.now();
  }

  override adjust(actualPermits: number): void {
    if (this.#permits === RETURNED) return;
    checkPermitCount(actualPermits, "actualPermits");
    const more = actualPermits - this.#permits;
    this.#permits = actualPermits;
    this.#share.inFlight.adjust(this.#share, more);
  }

  override dispose(): void {
    const permits = this.#permits;
    if (permits === RETURNED) return;
    this.#permits = RETURNED;
    const { inFlight } = this.#share;
    const outcome = this.#outcome ?? "ignored";
    const rtt = this.#endTime - this.#startTime;
    // One who only asked whether a permit is free did no work.
    if (this.#inFlight === 0) inFlight.adjust(this.#share, -permits);
    else inFlight.complete(this.#share, permits, outcome, this.#startTime, rtt, this.#inFlight);
  }

  override refund(): void {
    this.#outcome = "ignored";
    this.dispose();
  }
}
