import type { Clock, RateLimiter, RateLimitLease } from "headgate";
import { AdaptiveConcurrencyLimiter, WindowedAimdLimit } from "headgate/adaptive";
import {
  checkChoice,
  checkDuration,
  checkInteger,
  checkNumber,
  checkOptionNames,
  request,
} from "../../src/internal.js";
import type { ConcurrencyLimitRejectedEvent } from "./concurrency-limit.js";
import type { LayerDescriptor, Owned } from "./layer.js";
import { checkCommonOptions, LimitLayer, type RejectedEvent } from "./limit-layer.js";
import { limiterOwner } from "./ownership.js";
import { ConcurrencyLimitExceededError, type Refusal, type ShieldRejection } from "./rejected-errors.js";
import type { CallContext } from "./shield-context.js";

const TYPE = "AdaptiveConcurrencyLimitOptions";
const OPTION_NAMES = [
  "algorithm",
  "name",
  "minLimit",
  "initialLimit",
  "maxLimit",
  "samplingWindowMs",
  "decreaseFactor",
  "latencyTolerance",
  "shadow",
  "onRejected",
];

/**
 * Options of `Shield.concurrencyLimit` for a limit that finds its own number. There is no queue: what finds no place is refused
 * at once.
 *
 * The limit follows the usual pattern of additive increase and multiplicative decrease, with a windowed latency feedback of this
 * library's own; see `WindowedAimdLimit` of `headgate/adaptive`. Completed calls are collected for `samplingWindowMs`; then the
 * limit moves once. A call that throws makes the window congested, whatever it throws, a time-out and a refusal further in
 * included; so put time-outs inside. So does a `fetch` response of 429 or 503. Any other value is a success: throw what is to
 * count as a failure. A call that its caller gives up counts as nothing.
 *
 * @public
 */
export interface AdaptiveConcurrencyLimitOptions {
  /** Chooses an adaptive limit. */
  readonly algorithm: "aimd";
  /** A name for errors, events and descriptions. */
  readonly name?: string | undefined;
  /** The lowest limit: an integer of at least 1; 1 by default. */
  readonly minLimit?: number | undefined;
  /** The limit to begin with: an integer from `minLimit` to `maxLimit`; 10 by default, or the nearest of these. */
  readonly initialLimit?: number | undefined;
  /** The highest limit: an integer of at least `minLimit`; 100 by default, or `minLimit` if that is more. */
  readonly maxLimit?: number | undefined;
  /** How long calls are collected before the limit moves, in milliseconds: above 0; 1000 by default. */
  readonly samplingWindowMs?: number | undefined;
  /** What is left of the limit after a congested window: above 0 and below 1; 0.9 by default. */
  readonly decreaseFactor?: number | undefined;
  /** How many times the usual latency a window's mean may be: a finite number of at least 1; 2 by default. */
  readonly latencyTolerance?: number | undefined;
  /** Whether to let everything through, and only tell what would have been refused; false by default. */
  readonly shadow?: boolean | undefined;
  /** As in `ConcurrencyLimitOptions`; `maxConcurrency` is the limit at the moment of the refusal. */
  readonly onRejected?: ((event: ConcurrencyLimitRejectedEvent) => void | PromiseLike<void>) | undefined;
}

export class AdaptiveConcurrencyLimitLayer extends LimitLayer<ConcurrencyLimitRejectedEvent> {
  override readonly limiter: AdaptiveConcurrencyLimiter;
  /** The limiter, or its shadow. */
  readonly #gate: RateLimiter;
  override readonly unique: readonly object[];
  override readonly owned: readonly Owned[];
  readonly #algorithm: {
    readonly minLimit: number;
    readonly initialLimit: number;
    readonly maxLimit: number;
    readonly samplingWindowMs: number;
    readonly decreaseFactor: number;
    readonly latencyTolerance: number;
  };

  constructor(options: AdaptiveConcurrencyLimitOptions, clock: Clock) {
    checkOptionNames(options, OPTION_NAMES, TYPE);
    const { algorithm, minLimit = 1 } = options;
    const { samplingWindowMs = 1000, decreaseFactor = 0.9, latencyTolerance = 2 } = options;
    checkCommonOptions(TYPE, options);
    checkChoice(`${TYPE}.algorithm`, algorithm, ["aimd"]);
    checkInteger(`${TYPE}.minLimit`, minLimit, 1);
    // Defaults yield to what is given, so that `minLimit: 20` alone is no mistake.
    const { maxLimit = Math.max(100, minLimit) } = options;
    checkInteger(`${TYPE}.maxLimit`, maxLimit, minLimit, undefined, " (from minLimit on)");
    const { initialLimit = Math.min(Math.max(10, minLimit), maxLimit) } = options;
    checkInteger(`${TYPE}.initialLimit`, initialLimit, minLimit, maxLimit, " (minLimit to maxLimit)");
    checkDuration(`${TYPE}.samplingWindowMs`, samplingWindowMs);
    checkNumber(`${TYPE}.decreaseFactor`, decreaseFactor, "above 0 and below 1", (n) => n > 0 && n < 1);
    const tolerance = "a finite number of at least 1";
    checkNumber(`${TYPE}.latencyTolerance`, latencyTolerance, tolerance, (n) => n >= 1 && Number.isFinite(n));
    super("concurrency_limit_rejected", options);
    this.#algorithm = {
      minLimit,
      initialLimit,
      maxLimit,
      samplingWindowMs,
      decreaseFactor,
      latencyTolerance,
    };
    this.limiter = new AdaptiveConcurrencyLimiter({ limit: new WindowedAimdLimit(this.#algorithm), clock });
    this.unique = [this, this.limiter];
    this.owned = [limiterOwner(this.limiter)];
    this.#gate = this.gateOf(this.limiter);
  }

  override describe(): string {
    const { minLimit, initialLimit, maxLimit } = this.#algorithm;
    return `ConcurrencyLimit(aimd ${minLimit}..${maxLimit}, initial ${initialLimit}${this.isShadow ? ", shadow" : ""})`;
  }

  override get descriptor(): LayerDescriptor {
    return {
      kind: "adaptiveConcurrencyLimit",
      name: this.name,
      description: this.describe(),
      algorithm: "aimd",
      ...this.#algorithm,
      shadow: this.isShadow,
      hasNotification: this.hasNotification,
    };
  }

  protected override ask(context: CallContext): RateLimitLease | PromiseLike<RateLimitLease> {
    return request(this.#gate, 1, context.acquireOptions());
  }

  protected override eventOf(rejected: RejectedEvent): ConcurrencyLimitRejectedEvent {
    return { ...rejected, maxConcurrency: this.limiter.permitLimit, queueLimit: 0 };
  }

  protected override errorOf(where: ShieldRejection, refusal: Refusal): ConcurrencyLimitExceededError {
    return new ConcurrencyLimitExceededError(this.describe(), where, refusal);
  }
}
