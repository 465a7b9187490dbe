import { checkFunction, checkOptionNames } from "../../src/internal.js";

/**
 * Which callback failed.
 *
 * - `concurrency_limit_rejected`, `rate_limit_rejected`, `rate_limiter_rejected`: an `onRejected`.
 * - `partition_evicted`: the `onEvicted` of a `PartitionedShield`.
 * - `partition_disposed`: a limiter or strategy of an evicted partition, when it was disposed.
 * - `event_listener`: a listener of a policy of `headgate/cockatiel`.
 *
 * @public
 */
export type CallbackErrorKind =
  | "concurrency_limit_rejected"
  | "rate_limit_rejected"
  | "rate_limiter_rejected"
  | "partition_evicted"
  | "partition_disposed"
  | "event_listener";

/**
 * A callback that failed. It holds nothing of the call, so it may be kept.
 *
 * @public
 */
export interface CallbackErrorEvent {
  /** Which kind of callback. */
  readonly kind: CallbackErrorKind;
  /** What it threw. */
  readonly error: unknown;
  /** Whose callback it is, for people: what `describe` says of the layer. */
  readonly source: string;
  /** The name of the shield; undefined when it has none. */
  readonly shieldName: string | undefined;
  /** The position of the layer, from 0, the outermost; undefined when it is not a layer's callback. */
  readonly strategyIndex: number | undefined;
  /** The attempt in which it was called. */
  readonly attempt: number;
}

/**
 * Who is told of what goes wrong in a shield beside the calls themselves; for `Shield.withDiagnostics`.
 *
 * @public
 */
export interface ShieldDiagnostics {
  /** Told of each callback that throws or rejects. What it throws itself is ignored. */
  readonly onCallbackError?: ((event: CallbackErrorEvent) => void) | undefined;
}

type Listener = (event: CallbackErrorEvent) => void;

const listeners = new Set<{ readonly listener: Listener }>();

/**
 * Diagnostics of all shields of the process. A failing callback never changes how a call ends, so this is where it shows;
 * when nobody listens it is lost.
 *
 * @example
 * ```ts
 * import { shieldDiagnostics } from "headgate/shield";
 *
 * const subscription = shieldDiagnostics.onCallbackError(({ kind, error }) => console.error(kind, error));
 * subscription.dispose();
 * ```
 *
 * @public
 */
export const shieldDiagnostics: {
  /**
   * Has a function told of each callback that fails, after the shield's own diagnostics.
   *
   * @returns A handle whose `dispose()` ends it.
   * @throws TypeError when it is not a function.
   */
  onCallbackError(listener: (event: CallbackErrorEvent) => void): { dispose(): void };
} = Object.freeze({
  onCallbackError(listener: Listener) {
    checkFunction("listener", listener);
    const subscription = { listener };
    listeners.add(subscription);
    return { dispose: () => void listeners.delete(subscription) };
  },
});

/** Copies diagnostics that a user gave. */
export function checkDiagnostics(diagnostics: ShieldDiagnostics): ShieldDiagnostics {
  checkOptionNames(diagnostics, ["onCallbackError"], "ShieldDiagnostics");
  const { onCallbackError } = diagnostics;
  if (onCallbackError !== undefined) checkFunction("ShieldDiagnostics.onCallbackError", onCallbackError);
  return { onCallbackError };
}

/** Tells of a failed callback: the shield's own diagnostics first, then everybody else in order of subscription. */
export function reportCallbackError(
  diagnostics: ShieldDiagnostics | undefined,
  event: CallbackErrorEvent,
): void {
  const frozen = Object.freeze(event);
  const own = diagnostics?.onCallbackError;
  for (const listener of [own, ...[...listeners].map((one) => one.listener)]) {
    try {
      listener?.(frozen);
    } catch {
      // There is nobody left to tell.
    }
  }
}
