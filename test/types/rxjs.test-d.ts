import {
  type ConcurrencyLimiter,
  PartitionedRateLimiter,
  type RateLimitLease,
  RateLimitPartition,
} from "headgate";
import {
  leased,
  limitConcurrency,
  limitConcurrencyBy,
  limitedFrom,
  rateLimit,
  rateLimitBy,
} from "headgate/rxjs";
import { map, type Observable, of } from "rxjs";
import { describe, expectTypeOf, it } from "vitest";

declare const limiter: ConcurrencyLimiter;
declare const perTenant: PartitionedRateLimiter<string>;
declare const numbers: Observable<number>;

describe("types of the operators", () => {
  it("infer the result from what project returns, as mergeMap does", () => {
    expectTypeOf(numbers.pipe(limitConcurrency(limiter, (n) => of(String(n))))).toEqualTypeOf<
      Observable<string>
    >();
    expectTypeOf(numbers.pipe(limitConcurrency(2, async (n) => [n]))).toEqualTypeOf<Observable<number[]>>();
    expectTypeOf(
      numbers.pipe(
        limitConcurrency(
          () => limiter,
          (n) => [n, "x"],
        ),
      ),
    ).toEqualTypeOf<Observable<string | number>>();
    const either = numbers.pipe(limitConcurrency(2, (n) => (n > 1 ? of(n) : Promise.resolve("x"))));
    expectTypeOf(either).toEqualTypeOf<Observable<string | number>>();
    numbers.pipe(
      limitConcurrency(limiter, (n, index, lease) => {
        expectTypeOf(n).toEqualTypeOf<number>();
        expectTypeOf(index).toEqualTypeOf<number>();
        expectTypeOf(lease).toEqualTypeOf<RateLimitLease>();
        return of(n);
      }),
    );
  });

  it("flatten streams of streams, as mergeAll does", () => {
    expectTypeOf(
      numbers.pipe(
        map((n) => of(String(n))),
        limitConcurrency(2),
      ),
    ).toEqualTypeOf<Observable<string>>();
    expectTypeOf(of(Promise.resolve(1)).pipe(limitConcurrency(limiter, { order: "concat" }))).toEqualTypeOf<
      Observable<number>
    >();
    // @ts-expect-error numbers are not streams
    numbers.pipe(limitConcurrency(2));
  });

  it("keep the type of what is only paced or leased", () => {
    expectTypeOf(numbers.pipe(rateLimit(limiter))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(numbers.pipe(leased(limiter))).toEqualTypeOf<Observable<number>>();
    expectTypeOf(numbers.pipe(rateLimitBy(perTenant, (n) => String(n)))).toEqualTypeOf<Observable<number>>();
    // @ts-expect-error a number counts work, and there is none
    rateLimit(2);
  });

  it("know the values in options", () => {
    numbers.pipe(
      rateLimit(limiter, {
        permitCount: (n) => n,
        deadline: (n) => (n > 1 ? n : undefined),
        buffer: { size: 1, overflow: (n) => (n > 1 ? "dropNewest" : "dropOldest") },
        onRejected: ({ value }) => ({ action: "replace", with: of(value) }),
      }),
    );
    numbers.pipe(
      limitConcurrency(limiter, (n) => of(String(n)), {
        onRejected: ({ value, reason }) =>
          reason === "queue_full" ? { action: "replace", with: of(String(value)) } : { action: "drop" },
      }),
    );
    numbers.pipe(
      limitConcurrency(limiter, (n) => of(String(n)), {
        // @ts-expect-error another type than the work emits
        onRejected: () => ({ action: "replace", with: of(1n) }),
      }),
    );
    // @ts-expect-error no such word
    rateLimit(limiter, { buffer: { overflow: "drop" } });
  });

  it("check the resource against the partitioned limiter", () => {
    const made = PartitionedRateLimiter.create((tenant: { id: string }) =>
      RateLimitPartition.getNoLimiter(tenant.id),
    );
    expectTypeOf(
      numbers.pipe(
        limitConcurrencyBy(
          made,
          (n) => ({ id: String(n) }),
          (n) => [n],
        ),
      ),
    ).toEqualTypeOf<Observable<number>>();
    const asNumber = (n: number): number => n;
    // @ts-expect-error not what the limiter is asked about
    rateLimitBy(made, asNumber);
  });

  it("infer values of sources that can wait", () => {
    expectTypeOf(limitedFrom([1, 2], limiter, (n) => of(String(n)))).toEqualTypeOf<Observable<string>>();
    const generator = async function* (): AsyncGenerator<string> {
      yield "x";
    };
    expectTypeOf(limitedFrom(generator(), 2, (text) => [text.length])).toEqualTypeOf<Observable<number>>();
    expectTypeOf(limitedFrom(new ReadableStream<number>(), 2, (n) => [n])).toEqualTypeOf<
      Observable<number>
    >();
  });
});
