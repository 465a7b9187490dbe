import { getEventListeners } from "node:events";
import {
  type AcquireOptions,
  ConcurrencyLimiter,
  PartitionedRateLimiter,
  type RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
} from "headgate";
import {
  leased,
  limitConcurrency,
  limitConcurrencyBy,
  limitedFrom,
  rateLimit,
  rateLimitBy,
} from "headgate/rxjs";
import { ManualClock } from "headgate/testing";
import {
  config,
  EMPTY,
  from,
  merge,
  NEVER,
  Observable,
  of,
  range,
  Subject,
  Subscriber,
  throwError,
} from "rxjs";
import { beforeEach, describe, expect, it } from "vitest";
import { flush } from "../../support.js";
import { LoggedLimiter, PlayedLimiter, SlowLimiter } from "./foreign.js";
import { look, seen } from "./support.js";

class CountedLimiter extends ConcurrencyLimiter {
  disposals = 0;
  freeAtDispose = Number.NaN;

  protected override disposeCore(): void {
    this.disposals += 1;
    this.freeAtDispose = look(this).available;
    super.disposeCore();
  }
}

/** Work that should not be started. An error would not do: nobody hears of it once a stream has ended. */
let started = 0;
const start = (): Observable<number> => {
  started += 1;
  return EMPTY;
};
beforeEach(() => {
  started = 0;
});

describe("a stream that nobody has subscribed to", () => {
  it("has asked for nothing, and has set no timer and no listener", () => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, clock });
    const { signal } = new AbortController();
    let made = 0;
    const factory = () => {
      made += 1;
      return limiter;
    };
    let pulled = 0;
    const source = {
      [Symbol.iterator]: () => {
        pulled += 1;
        return [1][Symbol.iterator]();
      },
    };
    of(1).pipe(
      limitConcurrency(factory, () => of(1), { signal, onRejected: "retryAfter" }),
      leased(limiter, { signal }),
      rateLimit(limiter),
    );
    limitedFrom(source, limiter, () => of(1));
    expect([
      made,
      pulled,
      clock.timerCount,
      look(limiter).granted,
      getEventListeners(signal, "abort").length,
    ]).toEqual([0, 0, 0, 0, 0]);
  });
});

describe("each subscription", () => {
  it("counts for itself when the limiter is a number", () => {
    let active = 0;
    const stream = range(0, 5).pipe(
      limitConcurrency(2, () => {
        active += 1;
        return NEVER;
      }),
    );
    stream.subscribe();
    stream.subscribe();
    expect(active).toBe(4);
    expect(seen(of(1).pipe(limitConcurrency(Number.POSITIVE_INFINITY, () => of(2))))).toEqual([
      2,
      "complete",
    ]);
  });

  it("has a limiter of its own when the limiter is a function, disposed once and after all leases are back", () => {
    const limiters: CountedLimiter[] = [];
    const make = () => {
      const limiter = new CountedLimiter({ permitLimit: 2, queueLimit: 5 });
      limiters.push(limiter);
      return limiter;
    };
    const stream = (work: () => typeof NEVER) => range(0, 5).pipe(limitConcurrency(make, work));
    const subscriptions = [stream(() => NEVER).subscribe(), stream(() => NEVER).subscribe()];
    for (const subscription of subscriptions) subscription.unsubscribe();
    seen(stream(() => EMPTY));
    seen(stream(() => throwError(() => "broken")));
    seen(of(1).pipe(rateLimit(make), leased(make)));
    expect(limiters.map(({ disposals, freeAtDispose }) => [disposals, freeAtDispose])).toEqual(
      Array.from({ length: 6 }, () => [1, 2]),
    );
  });

  it("leaves a limiter that it was given as it is", () => {
    const limiter = new CountedLimiter({ permitLimit: 2 });
    seen(of(1, 2).pipe(limitConcurrency(limiter, () => EMPTY)));
    expect(limiter.disposals).toBe(0);
  });

  it("has a partitioned limiter of its own when that is a function", () => {
    let disposed = 0;
    const make = () => {
      const limiter = PartitionedRateLimiter.create((key: number) =>
        RateLimitPartition.get(key, () => {
          const own = new ConcurrencyLimiter({ permitLimit: 1 });
          const { dispose } = own;
          own.dispose = () => {
            disposed += 1;
            dispose.call(own);
          };
          return own;
        }),
      );
      return limiter;
    };
    seen(
      of(1, 2).pipe(
        limitConcurrencyBy(
          make,
          (value) => value,
          () => EMPTY,
        ),
      ),
    );
    expect(disposed).toBe(2);
  });

  it("fails when the function does, or makes something else", () => {
    const bad = [
      () => {
        throw new Error("own");
      },
      () => 5,
    ] as never[];
    for (const make of bad) {
      for (const stream of [
        of(1).pipe(limitConcurrency(make, () => of(1))),
        of(1).pipe(rateLimitBy(make, () => 1)),
        limitedFrom([1], make, () => of(1)),
      ]) {
        expect(seen(stream)).toMatchObject([{ message: expect.stringMatching(/own|limiter\(\) must be/) }]);
      }
    }
  });
});

