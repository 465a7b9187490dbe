import type { Clock } from "../contract/clock.js";
import { systemClock } from "../contract/system-clock.js";
import {
  checkBoolean,
  checkChoice,
  checkDuration,
  checkInteger,
  checkMethods,
  checkOptionNames,
  wrongType,
} from "../contract/validation.js";
import { type CodelOptions, type CodelSettings, checkCodelOptions } from "./codel.js";
import type { PermitAlgorithm } from "./permit-algorithm.js";

/**
 * Who goes first when permits come back. The first in order also blocks: nobody behind it is served before it, however
 * little they want, so that large requests are not starved.
 *
 * - `oldestFirst`: whoever has waited longest. A full queue refuses newcomers.
 * - `newestFirst`: whoever came last. Newcomers pass the queue, and a full queue drops its oldest waiters.
 * - `highestPriorityFirst`: the highest `priority`, and within one whoever has waited longest. Newcomers pass those of a lower
 *   priority; a full queue drops the newest of the lowest priority for a newcomer of a higher one. Steady traffic of a high
 *   priority starves the lower ones: set `queueTimeoutMs` too.
 *
 * @public
 */
export type QueueProcessingOrder = "oldestFirst" | "newestFirst" | "highestPriorityFirst";

/**
 * The options that all limiters with a queue have in common.
 *
 * @public
 */
export interface QueueOptions {
  /**
   * How many permits, not callers, may be waited for at the same time. 0 by default: nobody waits, `acquire` refuses
   * when nothing is free.
   */
  readonly queueLimit?: number | undefined;
  /** Who goes first when permits come back; `oldestFirst` by default. */
  readonly queueProcessingOrder?: QueueProcessingOrder | undefined;
  /**
   * How long a request may wait, in milliseconds: above 0 and finite. It is then refused with `queue_timeout`. Unbounded by
   * default.
   */
  readonly queueTimeoutMs?: number | undefined;
  /** Where the limiter gets its time from; `systemClock` by default. */
  readonly clock?: Clock | undefined;
}

export const QUEUE_OPTION_NAMES = ["queueLimit", "queueProcessingOrder", "queueTimeoutMs", "clock"] as const;

const ORDERS: readonly QueueProcessingOrder[] = ["oldestFirst", "newestFirst", "highestPriorityFirst"];
const CLOCK_METHODS = ["now", "setTimer"] as const;

/**
 * The same options, checked and complete. Limiters that are made alike share them (see `shareSettings`), so that a limiter of
 * many is small.
 */
export class QueueSettings<Limiter = unknown> {
  readonly algorithm: PermitAlgorithm<Limiter>;
  readonly queueLimit: number;
  readonly queueProcessingOrder: QueueProcessingOrder;
  /** Infinite when unbounded. */
  readonly queueTimeoutMs: number;
  readonly clock: Clock;
  readonly codel: CodelSettings | undefined;
  /** Whether the passing of time alone changes anything. */
  readonly isAuto: boolean;
  #source: object | undefined = undefined;
  #names: readonly string[] = [];
  #values: readonly unknown[] = [];

  constructor(
    options: QueueOptions & {
      readonly codel?: CodelOptions | undefined;
      readonly autoReplenishment?: boolean | undefined;
    },
    algorithm: PermitAlgorithm<Limiter>,
  ) {
    const {
      queueLimit = 0,
      queueProcessingOrder = "oldestFirst",
      queueTimeoutMs,
      clock = systemClock,
      codel,
      autoReplenishment = true,
    } = options;
    checkInteger("options.queueLimit", queueLimit, 0);
    checkChoice("options.queueProcessingOrder", queueProcessingOrder, ORDERS);
    if (queueTimeoutMs !== undefined) checkDuration("options.queueTimeoutMs", queueTimeoutMs);
    checkMethods("options.clock", clock, CLOCK_METHODS);
    checkBoolean("options.autoReplenishment", autoReplenishment);
    if (codel !== undefined && queueProcessingOrder !== "oldestFirst") {
      throw wrongType(
        "options.queueProcessingOrder",
        '"oldestFirst" when codel is set',
        queueProcessingOrder,
      );
    }
    this.algorithm = algorithm;
    this.queueLimit = queueLimit;
    this.queueProcessingOrder = queueProcessingOrder;
    this.queueTimeoutMs = queueTimeoutMs ?? Number.POSITIVE_INFINITY;
    this.clock = clock;
    this.codel = codel === undefined ? undefined : checkCodelOptions(codel);
    this.isAuto = autoReplenishment;
  }

  /** Remembers which object they were made from, and what it said. */
  remember(source: object, names: readonly string[], values: readonly unknown[]): void {
    // What codel says may change inside the same object.
    this.#source = this.codel === undefined ? source : undefined;
    this.#names = names;
    this.#values = values;
  }

  /** Whether they were made from this very object, and it still says the same. */
  isReadFrom(options: object): boolean {
    return (
      options === this.#source &&
      this.#names.every((name, i) => optionValue(options, name) === this.#values[i])
    );
  }
}

function optionValue(options: object, name: string): unknown {
  return (options as Record<string, unknown>)[name];
}

/** How many settings are remembered: about as many as an application has tiers. */
const MOST_RECENT = 8;

/**
 * Settings that were used lately, if these options come to the same; else new ones, which are remembered. Those who make many
 * limiters from one object, as partitions do, have it checked once.
 */
export function shareSettings<Options extends object, Settings extends QueueSettings<never>>(
  recent: Settings[],
  options: Options,
  names: readonly string[],
  read: (options: Options) => Settings,
): Settings {
  for (const settings of recent) if (settings.isReadFrom(options)) return settings;
  checkOptionNames(options, names);
  // Each is read once, so that what has been checked is what is used, and what the next limiter is compared with.
  const values = names.map((name) => optionValue(options, name));
  const next = read(Object.fromEntries(names.map((name, i) => [name, values[i]])) as Options);
  next.remember(options, names, values);
  for (const settings of recent) if (isSame(settings, next)) return settings;
  if (recent.unshift(next) > MOST_RECENT) recent.pop();
  return next;
}

function isSame(a: object, b: object): boolean {
  return Object.entries(b).every(([key, value]) => {
    const other = optionValue(a, key);
    // Each limiter has read its options of CoDel into an object of its own.
    const isRead = key === "codel" && value !== undefined && other !== undefined;
    return other === value || (isRead && isSame(other as object, value as object));
  });
}
