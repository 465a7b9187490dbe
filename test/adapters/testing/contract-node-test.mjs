// The shipped suite under node:test; node-test.test.ts runs this with `node --test`. With BROKEN in the environment the
// limiter forgets to give back.
import { describe, it } from "node:test";
import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
import { describeRateLimiterContract, trackLeases } from "headgate/testing";

class Forgetful extends ConcurrencyLimiter {
  attemptAcquire(permitCount) {
    const lease = super.attemptAcquire(permitCount);
    return lease.isAcquired ? Object.assign(lease, { dispose() {} }) : lease;
  }
}

const bringBack = (leases) => {
  for (const lease of leases) lease.dispose();
};

if (process.env.BROKEN) {
  describeRateLimiterContract(
    { name: "Forgetful", create: (options) => new Forgetful(options), bringBack },
    { describe, it },
  );
} else {
  describeRateLimiterContract(
    { name: "ConcurrencyLimiter", create: (options) => new ConcurrencyLimiter(options), bringBack },
    { describe, it },
  );
  describeRateLimiterContract(
    {
      name: "tracked FixedWindowRateLimiter",
      create: (options) => trackLeases(new FixedWindowRateLimiter({ windowMs: 100, ...options })),
      bringBack: (leases, _limiter, clock) => {
        bringBack(leases);
        clock.advance(100);
      },
      // A tracker throws when it is disposed while a lease is out.
      canBeDisposed: false,
      ownsQueue: false,
    },
    { describe, it },
  );
}
