import { RateLimitLease } from "../contract/rate-limit-lease.js";
import { checkPermitCount } from "../contract/validation.js";
import type { PermitQueue } from "./permit-queue.js";

/** Stands for the permits of a lease that has been disposed. */
const ENDED = -1;

/**
 * A "yes" of a limiter whose permits come back with time: it holds nothing, so disposing it gives nothing back. It knows
 * what it was charged and when, for a cost that turns out to be another.
 */
export class ChargedLease<Limiter> extends RateLimitLease {
  readonly #queue: PermitQueue<Limiter>;
  readonly #period: number;
  #permits: number;

  constructor(queue: PermitQueue<Limiter>, permits: number, period: number) {
    super();
    this.#queue = queue;
    this.#permits = permits;
    this.#period = period;
  }

  override get isAcquired(): boolean {
    return true;
  }

  override get metadataNames(): Iterable<string> {
    return this.#queue.algorithm.metadataNames;
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.#queue.standing(name);
  }

  override adjust(actualPermits: number): void {
    if (this.#permits === ENDED) return;
    checkPermitCount(actualPermits, "actualPermits");
    const more = actualPermits - this.#permits;
    this.#permits = actualPermits;
    if (more !== 0) this.#queue.algorithm.charge?.(this.#queue.limiter, more, this.#period);
  }

  override dispose(): void {
    this.#permits = ENDED;
  }
}
