import type {
  FixedWindowRateLimiter,
  RateLimiter,
  RateLimitLease,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { expect } from "vitest";
import { flush, type ManualClock, type Watched, watch } from "../support.js";

// What the tests of limiters whose permits come back with time have in common.

export type Replenishing = FixedWindowRateLimiter | SlidingWindowRateLimiter | TokenBucketRateLimiter;

export const ask = (limiter: RateLimiter, permitCount = 1, signal?: AbortSignal): Watched<RateLimitLease> =>
  watch(limiter.acquire(permitCount, { signal }));

/** What has become of requests: "+" granted, "-" refused, "x" rejected, "." still waiting. */
export async function fates(...requests: Watched<RateLimitLease>[]): Promise<string> {
  await flush();
  let signs = "";
  for (const request of requests) {
    if (request.state === "fulfilled") signs += request.value.isAcquired ? "+" : "-";
    else signs += request.state === "pending" ? "." : "x";
  }
  return signs;
}

/** Available, queued, failed and successful, as "1/0/0/0". */
export function numbers(limiter: RateLimiter): string {
  const { currentAvailablePermits, currentQueuedCount, totalFailedLeases, totalSuccessfulLeases } =
    limiter.getStatistics() as NonNullable<ReturnType<RateLimiter["getStatistics"]>>;
  return `${currentAvailablePermits}/${currentQueuedCount}/${totalFailedLeases}/${totalSuccessfulLeases}`;
}

export const available = (limiter: RateLimiter): number | undefined =>
  limiter.getStatistics()?.currentAvailablePermits;

/** Calls `tryReplenish` so many times, each `ms` after the one before. */
export function replenish(limiter: Replenishing, clock: ManualClock, times = 1, ms = 1): void {
  for (let i = 0; i < times; i++) {
    clock.advance(ms);
    expect(limiter.tryReplenish()).toBe(true);
  }
}

/** Asks for 2 permits and then for 1, and aborts the first request; returns the second, which still waits. */
export async function waitBehindAnAborted(limiter: RateLimiter): Promise<Watched<RateLimitLease>> {
  const caller = new AbortController();
  const large = ask(limiter, 2, caller.signal);
  caller.abort();
  const small = ask(limiter, 1);
  expect(await fates(large, small)).toBe("x.");
  return small;
}
