import { ConcurrencyLimiter, NoLimiter, RateLimiter } from "headgate";
import { describeRateLimiterContract } from "./suite.js";

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
