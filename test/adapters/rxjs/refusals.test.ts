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
  type OnRejected,
  type Rejection,
  rateLimit,
} from "headgate/rxjs";
import { ManualClock } from "headgate/testing";
import { NEVER, type Observable, of, Subject } from "rxjs";
import { describe, expect, it } from "vitest";
import { LoggedLimiter } from "./foreign.js";
import { look, seen } from "./support.js";

/** A window of one permit in 10 ms, which has been used. */
function usedUp(queueLimit = 0) {
  const clock = new ManualClock();
  const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, queueLimit, clock });
  limiter.attemptAcquire();
  return { clock, limiter };
}

describe("a value that is refused", () => {
  it("ends the stream with all that is known of the refusal", () => {
    const { limiter } = usedUp();
    const [error] = seen(of("a").pipe(rateLimit(limiter))) as [Error & Record<string, unknown>];
    expect(error).toMatchObject({
      code: "ERR_RATE_LIMIT_REJECTED",
      reason: "limit_reached",
      retryAfterMs: 10,
    });
    expect(error["metadata"]).toEqual(
      new Map<string, unknown>([
        ["RETRY_AFTER", 10],
        ["REJECTION_REASON", "limit_reached"],
        ["LIMIT", 1],
        ["REMAINING", 0],
        ["RESET_AFTER", 10],
      ]),
    );
  });

  it("asks again when the limiter said, or a little later by chance, and never before", () => {
    for (const [random, at] of [
      [0, 10],
      [0.999_999, 11],
    ] as const) {
      const { clock, limiter } = usedUp();
      const told = seen(
        of("a").pipe(rateLimit(limiter, { onRejected: { random: () => random, jitter: 0.1 } })),
      );
      clock.advance(at - 1.001);
      expect(told).toEqual([]);
      clock.advance(1.001);
      expect(told).toEqual(["a", "complete"]);
    }
  });

  it("asks again after a while when the limiter does not say, twice as long each time, up to a bound", () => {
    const clock = new ManualClock();
    const limiter = new LoggedLimiter(0);
    const times: number[] = [];
    const onRejected = { fallbackDelayMs: 10, maxDelayMs: 35, jitter: 0, maxAttempts: 5 };
    const told = seen(of("a").pipe(rateLimit(limiter, { onRejected, clock })));
    for (let at = 0; at < 200 && told.length === 0; at++) {
      const before = limiter.log.length;
      clock.advance(1);
      if (limiter.log.length > before) times.push(clock.now());
    }
    expect(times).toEqual([10, 30, 65, 100]);
    expect(told).toMatchObject([{ code: "ERR_RATE_LIMIT_REJECTED" }]);
  });

  it("asks again as soon as work of its own stream has given a lease back", () => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, clock });
    const work = new Map<string, Subject<never>>();
    const started: [string, number][] = [];
    const subscription = of("a", "b", "c")
      .pipe(
        limitConcurrency(
          limiter,
          (value) => {
            started.push([value, clock.now()]);
            const subject = new Subject<never>();
            work.set(value, subject);
            return subject;
          },
          { onRejected: { fallbackDelayMs: 1000 } },
        ),
      )
      .subscribe();
    clock.advance(5);
    work.get("a")?.complete();
    clock.advance(5);
    work.get("b")?.complete();
    expect(started).toEqual([
      ["a", 0],
      ["b", 5],
      ["c", 10],
    ]);
    subscription.unsubscribe();
    expect([clock.timerCount, look(limiter).available]).toEqual([0, 1]);
  });

  it("asks again, in eager admission too, until one is refused", () => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 3, clock });
    const work = new Subject<never>();
    const started: string[] = [];
    of("big", "a", "b", "c", "d")
      .pipe(
        limitConcurrency(
          limiter,
          (value) => {
            started.push(value);
            return value === "big" ? work : NEVER;
          },
          {
            admission: "eager",
            permitCount: (value) => (value === "big" ? 3 : 1),
            onRejected: { fallbackDelayMs: 1000 },
          },
        ),
      )
      .subscribe();
    expect(started).toEqual(["big"]);
    work.complete();
    expect(started).toEqual(["big", "a", "b", "c"]);
    expect(look(limiter)).toMatchObject({ available: 0, granted: 4 });
  });

  it("is woken by work of its own partition", () => {
    const clock = new ManualClock();
    const perTenant = PartitionedRateLimiter.create(
      (tenant: string) =>
        RateLimitPartition.get(tenant, () => new ConcurrencyLimiter({ permitLimit: 1, clock })),
      { clock },
    );
    const work: Record<string, Subject<never>[]> = { a: [], b: [] };
    of("b", "b", "a", "a")
      .pipe(
        limitConcurrencyBy(
          perTenant,
          (tenant) => tenant,
          (tenant) => {
            const subject = new Subject<never>();
            work[tenant]?.push(subject);
            return subject;
          },
          { onRejected: { fallbackDelayMs: 1000 } },
        ),
      )
      .subscribe();
    work["a"]?.[0]?.complete();
    expect([work["a"]?.length, work["b"]?.length]).toEqual([2, 1]);
  });

  it("gives up after so many tries, with what the last refusal said", () => {
    const { clock, limiter } = usedUp();
    const told = seen(
      of("a").pipe(rateLimit(limiter, { onRejected: { maxAttempts: 3, jitter: 0, maxDelayMs: 1 } })),
    );
    clock.advance(1);
    expect([told, look(limiter).refused]).toEqual([[], 2]);
    clock.advance(1);
    expect(told).toMatchObject([{ reason: "limit_reached", retryAfterMs: 8 }]);
    expect([clock.timerCount, look(limiter).refused]).toEqual([0, 3]);
  });

  it("is what a function says, which is told everything", () => {
    const { clock, limiter } = usedUp();
    const rejections: Rejection<string>[] = [];
    const told = seen(
      of("a").pipe(
        rateLimit(limiter, {
          onRejected: (rejection) => {
            rejections.push(rejection);
            return rejection.attempt < 3
              ? { action: "retry", delayMs: 2 }
              : { action: "error", error: "enough" };
          },
        }),
      ),
    );
    clock.advance(4);
    expect(told).toEqual(["enough"]);
    expect(
      rejections.map(({ value, index, attempt, reason, retryAfterMs, metadata }) => [
        value,
        index,
        attempt,
        reason,
        retryAfterMs,
        metadata.get("LIMIT"),
      ]),
    ).toEqual([
      ["a", 0, 1, "limit_reached", 10, 1],
      ["a", 0, 2, "limit_reached", 8, 1],
      ["a", 0, 3, "limit_reached", 6, 1],
    ]);
    expect(clock.timerCount).toBe(0);
  });

  it("can be let go, replaced, or an error, one by one", () => {
    const { limiter } = usedUp();
    const actions = {
      drop: { action: "drop" },
      replace: { action: "replace", with: of("instead") },
      error: { action: "error" },
    } as const;
    const told = seen(
      of("drop", "replace", "error").pipe(
        rateLimit<string>(limiter, { onRejected: ({ value }) => actions[value as "drop"] as never }),
      ),
    );
    expect(told).toMatchObject(["instead", { reason: "limit_reached" }]);
  });

  it("has its refused lease disposed, whatever becomes of it", () => {
    const clock = new ManualClock();
    const policies: OnRejected<string, string>[] = [
      "drop",
      "error",
      "retryAfter",
      () => ({ action: "drop" }),
      () => ({ action: "replace", with: of("z") }),
    ];
    for (const onRejected of policies) {
      const limiter = new LoggedLimiter(0);
      const subscription = of("a")
        .pipe(rateLimit(limiter, { onRejected, clock }))
        .subscribe({ error: () => {} });
      expect(limiter.log).toEqual(["dispose"]);
      subscription.unsubscribe();
    }
  });

  it("is replaced in its place in concat order", () => {
    const limiter = new LoggedLimiter(0);
    const replacement = new Subject<string>();
    const told = seen(
      of("a", "b").pipe(
        limitConcurrency(limiter, (value) => of(value), {
          order: "concat",
          onRejected: ({ value }) => ({ action: "replace", with: value === "a" ? replacement : of("B") }),
        }),
      ),
    );
    expect(told).toEqual([]);
    replacement.next("A");
    replacement.complete();
    expect(told).toEqual(["A", "B", "complete"]);
  });

  it("ends the stream when a function throws or says something else, and gives everything back", () => {
    const bad: [OnRejected<number>, unknown][] = [
      [
        () => {
          throw "thrown";
        },
        "thrown",
      ],
      [(() => "drop") as never, { name: "TypeError" }],
      [() => ({ action: "retry", delayMs: -1 }), { name: "RangeError" }],
      [(() => ({ action: "again" })) as never, { name: "TypeError" }],
    ];
    for (const [onRejected, error] of bad) {
      const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
      const told = seen(of(1, 2).pipe(limitConcurrency(limiter, () => NEVER, { onRejected })));
      expect(typeof error === "object" ? told[0] : told).toMatchObject(
        typeof error === "object" ? (error as object) : [error],
      );
      expect(look(limiter).available).toBe(1);
    }
  });

  it("ends the stream when the limiter has been disposed, whatever else is to be done then", () => {
    const policies: OnRejected<number>[] = [
      "drop",
      "retryAfter",
      { jitter: 0 },
      () => ({ action: "drop" }),
      () => ({ action: "retry" }),
    ];
    for (const onRejected of policies) {
      const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
      const told = seen(of(1, 2).pipe(limitConcurrency(limiter, () => NEVER, { onRejected })));
      limiter.dispose();
      expect(told).toMatchObject([{ code: "ERR_RATE_LIMIT_REJECTED", reason: "limiter_disposed" }]);
    }
  });

  it("is forgotten when the function leaves the stream", () => {
    const source = new Subject<number>();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.attemptAcquire();
    const told: unknown[] = [];
    const subscription = source
      .pipe(
        rateLimit(limiter, {
          onRejected: () => {
            subscription.unsubscribe();
            return { action: "error" };
          },
        }),
      )
      .subscribe({ error: (error) => told.push(error) });
    source.next(1);
    expect(told).toEqual([]);
  });

  it("can be replaced by a function even then", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    limiter.attemptAcquire();
    const told = seen(
      of(1).pipe(
        limitConcurrency(limiter, (): Observable<string> => NEVER, {
          onRejected: () => ({ action: "replace", with: of("x") }),
        }),
      ),
    );
    limiter.dispose();
    expect(told).toEqual(["x", "complete"]);
  });

  it("is an error downstream, and never thrown, when the limiter was disposed before", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.dispose();
    for (const stream of [of(1).pipe(limitConcurrency(limiter, () => of(2))), of(1).pipe(leased(limiter))]) {
      expect(seen(stream)).toMatchObject([{ code: "ERR_LIMITER_DISPOSED" }]);
    }
  });

  it("has no timer left when the stream is unsubscribed", () => {
    const { clock, limiter } = usedUp();
    const subscription = of("a")
      .pipe(rateLimit(limiter, { onRejected: "retryAfter" }))
      .subscribe();
    expect(clock.timerCount).toBe(1);
    subscription.unsubscribe();
    expect(clock.timerCount).toBe(0);
  });
});

