import { ConcurrencyLimiter } from "headgate";
import { limitConcurrency, limitedFrom, rateLimit } from "headgate/rxjs";
import { from, Observable, of, range, Subject, take } from "rxjs";
import { describe, expect, it } from "vitest";
import { collectGarbage, look, seen } from "./support.js";

const MANY = 100_000;
const endless = { buffer: { size: Number.POSITIVE_INFINITY } };

describe("a stream of very many values", () => {
  it("takes a million whose work is done at once", () => {
    for (const limiter of [3, new ConcurrencyLimiter({ permitLimit: 3 })]) {
      let done = 0;
      let isComplete = false;
      range(0, 1_000_000)
        .pipe(limitConcurrency(limiter, (value) => of(value)))
        .subscribe({
          next: () => {
            done += 1;
          },
          complete: () => {
            isComplete = true;
          },
        });
      expect([done, isComplete]).toEqual([1_000_000, true]);
    }
  });

  it("takes a million from an iterable whose work is done at once", () => {
    let done = 0;
    limitedFrom(range0(1_000_000), 1, (value) => of(value)).subscribe(() => {
      done += 1;
    });
    expect(done).toBe(1_000_000);
  });

  it("takes a hundred thousand that have waited and whose work is done at once (concatMap overflows the stack)", () => {
    for (const limiter of [1, new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 })]) {
      const first = new Subject<number>();
      const told = seen(
        range(0, MANY).pipe(
          limitConcurrency(limiter, (value) => (value === 0 ? first : of(value)), endless),
          lastTwo,
        ),
      );
      expect(told).toEqual([]);
      first.complete();
      expect(told).toEqual([MANY - 2, MANY - 1, "complete"]);
    }
  });

  it("shares one permit with another such stream, in turns", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2 });
    const held = limiter.attemptAcquire();
    const order: string[] = [];
    for (const name of ["a", "b"]) {
      range(0, MANY)
        .pipe(limitConcurrency(limiter, () => of(name), endless))
        .subscribe({ next: (value) => order.push(value), complete: () => order.push("|") });
    }
    held.dispose();
    expect([order.length, order.filter((name) => name === "a").length]).toEqual([2 * MANY + 2, MANY]);
    expect(order.slice(0, 6)).toEqual(["a", "b", "a", "b", "a", "b"]);
    expect(look(limiter)).toMatchObject({ available: 1, queuedRequests: 0 });
  });

  it("takes values that come while one is handed on, in order", () => {
    const source = new Subject<number>();
    const told: number[] = [];
    source.pipe(limitConcurrency(1, (value) => of(value), endless)).subscribe((value) => {
      told.push(value);
      if (value < MANY) source.next(value + 1);
    });
    source.next(1);
    expect(told.length).toBe(MANY);
    expect(told.every((value, i) => value === i + 1)).toBe(true);
  });

  it("takes values that come while project runs, in order and after it", () => {
    const source = new Subject<number>();
    const told: number[] = [];
    source
      .pipe(
        limitConcurrency(2, (value) => {
          if (value < 3) source.next(value + 1);
          return of(value);
        }),
      )
      .subscribe((value) => told.push(value));
    source.next(1);
    expect(told).toEqual([1, 2, 3]);
  });

  it("stops work that emits in a loop as soon as the consumer has had enough", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    let emitted = 0;
    const endlessWork = new Observable<number>((inner) => {
      while (!inner.closed) {
        emitted += 1;
        inner.next(emitted);
      }
    });
    expect(
      seen(
        of(1).pipe(
          limitConcurrency(limiter, () => endlessWork),
          take(3),
        ),
      ),
    ).toEqual([1, 2, 3, "complete"]);
    expect([emitted, look(limiter).available]).toEqual([3, 1]);
    expect(
      seen(
        of(1).pipe(
          limitConcurrency(1, () => range(0, 1e9)),
          take(3),
        ),
      ),
    ).toEqual([0, 1, 2, "complete"]);
  });

  it("stops a source that emits in a loop as soon as the consumer has had enough", () => {
    let projected = 0;
    const told = seen(
      range(0, 1e9).pipe(
        limitConcurrency(1, (value) => {
          projected += 1;
          return of(value);
        }),
        take(2),
      ),
    );
    expect([told, projected]).toEqual([[0, 1, "complete"], 2]);
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    expect(seen(range(0, 1e9).pipe(rateLimit(limiter), take(2)))).toEqual([0, 1, "complete"]);
  });

  it("starts nothing more when project itself ends the stream", () => {
    const subject = new Subject<number>();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    let isSubscribed = false;
    const subscription = subject
      .pipe(
        limitConcurrency(limiter, () => {
          subscription.unsubscribe();
          return new Observable<number>(() => {
            isSubscribed = true;
          });
        }),
      )
      .subscribe();
    subject.next(1);
    expect([isSubscribed, look(limiter).available]).toEqual([false, 1]);
  });

  it("keeps what waits in time that does not grow with it", () => {
    const time = (n: number): number => {
      const first = new Subject<number>();
      from(range(0, n))
        .pipe(limitConcurrency(1, (value) => (value === 0 ? first : of(value)), endless))
        .subscribe();
      const start = performance.now();
      first.complete();
      return performance.now() - start;
    };
    time(10_000);
    // Quadratic time would be 100 times as long.
    expect(time(200_000)).toBeLessThan(60 * Math.max(1, time(20_000)));
  });
});

