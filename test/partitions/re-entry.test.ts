import {
  ConcurrencyLimiter,
  type KeyedRateLimiter,
  LimiterDisposedError,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimitPartition,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";
import { concurrencyByKey, E, errorOf, Stub, type StubPlan, show, stubbed } from "./support.js";

// design.md 4.6: user code may throw or re-enter; the limiter's state stays right, and the error reaches who can act on
// it. PT-11, T-PT5, PT-19.

type Keyed = KeyedRateLimiter<string, string>;

/** A limiter of one permit for each key; what the factory does first may be changed. */
function withFactory(act: (limiter: Keyed, key: string) => void, maxPartitions?: number) {
  const clock = new ManualClock();
  const made: ConcurrencyLimiter[] = [];
  const limiter: Keyed = PartitionedRateLimiter.create(
    (key: string) =>
      RateLimitPartition.get(key, () => {
        act(limiter, key);
        const one = new ConcurrencyLimiter({ permitLimit: 1, clock });
        made.push(one);
        return one;
      }),
    { clock, maxPartitions },
  );
  return { limiter, made, clock };
}

/** Does something the first time it is called. */
function once<Args extends unknown[]>(action: (...args: Args) => void): (...args: Args) => void {
  let done = false;
  return (...args) => {
    if (done) return;
    done = true;
    action(...args);
  };
}

describe("a factory", () => {
  it("T-PT5 that acquires another key inside gets it, and both partitions are there", () => {
    const { limiter } = withFactory(once((self) => expect(self.attemptAcquire("b").isAcquired).toBe(true)));
    expect(limiter.attemptAcquire("a").isAcquired).toBe(true);
    expect(show(limiter.getTotals())).toBe("0/0/0/2");
    expect(limiter.size).toBe(2);
  });

  it("PT-2 that acquires its own key inside shares the permits with it, and the second limiter is disposed", () => {
    const inner: boolean[] = [];
    const { limiter, made } = withFactory(
      once((self, key) => inner.push(self.attemptAcquire(key).isAcquired)),
    );
    // The only permit went to the call inside.
    expect([limiter.attemptAcquire("a").isAcquired, inner]).toEqual([false, [true]]);
    expect([limiter.size, made.length]).toEqual([1, 2]);
    expect(() => made[1]?.attemptAcquire()).toThrow(LimiterDisposedError);
    expect(show(limiter.getTotals())).toBe("0/0/1/1");
  });

  it("R-PART-13 that disposes everything leaves nothing behind, and its caller is told", () => {
    const { limiter, clock } = withFactory(once((self) => self.dispose()));
    expect(() => limiter.attemptAcquire("a")).toThrow(LimiterDisposedError);
    expect([limiter.size, clock.timerCount]).toEqual([0, 0]);
  });

  it("R-PART-13 R-PART-14 that disposes everything has its limiter disposed too", () => {
    const { limiter, made } = withFactory(once((self) => self.dispose()));
    expect(() => limiter.attemptAcquire("a")).toThrow(LimiterDisposedError);
    expect(() => made[0]?.attemptAcquire()).toThrow(LimiterDisposedError);
  });

  it("R-PART-13 that disposes everything when there is no room has its limiter disposed too", () => {
    const { limiter, made } = withFactory((self, key) => {
      if (key === "b") self.dispose();
    }, 1);
    limiter.attemptAcquire("a");
    expect(() => limiter.attemptAcquire("b")).toThrow(LimiterDisposedError);
    expect(() => made[1]?.attemptAcquire()).toThrow(LimiterDisposedError);
  });

  it("PT-7 that acquires a second key without room inside shares one limiter with it", () => {
    const { limiter, made } = withFactory((self, key) => {
      if (key === "b") self.attemptAcquire("c");
    }, 1);
    limiter.attemptAcquire("a");
    // One permit for all keys beyond the limit, and "c" has it.
    expect(limiter.attemptAcquire("b").isAcquired).toBe(false);
    expect(show(limiter.getTotals())).toBe("0/0/1/2");
    limiter.dispose();
    for (const one of made) expect(() => one.attemptAcquire()).toThrow(LimiterDisposedError);
  });

  it("PT-4 that acquires another key inside cannot pass maxPartitions", () => {
    const { limiter } = withFactory(
      once((self) => void self.attemptAcquire("b")),
      1,
    );
    limiter.attemptAcquire("a");
    expect(limiter.size).toBe(1);
  });

  it("T-PT5 that deletes other partitions, or lets the time for them pass, gets a limiter that works", () => {
    const clock = new ManualClock();
    const limiter: Keyed = PartitionedRateLimiter.create(
      (key: string) => {
        if (key === "c") clock.advance(60_000);
        return RateLimitPartition.get(key, () => {
          if (key === "b") limiter.delete("a");
          if (key === "d") clock.advance(60_000);
          return new ConcurrencyLimiter({ permitLimit: 1, clock });
        });
      },
      { clock },
    );
    for (const key of ["a", "b", "c", "d", "a", "c"]) {
      const lease = limiter.attemptAcquire(key);
      expect(lease.isAcquired).toBe(true);
      lease.dispose();
    }
  });

  it("design 4.6 that throws while others wait leaves them alone", async () => {
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () => {
          if (key === "bad") throw E;
          return new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
        }),
      { clock, maxPartitions: 1 },
    );
    const held = limiter.attemptAcquire("a");
    const waiting = watch(limiter.acquire("a"));
    for (let i = 0; i < 3; i++) expect(await errorOf(() => limiter.acquire("bad"))).toBe(E);
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(limiter.attemptAcquire("good").isAcquired).toBe(true);
  });
});

