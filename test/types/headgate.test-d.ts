import {
  type ChainedRateLimiter,
  ConcurrencyLimiter,
  MetadataName,
  NoLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  type RateLimitLease,
  type RejectionReason,
  type ReplenishingRateLimiter,
  type ShadowedRateLimiter,
  shadowed,
  withLease,
} from "headgate";
import { describe, expectTypeOf, it } from "vitest";

declare const limiter: ConcurrencyLimiter;
declare const signal: AbortSignal;

describe("types", () => {
  it("infer what a lease carries", () => {
    const lease = limiter.attemptAcquire();
    expectTypeOf(lease).toEqualTypeOf<RateLimitLease>();
    expectTypeOf(lease.orThrow()).toEqualTypeOf<RateLimitLease>();
    expectTypeOf(lease.tryGetMetadata(MetadataName.retryAfter)).toEqualTypeOf<number | undefined>();
    expectTypeOf(lease.tryGetMetadata(MetadataName.reasonPhrase)).toEqualTypeOf<string | undefined>();
    expectTypeOf(lease.tryGetMetadata(MetadataName.rejectionReason)).toEqualTypeOf<
      RejectionReason | undefined
    >();
    expectTypeOf(lease.tryGetMetadata(MetadataName.create<Date>("SINCE"))).toEqualTypeOf<Date | undefined>();
    expectTypeOf(lease.tryGetMetadata("SINCE")).toEqualTypeOf<unknown>();
    expectTypeOf(lease.reason).toEqualTypeOf<RejectionReason | undefined>();
  });

  it("accept acquire with a count, with options, and with both", () => {
    expectTypeOf(limiter.acquire()).toEqualTypeOf<Promise<RateLimitLease>>();
    expectTypeOf(limiter.acquire(2, { signal, maxWaitMs: 5, priority: 1 })).toEqualTypeOf<
      Promise<RateLimitLease>
    >();
    limiter.acquire({ signal });
    const maybe = undefined as AbortSignal | undefined;
    limiter.acquire(1, { signal: maybe });
    // @ts-expect-error a misspelt option
    limiter.acquire({ singal: signal });
    // @ts-expect-error options twice
    limiter.acquire({ signal }, { signal });
    // @ts-expect-error a signal is not the options
    limiter.acquire(1, signal);
    // @ts-expect-error a string is not a count
    limiter.attemptAcquire("1");
  });

  it("require the options that have no default, and refuse others", () => {
    // @ts-expect-error permitLimit is required
    new ConcurrencyLimiter({});
    // @ts-expect-error a misspelt option
    new ConcurrencyLimiter({ permitLimit: 1, queuelimit: 1 });
    // @ts-expect-error an order that does not exist
    new ConcurrencyLimiter({ permitLimit: 1, queueProcessingOrder: "random" });
    // @ts-expect-error leases are made by limiters, limiters are subclasses
    new RateLimiter();
  });

  it("know what statistics a limiter has", () => {
    expectTypeOf(limiter.getStatistics()).toEqualTypeOf<RateLimiterStatistics>();
    expectTypeOf<RateLimiter>()
      .toHaveProperty("getStatistics")
      .returns.toEqualTypeOf<RateLimiterStatistics | undefined>();
    // @ts-expect-error a snapshot is read only
    limiter.getStatistics().currentAvailablePermits = 1;
  });

  it("infer the result of withLease and the signal that its work gets", () => {
    expectTypeOf(withLease(limiter, () => 1)).toEqualTypeOf<Promise<number>>();
    expectTypeOf(withLease(limiter, async () => "x", { permitCount: 2 })).toEqualTypeOf<Promise<string>>();
    withLease(limiter, (lease, workSignal) => {
      expectTypeOf(lease).toEqualTypeOf<RateLimitLease>();
      expectTypeOf(workSignal).toEqualTypeOf<undefined>();
    });
    const response = withLease(
      limiter,
      (_, workSignal) => fetch("https://x.example/", { signal: workSignal }),
      {
        signal,
      },
    );
    expectTypeOf(response).toEqualTypeOf<Promise<Response>>();
  });

  it("keep limiters apart from what only looks like one", () => {
    expectTypeOf<ConcurrencyLimiter>().toExtend<RateLimiter>();
    expectTypeOf<NoLimiter>().toExtend<RateLimiter>();
    expectTypeOf<ConcurrencyLimiter>().not.toExtend<ReplenishingRateLimiter>();
    expectTypeOf(shadowed(limiter)).toEqualTypeOf<ShadowedRateLimiter>();
    expectTypeOf(RateLimiter.createChained(limiter, new NoLimiter())).toEqualTypeOf<ChainedRateLimiter>();
    // @ts-expect-error a chain is made of limiters
    RateLimiter.createChained([limiter]);
    // @ts-expect-error the cores are for those who write limiters
    limiter.acquireCore(1, {});
  });
});
