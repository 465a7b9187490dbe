import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  ConcurrencyLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  shadowed,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { CountingClock, flush, ManualClock } from "../support.js";
import { dice, fixed, REPLENISHING } from "./support.js";

// Partitions come and go without a trace, and not before they remember nothing.

const HOUR_MS = 3_600_000;

describe("timers", () => {
  it("are set by no idle limiter, and one by all partitions together (H9: dotnet/runtime#118112)", () => {
    const clock = new CountingClock();
    const rate = { tokenLimit: 10, tokensPerPeriod: 1, replenishmentPeriodMs: 1000 };
    for (let i = 0; i < 10_000; i++) new TokenBucketRateLimiter({ ...rate, clock }).attemptAcquire();
    expect(clock.timersSet).toBe(0);
    const options = { ...rate, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: number) => RateLimitPartition.getTokenBucketLimiter(key, () => options),
      { clock },
    );
    for (let key = 0; key < 100_000; key++) limiter.attemptAcquire(key);
    expect([limiter.size, clock.timerCount, clock.keepAliveTimerCount]).toEqual([100_000, 1, 0]);
  });
});

describe("the sweep", () => {
  /** A limiter of a user, which is never in use. */
  class Foreign extends RateLimiter {
    readonly #clock: ManualClock;
    readonly #onDispose: () => void;
    constructor(clock: ManualClock, onDispose: () => void) {
      super();
      this.#clock = clock;
      this.#onDispose = onDispose;
    }
    override get idleDurationMs(): number {
      return this.#clock.now();
    }
    override getStatistics(): undefined {}
    protected override attemptAcquireCore(): RateLimitLease {
      return new NoLimiter().attemptAcquire();
    }
    protected override acquireCore(): RateLimitLease {
      return this.attemptAcquireCore();
    }
    protected override disposeCore(): void {
      this.#onDispose();
    }
  }
  /** One that a user has derived from one of the library. */
  class Derived extends ConcurrencyLimiter {
    readonly #onDispose: () => void;
    constructor(clock: ManualClock, onDispose: () => void) {
      super({ permitLimit: 1, clock });
      this.#onDispose = onDispose;
    }
    protected override disposeCore(): void {
      this.#onDispose();
      super.disposeCore();
    }
  }
  type MakeSpy = (clock: ManualClock, onDispose: () => void) => RateLimiter;
  const KINDS: readonly (readonly [name: string, make: MakeSpy])[] = [
    ["limiters of a user", (clock, onDispose) => new Foreign(clock, onDispose)],
    ["limiters derived from one of the library", (clock, onDispose) => new Derived(clock, onDispose)],
    ["shadows", (clock, onDispose) => shadowed(new Derived(clock, onDispose))],
  ];

  describe.each(KINDS)("over %s", (_, make) => {
    const setUp = () => {
      const clock = new ManualClock();
      const errors: unknown[] = [];
      const disposed = new Set<string>();
      const limiter = PartitionedRateLimiter.create(
        (key: string) =>
          RateLimitPartition.get(key, () =>
            make(clock, () => {
              disposed.add(key);
              if (key === "bad") throw new Error("dispose");
            }),
          ),
        { clock, idleLimitMs: 1000, onBackgroundError: (error) => errors.push(error) },
      );
      return { clock, errors, disposed, limiter };
    };

    it("disposes the others when one dispose throws, says so once, and goes on (H10: dotnet/runtime#68776)", async () => {
      const { clock, errors, disposed, limiter } = setUp();
      for (const key of ["bad", "b", "c"]) limiter.attemptAcquire(key).dispose();
      clock.advance(5000);
      await flush();
      expect([[...disposed].sort(), limiter.size]).toEqual([["b", "bad", "c"], 0]);
      expect(errors).toEqual([new Error("dispose")]);
      limiter.attemptAcquire("d").dispose();
      clock.advance(5000);
      expect([...disposed].sort()).toEqual(["b", "bad", "c", "d"]);
    });

    it.each(["dispose", "disposeAsync"] as const)(
      "does so when all are disposed together, by %s (H10: dotnet/runtime#68776)",
      async (how) => {
        const { disposed, limiter } = setUp();
        for (const key of ["bad", "b", "c"]) limiter.attemptAcquire(key);
        const error = await Promise.resolve()
          .then(() => limiter[how]())
          .catch((thrown: unknown) => thrown);
        expect(error).toEqual(new AggregateError([new Error("dispose")], "Disposing partitions failed."));
        expect([...disposed]).toEqual(["bad", "b", "c"]);
      },
    );
  });
});

