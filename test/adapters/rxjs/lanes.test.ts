import { AsyncLocalStorage } from "node:async_hooks";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  PartitionedRateLimiter,
  RateLimitPartition,
} from "headgate";
import { limitConcurrency, limitConcurrencyBy, rateLimit, rateLimitBy } from "headgate/rxjs";
import { ManualClock } from "headgate/testing";
import { from, NEVER, Observable, of, range, Subject } from "rxjs";
import { describe, expect, it } from "vitest";
import { LoggedLimiter } from "./foreign.js";
import { collectGarbage, look, seen } from "./support.js";

const concurrencyPerTenant = (permitLimit = 1) => {
  const made: string[] = [];
  const limiter = PartitionedRateLimiter.create((tenant: string) => {
    made.push(tenant);
    return RateLimitPartition.getConcurrencyLimiter(tenant, () => ({ permitLimit, queueLimit: 1 }));
  });
  return { limiter, made };
};

describe("values of many tenants", () => {
  it("do not hold each other up", () => {
    const { limiter } = concurrencyPerTenant();
    const blocked = limiter.attemptAcquire("t0");
    const source = range(0, 3000);
    const told: number[] = [];
    let isComplete = false;
    source
      .pipe(
        limitConcurrencyBy(
          limiter,
          (value) => `t${value % 1000}`,
          (value) => of(value),
          { buffer: { size: 3 } },
        ),
      )
      .subscribe({
        next: (value) => told.push(value),
        complete: () => {
          isComplete = true;
        },
      });
    expect([told.length, isComplete]).toEqual([2997, false]);
    blocked.dispose();
    expect([told.slice(-3), isComplete]).toEqual([[0, 1000, 2000], true]);
  });

  it("leave no lane behind when they have gone ahead", async () => {
    const { limiter } = concurrencyPerTenant();
    const source = new Subject<string>();
    const keys: WeakRef<object>[] = [];
    const lane = (): object => {
      const key = {};
      keys.push(new WeakRef(key));
      return key;
    };
    const first = new Subject<string>();
    source
      .pipe(
        limitConcurrencyBy(
          limiter,
          (value) => value,
          (value) => (value === "a" && !first.closed ? first : of(value)),
          { lane },
        ),
      )
      .subscribe();
    for (const value of ["a", "a", "b"]) source.next(value);
    first.complete();
    await new Promise((resolve) => setTimeout(resolve));
    collectGarbage();
    expect(keys.map((key) => key.deref())).toEqual([undefined, undefined, undefined]);
    expect(source.observed).toBe(true);
  });

  it("that come while another is worked on go ahead in order, each in its lane", () => {
    const { limiter } = concurrencyPerTenant();
    const source = new Subject<string>();
    const told: string[] = [];
    source
      .pipe(
        limitConcurrencyBy(
          limiter,
          (value) => value.slice(0, 1),
          (value) => {
            if (value === "a1") for (const next of ["b1", "c1", "b2", "d1"]) source.next(next);
            return of(value);
          },
        ),
      )
      .subscribe((value) => told.push(value));
    source.next("a1");
    expect(told).toEqual(["a1", "b1", "c1", "d1", "b2"]);
  });

  it("have their resource asked for once, and ask their own partition", () => {
    const { limiter } = concurrencyPerTenant(2);
    const asked: [string, number][] = [];
    const resource = (value: string, index: number) => {
      asked.push([value, index]);
      return value;
    };
    of("a", "b", "a", "a")
      .pipe(limitConcurrencyBy(limiter, resource, () => NEVER))
      .subscribe();
    expect(asked).toEqual([
      ["a", 0],
      ["b", 1],
      ["a", 2],
      ["a", 3],
    ]);
    expect([limiter.peekStatistics("a"), limiter.peekStatistics("b")]).toMatchObject([
      { currentAvailablePermits: 0, currentQueuedCount: 1 },
      { currentAvailablePermits: 1, currentQueuedCount: 0 },
    ]);
  });

  it("end the stream when their resource, lane or partition cannot be told", () => {
    const { limiter } = concurrencyPerTenant();
    const fail = () => {
      throw "own";
    };
    const failing = PartitionedRateLimiter.create(fail as () => never);
    expect(seen(of(1).pipe(limitConcurrencyBy(limiter, fail, () => of(1))))).toEqual(["own"]);
    expect(
      seen(
        of("a").pipe(
          limitConcurrencyBy(
            limiter,
            (value) => value,
            () => of(1),
            { lane: fail },
          ),
        ),
      ),
    ).toEqual(["own"]);
    expect(seen(of("a").pipe(rateLimitBy(failing, (value) => value)))).toEqual(["own"]);
    expect(seen(of("a").pipe(rateLimitBy(failing, (value) => value, { lane: false })))).toEqual(["own"]);
    expect(limiter.size).toBe(0);
  });

  it("of a translated limiter are told apart by the keys behind it", () => {
    const { limiter } = concurrencyPerTenant();
    const translated = limiter.withTranslatedKey(({ tenant }: { tenant: string }) => tenant, {
      leaveOpen: true,
    });
    const started: string[] = [];
    const messages = ["a", "a", "b"].map((tenant) => ({ tenant }));
    from(messages)
      .pipe(
        limitConcurrencyBy(
          translated,
          (message) => message,
          ({ tenant }) => {
            started.push(tenant);
            return NEVER;
          },
        ),
      )
      .subscribe();
    expect([started, limiter.getTotals().currentQueuedCount]).toEqual([["a", "b"], 1]);
  });

  it("of a chain need lanes, or one for all", () => {
    const clock = new ManualClock();
    const window = (key: string) =>
      RateLimitPartition.get(
        key,
        () => new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, queueLimit: 9, clock }),
      );
    const { limiter } = concurrencyPerTenant();
    const chain = PartitionedRateLimiter.createChained(
      limiter,
      PartitionedRateLimiter.create(window, { clock }),
    );
    const byLane = seen(
      of("a", "a", "b").pipe(rateLimitBy(chain, (value) => value, { lane: (value) => value })),
    );
    expect(byLane).toEqual(["a", "b"]);
    clock.advance(10);
    expect(byLane).toEqual(["a", "b", "a", "complete"]);
    expect(() => rateLimitBy(chain, (value: string) => value)).toThrow("options.lane");
    expect(
      seen(
        of("a").pipe(
          rateLimitBy(
            () => PartitionedRateLimiter.createChained(limiter),
            (value) => value,
          ),
        ),
      ),
    ).toMatchObject([{ name: "TypeError" }]);
  });

  it("of a disposed limiter end the stream", () => {
    const { limiter } = concurrencyPerTenant();
    limiter.dispose();
    expect(seen(of("a").pipe(rateLimitBy(limiter, (value) => value)))).toMatchObject([
      { code: "ERR_LIMITER_DISPOSED" },
    ]);
  });

  it("are worked on one after the other in concat order, and all at once in eager admission", () => {
    const { limiter } = concurrencyPerTenant();
    const started: string[] = [];
    const start = (value: string) => {
      started.push(value);
      return NEVER;
    };
    const subscription = of("a", "b")
      .pipe(limitConcurrencyBy(limiter, (value) => value, start, { order: "concat" }))
      .subscribe();
    expect(started).toEqual(["a"]);
    subscription.unsubscribe();
    of("a", "a", "a", "b")
      .pipe(limitConcurrencyBy(limiter, (value) => value, start, { admission: "eager", onRejected: "drop" }))
      .subscribe();
    // The third a finds the queue of its partition full.
    expect([started, limiter.getTotals()]).toMatchObject([
      ["a", "a", "b"],
      { currentQueuedCount: 1, totalFailedLeases: 1 },
    ]);
  });
});

