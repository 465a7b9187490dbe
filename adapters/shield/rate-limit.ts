import { type Clock, type RateLimiter, type RateLimitLease, TokenBucketRateLimiter } from "headgate";
import { checkDuration, checkInteger, checkOptionNames, request } from "../../src/internal.js";
import { durationText } from "./duration-text.js";
import type { LayerDescriptor, Owned } from "./layer.js";
import { checkCommonOptions, LimitLayer, type RejectedEvent } from "./limit-layer.js";
import {
  checkNothingElse,
  QueueChoice,
  SHIELD_QUEUE_OPTION_NAMES,
  type ShieldQueueOptions,
} from "./limit-options.js";
import { limiterOwner } from "./ownership.js";
import { RateLimitExceededError, type Refusal, type ShieldRejection } from "./rejected-errors.js";
import type { CallContext } from "./shield-context.js";

const TYPE = "RateLimitOptions";

/**
 * A call that a rate limit has refused.
 *
 * @public
 */
export interface RateLimitRejectedEvent extends RejectedEvent {
  /** Calls per window. */
  readonly permits: number;
  /** The window in milliseconds. */
  readonly windowMs: number;
  /** The largest burst. */
  readonly burst: number;
  /** How many calls may wait. */
  readonly queueLimit: number;
}

/**
 * Options of `Shield.rateLimit`.
 *
 * @public
 */
export interface RateLimitOptions extends ShieldQueueOptions {
  /** A name for errors, events and descriptions. */
  readonly name?: string | undefined;
  /** How many calls may start per window, on average: an integer of at least 1; 100 by default. */
  readonly permits?: number | undefined;
  /** The window in milliseconds, above 0; 1000 by default. Permits come back one by one, spread evenly over it. */
  readonly windowMs?: number | undefined;
  /** How many calls may start at once after a quiet time: an integer of at least 1; as many as `permits` by default. */
  readonly burst?: number | undefined;
  /** Whether to let everything through, and only tell what would have been refused; false by default. */
  readonly shadow?: boolean | undefined;
  /**
   * Called for each call that is refused, and waited for before the call fails. When it fails itself, the call is refused all
   * the same; see `shieldDiagnostics`. Not called when the caller gives up.
   */
  readonly onRejected?: ((event: RateLimitRejectedEvent) => void | PromiseLike<void>) | undefined;
}

/** All but what can be given by position. */
const OPTION_NAMES: readonly string[] = [
  "name",
  "burst",
  ...SHIELD_QUEUE_OPTION_NAMES,
  "shadow",
  "onRejected",
];

/** What `rateLimit` may be called with. */
export type RateLimitArguments = readonly [
  first: number | RateLimitOptions,
  windowMs?: number,
  rest?: Omit<RateLimitOptions, "permits" | "windowMs">,
];

/** One options object of either way to write them. */
export function rateLimitOptions([first, ...further]: RateLimitArguments): RateLimitOptions {
  if (typeof first === "object") {
    checkNothingElse("rateLimit", "two numbers", further);
    return first;
  }
  const [windowMs, rest = {}] = further;
  checkInteger(`${TYPE}.permits`, first, 1);
  checkDuration(`${TYPE}.windowMs`, windowMs);
  checkOptionNames(rest, OPTION_NAMES, TYPE);
  return { ...rest, permits: first, windowMs };
}

export class RateLimitLayer extends LimitLayer<RateLimitRejectedEvent> {
  override readonly limiter: TokenBucketRateLimiter;
  /** The limiter, or its shadow. */
  readonly #gate: RateLimiter;
  override readonly unique: readonly object[];
  override readonly owned: readonly Owned[];
  readonly #rate: { readonly permits: number; readonly windowMs: number; readonly burst: number };
  readonly #queue: QueueChoice;

  constructor(options: RateLimitOptions, clock: Clock) {
    checkOptionNames(options, ["permits", "windowMs", ...OPTION_NAMES], TYPE);
    const { permits = 100, windowMs = 1000, burst = permits } = options;
    checkCommonOptions(TYPE, options);
    checkInteger(`${TYPE}.permits`, permits, 1);
    checkDuration(`${TYPE}.windowMs`, windowMs);
    checkInteger(`${TYPE}.burst`, burst, 1);
    super("rate_limit_rejected", options);
    this.#rate = { permits, windowMs, burst };
    this.#queue = new QueueChoice(TYPE, options);
    this.limiter = new TokenBucketRateLimiter({
      tokenLimit: burst,
      tokensPerPeriod: permits,
      replenishmentPeriodMs: windowMs,
      refill: "continuous",
      clock,
      ...this.#queue.limiterOptions,
    });
    this.unique = [this, this.limiter];
    this.owned = [limiterOwner(this.limiter)];
    this.#gate = this.gateOf(this.limiter);
  }

  override describe(): string {
    const { permits, windowMs, burst } = this.#rate;
    const parts = [
      `${permits}/${durationText(windowMs)}`,
      ...(burst === permits ? [] : [`burst ${burst}`]),
      ...this.#queue.texts,
      ...(this.isShadow ? ["shadow"] : []),
    ];
    return `RateLimit(${parts.join(", ")})`;
  }

  override get descriptor(): LayerDescriptor {
    const { queueLimit, queueTimeoutMs, usePriorityQueue } = this.#queue;
    return {
      kind: "rateLimit",
      name: this.name,
      description: this.describe(),
      ...this.#rate,
      queueLimit,
      queueTimeoutMs,
      usePriorityQueue,
      shadow: this.isShadow,
      hasNotification: this.hasNotification,
    };
  }

  protected override ask(context: CallContext): RateLimitLease | PromiseLike<RateLimitLease> {
    return request(this.#gate, 1, context.acquireOptions());
  }

  protected override eventOf(rejected: RejectedEvent): RateLimitRejectedEvent {
    return { ...rejected, ...this.#rate, queueLimit: this.#queue.queueLimit };
  }

  protected override errorOf(where: ShieldRejection, refusal: Refusal): RateLimitExceededError {
    return new RateLimitExceededError(this.describe(), where, refusal);
  }
}
