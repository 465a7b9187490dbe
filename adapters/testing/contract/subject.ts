import type { QueueProcessingOrder, RateLimiter, RateLimitLease } from "headgate";
import type { ManualClock } from "../manual-clock.js";

/**
 * What a limiter is to be like that is held against the contract.
 *
 * @public
 */
export interface ContractLimiterOptions {
  /** How many permits it has, when it is limited. */
  readonly permitLimit: number;
  /** How many permits may be waited for, when it queues. */
  readonly queueLimit: number;
  /** In which order; `oldestFirst` when it is left out. */
  readonly queueProcessingOrder?: QueueProcessingOrder;
  /** The clock that it lives by; it stands still but where a test moves it. */
  readonly clock: ManualClock;
}

/**
 * A kind of limiter, to be held against the contract by {@link describeRateLimiterContract}. What does not apply to the
 * kind is left out of the suite.
 *
 * @public
 */
export interface ContractSubject {
  /** What the kind is called in the names of the tests. */
  readonly name: string;
  /** Makes a limiter, a new one each time, with all its permits free. */
  create(options: ContractLimiterOptions): RateLimiter;
  /** Brings the permits of these leases back, by disposing them or by letting time pass. */
  bringBack(leases: readonly RateLimitLease[], limiter: RateLimiter, clock: ManualClock): void;
  /** Whether it refuses anything at all; true by default. */
  readonly isLimited?: boolean | undefined;
  /** Whether it has a queue; true by default. */
  readonly queues?: boolean | undefined;
  /** Whether `queueProcessingOrder` may be `newestFirst`; true by default. */
  readonly ordersQueue?: boolean | undefined;
  /** Whether `dispose` reaches those who wait; true by default. */
  readonly ownsQueue?: boolean | undefined;
  /** Whether `dispose` makes it unusable; true by default. */
  readonly canBeDisposed?: boolean | undefined;
  /** Whether `getStatistics` tells anything; true by default. */
  readonly keepsStatistics?: boolean | undefined;
  /** Whether `idleDurationMs` tells anything while it is not in use; true by default. */
  readonly canBeIdle?: boolean | undefined;
}

/**
 * The two functions of a test framework that the suite needs: those of vitest, jest, mocha, jasmine, `node:test`, or
 * others like them.
 *
 * @public
 */
export interface TestFramework {
  /** Makes a group of tests of those that `body` declares at once. */
  readonly describe: (name: string, body: () => void) => unknown;
  /** Declares a test, which fails when the promise of `body` rejects. */
  readonly it: (name: string, body: () => Promise<void>) => unknown;
}
