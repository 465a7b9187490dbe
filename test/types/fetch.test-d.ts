import type { ConcurrencyLimiter, PartitionedRateLimiter } from "headgate";
import {
  type FetchRejection,
  forSdk,
  parseRetryAfter,
  type RateLimitedFetch,
  withRateLimiter,
} from "headgate/fetch";
import { describe, expectTypeOf, it } from "vitest";

declare const limiter: ConcurrencyLimiter;
declare const byName: PartitionedRateLimiter<string>;
declare const byNumber: PartitionedRateLimiter<number>;

describe("types of headgate/fetch", () => {
  it("a wrapped fetch is a fetch", () => {
    expectTypeOf(withRateLimiter(fetch, limiter)).toMatchTypeOf<typeof globalThis.fetch>();
    expectTypeOf(withRateLimiter(withRateLimiter(fetch, limiter), limiter)).toEqualTypeOf<
      RateLimitedFetch<never>
    >();
  });

  it("has what Bun's fetch has besides", () => {
    const ofBun = fetch as typeof fetch & { preconnect(url: string | URL): void };
    expectTypeOf(withRateLimiter(ofBun, limiter)).toMatchTypeOf<typeof ofBun>();
    expectTypeOf(withRateLimiter(ofBun, byName)).toMatchTypeOf<typeof ofBun>();
    expectTypeOf(withRateLimiter(ofBun, byNumber, { partition: () => 5 })).toMatchTypeOf<typeof ofBun>();
    expectTypeOf(withRateLimiter<number>(fetch, byNumber, { partition: () => 5 })).toEqualTypeOf<
      RateLimitedFetch<number>
    >();
  });

  it("a partitioned limiter needs to be told the resource, unless that is the origin", () => {
    expectTypeOf(withRateLimiter(fetch, byName)).toEqualTypeOf<RateLimitedFetch<string>>();
    const byTenant = withRateLimiter(fetch, byNumber, { partition: () => 5 });
    expectTypeOf(byTenant).toEqualTypeOf<RateLimitedFetch<number>>();
    byTenant("https://a.example", { headgate: { partition: 6 } });
    // @ts-expect-error the resource is a number
    byTenant("https://a.example", { headgate: { partition: "6" } });
    // @ts-expect-error the origin is a string
    withRateLimiter(fetch, byNumber);
    // @ts-expect-error the resource is a number
    withRateLimiter(fetch, byNumber, { partition: () => "x" });
    // @ts-expect-error there is one limit for all
    withRateLimiter(fetch, limiter, { partition: () => "x" });
    // @ts-expect-error there is one limit for all
    withRateLimiter(fetch, limiter)("https://a.example", { headgate: { partition: "x" } });
  });

  it("options are named, and what is optional may be undefined", () => {
    withRateLimiter(fetch, limiter, { permits: undefined, onRejected: undefined, serverHints: false });
    withRateLimiter(fetch, limiter, { onRejected: forSdk() });
    withRateLimiter(fetch, limiter, {
      onRejected: (rejection) => {
        expectTypeOf(rejection).toEqualTypeOf<FetchRejection>();
        return new Response(rejection.message);
      },
    });
    // @ts-expect-error no such option
    withRateLimiter(fetch, limiter, { maxWait: 5 });
    // @ts-expect-error no such place
    withRateLimiter(fetch, limiter, { hold: "trailers" });
    expectTypeOf(parseRetryAfter(null)).toEqualTypeOf<number | undefined>();
  });
});
