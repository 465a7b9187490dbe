/// <reference lib="esnext.disposable" preserve="true" />
import type { Clock } from "../contract/clock.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import type { PartitionedRateLimiter } from "./partitioned-rate-limiter.js";

/**
 * Options of `PartitionedRateLimiter.create`.
 *
 * @public
 */
export interface PartitionedRateLimiterOptions {
  /**
   * The most partitions there are at the same time; unbounded by default. Set it wherever strangers choose the keys. A
   * new key then takes the place of a partition that remembers nothing, if a few looks find one; otherwise see `overflow`.
   */
  readonly maxPartitions?: number | undefined;
  /**
   * What a key gets for which there is no room. `share`, the default: all of them share one limiter, made by the factory of
   * the first of them, whatever the others would have made. Strangers who fill the partitions then slow each other and
   * honest newcomers down, but nobody else. `reject`: a refusal with the reason `partition_overflow`; strangers can then
   * shut newcomers out for as long as they keep coming. A key without a limit (`getNoLimiter`) needs no room, and its
   * limiter is never the shared one.
   */
  readonly overflow?: "share" | "reject" | undefined;
  /** How long a partition is kept after nothing would be lost without it, in milliseconds; 10 000 by default. */
  readonly idleLimitMs?: number | undefined;
  /**
   * Told what is thrown by limiters that are replenished or dropped in the background. Without it, such an error is an
   * unhandled rejection.
   */
  readonly onBackgroundError?: ((error: unknown) => void) | undefined;
  /** Where the time for idle partitions comes from; `systemClock` by default. Limiters bring their own. */
  readonly clock?: Clock | undefined;
}

/**
 * One partition of a {@link KeyedRateLimiter}.
 *
 * @public
 */
export interface PartitionInfo<Key> {
  /** The name of the partition, as the partitioner gave it. */
  readonly key: Key;
  /** The statistics of its limiter, read when the entry is reached; undefined when that keeps none. */
  readonly statistics: RateLimiterStatistics | undefined;
  /** Milliseconds; undefined while the partition is in use. */
  readonly idleDurationMs: number | undefined;
}

/**
 * What `PartitionedRateLimiter.create` makes: limiters by key, which can be looked at.
 *
 * @public
 */
export interface KeyedRateLimiter<Resource, Key> extends PartitionedRateLimiter<Resource> {
  /** How many partitions there are. */
  readonly size: number;
  /** The statistics of a resource's partition, if there is one; never makes one. */
  peekStatistics(resource: Resource): RateLimiterStatistics | undefined;
  /**
   * Sums over all partitions; the totals include those that have been dropped, and never go down. Looks at every partition,
   * in one turn.
   */
  getTotals(): RateLimiterStatistics;
  /**
   * All partitions, oldest first. They may come and go meanwhile. Reading all of them in one turn takes time in proportion to
   * their number; with very many, pause between slices.
   */
  entries(): IterableIterator<PartitionInfo<Key>>;
  /** Drops a partition if nothing would be lost without it; false for one that is in use, and for an unknown key. */
  delete(key: Key): boolean;
  /** Replenishes now all limiters that do not do so by themselves; true when there was one. Every 100 ms this happens anyway. */
  tryReplenish(): boolean;
}
