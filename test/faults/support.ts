import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  type QueueOptions,
  RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import type { ManualClock } from "../support.js";

// The kinds of limiter that a reported fault is tried on.

/**
 * Makes a limiter of `limit` permits. What was taken comes back when the leases are disposed or, in limiters that replenish,
 * `periodMs` after the start (1000 by default). There is room for 100 in the queue.
 */
type Make = (limit: number, options?: QueueOptions, periodMs?: number) => RateLimiter;
export type NamedMake = readonly [name: string, make: Make];

export const concurrency = (permitLimit: number, options?: QueueOptions) =>
  new ConcurrencyLimiter({ permitLimit, queueLimit: 100, ...options });

export const fixed = (permitLimit: number, options?: QueueOptions, windowMs = 1000) =>
  new FixedWindowRateLimiter({ permitLimit, windowMs, queueLimit: 100, ...options });

export const sliding = (permitLimit: number, options?: QueueOptions, windowMs = 1000) =>
  new SlidingWindowRateLimiter({ permitLimit, windowMs, segmentsPerWindow: 4, queueLimit: 100, ...options });

const bucket =
  (refill: "stepped" | "continuous") =>
  (limit: number, options?: QueueOptions, replenishmentPeriodMs = 1000) => {
    const size = { tokenLimit: limit, tokensPerPeriod: limit, replenishmentPeriodMs, refill };
    return new TokenBucketRateLimiter({ ...size, queueLimit: 100, ...options });
  };

/** Limiters that give all their permits back at once, at the end of a period. */
export const STEPPED: readonly NamedMake[] = [
  ["a fixed window", fixed],
  ["a sliding window", sliding],
  ["a stepped bucket", bucket("stepped")],
];

export const REPLENISHING: readonly NamedMake[] = [...STEPPED, ["a continuous bucket", bucket("continuous")]];

/** The limiters themselves. */
export const LIMITERS: readonly NamedMake[] = [["a concurrency limiter", concurrency], ...REPLENISHING];

/** A limiter behind another one. */
export type Front = (limiter: RateLimiter) => RateLimiter;
export const chainOf: Front = (limiter) => RateLimiter.createChained(new NoLimiter(), limiter);
export const partitionOf: Front = (limiter) =>
  PartitionedRateLimiter.create(() => RateLimitPartition.get("key", () => limiter)).forResource("any");

/** What callers may have in their hands: a limiter, or one that stands before it. */
export const FRONTS: readonly (readonly [name: string, front: Front])[] = [
  ["by itself", (limiter) => limiter],
  ["in a chain", chainOf],
  ["as a partition", partitionOf],
];

/** The limiters, and one of each kind behind a front. */
export const ALL: readonly NamedMake[] = [
  ...LIMITERS,
  ["a chain with a concurrency limiter", (limit, options) => chainOf(concurrency(limit, options))],
  ["a chain with a fixed window", (limit, options, ms) => chainOf(fixed(limit, options, ms))],
  ["a partition with a concurrency limiter", (limit, options) => partitionOf(concurrency(limit, options))],
  ["a partition with a sliding window", (limit, options, ms) => partitionOf(sliding(limit, options, ms))],
];

/** Brings permits back, whatever kind of limiter gave them: the leases end, and a period goes by. */
export function comeBack(clock: ManualClock, ...leases: readonly RateLimitLease[]): void {
  for (const lease of leases) lease.dispose();
  clock.advance(1000);
}

/** How many of so many attempts are granted. */
export function admitted(limiter: RateLimiter, attempts: number): number {
  return Array.from({ length: attempts }, () => limiter.attemptAcquire()).filter((lease) => lease.isAcquired)
    .length;
}

/** Runs an action, and then the host's loop once round; returns the rejections that nobody handled meanwhile. */
export async function unhandledWhile(action: () => unknown): Promise<unknown[]> {
  const unhandled: unknown[] = [];
  const listener = (reason: unknown) => void unhandled.push(reason);
  process.on("unhandledRejection", listener);
  try {
    await action();
    await new Promise(setImmediate);
  } finally {
    process.off("unhandledRejection", listener);
  }
  return unhandled;
}

/** A generator of numbers from 0 to `below` - 1, the same in every run. */
export function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
}
