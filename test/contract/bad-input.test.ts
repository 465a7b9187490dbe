import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  RateLimiter,
  RateLimitLease,
  ReplenishingRateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
  withLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";

// design.md C-11 and 4.5: bad input is a clear error that names the option, the value and what is allowed; a wrong
// type is a TypeError, a number out of range a RangeError; nothing is half done.

/** Something that is given where something else belongs. */
interface Bad {
  readonly title: string;
  // biome-ignore lint/suspicious/noExplicitAny: bad input is what the compiler would not let through
  readonly value: any;
  /** How a message shows it. */
  readonly shown: string;
}

const bad = (title: string, value: unknown, shown: string): Bad => ({ title, value, shown });

const NO_NUMBERS: readonly Bad[] = [
  bad("a string", "5", '"5"'),
  bad("null", null, "null"),
  bad("true", true, "true"),
  bad("false", false, "false"),
  bad("a bigint", 5n, "5n"),
  bad("a symbol", Symbol("five"), "Symbol(five)"),
  bad("an array", [5], "an array"),
  bad("an object with valueOf", { valueOf: () => 5 }, "an object"),
  bad("a function", () => 5, "a function"),
];
const MISSING = bad("undefined", undefined, "undefined");
const number = (value: number): Bad => bad(String(value), value, String(value));
const NOT_FINITE = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map(number);
const NO_COUNTS = [...NOT_FINITE, ...[2.5, -1, -2.5, 2 ** 53, Number.MIN_VALUE].map(number)];
const FIVE = bad("a number", 5, "5");
const NO_OBJECTS = [FIVE, ...NO_NUMBERS.filter(({ shown }) => shown !== "an object")];

/** A limiter of 5 with 3 permits held, and somebody who waits for 4. */
function arrange() {
  const clock = new ManualClock({ startMs: 100 });
  const limiter = new ConcurrencyLimiter({ permitLimit: 5, queueLimit: 5, clock });
  const lease = limiter.attemptAcquire(3);
  const waiting = watch(limiter.acquire(4));
  const timer = { fired: false };
  clock.setTimer(() => {
    timer.fired = true;
  }, 50);
  const state = () => ({
    ...limiter.getStatistics(),
    permitLimit: limiter.permitLimit,
    now: clock.now(),
    timers: clock.timerCount,
    timer: { ...timer },
  });
  return { clock, limiter, lease, waiting, state };
}
type Subject = ReturnType<typeof arrange>;

/** A place where something can be given. */
interface Place {
  readonly where: string;
  /** What a message calls it. */
  readonly name: string;
  /** What a message says is allowed. */
  readonly allowed: string;
  readonly wrongTypes: readonly Bad[];
  readonly outOfRange: readonly Bad[];
  use(value: Bad["value"], subject: Subject): unknown;
}

const fromOne = `an integer from 1 to ${Number.MAX_SAFE_INTEGER}`;
const fromZero = `an integer from 0 to ${Number.MAX_SAFE_INTEGER}`;
const construct = (options: object) => new ConcurrencyLimiter({ permitLimit: 5, ...options });
const idleWork = () => expect.unreachable("the work was started");

/** What a call throws, or its promise rejects with, without waiting for a promise that stays pending. */
async function errorOf(action: () => unknown): Promise<Error> {
  const call = watch((async () => action())());
  await flush();
  return call.reason instanceof Error ? call.reason : new Error(`no error was thrown: ${call.state}`);
}

const COUNT = { allowed: fromZero, outOfRange: NO_COUNTS };
/** A time-out is left out to be unbounded: 0 and Infinity are mistakes. */
const TIME_OUT = {
  allowed: "a finite number of milliseconds above 0",
  wrongTypes: NO_NUMBERS,
  outOfRange: [...NOT_FINITE, ...[0, -0, -1, -0.5, -Number.MAX_VALUE].map(number)],
};
/** Looked at only by limiters that go by it. */
const PRIORITY = {
  name: "options.priority",
  allowed: "a safe integer",
  wrongTypes: [bad("the string 1", "1", '"1"'), ...NO_NUMBERS],
  outOfRange: [
    ...NOT_FINITE,
    ...[1.5, -1.5, Number.MIN_VALUE, 2 ** 53, -(2 ** 53), Number.MAX_VALUE].map(number),
  ],
};

