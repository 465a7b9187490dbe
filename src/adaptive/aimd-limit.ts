import type { LeaseOutcome } from "../contract/outcome.js";
import { checkDuration, checkNumber, checkOptionNames } from "../contract/validation.js";
import type { LimitDescription } from "./limit.js";
import { clamp, readBounds } from "./limit-bounds.js";
import { ObservableLimit, type ObservableLimitOptions } from "./observable-limit.js";
import { isSample } from "./sample.js";

/*
 * One up, a tenth down.
 *
 * The question: how many calls does the other side bear, when all one hears is whether a call was refused? The naive answer
 * takes the number at which the first refusal came; it is wrong a minute later. Additive increase and multiplicative decrease,
 * which TCP made popular, never stops asking: each piece of work that went well adds 1, each that was dropped takes a tenth.
 *
 *   dropped, or slower than timeoutMs:   limit = trunc(limit × backoffRatio)
 *   else, if at least half was in use:   limit = limit + 1
 *
 * Example, from 20: work that found 10 in flight makes it 21; a drop makes that 18 (18.9, cut off). At the default minimum of
 * 20 it becomes 20.
 *
 * The surprise: the step is per piece of work, not per second. At 1000 completions a second the limit goes from 20 to 200 in a
 * fifth of a second, and a burst of 10 refusals that belong to one overload takes 65 % away.
 */

/**
 * Options of an {@link AimdLimit}.
 *
 * @public
 */
export interface AimdLimitOptions extends ObservableLimitOptions {
  /** The limit to begin with: an integer of at least 1. 20 by default. Below the default `minLimit`, the first sample lifts it. */
  readonly initialLimit?: number | undefined;
  /** The lowest limit: an integer of at least 1. 20 by default. */
  readonly minLimit?: number | undefined;
  /** The highest limit: an integer of at least `minLimit`. 200 by default. */
  readonly maxLimit?: number | undefined;
  /** What is left of the limit after a drop: from 0.5 to below 1. 0.9 by default. */
  readonly backoffRatio?: number | undefined;
  /** Work that took longer counts as dropped, in milliseconds: above 0 and finite. 5000 by default. */
  readonly timeoutMs?: number | undefined;
}

const OPTION_NAMES = ["initialLimit", "minLimit", "maxLimit", "backoffRatio", "timeoutMs", "onDiagnostic"];
const DEFAULTS = { initialLimit: 20, minLimit: 20, maxLimit: 200 };

/**
 * Additive increase, multiplicative decrease, with each piece of work.
 *
 * Grows by 1 with each success that found at least half of the limit in flight, shrinks to `backoffRatio` with each that was
 * dropped or took longer than `timeoutMs`. Failures of other kinds are no samples.
 *
 * Good at: dependencies that say no (429, 503, refused connections), whatever their latency; it has no state that could go
 * stale. Fails where nobody says no: work that only gets slower makes it grow to `maxLimit`, until `timeoutMs` is passed. One
 * burst of drops counts many times over, and the limit saws for ever, since it must overload the other side to find its edge.
 * See {@link WindowedAimdLimit} for one step per window, and latency as a signal.
 *
 * @example
 * ```ts
 * import { AimdLimit } from "headgate/adaptive";
 *
 * const limit = new AimdLimit({ initialLimit: 20, minLimit: 5, maxLimit: 100, timeoutMs: 2000 });
 * ```
 *
 * @public
 */
export class AimdLimit extends ObservableLimit {
  readonly #minLimit: number;
  readonly #maxLimit: number;
  readonly #backoffRatio: number;
  readonly #timeoutMs: number;

  /**
   * @param options - All optional: `initialLimit`, `minLimit`, `maxLimit`, `backoffRatio`, `timeoutMs`, `onDiagnostic`.
   * @throws TypeError when an option has the wrong type or an unknown name; RangeError when a number is out of range.
   */
  constructor(options: AimdLimitOptions = {}) {
    checkOptionNames(options, OPTION_NAMES);
    const { initialLimit, minLimit, maxLimit } = readBounds(options, DEFAULTS, true);
    const { backoffRatio = 0.9, timeoutMs = 5000 } = options;
    checkNumber("options.backoffRatio", backoffRatio, "from 0.5 to below 1", (n) => n >= 0.5 && n < 1);
    checkDuration("options.timeoutMs", timeoutMs);
    super(initialLimit, options);
    this.#minLimit = minLimit;
    this.#maxLimit = maxLimit;
    this.#backoffRatio = backoffRatio;
    this.#timeoutMs = timeoutMs;
  }

  override get maxLimit(): number {
    return this.#maxLimit;
  }

  override onSample(_startTime: number, rtt: number, inFlight: number, outcome: LeaseOutcome): void {
    if (!isSample(rtt, outcome)) return;
    let next = this.limit;
    if (outcome === "dropped" || rtt > this.#timeoutMs) {
      next = Math.trunc(next * this.#backoffRatio);
    } else if (inFlight * 2 >= next) {
      next += 1;
    }
    this.moveTo(clamp(next, this.#minLimit, this.#maxLimit));
  }

  override describe(): LimitDescription {
    return { algorithm: "AimdLimit", limit: this.limit };
  }
}