describe("unsubscribing", () => {
  it("takes all waiting requests back before it returns", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2000 });
    const subscription = range(0, 1001)
      .pipe(limitConcurrency(limiter, () => NEVER, { admission: "eager" }))
      .subscribe();
    expect(look(limiter)).toMatchObject({ queuedRequests: 1000, available: 0 });
    subscription.unsubscribe();
    expect(look(limiter)).toMatchObject({ queuedRequests: 0, available: 1, granted: 1, aborted: 1000 });
  });

  it("lets another stream go ahead in the same turn", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2 });
    const first = of("a")
      .pipe(limitConcurrency(limiter, () => NEVER))
      .subscribe();
    const told = seen(of("b").pipe(limitConcurrency(limiter, (value) => of(value))));
    first.unsubscribe();
    expect(told).toEqual(["b", "complete"]);
  });
});

describe("a signal", () => {
  it("ends the stream with its reason, and everything is given back", () => {
    const controller = new AbortController();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 });
    const told = seen(
      range(0, 3).pipe(limitConcurrency(limiter, () => NEVER, { signal: controller.signal })),
    );
    controller.abort("left");
    expect([told, look(limiter)]).toMatchObject([["left"], { available: 1, queuedRequests: 0 }]);
  });

  it("that was aborted before touches neither limiter nor source", () => {
    const signal = AbortSignal.abort("left");
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const source = new Subject<number>();
    expect(seen(source.pipe(limitConcurrency(limiter, () => of(1), { signal })))).toEqual(["left"]);
    expect(
      seen(
        limitedFrom({ [Symbol.iterator]: () => expect.unreachable("read") }, limiter, () => of(1), {
          signal,
        }),
      ),
    ).toEqual(["left"]);
    expect([source.observed, look(limiter).granted]).toEqual([false, 0]);
  });

  it("has no listener left after 10 000 streams, and never more than there are streams", () => {
    const { signal } = new AbortController();
    const listeners = () => getEventListeners(signal, "abort").length;
    let most = 0;
    for (let i = 0; i < 10_000; i++) {
      const end = i % 3;
      const work = () => {
        most = Math.max(most, listeners());
        return end === 0 ? of(1) : end === 1 ? throwError(() => "broken") : NEVER;
      };
      of(1)
        .pipe(limitConcurrency(1, work, { signal }))
        .subscribe({ error: () => {} })
        .unsubscribe();
    }
    expect([most, listeners()]).toEqual([1, 0]);
  });
});

