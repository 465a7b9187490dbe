import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  PartitionedRateLimiter,
  RateLimitPartition,
} from "headgate";
import {
  leased,
  limitConcurrency,
  limitConcurrencyBy,
  limitedFrom,
  rateLimit,
  rateLimitBy,
  schedulerClock,
} from "headgate/rxjs";
import { asapScheduler, asyncScheduler, EMPTY, of } from "rxjs";
import { describe, expect, it } from "vitest";
import { look, seen } from "./support.js";

const limiter = new ConcurrencyLimiter({ permitLimit: 3 });
const perKey = PartitionedRateLimiter.create((key: string) => RateLimitPartition.getNoLimiter(key));
const chained = PartitionedRateLimiter.createChained(perKey);
const work = () => EMPTY;
const as = (value: unknown): never => value as never;

describe("bad arguments are refused where the operator is made", () => {
  const bad: [string, () => unknown, string][] = [
    [
      "limiter 0",
      () => limitConcurrency(0, work),
      "RangeError: limiter must be an integer of at least 1, or Infinity; got 0.",
    ],
    ["limiter -1", () => limitConcurrency(-1, work), "RangeError: limiter must"],
    ["limiter 1.5", () => limitConcurrency(1.5, work), "RangeError: limiter must"],
    ["limiter NaN", () => limitedFrom([], Number.NaN, work), "RangeError: limiter must"],
    [
      "limiter {}",
      () => limitConcurrency(as({}), work),
      "TypeError: limiter must be a number, a RateLimiter, or a function that makes one; got an object.",
    ],
    [
      "limiter undefined",
      () => rateLimit(as(undefined)),
      "TypeError: limiter must be a RateLimiter, or a function that makes one; got undefined.",
    ],
    ["a number for rateLimit", () => rateLimit(as(2)), "TypeError: limiter must be a RateLimiter"],
    ["a number for leased", () => leased(as(2)), "TypeError: limiter must be a RateLimiter"],
    [
      "a partitioned limiter",
      () => limitConcurrency(as(perKey), work),
      "TypeError: limiter must be a number, a RateLimiter, or a function that makes one (use its forResource(resource)); got an object.",
    ],
    [
      "a plain limiter by key",
      () => limitConcurrencyBy(as(limiter), () => "", work),
      "TypeError: limiter must be a PartitionedRateLimiter",
    ],
    [
      "no resource",
      () => rateLimitBy(perKey, as(undefined)),
      "TypeError: resource must be a function; got undefined.",
    ],
    [
      "no project by key",
      () => limitConcurrencyBy(perKey, () => "", as(undefined)),
      "TypeError: project must be a function",
    ],
    [
      "no project for a source",
      () => limitedFrom([], 1, as(undefined)),
      "TypeError: project must be a function",
    ],
    [
      "no source",
      () => limitedFrom(as(5), 1, work),
      "TypeError: source must be an iterable, an async iterable or a ReadableStream; got 5.",
    ],
    ["null source", () => limitedFrom(as(null), 1, work), "TypeError: source must be"],
    [
      "a chain without lanes",
      () => rateLimitBy(chained, () => ""),
      "TypeError: options.lane must be given, or false",
    ],
    [
      "a misspelled option",
      () => limitConcurrency(1, work, as({ orders: "concat" })),
      "TypeError: options.orders is not an option; did you mean options.order?",
    ],
    [
      "an option of another operator",
      () => leased(limiter, as({ buffer: {} })),
      "TypeError: options.buffer is not an option",
    ],
    ["options null", () => rateLimit(limiter, as(null)), "TypeError: options must be an object; got null."],
    [
      "order",
      () => limitConcurrency(1, work, { order: as("both") }),
      'TypeError: options.order must be "merge" or "concat"; got "both".',
    ],
    [
      "admission",
      () => limitConcurrency(1, work, { admission: as(1) }),
      "TypeError: options.admission must be",
    ],
    [
      "concat and eager",
      () => limitConcurrency(1, work, { order: "concat", admission: "eager" }),
      "TypeError: options.admission must be",
    ],
    [
      "buffer",
      () => rateLimit(limiter, { buffer: as(5) }),
      "TypeError: options.buffer must be an object; got 5.",
    ],
    [
      "buffer.sizes",
      () => rateLimit(limiter, { buffer: as({ sizes: 5 }) }),
      "TypeError: options.buffer.sizes is not an option; did you mean options.buffer.size?",
    ],
    [
      "buffer.size -1",
      () => rateLimit(limiter, { buffer: { size: -1 } }),
      "RangeError: options.buffer.size must be an integer of at least 0, or Infinity; got -1.",
    ],
    [
      "buffer.size NaN",
      () => rateLimit(limiter, { buffer: { size: Number.NaN } }),
      "RangeError: options.buffer.size",
    ],
    [
      "buffer.size '5'",
      () => rateLimit(limiter, { buffer: { size: as("5") } }),
      "TypeError: options.buffer.size",
    ],
    [
      "buffer.overflow",
      () => rateLimit(limiter, { buffer: { overflow: as("drop") } }),
      "TypeError: options.buffer.overflow must be",
    ],
    [
      "permitCount",
      () => rateLimit(limiter, { permitCount: 1.5 }),
      "RangeError: options.permitCount must be an integer",
    ],
    [
      "permitCount '1'",
      () => rateLimit(limiter, { permitCount: as("1") }),
      "TypeError: options.permitCount must be",
    ],
    [
      "priority",
      () => rateLimit(limiter, { priority: 0.5 }),
      "RangeError: options.priority must be a safe integer, or a function; got 0.5.",
    ],
    [
      "maxWaitMs",
      () => rateLimit(limiter, { maxWaitMs: Number.POSITIVE_INFINITY }),
      "RangeError: options.maxWaitMs must be",
    ],
    [
      "deadline",
      () => rateLimit(limiter, { deadline: as(5) }),
      "TypeError: options.deadline must be a function; got 5.",
    ],
    ["signal", () => rateLimit(limiter, { signal: as({}) }), "TypeError: options.signal must be"],
    [
      "clock",
      () => rateLimit(limiter, { clock: as({}) }),
      "TypeError: options.clock must be an object with now() and setTimer()",
    ],
    [
      "lane",
      () => rateLimitBy(perKey, () => "", { lane: as("key") }),
      'TypeError: options.lane must be a function or false; got "key".',
    ],
    [
      "onRejected",
      () => rateLimit(limiter, { onRejected: as("retry") }),
      'TypeError: options.onRejected must be "error" or "drop" or "retryAfter"; got "retry".',
    ],
    [
      "onRejected null",
      () => rateLimit(limiter, { onRejected: as(null) }),
      "TypeError: options.onRejected must be",
    ],
    [
      "onRejected.jitters",
      () => rateLimit(limiter, { onRejected: as({ jitters: 1 }) }),
      "TypeError: options.onRejected.jitters is not an option",
    ],
    [
      "onRejected.jitter",
      () => rateLimit(limiter, { onRejected: { jitter: 2 } }),
      "RangeError: options.onRejected.jitter must be a number from 0 to 1; got 2.",
    ],
    [
      "onRejected.fallbackDelayMs",
      () => rateLimit(limiter, { onRejected: { fallbackDelayMs: 0 } }),
      "RangeError: options.onRejected.fallbackDelayMs",
    ],
    [
      "onRejected.maxDelayMs",
      () => rateLimit(limiter, { onRejected: { maxDelayMs: 2 ** 31 } }),
      "RangeError: options.onRejected.maxDelayMs",
    ],
    [
      "onRejected.maxAttempts",
      () => rateLimit(limiter, { onRejected: { maxAttempts: 0 } }),
      "RangeError: options.onRejected.maxAttempts",
    ],
    [
      "onRejected.random",
      () => rateLimit(limiter, { onRejected: { random: as(1) } }),
      "TypeError: options.onRejected.random",
    ],
    [
      "acquireFirst",
      () => limitedFrom([], 1, work, { acquireFirst: as(1) }),
      "TypeError: options.acquireFirst must be true or false; got 1.",
    ],
    [
      "scheduler",
      () => schedulerClock(as({})),
      "TypeError: scheduler must be an object with now() and schedule()",
    ],
  ];
  it.each(bad)("%s", (_what, make, message) => {
    expect(make).toThrow(message.slice(message.indexOf(" ") + 1));
    try {
      make();
    } catch (error) {
      expect((error as Error).name).toBe(message.slice(0, message.indexOf(":")));
    }
  });
});

