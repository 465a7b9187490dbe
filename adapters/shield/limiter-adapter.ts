import {
  type AcquireOptions,
  LimiterDisposedError,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
} from "headgate";
import { checkBoolean, checkInteger, checkOptionNames, requestFor, wrongType } from "../../src/internal.js";
import type { LayerDescriptor, Owned } from "./layer.js";
import { checkNotifying, LimitLayer, type NotifyingOptions, type RejectedEvent } from "./limit-layer.js";
import { checkShadow } from "./limit-options.js";
import { limiterOwner } from "./ownership.js";
import { LimiterRejectedError, type Refusal, type ShieldRejection } from "./rejected-errors.js";
import type { CallContext, ShieldContext } from "./shield-context.js";

const TYPE = "RateLimiterAdapterOptions";

/**
 * A call that a limiter of yours has refused.
 *
 * @public
 */
export interface RateLimiterRejectedEvent extends RejectedEvent {
  /** How many permits were asked for. */
  readonly permitCount: number;
  /** All metadata of the refused lease by raw name, copied before it was disposed. */
  readonly metadata: ReadonlyMap<string, unknown>;
}

/**
 * Options of `Shield.useRateLimiter`.
 *
 * @public
 */
export interface RateLimiterAdapterOptions {
  /** A name for errors, events and descriptions. */
  readonly name?: string | undefined;
  /** How many permits each call takes: an integer of at least 1; 1 by default. */
  readonly permitCount?: number | undefined;
  /**
   * Whether the limiter is disposed together with the `ShieldRegistry` or `PartitionedShield` that the shield belongs to. False
   * by default: whoever made the limiter disposes it.
   */
  readonly ownsLimiter?: boolean | undefined;
  /**
   * Whether to let everything through, and only tell what would have been refused; false by default. For a `RateLimiter` only:
   * of a partitioned one, put the limiters of the partitions in shadow.
   */
  readonly shadow?: boolean | undefined;
  /**
   * Called for each call that is refused, and waited for before the call fails. When it fails itself, the call is refused all
   * the same; see `shieldDiagnostics`. Not called when the caller gives up.
   */
  readonly onRejected?: ((event: RateLimiterRejectedEvent) => void | PromiseLike<void>) | undefined;
}

/**
 * Gets a lease from wherever a limiter is kept. Each call must get a lease of its own, granted or not: the shield disposes it.
 *
 * @public
 */
export type LeaseAcquirer = (
  permitCount: number,
  context: ShieldContext,
  options: AcquireOptions,
) => RateLimitLease | PromiseLike<RateLimitLease>;

/** Where the leases come from. */
export type LeaseSource = RateLimiter | PartitionedRateLimiter<ShieldContext> | LeaseAcquirer;

const SOURCES =
  "a RateLimiter, a PartitionedRateLimiter or a function such as (permitCount, context) => lease";

export class LimiterAdapterLayer extends LimitLayer<RateLimiterRejectedEvent> {
  /** Whose statistics can be shown; undefined for partitions and delegates. */
  override readonly limiter: RateLimiter | undefined;
  override readonly unique: readonly object[];
  override readonly owned: readonly Owned[];
  readonly #source: "limiter" | "partitioned" | "delegate";
  readonly #permitCount: number;
  readonly #shadow: boolean;

  constructor(source: LeaseSource, options: RateLimiterAdapterOptions) {
    const isLimiter = source instanceof RateLimiter;
    const isPartitioned = source instanceof PartitionedRateLimiter;
    if (!isLimiter && !isPartitioned && typeof source !== "function")
      throw wrongType("limiter", SOURCES, source);
    checkOptionNames(options, ["name", "permitCount", "ownsLimiter", "shadow", "onRejected"], TYPE);
    const { permitCount = 1, ownsLimiter = false, shadow = false } = options;
    checkNotifying(TYPE, options as NotifyingOptions<never>);
    checkInteger(`${TYPE}.permitCount`, permitCount, 1);
    checkBoolean(`${TYPE}.ownsLimiter`, ownsLimiter);
    checkShadow(TYPE, shadow);
    if (ownsLimiter && typeof source === "function") {
      throw new TypeError(
        `${TYPE}.ownsLimiter must be false for a function: dispose what is behind it yourself; got true.`,
      );
    }
    if (shadow && !isLimiter) {
      throw new TypeError(
        `${TYPE}.shadow must be false for a ${isPartitioned ? "partitioned limiter" : "function"}: put the limiters behind it in shadow, by shadowed(limiter); got true.`,
      );
    }
    if (isLimiter) checkUsable(source);
    super("rate_limiter_rejected", options);
    this.limiter = isLimiter ? source : undefined;
    this.#source = isLimiter ? "limiter" : isPartitioned ? "partitioned" : "delegate";
    this.#permitCount = permitCount;
    this.#shadow = shadow;
    this.unique = typeof source === "function" ? [this] : [this, source];
    this.owned = ownsLimiter && typeof source !== "function" ? [limiterOwner(source)] : [];
    if (isLimiter) this.askLimiter(source, permitCount, shadow);
    else if (isPartitioned)
      this.askBy((context) =>
        requestFor(source, context as ShieldContext, permitCount, context.acquireOptions()),
      );
    else this.askBy((context) => leaseOf(source, permitCount, context));
  }

  override describe(): string {
    const parts = [
      this.name ?? this.#source,
      `permits ${this.#permitCount}`,
      ...(this.#shadow ? ["shadow"] : []),
    ];
    return `RateLimiter(${parts.join(", ")})`;
  }

  override get descriptor(): LayerDescriptor {
    return {
      kind: "rateLimiter",
      name: this.name,
      description: this.describe(),
      source: this.#source,
      permitCount: this.#permitCount,
      ownsLimiter: this.owned.length > 0,
      shadow: this.#shadow,
      hasNotification: this.hasNotification,
    };
  }

  protected override eventOf(rejected: RejectedEvent, { metadata }: Refusal): RateLimiterRejectedEvent {
    return { ...rejected, permitCount: this.#permitCount, metadata };
  }

  protected override errorOf(where: ShieldRejection, refusal: Refusal): LimiterRejectedError {
    return new LimiterRejectedError(this.describe(), where, refusal);
  }
}

/** A limiter that has been disposed already would fail every call: better to hear of it where the shield is made. */
function checkUsable(limiter: RateLimiter): void {
  try {
    limiter.getStatistics();
  } catch (error) {
    if (!(error instanceof LimiterDisposedError)) return;
    throw new TypeError(
      `limiter must be one that can still be used: the ${error.limiterName} has been disposed; make a new one, or dispose it only when the shield is not used any more.`,
      { cause: error },
    );
  }
}

/** Asks a function of the user's, which may return anything. */
function leaseOf(
  acquire: LeaseAcquirer,
  permitCount: number,
  context: CallContext,
): RateLimitLease | PromiseLike<RateLimitLease> {
  const answer: unknown = acquire(permitCount, context, context.acquireOptions());
  if (isLeaseLike(answer)) return answer;
  if (typeof (answer as Partial<PromiseLike<unknown>> | null | undefined)?.then !== "function")
    throw noLease(answer);
  return Promise.resolve(answer as PromiseLike<unknown>).then((lease) => {
    if (isLeaseLike(lease)) return lease;
    throw noLease(lease);
  });
}

function isLeaseLike(value: unknown): value is RateLimitLease {
  return typeof value === "object" && value !== null && "isAcquired" in value;
}

function noLease(value: unknown): TypeError {
  return wrongType("The lease that the function given to useRateLimiter returns", "a RateLimitLease", value);
}