describe("partitions of fixed windows", () => {
  it.each([5, 24 * HOUR_MS])(
    "remember a year, with a hit every %d ms (H23: express-rate-limit/express-rate-limit#546)",
    (everyMs) => {
      const clock = new ManualClock();
      const options = { permitLimit: 5, windowMs: 365 * 24 * HOUR_MS, clock };
      const limiter = PartitionedRateLimiter.create(
        (key: string) => RateLimitPartition.getFixedWindowLimiter(key, () => options),
        { clock, idleLimitMs: 1000 * HOUR_MS },
      );
      let granted = 0;
      for (let hit = 0; hit < 20; hit++) {
        if (limiter.attemptAcquire("key").isAcquired) granted += 1;
        clock.advance(everyMs);
      }
      expect(granted).toBe(5);
    },
  );
});

describe("partitions of buckets", () => {
  it("are all gone some time after 100 000 strangers, and so is their memory (H44: cristipufu/aspnetcore-redis-rate-limiting#157)", () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const heapMb = () => {
      collect();
      return process.memoryUsage().heapUsed / 2 ** 20;
    };
    const clock = new ManualClock();
    const options = { tokenLimit: 10, tokensPerPeriod: 1, replenishmentPeriodMs: 1000, clock };
    const limiter = PartitionedRateLimiter.create(
      (key: number) => RateLimitPartition.getTokenBucketLimiter(key, () => options),
      { clock },
    );
    const before = heapMb();
    for (let key = 0; key < 100_000; key++) limiter.attemptAcquire(key);
    const full = heapMb();
    expect(limiter.size).toBe(100_000);
    // A second to refill and 10 s of idling; the sweep looks at no more than 512 at a time.
    clock.advance(120_000);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
    expect(heapMb() - before).toBeLessThan((full - before) / 10);
  });
});

describe.each(REPLENISHING)("a partition with %s", (name, make) => {
  it("is not forgiven what it has used by being dropped (H45: cristipufu/aspnetcore-redis-rate-limiting#196)", () => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => make(10, { clock }, HOUR_MS)),
      { clock, idleLimitMs: 10_000 },
    );
    let granted = 0;
    for (let hit = 0; hit < 180; hit++) {
      if (limiter.attemptAcquire("key").isAcquired) granted += 1;
      clock.advance(20_000);
    }
    // One more every 6 minutes comes where permits come back one by one: 9 within the hour.
    expect(granted).toBe(name === "a continuous bucket" ? 19 : 10);
  });
});

describe("a limit for all keys together", () => {
  it.each([true, false])(
    "is not exceeded, 1000 random rounds, asked first: %s (H28: Netflix/concurrency-limits#140)",
    async (globalFirst) => {
      const roll = dice(28);
      const peaks: number[] = [];
      for (let round = 0; round < 1000; round++) {
        const all = PartitionedRateLimiter.create(() =>
          RateLimitPartition.getConcurrencyLimiter("all", () => ({ permitLimit: 10, queueLimit: 30 })),
        );
        const each = PartitionedRateLimiter.create((key: number) =>
          RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 8, queueLimit: 30 })),
        );
        const chain = PartitionedRateLimiter.createChained(...(globalFirst ? [all, each] : [each, all]));
        let running = 0;
        let peak = 0;
        const work = async (key: number) => {
          for (let i = roll(4); i > 0; i--) await undefined;
          using _lease = (await chain.acquire(key)).orThrow();
          running += 1;
          peak = Math.max(peak, running);
          for (let i = roll(6); i > 0; i--) await undefined;
          running -= 1;
        };
        await Promise.all(Array.from({ length: 30 }, (_, i) => work(i % 3)));
        peaks.push(peak);
        expect(all.getTotals()).toMatchObject({ currentAvailablePermits: 10, totalSuccessfulLeases: 30 });
      }
      expect(Math.max(...peaks)).toBe(10);
    },
  );
});

describe("a partition that is paused for longer than hosts' timers go", () => {
  it("stays, and stays shut (H23: express-rate-limit/express-rate-limit#546)", () => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => fixed(1, { clock })),
      { clock, idleLimitMs: 600_000 },
    );
    limiter.forResource("key").pause(60 * 24 * HOUR_MS);
    clock.advance(59 * 24 * HOUR_MS);
    expect(limiter.attemptAcquire("key").reason).toBe("server_pause");
  });
});
