import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
import { limitedFrom } from "headgate/rxjs";
import { ManualClock } from "headgate/testing";
import { config, EMPTY, NEVER, type Observable, of, Subject, take, takeUntil } from "rxjs";
import { afterEach, describe, expect, it } from "vitest";
import { flush } from "../../support.js";
import { LoggedLimiter } from "./foreign.js";
import { look, seen } from "./support.js";

afterEach(() => {
  config.onUnhandledError = null;
});

/** An async iterable that answers when it is told to, and notes what is asked of it. */
class Tap implements AsyncIterable<number> {
  asked = 0;
  returned = 0;
  readonly #answers: ((result: IteratorResult<number>) => void)[] = [];
  onReturn: () => Promise<IteratorResult<number>> = () => Promise.resolve({ done: true, value: undefined });

  [Symbol.asyncIterator](): AsyncIterator<number> {
    return {
      next: () => {
        this.asked += 1;
        return new Promise((resolve) => this.#answers.push(resolve));
      },
      return: () => {
        this.returned += 1;
        return this.onReturn();
      },
    };
  }

  async give(value: number): Promise<void> {
    this.#answers.shift()?.({ done: false, value });
    await flush();
  }

  async end(): Promise<void> {
    this.#answers.shift()?.({ done: true, value: undefined });
    await flush();
  }
}

describe("limitedFrom", () => {
  it("asks for a value only when the one before has its lease", async () => {
    const tap = new Tap();
    const works: Subject<never>[] = [];
    const told = seen(
      limitedFrom(tap, 2, () => {
        const work = new Subject<never>();
        works.push(work);
        return work;
      }),
    );
    const standing: [number, number][] = [];
    for (let i = 0; i < 3; i++) {
      await tap.give(i);
      standing.push([tap.asked, works.length]);
    }
    works[0]?.complete();
    await flush();
    standing.push([tap.asked, works.length]);
    expect(standing).toEqual([
      [2, 1],
      [3, 2],
      [3, 2],
      [4, 3],
    ]);
    await tap.end();
    for (const work of works) work.complete();
    expect([told, tap.returned]).toEqual([["complete"], 0]);
  });

  it("never has more values out than are worked on, and one", async () => {
    let made = 0;
    let ended = 0;
    let most = 0;
    async function* numbers(): AsyncGenerator<number> {
      for (let i = 0; i < 100; i++) {
        made += 1;
        most = Math.max(most, made - ended);
        yield i;
      }
    }
    await new Promise<void>((resolve) => {
      limitedFrom(numbers(), 2, async (value) => {
        for (let i = 0; i < (value % 7) + 1; i++) await undefined;
        ended += 1;
      }).subscribe({ complete: resolve });
    });
    expect([made, ended, most]).toEqual([100, 100, 3]);
  });

  it("reads arrays, strings, sets, generators and streams", async () => {
    const stream = new ReadableStream<number>({
      start: (controller) => {
        for (const value of [1, 2]) controller.enqueue(value);
        controller.close();
      },
    });
    const sources: [Iterable<unknown> | AsyncIterable<unknown> | ReadableStream<unknown>, unknown[]][] = [
      [
        [1, 2],
        [1, 2, "complete"],
      ],
      ["ab", ["a", "b", "complete"]],
      [new Set([3]), [3, "complete"]],
      [[], ["complete"]],
      [stream, [1, 2, "complete"]],
      [
        (async function* () {
          yield 5;
        })(),
        [5, "complete"],
      ],
    ];
    for (const [source, expected] of sources) {
      const told = seen(
        limitedFrom(source, new ConcurrencyLimiter({ permitLimit: 1 }), (value) => of(value)),
      );
      await flush();
      expect(told).toEqual(expected);
    }
    expect(stream.locked).toBe(false);
  });

  it("passes on that the source has failed, gives everything back, and does not end it a second time", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 2 });
    let returned = 0;
    const broken = (bad: () => never): Iterator<number> => {
      let asked = 0;
      return {
        next: () => {
          asked += 1;
          return asked === 1 ? { done: false, value: 1 } : bad();
        },
        return: () => {
          returned += 1;
          return { done: true, value: undefined };
        },
      };
    };
    const iterable = {
      [Symbol.iterator]: () =>
        broken(() => {
          throw "broken";
        }),
    };
    expect(seen(limitedFrom(iterable, limiter, () => NEVER))).toEqual(["broken"]);
    const asyncs = [
      async function* () {
        yield 1;
        throw "broken";
      },
      () => ({
        [Symbol.asyncIterator]: () => ({
          next: () => {
            throw "broken";
          },
        }),
      }),
      () =>
        new ReadableStream<number>({
          pull: () => {
            throw "broken";
          },
        }),
    ];
    for (const make of asyncs) {
      const told = seen(limitedFrom(make() as AsyncIterable<number>, limiter, () => NEVER));
      await flush();
      expect(told).toEqual(["broken"]);
    }
    expect(
      seen(
        limitedFrom(
          {
            [Symbol.iterator]: () => {
              throw "no iterator";
            },
          },
          limiter,
          () => NEVER,
        ),
      ),
    ).toEqual(["no iterator"]);
    expect([look(limiter).available, returned]).toEqual([2, 0]);
  });

  it("tells the source at once, and once, when the stream is left, although it is making a value", () => {
    const tap = new Tap();
    const subscription = limitedFrom(tap, 1, () => EMPTY).subscribe();
    expect([tap.asked, tap.returned]).toEqual([1, 0]);
    subscription.unsubscribe();
    expect(tap.returned).toBe(1);
    subscription.unsubscribe();
    expect(tap.returned).toBe(1);
  });

  it("takes no value that comes after the stream was left", async () => {
    for (const acquireFirst of [false, true]) {
      const tap = new Tap();
      const limiter = new LoggedLimiter(1);
      let started = 0;
      const work = (): Observable<never> => {
        started += 1;
        return EMPTY;
      };
      limitedFrom(tap, limiter, work, { acquireFirst }).subscribe().unsubscribe();
      await tap.give(1);
      expect([limiter.free, tap.asked, started]).toEqual([1, 1, 0]);
    }
  });

  it("ends a generator that the consumer has had enough of", () => {
    const ends: string[] = [];
    function* numbers(): Generator<number> {
      try {
        for (let i = 0; ; i++) yield i;
      } finally {
        ends.push("ended");
      }
    }
    expect(seen(limitedFrom(numbers(), 3, (value) => of(value)).pipe(take(4)))).toEqual([
      0,
      1,
      2,
      3,
      "complete",
    ]);
    expect(ends).toEqual(["ended"]);
  });

  it("ends a generator that ends the stream itself, once it has stopped running", () => {
    const told: unknown[] = [];
    const enough = new Subject<void>();
    function* numbers(): Generator<number> {
      try {
        yield 1;
        enough.next();
        told.push("still running");
        yield 2;
      } finally {
        told.push("ended");
      }
    }
    limitedFrom(numbers(), 1, (value) => of(value))
      .pipe(takeUntil(enough))
      .subscribe({ next: (value) => told.push(value), complete: () => told.push("complete") });
    expect(told).toEqual([1, "complete", "still running", "ended"]);
  });

  it("reports what goes wrong when the source is told", async () => {
    const reported: unknown[] = [];
    config.onUnhandledError = (error) => reported.push(error);
    const tap = new Tap();
    tap.onReturn = () => Promise.reject("return rejects");
    limitedFrom(tap, 1, () => EMPTY)
      .subscribe()
      .unsubscribe();
    const throwing = {
      next: () => ({ done: false as const, value: 1 }),
      return: () => {
        throw "return throws";
      },
    };
    limitedFrom({ [Symbol.iterator]: () => throwing }, 1, () => NEVER)
      .subscribe()
      .unsubscribe();
    const asyncThrowing = {
      next: () => new Promise<never>(() => {}),
      return: () => {
        throw "async return throws";
      },
    };
    limitedFrom({ [Symbol.asyncIterator]: () => asyncThrowing }, 1, () => NEVER)
      .subscribe()
      .unsubscribe();
    const stream = new ReadableStream<number>({
      cancel: () => {
        throw "cancel throws";
      },
    });
    limitedFrom(stream, 1, () => NEVER)
      .subscribe()
      .unsubscribe();
    await new Promise((resolve) => setTimeout(resolve));
    expect([...reported].sort()).toEqual([
      "async return throws",
      "cancel throws",
      "return rejects",
      "return throws",
    ]);
    config.onUnhandledError = null;
    const unhandled = new Promise((resolve) => process.once("unhandledRejection", resolve));
    limitedFrom({ [Symbol.iterator]: () => throwing }, 1, () => NEVER)
      .subscribe()
      .unsubscribe();
    expect(await unhandled).toBe("return throws");
  });

  it("takes async iterators that answer without a promise, as `for await` does, and hears when one answers nonsense", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", note);
    config.onUnhandledError = note;
    const read = async (next: () => unknown): Promise<unknown[]> => {
      const iterator = { next };
      const result = seen(
        limitedFrom({ [Symbol.asyncIterator]: () => iterator } as never, 1, (value) => of(value)),
      );
      await new Promise((resolve) => setTimeout(resolve));
      return result.map((told) => (told instanceof Error ? told.name : told));
    };
    let count = 0;
    const synchronous = (): unknown => {
      count += 1;
      return { done: count > 2, value: count };
    };
    expect(await read(synchronous)).toEqual([1, 2, "complete"]);
    expect(await read(() => Promise.resolve(null))).toEqual(["TypeError"]);
    expect(await read(() => 5)).toEqual(["TypeError"]);
    const trap = {
      get done(): boolean {
        throw new RangeError("trap");
      },
    };
    expect(await read(async () => trap)).toEqual(["RangeError"]);
    let returned = 0;
    const endless = {
      next: () => new Promise(() => {}),
      return: () => {
        returned += 1;
      },
    };
    limitedFrom({ [Symbol.asyncIterator]: () => endless } as never, 1, () => NEVER)
      .subscribe()
      .unsubscribe();
    await new Promise((resolve) => setTimeout(resolve));
    process.off("unhandledRejection", note);
    config.onUnhandledError = null;
    expect([returned, unhandled]).toEqual([1, []]);
  });

  it("cancels a stream and gives its lock back when it is left", async () => {
    let cancelled = 0;
    const stream = new ReadableStream<number>({
      cancel: () => {
        cancelled += 1;
      },
    });
    const subscription = limitedFrom(stream, 1, () => EMPTY).subscribe();
    await flush();
    expect(stream.locked).toBe(true);
    subscription.unsubscribe();
    await flush();
    expect([cancelled, stream.locked]).toEqual([1, false]);
  });

  it("keeps what the limiter refuses for later, or drops it, or works in order", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, clock });
    const told = seen(limitedFrom([1, 2], limiter, (value) => of(value), { onRejected: { jitter: 0 } }));
    expect(told).toEqual([1]);
    clock.advance(10);
    expect(told).toEqual([1, 2, "complete"]);
    expect(seen(limitedFrom([1, 2], limiter, (value) => of(value), { onRejected: "drop" }))).toEqual([
      "complete",
    ]);
    const works = [new Subject<number>(), new Subject<number>()];
    const started: number[] = [];
    limitedFrom(
      [0, 1],
      5,
      (value) => {
        started.push(value);
        return works[value] ?? EMPTY;
      },
      { order: "concat" },
    ).subscribe();
    expect(started).toEqual([0]);
    works[0]?.complete();
    expect(started).toEqual([0, 1]);
  });
});

