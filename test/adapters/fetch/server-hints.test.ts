import {
  ConcurrencyLimiter,
  PartitionedRateLimiter,
  RateLimitPartition,
  TokenBucketRateLimiter,
} from "headgate";
import {
  type FetchLimiterOptions,
  type ServerHint,
  type ServerHintOptions,
  withRateLimiter,
} from "headgate/fetch";
import { ManualClock } from "headgate/testing";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { flush, watch } from "../../support.js";
import { stubFetch } from "./stub.js";

const URL_A = "https://a.example/";
const HOUR_MS = 3_600_000;

let clock: ManualClock;
let stub: ReturnType<typeof stubFetch>;
beforeEach(() => {
  clock = new ManualClock();
  stub = stubFetch();
});

/** A wrapped fetch with room for all, and the hints it has seen; no jitter. */
function hinted(hintOptions: ServerHintOptions = {}, options: FetchLimiterOptions = {}) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 100, queueLimit: 100, clock });
  const hints: ServerHint[] = [];
  const limited = withRateLimiter(stub.fetch, limiter, {
    serverHints: { random: () => 0, ...hintOptions },
    onServerHint: (hint) => hints.push(hint),
    ...options,
  });
  /** Makes a call that is answered with these headers. */
  const receive = async (headers: Record<string, string>, status = 429) => {
    const promise = limited(URL_A);
    await flush();
    stub.sent.at(-1)?.answer(null, { status, headers });
    return promise;
  };
  return { limiter, limited, hints, receive };
}

/** For how long the limiter is paused, in milliseconds. */
const pauseOf = (limiter: ConcurrencyLimiter) => limiter.attemptAcquire().retryAfterMs ?? 0;

describe("a pause", () => {
  it("holds up all calls that have not started, those in the queue too, and none that has", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 10, clock });
    const limited = withRateLimiter(stub.fetch, limiter, { serverHints: { random: () => 0 } });
    const started = watch(limited(URL_A));
    void limited(URL_A);
    void limited(URL_A);
    void limited(URL_A);
    await flush();
    stub.sent[1]?.answer(null, { status: 429, headers: { "retry-after": "2" } });
    await flush();
    void limited(URL_A);
    clock.advance(1999);
    await flush();
    expect(stub.sent).toHaveLength(2);
    stub.sent[0]?.answer("x");
    await flush();
    expect(started.state).toBe("fulfilled");
    await started.value.text();
    expect(stub.sent).toHaveLength(2);
    clock.advance(1);
    await flush();
    expect(stub.sent).toHaveLength(4);
    expect(limited.getStatistics()).toMatchObject({ totalPauses: 1, waiting: 1 });
  });

  it("is longer than the server said by a random share, never shorter", async () => {
    const { limiter, receive } = hinted({ random: () => 0.5 });
    await receive({ "retry-after": "2" });
    expect(pauseOf(limiter)).toBe(2100);
    const long = hinted({ random: () => 0.5 });
    await long.receive({ "retry-after": "1000" });
    expect(pauseOf(long.limiter)).toBe(1_000_000 + 15_000);
    const least = hinted({ random: () => 0 });
    await least.receive({ "retry-after": "2" });
    expect(pauseOf(least.limiter)).toBe(2000);
  });

  it.each([Number.NaN, -1, "x" as unknown as number])("random of %s changes nothing", async (random) => {
    const { limiter, receive } = hinted({ random: () => random });
    await receive({ "retry-after": "2" });
    expect(pauseOf(limiter)).toBe(2000);
  });

  it("is not shortened by a later hint, nor ended by a success", async () => {
    const { limiter, limited, receive } = hinted();
    const late = limited(URL_A);
    await flush();
    await receive({ "retry-after": "5" });
    stub.sent[0]?.answer(null, { status: 429, headers: { "retry-after": "1" } });
    await late;
    clock.advance(1);
    expect(pauseOf(limiter)).toBe(4999);
    expect(limited.getStatistics().totalPauses).toBe(2);
  });

  it("that outlasts what a call can wait has it refused at once, with the time that is really left", async () => {
    const { limited, receive } = hinted({}, { maxWaitMs: 1000 });
    await receive({ "retry-after": "60" });
    await expect(limited(URL_A)).rejects.toMatchObject({ reason: "server_pause", retryAfterMs: 60_000 });
    expect(limited.getStatistics().waiting).toBe(0);
  });

  it("reaches the partition that was told, and no other", async () => {
    const limiter = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1, queueLimit: 1, clock })),
    );
    const limited = withRateLimiter(stub.fetch, limiter);
    const first = limited(URL_A);
    await flush();
    stub.sent[0]?.answer(null, { status: 302, headers: { ratelimit: '"x";r=0;t=10' } });
    await first;
    void limited("https://b.example/");
    const paused = watch(limited(URL_A));
    await flush();
    expect(stub.sent.map(({ input }) => input)).toEqual([URL_A, "https://b.example/"]);
    limiter.dispose();
    await flush();
    expect(paused.state).toBe("rejected");
  });

  it("of a limiter that cannot be paused is told, and the response comes all the same", async () => {
    const limiter = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1, clock })),
    );
    const foreign = limiter.withTranslatedKey((key: string) => key, { leaveOpen: false });
    const hints: ServerHint[] = [];
    const limited = withRateLimiter(stub.fetch, PartitionedRateLimiter.createChained(foreign), {
      onServerHint: (hint) => hints.push(hint),
    });
    const promise = limited(URL_A);
    await flush();
    stub.sent[0]?.answer("x", { status: 429, headers: { "retry-after": "2" } });
    expect((await promise).status).toBe(429);
    expect(hints).toMatchObject([{ delayMs: 2000, pauseMs: 0, error: expect.any(TypeError) }]);
    expect(limited.getStatistics().totalPauses).toBe(0);
    foreign.dispose();
  });

  it("reaches a bucket, which takes up where it was", async () => {
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 2,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 1000,
      queueLimit: 5,
      clock,
    });
    const limited = withRateLimiter(stub.fetch, limiter, { serverHints: { random: () => 0 } });
    const first = limited(URL_A);
    await flush();
    stub.sent[0]?.answer(null, { status: 503, headers: { "retry-after": "10" } });
    await first;
    void limited(URL_A);
    clock.advance(9999);
    await flush();
    expect(stub.sent).toHaveLength(1);
    clock.advance(1);
    await flush();
    expect(stub.sent).toHaveLength(2);
  });
});

