import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  type RateLimiter,
  RateLimitPartition,
  ReplenishingRateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";
import { show, stubbed } from "./support.js";

// Table 3.8 and section 2.13 of spec/system-threading-ratelimiting.md, where design.md C-23 replaces R-HELP-3 to R-HELP-5:
// the helpers make lazy limiters, which replenish by themselves and need no beat; their buckets fill continuously.

const clock = new ManualClock();
const minute = { permitLimit: 1, windowMs: 60_000, clock };
const bucket = { tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 60_000, clock };
const sliding = { permitLimit: 1, windowMs: 33_000, segmentsPerWindow: 3, clock };

const limiterOf = (partition: RateLimitPartition<number>): RateLimiter =>
  partition.factory(partition.partitionKey);

describe("a partition", () => {
  it("T-HELP-01 has a concurrency limiter with the given options", () => {
    const partition = RateLimitPartition.getConcurrencyLimiter(1, () => ({
      permitLimit: 10,
      queueLimit: 10,
      clock,
    }));
    expect(partition.partitionKey).toBe(1);
    expect(limiterOf(partition)).toBeInstanceOf(ConcurrencyLimiter);
    expect(show(limiterOf(partition).getStatistics())).toBe("10/0/0/0");
  });

  it.each<[string, RateLimitPartition<number>, new (options: never) => ReplenishingRateLimiter, number]>([
    [
      "T-HELP-02 token bucket",
      RateLimitPartition.getTokenBucketLimiter(1, () => bucket),
      TokenBucketRateLimiter,
      60_000,
    ],
    [
      "T-HELP-06 fixed window",
      RateLimitPartition.getFixedWindowLimiter(1, () => minute),
      FixedWindowRateLimiter,
      60_000,
    ],
    [
      "T-HELP-07 sliding window",
      RateLimitPartition.getSlidingWindowLimiter(1, () => sliding),
      SlidingWindowRateLimiter,
      11_000,
    ],
  ])("%s has the given options, and replenishes by itself (C-23)", (_, partition, kind, periodMs) => {
    const limiter = limiterOf(partition);
    expect(limiter).toBeInstanceOf(kind);
    if (!(limiter instanceof ReplenishingRateLimiter)) throw new Error("it does not replenish");
    expect(limiter.replenishmentPeriodMs).toBe(periodMs);
    expect(limiter.isAutoReplenishing).toBe(true);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    clock.advance(60_000);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it("T-HELP-03 without a limiter grants any count, and bears disposes", async () => {
    const limiter = limiterOf(RateLimitPartition.getNoLimiter(1));
    expect(limiter).toBeInstanceOf(NoLimiter);
    for (let i = 0; i < 2; i++) expect(limiter.attemptAcquire(2_147_483_647).isAcquired).toBe(true);
    const waiting = watch(limiter.acquire(2_147_483_647));
    await flush();
    waiting.value.dispose();
    limiter.dispose();
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
    expect(show(limiter.getStatistics())).toBe(`${Number.MAX_SAFE_INTEGER}/0/0/4`);
  });

  it("T-HELP-04 R-HELP-6 without a limiter counts every request, of size 0 too, and is never idle", async () => {
    const limiter = limiterOf(RateLimitPartition.getNoLimiter(1));
    const shown = (ok: number) => `${Number.MAX_SAFE_INTEGER}/0/0/${ok}`;
    expect(limiter.getStatistics()).not.toBe(limiter.getStatistics());
    expect(show(limiter.getStatistics())).toBe(shown(0));
    for (let i = 0; i < 134; i++) limiter.attemptAcquire(i);
    expect(show(limiter.getStatistics())).toBe(shown(134));
    for (let i = 0; i < 165; i++) await limiter.acquire(i);
    expect(show(limiter.getStatistics())).toBe(shown(299));
    expect(limiter.idleDurationMs).toBeUndefined();
  });

  it("T-HELP-05 R-HELP-1 keeps any key and any factory as they are", () => {
    const key = { tenant: "acme" };
    const factory = () => new ConcurrencyLimiter({ permitLimit: 1, clock });
    const partition = RateLimitPartition.get(key, factory);
    expect([partition.partitionKey, partition.factory]).toEqual([key, factory]);
    expect(partition.partitionKey).toBe(key);
    const manual = () => new TokenBucketRateLimiter({ ...bucket, autoReplenishment: false });
    expect(limiterOf(RateLimitPartition.get(1, factory))).toBeInstanceOf(ConcurrencyLimiter);
    const made = limiterOf(RateLimitPartition.get(1, manual));
    expect(made).toBeInstanceOf(TokenBucketRateLimiter);
    expect(show(made.getStatistics())).toBe("1/0/0/0");
  });
});

describe("the options of a partition", () => {
  const concurrent = { permitLimit: 1, clock };
  const key: number = 7;

  it.each<[string, (seen: <O>(key: number, options: O) => O) => RateLimitPartition<number>]>([
    [
      "getConcurrencyLimiter",
      (seen) => RateLimitPartition.getConcurrencyLimiter(key, (k) => seen(k, concurrent)),
    ],
    [
      "getFixedWindowLimiter",
      (seen) => RateLimitPartition.getFixedWindowLimiter(key, (k) => seen(k, minute)),
    ],
    [
      "getSlidingWindowLimiter",
      (seen) => RateLimitPartition.getSlidingWindowLimiter(key, (k) => seen(k, sliding)),
    ],
    [
      "getTokenBucketLimiter",
      (seen) => RateLimitPartition.getTokenBucketLimiter(key, (k) => seen(k, bucket)),
    ],
  ])("R-HELP-2 of %s are asked for with the key, when the limiter is made and not before", (_, make) => {
    const asked: number[] = [];
    const partition = make((k, options) => {
      asked.push(k);
      return options;
    });
    expect(asked).toEqual([]);
    const limiters = [limiterOf(partition), limiterOf(partition)];
    expect(asked).toEqual([7, 7]);
    // One shared object, two limiters with permits of their own.
    expect(limiters.map((limiter) => limiter.attemptAcquire().isAcquired)).toEqual([true, true]);
  });

  it("R-HELP-3 leave the mode as it is: a limiter that is told to be manual is", () => {
    const manual = { autoReplenishment: false };
    const partitions = [
      RateLimitPartition.getFixedWindowLimiter(1, () => ({ ...minute, ...manual })),
      RateLimitPartition.getSlidingWindowLimiter(1, () => ({ ...sliding, ...manual })),
      RateLimitPartition.getTokenBucketLimiter(1, () => ({ ...bucket, ...manual })),
    ];
    const limiters = partitions.map(limiterOf) as ReplenishingRateLimiter[];
    expect(limiters.map((limiter) => limiter.isAutoReplenishing)).toEqual([false, false, false]);
  });

  it("C-23 may be frozen, and are not written to", () => {
    const frozen = Object.freeze({ ...bucket });
    const limiter = limiterOf(RateLimitPartition.getTokenBucketLimiter(1, () => frozen));
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it.each<[string, () => typeof bucket]>([
    ["inherited", () => Object.create(bucket) as typeof bucket],
    [
      "getters of a class",
      () => {
        class Plan {
          readonly #tokens = 1;
          get tokenLimit() {
            return this.#tokens;
          }
          get tokensPerPeriod() {
            return 1;
          }
          get replenishmentPeriodMs() {
            return 60_000;
          }
          get clock() {
            return clock;
          }
        }
        return new Plan();
      },
    ],
  ])("C-23 may be %s", (_, make) => {
    const limiter = limiterOf(RateLimitPartition.getTokenBucketLimiter(1, make));
    expect(show(limiter.getStatistics())).toBe("1/0/0/0");
    expect(limiter).toMatchObject({ replenishmentPeriodMs: 60_000 });
  });

  it("C-24 may change between two keys, in every part, wrong ones too", () => {
    const options: Record<string, unknown> = { ...bucket };
    const make = () =>
      limiterOf(RateLimitPartition.getTokenBucketLimiter(1, () => options as unknown as typeof bucket));
    expect(show(make().getStatistics())).toBe("1/0/0/0");
    options["tokenLimit"] = 2;
    expect(show(make().getStatistics())).toBe("2/0/0/0");
    options["replenishmentPeriodMs"] = 30_000;
    expect(make()).toMatchObject({ replenishmentPeriodMs: 30_000 });
    options["autoReplenishment"] = false;
    expect(make()).toMatchObject({ isAutoReplenishing: false });
    delete options["autoReplenishment"];
    expect(make()).toMatchObject({ isAutoReplenishing: true });
    const other = new ManualClock();
    options["clock"] = other;
    options["tokensPerPeriod"] = 2;
    const limiter = make();
    limiter.attemptAcquire(2);
    other.advance(15_000);
    expect(show(limiter.getStatistics())).toBe("1/0/0/1");
    options["refill"] = "stepped";
    const stepped = make();
    stepped.attemptAcquire(2);
    other.advance(15_000);
    expect(show(stepped.getStatistics())).toBe("0/0/0/1");
    options["refill"] = undefined;
    for (const [name, wrong] of [
      ["tokenLimit", Number.NaN],
      ["tokensPerPeriod", 0],
      ["queueLimit", -1],
      ["queueTimeoutMs", 0],
      ["queueProcessingOrder", "random"],
      ["clock", {}],
    ] as const) {
      const before = options[name];
      options[name] = wrong;
      for (let i = 0; i < 2; i++) expect(make).toThrow(`options.${name} must be`);
      options[name] = before;
      expect(show(make().getStatistics())).toBe("2/0/0/0");
    }
  });

  it("C-24 may be of many tiers, made in turn, and change in all of them", () => {
    const tiers = Array.from({ length: 20 }, (_, i) => ({ ...bucket, tokenLimit: i + 1 }));
    for (const more of [0, 0, 100]) {
      for (const tier of tiers) tier.tokenLimit += more;
      for (const [i, tier] of tiers.entries()) {
        const limiter = limiterOf(RateLimitPartition.getTokenBucketLimiter(1, () => tier));
        expect(show(limiter.getStatistics())).toBe(`${i + 1 + more}/0/0/0`);
      }
    }
  });

  it("C-24 of a token bucket are checked once, and then only looked over for changes", () => {
    const reads: string[] = [];
    const counted = (from: object) =>
      new Proxy(from, {
        get(target, name) {
          reads.push(String(name));
          return Reflect.get(target, name) as unknown;
        },
        ownKeys(target) {
          reads.push("all names");
          return Reflect.ownKeys(target);
        },
      }) as typeof bucket;
    const options = counted(bucket);
    const make = () => limiterOf(RateLimitPartition.getTokenBucketLimiter(1, () => options));
    make();
    // Its names, to complain about unknown ones.
    expect(reads).toContain("all names");
    for (let i = 0; i < 10; i++) {
      reads.length = 0;
      make();
      expect(reads.sort()).toEqual([
        "autoReplenishment",
        "clock",
        "queueLimit",
        "queueProcessingOrder",
        "queueTimeoutMs",
        "refill",
        "replenishmentPeriodMs",
        "tokenLimit",
        "tokensPerPeriod",
      ]);
    }
  });

  it("C-24 of a token bucket are forgotten after some others, so that those of each key are not kept for ever", () => {
    let looks = 0;
    const options = new Proxy(bucket, {
      ownKeys(target) {
        looks += 1;
        return Reflect.ownKeys(target);
      },
    });
    const make = (how: typeof bucket) => limiterOf(RateLimitPartition.getTokenBucketLimiter(1, () => how));
    make(options);
    make({ ...bucket });
    looks = 0;
    make(options);
    expect(looks).toBe(0);
    for (let i = 0; i < 10; i++) make({ ...bucket });
    make(options);
    expect(looks).toBeGreaterThan(0);
  });

  it("C-24 of a token bucket are read into one object, which its limiters share", () => {
    // What a limiter keeps of its options cannot be seen from outside; that checking them again costs reads of its clock can.
    let checks = 0;
    const watched = {
      get now() {
        checks += 1;
        return () => 0;
      },
      setTimer: () => ({ cancel: () => undefined }),
    };
    const options = { ...bucket, clock: watched };
    const make = () => limiterOf(RateLimitPartition.getTokenBucketLimiter(1, () => options));
    make();
    const readsOf = (act: () => unknown) => {
      const before = checks;
      act();
      return checks - before;
    };
    // The one read is the start of its time.
    expect(readsOf(make)).toBe(1);
    options.tokenLimit = 7;
    expect(readsOf(make)).toBe(2);
    expect(readsOf(make)).toBe(1);
  });

  it("C-11 are complained about when a name is misspelt", () => {
    const misspelt = { ...bucket, queuelimit: 5 };
    const partition = RateLimitPartition.getTokenBucketLimiter(1, () => misspelt);
    expect(() => limiterOf(partition)).toThrow(/options\.queuelimit is not an option/);
  });

  it.each([
    ["continuously", undefined, [3, 6]],
    ["continuously when they leave refill undefined", { refill: undefined }, [3, 6]],
    ["in steps when they say so", { refill: "stepped" as const }, [0, 0]],
  ])("C-23 fill a bucket %s", (_, refill, expected) => {
    const options = { tokenLimit: 10, tokensPerPeriod: 10, replenishmentPeriodMs: 1000, clock, ...refill };
    const limiter = limiterOf(RateLimitPartition.getTokenBucketLimiter(1, () => options));
    limiter.attemptAcquire(10);
    const seen = [300, 300].map((ms) => {
      clock.advance(ms);
      return limiter.getStatistics()?.currentAvailablePermits;
    });
    expect(seen).toEqual(expected);
  });
});

describe("in a partitioned limiter", () => {
  it.each<[string, (key: string) => RateLimitPartition<string>]>([
    [
      "fixed windows",
      (key) =>
        RateLimitPartition.getFixedWindowLimiter(key, () => ({
          permitLimit: 1,
          windowMs: 70,
          clock: own,
          queueLimit: 1,
        })),
    ],
    [
      "sliding windows",
      (key) =>
        RateLimitPartition.getSlidingWindowLimiter(key, () => ({
          permitLimit: 1,
          windowMs: 70,
          segmentsPerWindow: 7,
          clock: own,
          queueLimit: 1,
        })),
    ],
    [
      "token buckets",
      (key) =>
        RateLimitPartition.getTokenBucketLimiter(key, () => ({
          tokenLimit: 1,
          tokensPerPeriod: 1,
          replenishmentPeriodMs: 70,
          clock: own,
          queueLimit: 1,
        })),
    ],
  ])("R-HELP-4 (C-23) %s grant at the very moment, not at the next beat", async (_, partition) => {
    const limiter = PartitionedRateLimiter.create(partition, { clock: own });
    limiter.attemptAcquire("a");
    const waiting = watch(limiter.acquire("a"));
    own.advance(69);
    await flush();
    expect(waiting.state).toBe("pending");
    own.advance(1);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    limiter.dispose();
  });
  const own = new ManualClock();

  it("R-HELP-5 a limiter from a raw get that replenishes itself is left alone", () => {
    const { limiter, clock: time, logged } = stubbed();
    limiter.attemptAcquire("auto");
    time.advance(60_000);
    expect(logged("tryReplenish")).toEqual([]);
  });
});