/** The limiters whose permits come back with time, made with good options save those that are given. */
const REPLENISHING = [
  {
    kind: "FixedWindowRateLimiter",
    // biome-ignore lint/suspicious/noExplicitAny: bad input is what the compiler would not let through
    bare: (options: any) => new FixedWindowRateLimiter(options),
    good: { permitLimit: 5, windowMs: 1000 },
    counts: ["permitLimit"],
    duration: "windowMs",
  },
  {
    kind: "SlidingWindowRateLimiter",
    // biome-ignore lint/suspicious/noExplicitAny: as above
    bare: (options: any) => new SlidingWindowRateLimiter(options),
    good: { permitLimit: 5, windowMs: 1000, segmentsPerWindow: 4 },
    counts: ["permitLimit", "segmentsPerWindow"],
    duration: "windowMs",
  },
  {
    kind: "TokenBucketRateLimiter",
    // biome-ignore lint/suspicious/noExplicitAny: as above
    bare: (options: any) => new TokenBucketRateLimiter(options),
    good: { tokenLimit: 5, tokensPerPeriod: 5, replenishmentPeriodMs: 1000 },
    counts: ["tokenLimit", "tokensPerPeriod"],
    duration: "replenishmentPeriodMs",
  },
].map((one) => ({ ...one, make: (options: object) => one.bare({ ...one.good, ...options }) }));

/** What is checked alike in all of them. */
function placesOf({ kind, bare, make, counts, duration }: (typeof REPLENISHING)[number]): Place[] {
  const option = (name: string, rest: Omit<Place, "where" | "name" | "use">): Place => ({
    where: `the option ${name} of ${kind}`,
    name: `options.${name}`,
    ...rest,
    use: (value) => make({ [name]: value }),
  });
  const duringALease = (where: string, name: string, rest: Omit<Place, "where" | "name">): Place => ({
    where: `${where} of ${kind}`,
    name,
    ...rest,
  });
  const most = { segmentsPerWindow: 1_000_000 } as Record<string, number | undefined>;
  return [
    ...counts.map((name) =>
      option(name, {
        allowed: `an integer from 1 to ${most[name] ?? Number.MAX_SAFE_INTEGER}`,
        wrongTypes: [MISSING, ...NO_NUMBERS],
        outOfRange: [
          number(0),
          ...NO_COUNTS,
          ...(most[name] === undefined ? [] : [number(most[name] + 1), number(Number.MAX_SAFE_INTEGER)]),
        ],
      }),
    ),
    option(duration, {
      allowed: "a finite number of milliseconds above 0",
      wrongTypes: [MISSING, ...NO_NUMBERS],
      outOfRange: [...NOT_FINITE, number(0), number(-0.5), number(-1000)],
    }),
    option("queueLimit", { wrongTypes: NO_NUMBERS, ...COUNT }),
    option("queueTimeoutMs", TIME_OUT),
    option("queueProcessingOrder", {
      allowed: '"oldestFirst" or "newestFirst" or "highestPriorityFirst"',
      wrongTypes: [FIVE, ...NO_NUMBERS],
      outOfRange: [],
    }),
    option("autoReplenishment", {
      allowed: "true or false",
      wrongTypes: [FIVE, ...NO_NUMBERS.filter(({ value }) => typeof value !== "boolean")],
      outOfRange: [],
    }),
    option("clock", {
      allowed: "an object with now() and setTimer()",
      wrongTypes: [FIVE, ...NO_NUMBERS],
      outOfRange: [],
    }),
    {
      where: `the options of ${kind}`,
      name: "options",
      allowed: "an object",
      wrongTypes: [MISSING, ...NO_OBJECTS],
      outOfRange: [],
      use: bare,
    },
    duringALease("pause", "durationMs", {
      allowed: "a finite number of milliseconds above 0",
      wrongTypes: [MISSING, ...NO_NUMBERS],
      outOfRange: [...NOT_FINITE, number(0), number(-1)],
      use: (durationMs, { clock }) => make({ clock }).pause(durationMs),
    }),
    duringALease("estimateWaitMs", "permitCount", {
      wrongTypes: NO_NUMBERS,
      ...COUNT,
      use: (permitCount, { clock }) => make({ clock }).estimateWaitMs(permitCount),
    }),
    ...[0, 5].map((taken) =>
      duringALease(`acquire's option priority, with ${taken} of 5 taken,`, PRIORITY.name, {
        ...PRIORITY,
        use: async (priority, { clock }) => {
          const limiter = make({ clock, queueLimit: 5, queueProcessingOrder: "highestPriorityFirst" });
          limiter.attemptAcquire(taken);
          const before = limiter.getStatistics();
          await limiter.acquire(1, { priority }).finally(() => {
            expect(limiter.getStatistics()).toEqual(before);
          });
        },
      }),
    ),
    duringALease("lease.adjust", "actualPermits", {
      wrongTypes: [MISSING, ...NO_NUMBERS],
      ...COUNT,
      use: (actualPermits, { clock }) => make({ clock }).attemptAcquire(2).adjust(actualPermits),
    }),
  ];
}