describe("limitedFrom with acquireFirst", () => {
  it("has the lease before it asks for a value", async () => {
    const tap = new Tap();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = limiter.attemptAcquire();
    const work = new Subject<never>();
    const started: [number, number][] = [];
    const told = seen(
      limitedFrom(
        tap,
        limiter,
        (value, index) => {
          started.push([value, index]);
          return work;
        },
        { acquireFirst: true },
      ),
    );
    expect(tap.asked).toBe(0);
    held.dispose();
    expect([tap.asked, look(limiter).available]).toEqual([1, 0]);
    await tap.give(7);
    expect([started, tap.asked]).toEqual([[[7, 0]], 1]);
    work.complete();
    await flush();
    expect([tap.asked, look(limiter).available]).toEqual([2, 0]);
    await tap.end();
    expect([told, look(limiter).available]).toEqual([["complete"], 1]);
  });

  it("gives an unused lease back unreported, when the source ends, fails, or the stream is left", async () => {
    for (const end of ["end", "fail", "leave"] as const) {
      const limiter = new LoggedLimiter(1);
      const source =
        end === "leave"
          ? new Tap()
          : (function* (): Generator<number> {
              if (end === "fail") throw "broken";
              yield* [];
            })();
      const subscription = limitedFrom(source, limiter, () => NEVER, { acquireFirst: true }).subscribe({
        error: () => {},
      });
      subscription.unsubscribe();
      expect([end, limiter.log, limiter.free]).toEqual([end, ["dispose"], 1]);
    }
  });

  it("reads a source that answers at once without a deeper stack", () => {
    const told: unknown[] = [];
    function* numbers(): Generator<number> {
      for (let i = 0; i < 100_000; i++) yield i;
    }
    limitedFrom(numbers(), 2, (value) => of(value), { acquireFirst: true }).subscribe({
      next: (value) => told.push(value),
      complete: () => told.push("complete"),
    });
    expect([told.length, told.at(-1)]).toEqual([100_001, "complete"]);
  });

  it("asks again after a refusal", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, clock });
    const told = seen(
      limitedFrom([1, 2], limiter, (value) => of(value), { acquireFirst: true, onRejected: { jitter: 0 } }),
    );
    clock.advance(10);
    expect(told).toEqual([1, 2]);
    clock.advance(10);
    expect(told).toEqual([1, 2, "complete"]);
  });

  it("takes no options that depend on a value", () => {
    const options = [
      { permitCount: () => 1 },
      { priority: () => 1 },
      { maxWaitMs: () => 1 },
      { deadline: () => 1 },
      { onRejected: "drop" as const },
      { onRejected: () => ({ action: "drop" as const }) },
    ];
    for (const option of options) {
      expect(() => limitedFrom([1], 1, () => EMPTY, { ...option, acquireFirst: true })).toThrow(TypeError);
      expect(() => limitedFrom([1], 1, () => EMPTY, option)).not.toThrow();
    }
  });
});
