import { Effect } from "effect";
import { layerStoreMemory, make as makeEffectLimiter } from "effect/persistence/RateLimiter";
import { MemoryStore } from "express-rate-limit";
import { FixedWindowRateLimiter, SlidingWindowRateLimiter, TokenBucketRateLimiter } from "headgate";
import { TokenBucket, RateLimiter as WindowOfLimiter } from "limiter";
import pThrottle from "p-throttle";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { visibleSlots } from "../harness.mjs";
import { kinds } from "../kinds.mjs";

const MANY = 1_000_000;
const FEW = 100_000;
const PAIRS = 60;
const DAY = 86_400_000;
/** More than all samples of a row take, so that granting never stops. */
const PLENTY = 1_000_000_000;
/** What comes back each second, where something does. */
const RATE = 1_000_000;
const WINDOW_MS = 60_000;

// ---- limiters; one each for all samples, as in an application

const window = new FixedWindowRateLimiter({ permitLimit: PLENTY, windowMs: WINDOW_MS });
const sliding = new SlidingWindowRateLimiter({
  permitLimit: PLENTY,
  windowMs: WINDOW_MS,
  segmentsPerWindow: 10,
});
const rate = { tokenLimit: PLENTY, tokensPerPeriod: RATE, replenishmentPeriodMs: 1000 };
const stepped = new TokenBucketRateLimiter(rate);
const continuous = new TokenBucketRateLimiter({ ...rate, refill: "continuous" });

const bucketOfLimiter = new TokenBucket({ bucketSize: PLENTY, tokensPerInterval: RATE, interval: 1000 });
// It starts empty; this is how the package's own RateLimiter fills it.
bucketOfLimiter.content = PLENTY;
const windowOfLimiter = new WindowOfLimiter({ tokensPerInterval: PLENTY, interval: WINDOW_MS });

const flexible = new RateLimiterMemory({ points: PLENTY, duration: WINDOW_MS / 1000 });
const store = new MemoryStore();
store.init({ windowMs: WINDOW_MS });
const throttled = pThrottle({ limit: PLENTY, interval: WINDOW_MS })(() => true);
const effectLimiter = Effect.runSync(makeEffectLimiter.pipe(Effect.provide(layerStoreMemory)));
// What an effect does is described once and run many times; the description is not part of the measurement.
const effectOf = (algorithm, window) =>
  effectLimiter.consume({ key: algorithm, algorithm, limit: PLENTY, window, onExceeded: "fail" });
const effectWindow = effectOf("fixed-window", WINDOW_MS);
const effectBucket = effectOf("token-bucket", (PLENTY / RATE) * 1000);

// ---- granted; the same loop several times, since a call site of its own is what a caller has

function attemptWindow(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

/** For the row where our own fixed window is the peer; the call site is the same kind of place as that of the others. */
function attemptWindowAsPeer(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

function attemptSliding(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

function attemptStepped(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

function attemptContinuous(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

function attemptAnyKind(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

const anyKind = (limiter) => ({
  label: "headgate, call site of all kinds",
  prepare: () => {
    for (const make of kinds) attemptAnyKind(1000, make());
    return limiter;
  },
  run: attemptAnyKind,
});

function removeFromBucket(n, bucket) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = bucket.tryRemoveTokens(1);
    if (slots[i & 3]) granted += 1;
  }
  return granted;
}

function removeFromWindow(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.tryRemoveTokens(1);
    if (slots[i & 3]) granted += 1;
  }
  return granted;
}

function runEffect(n, effect) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = Effect.runSync(effect);
    if (slots[i & 3].remaining >= 0) granted += 1;
  }
  return granted;
}

async function consumeFlexible(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = await limiter.consume("key");
    if (slots[i & 3].remainingPoints >= 0) granted += 1;
  }
  return granted;
}

async function incrementStore(n, memory) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = await memory.increment("key");
    if (slots[i & 3].totalHits <= PLENTY) granted += 1;
  }
  return granted;
}

async function callThrottled(n, run) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = await run();
    if (slots[i & 3]) granted += 1;
  }
  return granted;
}

// ---- refused, in the place where most has to be looked at: everything was taken in the first segment

function exhausted(limiter) {
  for (let lease = limiter.attemptAcquire(); lease.isAcquired; lease = limiter.attemptAcquire())
    lease.dispose();
  return limiter;
}

const slow = { tokenLimit: 10, tokensPerPeriod: 1, replenishmentPeriodMs: DAY };
const noWindow = exhausted(new FixedWindowRateLimiter({ permitLimit: 10, windowMs: DAY }));
const noSliding = exhausted(
  new SlidingWindowRateLimiter({ permitLimit: 10, windowMs: 10 * DAY, segmentsPerWindow: 10 }),
);
const noStepped = exhausted(new TokenBucketRateLimiter(slow));
const noContinuous = exhausted(new TokenBucketRateLimiter({ ...slow, refill: "continuous" }));
/** Of the package limiter; it starts empty. */
const noBucketOfLimiter = new TokenBucket({ bucketSize: 10, tokensPerInterval: 1, interval: DAY });