const PLACES: readonly Place[] = [
  {
    where: "the option permitLimit",
    name: "options.permitLimit",
    allowed: fromOne,
    wrongTypes: [MISSING, ...NO_NUMBERS],
    outOfRange: [number(0), ...NO_COUNTS],
    use: (permitLimit) => construct({ permitLimit }),
  },
  {
    where: "the option queueLimit",
    name: "options.queueLimit",
    wrongTypes: NO_NUMBERS,
    ...COUNT,
    use: (queueLimit) => construct({ queueLimit }),
  },
  {
    where: "the option queueTimeoutMs",
    name: "options.queueTimeoutMs",
    ...TIME_OUT,
    use: (queueTimeoutMs) => construct({ queueTimeoutMs }),
  },
  ...[0, 5].map((taken) => ({
    where: `acquire's option priority, with ${taken} of 5 taken,`,
    ...PRIORITY,
    use: async (priority: Bad["value"]) => {
      const limiter = construct({ queueLimit: 5, queueProcessingOrder: "highestPriorityFirst" });
      limiter.attemptAcquire(taken);
      const before = limiter.getStatistics();
      await limiter.acquire(1, { priority }).finally(() => {
        expect(limiter.getStatistics()).toEqual(before);
      });
    },
  })),
  {
    where: "the option queueProcessingOrder",
    name: "options.queueProcessingOrder",
    allowed: '"oldestFirst" or "newestFirst" or "highestPriorityFirst"',
    // Another word is a TypeError too (table 2.14).
    wrongTypes: [FIVE, ...NO_NUMBERS, bad("another word", "OldestFirst", '"OldestFirst"')],
    outOfRange: [],
    use: (queueProcessingOrder) => construct({ queueProcessingOrder }),
  },
  {
    where: "the option clock",
    name: "options.clock",
    allowed: "an object with now() and setTimer()",
    wrongTypes: [
      FIVE,
      ...NO_NUMBERS,
      bad("a clock that sets no timers", { now: () => 0 }, "an object"),
      bad("a clock that cannot be read", { now: 0, setTimer: () => {} }, "an object"),
    ],
    outOfRange: [],
    use: (clock) => construct({ clock }),
  },
  {
    where: "the options of ConcurrencyLimiter",
    name: "options",
    allowed: "an object",
    wrongTypes: [MISSING, ...NO_OBJECTS],
    outOfRange: [],
    use: (options) => new ConcurrencyLimiter(options),
  },
  {
    where: "attemptAcquire",
    name: "permitCount",
    wrongTypes: NO_NUMBERS,
    ...COUNT,
    use: (permitCount, { limiter }) => limiter.attemptAcquire(permitCount),
  },
  {
    where: "acquire, alone,",
    name: "permitCount",
    // An object in the first place is the options.
    wrongTypes: NO_NUMBERS.filter(({ shown }) => shown !== "an object" && shown !== "an array"),
    ...COUNT,
    use: (permitCount, { limiter }) => limiter.acquire(permitCount),
  },
  {
    where: "acquire, before the options,",
    name: "permitCount",
    wrongTypes: NO_NUMBERS,
    ...COUNT,
    use: (permitCount, { limiter }) => limiter.acquire(permitCount, {}),
  },
  {
    where: "lease.adjust",
    name: "actualPermits",
    wrongTypes: [MISSING, ...NO_NUMBERS],
    ...COUNT,
    use: (actualPermits, { lease }) => lease.adjust(actualPermits),
  },
  {
    where: "withLease's option permitCount",
    name: "permitCount",
    wrongTypes: NO_NUMBERS,
    ...COUNT,
    use: (permitCount, { limiter }) => withLease(limiter, idleWork, { permitCount }),
  },
  {
    where: "the permitLimit setter",
    name: "permitLimit",
    allowed: fromOne,
    wrongTypes: [MISSING, ...NO_NUMBERS],
    outOfRange: [number(0), ...NO_COUNTS],
    use: (permitLimit, { limiter }) => {
      limiter.permitLimit = permitLimit;
    },
  },
  {
    where: "pause",
    name: "durationMs",
    allowed: "a finite number of milliseconds above 0",
    wrongTypes: [MISSING, ...NO_NUMBERS],
    outOfRange: [...NOT_FINITE, number(0), number(-1)],
    use: (durationMs, { limiter }) => limiter.pause(durationMs),
  },
  ...[
    {
      where: "the options of acquire",
      use: (options: never, { limiter }: Subject) => limiter.acquire(1, options),
    },
    {
      where: "the options of withLease",
      use: (options: never, { limiter }: Subject) => withLease(limiter, idleWork, options),
    },
  ].map((place) => ({
    ...place,
    name: "options",
    allowed: "an object",
    wrongTypes: NO_OBJECTS,
    outOfRange: [],
  })),
  {
    where: "acquire's option signal",
    name: "options.signal",
    allowed: "an AbortSignal",
    wrongTypes: [
      FIVE,
      ...NO_NUMBERS,
      bad("an EventTarget that is no signal", new EventTarget(), "an object"),
      bad("a signal that keeps its listeners", { aborted: false, addEventListener() {} }, "an object"),
    ],
    outOfRange: [],
    use: (signal, { limiter }) => limiter.acquire(1, { signal }),
  },
  {
    where: "acquire's option maxWaitMs",
    name: "options.maxWaitMs",
    allowed: "a finite number of milliseconds",
    wrongTypes: NO_NUMBERS,
    outOfRange: NOT_FINITE,
    use: (maxWaitMs, { limiter }) => limiter.acquire({ maxWaitMs }),
  },
  ...[
    {
      where: "ManualClock's option startMs",
      name: "options.startMs",
      option: "startMs",
      legal: [] as string[],
    },
    {
      where: "ManualClock's option timerSkewMs",
      name: "options.timerSkewMs",
      option: "timerSkewMs",
      legal: ["a function"],
    },
  ].map(({ where, name, option, legal }) => ({
    where,
    name,
    allowed: "a finite number",
    wrongTypes: NO_NUMBERS.filter(({ title }) => !legal.includes(title)),
    outOfRange: NOT_FINITE,
    use: (value: unknown) => new ManualClock({ [option]: value }),
  })),
  {
    where: "ManualClock.advance",
    name: "ms",
    allowed: "a finite number of at least 0",
    wrongTypes: [MISSING, ...NO_NUMBERS],
    outOfRange: [...NOT_FINITE, number(-1)],
    use: (ms, { clock }) => clock.advance(ms),
  },
  {
    where: "ManualClock.set",
    name: "nowMs",
    allowed: "a finite number",
    wrongTypes: [MISSING, ...NO_NUMBERS],
    outOfRange: NOT_FINITE,
    use: (nowMs, { clock }) => clock.set(nowMs),
  },
  {
    where: "ManualClock.setTimer's delay",
    name: "delayMs",
    allowed: "from 1 to 2147483647",
    wrongTypes: [MISSING, ...NO_NUMBERS],
    outOfRange: [...NOT_FINITE, number(0), number(0.5), number(2 ** 31)],
    use: (delayMs, { clock }) => clock.setTimer(() => {}, delayMs),
  },
  {
    where: "the options of ManualClock",
    name: "options",
    allowed: "an object",
    wrongTypes: NO_OBJECTS,
    outOfRange: [],
    use: (options) => new ManualClock(options),
  },
  ...REPLENISHING.flatMap(placesOf),
  {
    where: "the option refill of TokenBucketRateLimiter",
    name: "options.refill",
    allowed: '"stepped" or "continuous"',
    wrongTypes: [FIVE, ...NO_NUMBERS, bad("another word", "Stepped", '"Stepped"')],
    outOfRange: [],
    use: (refill) => REPLENISHING[2]?.make({ refill }),
  },
];

