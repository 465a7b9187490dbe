import { AdaptiveConcurrencyLimiter, FixedLimit } from "headgate/adaptive";
import { describeRateLimiterContract } from "../contract/suite.js";

const disposeAll = (leases: readonly { dispose(): void }[]): void => {
  for (const lease of leases) lease.dispose();
};

describeRateLimiterContract({
  name: "AdaptiveConcurrencyLimiter",
  create: ({ permitLimit, ...options }) =>
    new AdaptiveConcurrencyLimiter({ limit: new FixedLimit(permitLimit), ...options }),
  bringBack: disposeAll,
});

describeRateLimiterContract({
  name: "AdaptiveConcurrencyLimiter with shares",
  create: ({ permitLimit, ...options }) =>
    new AdaptiveConcurrencyLimiter({
      limit: new FixedLimit(permitLimit),
      shares: { other: 0.5 },
      ...options,
    }),
  bringBack: disposeAll,
});

describeRateLimiterContract({
  name: "share of an AdaptiveConcurrencyLimiter",
  create: ({ permitLimit, ...options }) =>
    new AdaptiveConcurrencyLimiter({
      limit: new FixedLimit(permitLimit),
      shares: { all: 1 },
      ...options,
    }).forShare("all"),
  bringBack: disposeAll,
  canBeDisposed: false,
  ownsQueue: false,
});
