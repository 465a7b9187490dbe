import type { LeaseOutcome } from "../contract/outcome.js";
import { checkFunction, checkInteger } from "../contract/validation.js";
import type { Limit, LimitDescription } from "./limit.js";
import { HIGHEST_LIMIT } from "./limit-bounds.js";

/**
 * A limit that never moves: for tests, for comparisons, and where one knows the number.
 *
 * Good at: nothing can go wrong in it, and the best fixed limit beats every algorithm that has to find it. Fails when the
 * capacity changes: too high, it lets the queue build up behind it; too low, it refuses work that would fit.
 *
 * @example
 * ```ts
 * import { FixedLimit } from "headgate/adaptive";
 *
 * const limit = new FixedLimit(10);
 * ```
 *
 * @public
 */
export class FixedLimit implements Limit {
  readonly limit: number;

  /**
   * @param limit - How many permits may be held at the same time: an integer of at least 1.
   * @throws TypeError or RangeError when it is something else.
   */
  constructor(limit: number) {
    checkInteger("limit", limit, 1, HIGHEST_LIMIT);
    this.limit = limit;
  }

  get maxLimit(): number {
    return this.limit;
  }

  /** Does nothing. */
  onSample(
    _startTime: number,
    _rtt: number,
    _inFlight: number,
    _outcome: LeaseOutcome,
    _running?: number,
  ): void {}

  /** There will be no change to tell of; the function is checked and let go. */
  onChange(listener: (limit: number, previous: number) => void): () => void {
    checkFunction("listener", listener);
    return () => {};
  }

  describe(): LimitDescription {
    return { algorithm: "FixedLimit", limit: this.limit };
  }
}