describe("a limiter that knows only promises", () => {
  it("is told by a signal that a request is not wanted any more, and nothing is left unhandled", async () => {
    const limiter = new SlowLimiter();
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on("unhandledRejection", note);
    const subscription = of(1)
      .pipe(limitConcurrency(limiter, () => of(1)))
      .subscribe();
    subscription.unsubscribe();
    expect(limiter.aborted).toBe(1);
    limiter.fail(new Error("late"));
    await new Promise((resolve) => setTimeout(resolve));
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });

  it("is asked once for each value, and can make it wait", async () => {
    const limiter = new SlowLimiter();
    const told = seen(of("a", "b").pipe(limitConcurrency(limiter, (value) => of(value))));
    for (let i = 0; i < 2; i++) {
      limiter.grant();
      await flush();
    }
    expect([told, limiter.asked, limiter.free]).toEqual([["a", "b", "complete"], 2, 1000]);
  });

  it("may end the stream itself before it answers: what it grants then goes back, and nothing starts", async () => {
    for (const isLate of [false, true]) {
      const source = new Subject<number>();
      class Ending extends LoggedLimiter {
        protected override acquireCore(): RateLimitLease {
          subscription.unsubscribe();
          const lease = this.attemptAcquire();
          return (isLate ? Promise.resolve(lease) : lease) as RateLimitLease;
        }
      }
      const limiter = new Ending(1);
      const subscription = source.pipe(limitConcurrency(limiter, start)).subscribe();
      source.next(1);
      await flush();
      expect([limiter.granted, limiter.disposed, started]).toEqual([1, 1, 0]);
    }
  });

  it("is told at once when the queue has an answer before there is a place in it", () => {
    // The newcomer pushes the waiting one out, which gives its permit back, before the newcomer's own request has returned.
    const limiter = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 1,
      queueProcessingOrder: "newestFirst",
    });
    const held = limiter.attemptAcquire();
    of("old")
      .pipe(limitConcurrency(limiter, () => NEVER))
      .subscribe({ error: () => held.dispose() });
    expect(seen(of("new").pipe(limitConcurrency(limiter, (value) => of(value))))).toEqual([
      "new",
      "complete",
    ]);
    // The same, and the newcomer is refused.
    const again = limiter.attemptAcquire();
    of("old")
      .pipe(limitConcurrency(limiter, () => NEVER))
      .subscribe({ error: () => limiter.dispose() });
    const told = seen(of("new").pipe(limitConcurrency(limiter, (value) => of(value))));
    expect(told).toMatchObject([{ reason: "limiter_disposed" }]);
    again.dispose();
  });

  it("may have the source emit while it is asked: the order stays", async () => {
    const source = new Subject<string>();
    class Emitting extends SlowLimiter {
      protected override acquireCore(permitCount: number, options: AcquireOptions): never {
        if (this.asked === 0) {
          this.asked += 1;
          source.next("b");
          source.next("c");
        }
        return super.acquireCore(permitCount, options);
      }
    }
    const limiter = new Emitting();
    const told: string[] = [];
    source.pipe(limitConcurrency(limiter, (value) => of(value))).subscribe((value) => told.push(value));
    source.next("a");
    for (let i = 0; i < 3; i++) {
      limiter.grant();
      await flush();
    }
    expect(told).toEqual(["a", "b", "c"]);
  });

  it("ends the stream when it fails", async () => {
    const limiter = new SlowLimiter();
    const told = seen(of("a").pipe(limitConcurrency(limiter, (value) => of(value))));
    limiter.fail("broken");
    await flush();
    expect(told).toEqual(["broken"]);
  });

  it("can be partitioned", async () => {
    const slow = new SlowLimiter();
    class Foreign extends PartitionedRateLimiter<string> {
      override getStatistics(): undefined {}
      protected override attemptAcquireCore() {
        return slow.attemptAcquire();
      }
      protected override acquireCore(_resource: string, permits: number, options: object) {
        return (slow as unknown as { acquireCore(permits: number, options: object): never }).acquireCore(
          permits,
          options,
        );
      }
    }
    const foreign = new Foreign();
    expect(() => rateLimitBy(foreign, () => "x")).toThrow("options.lane must be given");
    const told = seen(of("a").pipe(rateLimitBy(foreign, (value) => value, { lane: false })));
    slow.grant();
    await flush();
    expect(told).toEqual(["a", "complete"]);
    of("a")
      .pipe(rateLimitBy(foreign, (value) => value, { lane: (value) => value }))
      .subscribe()
      .unsubscribe();
    expect(slow.aborted).toBe(1);
  });
});

describe("a limiter that answers when it is too late, or early", () => {
  it("gets what it granted back, and nothing starts", () => {
    const limiter = new PlayedLimiter(1);
    const subscription = of(1).pipe(limitConcurrency(limiter, start)).subscribe();
    subscription.unsubscribe();
    limiter.sinks[0]?.settled(limiter.lend());
    limiter.sinks[0]?.failed(new Error("late"));
    expect([limiter.granted, limiter.disposed, started]).toEqual([1, 1, 0]);
  });

  it("may fail before there is a place in its queue", () => {
    const limiter = new PlayedLimiter(1);
    limiter.onAsk = (sink) => sink.failed("broken");
    expect(seen(of(1).pipe(limitConcurrency(limiter, () => of(1))))).toEqual(["broken"]);
  });

  it("may end the stream while it is asked, and its answer is not waited for", () => {
    const limiter = new PlayedLimiter(1);
    const source = new Subject<number>();
    limiter.onAsk = () => subscription.unsubscribe();
    const subscription = source.pipe(rateLimit(limiter)).subscribe();
    source.next(1);
    limiter.sinks[0]?.settled(limiter.lend());
    expect([limiter.granted, limiter.disposed]).toEqual([1, 1]);
  });
});

