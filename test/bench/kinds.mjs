// Every kind of limiter, so that the measured code has seen them all: a number must not be the product of one lucky call
// site. A new limiter is one more line in `kinds`.
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  RateLimiter,
  RateLimitLease,
  SlidingWindowRateLimiter,
  shadowed,
  TokenBucketRateLimiter,
} from "headgate";
import { AdaptiveConcurrencyLimiter, FixedLimit } from "headgate/adaptive";

class OwnLease extends RateLimitLease {
  #limiter;
  #acquired;

  constructor(limiter, acquired) {
    super();
    this.#limiter = limiter;
    this.#acquired = acquired;
  }

  get isAcquired() {
    return this.#acquired;
  }

  get metadataNames() {
    return [];
  }

  tryGetMetadataCore() {
    return undefined;
  }

  dispose() {
    if (this.#limiter === undefined) return;
    if (this.#acquired) this.#limiter.free += 1;
    this.#limiter = undefined;
  }
}

/** What a user would write. */
class OwnLimiter extends RateLimiter {
  free = 2;

  get idleDurationMs() {
    return undefined;
  }

  getStatistics() {
    return undefined;
  }

  attemptAcquireCore(permitCount) {
    if (this.free < permitCount) return new OwnLease(undefined, false);
    this.free -= permitCount;
    return new OwnLease(this, true);
  }

  acquireCore(permitCount) {
    return this.attemptAcquireCore(permitCount);
  }
}

const oldestFirst = () => new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 4 });
const newestFirst = () =>
  new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 4, queueProcessingOrder: "newestFirst" });

// Attempts are granted and refused in turn, and permits come back between many of them: the rare branch stays rare, as it
// is for callers. (With periods of a microsecond, V8 spends its inlining budget on the boundaries.)
const queue = { queueLimit: 4 };
const window = () => new FixedWindowRateLimiter({ permitLimit: 2000, windowMs: 1, ...queue });
const bucket = { tokenLimit: 2000, tokensPerPeriod: 2000, replenishmentPeriodMs: 1, ...queue };

/** Each makes a limiter that grants at least one permit. */
export const kinds = [
  oldestFirst,
  newestFirst,
  window,
  () => new SlidingWindowRateLimiter({ permitLimit: 2000, windowMs: 1, segmentsPerWindow: 10, ...queue }),
  () => new TokenBucketRateLimiter(bucket),
  () => new TokenBucketRateLimiter({ ...bucket, refill: "continuous" }),
  () => new AdaptiveConcurrencyLimiter({ limit: new FixedLimit(2), queueLimit: 4 }),
  () => new NoLimiter(),
  () => RateLimiter.createChained(oldestFirst(), newestFirst()),
  () => RateLimiter.createChained(window(), oldestFirst()),
  () => shadowed(oldestFirst()),
  () => new OwnLimiter(),
];

/** All that a caller can do, `rounds` times with each kind. */
export async function warmKinds(rounds = 20_000) {
  let granted = 0;
  for (const make of kinds) {
    const limiter = make();
    for (let i = 0; i < rounds; i++) granted += useSync(limiter);
    for (let i = 0; i < rounds / 10; i++) granted += await useAsync(limiter);
  }
  return granted;
}

function useSync(limiter) {
  const leases = [limiter.attemptAcquire(), limiter.attemptAcquire(), limiter.attemptAcquire()];
  let granted = 0;
  for (const lease of leases) if (lease.isAcquired && lease.reason === undefined) granted += 1;
  for (const lease of leases) lease.dispose();
  return granted;
}

async function useAsync(limiter) {
  const controller = new AbortController();
  const held = await Promise.all([limiter.acquire(), limiter.acquire()]);
  const leaving = limiter.acquire(1, { signal: controller.signal }).then(
    (lease) => lease.dispose(),
    () => undefined,
  );
  const waiting = limiter.acquire({ maxWaitMs: 10_000 });
  controller.abort();
  await leaving;
  for (const lease of held) lease.dispose();
  const last = await waiting;
  last.dispose();
  return held.length + Number(last.isAcquired);
}