describe.each(PLACES.map((place) => [place.where, place] as const))("%s", (_where, place) => {
  const { name, allowed, wrongTypes, outOfRange, use } = place;
  const cases = [
    ...wrongTypes.map((one) => [one.title, "TypeError", one, TypeError] as const),
    ...outOfRange.map((one) => [one.title, "RangeError", one, RangeError] as const),
  ];

  it.each(cases)("C-11 answers %s with a %s that explains", async (_, __, { value, shown }, expected) => {
    const subject = arrange();
    const before = subject.state();
    const error = await errorOf(() => use(value, subject));
    expect(error).toBeInstanceOf(expected);
    expect(error.message).toContain(`${name} must be `);
    expect(error.message).toContain(allowed);
    expect(error.message.slice(error.message.lastIndexOf("; got "))).toBe(`; got ${shown}.`);
    expect(subject.state()).toEqual(before);
    // Nobody is paused, and no permit is lost or made.
    subject.lease.dispose();
    await flush();
    expect(subject.waiting.value.isAcquired).toBe(true);
    expect(subject.limiter.getStatistics().currentAvailablePermits).toBe(1);
  });
});

describe("names that are not known", () => {
  it.each<[string, string, (options: object, subject: Subject) => unknown, string]>([
    ["ConcurrencyLimiter", "permitlimit", construct, "permitLimit"],
    ["ConcurrencyLimiter", "queueLimits", construct, "queueLimit"],
    ["ConcurrencyLimiter", "queueProcesingOrder", construct, "queueProcessingOrder"],
    ["ConcurrencyLimiter", "Clock", construct, "clock"],
    ["acquire", "sginal", (options, { limiter }) => limiter.acquire(1, options), "signal"],
    ["acquire", "priorty", (options, { limiter }) => limiter.acquire(1, options), "priority"],
    ["acquire", "maxWait", (options, { limiter }) => limiter.acquire(1, options), "maxWaitMs"],
    [
      "acquire in the first place",
      "maxWait",
      (options, { limiter }) => limiter.acquire(options),
      "maxWaitMs",
    ],
    ["withLease", "maxWait", (options, { limiter }) => withLease(limiter, idleWork, options), "maxWaitMs"],
    [
      "withLease",
      "permitCout",
      (options, { limiter }) => withLease(limiter, idleWork, options),
      "permitCount",
    ],
    ...REPLENISHING.flatMap(({ kind, make, duration, counts }) =>
      [...counts, duration, "queueLimit", "queueProcessingOrder", "autoReplenishment", "clock"].map(
        (name): [string, string, (options: object) => unknown, string] => [kind, `${name}s`, make, name],
      ),
    ),
    ["TokenBucketRateLimiter", "refil", (options) => REPLENISHING[2]?.make(options), "refill"],
    [
      "FixedWindowRateLimiter",
      "segmentPerWindow",
      (options) => REPLENISHING[0]?.make(options),
      "permitLimit",
    ],
    ["ManualClock", "startMS", (options) => new ManualClock(options), "startMs"],
    ["ManualClock", "timerSkew", (options) => new ManualClock(options), "timerSkewMs"],
  ])("C-11 in the options of %s, %s is a TypeError that names the nearest", async (_, name, use, nearest) => {
    const subject = arrange();
    const before = subject.state();
    const error = await errorOf(() => use({ [name]: 1 }, subject));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain(`options.${name} `);
    expect(error.message).toMatch(new RegExp(`\\b${nearest}\\b`));
    expect(subject.state()).toEqual(before);
  });

  it("C-11 lists the names that there are when none is near", async () => {
    const { limiter } = arrange();
    expect((await errorOf(() => limiter.acquire(1, { timeout: 100 } as object))).message).toBe(
      "options.timeout is not an option; the options are signal, priority, maxWaitMs.",
    );
    expect((await errorOf(() => construct({ maxQueue: 3 }))).message).toMatch(
      /^options\.maxQueue is not an option; the options are permitLimit, .*queueLimit/,
    );
  });

  it("C-11 says of options in the place of a count that an attempt never waits", async () => {
    const { limiter } = arrange();
    const { message } = await errorOf(() => limiter.attemptAcquire({ maxWaitMs: 5 } as never));
    expect(message).toMatch(/attemptAcquire takes no options, it never waits/);
    expect((await errorOf(() => limiter.attemptAcquire("5" as never))).message).not.toMatch(/options/);
  });

  it("C-11 complains of an unknown name even when its value is undefined", async () => {
    const { limiter } = arrange();
    const error = await errorOf(() => limiter.acquire(1, { timeout: undefined } as object));
    expect(error.message).toMatch(/options\.timeout is not an option/);
  });

  it.each<[string, (options: never, subject: Subject) => unknown]>([
    ["ConcurrencyLimiter", (options) => new ConcurrencyLimiter(options)],
    ...REPLENISHING.map(({ kind, bare }): [string, (options: never) => unknown] => [kind, bare]),
    ["acquire", (options, { limiter }) => limiter.acquire(1, options)],
    ["acquire in the first place", (options, { limiter }) => limiter.acquire(options)],
  ])("C-11 in the options of %s, a __proto__ key from JSON is a TypeError", async (_, use) => {
    const options: unknown = JSON.parse('{"__proto__":{"maxWaitMs":0,"permitLimit":5}}');
    const subject = arrange();
    const before = subject.state();
    const error = await errorOf(() => use(options as never, subject));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toContain("__proto__");
    expect(subject.state()).toEqual(before);
    expect(Object.hasOwn(Object.prototype, "maxWaitMs")).toBe(false);
  });

  it("takes options that an object inherits", async () => {
    const { limiter } = arrange();
    const refused = await limiter.acquire(4, Object.create({ maxWaitMs: -1 }) as object);
    expect(refused.reason).toBe("deadline_expired");
    expect(construct(Object.create(null) as object).permitLimit).toBe(5);
  });
});

