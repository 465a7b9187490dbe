import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";

type Options = Readonly<Record<string, unknown>>;

interface Kind {
  readonly name: string;
  make(options: Options): RateLimiter;
  /** All options of the limiter but `clock`, none of them at its default. */
  readonly options: Options;
}

const queue = { queueLimit: 3, queueProcessingOrder: "newestFirst", queueTimeoutMs: 700 };

const kinds: readonly Kind[] = [
  {
    name: "ConcurrencyLimiter",
    make: (options) => new ConcurrencyLimiter(options as never),
    options: { permitLimit: 2, ...queue },
  },
  {
    name: "ConcurrencyLimiter that sheds",
    make: (options) => new ConcurrencyLimiter(options as never),
    options: { permitLimit: 2, queueLimit: 3, codel: { targetMs: 10, intervalMs: 200, form: "controlLaw" } },
  },
  {
    name: "FixedWindowRateLimiter",
    make: (options) => new FixedWindowRateLimiter(options as never),
    options: { permitLimit: 2, windowMs: 1000, autoReplenishment: false, ...queue },
  },
  {
    name: "SlidingWindowRateLimiter",
    make: (options) => new SlidingWindowRateLimiter(options as never),
    options: { permitLimit: 2, windowMs: 900, segmentsPerWindow: 3, autoReplenishment: false, ...queue },
  },
  {
    name: "TokenBucketRateLimiter",
    make: (options) => new TokenBucketRateLimiter(options as never),
    options: {
      tokenLimit: 2,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 400,
      refill: "continuous",
      autoReplenishment: true,
      ...queue,
    },
  },
];

/** Each is wrong for every option there is. */
const WRONG: readonly unknown[] = [Number.NaN, -1, "soon", null];

/** Answers the first so many times that a property is read as it is, and then otherwise; all else as it is. */
function turning(options: Options, name: string, then: () => unknown, times = 1): Options {
  let reads = 0;
  const answer = () => (reads++ < times ? options[name] : then());
  return Object.defineProperty({ ...options }, name, { enumerable: true, get: answer }) as Options;
}

/** All that can be seen of a limiter in an eventful second and a half. */
async function trace(make: (options: Options) => RateLimiter, options: Options, clock: ManualClock) {
  const limiter = make(options);
  const seen: unknown[] = [];
  const look = () => {
    const { currentAvailablePermits, currentQueuedCount } = limiter.getStatistics() ?? {};
    seen.push([clock.now(), currentAvailablePermits, currentQueuedCount, limiter.idleDurationMs]);
  };
  const asked: ReturnType<typeof watch<Awaited<ReturnType<RateLimiter["acquire"]>>>>[] = [];
  look();
  const held = limiter.attemptAcquire();
  for (let step = 0; step < 15; step++) {
    asked.push(watch(limiter.acquire()));
    clock.advance(100);
    if ("tryReplenish" in limiter) (limiter as { tryReplenish(): boolean }).tryReplenish();
    if (step === 5) held.dispose();
    await flush();
    look();
    seen.push(asked.map((one) => (one.state === "fulfilled" ? (one.value.reason ?? "granted") : one.state)));
    const refused = limiter.attemptAcquire();
    seen.push([refused.isAcquired, refused.reason, refused.retryAfterMs]);
  }
  if ("replenishmentPeriodMs" in limiter) seen.push(limiter.replenishmentPeriodMs);
  limiter.dispose();
  return seen;
}

const withClock = (kind: Kind, clock: ManualClock): Options => ({ ...kind.options, clock });
const cases = kinds.flatMap((kind) =>
  [...Object.keys(kind.options), "clock"].map((name) => ({ kind, name })),
);

describe.each(cases)("$name of a $kind.name", ({ kind, name }) => {
  it("that is right when it is checked, and then wrong, is what was checked", async () => {
    const plain = new ManualClock();
    const expected = await trace(kind.make, withClock(kind, plain), plain);
    for (const wrong of WRONG) {
      const other = new ManualClock();
      const options = turning(withClock(kind, other), name, () => wrong);
      expect({ wrong, seen: await trace(kind.make, options, other) }).toEqual({ wrong, seen: expected });
    }
  });

  it.each(WRONG)("that is right once, and then %j, is wrong for the next limiter", (wrong) => {
    const options = turning(withClock(kind, new ManualClock()), name, () => wrong);
    kind.make(options);
    for (let i = 0; i < 2; i++) expect(() => kind.make(options)).toThrow(`options.${name} must be`);
  });

  it("is read once by the limiter that is made first", () => {
    const options = turning(withClock(kind, new ManualClock()), name, () => {
      throw new Error("read again");
    });
    kind.make(options);
    expect(() => kind.make(options)).toThrow("read again");
  });

  it("is wrong as long as it is, and then right", () => {
    let value: unknown = -1;
    const given = withClock(kind, new ManualClock());
    const options = turning(given, name, () => value, 0);
    for (let i = 0; i < 2; i++) expect(() => kind.make(options)).toThrow(`options.${name} must be`);
    value = given[name];
    kind.make(options);
    value = -1;
    expect(() => kind.make(options)).toThrow(`options.${name} must be`);
  });
});

describe("codel of a ConcurrencyLimiter", () => {
  const codel = { targetMs: 10, intervalMs: 200, form: "controlLaw" };

  it.each(Object.keys(codel))("has a %s that is what was checked", (name) => {
    const options = turning(codel, name, () => -1);
    const make = () => new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, codel: options });
    expect(make).not.toThrow();
  });

  it("may change inside between two limiters, and is checked again", () => {
    const changing = { ...codel };
    const options = { permitLimit: 1, queueLimit: 1, codel: changing as Options };
    new ConcurrencyLimiter(options);
    changing.targetMs = -1;
    expect(() => new ConcurrencyLimiter(options)).toThrow("options.codel.targetMs must be");
  });
});
