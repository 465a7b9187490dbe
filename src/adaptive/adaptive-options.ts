import {
  checkChoice,
  checkFunction,
  checkInteger,
  checkMethods,
  checkNumber,
  checkOptionNames,
  wrongType,
} from "../contract/validation.js";
import type { ConcurrencyLimiterOptions } from "../limiters/concurrency-limiter.js";
import { QUEUE_OPTION_NAMES } from "../queue/queue-settings.js";
import { AnchoredGradientLimit } from "./anchored-gradient-limit.js";
import type { AdaptiveDiagnostic, Limit } from "./limit.js";
import { WindowedLimit } from "./windowed-limit.js";

/**
 * The part of an adaptive limiter that one kind of work may count on.
 *
 * @public
 */
export interface AdaptiveShareOptions {
  /** The part of the limit: from 0 to 1. All shares together come to 1 at most. */
  readonly share: number;
  /**
   * How long the refusal of an `acquire` is held back, in milliseconds: from 0, which is the default. Slows down callers who
   * ask again at once. At most `maxDelayed` refusals are held back at a time, none for longer than its `maxWaitMs`, and those
   * of `attemptAcquire` never.
   */
  readonly rejectDelayMs?: number | undefined;
}

/**
 * Options of an {@link AdaptiveConcurrencyLimiter}.
 *
 * @public
 */
export interface AdaptiveConcurrencyLimiterOptions extends Omit<ConcurrencyLimiterOptions, "permitLimit"> {
  /**
   * The algorithm that sets the limit. By default an {@link AnchoredGradientLimit} in a {@link WindowedLimit}, which
   * `initialLimit`, `minLimit`, `maxLimit` and `random` are for.
   */
  readonly limit?: Limit | undefined;
  /** Where the default algorithm starts: 20. Best near what the resource is expected to take. Not together with `limit`. */
  readonly initialLimit?: number | undefined;
  /** The least that the default algorithm goes down to: 4. Not together with `limit`. */
  readonly minLimit?: number | undefined;
  /**
   * The most that the default algorithm goes up to: 1000. Where there is a number beyond which the resource only queues, such as
   * the size of a pool, that is it. Not together with `limit`.
   */
  readonly maxLimit?: number | undefined;
  /**
   * Where the default algorithm takes its chances from, which it needs for when it probes: a number from 0 to below 1.
   * `Math.random` by default; a simulation that is to be the same each time gives its own. Not together with `limit`.
   */
  readonly random?: (() => number) | undefined;
  /** The parts of the limit that kinds of work may count on, by name; a number stands for its `share`. None by default. */
  readonly shares?: Readonly<Record<string, number | AdaptiveShareOptions>> | undefined;
  /**
   * What a share may do when the whole limit is in use.
   *
   * - `soft`, the default: it still gets its own part, so that more than the limit may be in flight for a while, at most by the
   *   sum of the parts.
   * - `hard`: nothing. In return, what others have not used of their parts is kept free for them, so that less than the limit
   *   may be in use; and work without a share gets nothing at all where the parts come to the whole limit.
   */
  readonly shareRule?: "soft" | "hard" | undefined;
  /** How many refusals may be held back at a time, of all shares: 100 by default. */
  readonly maxDelayed?: number | undefined;
  /**
   * Told of errors that nobody could catch: those of the algorithm, and of listeners to the default one (an algorithm that is
   * given as `limit` has an option of its own for its listeners). Without it they are dropped; the limiter goes on in either case.
   */
  readonly onDiagnostic?: ((diagnostic: AdaptiveDiagnostic) => void) | undefined;
}

/** The name of the share of all work that has none. */
export const UNKNOWN = "unknown";

const DEFAULT_LIMIT_NAMES = ["initialLimit", "minLimit", "maxLimit", "random"] as const;
const OPTION_NAMES: readonly string[] = [
  "limit",
  ...DEFAULT_LIMIT_NAMES,
  "shares",
  "shareRule",
  "maxDelayed",
  "onDiagnostic",
  "codel",
  ...QUEUE_OPTION_NAMES,
];
const SHARE_OPTION_NAMES = ["share", "rejectDelayMs"];
const SHARE_RULES = ["soft", "hard"];

