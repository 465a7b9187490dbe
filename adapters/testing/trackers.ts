import {
  type AcquireOptions,
  RateLimiter,
  type RateLimiterStatistics,
  type RateLimitLease,
  ReplenishingRateLimiter,
} from "headgate";
import { type Inside, inside } from "../../src/internal.js";
import type { HeldLease, LeaseLedger } from "./lease-ledger.js";
import { LeaseTracking } from "./lease-tracking.js";

// Two classes that differ in nothing but what they extend: whoever drives or evicts limiters asks by `instanceof`.

/** The tracker of a limiter. */
export class Tracker extends RateLimiter {
  readonly #tracking: LeaseTracking;

  constructor(limiter: RateLimiter, ledger: LeaseLedger) {
    super();
    this.#tracking = new LeaseTracking(limiter, ledger);
  }

  get held(): readonly HeldLease[] {
    return this.#tracking.ledger.held;
  }

  assertNoneHeld(): void {
    this.#tracking.ledger.assertNoneHeld();
  }

  /** @internal */
  get [inside](): Inside | undefined {
    return this.#tracking.inside;
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#tracking.limiter.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#tracking.limiter.idleDurationMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#tracking.attempt(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return this.#tracking.acquire(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#tracking.dispose();
  }

  protected override disposeAsyncCore(): Promise<void> {
    return this.#tracking.limiter.disposeAsync();
  }
}

/** The tracker of a limiter whose permits come back with time. */
export class ReplenishingTracker extends ReplenishingRateLimiter {
  readonly #limiter: ReplenishingRateLimiter;
  readonly #tracking: LeaseTracking;

  constructor(limiter: ReplenishingRateLimiter, ledger: LeaseLedger) {
    super();
    this.#limiter = limiter;
    this.#tracking = new LeaseTracking(limiter, ledger);
  }

  get held(): readonly HeldLease[] {
    return this.#tracking.ledger.held;
  }

  assertNoneHeld(): void {
    this.#tracking.ledger.assertNoneHeld();
  }

  /** @internal */
  get [inside](): Inside | undefined {
    return this.#tracking.inside;
  }

  override get replenishmentPeriodMs(): number {
    return this.#limiter.replenishmentPeriodMs;
  }

  override get isAutoReplenishing(): boolean {
    return this.#limiter.isAutoReplenishing;
  }

  override tryReplenish(): boolean {
    return this.#limiter.tryReplenish();
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#limiter.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#limiter.idleDurationMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#tracking.attempt(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return this.#tracking.acquire(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#tracking.dispose();
  }

  protected override disposeAsyncCore(): Promise<void> {
    return this.#limiter.disposeAsync();
  }
}
