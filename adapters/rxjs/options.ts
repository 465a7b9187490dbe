import type { Clock, PartitionedRateLimiter, RateLimiter, RateLimitLease, RejectionReason } from "headgate";
import type { ObservableInput } from "rxjs";

/**
 * Which limiter an operator asks. A limiter is shared with everybody else who uses it, and stays yours. A function makes
 * one for each subscription, which is disposed when that ends.
 *
 * @public
 */
export type LimiterSource = RateLimiter | (() => RateLimiter);

/**
 * The same for limiters that keep a limiter for each key.
 *
 * @public
 */
export type PartitionedLimiterSource<Resource> =
  | PartitionedRateLimiter<Resource>
  | (() => PartitionedRateLimiter<Resource>);

/**
 * What becomes of a value for which there is no room: `error` ends the stream with a {@link BufferOverflowError},
 * `dropNewest` lets go of the value that has just come, `dropOldest` of the one that has waited longest. A function is
 * asked for one of the three.
 *
 * @public
 */
export type Overflow<T> = OverflowChoice | ((value: T, standing: BufferStanding) => OverflowChoice);

/**
 * What becomes of a value for which there is no room.
 *
 * @public
 */
export type OverflowChoice = "error" | "dropNewest" | "dropOldest";

/**
 * How a stream stands when there is no room for a value.
 *
 * @public
 */
export interface BufferStanding {
  /** How many values may wait. */
  readonly size: number;
  /** How many do. */
  readonly waiting: number;
  /** How many are being worked on. */
  readonly active: number;
}

/**
 * Where values wait until the limiter lets them through. Those that are being worked on take no room.
 *
 * @public
 */
export interface BufferOptions<T> {
  /** How many may wait; 1024 by default. 0: a value goes ahead at once or is too many. `Infinity` has to be asked for. */
  readonly size?: number | undefined;
  /** What happens when there are more; `error` by default. */
  readonly overflow?: Overflow<T> | undefined;
}

/**
 * What an operator does with a value that the limiter refused: `error`, the default, ends the stream with a
 * `RateLimitRejectedError`; `drop` lets the value go; `retryAfter` keeps it, and asks again when the limiter said, as
 * {@link RetryOptions} does. A function decides for each refusal.
 *
 * When the limiter has been disposed the stream ends, whatever this says, unless a function replaces the value.
 *
 * @public
 */
export type OnRejected<T, R = never> =
  | "error"
  | "drop"
  | "retryAfter"
  | RetryOptions
  | ((rejection: Rejection<T>) => RejectedAction<R>);

/**
 * How to ask again after a refusal. The value keeps its place, and those behind it wait.
 *
 * @public
 */
export interface RetryOptions {
  /**
   * Milliseconds until the first new try when the limiter does not say when to come back; twice as long with each
   * further one. 50 by default. When work of this stream ends before that, it is tried at once.
   */
  readonly fallbackDelayMs?: number | undefined;
  /** The longest wait between tries, in milliseconds; 30 000 by default. */
  readonly maxDelayMs?: number | undefined;
  /**
   * The part of the wait that is added to it at random, so that streams do not all come back at the same time; 0.1 by
   * default: up to a tenth more. A wait is never shortened.
   */
  readonly jitter?: number | undefined;
  /** How many tries a value has, the first included; without end by default. After the last the stream fails. */
  readonly maxAttempts?: number | undefined;
  /** Where chance comes from: at least 0, below 1. `Math.random` by default. */
  readonly random?: (() => number) | undefined;
}

/**
 * A refused value.
 *
 * @public
 */
export interface Rejection<T> {
  readonly value: T;
  /** The number of the value in its stream, from 0. */
  readonly index: number;
  /** How often this value has been refused, this time included. */
  readonly attempt: number;
  /** Why; undefined when the limiter does not say. */
  readonly reason: RejectionReason | undefined;
  /** Milliseconds until it is worth asking again; undefined when the limiter cannot tell. */
  readonly retryAfterMs: number | undefined;
  /** The metadata of the refused lease, by raw name. */
  readonly metadata: ReadonlyMap<string, unknown>;
}

/**
 * What to do with a refused value: end the stream (with a `RateLimitRejectedError` unless an error is given), let the value
 * go, ask again after some milliseconds (when the limiter said by default), or put something else in its place, which needs
 * no lease.
 *
 * @public
 */
export type RejectedAction<R> =
  | { readonly action: "error"; readonly error?: unknown }
  | { readonly action: "drop" }
  | { readonly action: "retry"; readonly delayMs?: number | undefined }
  | { readonly action: "replace"; readonly with: ObservableInput<R> };

