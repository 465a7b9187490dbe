import type { LeaseOutcome } from "../contract/outcome.js";
import { checkFunction } from "../contract/validation.js";
import { type AdaptiveDiagnostic, type Limit, type LimitDescription, tellOf } from "./limit.js";

/**
 * The option that all algorithms of this library have.
 *
 * @public
 */
export interface ObservableLimitOptions {
  /** Told of a listener that threw. What it throws itself is ignored. */
  readonly onDiagnostic?: ((diagnostic: AdaptiveDiagnostic) => void) | undefined;
}

/** One call of `onChange`; an object, since the same function may be given twice. */
interface Registration {
  readonly listener: (limit: number, previous: number) => void;
}

/** A change that is to be told once the one before has been told to all. */
interface Change {
  readonly registrations: readonly Registration[];
  readonly limit: number;
  readonly previous: number;
}

/*
 * Who hears of a change, and in which order.
 *
 * The question: a listener sets the limit, or hands in a sample, while it is being told of a change. The naive answer calls all
 * listeners in a loop, and so tells the second listener of 5 → 7 before it hears of 4 → 5: its last call says 5, and the limit
 * is 7. Here a change that is made while another is being told waits until all have heard of the first.
 *
 * Whoever was registered when the limit changed hears of it, and nobody else: the list is replaced, never altered, and each
 * change keeps the list of its moment. So a listener sees an unbroken sequence, each call starting where the last one ended.
 *
 * The surprise: `limit` is ahead of what a listener is told, if a listener before it has changed it again.
 */

/**
 * An algorithm whose changes can be listened to: what those of this library have in common.
 *
 * It keeps an estimate, a number that need not be whole, and its whole part, the limit. `moveTo` sets both and tells the
 * listeners if the limit has changed; it is the last thing that `onSample` does, since listeners may hand in samples in turn.
 *
 * Listeners are called synchronously, in the order in which they were registered, never at registration, and not when a limit is
 * set to what it is already. One that throws stops nobody; its error goes to `onDiagnostic`.
 *
 * @public
 */
export abstract class ObservableLimit implements Limit {
  #estimated: number;
  #limit: number;
  readonly #registered = new Set<Registration>();
  /** The same as a list that is never altered; undefined when it is out of date. */
  #registrations: readonly Registration[] | undefined = [];
  #isTelling = false;
  readonly #waiting: Change[] = [];
  readonly #onDiagnostic: ((diagnostic: AdaptiveDiagnostic) => void) | undefined;

  /**
   * @param initial - The limit to begin with.
   * @param options - `onDiagnostic`; options of other names are left to the algorithm.
   * @throws TypeError when `onDiagnostic` is not a function.
   */
  constructor(initial: number, options: ObservableLimitOptions = {}) {
    const { onDiagnostic } = options;
    if (onDiagnostic !== undefined) checkFunction("options.onDiagnostic", onDiagnostic);
    this.#estimated = initial;
    this.#limit = Math.trunc(initial);
    this.#onDiagnostic = onDiagnostic;
  }

  get limit(): number {
    return this.#limit;
  }

  abstract get maxLimit(): number | undefined;

  abstract onSample(
    startTime: number,
    rtt: number,
    inFlight: number,
    outcome: LeaseOutcome,
    running?: number,
  ): void;

  abstract describe(): LimitDescription;

  /** @throws TypeError when the listener is not a function. */
  onChange(listener: (limit: number, previous: number) => void): () => void {
    checkFunction("listener", listener);
    const registration: Registration = { listener };
    this.#registered.add(registration);
    this.#registrations = undefined;
    return () => {
      if (this.#registered.delete(registration)) this.#registrations = undefined;
    };
  }

  /** The number whose whole part is the limit. */
  protected get estimated(): number {
    return this.#estimated;
  }

  /** Sets the estimate, and tells the listeners if that changes the limit. A number that is not finite changes nothing. */
  protected moveTo(estimated: number): void {
    if (!Number.isFinite(estimated)) return;
    this.#estimated = estimated;
    const previous = this.#limit;
    const limit = Math.trunc(estimated);
    if (limit === previous) return;
    this.#limit = limit;
    this.#registrations ??= [...this.#registered];
    const registrations = this.#registrations;
    if (registrations.length === 0) return;
    if (this.#isTelling) {
      this.#waiting.push({ registrations, limit, previous });
      return;
    }
    this.#isTelling = true;
    this.#tell(registrations, limit, previous);
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      this.#tell(next.registrations, next.limit, next.previous);
    }
    this.#isTelling = false;
  }

  #tell(registrations: readonly Registration[], limit: number, previous: number): void {
    for (const { listener } of registrations) {
      try {
        listener(limit, previous);
      } catch (error) {
        tellOf(this.#onDiagnostic, "listener_failed", error);
      }
    }
  }
}
