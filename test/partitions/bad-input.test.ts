import { NoLimiter, PartitionedRateLimiter, RateLimitPartition } from "headgate";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../support.js";
import { concurrencyByKey, errorOf, show } from "./support.js";

// design.md C-11 and 4.5, for partitioned limiters; R-PART-17.

// biome-ignore lint/suspicious/noExplicitAny: bad input is what the compiler would not let through
type Anything = any;

/** Values of each type, and how a message shows them. */
const VALUES: readonly [title: string, value: unknown, shown: string][] = [
  ["undefined", undefined, "undefined"],
  ["null", null, "null"],
  ["a string", "5", '"5"'],
  ["a boolean", true, "true"],
  ["a number", 5, "5"],
  ["a bigint", 5n, "5n"],
  ["a symbol", Symbol("five"), "Symbol(five)"],
  ["an array", [], "an array"],
  ["an object", { valueOf: () => 5 }, "an object"],
  ["a function", () => 5, "a function"],
];
const only = (...shown: string[]) => VALUES.filter(([, , as]) => !shown.includes(as));
const numbers = (...values: number[]) =>
  values.map((value): [string, unknown, string] => [String(value), value, String(value)]);

const partitioner = () => RateLimitPartition.getNoLimiter("k");
const create = (options: Anything) => PartitionedRateLimiter.create(partitioner, options);
const limiter = create({ clock: new ManualClock() });
const aDuration = "a finite number of milliseconds above 0";
const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

interface Place {
  readonly name: string;
  readonly allowed: string;
  readonly wrong: readonly [string, unknown, string][];
  readonly outOfRange?: readonly [string, unknown, string][];
  use(value: Anything): unknown;
}

const option = (name: string, rest: Omit<Place, "name" | "use">): Place => ({
  name: `options.${name}`,
  ...rest,
  use: (value) => create({ [name]: value }),
});
const aFunction = { allowed: "a function", wrong: only("a function") };
const key = "k";

const PLACES: readonly Place[] = [
  { name: "partitioner", ...aFunction, use: (value) => PartitionedRateLimiter.create(value) },
  { name: "options", allowed: "an object", wrong: only("undefined", "an object"), use: create },
  option("maxPartitions", {
    allowed: `an integer from 1 to ${Number.MAX_SAFE_INTEGER}`,
    wrong: only("undefined", "5"),
    outOfRange: numbers(0, -1, 1.5, nan, infinity, 2 ** 53),
  }),
  option("idleLimitMs", {
    allowed: aDuration,
    wrong: only("undefined", "5"),
    outOfRange: numbers(0, -1, nan, infinity, -infinity),
  }),
  option("overflow", { allowed: '"share" or "reject"', wrong: only("undefined") }),
  option("onBackgroundError", { allowed: "a function", wrong: only("undefined", "a function") }),
  option("clock", { allowed: "an object with now() and setTimer()", wrong: only("undefined") }),
  { name: "factory", ...aFunction, use: (value) => RateLimitPartition.get(key, value) },
  {
    name: "keyAdapter",
    ...aFunction,
    use: (value) => limiter.withTranslatedKey(value, { leaveOpen: true }),
  },
  {
    name: "options",
    allowed: "an object",
    wrong: only("an object"),
    use: (value) => limiter.withTranslatedKey(String, value),
  },
  {
    name: "options.leaveOpen",
    allowed: "true or false",
    wrong: only("true"),
    use: (value) => limiter.withTranslatedKey(String, { leaveOpen: value }),
  },
  {
    name: "permitCount",
    allowed: `an integer from 0 to ${Number.MAX_SAFE_INTEGER}`,
    wrong: only("undefined", "5"),
    outOfRange: numbers(-1, 0.5, nan, infinity, 2 ** 53),
    use: (value) => limiter.attemptAcquire("r", value),
  },
  {
    name: "permitCount",
    allowed: `an integer from 0 to ${Number.MAX_SAFE_INTEGER}`,
    wrong: only("undefined", "5", "an object", "an array"),
    outOfRange: numbers(-1, 0.5, nan, infinity, 2 ** 53),
    use: (value) => limiter.acquire("r", value),
  },
  {
    name: "options",
    allowed: "an object",
    wrong: only("undefined", "an object"),
    use: (value) => limiter.acquire("r", 1, value),
  },
  {
    name: "options.maxWaitMs",
    allowed: "a finite number of milliseconds",
    wrong: only("undefined", "5"),
    outOfRange: numbers(nan, infinity),
    use: (value) => limiter.acquire("r", { maxWaitMs: value }),
  },
];