/** Sums of shares such as 0.1 + 0.2 + 0.7 come out a little above 1. */
const ROUNDING = 1e-9;

/** What was said about one share, checked and complete. */
interface ShareSettings {
  readonly share: number;
  readonly rejectDelayMs: number;
}

/** The same options, checked and complete, except for those of the queue. */
export interface AdaptiveSettings {
  readonly limit: Limit;
  /** The most that one request may ask for. */
  readonly mostPermits: number;
  readonly shares: ReadonlyMap<string, ShareSettings>;
  readonly isHard: boolean;
  readonly maxDelayed: number;
  readonly onDiagnostic: ((diagnostic: AdaptiveDiagnostic) => void) | undefined;
}

export function readAdaptiveOptions(options: AdaptiveConcurrencyLimiterOptions): AdaptiveSettings {
  checkOptionNames(options, OPTION_NAMES);
  const { shares, shareRule = "soft", maxDelayed = 100, onDiagnostic } = options;
  if (onDiagnostic !== undefined) checkFunction("options.onDiagnostic", onDiagnostic);
  checkChoice("options.shareRule", shareRule, SHARE_RULES);
  checkInteger("options.maxDelayed", maxDelayed, 0);
  const readings = { shares: readShares(shares), isHard: shareRule === "hard", maxDelayed, onDiagnostic };
  const limit = readLimit(options, onDiagnostic);
  const { maxLimit = Number.MAX_SAFE_INTEGER } = limit;
  checkInteger("options.limit.maxLimit", maxLimit, 1);
  return { ...readings, limit, mostPermits: maxLimit };
}

function readLimit(
  options: AdaptiveConcurrencyLimiterOptions,
  onDiagnostic: AdaptiveSettings["onDiagnostic"],
): Limit {
  const { limit, initialLimit, minLimit, maxLimit, random } = options;
  if (limit === undefined) {
    const anchored = new AnchoredGradientLimit({ initialLimit, minLimit, maxLimit, random, onDiagnostic });
    return new WindowedLimit(anchored, { dropThreshold: 0.05 });
  }
  checkMethods("options.limit", limit, ["onSample", "onChange"]);
  checkInteger("options.limit.limit", limit.limit, 0);
  for (const name of DEFAULT_LIMIT_NAMES) {
    if (options[name] === undefined) continue;
    throw wrongType(
      `options.${name}`,
      "left out when limit is given (the algorithm has its own)",
      options[name],
    );
  }
  return limit;
}

function readShares(shares: object = {}): Map<string, ShareSettings> {
  if (typeof shares !== "object" || shares === null || Symbol.iterator in shares) {
    throw wrongType("options.shares", "an object of shares by name", shares);
  }
  const read = new Map<string, ShareSettings>();
  let sum = 0;
  for (const [name, given] of Object.entries(shares)) {
    const path = `options.shares[${JSON.stringify(name)}]`;
    if (name === "" || name === UNKNOWN) {
      throw new RangeError(
        `${path} must have another name: "${UNKNOWN}" is all other work, and "" is no name.`,
      );
    }
    if (typeof given === "string") throw wrongType(path, "a number from 0 to 1, or an object", given);
    if (typeof given !== "number") checkOptionNames(given, SHARE_OPTION_NAMES, path);
    const { share, rejectDelayMs = 0 } = typeof given === "number" ? { share: given } : given;
    checkNumber(`${path}.share`, share, "a number from 0 to 1", (n) => n >= 0 && n <= 1);
    const allowed = "a finite number of milliseconds of at least 0";
    checkNumber(`${path}.rejectDelayMs`, rejectDelayMs, allowed, (n) => n >= 0 && Number.isFinite(n));
    sum += share;
    read.set(name, { share, rejectDelayMs });
  }
  checkNumber("The sum of options.shares", sum, "1 at most", (n) => n <= 1 + ROUNDING);
  return read;
}
