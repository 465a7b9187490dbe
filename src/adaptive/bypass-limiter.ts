import type { AcquireOptions } from "../contract/acquire-options.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { RateLimiter, request } from "../contract/rate-limiter.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import { NoLimiter } from "../limiters/no-limiter.js";
import type { InFlight } from "./in-flight.js";

/** Lets everything past an adaptive limiter, and counts it. It belongs to that limiter, so disposing it does nothing. */
export class BypassLimiter extends RateLimiter {
  readonly #inFlight: InFlight;
  readonly #free = new NoLimiter();

  constructor(inFlight: InFlight) {
    super();
    this.#inFlight = inFlight;
  }

  override getStatistics(): RateLimiterStatistics {
    this.#inFlight.checkUsable();
    return this.#free.getStatistics();
  }

  override get idleDurationMs(): undefined {
    return undefined;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    this.#inFlight.checkUsable();
    this.#inFlight.bypassed += 1;
    return this.#free.attemptAcquire(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    this.#inFlight.checkUsable();
    const { maxWaitMs = 0 } = options;
    // Past its deadline, nobody gets through.
    return maxWaitMs < 0 ? request(this.#free, permitCount, options) : this.attemptAcquireCore(permitCount);
  }
}