describe("a partitioner", () => {
  it("T-PT5 that acquires inside, of its own resource too, takes permits in the order of the calls", () => {
    let nested = 0;
    const clock = new ManualClock();
    const limiter: Keyed = PartitionedRateLimiter.create(
      (key: string) => {
        if (nested < 3) {
          nested += 1;
          expect(limiter.attemptAcquire(key).isAcquired).toBe(true);
        }
        return RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 4, clock }));
      },
      { clock },
    );
    limiter.attemptAcquire("a");
    expect(show(limiter.peekStatistics("a"))).toBe("0/0/0/4");
  });

  it("R-PART-2 R-PART-13 that disposes the limiter has its caller told", async () => {
    const limiter: Keyed = PartitionedRateLimiter.create(
      (key: string) => {
        limiter.dispose();
        return RateLimitPartition.getNoLimiter(key);
      },
      { clock: new ManualClock() },
    );
    expect(() => limiter.attemptAcquire("a")).toThrow(LimiterDisposedError);
    expect(await errorOf(() => limiter.acquire("a"))).toBeInstanceOf(LimiterDisposedError);
    expect(limiter.size).toBe(0);
  });

  it("T-PT5 that deletes its own partition has it made anew", () => {
    const clock = new ManualClock();
    const limiter: Keyed = PartitionedRateLimiter.create(
      (key: string) => {
        limiter.delete(key);
        return RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1, clock }));
      },
      { clock },
    );
    limiter.attemptAcquire("a").dispose();
    expect(limiter.attemptAcquire("a").isAcquired).toBe(true);
    expect(show(limiter.getTotals())).toBe("0/0/0/2");
  });
});

describe("a key adapter", () => {
  it("R-TRANS-1 that acquires through its own view, or disposes it, does so", () => {
    const { limiter } = concurrencyByKey(2);
    let depth = 0;
    const view: PartitionedRateLimiter<number> = limiter.withTranslatedKey(
      (outer: number) => {
        depth += 1;
        if (depth === 1) view.attemptAcquire(outer);
        if (depth === 3) view.dispose();
        return String(outer);
      },
      { leaveOpen: true },
    );
    view.attemptAcquire(1);
    expect(show(limiter.peekStatistics("1"))).toBe("0/0/0/2");
    expect(view.attemptAcquire(1).isAcquired).toBe(false);
    expect(() => view.attemptAcquire(1)).toThrow(LimiterDisposedError);
  });
});

