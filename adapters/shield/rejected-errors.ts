import { RateLimitRejectedError, type RejectionReason } from "headgate";

/**
 * Which layer of which shield has refused a call.
 *
 * @public
 */
export interface ShieldRejection {
  /** The position of the layer, from 0, the outermost. */
  readonly strategyIndex: number;
  /** The layer's `name` option; undefined when it has none. */
  readonly strategyName: string | undefined;
  /** The name of the shield; undefined when it has none. */
  readonly shieldName: string | undefined;
}

/** What is known of a refusal. */
export interface Refusal {
  readonly reason: RejectionReason | undefined;
  readonly retryAfterMs: number | undefined;
  readonly metadata: ReadonlyMap<string, unknown>;
}

/** The text of a refusal: which limit, where, why, and when to try again. */
function messageOf(limit: string, where: ShieldRejection, { reason, retryAfterMs }: Refusal): string {
  const names = [
    where.strategyName === undefined ? "" : ` "${where.strategyName}"`,
    where.shieldName === undefined ? "" : ` of shield "${where.shieldName}"`,
    ` (layer ${where.strategyIndex}${reason === undefined ? "" : `, ${reason}`})`,
  ];
  const advice = retryAfterMs === undefined ? "" : `; retry after ${Math.ceil(retryAfterMs)} ms`;
  return `${limit}${names.join("")} refused the call${advice}.`;
}

/** What a layer throws that stands before a limiter of the user's. */
export class LimiterRejectedError extends RateLimitRejectedError implements ShieldRejection {
  readonly strategyIndex: number;
  readonly strategyName: string | undefined;
  readonly shieldName: string | undefined;

  constructor(limit: string, where: ShieldRejection, refusal: Refusal) {
    super(refusal, { message: messageOf(limit, where, refusal) });
    this.strategyIndex = where.strategyIndex;
    this.strategyName = where.strategyName;
    this.shieldName = where.shieldName;
  }
}

const concurrencyBrand: unique symbol = Symbol.for("headgate.ConcurrencyLimitExceededError") as never;
const rateBrand: unique symbol = Symbol.for("headgate.RateLimitExceededError") as never;

/**
 * A concurrency limit of a shield has refused a call: all places were taken, and so were those in the queue; or the call
 * waited and was not let through (`reason` tells). A concurrency limit cannot tell when to come back.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimitExceededError, Shield } from "headgate/shield";
 *
 * const search = Shield.concurrencyLimit(10, { queueLimit: 20 }).withName("search");
 * try {
 *   await search.execute(({ signal }) => fetch("https://vendor.example/", { signal }));
 * } catch (error) {
 *   if (ConcurrencyLimitExceededError.is(error)) console.log(error.shieldName, error.reason);
 *   else throw error;
 * }
 * ```
 *
 * @public
 */
export class ConcurrencyLimitExceededError extends RateLimitRejectedError implements ShieldRejection {
  override readonly name: string = "ConcurrencyLimitExceededError";
  /** Always `ERR_CONCURRENCY_LIMIT_EXCEEDED`. */
  override readonly code: string = "ERR_CONCURRENCY_LIMIT_EXCEEDED";
  readonly strategyIndex: number;
  readonly strategyName: string | undefined;
  readonly shieldName: string | undefined;

  /** @internal */
  constructor(limit: string, where: ShieldRejection, refusal: Refusal) {
    super(refusal, { message: messageOf(limit, where, refusal) });
    this.strategyIndex = where.strategyIndex;
    this.strategyName = where.strategyName;
    this.shieldName = where.shieldName;
  }

  /** Whether a value is such an error, also one of another realm or of another copy of this library. */
  static override is(error: unknown): error is ConcurrencyLimitExceededError {
    return typeof error === "object" && error !== null && concurrencyBrand in error;
  }

  static {
    Object.defineProperty(ConcurrencyLimitExceededError.prototype, concurrencyBrand, { value: true });
  }
}

/**
 * A rate limit of a shield has refused a call. `retryAfterMs` says when a permit will be there.
 *
 * @public
 */
export class RateLimitExceededError extends RateLimitRejectedError implements ShieldRejection {
  override readonly name: string = "RateLimitExceededError";
  /** Always `ERR_RATE_LIMIT_EXCEEDED`. */
  override readonly code: string = "ERR_RATE_LIMIT_EXCEEDED";
  readonly strategyIndex: number;
  readonly strategyName: string | undefined;
  readonly shieldName: string | undefined;

  /** @internal */
  constructor(limit: string, where: ShieldRejection, refusal: Refusal) {
    super(refusal, { message: messageOf(limit, where, refusal) });
    this.strategyIndex = where.strategyIndex;
    this.strategyName = where.strategyName;
    this.shieldName = where.shieldName;
  }

  /** Whether a value is such an error, also one of another realm or of another copy of this library. */
  static override is(error: unknown): error is RateLimitExceededError {
    return typeof error === "object" && error !== null && rateBrand in error;
  }

  static {
    Object.defineProperty(RateLimitExceededError.prototype, rateBrand, { value: true });
  }
}
