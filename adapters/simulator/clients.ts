import { checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";
import { checkMoment, checkSpan, checkWhole, checkWord } from "./checks.js";
import type { RandomSource } from "./random.js";

/**
 * Why a client may try again: the attempt was refused, was not answered in time, or finished as an error.
 *
 * @public
 */
export type RetryCause = "rejected" | "timeout" | "error";

/**
 * How clients try again.
 *
 * @public
 */
export interface RetryModel {
  /** How many times at most, after the first attempt: an integer of at least 0. */
  readonly max: number;
  /** How long the client waits before the first retry, in milliseconds, at least 0. */
  readonly baseMs: number;
  /** By how much each wait is longer than the one before: at least 1; 2 by default. */
  readonly factor?: number;
  /** The longest wait, in milliseconds; unbounded by default. */
  readonly capMs?: number;
  /**
   * How waits are spread: not at all (`none`, the default), from 0 to the whole wait (`full`), or from half of it to the
   * whole (`equal`).
   */
  readonly jitter?: "none" | "full" | "equal";
  /** After what clients try again: all three by default. */
  readonly on?: readonly RetryCause[];
  /**
   * What becomes of a refusal's Retry-After: `obey`, the default, waits that long instead of backing off; `jittered` waits up
   * to twice as long, never less; `ignore` backs off.
   */
  readonly retryAfter?: "obey" | "jittered" | "ignore";
  /**
   * The most retries for each first attempt, over all clients: 0.1 allows one retry for ten requests. 10 are always allowed.
   * Unbounded by default.
   */
  readonly budgetRatio?: number;
}

/**
 * How clients behave.
 *
 * @public
 */
export interface ClientModel {
  /** How long a client waits for an answer to one attempt, in milliseconds, from when it is made; unbounded by default. */
  readonly timeoutMs?: number;
  /**
   * What the server notices of a client that gives up. `abandon`, the default: nothing; the work is done all the same.
   * `cancel-waiting`: it is taken out of the limiter's queue. `cancel-all`: it is taken out of the server too, and stopped if
   * it runs.
   */
  readonly onTimeout?: "abandon" | "cancel-waiting" | "cancel-all";
  /** How clients try again; not at all by default. */
  readonly retries?: RetryModel;
}

const CAUSES: readonly RetryCause[] = ["rejected", "timeout", "error"];
const RETRY_NAMES = [
  "max",
  "baseMs",
  "factor",
  "capMs",
  "jitter",
  "on",
  "retryAfter",
  "budgetRatio",
] as const;

/** A time limit, for which infinite is the same as none. */
function checkTimeLimit(name: string, value: unknown): void {
  if (value !== undefined && value !== Number.POSITIVE_INFINITY) checkSpan(name, value);
}

export function checkClientModel(path: string, clients: unknown): asserts clients is ClientModel {
  checkOptionNames(clients, ["timeoutMs", "onTimeout", "retries"], path);
  const { timeoutMs, onTimeout = "abandon", retries } = clients as ClientModel;
  checkTimeLimit(`${path}.timeoutMs`, timeoutMs);
  checkWord(`${path}.onTimeout`, onTimeout, ["abandon", "cancel-waiting", "cancel-all"]);
  if (retries !== undefined) checkRetryModel(`${path}.retries`, retries);
}

function checkRetryModel(path: string, retries: unknown): void {
  checkOptionNames(retries, RETRY_NAMES, path);
  const { max, baseMs, factor = 2, capMs, jitter = "none", on = CAUSES, ...rest } = retries as RetryModel;
  const { retryAfter = "obey", budgetRatio } = rest;
  checkWhole(`${path}.max`, max, 0);
  checkMoment(`${path}.baseMs`, baseMs);
  checkNumber(`${path}.factor`, factor, "a finite number of at least 1", (n) => n >= 1 && Number.isFinite(n));
  if (capMs !== undefined && capMs !== Number.POSITIVE_INFINITY) checkMoment(`${path}.capMs`, capMs);
  checkWord(`${path}.jitter`, jitter, ["none", "full", "equal"]);
  if (!Array.isArray(on)) throw wrongType(`${path}.on`, "an array", on);
  for (const [i, cause] of on.entries()) checkWord(`${path}.on[${i}]`, cause, CAUSES);
  checkWord(`${path}.retryAfter`, retryAfter, ["obey", "jittered", "ignore"]);
  if (budgetRatio !== undefined) {
    const allowed = "a number of at least 0";
    checkNumber(`${path}.budgetRatio`, budgetRatio, allowed, (n) => n >= 0);
  }
}

/** Retries that are allowed before the budget counts. */
const FREE_RETRIES = 10;

/** Decides who tries again, and when. */
export class Retries {
  readonly #model: Required<RetryModel>;
  readonly #random: RandomSource;
  /** The waits before the first retry, the second and so on, as far as they were needed and differ. */
  readonly #backOffs: number[];
  #made = 0;

  constructor(model: RetryModel, random: RandomSource) {
    const unbounded = Number.POSITIVE_INFINITY;
    this.#model = {
      max: model.max,
      baseMs: model.baseMs,
      factor: model.factor ?? 2,
      capMs: model.capMs ?? unbounded,
      jitter: model.jitter ?? "none",
      on: [...(model.on ?? CAUSES)],
      retryAfter: model.retryAfter ?? "obey",
      budgetRatio: model.budgetRatio ?? unbounded,
    };
    this.#random = random;
    this.#backOffs = [Math.min(this.#model.baseMs, this.#model.capMs)];
  }

  /**
   * How long to wait before the next attempt, in milliseconds; undefined when there is none.
   *
   * @param made - How many retries this client has made before.
   * @param firstAttempts - How many clients have come so far.
   */
  delay(
    cause: RetryCause,
    made: number,
    retryAfterMs: number | undefined,
    firstAttempts: number,
  ): number | undefined {
    const { max, on, retryAfter, budgetRatio } = this.#model;
    if (made >= max || !on.includes(cause)) return undefined;
    if (this.#made >= Math.max(FREE_RETRIES, budgetRatio * firstAttempts)) return undefined;
    this.#made += 1;
    if (retryAfterMs === undefined || retryAfter === "ignore") return this.#backOff(made);
    return retryAfter === "obey" ? retryAfterMs : retryAfterMs * (1 + this.#random.uniform());
  }

  #backOff(made: number): number {
    const { jitter } = this.#model;
    const delay = this.#waitBefore(made);
    if (jitter === "full") return delay * this.#random.uniform();
    return jitter === "equal" ? delay / 2 + (delay / 2) * this.#random.uniform() : delay;
  }

  /** The wait before a retry, unspread. Waits that are once alike stay so. */
  #waitBefore(made: number): number {
    const { factor, capMs } = this.#model;
    const waits = this.#backOffs;
    let last = waits.at(-1) as number;
    while (waits.length <= made) {
      const next = Math.min(last * factor, capMs);
      if (next === last) return last;
      waits.push(next);
      last = next;
    }
    return waits[made] as number;
  }
}