describe("the async context of a value that has to wait", () => {
  const storage = new AsyncLocalStorage<string>();
  const start = (
    limiter: number | ConcurrencyLimiter,
    name: string,
    work: Observable<unknown>,
    contexts: unknown[],
  ) =>
    storage.run(name, () =>
      of("first", "second")
        .pipe(
          limitConcurrency(limiter, (value) => {
            contexts.push([name, value, storage.getStore()]);
            return new Observable((inner) => {
              contexts.push([name, value, storage.getStore()]);
              return work.subscribe(inner);
            });
          }),
        )
        .subscribe(),
    );

  it("is the one it came in, not that of whoever gave the permit back", () => {
    for (const limiter of [1, new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 9 })]) {
      const contexts: unknown[] = [];
      const work = new Subject<never>();
      start(limiter, "A", work, contexts);
      storage.run("B", () => work.complete());
      expect(contexts).toEqual(["first", "first", "second", "second"].map((value) => ["A", value, "A"]));
    }
  });

  it("is its own for each stream that shares a limiter", () => {
    const contexts: unknown[] = [];
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 9 });
    const works = [new Subject<never>(), new Subject<never>()];
    start(limiter, "A", works[0] as Subject<never>, contexts);
    start(limiter, "B", works[1] as Subject<never>, contexts);
    storage.run("C", () => {
      for (const work of [...works, ...works]) work.complete();
    });
    expect(contexts.length).toBe(8);
    expect(contexts.every((entry) => (entry as string[])[0] === (entry as string[])[2])).toBe(true);
  });

  it("is the one it came in when it is tried again, by time or by a permit of its own stream", () => {
    const clock = new ManualClock();
    for (const wake of ["time", "release"]) {
      const limiter = new LoggedLimiter(1);
      const contexts: unknown[] = [];
      const work = new Subject<never>();
      storage.run("A", () =>
        of(1, 2)
          .pipe(
            limitConcurrency(
              limiter,
              (value) => {
                contexts.push(storage.getStore());
                return value === 1 ? work : of(1);
              },
              {
                onRejected: { fallbackDelayMs: 10, jitter: 0 },
                clock,
              },
            ),
          )
          .subscribe(),
      );
      storage.run("B", () => {
        if (wake === "release") return work.complete();
        limiter.free = 1;
        clock.advance(10);
      });
      expect(contexts).toEqual(["A", "A"]);
    }
  });

  it("is that of the value, for rateLimit too", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, queueLimit: 9, clock });
    const contexts: unknown[] = [];
    const source = new Subject<string>();
    source.pipe(rateLimit(limiter)).subscribe((value) => contexts.push([value, storage.getStore()]));
    for (const name of ["A", "B", "C"]) storage.run(name, () => source.next(name));
    storage.run("D", () => clock.advance(30));
    expect(contexts).toEqual([
      ["A", "A"],
      ["B", "B"],
      ["C", "C"],
    ]);
    expect(look(limiter).queuedRequests).toBe(0);
  });
});