/**
 * How an operator asks for a lease. Functions are called each time a value asks, which is once unless it is tried again.
 *
 * @public
 */
export interface AskOptions<T> {
  /** How many permits a value needs; 1 by default. */
  readonly permitCount?: number | ((value: T, index: number) => number) | undefined;
  /**
   * Which values go first, higher before lower, for limiters that order their queue by it. By default it ranks this
   * stream against others, never values within the stream: only its oldest value asks. See `admission`.
   */
  readonly priority?: number | ((value: T, index: number) => number) | undefined;
  /** How long a value may wait in the limiter's queue, in milliseconds; without end by default. */
  readonly maxWaitMs?: number | ((value: T, index: number) => number | undefined) | undefined;
  /**
   * Until when a value is worth working on, in milliseconds of the clock; undefined for one that always is. A value whose
   * time has passed is refused with `deadline_expired`, even if a permit is free.
   */
  readonly deadline?: ((value: T, index: number) => number | undefined) | undefined;
  /** Aborting it ends the stream with the signal's reason as its error. */
  readonly signal?: AbortSignal | undefined;
  /** The clock of deadlines and new tries; the limiter's by default, or else `systemClock`. */
  readonly clock?: Clock | undefined;
}

/**
 * Options of `rateLimit`.
 *
 * @public
 */
export interface RateLimitOptions<T> extends AskOptions<T> {
  /** Where values wait. */
  readonly buffer?: BufferOptions<T> | undefined;
  /** What becomes of values that the limiter refuses; `error` by default. */
  readonly onRejected?: OnRejected<T, T> | undefined;
}

/**
 * Options of `limitConcurrency`.
 *
 * @public
 */
export interface LimitConcurrencyOptions<T, R = never> extends AskOptions<T> {
  /** Where values wait. */
  readonly buffer?: BufferOptions<T> | undefined;
  /** What becomes of values that the limiter refuses; `error` by default. */
  readonly onRejected?: OnRejected<T, R> | undefined;
  /**
   * `merge`, the default: as much work at the same time as there are leases for. `concat`: one piece of work after the
   * other, even when more leases could be had.
   */
  readonly order?: "merge" | "concat" | undefined;
  /**
   * `head`, the default: only the oldest value asks the limiter, so that a stream in a hurry does not fill a queue it
   * shares with others, and streams take turns. `eager`: every value asks as it comes, and the limiter's queue decides
   * who is first.
   */
  readonly admission?: "head" | "eager" | undefined;
}

/**
 * Which values wait for one another.
 *
 * @public
 */
export interface LaneOptions<T> {
  /**
   * Values with the same lane wait in line; different lanes do not hold each other up. By default each partition is a
   * lane. `false` makes one line of all, in the order of the source. Limiters that cannot tell their keys (chains, those
   * that users wrote) need it.
   */
  readonly lane?: false | ((value: T, index: number) => unknown) | undefined;
}

/**
 * Options of `limitConcurrencyBy`.
 *
 * @public
 */
export interface LimitConcurrencyByOptions<T, R = never>
  extends LimitConcurrencyOptions<T, R>,
    LaneOptions<T> {}

/**
 * Options of `rateLimitBy`.
 *
 * @public
 */
export interface RateLimitByOptions<T> extends RateLimitOptions<T>, LaneOptions<T> {}

/**
 * Options of `leased`.
 *
 * @public
 */
export interface LeasedOptions<R = never> extends Omit<AskOptions<undefined>, "deadline"> {
  /** How many permits; 1 by default. */
  readonly permitCount?: number | undefined;
  /** Which subscriptions go first, higher before lower, for limiters that order their queue by it. */
  readonly priority?: number | undefined;
  /** How long a subscription may wait for its lease, in milliseconds; without end by default. */
  readonly maxWaitMs?: number | undefined;
  /** What happens when the limiter refuses; `error` by default. With `drop` the result is empty. */
  readonly onRejected?: OnRejected<undefined, R> | undefined;
}

/**
 * Options of `limitedFrom`.
 *
 * @public
 */
export interface LimitedFromOptions<T, R = never>
  extends Omit<LimitConcurrencyOptions<T, R>, "buffer" | "admission"> {
  /**
   * Takes the lease before the value is asked for; for values that cost something to make. How to ask cannot depend on
   * the value then. `false` by default.
   */
  readonly acquireFirst?: boolean | undefined;
}

/**
 * The work for a value. The lease is there to report how it went, or what it cost; it is given back without you.
 *
 * @public
 */
export type Project<T, O extends ObservableInput<unknown>> = (
  value: T,
  index: number,
  lease: RateLimitLease,
) => O;