describe("which hints count", () => {
  const none: [what: string, headers: Record<string, string>, status?: number][] = [
    ["a sign", { "retry-after": "-1" }],
    ["a fraction", { "retry-after": "1.5" }],
    ["a plus", { "retry-after": "+3" }],
    ["an exponent", { "retry-after": "1e3" }],
    ["hexadecimal", { "retry-after": "0x10" }],
    ["text behind", { "retry-after": "10abc" }],
    ["two values", { "retry-after": "120, 60" }],
    ["nothing", { "retry-after": "" }],
    ["blanks", { "retry-after": "  " }],
    ["another date", { "retry-after": "2015-10-21" }],
    ["a word", { "retry-after": "soon" }],
    ["the wrong weekday", { "retry-after": "Mon, 06 Nov 2094 08:49:37 GMT" }],
    ["no such day", { "retry-after": "Sun, 31 Feb 2027 08:49:37 GMT" }],
    ["a success", { "retry-after": "5" }, 200],
    ["something left", { ratelimit: '"x";r=1;t=5' }, 200],
    ["a negative count", { ratelimit: '"x";r=-1;t=5' }, 200],
    ["a decimal", { ratelimit: '"x";r=1.5;t=5' }, 200],
    ["a text for a number", { ratelimit: '"x";r=0;t="5"' }, 200],
    ["no reset", { ratelimit: '"x";r=0' }, 200],
    ["an older form", { ratelimit: "limit=10, remaining=0, reset=3" }, 200],
    ["no structured field", { ratelimit: "remaining: 0!" }, 200],
    ["a cache", { ratelimit: '"x";r=0;t=9', age: "12" }, 200],
  ];
  it.each(none)("not %s", async (_what, headers, status) => {
    const { limiter, hints, receive } = hinted();
    await receive(headers, status);
    expect(hints).toEqual([]);
    expect(pauseOf(limiter)).toBe(0);
  });

  const some: [
    what: string,
    headers: Record<string, string>,
    expected: Partial<ServerHint>,
    status?: number,
    sources?: ServerHintOptions["sources"],
  ][] = [
    ["seconds", { "retry-after": "2" }, { delayMs: 2000, pauseMs: 2000 }],
    ["seconds, with blanks around", { "retry-after": " 2\t" }, { delayMs: 2000 }],
    ["seconds with 413 and 503", { "retry-after": "2" }, { delayMs: 2000, status: 503 }, 503],
    ["no delay, which is no pause", { "retry-after": "0" }, { delayMs: 0, pauseMs: 0 }],
    ["a date that is over", { "retry-after": "Wed, 21 Oct 2015 07:28:00 GMT" }, { delayMs: 0, pauseMs: 0 }],
    [
      "a date, by the server's clock",
      { date: "Sun, 06 Nov 1994 08:49:37 GMT", "retry-after": "Sun, 06 Nov 1994 08:49:47 GMT" },
      { delayMs: 10_000 },
    ],
    [
      "a date in the form of RFC 850",
      { date: "Sun, 06 Nov 1994 08:49:32 GMT", "retry-after": "Sunday, 06-Nov-94 08:49:37 GMT" },
      { delayMs: 5000 },
    ],
    [
      "a date in the form of asctime",
      { date: "Sun, 06 Nov 1994 08:49:32 GMT", "retry-after": "Sun Nov  6 08:49:37 1994" },
      { delayMs: 5000 },
    ],
    [
      "more digits than a number has",
      { "retry-after": "99999999999999999999" },
      { delayMs: Number.MAX_SAFE_INTEGER, pauseMs: HOUR_MS },
    ],
    ["hours, cut down", { "retry-after": "62291" }, { delayMs: 62_291_000, pauseMs: HOUR_MS }],
    ["a moment taken for a span", { "retry-after": "1771404540" }, { pauseMs: HOUR_MS }],
    ["nothing left", { ratelimit: '"default";r=0;t=7' }, { source: "ratelimit", delayMs: 7000 }, 200],
    [
      "the longest of several",
      { ratelimit: '"a";r=0;t=3, "burst";r=5;t=99, "daily";r=0;t=30' },
      { delayMs: 30_000 },
      200,
    ],
    ["the names that are proposed", { ratelimit: '"x";a=0;w=4' }, { delayMs: 4000 }, 200],
    ["a name without quotes", { ratelimit: "x;r=0;t=4" }, { delayMs: 4000 }, 200],
    [
      "Retry-After before RateLimit",
      { "retry-after": "1", ratelimit: '"x";r=0;t=30' },
      { source: "retry-after", delayMs: 1000 },
    ],
    [
      "RateLimit when Retry-After is malformed",
      { "retry-after": "x", ratelimit: '"x";r=0;t=30' },
      { source: "ratelimit", delayMs: 30_000 },
    ],
    [
      "milliseconds",
      { "retry-after-ms": "1234.5" },
      { source: "retry-after-ms", delayMs: 1234.5 },
      429,
      ["retry-after-ms"],
    ],
    [
      "the older dictionary",
      { ratelimit: "limit=10, remaining=0, reset=3" },
      { delayMs: 3000 },
      200,
      ["ratelimit-draft6"],
    ],
    [
      "the older three headers",
      { "ratelimit-limit": "10", "ratelimit-remaining": "0", "ratelimit-reset": "3" },
      { delayMs: 3000 },
      200,
      ["ratelimit-draft6"],
    ],
    [
      "a span",
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "30" },
      { source: "x-ratelimit", delayMs: 30_000 },
      200,
      ["x-ratelimit"],
    ],
    [
      "a moment in seconds",
      {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "1900000000",
        date: "Sat, 17 Mar 2030 17:46:30 GMT".replace("Sat", "Sun"),
      },
      { delayMs: 10_000 },
      403,
      ["x-ratelimit"],
    ],
    [
      "a moment in milliseconds",
      {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "1900000000000",
        date: "Sun, 17 Mar 2030 17:46:30 GMT",
      },
      { delayMs: 10_000 },
      200,
      ["x-ratelimit"],
    ],
    [
      "a moment that is over",
      {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "1900000000",
        date: "Sun, 17 Mar 2030 17:46:50 GMT",
      },
      { delayMs: 0, pauseMs: 0 },
      200,
      ["x-ratelimit"],
    ],
    [
      "what a function makes of it",
      { "x-ratelimit-reset-requests": "6" },
      { source: "custom", delayMs: 6000, status: 201 },
      201,
      [
        "retry-after",
        (headers, status) => Number(headers.get("x-ratelimit-reset-requests")) * (status === 201 ? 1000 : 0),
      ],
    ],
  ];
  it.each(some)("%s", async (_what, headers, expected, status = 429, sources = undefined) => {
    const { limiter, hints, receive } = hinted(sources === undefined ? {} : { sources });
    await receive(headers, status);
    expect(hints).toEqual([expect.objectContaining(expected)]);
    expect(pauseOf(limiter)).toBe(hints[0]?.pauseMs);
  });

  it.each([Number.NaN, -1, "5", undefined, null, {}])("not %s of a function", async (value) => {
    const { hints, receive } = hinted({ sources: [() => value as number] });
    await receive({});
    expect(hints).toEqual([]);
  });

  it("an endless one of a function is cut down", async () => {
    const { limiter, hints, receive } = hinted({ sources: [() => Number.POSITIVE_INFINITY], maxHintMs: 500 });
    await receive({});
    expect(hints).toMatchObject([{ delayMs: Number.MAX_SAFE_INTEGER, pauseMs: 500 }]);
    expect(pauseOf(limiter)).toBe(500);
  });

  it("none with serverHints: false", async () => {
    const { limiter, hints, receive } = hinted({}, { serverHints: false });
    await receive({ "retry-after": "5", ratelimit: '"x";r=0;t=30' });
    expect(hints).toEqual([]);
    expect(pauseOf(limiter)).toBe(0);
  });

  it("what a source or onServerHint throws is the caller's error, and nothing stays held", async () => {
    const error = new Error("mine");
    const fail = () => {
      throw error;
    };
    for (const { limited, limiter, receive } of [
      hinted({ sources: [fail] }),
      hinted({}, { onServerHint: fail }),
    ]) {
      await expect(receive({ "retry-after": "1" })).rejects.toBe(error);
      expect(limited.getStatistics().active).toBe(0);
      expect(limiter.getStatistics().currentAvailablePermits).toBe(100);
    }
  });
});

