import { type Clock, systemClock } from "headgate";
import {
  checkDuration,
  checkFunction,
  checkMethods,
  checkNumber,
  checkOptionNames,
} from "../../src/internal.js";

/*
 * When to try again.
 *
 * The question: a limiter refuses, and says in how many milliseconds a permit will be there. An exponential backoff does not
 * listen: it comes back too early, is refused again, doubles its guess, and in the end comes back much too late.
 *
 * The obvious answer is to wait as long as the refusal says. That is right for one caller. For a crowd it is not: a bucket of
 * 1 per 100 ms that refuses ten callers tells all of them 100 ms; at 100 ms one gets through and nine are refused again, 55
 * attempts in all. So a backoff may know how far apart permits come, `spacingMs`, and then gives every retry a moment of its
 * own: 100, 200, 300 … ms, 20 attempts in all, which is the fewest that there can be when each is refused once.
 *
 * The surprise: whoever waits in a queue needs none of this. A retry is for callers who found the queue full.
 */

/**
 * What cockatiel tells of a failed attempt.
 *
 * @public
 */
export interface BackoffContext {
  /** How many attempts have failed. */
  readonly attempt: number;
  /** The signal of the call. */
  readonly signal: AbortSignal;
  /** What came of the attempt. */
  readonly result: { readonly error: unknown } | { readonly value: unknown };
}

/**
 * Makes the first step of a backoff, as cockatiel's `IBackoffFactory` does.
 *
 * @public
 */
export interface BackoffFactoryLike {
  next(context: BackoffContext): BackoffLike;
}

/**
 * A step of a backoff, as cockatiel's `IBackoff`: how long to wait, and the step after it.
 *
 * @public
 */
export interface BackoffLike extends BackoffFactoryLike {
  /** Milliseconds to wait. */
  readonly duration: number;
}

/**
 * Options of {@link retryAfterBackoff}.
 *
 * @public
 */
export interface RetryAfterBackoffOptions {
  /**
   * How long to wait when a failure gives no advice: a number of milliseconds, or another backoff. By default 250 ms, doubled
   * each time up to `maxDelayMs`, of which up to half is left to chance.
   */
  readonly fallback?: BackoffFactoryLike | number | undefined;
  /** The longest wait in milliseconds; 30 000 by default. Longer advice is cut down to it. */
  readonly maxDelayMs?: number | undefined;
  /** How much of the advised wait is added to it at most, by chance: from 0 to 1, 0.1 by default. Never comes back too early. */
  readonly jitter?: number | undefined;
  /**
   * How far apart retries come, in milliseconds, that follow advice; 0 by default. `windowMs / permits` of a rate limit: the
   * callers it has refused then come back one by one, each when there is a permit for it. All calls that share the backoff
   * count. Leaves nothing to chance.
   */
  readonly spacingMs?: number | undefined;
  /** Reads the advised wait in milliseconds; by default `error.retryAfterMs`. */
  readonly retryAfterOf?: ((result: BackoffContext["result"]) => number | undefined) | undefined;
  /** By which `spacingMs` is measured; `systemClock` by default. */
  readonly clock?: Clock | undefined;
}

const FIRST_FALLBACK_MS = 250;

/**
 * Makes a backoff for cockatiel's `retry` that waits as long as a refusal says: `retryAfterMs` of a `RateLimitRejectedError`, or
 * of whatever else `retryAfterOf` reads.
 *
 * @example
 * ```ts
 * import { handleType, retry } from "cockatiel";
 * import { retryAfterBackoff } from "headgate/cockatiel";
 * import { RateLimitExceededError, Shield } from "headgate/shield";
 *
 * const polite = Shield.empty
 *   .use(
 *     retry(handleType(RateLimitExceededError), {
 *       maxAttempts: 3,
 *       backoff: retryAfterBackoff({ spacingMs: 10 }),
 *     }),
 *   )
 *   .rateLimit(100, 1000);
 * ```
 *
 * @throws TypeError or RangeError when an option is not what it should be.
 *
 * @public
 */
export function retryAfterBackoff(options: RetryAfterBackoffOptions = {}): BackoffFactoryLike {
  const settings = new Settings(options);
  return { next: (context) => step(settings, settings.fallback.next(context), context) };
}

