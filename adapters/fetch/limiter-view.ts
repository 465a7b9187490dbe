import { type Clock, RateLimiter } from "headgate";
import { type InsideLimiter, inside, insidePartitions, type LimiterSnapshot } from "../../src/internal.js";

/** A limiter of one partition or of all calls, with what it may be able to do besides. */
export type Pausable = RateLimiter & { pause?(durationMs: number): void };

const NO_SNAPSHOT: LimiterSnapshot = {
  kind: "",
  permitLimit: 0,
  available: 0,
  queueLimit: 0,
  queuedPermits: 0,
  queuedRequests: 0,
  granted: 0,
  refused: 0,
  aborted: 0,
  isPaused: false,
  isDisposed: false,
};

/** The clock that a limiter lives by, where that is known. */
export function clockOf(limiter: InsideLimiter | object): Clock | undefined {
  if (limiter instanceof RateLimiter) return (limiter as InsideLimiter)[inside]?.clock;
  return (limiter as { readonly [insidePartitions]?: { readonly clock?: Clock } })[insidePartitions]?.clock;
}

/** Whether a limiter is in a pause; false where that is not known. */
export function isPaused(limiter: InsideLimiter): boolean {
  const snapshot = { ...NO_SNAPSHOT };
  return limiter[inside]?.snapshot(snapshot) === true && snapshot.isPaused;
}
