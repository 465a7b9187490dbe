import * as four from "cockatiel";
import * as three from "cockatiel3";
import type { ConcurrencyLimiter, PartitionedRateLimiter, RateLimiter, RateLimitLease } from "headgate";
import { limiterPolicy, retryAfterBackoff, shieldPolicy } from "headgate/cockatiel";
import {
  ConcurrencyLimitExceededError,
  type LeaseAcquirer,
  type Outcome,
  Shield,
  type ShieldContext,
  ShieldKey,
} from "headgate/shield";
import { describe, expectTypeOf, it } from "vitest";

declare const limiter: ConcurrencyLimiter;
declare const lease: RateLimitLease;
declare const context: ShieldContext;
declare const source: RateLimiter | PartitionedRateLimiter<ShieldContext> | LeaseAcquirer;

describe("types of a shield", () => {
  it("takes the policies of both versions of cockatiel", () => {
    const { handleAll, noop, bulkhead } = four;
    Shield.empty
      .use(four.retry(handleAll, { maxAttempts: 3, backoff: retryAfterBackoff() }))
      .use(four.timeout(1000, four.TimeoutStrategy.Aggressive))
      .use(four.circuitBreaker(handleAll, { halfOpenAfter: 1, breaker: new four.ConsecutiveBreaker(1) }))
      .use(bulkhead(1))
      .use(noop)
      .use(four.wrap(noop, bulkhead(1)));
    Shield.empty
      .use(three.retry(three.handleAll, { maxAttempts: 3, backoff: retryAfterBackoff() }))
      .use(three.timeout(1000, three.TimeoutStrategy.Aggressive))
      .use(
        three.circuitBreaker(three.handleAll, { halfOpenAfter: 1, breaker: new three.ConsecutiveBreaker(1) }),
      )
      .use(three.bulkhead(1))
      .use(three.noop);
    // @ts-expect-error: neither a shield, nor a strategy, nor a policy
    Shield.empty.use({});
  });

  it("knows what a fallback may return in place of the result", () => {
    const shield = Shield.empty.use(four.fallback(four.handleAll, () => "cached" as const));
    const call = shield.execute(() => 1);
    expectTypeOf(call).toEqualTypeOf<Promise<number | "cached">>();
    // @ts-expect-error: it may be the fallback's value
    const number: Promise<number> = call;
    void number;
    const old = Shield.empty.use(three.fallback(three.handleAll, () => "cached" as const));
    expectTypeOf(old.concurrencyLimit(1).execute(async () => 1)).toEqualTypeOf<Promise<number | "cached">>();
    expectTypeOf(old.executeOutcome(() => 1)).toEqualTypeOf<Promise<Outcome<number | "cached">>>();
    expectTypeOf(Shield.concurrencyLimit(1).execute(() => 1)).toEqualTypeOf<Promise<number>>();
    expectTypeOf(Shield.compose(Shield.empty, old).execute(() => 1)).toEqualTypeOf<
      Promise<number | "cached">
    >();
  });

  it("goes into wrap of both versions", () => {
    const policy = four.wrap(
      four.retry(four.handleAll, { maxAttempts: 3 }),
      limiterPolicy(limiter),
      four.timeout(1000, four.TimeoutStrategy.Aggressive),
    );
    const call = policy.execute(({ signal, attempt }) => {
      expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
      expectTypeOf(attempt).toEqualTypeOf<number>();
      return "x";
    });
    expectTypeOf(call).toEqualTypeOf<Promise<string>>();
    const old = three.wrap(three.retry(three.handleAll, { maxAttempts: 3 }), limiterPolicy(limiter));
    expectTypeOf(old.execute(({ attempt }) => attempt)).toEqualTypeOf<Promise<number>>();
    const cached = shieldPolicy(Shield.empty.use(four.fallback(four.handleAll, () => "cached" as const)));
    expectTypeOf(four.wrap(four.noop, cached).execute(() => 1)).toEqualTypeOf<Promise<number | "cached">>();
    limiterPolicy(limiter).onFailure(({ reason }) => expectTypeOf(reason.error).toEqualTypeOf<Error>());
    limiterPolicy(limiter).onReject(({ retryAfterMs }) =>
      expectTypeOf(retryAfterMs).toEqualTypeOf<number | undefined>(),
    );
  });

  it("keeps keys and values together", () => {
    const tenant = new ShieldKey<string>("tenant");
    tenant.of("a");
    expectTypeOf(context.get(tenant)).toEqualTypeOf<string | undefined>();
    expectTypeOf(context.get(tenant, "d")).toEqualTypeOf<string>();
    context.has(tenant);
    context.delete(tenant);
    // @ts-expect-error: not a string
    tenant.of(5);
    // @ts-expect-error: not a string
    context.set(tenant, 5);
  });

  it("offers ownership where there is something to own", () => {
    Shield.empty.useRateLimiter(limiter, { ownsLimiter: true });
    // @ts-expect-error: a function owns nothing
    Shield.empty.useRateLimiter(() => lease, { ownsLimiter: true });
  });

  it("allows undefined for every option", () => {
    Shield.concurrencyLimit({
      name: undefined,
      maxConcurrency: undefined,
      queueLimit: undefined,
      queueTimeoutMs: undefined,
      usePriorityQueue: undefined,
      shadow: undefined,
      onRejected: undefined,
    });
    Shield.rateLimit({ permits: undefined, windowMs: undefined, burst: undefined });
    Shield.empty.useRateLimiter(limiter, { name: undefined, permitCount: undefined, ownsLimiter: undefined });
    limiterPolicy(limiter, { name: undefined, priority: undefined, maxWaitMs: undefined });
  });

  it("tells the two kinds of concurrency limits apart", () => {
    Shield.concurrencyLimit({ algorithm: "aimd", minLimit: 2 });
    Shield.concurrencyLimit({ maxConcurrency: 3 });
    // @ts-expect-error: an adaptive limit has no queue
    Shield.concurrencyLimit({ algorithm: "aimd", queueLimit: 3 });
    // @ts-expect-error: no such algorithm
    Shield.concurrencyLimit({ algorithm: "vegas" });
    // @ts-expect-error: that is of an adaptive limit
    Shield.concurrencyLimit({ maxConcurrency: 3, minLimit: 2 });
  });

  it("takes limiters of any kind", () => {
    Shield.empty.useRateLimiter(source, { permitCount: 2 });
    // @ts-expect-error: it may be a function, which owns nothing
    Shield.empty.useRateLimiter(source, { ownsLimiter: true });
  });

  it("narrows errors", () => {
    const error: unknown = undefined;
    if (ConcurrencyLimitExceededError.is(error)) {
      expectTypeOf(error).toEqualTypeOf<ConcurrencyLimitExceededError>();
      expectTypeOf(error.strategyIndex).toEqualTypeOf<number>();
    }
  });
});
