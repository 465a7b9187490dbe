import type { LeaseOutcome } from "../contract/outcome.js";

/**
 * What went wrong in code that a limiter calls and nobody awaits: a listener, or an algorithm of the user's own.
 *
 * - `listener_failed`: a function given to `onChange` threw.
 * - `limit_failed`: the algorithm threw, or its limit is not a whole number of at least 0; the limit before stays.
 *
 * @public
 */
export interface AdaptiveDiagnostic {
  readonly kind: "listener_failed" | "limit_failed";
  readonly error: unknown;
}

/** Tells of an error that nobody could catch. Whoever is told and throws has nobody to tell of that. */
export function tellOf(
  onDiagnostic: ((diagnostic: AdaptiveDiagnostic) => void) | undefined,
  kind: AdaptiveDiagnostic["kind"],
  error: unknown,
): void {
  try {
    onDiagnostic?.({ kind, error });
  } catch {
    // See above.
  }
}

/**
 * What an algorithm knows at the moment, for logs and dashboards: its name, its limit, and the signals it goes by. All
 * times are milliseconds; a signal that is not known yet is undefined.
 *
 * @public
 */
export interface LimitDescription {
  /** The kind of algorithm, such as `Gradient2Limit`. */
  readonly algorithm: string;
  readonly limit: number;
  readonly [signal: string]: number | string | boolean | undefined;
}

/**
 * An algorithm that says how many may be in flight, and learns from how the work went.
 *
 * Implement it to try an algorithm of your own; the limiter calls it at the end of each piece of work, in the very turn in
 * which the lease is disposed, after the permits have come back. It reads no clock and sets no timer.
 *
 * @public
 */
export interface Limit {
  /** How many permits may be held at the same time now: a whole number of at least 0. */
  readonly limit: number;
  /** The highest that `limit` can get; undefined when it is not bounded. A request for more permits is a mistake. */
  readonly maxLimit?: number | undefined;
  /**
   * Takes in one piece of work that is done.
   *
   * @param startTime - When the permits were granted, in milliseconds of the limiter's clock.
   * @param rtt - How long the work took from then on, in milliseconds.
   * @param inFlight - Permits held right after this grant, its own included.
   * @param outcome - How it went; work with the outcome `ignored` is never handed in.
   * @param running - Permits held now that those of this work have come back.
   */
  onSample(startTime: number, rtt: number, inFlight: number, outcome: LeaseOutcome, running?: number): void;
  /**
   * Has a function called with the new and the previous limit whenever the limit has changed, synchronously.
   *
   * @returns A function that ends it.
   */
  onChange(listener: (limit: number, previous: number) => void): () => void;
  /** What the algorithm knows now, for logs and dashboards. */
  describe?(): LimitDescription;
}
