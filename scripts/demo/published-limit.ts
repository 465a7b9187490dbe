import { setTimeout as sleep } from "node:timers/promises";
import {
  FixedWindowRateLimiter,
  NoLimiter,
  type RateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describePublishedLimit, type PublishedLimitRuns } from "./published-limit-text.js";
import type { Section } from "./section.js";
import { ServerProcess } from "./server-process.js";
import { StallWatch } from "./stall-watch.js";
import { undisturbed } from "./undisturbed.js";
import type { PublishedLimit, VendorReport } from "./vendor.js";
import { askOnce, askUntilDone, type VendorCall } from "./vendor-client.js";
import { makeCalls, type VendorRun } from "./vendor-run.js";

const published: PublishedLimit = { requests: 20, windowMs: 500 };
// Requests that are sent far enough apart may arrive closer together, when one is held up on its way.
const marginMs = 150;
const safeMs = published.windowMs + marginMs;
const calls = 80;
const retriedCalls = 60;
const segmentMs = 50;
const segments = safeMs / segmentMs + 1;
const burst = 2;

/** A vendor's published rate limit: without a limiter, with each kind of them, and with one that is set too high. */
export async function publishedLimit(): Promise<Section> {
  const runs = await undisturbed(runAll, refusedInStall);
  return {
    text: describePublishedLimit({ published, marginMs, segmentMs }, runs),
    problems: problemsOf(runs),
  };
}

async function runAll(): Promise<PublishedLimitRuns> {
  using vendor = await ServerProcess.start<VendorReport>("vendor.js", published);
  using none = new NoLimiter();
  using fixed = new FixedWindowRateLimiter({
    permitLimit: published.requests / 2,
    windowMs: safeMs,
    queueLimit: calls,
  });
  using sliding = new SlidingWindowRateLimiter({
    permitLimit: published.requests,
    windowMs: segments * segmentMs,
    segmentsPerWindow: segments,
    queueLimit: calls,
  });
  using bucket = new TokenBucketRateLimiter({
    tokenLimit: burst,
    tokensPerPeriod: published.requests - burst,
    replenishmentPeriodMs: safeMs,
    refill: "continuous",
    queueLimit: calls,
  });
  using tooHigh = tooHighLimiter();
  using pausing = tooHighLimiter();

  const once = (name: string, limiter: RateLimiter): ReturnType<typeof makeCalls> =>
    makeCalls(name, calls, (account) => askOnce(limiter, vendor.url, account));
  const untilDone = (
    name: string,
    limiter: RateLimiter,
    backOff: (retryAfterMs: number) => Promise<void> | void,
  ): ReturnType<typeof makeCalls> =>
    makeCalls(
      name,
      retriedCalls,
      (account): Promise<VendorCall> => askUntilDone(limiter, vendor.url, account, backOff),
    );

  const bare = await once("no limiter", none);
  using stalls = new StallWatch();
  // Each has an account of its own, so they do not count against one another and may run side by side.
  const [inFixed, inSliding, inBucket, alone, shared] = await Promise.all([
    once(`fixed window: ${fixed.getStatistics().currentAvailablePermits} per ${safeMs} ms`, fixed),
    once(`sliding window: ${published.requests} per ${segments * segmentMs} ms`, sliding),
    once(`token bucket: ${burst}, and ${published.requests - burst} per ${safeMs} ms`, bucket),
    untilDone("each waits as it was told", tooHigh, (ms) => sleep(ms)),
    untilDone("limiter.pause(as it was told)", pausing, (ms) => pausing.pause(ms)),
  ]);
  const { peaks, stallMs } = await vendor.report();
  const withPeak = (run: Omit<VendorRun, "peak">): VendorRun => ({ ...run, peak: peaks[run.name] ?? 0 });
  return {
    bare: withPeak(bare),
    limited: [inFixed, inSliding, inBucket].map(withPeak),
    alone: withPeak(alone),
    shared: withPeak(shared),
    stallMs: Math.max(stallMs, stalls.longestMs),
  };
}

/** Four times what the vendor allows. */
function tooHighLimiter(): TokenBucketRateLimiter {
  return new TokenBucketRateLimiter({
    tokenLimit: burst,
    tokensPerPeriod: 4 * published.requests,
    replenishmentPeriodMs: published.windowMs,
    refill: "continuous",
    queueLimit: retriedCalls,
  });
}

/** What went wrong while a process stood still, if anything. */
function refusedInStall(runs: PublishedLimitRuns): string | undefined {
  if (runs.stallMs < marginMs / 4 || problemsOf(runs).length === 0) return undefined;
  return `${problemsOf(runs)[0]} This machine stood still for ${runs.stallMs.toFixed(0)} ms meanwhile`;
}

function problemsOf({ bare, limited, alone, shared }: PublishedLimitRuns): string[] {
  const problems: string[] = [];
  if (bare.refused === 0) problems.push(`${bare.name}: no 429, so the calls were not above the limit.`);
  for (const { name, answered, refused } of limited) {
    if (answered < calls)
      problems.push(`${name}: ${answered} of ${calls} were answered, ${refused} got a 429.`);
  }
  for (const { name, answered } of [alone, shared]) {
    if (answered < retriedCalls) problems.push(`${name}: ${answered} of ${retriedCalls} were answered.`);
  }
  if (shared.refused > alone.refused / 3) {
    problems.push(`${shared.name}: ${shared.refused} got a 429, and ${alone.refused} without it.`);
  }
  return problems;
}