describe("a value that is not worth working on any more", () => {
  it("is refused although a permit is free, and counted by the limiter", () => {
    const clock = new ManualClock({ startMs: 100 });
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, clock });
    const told = seen(
      of(1).pipe(limitConcurrency(limiter, () => expect.unreachable("started"), { deadline: () => 99 })),
    );
    expect(told).toMatchObject([{ reason: "deadline_expired" }]);
    expect(look(limiter).refused).toBe(1);
  });

  it("is refused when its time passes in the stream's own buffer", () => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
    const work = new Subject<never>();
    const dropped: unknown[] = [];
    const told = seen(
      of("first", "second", "third").pipe(
        limitConcurrency(limiter, (value) => (value === "first" ? work : of(value)), {
          deadline: (value) => (value === "third" ? 5 : undefined),
          onRejected: ({ value, reason }) => {
            dropped.push([value, reason]);
            return { action: "drop" };
          },
        }),
      ),
    );
    clock.advance(6);
    work.complete();
    expect([told, dropped]).toEqual([["second", "complete"], [["third", "deadline_expired"]]]);
  });

  it("is refused when its time passes in the limiter's queue, which it leaves", () => {
    for (const option of [{ deadline: () => 5 }, { maxWaitMs: 5 }, { maxWaitMs: () => 5 }]) {
      const clock = new ManualClock();
      const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
      limiter.attemptAcquire();
      const told = seen(of(1).pipe(limitConcurrency(limiter, () => expect.unreachable("started"), option)));
      clock.advance(4.9);
      expect([told, look(limiter).queuedRequests]).toEqual([[], 1]);
      clock.advance(0.1);
      expect(told).toMatchObject([{ reason: "queue_timeout" }]);
      expect(look(limiter).queuedRequests).toBe(0);
    }
  });

  it("may have both a time and a longest wait, and the shorter one counts", () => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
    limiter.attemptAcquire();
    const told = seen(
      of(1).pipe(limitConcurrency(limiter, () => of(2), { deadline: () => 50, maxWaitMs: 5 })),
    );
    clock.advance(5);
    expect(told).toMatchObject([{ reason: "queue_timeout" }]);
  });

  it("has its time measured when the stream counts for itself too", () => {
    const clock = new ManualClock();
    const work = new Subject<number>();
    const told = seen(
      of(1, 2).pipe(limitConcurrency(1, () => work, { maxWaitMs: 5, clock, onRejected: "drop" })),
    );
    clock.advance(5);
    work.next(1);
    work.complete();
    expect([told, clock.timerCount]).toEqual([[1, "complete"], 0]);
  });
});
