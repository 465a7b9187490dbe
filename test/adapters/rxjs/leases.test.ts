import fc from "fast-check";
import { ConcurrencyLimiter, type LeaseOutcome, type RateLimitLease, RateLimitRejectedError } from "headgate";
import { leased, limitConcurrency, limitedFrom, rateLimit } from "headgate/rxjs";
import {
  concat,
  config,
  defer,
  finalize,
  NEVER,
  Observable,
  of,
  range,
  repeat,
  retry,
  Subject,
  take,
  throwError,
  UnsubscriptionError,
} from "rxjs";
import { TestScheduler } from "rxjs/testing";
import { afterEach, describe, expect, it } from "vitest";
import { flush } from "../../support.js";
import { LoggedLimiter, SlowLimiter } from "./foreign.js";
import { look, seen } from "./support.js";

afterEach(() => {
  config.onUnhandledError = null;
});

describe("a lease of a stream", () => {
  it("is given back after the work's own teardowns and its report, and before the end is told", () => {
    const limiter = new LoggedLimiter(1);
    const { log } = limiter;
    const work = new Subject<string>();
    of("a")
      .pipe(
        limitConcurrency(limiter, () =>
          new Observable<string>((inner) => {
            inner.add(() => log.push("teardown"));
            return work.subscribe(inner);
          }).pipe(finalize(() => log.push("finalize"))),
        ),
      )
      .subscribe({ next: (value) => log.push(value), complete: () => log.push("complete") });
    work.next("x");
    work.complete();
    log.push("returned");
    expect(log).toEqual(["x", "teardown", "finalize", "report success", "dispose", "complete", "returned"]);
  });

  it("has gone back when the next stream of a concat, a repeat or a retry asks", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const one = of(1).pipe(leased(limiter));
    expect(seen(concat(one, one).pipe(repeat(3)))).toEqual([1, 1, 1, 1, 1, 1, "complete"]);
    let tries = 0;
    const flaky = defer(() => {
      tries += 1;
      return tries < 3 ? throwError(() => new Error("again")) : of("done");
    }).pipe(leased(limiter), retry(2));
    expect(seen(flaky)).toEqual(["done", "complete"]);
    expect(look(limiter)).toMatchObject({ available: 1, refused: 0 });
  });

  it("is told how the work went", () => {
    const ends: [string, (lease: RateLimitLease) => Observable<unknown>, LeaseOutcome][] = [
      ["completes", () => of(1), "success"],
      ["fails", () => throwError(() => new Error("bug")), "failure"],
      ["times out", () => throwError(() => Object.assign(new Error(), { name: "TimeoutError" })), "dropped"],
      ["answers 503 as an error", () => throwError(() => ({ status: 503 })), "dropped"],
      ["answers 503 as a response", () => of(new Response("", { status: 503 })), "dropped"],
      ["answers 200 as a response", () => of(new Response("")), "success"],
      ["is refused further down", () => throwError(() => new RateLimitRejectedError()), "dropped"],
      [
        "throws",
        () => {
          throw new Error("bug");
        },
        "failure",
      ],
      ["is no stream", () => 42 as never, "failure"],
      ["is left", () => NEVER, "ignored"],
    ];
    for (const [what, work, outcome] of ends) {
      const limiter = new LoggedLimiter(1);
      of(1)
        .pipe(limitConcurrency(limiter, (_value, _index, lease) => work(lease)))
        .subscribe({ error: () => {} })
        .unsubscribe();
      expect([what, limiter.log]).toEqual([what, [`report ${outcome}`, "dispose"]]);
    }
  });

  it("can be told by the work itself, first", () => {
    const limiter = new LoggedLimiter(1);
    of(1)
      .pipe(
        limitConcurrency(limiter, (_value, _index, lease) => {
          lease.report("dropped");
          return of(1);
        }),
      )
      .subscribe();
    expect(limiter.log[0]).toBe("report dropped");
  });

  it("goes back although a teardown of the work throws, and the stream ends with that error", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const failing = new Observable<number>((inner) => {
      inner.next(1);
      inner.complete();
      return () => {
        throw new Error("teardown");
      };
    });
    const told = seen(of(1).pipe(limitConcurrency(limiter, () => failing)));
    expect(told[0]).toBe(1);
    expect(look(limiter).available).toBe(1);
  });

  it("goes back of all work, although a teardown throws when the stream is left", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 3 });
    const failing = new Observable<number>(() => () => {
      throw new Error("teardown");
    });
    const subscription = range(1, 3)
      .pipe(limitConcurrency(limiter, () => failing))
      .subscribe();
    expect(look(limiter).available).toBe(0);
    expect(() => subscription.unsubscribe()).toThrow(UnsubscriptionError);
    expect(look(limiter).available).toBe(3);
  });

  it("goes back although a teardown throws when the stream ends by a refusal, and who emitted the value is told", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const failing = new Observable<number>(() => () => {
      throw new Error("teardown");
    });
    const source = new Subject<number>();
    const told = seen(source.pipe(limitConcurrency(limiter, () => failing)));
    source.next(1);
    expect(() => source.next(2)).toThrow(UnsubscriptionError);
    expect(told).toMatchObject([{ reason: "limit_reached" }]);
    expect(look(limiter).available).toBe(1);
  });

  it("goes back at once when the stream is left, although a promise cannot be cancelled", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    let settle: (value: string) => void = () => {};
    const told: unknown[] = [];
    const subscription = of(1)
      .pipe(
        limitConcurrency(
          limiter,
          () =>
            new Promise<string>((resolve) => {
              settle = resolve;
            }),
        ),
      )
      .subscribe((value) => told.push(value));
    expect(look(limiter).available).toBe(0);
    subscription.unsubscribe();
    expect(look(limiter).available).toBe(1);
    settle("late");
    await Promise.resolve();
    expect(told).toEqual([]);
  });

  it("ends the stream when giving it back fails, whatever kind of stream", () => {
    class Failing extends LoggedLimiter {
      protected override attemptAcquireCore(): RateLimitLease {
        const lease = super.attemptAcquireCore();
        lease.dispose = () => {
          throw "dispose";
        };
        return lease;
      }
    }
    for (const free of [1, 0]) {
      expect(seen(of(1).pipe(rateLimit(new Failing(free), { onRejected: "drop" }))).at(-1)).toBe("dispose");
      const worked = of(1).pipe(limitConcurrency(new Failing(free), () => of(2), { onRejected: "drop" }));
      expect(seen(worked).at(-1)).toBe("dispose");
    }
  });

  it("is held by rateLimit only while the value is handed on, whatever the consumer does", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const unhandled: unknown[] = [];
    config.onUnhandledError = (error) => unhandled.push(error);
    const during: number[] = [];
    range(1, 3)
      .pipe(rateLimit(limiter))
      .subscribe(() => {
        during.push(look(limiter).available);
        throw new Error("consumer");
      });
    expect([during, look(limiter).available]).toEqual([[0, 0, 0], 1]);
    await new Promise((resolve) => setTimeout(resolve));
    expect(unhandled.length).toBe(3);
  });

  it("is given back when a grant comes for a stream that has ended, and project is not called", async () => {
    let started = 0;
    const limiter = new SlowLimiter();
    const subscription = of(1)
      .pipe(
        limitConcurrency(limiter, () => {
          started += 1;
          return NEVER;
        }),
      )
      .subscribe();
    subscription.unsubscribe();
    expect(limiter.aborted).toBe(1);
    limiter.grant();
    await flush();
    expect([limiter.granted, limiter.disposed, started]).toEqual([1, 1, 0]);
  });

  it("is disposed once, whatever comes first", () => {
    const runs = fc.record({
      values: fc.integer({ min: 0, max: 6 }),
      permits: fc.integer({ min: 1, max: 3 }),
      ends: fc.array(fc.constantFrom("complete", "error", "never", "throw", "sync", "wrong"), {
        minLength: 6,
        maxLength: 6,
      }),
      lasts: fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 6, maxLength: 6 }),
      stop: fc.option(fc.integer({ min: 0, max: 10 }), { nil: undefined }),
      enough: fc.integer({ min: 1, max: 6 }),
      sourceFails: fc.boolean(),
      kind: fc.constantFrom("push", "pull"),
    });
    let granted = 0;
    fc.assert(
      fc.property(runs, ({ values, permits, ends, lasts, stop, enough, sourceFails, kind }) => {
        const limiter = new ConcurrencyLimiter({ permitLimit: permits, queueLimit: 9 });
        new TestScheduler(() => {}).run(({ cold, flush }) => {
          const work = (index: number): Observable<string> => {
            const end = ends[index];
            if (end === "throw") throw new Error("project");
            if (end === "wrong") return 42 as never;
            if (end === "sync") return of("x", "y");
            const pause = "-".repeat(lasts[index] ?? 0);
            return cold(`${pause}x${pause}${{ complete: "|", error: "#", never: "" }[end as "never"]}`);
          };
          const source = cold("abcdef".slice(0, values) + (sourceFails ? "#" : "|"));
          const result =
            kind === "push"
              ? source.pipe(limitConcurrency(limiter, (_value, index) => work(index)))
              : limitedFrom("abcdef".slice(0, values), limiter, (_value, index) => work(index));
          const subscription = result.pipe(take(enough)).subscribe({ error: () => {} });
          if (stop !== undefined) cold("-").scheduler.schedule(() => subscription.unsubscribe(), stop);
          flush();
          subscription.unsubscribe();
        });
        granted += limiter.getStatistics()?.totalSuccessfulLeases ?? 0;
        expect(limiter.getStatistics()).toMatchObject({
          currentAvailablePermits: permits,
          currentQueuedCount: 0,
        });
      }),
      { numRuns: 10_000 },
    );
    expect(granted).toBeGreaterThan(10_000);
  });
});
