import type { QueueProcessingOrder } from "headgate";
import { checkBoolean, checkInteger, checkNumber } from "../../src/internal.js";
import { durationText } from "./duration-text.js";

/** The longest time-out of a queue, in milliseconds: 2^32 - 2, about 49.7 days. */
const MAX_QUEUE_TIMEOUT_MS = 4_294_967_294;

/**
 * How calls wait for a limit of a shield.
 *
 * @public
 */
export interface ShieldQueueOptions {
  /** How many calls may wait; 0 by default, which refuses at once. An integer of at least 0, or `Infinity`. */
  readonly queueLimit?: number | undefined;
  /**
   * How long a call may wait, in milliseconds: above 0, up to 4 294 967 294. Unbounded by default. It ends when the call is let
   * through: how long the call takes then is no matter.
   */
  readonly queueTimeoutMs?: number | undefined;
  /**
   * Whether calls wait in the order of `ShieldKeys.priority`, the highest first; false by default. A full queue then drops the
   * newest call of the lowest priority for one of a higher priority.
   */
  readonly usePriorityQueue?: boolean | undefined;
}

export const SHIELD_QUEUE_OPTION_NAMES = ["queueLimit", "queueTimeoutMs", "usePriorityQueue"] as const;

/** The same, checked and complete. */
export class QueueChoice {
  readonly queueLimit: number;
  readonly queueTimeoutMs: number | undefined;
  readonly usePriorityQueue: boolean;

  constructor(optionsType: string, options: ShieldQueueOptions) {
    const { queueLimit = 0, queueTimeoutMs, usePriorityQueue = false } = options;
    if (queueLimit !== Number.POSITIVE_INFINITY) checkInteger(`${optionsType}.queueLimit`, queueLimit, 0);
    if (queueTimeoutMs !== undefined) {
      const allowed = `a number of milliseconds above 0 and up to ${MAX_QUEUE_TIMEOUT_MS}, or left out to wait without end`;
      checkNumber(
        `${optionsType}.queueTimeoutMs`,
        queueTimeoutMs,
        allowed,
        (n) => n > 0 && n <= MAX_QUEUE_TIMEOUT_MS,
      );
    }
    checkBoolean(`${optionsType}.usePriorityQueue`, usePriorityQueue);
    this.queueLimit = queueLimit;
    this.queueTimeoutMs = queueTimeoutMs;
    this.usePriorityQueue = usePriorityQueue;
  }

  /** For a limiter of the core. */
  get limiterOptions(): {
    readonly queueLimit: number;
    readonly queueTimeoutMs: number | undefined;
    readonly queueProcessingOrder: QueueProcessingOrder;
  } {
    return {
      queueLimit: Math.min(this.queueLimit, Number.MAX_SAFE_INTEGER),
      queueTimeoutMs: this.queueTimeoutMs,
      queueProcessingOrder: this.usePriorityQueue ? "highestPriorityFirst" : "oldestFirst",
    };
  }

  /** Parts of what `describe` says; only what is not the default. */
  get texts(): readonly string[] {
    const texts: string[] = [];
    const timeout = this.queueTimeoutMs === undefined ? "" : `/${durationText(this.queueTimeoutMs)}`;
    if (this.queueLimit > 0 || timeout !== "") texts.push(`queue ${this.queueLimit}${timeout}`);
    if (this.usePriorityQueue) texts.push("priority queue");
    return texts;
  }
}

/** Refuses what comes after an options object, which would be left out without a word. */
export function checkNothingElse(method: string, numbers: string, further: readonly unknown[]): void {
  if (further.every((one) => one === undefined)) return;
  throw new TypeError(
    `${method} takes one object with all options, or ${numbers} and then an object; got ${further.length + 1} arguments, the first an object.`,
  );
}