describe("a priority where nobody goes by it", () => {
  const MAKERS: readonly (readonly [string, (options: object) => RateLimiter])[] = [
    ["ConcurrencyLimiter", construct],
    ...REPLENISHING.map(({ kind, make }) => [kind, make] as const),
  ];

  it.each(MAKERS)("Q-04 is not checked by %s", async (_, make) => {
    for (const queueProcessingOrder of ["oldestFirst", "newestFirst"]) {
      const limiter = make({ queueProcessingOrder, queueLimit: 100 });
      for (const { value } of [...PRIORITY.wrongTypes, ...PRIORITY.outOfRange])
        limiter.acquire(0, { priority: value }).catch((error: unknown) => expect.unreachable(String(error)));
      await flush();
      expect(limiter.getStatistics()?.totalSuccessfulLeases).toBe(
        PRIORITY.wrongTypes.length + PRIORITY.outOfRange.length,
      );
    }
  });

  it.each(MAKERS)("Q-04 is not even read by %s", async (_, make) => {
    for (const queueProcessingOrder of ["oldestFirst", "newestFirst"]) {
      const limiter = make({ queueProcessingOrder, queueLimit: 100 });
      const options = {
        get priority(): number {
          return expect.unreachable("it was read");
        },
      };
      expect((await limiter.acquire(5, options)).isAcquired).toBe(true);
      const waiting = watch(limiter.acquire(1, options));
      await flush();
      expect(waiting.state).toBe("pending");
      limiter.dispose();
    }
  });

  it.each(MAKERS)(
    "P9 takes all safe integers where %s goes by it, -0 and undefined included",
    async (_, make) => {
      const limiter = make({ queueProcessingOrder: "highestPriorityFirst", queueLimit: 100 });
      limiter.attemptAcquire(5);
      const { MAX_SAFE_INTEGER, MIN_SAFE_INTEGER } = Number;
      const waits = [MAX_SAFE_INTEGER, MIN_SAFE_INTEGER, 0, -0, undefined].map((priority) =>
        watch(limiter.acquire(1, { priority })),
      );
      await flush();
      expect(waits.map(({ state }) => state)).toEqual(waits.map(() => "pending"));
      limiter.dispose();
    },
  );
});

