import type { AcquireOptions, RateLimiter, RateLimitLease } from "headgate";
import { CountingController, ManualClock } from "../support.js";

/** Fixed, so that a run is repeatable; another one for a longer hunt. */
export const SEED: number = Number(process.env["HEADGATE_SEED"] ?? 20_260_601);

/** How much longer than usual to look: HEADGATE_EFFORT=10 looks ten times as long. */
export const EFFORT: number = Number(process.env["HEADGATE_EFFORT"] ?? 1);

/** A small, fast, seeded generator (sfc32). */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: number) {
    this.#a = seed | 0;
    this.#b = (seed / 2 ** 32) | 0;
    this.#c = 0x9e3779b9;
    for (let i = 0; i < 15; i++) this.bits();
  }

  /** 32 random bits, as an integer of at least 0. */
  bits(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return sum >>> 0;
  }

  /** From 0 up to, but not including, 1; with 53 bits. */
  fraction(): number {
    return ((this.bits() >>> 5) * 2 ** 26 + (this.bits() >>> 6)) / 2 ** 53;
  }

  /** An integer from 0 up to, but not including, `end`. */
  below(end: number): number {
    return end <= 2 ** 32 ? this.bits() % end : Math.floor(this.fraction() * end);
  }

  /** An integer from `min` to `max`, all magnitudes as likely as one another. */
  magnitude(min: number, max: number): number {
    const value = Math.floor(min * (max / min) ** this.fraction());
    return Math.min(max, Math.max(min, value));
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }

  chance(probability: number): boolean {
    return this.bits() < probability * 2 ** 32;
  }
}

/** Lets the reactions run of promises that have been settled: one for the promise itself, one for good measure. */
export async function settle(): Promise<void> {
  await null;
  await null;
}

/** One `acquire` as its caller sees it. */
export class Call {
  readonly permits: number;
  readonly controller: CountingController | undefined;
  readonly deadline: number | undefined;
  lease: RateLimitLease | undefined;
  /** "pending", "granted", the reason of a refusal, "aborted", or the name of an error. */
  outcome = "pending";
  settled = 0;
  reason: unknown;

  constructor(
    limiter: RateLimiter,
    permits: number,
    options: { controller?: CountingController | undefined; maxWaitMs?: number | undefined; now: number },
  ) {
    const { controller, maxWaitMs, now } = options;
    this.permits = permits;
    this.controller = controller;
    this.deadline = maxWaitMs === undefined ? undefined : now + maxWaitMs;
    const acquireOptions: AcquireOptions | undefined =
      controller === undefined && maxWaitMs === undefined
        ? undefined
        : { signal: controller?.signal, maxWaitMs };
    limiter.acquire(permits, acquireOptions).then(
      (lease) => {
        this.settled += 1;
        this.lease = lease;
        this.outcome = lease.isAcquired ? "granted" : String(lease.reason);
      },
      (error: unknown) => {
        this.settled += 1;
        this.reason = error;
        const isAbort = controller?.signal.aborted === true && error === controller.signal.reason;
        this.outcome = isAbort ? "aborted" : (error as Error).name;
      },
    );
  }
}

export { CountingController, ManualClock };
