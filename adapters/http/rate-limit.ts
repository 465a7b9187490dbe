import {
  FixedWindowRateLimiter,
  type RateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { checkChoice, checkDuration, checkInteger, checkOptionNames } from "../../src/internal.js";
import type { Admission } from "./admission-options.js";
import { admissionOf, LIMIT_OPTION_NAMES, type LimitOptions, queueOptions } from "./concurrency-limit.js";
import type { PolicyScope } from "./policy.js";

/**
 * Options of {@link rateLimit}.
 *
 * @public
 */
export interface RateLimitOptions<Raw = unknown> extends LimitOptions<Raw> {
  /** How many requests may start in a window, for each key of the scope. Required. */
  readonly limit: number;
  /** The length of the window, in milliseconds. Required. */
  readonly windowMs: number;
  /**
   * `slidingWindow`, the default: at most `limit` in any span of time as long as the window, up to a tenth. `fixedWindow`: the cheapest;
   * up to twice the limit around the boundary of two windows. `tokenBucket`: `limit` at once, then a steady `limit` per window.
   */
  readonly algorithm?: "slidingWindow" | "fixedWindow" | "tokenBucket" | undefined;
  /** What is counted apart; `client` by default, which needs to be told how clients are told apart. */
  readonly scope?: PolicyScope<Raw> | undefined;
}

const SEGMENTS = 10;

/**
 * Limits how many requests start in a window of time, for each client by default.
 *
 * What is over the limit is refused with 429 (503 for the scopes `global` and `route`, which say nothing about one client), and a `Retry-After`
 * of when the limiter will let the next one through. All responses tell how the client stands, in `RateLimit-Policy` and `RateLimit`.
 *
 * @example
 * ```ts
 * import { rateLimit } from "headgate/http";
 *
 * const admission = rateLimit({ limit: 100, windowMs: 60_000, trustedProxies: ["10.0.0.0/8"] });
 * ```
 *
 * @throws TypeError or RangeError when an option is not what it should be.
 *
 * @public
 */
export function rateLimit<Raw = unknown>(options: RateLimitOptions<Raw>): Admission<Raw> {
  checkOptionNames(options, ["limit", "windowMs", "algorithm", "scope", ...LIMIT_OPTION_NAMES]);
  const { limit, windowMs, algorithm = "slidingWindow", scope = "client", name = "rate" } = options;
  checkInteger("options.limit", limit, 1);
  checkDuration("options.windowMs", windowMs);
  checkChoice("options.algorithm", algorithm, ["slidingWindow", "fixedWindow", "tokenBucket"]);
  const limiter = limiterOf(limit, windowMs, algorithm, queueOptions(options));
  limiter().dispose();
  const advertise = { quota: limit, windowSeconds: Math.ceil(windowMs / 1000) };
  return admissionOf(options, { name, kind: "rate", scope, limiter, advertise });
}

/** Makes limiters that share one object of options, and so what they have read from it. */
function limiterOf(
  limit: number,
  windowMs: number,
  algorithm: "slidingWindow" | "fixedWindow" | "tokenBucket",
  queue: ReturnType<typeof queueOptions>,
): () => RateLimiter {
  if (algorithm === "fixedWindow") {
    const settings = { permitLimit: limit, windowMs, ...queue };
    return () => new FixedWindowRateLimiter(settings);
  }
  if (algorithm === "slidingWindow") {
    const settings = { permitLimit: limit, windowMs, segmentsPerWindow: SEGMENTS, ...queue };
    return () => new SlidingWindowRateLimiter(settings);
  }
  const settings = {
    tokenLimit: limit,
    tokensPerPeriod: limit,
    replenishmentPeriodMs: windowMs,
    refill: "continuous" as const,
    ...queue,
  };
  return () => new TokenBucketRateLimiter(settings);
}