describe("what is wrong with serverHints is said at once", () => {
  const wrong: [ServerHintOptions, string][] = [
    [
      { source: [] } as never,
      "options.serverHints.source is not an option; did you mean options.serverHints.sources?",
    ],
    [{ sources: "retry-after" as never }, 'options.serverHints.sources must be an array; got "retry-after".'],
    [{ sources: ["retry" as never] }, 'options.serverHints.sources[0] must be "retry-after" or'],
    [
      { retryAfterStatuses: [42] },
      "options.serverHints.retryAfterStatuses[0] must be an integer from 100 to 599",
    ],
    [{ maxHintMs: Number.POSITIVE_INFINITY }, "options.serverHints.maxHintMs must be a finite number"],
    [{ jitterRatio: -1 }, "options.serverHints.jitterRatio must be a finite number of at least 0"],
    [{ maxJitterMs: "1" as never }, "options.serverHints.maxJitterMs must be a finite number"],
    [{ random: 0.5 as never }, "options.serverHints.random must be a function"],
  ];
  it.each(wrong)("%o", (serverHints, message) => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    expect(() => withRateLimiter(stub.fetch, limiter, { serverHints })).toThrow(message);
  });

  it("and what the options were made of may change afterwards", async () => {
    const sources: ServerHintOptions["sources"] = ["retry-after"];
    const options = { sources, random: vi.fn(() => 0) };
    const { limiter, receive } = hinted(options);
    (sources as unknown[]).length = 0;
    await receive({ "retry-after": "5" });
    expect(pauseOf(limiter)).toBe(5000);
  });
});
