import { ConcurrencyLimiter, PartitionedRateLimiter, RateLimitPartition } from "headgate";
import {
  BufferOverflowError,
  limitConcurrency,
  limitConcurrencyBy,
  type Overflow,
  rateLimit,
} from "headgate/rxjs";
import { of, range, Subject } from "rxjs";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../../support.js";
import { LoggedLimiter } from "./foreign.js";
import { collectGarbage, look, seen } from "./support.js";

/** A stream of which nothing starts until `release` is called. */
function held<T>(values: readonly T[], buffer: { size?: number; overflow?: Overflow<T> }) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 9 });
  const lease = limiter.attemptAcquire();
  const told = seen(of(...values).pipe(limitConcurrency(limiter, (value) => of(value), { buffer })));
  return { limiter, told, release: () => lease.dispose() };
}

describe("the buffer of a stream", () => {
  it("holds 1024 values when nothing is said, and tells what else can be done", () => {
    const subject = new Subject<number>();
    const told = seen(subject.pipe(limitConcurrency(1, () => new Subject<number>())));
    for (let i = 0; i < 1025; i++) subject.next(i);
    expect(told).toEqual([]);
    subject.next(1025);
    const [error] = told as [BufferOverflowError];
    expect(error).toBeInstanceOf(BufferOverflowError);
    expect([error.code, error.size, error.name]).toEqual([
      "ERR_BUFFER_OVERFLOW",
      1024,
      "BufferOverflowError",
    ]);
    for (const word of ["dropNewest", "dropOldest", "limitedFrom"]) expect(error.message).toContain(word);
  });

  it("lets the newest or the oldest go", () => {
    const newest = held([1, 2, 3, 4], { size: 2, overflow: "dropNewest" });
    newest.release();
    const oldest = held([1, 2, 3, 4], { size: 2, overflow: "dropOldest" });
    oldest.release();
    expect([newest.told, oldest.told]).toEqual([
      [1, 2, "complete"],
      [3, 4, "complete"],
    ]);
  });

  it("takes the request of the oldest back when that is let go, and asks for the next", () => {
    const { limiter } = held([1, 2, 3], { size: 2, overflow: "dropOldest" });
    expect(look(limiter)).toMatchObject({ queuedRequests: 1, aborted: 1 });
  });

  it("asks a function which to let go, which is told how the stream stands", () => {
    const asked: unknown[] = [];
    const overflow: Overflow<number> = (value, standing) => {
      asked.push([value, standing]);
      return value === 3 ? "dropOldest" : "dropNewest";
    };
    const { told, release } = held([1, 2, 3, 4], { size: 2, overflow });
    release();
    const standing = { size: 2, waiting: 2, active: 0 };
    expect([asked, told]).toEqual([
      [
        [3, standing],
        [4, standing],
      ],
      [2, 3, "complete"],
    ]);
  });

  it("ends the stream when that function throws or says something else", () => {
    for (const overflow of [
      () => {
        throw new Error("own");
      },
      (() => "newest") as never,
    ]) {
      const { told, limiter } = held([1, 2], { size: 1, overflow });
      expect(told).toMatchObject([{ message: expect.stringMatching(/own|overflow/) }]);
      expect(look(limiter).queuedRequests).toBe(0);
    }
  });

  it("may be of size 0: a value starts at once or is too many", () => {
    const source = new Subject<string>();
    const work = new Subject<string>();
    for (const overflow of ["dropNewest", "dropOldest"] as const) {
      for (const limiter of [1, new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 })]) {
        const started: string[] = [];
        const subscription = source
          .pipe(
            limitConcurrency(
              limiter,
              (value) => {
                started.push(value);
                return work;
              },
              { buffer: { size: 0, overflow } },
            ),
          )
          .subscribe();
        for (const value of ["a", "b"]) source.next(value);
        if (typeof limiter !== "number") expect(look(limiter)).toMatchObject({ queuedRequests: 0 });
        expect(started).toEqual(["a"]);
        subscription.unsubscribe();
      }
    }
    const told = seen(of("a", "b").pipe(limitConcurrency(1, () => work, { buffer: { size: 0 } })));
    expect(told).toMatchObject([{ code: "ERR_BUFFER_OVERFLOW" }]);
  });

  it("of size 0 still lets a value start that comes while another is handed on", () => {
    const source = new Subject<number>();
    const told: number[] = [];
    const buffer = { size: 0, overflow: "dropNewest" } as const;
    source.pipe(limitConcurrency(2, (value) => of(value), { buffer })).subscribe((value) => {
      told.push(value);
      if (value < 3) source.next(value + 1);
    });
    source.next(1);
    expect(told).toEqual([1, 2, 3]);
    const one: number[] = [];
    const again = new Subject<number>();
    const never = new Subject<number>();
    again
      .pipe(
        limitConcurrency(
          1,
          (value) => {
            if (value < 3) again.next(value + 1);
            one.push(value);
            return never;
          },
          { buffer },
        ),
      )
      .subscribe();
    again.next(1);
    expect(one).toEqual([1]);
  });

  it("does not count values that start at once in another lane", () => {
    const perTenant = PartitionedRateLimiter.create((tenant: string) =>
      RateLimitPartition.getConcurrencyLimiter(tenant, () => ({ permitLimit: 1, queueLimit: 5 })),
    );
    const started: string[] = [];
    const overflow = "dropNewest" as const;
    of("a", "a", "a", "b", "b")
      .pipe(
        limitConcurrencyBy(
          perTenant,
          (tenant) => tenant,
          (tenant) => {
            started.push(tenant);
            return new Subject();
          },
          { buffer: { size: 1, overflow } },
        ),
      )
      .subscribe();
    expect(started).toEqual(["a", "b"]);
    expect(perTenant.getTotals().currentQueuedCount).toBe(1);
  });

  it("lets the oldest of all lanes go", () => {
    const perTenant = PartitionedRateLimiter.create((tenant: string) =>
      RateLimitPartition.getConcurrencyLimiter(tenant, () => ({ permitLimit: 1, queueLimit: 5 })),
    );
    const leases = ["a", "b"].map((tenant) => perTenant.attemptAcquire(tenant));
    const told = seen(
      of("a1", "b1", "b2", "a2").pipe(
        limitConcurrencyBy(
          perTenant,
          ([tenant = ""]) => tenant,
          (value) => of(value),
          { buffer: { size: 3, overflow: "dropOldest" } },
        ),
      ),
    );
    for (const lease of leases) lease.dispose();
    expect(told).toEqual(["a2", "b1", "b2", "complete"]);
  });

  it("of size 0 lets values go that come while another is handed on and would have to wait", () => {
    for (const overflow of ["dropNewest", "error"] as const) {
      const source = new Subject<string>();
      const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 });
      const work = new Subject<string>();
      const told: unknown[] = [];
      const started: string[] = [];
      source
        .pipe(
          limitConcurrency(
            limiter,
            (value) => {
              started.push(value);
              if (value === "a") source.next("b");
              return work;
            },
            { buffer: { size: 0, overflow } },
          ),
        )
        .subscribe({ error: (error: Error) => told.push(error.name) });
      source.next("a");
      const isError = overflow === "error";
      expect([started, told, look(limiter).queuedRequests]).toEqual([
        ["a"],
        isError ? ["BufferOverflowError"] : [],
        0,
      ]);
    }
  });

  it("of size 0 has no place for a value that is to be tried again", () => {
    const told: unknown[] = [];
    const buffer = { size: 0, overflow: "dropNewest" } as const;
    of(1)
      .pipe(rateLimit(new LoggedLimiter(0), { buffer, onRejected: "retryAfter", clock: new ManualClock() }))
      .subscribe({ complete: () => told.push("complete") });
    expect(told).toEqual(["complete"]);
  });

  it("keeps nothing of a value that has gone ahead", async () => {
    const source = new Subject<object>();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const work = new Subject<never>();
    const values: WeakRef<object>[] = [];
    source.pipe(limitConcurrency(limiter, () => work)).subscribe();
    const held = limiter.attemptAcquire();
    (() => {
      for (let i = 0; i < 2; i++) {
        const value = { i };
        values.push(new WeakRef(value));
        source.next(value);
      }
    })();
    held.dispose();
    await new Promise((resolve) => setTimeout(resolve));
    collectGarbage();
    expect(values.map((value) => value.deref() === undefined)).toEqual([true, false]);
    expect(source.observed).toBe(true);
  });

  it("lets go of what it kept when the stream ends", () => {
    const source = new Subject<number>();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    limiter.attemptAcquire();
    const told = seen(source.pipe(rateLimit(limiter)));
    source.next(1);
    source.error("broken");
    expect([told, look(limiter)]).toMatchObject([["broken"], { queuedRequests: 0 }]);
    expect(seen(range(0, 0).pipe(rateLimit(limiter)))).toEqual(["complete"]);
  });
});
