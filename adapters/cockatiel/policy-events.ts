import { checkFunction } from "../../src/internal.js";
import { reportCallbackError } from "../shield/diagnostics.js";

/**
 * What a policy hands to the work.
 *
 * @public
 */
export interface PolicyContext {
  /** Aborted when the caller, or a policy further out, gives up. */
  signal: AbortSignal;
}

/**
 * Subscribes to something that happens in a policy, as cockatiel's `Event` does.
 *
 * @public
 */
export type PolicyEvent<Data> = (listener: (data: Data) => void) => { dispose(): void };

/**
 * A call that has succeeded.
 *
 * @public
 */
export interface PolicySuccess {
  /** How long the work took, in milliseconds; waiting for the limit is not counted. */
  duration: number;
}

/**
 * A call that has failed, or was refused.
 *
 * @public
 */
export interface PolicyFailure {
  /** How long the work took, in milliseconds; 0 when it did not start. */
  duration: number;
  /** Always false: a limit handles no failures. */
  handled: boolean;
  /** What was thrown. An `Error` as far as cockatiel 3 can say; it is whatever the work threw. */
  reason: { error: Error };
}

/** Those who listen to one kind of event. One that throws is reported, and changes nothing. */
export class Listeners<Data> {
  readonly #name: string;
  readonly #listeners = new Set<{ readonly listener: (data: Data) => void }>();

  constructor(name: string) {
    this.#name = name;
  }

  readonly subscribe: PolicyEvent<Data> = (listener) => {
    checkFunction("listener", listener);
    const subscription = { listener };
    this.#listeners.add(subscription);
    return { dispose: () => void this.#listeners.delete(subscription) };
  };

  emit(data: Data): void {
    for (const { listener } of [...this.#listeners]) {
      try {
        listener(data);
      } catch (error) {
        reportCallbackError(undefined, {
          kind: "event_listener",
          error,
          source: this.#name,
          shieldName: undefined,
          strategyIndex: undefined,
          attempt: 0,
        });
      }
    }
  }
}