function refuseWindow(n, limiter) {
  const slots = visibleSlots();
  let refused = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    if (!slots[i & 3].isAcquired) refused += 1;
  }
  return refused;
}

function refuseSliding(n, limiter) {
  const slots = visibleSlots();
  let refused = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    if (!slots[i & 3].isAcquired) refused += 1;
  }
  return refused;
}

function refuseStepped(n, limiter) {
  const slots = visibleSlots();
  let refused = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    if (!slots[i & 3].isAcquired) refused += 1;
  }
  return refused;
}

function refuseContinuous(n, limiter) {
  const slots = visibleSlots();
  let refused = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    if (!slots[i & 3].isAcquired) refused += 1;
  }
  return refused;
}

/** The caller asks why, and when to come back. */
function refuseAndRead(n, limiter) {
  const slots = visibleSlots();
  let refused = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (!lease.isAcquired && lease.reason === "limit_reached" && lease.retryAfterMs > 0) refused += 1;
  }
  return refused;
}

const alsoRead = (limiter) => ({
  label: "headgate, reason and retryAfterMs read",
  prepare: () => {
    for (const one of [noWindow, noSliding, noStepped, noContinuous]) refuseAndRead(1000, one);
    return limiter;
  },
  run: refuseAndRead,
});

function readClock(n) {
  let done = 0;
  for (let i = 0; i < n; i++) if (performance.now() > 0) done += 1;
  return done;
}

function refuseOfLimiter(n, bucket) {
  let refused = 0;
  for (let i = 0; i < n; i++) if (!bucket.tryRemoveTokens(1)) refused += 1;
  return refused;
}

function refuseOfLimiterAndRead(n, bucket) {
  let refused = 0;
  for (let i = 0; i < n; i++) if (!bucket.tryRemoveTokens(1) && bucket.getWaitTime(1) > 0) refused += 1;
  return refused;
}

const refusedRow = (name, limiter, run, beside = []) => ({
  name: `refused attempt, ${name}`,
  target: { ratio: 1.15, overNs: 10 },
  n: MANY,
  pairs: PAIRS,
  bytesN: 4000,
  ours: { label: "headgate", prepare: () => limiter, run },
  peer: { label: "one performance.now()", run: readClock },
  beside: [alsoRead(limiter), ...beside],
});

const grantedRow = (name, ratio, limiter, run, peer, beside) => ({
  name: `granted attempt, ${name}`,
  target: { ratio },
  n: MANY,
  pairs: PAIRS,
  bytesN: 4000,
  ours: { label: "headgate", prepare: () => limiter, run },
  peer,
  beside: [anyKind(limiter), ...beside],
});

const bucketPeer = {
  label: "limiter, TokenBucket.tryRemoveTokens",
  prepare: () => bucketOfLimiter,
  run: removeFromBucket,
};
const clockRead = { label: "one performance.now()", run: readClock };

export const cases = [
  grantedRow("token bucket, stepped", 1, stepped, attemptStepped, bucketPeer, [
    { label: "effect, runSync(consume)", prepare: () => effectBucket, run: runEffect, n: FEW, bytesN: 1000 },
    clockRead,
  ]),
  grantedRow("token bucket, continuous", 1, continuous, attemptContinuous, bucketPeer, []),
  grantedRow(
    "fixed window",
    0.6,
    window,
    attemptWindow,
    {
      label: "limiter, RateLimiter.tryRemoveTokens",
      prepare: () => windowOfLimiter,
      run: removeFromWindow,
    },
    [
      {
        label: "express-rate-limit store, await",
        prepare: () => store,
        run: incrementStore,
        n: FEW,
        bytesN: 1000,
      },
      {
        label: "p-throttle, await run(fn)",
        prepare: () => throttled,
        run: callThrottled,
        n: FEW,
        bytesN: 1000,
      },
      {
        label: "rate-limiter-flexible, await",
        prepare: () => flexible,
        run: consumeFlexible,
        n: FEW,
        bytesN: 1000,
      },
      {
        label: "effect, runSync(consume)",
        prepare: () => effectWindow,
        run: runEffect,
        n: FEW,
        bytesN: 1000,
      },
      clockRead,
    ],
  ),
  grantedRow(
    "sliding window, 10 segments",
    1.2,
    sliding,
    attemptSliding,
    { label: "headgate, fixed window", prepare: () => window, run: attemptWindowAsPeer },
    [],
  ),
  refusedRow("fixed window", noWindow, refuseWindow),
  refusedRow("sliding window, 10 segments", noSliding, refuseSliding),
  refusedRow("token bucket, stepped", noStepped, refuseStepped),
  refusedRow("token bucket, continuous", noContinuous, refuseContinuous, [
    { label: "limiter, tryRemoveTokens", prepare: () => noBucketOfLimiter, run: refuseOfLimiter },
    {
      label: "limiter, tryRemoveTokens and getWaitTime",
      prepare: () => noBucketOfLimiter,
      run: refuseOfLimiterAndRead,
    },
  ]),
];
