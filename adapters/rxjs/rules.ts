import { type AcquireOptions, type Clock, systemClock } from "headgate";
import {
  checkChoice,
  checkFunction,
  checkInteger,
  checkMethods,
  checkNumber,
  checkOptionNames,
  wrongType,
} from "../../src/internal.js";
import type {
  BufferOptions,
  LaneOptions,
  LimitConcurrencyOptions,
  OnRejected,
  Overflow,
  RetryOptions,
} from "./options.js";

/** All options of all operators; each allows some of them. */
export type AllOptions<T, R> = LimitConcurrencyOptions<T, R> & LaneOptions<T>;

const ASK = ["permitCount", "priority", "maxWaitMs", "signal", "clock", "onRejected"] as const;
export const LEASED_OPTIONS: readonly string[] = ASK;
export const RATE_LIMIT_OPTIONS: readonly string[] = [...ASK, "deadline", "buffer"];
export const RATE_LIMIT_BY_OPTIONS: readonly string[] = [...RATE_LIMIT_OPTIONS, "lane"];
export const LIMIT_CONCURRENCY_OPTIONS: readonly string[] = [...RATE_LIMIT_OPTIONS, "order", "admission"];
export const LIMIT_CONCURRENCY_BY_OPTIONS: readonly string[] = [...LIMIT_CONCURRENCY_OPTIONS, "lane"];
export const LIMITED_FROM_OPTIONS: readonly string[] = [...ASK, "deadline", "order", "acquireFirst"];

export const OVERFLOW_CHOICES: readonly string[] = ["error", "dropNewest", "dropOldest"];

const NO_OPTIONS: AcquireOptions = Object.freeze({});

type PerValue<T, V> = V | ((value: T, index: number) => V);

/** How a value is retried; every number is there. */
export interface RetryPlan {
  readonly fallbackDelayMs: number;
  readonly maxDelayMs: number;
  readonly jitter: number;
  readonly maxAttempts: number;
  readonly random: () => number;
}

function checkPerValue(
  name: string,
  value: unknown,
  allowed: string,
  fits: (value: number) => boolean,
): void {
  if (value === undefined || typeof value === "function") return;
  checkNumber(`options.${name}`, value, `${allowed}, or a function`, fits);
}

function retryPlan(options: RetryOptions): RetryPlan {
  const name = "options.onRejected";
  checkOptionNames(options, ["fallbackDelayMs", "maxDelayMs", "jitter", "maxAttempts", "random"], name);
  const { fallbackDelayMs = 50, maxDelayMs = 30_000, jitter = 0.1, random = Math.random } = options;
  const { maxAttempts = Number.POSITIVE_INFINITY } = options;
  const isDelay = (ms: number): boolean => ms > 0 && ms < 2 ** 31;
  const delay = "a number of milliseconds above 0 and below 2^31";
  checkNumber(`${name}.fallbackDelayMs`, fallbackDelayMs, delay, isDelay);
  checkNumber(`${name}.maxDelayMs`, maxDelayMs, delay, isDelay);
  checkNumber(`${name}.jitter`, jitter, "a number from 0 to 1", (n) => n >= 0 && n <= 1);
  const isCount = (n: number): boolean => n >= 1 && (Number.isInteger(n) || n === Number.POSITIVE_INFINITY);
  checkNumber(`${name}.maxAttempts`, maxAttempts, "an integer of at least 1, or Infinity", isCount);
  checkFunction(`${name}.random`, random);
  return { fallbackDelayMs, maxDelayMs, jitter, maxAttempts, random };
}

/** The options of an operator, checked and with defaults. Made when the operator is, and shared by its subscriptions. */
export class Rules<T, R> {
  readonly #permitCount: PerValue<T, number>;
  readonly #priority: PerValue<T, number> | undefined;
  readonly #maxWaitMs: PerValue<T, number | undefined> | undefined;
  readonly #deadline: ((value: T, index: number) => number | undefined) | undefined;
  readonly #clock: Clock | undefined;
  readonly signal: AbortSignal | undefined;
  readonly bufferSize: number;
  readonly overflow: Overflow<T>;
  readonly onRejected: OnRejected<T, R>;
  /** How to try again, by default or by `onRejected`. */
  readonly retry: RetryPlan;
  readonly isConcat: boolean;
  readonly isEager: boolean;
  readonly lane: LaneOptions<T>["lane"];

