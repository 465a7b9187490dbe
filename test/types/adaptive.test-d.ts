import {
  PartitionedRateLimiter,
  type RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  withLease,
} from "headgate";
import {
  AdaptiveConcurrencyLimiter,
  type AdaptiveConcurrencyStatistics,
  CodelFilter,
  FixedLimit,
  Gradient2Limit,
  type Limit,
  SettableLimit,
  WindowedLimit,
} from "headgate/adaptive";
import {
  compare,
  exponential,
  poissonArrivals,
  type SimulatedRequest,
  simulate,
  sweep,
} from "headgate/simulator";
import { expectTypeOf, test } from "vitest";

test("an adaptive limiter is a limiter, and so are its parts", async () => {
  const limiter = new AdaptiveConcurrencyLimiter({
    shares: { live: 0.7, batch: { share: 0.3, rejectDelayMs: 10 } },
  });
  expectTypeOf(limiter).toExtend<RateLimiter>();
  expectTypeOf(limiter.forShare("live")).toEqualTypeOf<RateLimiter>();
  expectTypeOf(limiter.forBypass()).toEqualTypeOf<RateLimiter>();
  expectTypeOf(limiter.attemptAcquire()).toEqualTypeOf<RateLimitLease>();
  expectTypeOf(limiter.acquire({ maxWaitMs: 5 })).resolves.toEqualTypeOf<RateLimitLease>();
  expectTypeOf(limiter.getStatistics()).toEqualTypeOf<AdaptiveConcurrencyStatistics>();
  expectTypeOf(limiter.getStatistics().shares.get("live")?.inFlight).toEqualTypeOf<number | undefined>();
  expectTypeOf(withLease(limiter, () => 5)).resolves.toEqualTypeOf<number>();
  // @ts-expect-error The limit is the algorithm's to set.
  limiter.permitLimit = 5;
  const byKind = PartitionedRateLimiter.create((kind: "live" | "batch") =>
    RateLimitPartition.get(kind, (name) => limiter.forShare(name)),
  );
  expectTypeOf(byKind.attemptAcquire).parameter(0).toEqualTypeOf<"live" | "batch">();
});

test("its options say what belongs together", () => {
  new AdaptiveConcurrencyLimiter();
  new AdaptiveConcurrencyLimiter({
    limit: new FixedLimit(5),
    queueLimit: 10,
    codel: { targetMs: 5, form: "controlLaw" },
  });
  // @ts-expect-error There is no such rule.
  new AdaptiveConcurrencyLimiter({ shareRule: "strict" });
  // @ts-expect-error A limit is an algorithm, not a number.
  new AdaptiveConcurrencyLimiter({ limit: 5 });
  // @ts-expect-error The limit is not fixed.
  new AdaptiveConcurrencyLimiter({ permitLimit: 5 });
  // @ts-expect-error A percentile needs to know how many samples to keep.
  new WindowedLimit(new Gradient2Limit(), { window: { percentile: 0.9 } });
  // @ts-expect-error An algorithm that does not learn has nothing to set.
  new FixedLimit({ limit: 5 });
});

test("an algorithm of one's own is an object with three members", () => {
  const own = {
    limit: 5,
    onSample(_start: number, rtt: number) {
      void rtt;
    },
    onChange: () => () => {},
  } satisfies Limit;
  new AdaptiveConcurrencyLimiter({ limit: own });
  new WindowedLimit(own);
  expectTypeOf(new SettableLimit(5).setLimit).parameters.toEqualTypeOf<[number]>();
  expectTypeOf(new CodelFilter().shouldDrop(5)).toEqualTypeOf<boolean>();
});

test("a simulation infers what it can", async () => {
  const model = {
    arrivals: poissonArrivals({ ratePerSecond: 5 }),
    service: { servers: 1, time: exponential(5) },
    durationMs: 5,
  };
  const result = await simulate({
    ...model,
    limiter: ({ clock }) => new AdaptiveConcurrencyLimiter({ clock }),
  });
  expectTypeOf(result.latency.delivered.p99).toEqualTypeOf<number | null>();
  const { limiters } = await compare(model, {
    none: undefined,
    one: ({ clock }) => new AdaptiveConcurrencyLimiter({ clock }),
  });
  expectTypeOf(limiters["one"]?.goodput.mean).toEqualTypeOf<number | null | undefined>();
  const points = await sweep(["a", "b"] as const, () => model);
  expectTypeOf(points[0]?.value).toEqualTypeOf<"a" | "b" | undefined>();
  await simulate({
    ...model,
    limiter: ({ clock }) =>
      PartitionedRateLimiter.create(
        (request: SimulatedRequest) =>
          RateLimitPartition.getConcurrencyLimiter(request.tenant, () => ({ permitLimit: 1 })),
        { clock },
      ),
  });
  // @ts-expect-error A model needs somebody to serve.
  void simulate({ arrivals: model.arrivals, durationMs: 5 });
});
