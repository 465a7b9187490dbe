import { type Clock, ConcurrencyLimiter, type RateLimiter, type RateLimitLease } from "headgate";
import { checkInteger, checkOptionNames, request } from "../../src/internal.js";
import type { AdaptiveConcurrencyLimitOptions } from "./adaptive-concurrency-limit.js";
import type { LayerDescriptor, Owned } from "./layer.js";
import { checkCommonOptions, LimitLayer, type RejectedEvent } from "./limit-layer.js";
import {
  checkNothingElse,
  QueueChoice,
  SHIELD_QUEUE_OPTION_NAMES,
  type ShieldQueueOptions,
} from "./limit-options.js";
import { limiterOwner } from "./ownership.js";
import { ConcurrencyLimitExceededError, type Refusal, type ShieldRejection } from "./rejected-errors.js";
import type { CallContext } from "./shield-context.js";

const TYPE = "ConcurrencyLimitOptions";

/**
 * A call that a concurrency limit has refused.
 *
 * @public
 */
export interface ConcurrencyLimitRejectedEvent extends RejectedEvent {
  /** The limit; of an adaptive one, as it was when it refused. */
  readonly maxConcurrency: number;
  /** How many calls may wait; 0 for an adaptive limit. */
  readonly queueLimit: number;
}

/**
 * Options of `Shield.concurrencyLimit`.
 *
 * @public
 */
export interface ConcurrencyLimitOptions extends ShieldQueueOptions {
  /** Left out: `AdaptiveConcurrencyLimitOptions` are those with one. */
  readonly algorithm?: undefined;
  /** A name for errors, events and descriptions. */
  readonly name?: string | undefined;
  /** How many calls may run at the same time: an integer of at least 1; 10 by default. */
  readonly maxConcurrency?: number | undefined;
  /** Whether to let everything through, and only tell what would have been refused; false by default. */
  readonly shadow?: boolean | undefined;
  /**
   * Called for each call that is refused, and waited for before the call fails. When it fails itself, the call is refused all
   * the same; see `shieldDiagnostics`. Not called when the caller gives up.
   */
  readonly onRejected?: ((event: ConcurrencyLimitRejectedEvent) => void | PromiseLike<void>) | undefined;
}

/** All but what can be given by position. */
const OPTION_NAMES: readonly string[] = ["name", ...SHIELD_QUEUE_OPTION_NAMES, "shadow", "onRejected"];

/** What `concurrencyLimit` may be called with. */
export type ConcurrencyLimitArguments = readonly [
  first: number | ConcurrencyLimitOptions | AdaptiveConcurrencyLimitOptions,
  rest?: Omit<ConcurrencyLimitOptions, "maxConcurrency">,
];

/** One options object of either way to write them. */
export function concurrencyLimitOptions([first, ...further]: ConcurrencyLimitArguments):
  | ConcurrencyLimitOptions
  | AdaptiveConcurrencyLimitOptions {
  if (typeof first === "object") {
    checkNothingElse("concurrencyLimit", "a number", further);
    return first;
  }
  const [rest = {}] = further;
  checkInteger(`${TYPE}.maxConcurrency`, first, 1);
  checkOptionNames(rest, OPTION_NAMES, TYPE);
  return { ...rest, maxConcurrency: first };
}

export class ConcurrencyLimitLayer extends LimitLayer<ConcurrencyLimitRejectedEvent> {
  override readonly limiter: ConcurrencyLimiter;
  /** The limiter, or its shadow. */
  readonly #gate: RateLimiter;
  override readonly unique: readonly object[];
  override readonly owned: readonly Owned[];
  readonly #maxConcurrency: number;
  readonly #queue: QueueChoice;

  constructor(options: ConcurrencyLimitOptions, clock: Clock) {
    checkOptionNames(options, ["algorithm", "maxConcurrency", ...OPTION_NAMES], TYPE);
    const { maxConcurrency = 10 } = options;
    checkCommonOptions(TYPE, options);
    checkInteger(`${TYPE}.maxConcurrency`, maxConcurrency, 1);
    super("concurrency_limit_rejected", options);
    this.#maxConcurrency = maxConcurrency;
    this.#queue = new QueueChoice(TYPE, options);
    this.limiter = new ConcurrencyLimiter({
      permitLimit: maxConcurrency,
      clock,
      ...this.#queue.limiterOptions,
    });
    this.unique = [this, this.limiter];
    this.owned = [limiterOwner(this.limiter)];
    this.#gate = this.gateOf(this.limiter);
  }

  override describe(): string {
    const parts = [`${this.#maxConcurrency}`, ...this.#queue.texts, ...(this.isShadow ? ["shadow"] : [])];
    return `ConcurrencyLimit(${parts.join(", ")})`;
  }

  override get descriptor(): LayerDescriptor {
    const { queueLimit, queueTimeoutMs, usePriorityQueue } = this.#queue;
    return {
      kind: "concurrencyLimit",
      name: this.name,
      description: this.describe(),
      maxConcurrency: this.#maxConcurrency,
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

  protected override eventOf(rejected: RejectedEvent): ConcurrencyLimitRejectedEvent {
    const { queueLimit } = this.#queue;
    return { ...rejected, maxConcurrency: this.#maxConcurrency, queueLimit };
  }

  protected override errorOf(where: ShieldRejection, refusal: Refusal): ConcurrencyLimitExceededError {
    return new ConcurrencyLimitExceededError(this.describe(), where, refusal);
  }
}
