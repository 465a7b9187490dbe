import type { RateLimiter } from "../contract/rate-limiter.js";
import { checkFunction, wrongType } from "../contract/validation.js";
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

/** What a partition without a limit has for a factory. Such a partition needs no place among those that are counted. */
export const makeNoLimiter = (): RateLimiter => new NoLimiter();

/** The complaint about what a partitioner or a factory returned. */
export function wrongAnswer(who: "partitioner" | "factory", allowed: string, value: unknown): TypeError {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === "function"
    ? new TypeError(
        `what the ${who} returns must be ${allowed}; got a promise; the ${who} must answer at once.`,
      )
    : wrongType(`what the ${who} returns`, allowed, value);
}

/** A partition whose limiter is made with options. */
function withOptions<Key, Options>(
  partitionKey: Key,
  options: (key: Key) => Options,
  make: (options: Options) => RateLimiter,
): RateLimitPartition<Key> {
  if (typeof options !== "function") throw wrongType("options", "a function of the key", options);
  return RateLimitPartition.get(partitionKey, (key) => make(options(key)));
}

/** What options of a token bucket say besides `refill`. */
const SAID: Record<Exclude<keyof TokenBucketRateLimiterOptions, "refill">, true> = {
  tokenLimit: true,
  tokensPerPeriod: true,
  replenishmentPeriodMs: true,
  autoReplenishment: true,
  queueLimit: true,
  queueProcessingOrder: true,
  queueTimeoutMs: true,
  clock: true,
};
const SAID_NAMES = Object.keys(SAID) as (keyof typeof SAID)[];

/** Options that were completed lately, the last first, beside what they came to. */
const recentlyCompleted: {
  readonly given: TokenBucketRateLimiterOptions;
  readonly completed: TokenBucketRateLimiterOptions;
}[] = [];
/** About as many as an application has tiers. */
const MOST_RECENT = 8;

/**
 * The same options with the refill that partitions have unless they say otherwise. What is no options stays as it is. As long
 * as options say the same, so does the object that they come to, so that limiters share what is read from it.
 */
function continuous(options: TokenBucketRateLimiterOptions): TokenBucketRateLimiterOptions {
  if (typeof options !== "object" || options === null || Array.isArray(options)) return options;
  if (options.refill !== undefined) return options;
  const known = recentlyCompleted.find(({ given }) => given === options)?.completed;
  if (known !== undefined && SAID_NAMES.every((name) => known[name] === options[name])) return known;
  // By name too, since options may be inherited. The rest is there to be complained about.
  const said = Object.fromEntries(SAID_NAMES.map((name) => [name, options[name]]));
  const completed = { ...options, ...said, refill: "continuous" as const };
  if (recentlyCompleted.unshift({ given: options, completed }) > MOST_RECENT) recentlyCompleted.pop();
  return completed;
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
   * @param partitionKey - The name of the partition.
   * @param factory - Makes the limiter. Called with the key, when there is no partition of that name.
   * @throws TypeError when `factory` is not a function.
   *
   * @example
   * ```ts
   * import { ConcurrencyLimiter, RateLimitPartition, shadowed } from "headgate";
   *
   * const partition = RateLimitPartition.get("tenant-7", () => shadowed(new ConcurrencyLimiter({ permitLimit: 10 })));
   * ```
   */
  static get<Key>(partitionKey: Key, factory: (key: Key) => RateLimiter): RateLimitPartition<Key> {
    return new RateLimitPartition(partitionKey, factory);
  }

  /**
   * A partition with a `ConcurrencyLimiter`.
   *
   * @param partitionKey - The name of the partition.
   * @param options - Tells the options of the limiter. Called with the key, when there is no partition of that name.
   * @throws TypeError when `options` is not a function. What is wrong with the options it returns is thrown when the limiter
   * is made.
   *
   * @example
   * ```ts
   * import { RateLimitPartition } from "headgate";
   *
   * const options = { permitLimit: 10, queueLimit: 100 };
   * const partition = RateLimitPartition.getConcurrencyLimiter("tenant-7", () => options);
   * ```
   */
  static getConcurrencyLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => ConcurrencyLimiterOptions,
  ): RateLimitPartition<Key> {
    return withOptions(partitionKey, options, (how) => new ConcurrencyLimiter(how));
  }

  /**
   * A partition with a `FixedWindowRateLimiter`.
   *
   * @param partitionKey - The name of the partition.
   * @param options - Tells the options of the limiter. Called with the key, when there is no partition of that name.
   * @throws TypeError when `options` is not a function. What is wrong with the options it returns is thrown when the limiter
   * is made.
   *
   * @example
   * ```ts
   * import { RateLimitPartition } from "headgate";
   *
   * const options = { permitLimit: 100, windowMs: 60_000 };
   * const partition = RateLimitPartition.getFixedWindowLimiter("tenant-7", () => options);
   * ```
   */
  static getFixedWindowLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => FixedWindowRateLimiterOptions,
  ): RateLimitPartition<Key> {
    return withOptions(partitionKey, options, (how) => new FixedWindowRateLimiter(how));
  }

  /**
   * A partition with a `SlidingWindowRateLimiter`.
   *
   * @param partitionKey - The name of the partition.
   * @param options - Tells the options of the limiter. Called with the key, when there is no partition of that name.
   * @throws TypeError when `options` is not a function. What is wrong with the options it returns is thrown when the limiter
   * is made.
   *
   * @example
   * ```ts
   * import { RateLimitPartition } from "headgate";
   *
   * const options = { permitLimit: 100, windowMs: 60_000, segmentsPerWindow: 6 };
   * const partition = RateLimitPartition.getSlidingWindowLimiter("tenant-7", () => options);
   * ```
   */
  static getSlidingWindowLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => SlidingWindowRateLimiterOptions,
  ): RateLimitPartition<Key> {
    return withOptions(partitionKey, options, (how) => new SlidingWindowRateLimiter(how));
  }

  /**
   * A partition with a `TokenBucketRateLimiter`, with `refill: "continuous"` unless the options say otherwise.
   *
   * @param partitionKey - The name of the partition.
   * @param options - Tells the options of the limiter. Called with the key, when there is no partition of that name.
   * @throws TypeError when `options` is not a function. What is wrong with the options it returns is thrown when the limiter
   * is made.
   *
   * @example
   * ```ts
   * import { RateLimitPartition } from "headgate";
   *
   * const options = { tokenLimit: 50, tokensPerPeriod: 10, replenishmentPeriodMs: 1000 };
   * const partition = RateLimitPartition.getTokenBucketLimiter("tenant-7", () => options);
   * ```
   */
  static getTokenBucketLimiter<Key>(
    partitionKey: Key,
    options: (key: Key) => TokenBucketRateLimiterOptions,
  ): RateLimitPartition<Key> {
    return withOptions(partitionKey, options, (how) => new TokenBucketRateLimiter(continuous(how)));
  }

  /**
   * A partition that lets everything through. It takes none of `maxPartitions`: where that is set, all such partitions share
   * one limiter, and `size` and `entries` leave them out, unless they are paused.
   *
   * @param partitionKey - The name of the partition.
   *
   * @example
   * ```ts
   * import { RateLimitPartition } from "headgate";
   *
   * const partition = RateLimitPartition.getNoLimiter("internal");
   * ```
   */
  static getNoLimiter<Key>(partitionKey: Key): RateLimitPartition<Key> {
    return new RateLimitPartition(partitionKey, makeNoLimiter);
  }
}
