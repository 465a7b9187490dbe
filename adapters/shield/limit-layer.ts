import {
  type RateLimiter,
  type RateLimitLease,
  type RateLimitRejectedError,
  type RejectionReason,
  type ShadowedRateLimiter,
  type ShadowRejection,
  shadowed,
} from "headgate";
import { checkBoolean, checkFunction, wrongType } from "../../src/internal.js";
import { adviceIn } from "./advice.js";
import { type CallbackErrorKind, reportCallbackError } from "./diagnostics.js";
import type { ShadowCounts } from "./inside.js";
import { Layer } from "./layer.js";
import { giveUp } from "./lease-end.js";
import { ReadOnlyMap } from "./read-only-map.js";
import type { Refusal, ShieldRejection } from "./rejected-errors.js";
import type { CallContext, ShieldContext } from "./shield-context.js";

/**
 * A call that a layer has refused.
 *
 * @public
 */
export interface RejectedEvent extends ShieldRejection {
  /** Why; undefined when the limiter did not say. */
  readonly reason: RejectionReason | undefined;
  /** Milliseconds to wait before trying again; undefined when unknown. */
  readonly retryAfterMs: number | undefined;
  /** The call's context. Use it until the callback, or the promise that it returns, has ended, and do not keep it. */
  readonly context: ShieldContext;
  /** True when the limit is in shadow, so that the call goes on all the same. */
  readonly isShadow: boolean;
  /**
   * What a limiter in shadow threw in place of an answer, such as for a count above its limit; undefined when it answered.
   * Without a shadow such an error is that of the call, and no refusal.
   */
  readonly error: unknown;
}

/** A callback that is awaited; see `onRejected` of the options of each layer. */
type Notification<Event extends RejectedEvent> = (event: Event) => void | PromiseLike<void>;

/** What the options of all limits have in common. */
export interface CommonOptions<Event extends RejectedEvent> {
  readonly name?: string | undefined;
  readonly shadow?: boolean | undefined;
  readonly onRejected?: Notification<Event> | undefined;
}

/** Checks what all limits take. */
export function checkCommonOptions(
  optionsType: string,
  { name, shadow, onRejected }: { readonly [Name in keyof CommonOptions<never>]: unknown },
): void {
  if (name !== undefined && typeof name !== "string")
    throw wrongType(`${optionsType}.name`, "a string", name);
  if (shadow !== undefined) checkBoolean(`${optionsType}.shadow`, shadow);
  if (onRejected !== undefined) checkFunction(`${optionsType}.onRejected`, onRejected);
}

/**
 * A layer that needs a lease for each call. What the lease is asked of is up to the kind of layer; when to ask, how long to
 * hold and when to give back is up to the `Pass`.
 */
export abstract class LimitLayer<Event extends RejectedEvent = RejectedEvent> extends Layer {
  readonly #callbackKind: CallbackErrorKind;
  readonly #onRejected: Notification<Event> | undefined;
  protected readonly isShadow: boolean;
  #shadow: ShadowedRateLimiter | undefined = undefined;
  /** What a limiter in shadow would have refused in this very turn. */
  #refusedInShadow: ShadowRejection | undefined = undefined;

  constructor(callbackKind: CallbackErrorKind, { name, shadow = false, onRejected }: CommonOptions<Event>) {
    super(name);
    this.#callbackKind = callbackKind;
    this.#onRejected = onRejected;
    this.isShadow = shadow;
  }

  /** Whose state can be shown; undefined when that is not one limiter. */
  abstract readonly limiter: RateLimiter | undefined;

  /** Asks for the lease of a call; throws what the limiter throws. */
  protected abstract ask(context: CallContext): RateLimitLease | PromiseLike<RateLimitLease>;

  protected abstract eventOf(rejected: RejectedEvent, refusal: Refusal): Event;

  protected abstract errorOf(where: ShieldRejection, refusal: Refusal): RateLimitRejectedError;