  constructor(options: AllOptions<T, R>, names: readonly string[], buffer?: BufferOptions<T>) {
    checkOptionNames(options, names);
    const { permitCount = 1, priority, maxWaitMs, deadline, signal, clock } = options;
    const { order = "merge", admission = "head", onRejected = "error", lane } = options;
    if (typeof permitCount !== "function") checkInteger("options.permitCount", permitCount, 0);
    checkPerValue("priority", priority, "a safe integer", Number.isSafeInteger);
    checkPerValue("maxWaitMs", maxWaitMs, "a finite number of milliseconds", Number.isFinite);
    if (deadline !== undefined) checkFunction("options.deadline", deadline);
    if (signal !== undefined)
      checkMethods("options.signal", signal, ["addEventListener", "removeEventListener"]);
    if (clock !== undefined) checkMethods("options.clock", clock, ["now", "setTimer"]);
    checkChoice("options.order", order, ["merge", "concat"]);
    checkChoice("options.admission", admission, ["head", "eager"]);
    if (order === "concat" && admission === "eager") {
      throw new TypeError(
        'options.admission must be "head" with options.order "concat": one value at a time asks.',
      );
    }
    if (lane !== undefined && lane !== false && typeof lane !== "function") {
      throw wrongType("options.lane", "a function or false", lane);
    }
    const { size = 1024, overflow = "error" } = checkBuffer(buffer ?? options.buffer ?? {});
    this.#permitCount = permitCount;
    this.#priority = priority;
    this.#maxWaitMs = maxWaitMs;
    this.#deadline = deadline;
    this.#clock = clock;
    this.signal = signal;
    this.bufferSize = size;
    this.overflow = overflow;
    this.onRejected = onRejected;
    this.retry = retryPlan(checkOnRejected(onRejected) ?? {});
    this.isConcat = order === "concat";
    this.isEager = admission === "eager";
    this.lane = lane;
  }

  /** Whether a limiter's queue has something to do beyond the operator's own. */
  get needsQueue(): boolean {
    return this.isEager || this.#maxWaitMs !== undefined || this.#deadline !== undefined;
  }

  /** Whether lanes are made of the keys of partitions. */
  get needsKeys(): boolean {
    return this.lane === undefined && !this.isConcat && !this.isEager;
  }

  clockOf(limiterClock: Clock | undefined): Clock {
    return this.#clock ?? limiterClock ?? systemClock;
  }

  permitCountOf(value: T, index: number): number {
    if (typeof this.#permitCount === "number") return this.#permitCount;
    const permitCount = this.#permitCount(value, index);
    if (!(Number.isSafeInteger(permitCount) && permitCount >= 0)) {
      throw new RangeError(`options.permitCount() must return an integer of at least 0; got ${permitCount}.`);
    }
    return permitCount;
  }

  acquireOptionsOf(value: T, index: number, clock: Clock): AcquireOptions {
    if (this.#priority === undefined && this.#maxWaitMs === undefined && this.#deadline === undefined)
      return NO_OPTIONS;
    const priority = resolve(this.#priority, value, index);
    let maxWaitMs = resolve(this.#maxWaitMs, value, index);
    if (maxWaitMs !== undefined)
      checkNumber("options.maxWaitMs()", maxWaitMs, "a finite number", Number.isFinite);
    const deadline = this.#deadline?.(value, index);
    if (deadline !== undefined) {
      checkNumber("options.deadline()", deadline, "a finite number", Number.isFinite);
      maxWaitMs = Math.min(maxWaitMs ?? Number.POSITIVE_INFINITY, deadline - clock.now());
    }
    return { priority, maxWaitMs };
  }

  /** Refuses options that depend on the value, for an operator that asks before there is one. */
  checkValueless(): void {
    const perValue = [
      ["permitCount", this.#permitCount],
      ["priority", this.#priority],
      ["maxWaitMs", this.#maxWaitMs],
      ["deadline", this.#deadline],
    ] as const;
    for (const [name, value] of perValue) {
      if (typeof value !== "function") continue;
      throw new TypeError(
        `options.${name} must not be a function with options.acquireFirst: there is no value yet.`,
      );
    }
    if (typeof this.onRejected === "function" || this.onRejected === "drop") {
      throw new TypeError(
        'options.onRejected must be "error", "retryAfter" or an object with options.acquireFirst.',
      );
    }
  }
}

function resolve<T, V>(option: PerValue<T, V> | undefined, value: T, index: number): V | undefined {
  return typeof option === "function" ? (option as (value: T, index: number) => V)(value, index) : option;
}

function checkBuffer<T>(buffer: BufferOptions<T>): BufferOptions<T> {
  checkOptionNames(buffer, ["size", "overflow"], "options.buffer");
  const { size = 0, overflow } = buffer;
  const isSize = (n: number): boolean => n >= 0 && (Number.isInteger(n) || n === Number.POSITIVE_INFINITY);
  checkNumber("options.buffer.size", size, "an integer of at least 0, or Infinity", isSize);
  if (overflow !== undefined && typeof overflow !== "function")
    checkChoice("options.buffer.overflow", overflow, OVERFLOW_CHOICES);
  return buffer;
}

/** The numbers of a retry, where `onRejected` brings some. */
function checkOnRejected(onRejected: OnRejected<never, unknown>): RetryOptions | undefined {
  if (typeof onRejected === "function") return undefined;
  if (typeof onRejected === "object" && onRejected !== null) return onRejected;
  checkChoice("options.onRejected", onRejected, ["error", "drop", "retryAfter"]);
  return undefined;
}