describe("a signal in place of the options", () => {
  const { signal } = new AbortController();
  it.each<[string, (limiter: RateLimiter) => Promise<unknown>]>([
    ["acquire(1, signal)", (limiter) => limiter.acquire(1, signal as never)],
    ["acquire(signal)", (limiter) => limiter.acquire(signal as never)],
    ["withLease(limiter, work, signal)", (limiter) => withLease(limiter, idleWork, signal as never)],
  ])("C-11 is a TypeError in %s, since it would never be listened to", async (_, ask) => {
    const { limiter, state } = arrange();
    const before = state();
    const answer = watch(ask(limiter));
    await flush();
    expect(state()).toEqual(before);
    expect(answer.reason).toBeInstanceOf(TypeError);
    expect(String(answer.reason)).toMatch(/signal/i);
  });
});

describe("a signal of a polyfill or another realm", () => {
  const foreign = (aborted: boolean) =>
    ({ aborted, reason: "left", addEventListener() {}, removeEventListener() {} }) as unknown as AbortSignal;

  it("is taken although it has no throwIfAborted", async () => {
    expect((await construct({}).acquire({ signal: foreign(false) })).isAcquired).toBe(true);
    const chain = RateLimiter.createChained(new NoLimiter(), construct({}));
    expect((await chain.acquire({ signal: foreign(false) })).isAcquired).toBe(true);
    expect(await withLease(construct({}), () => "done", { signal: foreign(false) })).toBe("done");
  });

  it("rejects with its reason when it is aborted", async () => {
    const { limiter } = arrange();
    await expect(limiter.acquire({ signal: foreign(true) })).rejects.toBe("left");
    await expect(withLease(limiter, idleWork, { signal: foreign(true) })).rejects.toBe("left");
  });
});

