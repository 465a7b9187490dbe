import { RateLimitLease } from "../contract/rate-limit-lease.js";
import { checkPermitCount } from "../contract/validation.js";
import type { PermitQueue } from "./permit-queue.js";

/** Permits, and the period that they were charged to. */
interface Charge {
  readonly period: number;
  readonly permits: number;
}

/**
 * A "yes" of a limiter whose permits come back with time: it holds nothing, so disposing it gives nothing back. It knows
 * what it was charged and when, for a cost that turns out to be another.
 */
export class ChargedLease<Limiter> extends RateLimitLease {
  readonly #queue: PermitQueue<Limiter>;
  readonly #period: number;
  /** What was charged to that period; -1 once the lease has been disposed. */
  #permits: number;
  /** What was charged when that period was over. */
  #late: Charge | undefined = undefined;

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
    return this.#queue.metadataNames;
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.#queue.standing(name);
  }

  override adjust(actualPermits: number): void {
    if (this.#permits < 0) return;
    checkPermitCount(actualPermits, "actualPermits");
    const now = this.#queue.advance();
    // Whoever was served while the limiter brought itself up to the present may have disposed or adjusted this lease.
    if (now === undefined || this.#permits < 0) return;
    const late = this.#late?.permits ?? 0;
    const more = actualPermits - this.#permits - late;
    if (more > 0) this.#charge(more, now);
    else if (more < 0) this.#giveBack(-more, late, now);
  }

  override dispose(): void {
    this.#permits = -1;
  }

  #charge(permits: number, now: number): void {
    const { algorithm, limiter } = this.#queue;
    const late = this.#late;
    const period = algorithm.charge?.(limiter, permits, late?.period ?? this.#period, now);
    if (period === undefined || (late === undefined && period === this.#period)) {
      this.#permits += permits;
    } else if (late?.period === period) {
      this.#late = { period, permits: late.permits + permits };
    } else {
      // What was charged before that is in periods that are over, which give nothing back.
      this.#permits += late?.permits ?? 0;
      this.#late = { period, permits };
    }
  }

  #giveBack(permits: number, late: number, now: number): void {
    const { algorithm, limiter } = this.#queue;
    const fromLate = Math.min(permits, late);
    const fromFirst = permits - fromLate;
    this.#permits -= fromFirst;
    if (this.#late !== undefined && fromLate > 0) {
      const { period } = this.#late;
      this.#late = { period, permits: late - fromLate };
      algorithm.charge?.(limiter, -fromLate, period, now);
    }
    if (fromFirst > 0) algorithm.charge?.(limiter, -fromFirst, this.#period, now);
  }
}