describe("a source that is faster than its limiter for good", () => {
  /** What the heap holds after some steps, in bytes per step of the second half. */
  async function growth(steps: number, step: (i: number) => unknown): Promise<number> {
    let half = 0;
    for (let i = 0; i < steps; i++) {
      await step(i);
      if (i !== steps / 2) continue;
      collectGarbage();
      half = process.memoryUsage().heapUsed;
    }
    collectGarbage();
    return (process.memoryUsage().heapUsed - half) / (steps / 2);
  }
  const large = (i: number): number[] => Array.from({ length: 100 }, () => i);

  it("does not make memory grow when values are let go", async () => {
    const source = new Subject<number[]>();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const work = new Subject<never>();
    const buffer = { size: 100, overflow: "dropOldest" } as const;
    source.pipe(limitConcurrency(limiter, () => work, { buffer })).subscribe();
    const perValue = await growth(20_000, (i) => source.next(large(i)));
    // Each value is 800 bytes.
    expect(perValue).toBeLessThan(50);
    expect(look(limiter)).toMatchObject({ granted: 1, queuedRequests: 1 });
  });

  it("does not make memory grow when it can be asked to wait", async () => {
    let made = 0;
    function* values(): Generator<number[]> {
      for (;;) {
        made += 1;
        yield large(made);
      }
    }
    let finish: () => void = () => {};
    const work = (): Promise<void> =>
      new Promise((resolve) => {
        finish = resolve;
      });
    const subscription = limitedFrom(values(), 1, work).subscribe();
    const perValue = await growth(20_000, async () => {
      finish();
      await Promise.resolve();
      await Promise.resolve();
    });
    expect(perValue).toBeLessThan(50);
    expect(made).toBeGreaterThan(9000);
    expect(made).toBeLessThan(20_005);
    subscription.unsubscribe();
  });
});

function* range0(n: number): Generator<number> {
  for (let i = 0; i < n; i++) yield i;
}

/** The last two values, and the end. */
const lastTwo = <T>(source: Observable<T>): Observable<T> =>
  new Observable<T>((destination) => {
    const last: T[] = [];
    return source.subscribe({
      next: (value) => {
        last.push(value);
        if (last.length > 2) last.shift();
      },
      error: (error) => destination.error(error),
      complete: () => {
        for (const value of last) destination.next(value);
        destination.complete();
      },
    });
  });