describe("a consumer who has left before", () => {
  it("makes nobody ask for anything, and leaves nothing behind", () => {
    const limiter = new CountedLimiter({ permitLimit: 1 });
    const source = new Subject<number>();
    let read = 0;
    const iterable = {
      [Symbol.iterator]: () => {
        read += 1;
        return [1][Symbol.iterator]();
      },
    };
    const streams = [
      source.pipe(
        limitConcurrency(
          () => limiter,
          () => of(1),
        ),
      ),
      of(1).pipe(leased(limiter)),
      limitedFrom(iterable, limiter, () => of(1)),
    ];
    for (const stream of streams) {
      const left = new Subscriber<number>();
      left.unsubscribe();
      stream.subscribe(left);
    }
    expect([source.observed, look(limiter).granted, read, limiter.disposals]).toEqual([false, 0, 0, 1]);
  });
});

describe("a source that completes", () => {
  it("is torn down at once, and not when the last work ends", () => {
    const log: string[] = [];
    const source = new Observable<number>((subscriber) => {
      subscriber.add(() => log.push("torn down"));
      subscriber.next(1);
      subscriber.complete();
    });
    const work = new Subject<number>();
    source.pipe(limitConcurrency(1, () => work)).subscribe({ complete: () => log.push("complete") });
    expect(log).toEqual(["torn down"]);
    work.complete();
    expect(log).toEqual(["torn down", "complete"]);
  });
});

describe("the end of a stream", () => {
  it("is told although what is made for it cannot be disposed", () => {
    const told: unknown[] = [];
    config.onUnhandledError = (error) => told.push(error);
    class Stuck extends ConcurrencyLimiter {
      protected override disposeCore(): void {
        throw new Error("stuck");
      }
    }
    const log: string[] = [];
    try {
      of(1)
        .pipe(
          limitConcurrency(
            () => new Stuck({ permitLimit: 1 }),
            (value) => of(value),
          ),
        )
        .subscribe({ next: () => log.push("next"), complete: () => log.push("complete") });
    } catch (error) {
      log.push(String((error as { errors?: unknown[] }).errors?.[0]));
    }
    config.onUnhandledError = null;
    expect(log).toContain("complete");
  });

  it("by work that then fails leaves nothing unhandled", async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on("unhandledRejection", note);
    const subscriber = new Subscriber<unknown>();
    of(1)
      .pipe(
        limitConcurrency(1, async () => {
          subscriber.unsubscribe();
          throw new Error("work");
        }),
      )
      .subscribe(subscriber);
    await new Promise((resolve) => setTimeout(resolve));
    process.off("unhandledRejection", note);
    expect(unhandled).toEqual([]);
  });
});

describe("streams that share a limiter", () => {
  it("are not hurt by errors of one another", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 });
    const work = new Subject<string>();
    const first = seen(of("first").pipe(limitConcurrency(limiter, () => work)));
    const second = seen(
      of("second").pipe(
        limitConcurrency(limiter, () => {
          throw "project";
        }),
      ),
    );
    const third = seen(of("third").pipe(limitConcurrency(limiter, (value) => of(value))));
    work.complete();
    expect([first, second, third]).toEqual([["complete"], ["project"], ["third", "complete"]]);
    expect(look(limiter).available).toBe(1);
  });

  it("works on one value after the other in concat order, in the order of the source", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 8 });
    let active = 0;
    let most = 0;
    const told: number[] = [];
    await new Promise<void>((resolve) => {
      range(0, 100)
        .pipe(
          limitConcurrency(
            limiter,
            async (value) => {
              active += 1;
              most = Math.max(most, active);
              for (let i = 0; i < (value * 7) % 5; i++) await undefined;
              active -= 1;
              return value;
            },
            { order: "concat" },
          ),
        )
        .subscribe({ next: (value) => told.push(value), complete: resolve });
    });
    expect([most, told.length, told.every((value, i) => value === i)]).toEqual([1, 100, true]);
  });

  it("merge with others", () => {
    const limiter: RateLimiter = new ConcurrencyLimiter({ permitLimit: 2 });
    expect(seen(merge(from([1]).pipe(leased(limiter)), from([2]).pipe(leased(limiter))))).toEqual([
      1,
      2,
      "complete",
    ]);
  });
});