describe("abstract limiters", () => {
  it.each([
    ["RateLimiter", RateLimiter],
    ["ReplenishingRateLimiter", ReplenishingRateLimiter],
  ])("C-11 new %s() is a TypeError without types too", (name, Class) => {
    const Constructor = Class as unknown as new () => unknown;
    expect(() => new Constructor()).toThrow(TypeError);
    expect(() => new Constructor()).toThrow(`${name} is abstract`);
  });
});

describe("messages", () => {
  it("show a long value short and on one line", async () => {
    const error = await errorOf(() => construct({ queueLimit: `a\n${"b".repeat(10_000)}` }));
    expect(error.message.length).toBeLessThan(200);
    expect(error.message).not.toContain("\n");
  });

  it("show a long name short", async () => {
    const error = await errorOf(() => construct({ ["b".repeat(10_000)]: 1 }));
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message.length).toBeLessThan(200);
  });
});

describe("input that throws", () => {
  const trap = new Error("trap");
  const throwing = {
    get maxWaitMs(): number {
      throw trap;
    },
  };

  it("R-CORE-3 design 4.6 rejects with what reading an option throws, and takes nothing", async () => {
    const { limiter, state } = arrange();
    const before = state();
    expect(await errorOf(() => limiter.acquire(1, throwing))).toBe(trap);
    expect(await errorOf(() => limiter.acquire(throwing))).toBe(trap);
    expect(state()).toEqual(before);
  });

  it.each(
    PLACES.filter(({ where }) => /acquire( |'|$)/.test(where)).map((place) => [place.where, place] as const),
  )(
    "R-CORE-3 rejects and never throws, for a bad value of %s",
    async (_, { wrongTypes, outOfRange, use }) => {
      const subject = arrange();
      for (const { value } of [...wrongTypes, ...outOfRange]) {
        const answer = use(value, subject);
        expect(answer).toBeInstanceOf(Promise);
        await expect(answer).rejects.toThrow(Error);
      }
    },
  );
});

describe("input that is allowed", () => {
  it.each([Number.MIN_SAFE_INTEGER, -0.5, 0, 0.25, 2 ** 53])(
    "C-2 takes %d for maxWaitMs",
    async (maxWaitMs) => {
      const { limiter } = arrange();
      limiter.attemptAcquire(0);
      const waiting = watch(limiter.acquire(1, { maxWaitMs }));
      await flush();
      expect(waiting.state).toBe(maxWaitMs > 0 ? "pending" : "fulfilled");
    },
  );

  it("takes undefined for every option that may be left out, and for a count", async () => {
    const limiter = construct({ queueLimit: undefined, queueProcessingOrder: undefined, clock: undefined });
    expect(limiter.attemptAcquire(undefined).isAcquired).toBe(true);
    const none = { signal: undefined, priority: undefined, maxWaitMs: undefined };
    expect(await limiter.acquire(undefined, none)).toBeInstanceOf(RateLimitLease);
    expect(await limiter.acquire(none)).toBeInstanceOf(RateLimitLease);
    expect(await withLease(limiter, () => "done", { permitCount: undefined, ...none })).toBe("done");
    expect(limiter.getStatistics().totalSuccessfulLeases).toBe(4);
  });

  it("takes the largest safe integer for every limit and for a count", () => {
    const most = Number.MAX_SAFE_INTEGER;
    const limiter = construct({ permitLimit: most, queueLimit: most });
    limiter.attemptAcquire(most).adjust(most);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(0);
  });

  it.each(REPLENISHING)("takes the smallest and the largest values for every option of $kind", (one) => {
    const { make, counts, duration } = one;
    const least = Object.fromEntries(counts.map((name) => [name, 1]));
    for (const options of [
      { ...least, [duration]: 0.001 },
      { ...least, [duration]: Number.MAX_VALUE },
      { [counts[0] as string]: Number.MAX_SAFE_INTEGER, queueLimit: Number.MAX_SAFE_INTEGER },
      ...["oldestFirst", "newestFirst", "highestPriorityFirst"].map((queueProcessingOrder) => ({
        queueProcessingOrder,
      })),
      ...[Number.MIN_VALUE, 2 ** 32, Number.MAX_VALUE].map((queueTimeoutMs) => ({ queueTimeoutMs })),
      ...[true, false].map((autoReplenishment) => ({ autoReplenishment })),
    ]) {
      const limiter = make({ clock: new ManualClock(), ...options });
      const { currentAvailablePermits } = limiter.getStatistics();
      expect(limiter.attemptAcquire(currentAvailablePermits).isAcquired).toBe(true);
      expect(limiter.attemptAcquire().retryAfterMs).toBeGreaterThan(0);
    }
  });

  it.each(REPLENISHING)("takes undefined for every option of $kind that may be left out", ({ make }) => {
    const limiter = make({
      queueLimit: undefined,
      queueProcessingOrder: undefined,
      autoReplenishment: undefined,
      clock: undefined,
    });
    expect(limiter.isAutoReplenishing).toBe(true);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it("takes a million segments, and both kinds of refill", () => {
    const clock = new ManualClock();
    const limiter = new SlidingWindowRateLimiter({
      ...{ permitLimit: 1, windowMs: 1000, segmentsPerWindow: 1_000_000 },
      clock,
    });
    limiter.attemptAcquire();
    clock.advance(999.5);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    clock.advance(0.5);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
    for (const refill of ["stepped", "continuous", undefined]) {
      expect(REPLENISHING[2]?.make({ refill }).attemptAcquire().isAcquired).toBe(true);
    }
  });
});
