import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  RateLimiter,
  ReplenishingRateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import type { ContractLimiterOptions } from "headgate/testing";
import { type ContractSubject, describeRateLimiterContract } from "./suite.js";

const disposeAll = (leases: readonly { dispose(): void }[]): void => {
  for (const lease of leases) lease.dispose();
};

describeRateLimiterContract({
  name: "ConcurrencyLimiter",
  create: (options) => new ConcurrencyLimiter(options),
  bringBack: disposeAll,
});

describeRateLimiterContract({
  name: "ConcurrencyLimiter without a queue",
  create: ({ permitLimit, clock }) => new ConcurrencyLimiter({ permitLimit, clock }),
  bringBack: disposeAll,
  queues: false,
});

describeRateLimiterContract({
  name: "NoLimiter",
  create: () => new NoLimiter(),
  bringBack: disposeAll,
  isLimited: false,
  canBeDisposed: false,
});

describeRateLimiterContract({
  name: "chain of one",
  create: (options) => RateLimiter.createChained(new ConcurrencyLimiter(options)),
  bringBack: disposeAll,
  ownsQueue: false,
});

type Options = ContractLimiterOptions & { readonly autoReplenishment: boolean };

const REPLENISHING: readonly (readonly [name: string, create: (options: Options) => RateLimiter])[] = [
  ["FixedWindowRateLimiter", (options) => new FixedWindowRateLimiter({ windowMs: 1000, ...options })],
  [
    "SlidingWindowRateLimiter",
    (options) => new SlidingWindowRateLimiter({ windowMs: 1000, segmentsPerWindow: 4, ...options }),
  ],
  ...(["stepped", "continuous"] as const).map(
    (refill) =>
      [
        `TokenBucketRateLimiter, ${refill}`,
        ({ permitLimit, ...options }: Options) =>
          new TokenBucketRateLimiter({
            tokenLimit: permitLimit,
            tokensPerPeriod: permitLimit,
            replenishmentPeriodMs: 1000,
            refill,
            ...options,
          }),
      ] as const,
  ),
];

/** Lets a window pass, and whatever of it has to be said by hand. */
const letTimePass: ContractSubject["bringBack"] = (leases, limiter, clock) => {
  disposeAll(leases);
  for (let i = 0; i < 4; i++) {
    clock.advance(250);
    if (limiter instanceof ReplenishingRateLimiter) limiter.tryReplenish();
  }
};

for (const [name, create] of REPLENISHING) {
  for (const [mode, autoReplenishment] of [
    ["replenishing itself", true],
    ["replenished by hand", false],
  ] as const) {
    describeRateLimiterContract({
      name: `${name}, ${mode}`,
      create: (options) => create({ ...options, autoReplenishment }),
      bringBack: letTimePass,
    });

    // What waits, waits in the last limiter: whose caller leaves between two limiters of a chain gets nothing.
    describeRateLimiterContract({
      name: `chain of a ConcurrencyLimiter and a ${name}, ${mode}`,
      create: (options) =>
        RateLimiter.createChained(
          new ConcurrencyLimiter({ permitLimit: 1000, clock: options.clock }),
          create({ ...options, autoReplenishment }),
        ),
      bringBack: letTimePass,
      ownsQueue: false,
    });
  }
}

describeRateLimiterContract({
  name: "chain of all replenishing limiters",
  create: (options) =>
    RateLimiter.createChained(
      ...REPLENISHING.map(([, create], i) =>
        create({
          ...options,
          ...(i < REPLENISHING.length - 1 ? { permitLimit: 1000 } : {}),
          autoReplenishment: i % 2 === 0,
        }),
      ),
    ),
  bringBack: letTimePass,
  ownsQueue: false,
});
