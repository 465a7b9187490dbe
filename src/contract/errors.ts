import type { RejectionReason } from "./rejection-reason.js";

const rejectedBrand: unique symbol = Symbol.for("headgate.RateLimitRejectedError") as never;

/**
 * Thrown in place of a refused lease, by `lease.orThrow()`, by `withLease` and by the adapters.
 *
 * A refusal is an ordinary answer: code that expects it reads the lease, which is much cheaper than an error.
 *
 * @example
 * ```ts
 * import { RateLimitRejectedError } from "headgate";
 *
 * function waitBeforeRetryMs(error: unknown): number | undefined {
 *   return RateLimitRejectedError.is(error) ? (error.retryAfterMs ?? 1000) : undefined;
 * }
 * ```
 *
 * @public
 */
export class RateLimitRejectedError extends Error {
  override readonly name: string = "RateLimitRejectedError";
  /** Always `ERR_RATE_LIMIT_REJECTED`. */
  readonly code: string = "ERR_RATE_LIMIT_REJECTED";
  /** Why; undefined when the refusing limiter did not say. */
  readonly reason: RejectionReason | undefined;
  /** Milliseconds to wait before trying again; undefined when unknown. */
  readonly retryAfterMs: number | undefined;
  /** The metadata of the refused lease, by raw name. */
  readonly metadata: ReadonlyMap<string, unknown>;

  /**
   * @param refusal - What is known of the refusal.
   * @param options - `message` replaces the standard text; `cause` as for every `Error`.
   */
  constructor(
    refusal: {
      readonly reason?: RejectionReason | undefined;
      readonly retryAfterMs?: number | undefined;
      readonly metadata?: ReadonlyMap<string, unknown> | undefined;
    } = {},
    options: ErrorOptions & { readonly message?: string } = {},
  ) {
    const { reason, retryAfterMs } = refusal;
    super(
      options.message ??
        `The rate limiter refused a lease${reason === undefined ? "" : ` (${reason})`}${
          retryAfterMs === undefined ? "" : `; retry after ${Math.ceil(retryAfterMs)} ms`
        }.`,
      "cause" in options ? { cause: options.cause } : undefined,
    );
    this.reason = reason;
    this.retryAfterMs = retryAfterMs;
    this.metadata = refusal.metadata ?? new Map();
  }

  /** Whether a value is such an error, also one of another realm or of another copy of this library. */
  static is(error: unknown): error is RateLimitRejectedError {
    return typeof error === "object" && error !== null && rejectedBrand in error;
  }

  static {
    Object.defineProperty(RateLimitRejectedError.prototype, rejectedBrand, { value: true });
  }
}

/**
 * Thrown by a limiter that has been disposed. Models .NET's `ObjectDisposedException`.
 *
 * @public
 */
export class LimiterDisposedError extends Error {
  override readonly name: string = "LimiterDisposedError";
  /** Always `ERR_LIMITER_DISPOSED`. */
  readonly code: string = "ERR_LIMITER_DISPOSED";
  /** The kind of the disposed limiter, such as `ConcurrencyLimiter`. */
  readonly limiterName: string;

  /** @param limiterName - The kind of the disposed limiter. */
  constructor(limiterName: string) {
    super(
      `The ${limiterName} has been disposed and grants nothing any more: make a new one, or dispose it later.`,
    );
    this.limiterName = limiterName;
  }
}