  /** What a limit in shadow would not have let through so far; undefined for any other. */
  get shadow(): ShadowCounts | undefined {
    return this.#shadow;
  }

  get hasNotification(): boolean {
    return this.#onRejected !== undefined;
  }

  /** The limiter to ask: itself, or one that stands before it and lets everything through. */
  protected gateOf(limiter: RateLimiter): RateLimiter {
    if (!this.isShadow) return limiter;
    this.#shadow = shadowed(limiter, { onRejected: (rejection) => this.#noteInShadow(rejection) });
    return this.#shadow;
  }

  acquire(context: CallContext, strategyIndex: number): RateLimitLease | PromiseLike<RateLimitLease> {
    const answer = this.ask(context);
    if (this.#refusedInShadow !== undefined) this.#tellInShadow(context, strategyIndex);
    return answer;
  }

  /**
   * Refuses a call: disposes the lease, tells `onRejected`, waits for it, and only then fails. Throws at once when there is
   * nobody to wait for.
   */
  reject(lease: RateLimitLease, context: CallContext, strategyIndex: number): Promise<never> {
    const refusal = refusalOf(lease);
    const where = this.#where(context, strategyIndex);
    const error = this.errorOf(where, refusal);
    if (this.#onRejected === undefined) throw error;
    return this.#rejectAfterNotice(where, refusal, context, error);
  }

  async #rejectAfterNotice(
    where: ShieldRejection,
    refusal: Refusal,
    context: CallContext,
    error: Error,
  ): Promise<never> {
    await this.#notify(where, refusal, context);
    throw error;
  }

  /** Calls `onRejected`; its failure is reported, and is nobody else's. */
  async #notify(
    where: ShieldRejection,
    refusal: Refusal,
    context: CallContext,
    error?: unknown,
  ): Promise<void> {
    const { reason, retryAfterMs } = refusal;
    const { isShadow } = this;
    context.enterHook();
    try {
      const event = this.eventOf({ ...where, reason, retryAfterMs, context, isShadow, error }, refusal);
      await this.#onRejected?.(Object.freeze(event));
    } catch (error) {
      reportCallbackError(context.diagnostics, {
        kind: this.#callbackKind,
        error,
        source: this.describe(),
        shieldName: where.shieldName,
        strategyIndex: where.strategyIndex,
        attempt: context.attempt,
      });
    } finally {
      context.leaveHook();
    }
  }

  #where(context: CallContext, strategyIndex: number): ShieldRejection {
    return { strategyIndex, strategyName: this.name, shieldName: context.shieldName };
  }

  #noteInShadow(rejection: ShadowRejection): void {
    if (!rejection.wouldHaveWaited) this.#refusedInShadow = rejection;
  }

  #tellInShadow(context: CallContext, strategyIndex: number): void {
    const { reason, retryAfterMs, error } = this.#refusedInShadow as ShadowRejection;
    this.#refusedInShadow = undefined;
    const refusal = { reason, retryAfterMs, metadata: new ReadOnlyMap<string, unknown>([]) };
    // The call does not wait for it: a limit in shadow is not to be felt.
    void this.#notify(this.#where(context, strategyIndex), refusal, context, error);
  }
}

/** Writes down what a refused lease tells, and disposes it. Nothing is read from it after that. */
function refusalOf(lease: RateLimitLease): Refusal {
  let refusal: Refusal;
  try {
    const { reason } = lease;
    const retryAfterMs = adviceOf(lease.retryAfterMs, reason);
    refusal = { reason, retryAfterMs, metadata: new ReadOnlyMap(lease.getAllMetadata()) };
  } catch (error) {
    throw giveUp(lease, error);
  }
  lease.dispose();
  return refusal;
}

/** When to come back, if that is to be relied on: leases may be other people's, and who left a queue was told nothing. */
function adviceOf(retryAfterMs: unknown, reason: RejectionReason | undefined): number | undefined {
  return reason === "queue_timeout" || reason === "queue_evicted" ? undefined : adviceIn(retryAfterMs);
}