describe("bad input", () => {
  it.each(
    PLACES.flatMap(({ wrong, outOfRange = [], ...place }) => [
      ...wrong.map((value) => [place.name, ...value, TypeError, place] as const),
      ...outOfRange.map((value) => [place.name, ...value, RangeError, place] as const),
    ]),
  )("C-11 for %s, %s is an error that says so", async (name, _, value, shown, kind, { allowed, use }) => {
    const before = show(limiter.getTotals());
    const error = await errorOf(() => use(value));
    expect(error).toBeInstanceOf(kind);
    const { message } = error as Error;
    expect(message).toContain(`${name} must be ${allowed}`);
    expect(message).toContain(`got ${shown}`);
    expect(show(limiter.getTotals())).toBe(before);
  });

  it.each(["maxPartition", "overFlow", "idleLimit", "onBackgroundErrors", "clocks"])(
    "C-11 an option %s of a partitioned limiter is a TypeError that names the nearest",
    (name) => {
      const known = ["maxPartitions", "overflow", "idleLimitMs", "onBackgroundError", "clock"];
      const nearest = known.find((k) => k.toLowerCase().startsWith(name.slice(0, 4).toLowerCase()));
      const message = `options.${name} is not an option; did you mean options.${nearest}?`;
      expect(() => create({ [name]: undefined })).toThrow(new TypeError(message));
    },
  );

  it("C-11 an unknown option of a view is a TypeError", () => {
    const options = { leaveOpen: true, leaveopen: true };
    expect(() => limiter.withTranslatedKey(String, options)).toThrow(/options\.leaveopen is not an option/);
  });

  it("R-CORE-3 rejects, and does not throw, when acquire is given something else than it takes", () => {
    for (const [, value] of only("undefined", "5", "an object")) {
      const answer = limiter.acquire("r", value as never);
      expect(answer).toBeInstanceOf(Promise);
      answer.catch(() => {});
    }
  });

  it("design 4.5 a count above the limit of the partition is a RangeError that names both", async () => {
    const { limiter: small } = concurrencyByKey(3);
    for (const call of [() => small.attemptAcquire("a", 4), () => small.acquire("a", 4)]) {
      const error = await errorOf(call);
      expect(error).toBeInstanceOf(RangeError);
      expect(String(error)).toMatch(/\b4\b.*\b3\b/);
    }
    expect(show(small.peekStatistics("a"))).toBe("3/0/0/0");
  });

  it("C-11 a factory with bad options is the caller's error at use, and makes nothing", async () => {
    const broken = PartitionedRateLimiter.create(
      (k: string) => RateLimitPartition.getConcurrencyLimiter(k, () => ({ permitLimit: 0 })),
      { clock: new ManualClock() },
    );
    expect(String(await errorOf(() => broken.acquire("a")))).toMatch(/^RangeError: options\.permitLimit/);
    expect(broken.size).toBe(0);
  });
});

describe("mistakes that are told by name", () => {
  const helpers = [
    "getConcurrencyLimiter",
    "getFixedWindowLimiter",
    "getSlidingWindowLimiter",
    "getTokenBucketLimiter",
  ] as const;

  it.each(helpers)("C-11 options of %s that are no function are a TypeError at once", (name) => {
    for (const [, value, shown] of only("a function")) {
      expect(() => RateLimitPartition[name]("k", value as never)).toThrow(
        new TypeError(`options must be a function of the key; got ${shown}.`),
      );
    }
  });

  it.each(helpers)("C-11 what the options of %s return must be an object", (name) => {
    for (const [, value, shown] of only("an object")) {
      const partition = RateLimitPartition[name]("k", () => value as never);
      expect(() => partition.factory("k")).toThrow(new TypeError(`options must be an object; got ${shown}.`));
    }
  });

  it("C-11 a partitioner or a factory that answers with a promise is told to answer at once", async () => {
    const clock = new ManualClock();
    const late = PartitionedRateLimiter.create((async () => partitioner()) as Anything, { clock });
    expect(() => late.attemptAcquire("r")).toThrow(
      new TypeError(
        "what the partitioner returns must be a RateLimitPartition; got a promise; the partitioner must answer at once.",
      ),
    );
    const made = PartitionedRateLimiter.create(
      () => RateLimitPartition.get(key, (async () => new NoLimiter()) as Anything),
      { clock },
    );
    expect(String(await errorOf(() => made.acquire("r")))).toBe(
      "TypeError: what the factory returns must be a RateLimiter; got a promise; the factory must answer at once.",
    );
  });

  it("C-11 new PartitionedRateLimiter names create; a class that extends it can be made", () => {
    const Abstract = PartitionedRateLimiter as Anything;
    expect(() => new Abstract(partitioner)).toThrow(/use PartitionedRateLimiter\.create\(partitioner\)/);
    class Mine extends PartitionedRateLimiter<string> {
      override getStatistics(): undefined {}
      protected override attemptAcquireCore() {
        return new NoLimiter().attemptAcquire();
      }
      protected override acquireCore() {
        return this.attemptAcquireCore();
      }
    }
    expect(new Mine().attemptAcquire("r").isAcquired).toBe(true);
  });
});

describe("input that is allowed", () => {
  it("takes undefined for every option", () => {
    const names = ["maxPartitions", "overflow", "idleLimitMs", "onBackgroundError", "clock"];
    const plain = create(Object.fromEntries(names.map((name) => [name, undefined])));
    expect(plain.attemptAcquire("r").isAcquired).toBe(true);
    expect(PartitionedRateLimiter.create(partitioner, undefined).attemptAcquire("r").isAcquired).toBe(true);
    plain.dispose();
  });

  it.each([0.001, Number.MIN_VALUE, 2 ** 31, Number.MAX_VALUE])("takes %d for idleLimitMs", (idleLimitMs) => {
    const clock = new ManualClock();
    const { limiter: any } = concurrencyByKey(1, { clock, idleLimitMs });
    const lease = any.attemptAcquire("a");
    expect(clock.timerCount).toBe(1);
    clock.advance(50);
    expect(any.size).toBe(1);
    lease.dispose();
  });

  it("takes the smallest and the largest maxPartitions", () => {
    for (const maxPartitions of [1, Number.MAX_SAFE_INTEGER]) {
      const { limiter: any } = concurrencyByKey(1, { maxPartitions });
      expect(any.attemptAcquire("a").isAcquired).toBe(true);
    }
  });

  it("takes a limiter of its own making for a partition", () => {
    expect(RateLimitPartition.get(key, () => new NoLimiter()).partitionKey).toBe(key);
  });
});
