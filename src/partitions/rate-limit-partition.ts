import type { RateLimiter } from "../contract/rate-limiter.js";
import { checkFunction } from "../contract/validation.js";
import { ConcurrencyLimiter, type ConcurrencyLimiterOptions } from "../limiters/concurrency-limiter.js";
import {
  FixedWindowRateLimiter,
  type FixedWindowRateLimiterOptions,
} from "../limiters/fixed-window-rate-limiter.js";
import { NoLimiter } from "../limiters/no-limiter.js";
import {
  SlidingWindowRateLimiter,
  type SlidingWindowRateLimiterOptions,
} from "../limiters/sliding-window-rate-limiter.js";
import {
  TokenBucketRateLimiter,
  type TokenBucketRateLimiterOptions,
} from "../limiters/token-bucket-rate-limiter.js";

/** The same options with the refill that partitions have unless they say otherwise; what is no options at all is left as it is. */
function continuous(options: TokenBucketRateLimiterOptions): TokenBucketRateLimiterOptions {
  return typeof options === "object" && options?.refill === undefined
    ? { ...options, refill: "continuous" }
    : options;
}

/**
 * What a partitioner answers: which partition a resource belongs to, and how to make that partition's limiter when there is
 * none yet. Models .NET's `RateLimitPartition`.
 *
 * Keys compare as the keys of a `Map` do: `1` and `"1"` are two, and two objects are two, however alike. Make a key of
 * several parts a string with a separator that cannot be in the parts.
 *
 * The helpers make limiters of this library. Their options may be one shared object, and should be: the partitions then
 * share what is read from it.
 *
 * @example
 * ```ts
 * import { RateLimitPartition } from "headgate";
 *
 * const options = { permitLimit: 100, windowMs: 60_000 };
 * const partition = RateLimitPartition.getFixedWindowLimiter("tenant-7", () => options);
 * ```
 *
 * @public
 */
export class RateLimitPartition<Key> {
  /** The name of the partition. */
  readonly partitionKey: Key;
  /** Makes the limiter of the partition: a new one for each call, since whoever keeps the partitions disposes it. */
  readonly factory: (key: Key) => RateLimiter;

  private constructor(partitionKey: Key, factory: (key: Key) => RateLimiter) {
    checkFunction("factory", factory);
    this.partitionKey = partitionKey;
    this.factory = factory;
  }

  /**
   * A partition with any limiter.
   *
   * @throws TypeError when `factory` is not a function.
   */
  static get<Key>(partitionKey: Key, factory: (key: Key) => RateLimiter): RateLimitPartition<Key> {
    return new RateLimitPartition(partitionKey, factory);
  }

  /** A partition with a `ConcurrencyLimiter`. */
  static getConcurrencyLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => ConcurrencyLimiterOptions,
  ): RateLimitPartition<Key> {
    return new RateLimitPartition(partitionKey, (key) => new ConcurrencyLimiter(options(key)));
  }

  /** A partition with a `FixedWindowRateLimiter`. */
  static getFixedWindowLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => FixedWindowRateLimiterOptions,
  ): RateLimitPartition<Key> {
    return new RateLimitPartition(partitionKey, (key) => new FixedWindowRateLimiter(options(key)));
  }

  /** A partition with a `SlidingWindowRateLimiter`. */
  static getSlidingWindowLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => SlidingWindowRateLimiterOptions,
  ): RateLimitPartition<Key> {
    return new RateLimitPartition(partitionKey, (key) => new SlidingWindowRateLimiter(options(key)));
  }

  /** A partition with a `TokenBucketRateLimiter`, with `refill: "continuous"` unless the options say otherwise. */
  static getTokenBucketLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => TokenBucketRateLimiterOptions,
  ): RateLimitPartition<Key> {
    return new RateLimitPartition(
      partitionKey,
      (key) => new TokenBucketRateLimiter(continuous(options(key))),
    );
  }

  /** A partition that lets everything through. */
  static getNoLimiter<Key>(partitionKey: Key): RateLimitPartition<Key> {
    return new RateLimitPartition(partitionKey, () => new NoLimiter());
  }
}
