import { RateLimitRejectedError, systemClock } from "headgate";
import { Shield, type ShieldContext } from "headgate/shield";
import { wrongType } from "../../src/internal.js";
import {
  Listeners,
  type PolicyContext,
  type PolicyEvent,
  type PolicyFailure,
  type PolicySuccess,
} from "./policy-events.js";

/**
 * A shield, or a limiter, as a policy of cockatiel: for `wrap()`, at any place, or by itself.
 *
 * An aborted signal ends the call with the reason of that signal. (Cockatiel's own policies throw a `TaskCancelledError`.)
 *
 * @public
 */
export interface ShieldPolicy<A = never> {
  /** For type inference only; never has a value. */
  readonly _altReturn: A;
  /** A call has succeeded. */
  readonly onSuccess: PolicyEvent<PolicySuccess>;
  /** A call has failed, was refused, or was given up. */
  readonly onFailure: PolicyEvent<PolicyFailure>;
  /** A limit has refused a call. Comes before `onFailure`. */
  readonly onReject: PolicyEvent<RateLimitRejectedError>;
  /** Runs work inside the shield, or under a lease of the limiter. */
  execute<T>(work: (context: PolicyContext) => PromiseLike<T> | T, signal?: AbortSignal): Promise<T | A>;
}

/** How a call gets into a shield. */
type Enter<A> = <T>(
  work: (context: ShieldContext) => PromiseLike<T> | T,
  signal: AbortSignal | undefined,
) => Promise<T | A>;

/** A policy around a shield, with its events. */
export function policyOf<A>(enter: Enter<A>): ShieldPolicy<A> {
  const onSuccess = new Listeners<PolicySuccess>("onSuccess");
  const onFailure = new Listeners<PolicyFailure>("onFailure");
  const onReject = new Listeners<RateLimitRejectedError>("onReject");

  async function execute<T>(
    work: (context: PolicyContext) => PromiseLike<T> | T,
    signal?: AbortSignal,
  ): Promise<T | A> {
    let startedAt: number | undefined;
    let thrownByWork: unknown;
    const duration = () => (startedAt === undefined ? 0 : systemClock.now() - startedAt);
    try {
      const result = await enter(async (context) => {
        startedAt = systemClock.now();
        try {
          // Only its signal: `wrap` copies all that it is given over what outer policies say, such as the attempt.
          return await work({
            get signal() {
              // Made when asked for where the caller gave none. One for all would collect the listeners of all.
              return context.signal;
            },
          });
        } catch (error) {
          thrownByWork = error;
          throw error;
        }
      }, signal);
      onSuccess.emit({ duration: duration() });
      return result;
    } catch (error) {
      const took = duration();
      // What a limit further down refuses is the work's failure, and no refusal of this one's.
      if (RateLimitRejectedError.is(error) && error !== thrownByWork) onReject.emit(error);
      onFailure.emit({ duration: took, handled: false, reason: { error: error as Error } });
      throw error;
    }
  }

  const policy: Omit<ShieldPolicy<A>, "_altReturn"> = {
    execute,
    onSuccess: onSuccess.subscribe,
    onFailure: onFailure.subscribe,
    onReject: onReject.subscribe,
  };
  return policy as ShieldPolicy<A>;
}

/**
 * Makes a policy of cockatiel of a shield. The shield's layers come at the place where the policy stands.
 *
 * @example
 * ```ts
 * import { handleAll, retry, wrap } from "cockatiel";
 * import { shieldPolicy } from "headgate/cockatiel";
 * import { Shield, type ShieldContext } from "headgate/shield";
 *
 * const limits = Shield.rateLimit(100, 1000, { queueLimit: 20 }).concurrencyLimit(10);
 * const guarded = wrap(retry(handleAll, { maxAttempts: 2 }), shieldPolicy(limits));
 * await guarded.execute(({ signal }) => fetch("https://vendor.example/", { signal }));
 * ```
 *
 * @throws TypeError when it is not a shield.
 *
 * @public
 */
export function shieldPolicy<A>(shield: Shield<A>): ShieldPolicy<A> {
  if (!(shield instanceof Shield)) throw wrongType("shield", "a Shield", shield);
  return policyOf((work, signal) => shield.execute(work, { signal }));
}
