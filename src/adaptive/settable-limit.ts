import type { LeaseOutcome } from "../contract/outcome.js";
import { checkInteger, checkOptionNames } from "../contract/validation.js";
import type { LimitDescription } from "./limit.js";
import { HIGHEST_LIMIT } from "./limit-bounds.js";
import { ObservableLimit, type ObservableLimitOptions } from "./observable-limit.js";

/**
 * A limit that is set from outside and learns nothing: for a number that comes from a configuration service or a controller of
 * your own.
 *
 * It may be 0, and then nothing is admitted. It has no `maxLimit`.
 *
 * @example
 * ```ts
 * import { SettableLimit } from "headgate/adaptive";
 *
 * const limit = new SettableLimit(10);
 * limit.setLimit(5);
 * ```
 *
 * @public
 */
export class SettableLimit extends ObservableLimit {
  /**
   * @param limit - The limit to begin with: an integer of at least 0.
   * @param options - `onDiagnostic`.
   * @throws TypeError when an argument has the wrong type or an unknown name; RangeError when the limit is out of range.
   */
  constructor(limit: number, options: ObservableLimitOptions = {}) {
    checkInteger("limit", limit, 0, HIGHEST_LIMIT);
    checkOptionNames(options, ["onDiagnostic"]);
    super(limit, options);
  }

  override get maxLimit(): undefined {
    return undefined;
  }

  /**
   * Sets the limit; listeners hear of it in this very call.
   *
   * @param limit - An integer of at least 0.
   * @throws TypeError or RangeError when it is something else; nothing has changed then.
   */
  setLimit(limit: number): void {
    checkInteger("limit", limit, 0, HIGHEST_LIMIT);
    this.moveTo(limit);
  }

  /** Does nothing. */
  override onSample(
    _startTime: number,
    _rtt: number,
    _inFlight: number,
    _outcome: LeaseOutcome,
    _running?: number,
  ): void {}

  override describe(): LimitDescription {
    return { algorithm: "SettableLimit", limit: this.limit };
  }
}