describe("what a limiter does in the background", () => {
  const drive = (plans: Record<string, StubPlan>, onBackgroundError?: (error: unknown) => void) => {
    const subject = stubbed((key: string) => plans[key] ?? {}, { onBackgroundError });
    for (const key of Object.keys(plans)) subject.limiter.attemptAcquire(key);
    subject.logged();
    return subject;
  };

  it("design 4.6 may delete all partitions while they are replenished", () => {
    const deleteAll = () => ["a", "b", "c"].forEach((key) => void subject.limiter.delete(key));
    const plan: StubPlan = { manual: true, idleMs: 1, onReplenish: deleteAll };
    const subject = drive({ a: plan, b: plan, c: plan });
    subject.clock.advance(1000);
    expect([subject.limiter.size, subject.clock.timerCount]).toEqual([0, 0]);
    expect(subject.logged("tryReplenish")).toEqual(["a tryReplenish"]);
  });

  it("design 4.6 may dispose everything while partitions are replenished, and nobody complains", () => {
    const errors: unknown[] = [];
    let disposed = false;
    class Strict extends Stub {
      override getStatistics(): undefined {
        if (disposed) throw new LimiterDisposedError("Strict");
      }
      protected override disposeCore(): void {
        super.disposeCore();
        disposed = true;
      }
    }
    const clock = new ManualClock();
    const log: string[] = [];
    const limiter: Keyed = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(
          key,
          () => new Strict(key, log, { manual: true, onReplenish: () => limiter.dispose() }),
        ),
      { clock, onBackgroundError: (error) => errors.push(error) },
    );
    for (const key of ["a", "b"]) limiter.attemptAcquire(key);
    log.splice(0);
    clock.advance(1000);
    expect(log).toEqual(["a tryReplenish", "a dispose", "b dispose"]);
    expect([errors, limiter.size, clock.timerCount]).toEqual([[], 0, 0]);
  });

  it("design 4.6 may acquire while partitions are replenished", () => {
    let count = 0;
    const subject = drive({
      a: { manual: true, onReplenish: () => void subject.limiter.attemptAcquire(`new ${count++}`) },
    });
    subject.clock.advance(500);
    expect(subject.limiter.size).toBe(6);
    expect(subject.clock.timerCount).toBe(1);
  });

  it("design 4.6 may acquire or dispose everything while it is dropped", async () => {
    const plans: Record<string, StubPlan> = { a: {}, b: {} };
    const subject = drive(plans);
    plans["a"] = Object.assign(plans["a"] as StubPlan, {
      idleMs: 60_000,
      onDisposeAsync: () => {
        expect(subject.limiter.attemptAcquire("c").isAcquired).toBe(true);
      },
    });
    subject.clock.advance(40_000);
    await flush();
    expect([...subject.limiter.entries()].map(({ key }) => key)).toEqual(["b", "c"]);
    Object.assign(plans["b"] as StubPlan, {
      idleMs: 60_000,
      onDisposeAsync: () => subject.limiter.dispose(),
    });
    subject.clock.advance(40_000);
    await flush();
    expect([subject.limiter.size, subject.clock.timerCount]).toEqual([0, 0]);
  });

  it("R-PART-13 design 4.6 may dispose everything while it is dropped to make room in somebody's call", async () => {
    const plan: StubPlan = { onDisposeAsync: () => subject.limiter.dispose() };
    const subject = stubbed((key: string) => (key === "a" ? plan : {}));
    subject.limiter.attemptAcquire("a");
    plan.idleMs = 60_000;
    subject.logged();
    expect(() => subject.limiter.attemptAcquire("b")).toThrow(LimiterDisposedError);
    await flush();
    expect([subject.limiter.size, subject.clock.timerCount]).toEqual([0, 0]);
    expect(subject.logged("b ")).toEqual(["b dispose"]);
  });

  it("PT-2 design 4.6 may acquire the very key that is being made while it is dropped", async () => {
    const plan: StubPlan = { onDisposeAsync: () => void subject.limiter.attemptAcquire("b") };
    const subject = stubbed((key: string) => (key === "a" ? plan : {}));
    subject.limiter.attemptAcquire("a");
    plan.idleMs = 60_000;
    subject.logged();
    subject.limiter.attemptAcquire("b");
    expect(subject.limiter.size).toBe(1);
    subject.limiter.dispose();
    await flush();
    // As many limiters are disposed as have been made.
    const made = subject.made.filter((key) => key === "b").length;
    expect(subject.logged("b dispose").filter((line) => line === "b dispose")).toHaveLength(made);
  });

  it.each<[string, keyof StubPlan]>([
    ["replenishing", "onReplenish"],
    ["telling how long it has been idle", "onLook"],
  ])("PT-11 T-PT8 D-12 when %s throws, is reported each time, and the others are served", (_, hook) => {
    const errors: unknown[] = [];
    const fail = () => {
      throw E;
    };
    const plans: Record<string, StubPlan> = { a: { manual: true, [hook]: fail }, b: { manual: true } };
    const { limiter, clock, logged } = drive(plans, (error) => errors.push(error));
    errors.splice(0);
    clock.advance(1000);
    expect(logged("b tryReplenish")).toHaveLength(10);
    expect(errors.length).toBeGreaterThanOrEqual(5);
    expect(new Set(errors)).toEqual(new Set([E]));
    expect(limiter.size).toBe(2);
  });

  it("PT-11 when statistics throw, is reported, and the partition goes all the same", async () => {
    const errors: unknown[] = [];
    class Broken extends Stub {
      override getStatistics(): never {
        throw E;
      }
    }
    const log: string[] = [];
    const clock = new ManualClock();
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => new Broken(key, log, { idleMs: 1 })),
      { clock, onBackgroundError: (error) => errors.push(error) },
    );
    limiter.attemptAcquire("a");
    expect(limiter.delete("a")).toBe(true);
    await flush();
    expect([errors, log]).toEqual([[E], ["a attempt 1", "a disposeAsync", "a dispose"]]);
  });

  it("PT-11 when disposeAsync itself throws, is reported, and not to whoever came by", () => {
    const errors: unknown[] = [];
    class Broken extends Stub {
      override disposeAsync(): never {
        throw E;
      }
    }
    const plan: StubPlan = {};
    const limiter = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => new Broken(key, [], key === "bad" ? plan : {})),
      { clock: new ManualClock(), onBackgroundError: (error) => errors.push(error) },
    );
    limiter.attemptAcquire("bad");
    plan.idleMs = 60_000;
    for (const key of ["b", "c", "d"]) expect(limiter.attemptAcquire(key).isAcquired).toBe(true);
    expect(errors).toEqual([E]);
  });

  it("design 4.6 may dispose the limiter in onBackgroundError", () => {
    const fail = () => {
      throw E;
    };
    const subject = drive({ a: { manual: true, onReplenish: fail }, b: { manual: true } }, () =>
      subject.limiter.dispose(),
    );
    subject.clock.advance(1000);
    expect(subject.logged("tryReplenish")).toEqual(["a tryReplenish"]);
    expect([subject.limiter.size, subject.clock.timerCount]).toEqual([0, 0]);
  });
});