function step(settings: Settings, fallback: BackoffLike, context: BackoffContext): BackoffLike {
  const duration = settings.delayFor(settings.adviceIn(context.result), fallback.duration);
  return Object.freeze({
    duration,
    next: (context: BackoffContext) => step(settings, fallback.next(context), context),
  });
}

class Settings {
  readonly fallback: BackoffFactoryLike;
  readonly #maxDelayMs: number;
  readonly #jitter: number;
  readonly #spacingMs: number;
  readonly #retryAfterOf: (result: BackoffContext["result"]) => unknown;
  readonly #clock: Clock;
  /** The moment of the latest retry that has been handed out. */
  #latest = Number.NEGATIVE_INFINITY;

  constructor(options: RetryAfterBackoffOptions) {
    const type = "RetryAfterBackoffOptions";
    const names = ["fallback", "maxDelayMs", "jitter", "spacingMs", "retryAfterOf", "clock"];
    checkOptionNames(options, names, type);
    const { fallback, maxDelayMs = 30_000, jitter = 0.1, spacingMs = 0, clock = systemClock } = options;
    checkDuration(`${type}.maxDelayMs`, maxDelayMs);
    checkNumber(`${type}.jitter`, jitter, "a number from 0 to 1", (n) => n >= 0 && n <= 1);
    checkNumber(
      `${type}.spacingMs`,
      spacingMs,
      "a finite number of at least 0",
      (n) => n >= 0 && Number.isFinite(n),
    );
    checkMethods(`${type}.clock`, clock, ["now", "setTimer"]);
    const { retryAfterOf = retryAfterOfError } = options;
    checkFunction(`${type}.retryAfterOf`, retryAfterOf);
    if (typeof fallback === "number") {
      const allowed = "a finite number of milliseconds of at least 0, or a backoff";
      checkNumber(`${type}.fallback`, fallback, allowed, (n) => n >= 0 && Number.isFinite(n));
    } else if (fallback !== undefined) checkMethods(`${type}.fallback`, fallback, ["next"]);
    this.fallback = fallbackOf(fallback);
    this.#maxDelayMs = maxDelayMs;
    this.#jitter = jitter;
    this.#spacingMs = spacingMs;
    this.#retryAfterOf = retryAfterOf;
    this.#clock = clock;
  }

  /** What a failure advises; undefined when that is nothing to go by. */
  adviceIn(result: BackoffContext["result"]): number | undefined {
    const advice = this.#retryAfterOf(result);
    const isTime = typeof advice === "number" && advice >= 0 && Number.isFinite(advice);
    return isTime ? advice : undefined;
  }

  delayFor(adviceMs: number | undefined, fallbackMs: number): number {
    const wait = adviceMs === undefined ? fallbackMs : this.#spread(adviceMs);
    // Whole milliseconds, since hosts cut off fractions and would wake the caller too early.
    return Math.ceil(Math.min(wait, this.#maxDelayMs));
  }

  #spread(adviceMs: number): number {
    if (this.#spacingMs === 0) return adviceMs * (1 + this.#jitter * Math.random());
    const now = this.#clock.now();
    this.#latest = Math.max(now + adviceMs, this.#latest + this.#spacingMs);
    return this.#latest - now;
  }
}

function retryAfterOfError(result: BackoffContext["result"]): unknown {
  const error: unknown = "error" in result ? result.error : undefined;
  return (error as { readonly retryAfterMs?: unknown } | null | undefined)?.retryAfterMs;
}

function fallbackOf(fallback: BackoffFactoryLike | number | undefined): BackoffFactoryLike {
  if (typeof fallback === "object") return fallback;
  return { next: () => (fallback === undefined ? doubling(FIRST_FALLBACK_MS) : constant(fallback)) };
}

function constant(duration: number): BackoffLike {
  return { duration, next: () => constant(duration) };
}

/** Doubles at each step; at least half of it is waited for sure. Cut off elsewhere. */
function doubling(fullMs: number): BackoffLike {
  return { duration: fullMs * (0.5 + Math.random() / 2), next: () => doubling(fullMs * 2) };
}
