import {
  type AcquireOptions,
  LimiterDisposedError,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
} from "headgate";
import {
  checkBoolean,
  checkInteger,
  checkOptionNames,
  request,
  requestFor,
  wrongType,
} from "../../src/internal.js";
import type { LayerDescriptor, Owned } from "./layer.js";
import { checkCommonOptions, LimitLayer, type RejectedEvent } from "./limit-layer.js";
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
  readonly #kind: "limiter" | "partitioned" | "delegate";
  /** What is asked: what was given, or its shadow. */
  readonly #source: LeaseSource;
  readonly #permitCount: number;

  constructor(source: LeaseSource, options: RateLimiterAdapterOptions) {
    const kind = kindOf(source);
    checkOptionNames(options, ["name", "permitCount", "ownsLimiter", "shadow", "onRejected"], TYPE);
    checkCommonOptions(TYPE, options);
    const { permitCount = 1, ownsLimiter = false, shadow = false } = options;
    checkInteger(`${TYPE}.permitCount`, permitCount, 1);
    checkBoolean(`${TYPE}.ownsLimiter`, ownsLimiter);
    if (ownsLimiter && kind === "delegate") {
      throw new TypeError(
        `${TYPE}.ownsLimiter must be false for a function: dispose what is behind it yourself; got true.`,
      );
    }
    if (shadow && kind !== "limiter") {
      throw new TypeError(
        `${TYPE}.shadow must be false for a ${kind === "delegate" ? "function" : "partitioned limiter"}: put the limiters behind it in shadow, by shadowed(limiter); got true.`,
      );
    }
    const limiter = source instanceof RateLimiter ? source : undefined;
    if (limiter !== undefined) checkUsable(limiter);
    super("rate_limiter_rejected", options);
    this.limiter = limiter;
    this.#kind = kind;
    this.#source = limiter === undefined ? source : this.gateOf(limiter);
    this.#permitCount = permitCount;
    this.unique = typeof source === "function" ? [this] : [this, source];
    this.owned = ownsLimiter && typeof source !== "function" ? [limiterOwner(source)] : [];
  }

  override describe(): string {
    const parts = [
      this.name ?? this.#kind,
      `permits ${this.#permitCount}`,
      ...(this.isShadow ? ["shadow"] : []),
    ];
    return `RateLimiter(${parts.join(", ")})`;
  }

  override get descriptor(): LayerDescriptor {
    return {
      kind: "rateLimiter",
      name: this.name,
      description: this.describe(),
      source: this.#kind,
      permitCount: this.#permitCount,
      ownsLimiter: this.owned.length > 0,
      shadow: this.isShadow,
      hasNotification: this.hasNotification,
    };
  }

  protected override ask(context: CallContext): RateLimitLease | PromiseLike<RateLimitLease> {
    const source = this.#source;
    const permitCount = this.#permitCount;
    const options = context.acquireOptions();
    if (source instanceof RateLimiter) return request(source, permitCount, options);
    if (source instanceof PartitionedRateLimiter) {
      return requestFor<ShieldContext>(source, context, permitCount, options);
    }
    return source(permitCount, context, options);
  }

  protected override eventOf(rejected: RejectedEvent, { metadata }: Refusal): RateLimiterRejectedEvent {
    return { ...rejected, permitCount: this.#permitCount, metadata };
  }

  protected override errorOf(where: ShieldRejection, refusal: Refusal): LimiterRejectedError {
    return new LimiterRejectedError(this.describe(), where, refusal);
  }
}

function kindOf(source: unknown): "limiter" | "partitioned" | "delegate" {
  if (source instanceof RateLimiter) return "limiter";
  if (source instanceof PartitionedRateLimiter) return "partitioned";
  if (typeof source === "function") return "delegate";
  throw wrongType("limiter", SOURCES, source);
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