describe("keys that strangers choose", () => {
  const lone = "\ud800";
  const long = "x".repeat(1_000_000);
  const object = Object.create(null) as object;
  const symbol = Symbol("s");
  const KEYS: readonly [string, unknown, unknown][] = [
    ["__proto__", "__proto__", "constructor"],
    ["the names of what objects inherit", "hasOwnProperty", "toString"],
    ["lone surrogates", lone, "\udc00"],
    ["the replacement character beside them", lone, "\ufffd"],
    ["strings of a million characters", long, `${long.slice(1)}y`],
    ["composed and decomposed letters", "\u00e9", "e\u0301"],
    ["the empty string and a null character", "", "\0"],
    ["NaN and its name", Number.NaN, "NaN"],
    ["numbers and their names", 1, "1"],
    ["objects that are alike", object, Object.create(null)],
    ["symbols that are alike", symbol, Symbol("s")],
    ["null and undefined", null, undefined],
    ["functions", () => 1, () => 1],
  ];

  it.each(KEYS)("PT-3 PT-19 C-22 %s are two partitions, each found again", (_, one, other) => {
    const { limiter, clock } = concurrencyByKey<unknown>(1);
    const leases = [one, other].map((key) => limiter.attemptAcquire(key));
    expect(leases.map(({ isAcquired }) => isAcquired)).toEqual([true, true]);
    expect([one, other].map((key) => limiter.attemptAcquire(key).isAcquired)).toEqual([false, false]);
    expect([...limiter.entries()].map(({ key }) => key)).toEqual([one, other]);
    for (const lease of leases) lease.dispose();
    expect([limiter.delete(one), limiter.delete(one), limiter.size]).toEqual([true, false, 1]);
    clock.advance(60_000);
    expect(limiter.size).toBe(0);
    expect(Object.prototype).not.toHaveProperty("partitionKey");
  });

  it("C-22 0 and -0 are one partition", () => {
    const { limiter } = concurrencyByKey<number>(1);
    expect([0, -0].map((key) => limiter.attemptAcquire(key).isAcquired)).toEqual([true, false]);
  });

  it("C-22 are handed to the factory as they are, and asked nothing", () => {
    const seen: unknown[] = [];
    const touchy = new Proxy(
      {},
      {
        get: () => expect.unreachable("the key was read"),
        ownKeys: () => expect.unreachable("the key was listed"),
        getPrototypeOf: () => expect.unreachable("the key was examined"),
      },
    );
    const limiter = PartitionedRateLimiter.create(
      (key: object) =>
        RateLimitPartition.get(key, (k) => {
          seen.push(k === touchy);
          return new NoLimiter();
        }),
      { clock: new ManualClock() },
    );
    limiter.attemptAcquire(touchy);
    limiter.attemptAcquire(touchy);
    expect([seen, limiter.size]).toEqual([[true], 1]);
  });
});
