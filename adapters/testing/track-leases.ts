import { type Clock, RateLimiter, ReplenishingRateLimiter, systemClock } from "headgate";
import {
  checkFunction,
  checkMethods,
  checkOptionNames,
  type InsideLimiter,
  inside,
  wrongType,
} from "../../src/internal.js";
import { type HeldLease, LeaseLedger } from "./lease-ledger.js";
import { ReplenishingTracker, Tracker } from "./trackers.js";

/**
 * Options of {@link trackLeases}.
 *
 * @public
 */
export interface TrackLeasesOptions {
  /** What `acquiredAt` is read from; the limiter's own clock by default, and `systemClock` when that is not known. */
  readonly clock?: Clock | undefined;
  /**
   * Told of each lease that the garbage collector took before anybody disposed it; the lease stays in `held`. When that
   * happens, and whether it does, is up to the host (`FinalizationRegistry`). What it throws is an uncaught exception.
   */
  readonly onCollected?: ((held: HeldLease) => void) | undefined;
}

/**
 * A limiter that knows which of its leases are out; see {@link trackLeases}.
 *
 * @public
 */
export interface TrackedRateLimiter extends RateLimiter {
  /** The leases that have been granted and not been disposed, in the order of the grants. */
  readonly held: readonly HeldLease[];
  /**
   * Does nothing when all leases have been disposed.
   *
   * @throws Error that tells of each lease that is out: how many permits, since when, and where it was acquired.
   */
  assertNoneHeld(): void;
  /**
   * Disposes the limiter, then checks that all leases have been disposed. So does `disposeAsync`.
   *
   * @throws Error as `assertNoneHeld` does; the limiter has been disposed then all the same.
   */
  dispose(): void;
}

/**
 * Finds leases that are never disposed: a limiter that stands before another and knows every lease that is out. With
 * `using`, a test that leaves one undisposed fails.
 *
 * It answers as the limiter behind it does, at once where that does, and with the same errors. Every granted lease counts as out
 * until it is disposed or refunded, one for 0 permits too, and one of a limiter whose permits come back with time.
 * Leases that were asked for past the tracker are not known to it. What only one kind of limiter has, such as `pause`,
 * is reached at that limiter. The tracker of a `ReplenishingRateLimiter` is one too.
 *
 * It owns the limiter: disposing it disposes the limiter, and throws, each time, while a lease is out. When the test has
 * failed already, `using` makes a `SuppressedError` of both errors.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { trackLeases } from "headgate/testing";
 *
 * using limiter = trackLeases(new ConcurrencyLimiter({ permitLimit: 2 }));
 * const lease = limiter.attemptAcquire();
 * console.log(limiter.held.length); // 1
 * lease.dispose(); // without this line the block ends with an error that names the line of attemptAcquire
 * ```
 *
 * @param limiter - The limiter to stand before.
 * @param options - `clock` and `onCollected`.
 * @throws TypeError when an argument is not what it should be.
 *
 * @public
 */
export function trackLeases(limiter: RateLimiter, options: TrackLeasesOptions = {}): TrackedRateLimiter {
  if (!(limiter instanceof RateLimiter)) throw wrongType("limiter", "a RateLimiter", limiter);
  checkOptionNames(options, ["clock", "onCollected"]);
  const { clock = (limiter as InsideLimiter)[inside]?.clock ?? systemClock, onCollected } = options;
  checkMethods("options.clock", clock, ["now", "setTimer"]);
  if (onCollected !== undefined) checkFunction("options.onCollected", onCollected);
  const ledger = new LeaseLedger(clock, onCollected);
  return limiter instanceof ReplenishingRateLimiter
    ? new ReplenishingTracker(limiter, ledger)
    : new Tracker(limiter, ledger);
}
