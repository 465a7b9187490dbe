import { type Clock, systemClock } from "headgate";
import { checkFunction, checkMethods, checkNumber, checkOptionNames } from "../../src/internal.js";
import { adviceIn } from "../shield/advice.js";
import { RetryCalendar } from "./retry-calendar.js";

/*
 * When to try again.
 *
 * The question: a limiter refuses, and says in how many milliseconds a permit will be there. An exponential backoff does not
 * listen: it comes back too early, is refused again, doubles its guess, and in the end comes back much too late.
 *
 * The obvious answer is to wait as long as the refusal says. That is right for one caller. For a crowd it is not: a bucket of
 * 1 per 100 ms that refuses ten callers tells all of them 100 ms; at 100 ms one gets through and nine are refused again, 55
 * attempts in all. So a backoff may know how far apart permits come, `spacingMs`, and then gives every retry a moment of its
 * own: 100, 200, 300 … ms, 20 attempts in all, which is the fewest that there can be when each is refused once. The moment
 * of a caller who leaves while he waits is free for the next one.
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
  /**
   * The longest wait in milliseconds: above 0, up to 2 147 483 647 (about 24.8 days); 30 000 by default. Longer advice is cut
   * down to it, less what `jitter` takes off by chance.
   */
  readonly maxDelayMs?: number | undefined;
  /**
   * How much of the advised wait is added to it at most, by chance: from 0 to 1, 0.1 by default. Never comes back before the
   * advice, unless that is longer than `maxDelayMs`.
   */
  readonly jitter?: number | undefined;
  /**
   * How far apart retries come, in milliseconds, that follow advice; 0 by default, which suits limits whose permits all come
   * back at once, as those of a fixed window. For a rate limit, `windowMs / permits`: the callers that it has refused then
   * come back one by one, each when there is a permit for it. With a burst of 1 take a few per cent more, since timers come
   * late. All calls that share the backoff count, until they are aborted. Leaves nothing to chance, but that retries for
   * which there is no moment within `maxDelayMs` wait that long, less what `jitter` takes off.
   */
  readonly spacingMs?: number | undefined;
  /** Reads the advised wait in milliseconds; by default `error.retryAfterMs`. */
  readonly retryAfterOf?: ((result: BackoffContext["result"]) => number | undefined) | undefined;
  /** By which `spacingMs` is measured; `systemClock` by default. */
  readonly clock?: Clock | undefined;
}

const TYPE = "RetryAfterBackoffOptions";
const FIRST_FALLBACK_MS = 250;
/** The longest that timers of hosts can wait: those for longer fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

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
  const duration = settings.delayFor(context, waitOf(fallback));
  return Object.freeze({
    duration,
    next: (context: BackoffContext) => step(settings, fallback.next(context), context),
  });
}

class Settings {
  readonly fallback: BackoffFactoryLike;
  readonly #maxDelayMs: number;
  readonly #jitter: number;
  readonly #calendar: RetryCalendar | undefined;
  readonly #retryAfterOf: (result: BackoffContext["result"]) => unknown;

  constructor(options: RetryAfterBackoffOptions) {
    const names = ["fallback", "maxDelayMs", "jitter", "spacingMs", "retryAfterOf", "clock"];
    checkOptionNames(options, names, TYPE);
    const { fallback, maxDelayMs = 30_000, jitter = 0.1, spacingMs = 0, clock = systemClock } = options;
    const allowedDelay = `a number of milliseconds above 0 and up to ${MAX_DELAY_MS}`;
    checkNumber(`${TYPE}.maxDelayMs`, maxDelayMs, allowedDelay, (n) => n > 0 && n <= MAX_DELAY_MS);
    checkNumber(`${TYPE}.jitter`, jitter, "a number from 0 to 1", (n) => n >= 0 && n <= 1);
    checkNumber(
      `${TYPE}.spacingMs`,
      spacingMs,
      "a finite number of at least 0",
      (n) => n >= 0 && Number.isFinite(n),
    );
    checkMethods(`${TYPE}.clock`, clock, ["now", "setTimer"]);
    const { retryAfterOf = retryAfterOfError } = options;
    checkFunction(`${TYPE}.retryAfterOf`, retryAfterOf);
    if (typeof fallback === "number") {
      const allowed = "a finite number of milliseconds of at least 0, or a backoff";
      checkNumber(`${TYPE}.fallback`, fallback, allowed, (n) => n >= 0 && Number.isFinite(n));
    } else if (fallback !== undefined) checkMethods(`${TYPE}.fallback`, fallback, ["next"]);
    this.fallback = fallbackOf(fallback, maxDelayMs);
    this.#maxDelayMs = maxDelayMs;
    this.#jitter = jitter;
    this.#calendar = spacingMs === 0 ? undefined : new RetryCalendar(spacingMs, clock);
    this.#retryAfterOf = retryAfterOf;
  }

  delayFor({ result, signal }: BackoffContext, fallbackMs: number): number {
    const adviceMs = adviceIn(this.#retryAfterOf(result));
    // Whole milliseconds, since hosts cut off fractions and would wake the caller too early.
    return Math.ceil(
      adviceMs === undefined
        ? Math.min(fallbackMs, this.#maxDelayMs)
        : (this.#calendar?.book(adviceMs, this.#maxDelayMs, signal) ?? this.#randomized(adviceMs)),
    );
  }

  /** Advice that is cut off is not kept anyhow, so chance takes off there: else all who are told to wait long come at once. */
  #randomized(adviceMs: number): number {
    const longest = this.#maxDelayMs;
    const chance = this.#jitter * Math.random();
    if (this.#calendar !== undefined || adviceMs >= longest) return longest * (1 - chance);
    return Math.min(adviceMs * (1 + chance), longest);
  }
}

function retryAfterOfError(result: BackoffContext["result"]): unknown {
  const error: unknown = "error" in result ? result.error : undefined;
  return (error as { readonly retryAfterMs?: unknown } | null | undefined)?.retryAfterMs;
}

/** What a step of a fallback says, which may be the user's. */
function waitOf({ duration }: BackoffLike): number {
  checkNumber(`duration of ${TYPE}.fallback`, duration, "a number of at least 0", (n) => n >= 0);
  return duration;
}

function fallbackOf(
  fallback: BackoffFactoryLike | number | undefined,
  maxDelayMs: number,
): BackoffFactoryLike {
  if (typeof fallback === "object") return fallback;
  return {
    next: () => (fallback === undefined ? doubling(FIRST_FALLBACK_MS, maxDelayMs) : constant(fallback)),
  };
}

function constant(duration: number): BackoffLike {
  return { duration, next: () => constant(duration) };
}

/** Doubles at each step, up to the longest; at least half of it is waited for sure. */
function doubling(fullMs: number, longestMs: number): BackoffLike {
  const duration = Math.min(fullMs, longestMs) * (0.5 + Math.random() / 2);
  return { duration, next: () => doubling(fullMs * 2, longestMs) };
}