describe("what a function of an option returns", () => {
  it("ends the stream when it is not what it should be, and takes no lease for that value", () => {
    const bad: [object, string][] = [
      [{ permitCount: () => -1 }, "RangeError"],
      [{ permitCount: () => 0.5 }, "RangeError"],
      [{ permitCount: () => "1" }, "RangeError"],
      [{ permitCount: () => 5 }, "RangeError"],
      [{ maxWaitMs: () => Number.NaN }, "RangeError"],
      [{ maxWaitMs: () => "1" }, "TypeError"],
      [{ deadline: () => Number.NaN }, "RangeError"],
      [
        {
          permitCount: () => {
            throw new SyntaxError();
          },
        },
        "SyntaxError",
      ],
    ];
    for (const [options, name] of bad) {
      expect(seen(of(1).pipe(limitConcurrency(limiter, () => of(2), options)))).toMatchObject([{ name }]);
      if ("permitCount" in options)
        expect(seen(of(1).pipe(limitConcurrency(3, () => of(2), options as object)))).toMatchObject([
          { name },
        ]);
    }
    expect(look(limiter)).toMatchObject({ available: 3, granted: 0 });
  });

  it("may be a priority that the limiter does not look at", () => {
    expect(seen(of(1).pipe(limitConcurrency(limiter, () => of(2), { priority: () => 0.5 })))).toEqual([
      2,
      "complete",
    ]);
  });
});

describe("schedulerClock", () => {
  it("takes its time and its timers from a scheduler of RxJS", async () => {
    const clock = schedulerClock(asyncScheduler);
    expect(Math.abs(clock.now() - Date.now())).toBeLessThan(1000);
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 20, queueLimit: 1, clock });
    limiter.attemptAcquire();
    expect((await limiter.acquire()).isAcquired).toBe(true);
    let fired = false;
    schedulerClock(asapScheduler)
      .setTimer(() => {
        fired = true;
      }, 1)
      .cancel();
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(fired).toBe(false);
  });
});
