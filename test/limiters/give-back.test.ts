import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  RateLimiter,
  type RateLimitLease,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";

const hour = 3_600_000;
const clock = new ManualClock();

/** A limiter of each kind, of which nothing comes back by itself while a test lasts. */
const kinds: readonly [name: string, make: (permits: number) => RateLimiter][] = [
  ["ConcurrencyLimiter", (permitLimit) => new ConcurrencyLimiter({ permitLimit, queueLimit: 9, clock })],
  [
    "FixedWindowRateLimiter",
    (permitLimit) => new FixedWindowRateLimiter({ permitLimit, windowMs: hour, queueLimit: 9, clock }),
  ],
  [
    "SlidingWindowRateLimiter",
    (permitLimit) =>
      new SlidingWindowRateLimiter({
        permitLimit,
        windowMs: hour,
        segmentsPerWindow: 2,
        queueLimit: 9,
        clock,
      }),
  ],
  [
    "TokenBucketRateLimiter",
    (tokenLimit) =>
      new TokenBucketRateLimiter({
        tokenLimit,
        tokensPerPeriod: 1,
        replenishmentPeriodMs: hour,
        queueLimit: 9,
        clock,
      }),
  ],
];

/** A signal that counts how often somebody looks whether it is aborted. */
class WatchedSignal extends AbortController {
  looks = 0;

  constructor() {
    super();
    const { signal } = this;
    Object.defineProperty(signal, "aborted", {
      get: () => {
        this.looks += 1;
        return false;
      },
    });
  }
}

const standing = (limiter: RateLimiter) => {
  const statistics = limiter.getStatistics();
  return [statistics?.currentAvailablePermits, statistics?.currentQueuedCount];
};

/** A chain of 2 permits to hold and another limiter; one of them is taken besides, when the chain has one. */
function chained(make: (permits: number) => RateLimiter, permits: number) {
  const held = new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 9, clock });
  const other = make(permits);
  return { held, other, chain: RateLimiter.createChained(held, other) };
}

/** Lets somebody wait for both permits; whoever puts one back looks at the head of the queue, which does not fit. */
function waitForBoth(held: ConcurrencyLimiter) {
  held.attemptAcquire();
  const caller = new WatchedSignal();
  const waiting = watch(held.acquire(2, { signal: caller.signal }));
  expect(standing(held)).toEqual([0, 2]);
  caller.looks = 0;
  return { caller, waiting };
}

describe.each(kinds)("a chain that ends with a %s", (_, make) => {
  it.each<[string, (lease: RateLimitLease) => void]>([
    ["refunded", (lease) => lease.refund()],
    ["disposed", (lease) => lease.dispose()],
    [
      "refunded and disposed, twice",
      (lease) => {
        for (let i = 0; i < 2; i++) {
          lease.refund();
          lease.dispose();
        }
      },
    ],
  ])("serves who waits for the permit once when its lease is %s", async (_how, end) => {
    const { held, chain } = chained(make, 1);
    const lease = chain.attemptAcquire();
    expect(lease.isAcquired).toBe(true);
    const { caller, waiting } = waitForBoth(held);
    end(lease);
    expect([caller.looks, standing(held)]).toEqual([1, [1, 2]]);
    await flush();
    expect(waiting.state).toBe("pending");
  });

  it("serves who waits for the permit once when the caller leaves the other limiter's queue", async () => {
    const { held, other, chain } = chained(make, 1);
    other.attemptAcquire();
    const leaver = new AbortController();
    const leaving = watch(chain.acquire({ signal: leaver.signal }));
    expect([standing(held), standing(other)]).toEqual([
      [1, 0],
      [0, 1],
    ]);
    const { caller, waiting } = waitForBoth(held);
    leaver.abort();
    expect([caller.looks, standing(held), standing(other)]).toEqual([1, [1, 2], [0, 0]]);
    await flush();
    expect([leaving.state, waiting.state]).toEqual(["rejected", "pending"]);
  });

  it("serves who waits for the permit once when the other limiter refuses late", async () => {
    const { held, other, chain } = chained(make, 1);
    other.attemptAcquire();
    const refused = watch(chain.acquire());
    const { caller } = waitForBoth(held);
    other.dispose();
    expect([caller.looks, standing(held)]).toEqual([1, [1, 2]]);
    await flush();
    expect([refused.value.isAcquired, refused.value.reason]).toEqual([false, "limiter_disposed"]);
  });

  it("hands the permit to the first who waits, and to nobody else", async () => {
    const { held, other, chain } = chained(make, 1);
    other.attemptAcquire();
    const refused = watch(chain.acquire());
    held.attemptAcquire();
    const waiting = [1, 2, 3].map(() => watch(held.acquire()));
    other.dispose();
    await flush();
    expect([refused.state, ...waiting.map(({ state }) => state)]).toEqual([
      "fulfilled",
      "fulfilled",
      "pending",
      "pending",
    ]);
    expect(held.getStatistics()).toMatchObject({ currentAvailablePermits: 0, totalSuccessfulLeases: 3 });
    waiting[0]?.value.dispose();
    await flush();
    expect(waiting.map(({ state }) => state)).toEqual(["fulfilled", "fulfilled", "pending"]);
  });
});

describe.each(kinds)("a lease of a %s", (_, make) => {
  it("serves who waits once when it is refunded, and no more after that", () => {
    const limiter = make(2);
    const lease = limiter.attemptAcquire();
    limiter.attemptAcquire();
    const caller = new WatchedSignal();
    watch(limiter.acquire(2, { signal: caller.signal }));
    caller.looks = 0;
    lease.refund();
    expect([caller.looks, standing(limiter)]).toEqual([1, [1, 2]]);
    caller.looks = 0;
    lease.refund();
    lease.dispose();
    expect([caller.looks, standing(limiter)]).toEqual([0, [1, 2]]);
  });
});
