import { ConcurrencyLimiter, FixedWindowRateLimiter, RateLimiter, type RateLimitLease } from "headgate";
import { describe, expect, it } from "vitest";
import {
  type AcquireSink,
  type AcquireTicket,
  isLease,
  outcomeOfError,
  outcomeOfValue,
  requestWith,
} from "../../src/internal.js";
import { flush, ManualClock, watch } from "../support.js";

/*
 * Three adapters in miniature, as small as they can be on the inside door, to see whether it carries them: an operator on
 * a stream, a layer of a shield, a wrapper of fetch. None of them is what the library ships.
 */

// ── an operator on a stream ────────────────────────────────────────────────────────────────────────────────────────

interface Observer<T> {
  next(value: T): void;
  error(error: unknown): void;
  complete(): void;
}
/** Subscribes; what comes back unsubscribes. */
type Stream<T> = (observer: Observer<T>) => () => void;

/** Work for each value, with a lease of the limiter; values wait in order. */
function limitConcurrency<T, R>(limiter: RateLimiter, project: (value: T) => Stream<R>) {
  return (source: Stream<T>): Stream<R> =>
    (observer) => {
      const values: T[] = [];
      const active = new Set<() => void>();
      let waiting: AcquireTicket | undefined;
      let isRunning = false;
      let isDone = false;
      let isClosed = false;
      let stop: () => void = () => {};
      const close = (tell?: () => void) => {
        if (isClosed) return;
        isClosed = true;
        stop();
        waiting?.cancel();
        for (const end of active) end();
        tell?.();
      };
      const run = (lease: RateLimitLease) => {
        const value = values.shift() as T;
        if (!lease.isAcquired) return close(() => observer.error(lease.reason));
        let unsubscribe: (() => void) | undefined;
        let isOver = false;
        const end = () => {
          isOver = true;
          active.delete(end);
          unsubscribe?.();
          lease.dispose();
        };
        active.add(end);
        unsubscribe = project(value)({
          next: (result) => {
            if (!isOver) observer.next(result);
          },
          error: (error) => {
            if (isOver) return;
            end();
            close(() => observer.error(error));
          },
          complete: () => {
            if (isOver) return;
            end();
            drain();
          },
        });
        if (isOver) unsubscribe();
      };
      const sink: AcquireSink = {
        settled: (lease) => {
          waiting = undefined;
          if (isClosed) return lease.dispose();
          run(lease);
          drain();
        },
        failed: (error) => close(() => observer.error(error)),
      };
      const drain = () => {
        if (isRunning) return;
        isRunning = true;
        while (!isClosed && waiting === undefined && values.length > 0) {
          const answer = requestWith(limiter, 1, {}, sink);
          if (isLease(answer)) run(answer);
          else waiting = answer;
        }
        isRunning = false;
        if (isDone && values.length === 0 && active.size === 0) close(() => observer.complete());
      };
      stop = source({
        next: (value) => {
          values.push(value);
          drain();
        },
        error: (error) => close(() => observer.error(error)),
        complete: () => {
          isDone = true;
          drain();
        },
      });
      return () => close();
    };
}

/** A source, or an inner one, that a test drives by hand. */
class Subject<T> {
  observer: Observer<T> | undefined;
  unsubscribed = 0;
  readonly stream: Stream<T> = (observer) => {
    this.observer = observer;
    return () => {
      this.unsubscribed += 1;
      this.observer = undefined;
    };
  };
}

describe("an operator on a stream", () => {
  const arrange = (limiter: RateLimiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10 })) => {
    const log: string[] = [];
    const inner = new Map<string, Subject<string>>();
    const source = new Subject<string>();
    const observer: Observer<string> = {
      next: (value) => log.push(value),
      error: (error) => log.push(`error ${String(error)}`),
      complete: () => log.push("complete"),
    };
    const unsubscribe = limitConcurrency<string, string>(limiter, (value) => {
      log.push(`start ${value}`);
      const subject = new Subject<string>();
      inner.set(value, subject);
      return subject.stream;
    })(source.stream)(observer);
    const end = (name: string) => inner.get(name)?.observer?.complete();
    return { limiter, log, inner, source, unsubscribe, end };
  };
  const statistics = (limiter: RateLimiter) => {
    const { currentAvailablePermits, currentQueuedCount } = limiter.getStatistics() ?? {};
    return [currentAvailablePermits, currentQueuedCount];
  };

  it("M01 starts the next in the very turn in which the one before it ends, without a microtask", () => {
    const { log, source, end, limiter } = arrange();
    for (const value of ["a", "b", "c"]) source.observer?.next(value);
    source.observer?.complete();
    expect([log, statistics(limiter)]).toEqual([["start a"], [0, 1]]);
    end("a");
    end("b");
    end("c");
    expect(log).toEqual(["start a", "start b", "start c", "complete"]);
    expect(statistics(limiter)).toEqual([1, 0]);
  });

  it("M04 shares a limiter with another stream, fairly", () => {
    const one = arrange();
    const two = arrange(one.limiter);
    one.source.observer?.next("a");
    two.source.observer?.next("b");
    one.source.observer?.next("c");
    one.end("a");
    expect(two.log).toEqual(["start b"]);
    two.end("b");
    expect(one.log).toEqual(["start a", "start c"]);
  });

  it("M15 gives up its place and its leases when it is unsubscribed", () => {
    const { source, unsubscribe, inner, limiter, log } = arrange();
    source.observer?.next("a");
    source.observer?.next("b");
    unsubscribe();
    expect([statistics(limiter), inner.get("a")?.unsubscribed, source.unsubscribed]).toEqual([[1, 0], 1, 1]);
    expect(log).toEqual(["start a"]);
  });

  it("M16 M08 passes on a refusal, at once or from the queue", () => {
    const { source, limiter, log } = arrange();
    source.observer?.next("a");
    source.observer?.next("b");
    limiter.dispose();
    expect(log).toEqual(["start a", "error limiter_disposed"]);
    const strict = arrange(new ConcurrencyLimiter({ permitLimit: 1 }));
    strict.source.observer?.next("a");
    strict.source.observer?.next("b");
    expect(strict.log).toEqual(["start a", "error limit_reached"]);
    expect(statistics(strict.limiter)).toEqual([1, 0]);
  });

  it("M06 paces by a window in virtual time, and no promise is in the way", () => {
    const clock = new ManualClock();
    const { source, log, end } = arrange(
      new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 10, queueLimit: 10, clock }),
    );
    for (const value of ["a", "b", "c", "d", "e"]) source.observer?.next(value);
    expect(log).toEqual(["start a", "start b"]);
    clock.advance(10);
    expect(log.slice(2)).toEqual(["start c", "start d"]);
    clock.advance(10);
    expect(log.slice(4)).toEqual(["start e"]);
    end("e");
  });

  it("RX-40 takes 100 000 values that are buffered and whose work ends at once, without a deeper stack", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10 });
    const held = limiter.attemptAcquire();
    let done = 0;
    const source = new Subject<number>();
    limitConcurrency<number, number>(limiter, (value) => (observer) => {
      observer.next(value);
      observer.complete();
      return () => {};
    })(source.stream)({
      next: () => {
        done += 1;
      },
      error: (error) => expect.unreachable(String(error)),
      complete: () => {},
    });
    for (let i = 0; i < 100_000; i++) source.observer?.next(i);
    expect(done).toBe(0);
    held.dispose();
    expect([done, statistics(limiter)]).toEqual([100_000, [1, 0]]);
  });

  it("RX-40 lets two such streams share a permit, 10 000 values each", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10 });
    const held = limiter.attemptAcquire();
    const order: string[] = [];
    const sources = ["a", "b"].map((name) => {
      const source = new Subject<string>();
      limitConcurrency<string, string>(limiter, () => (observer) => {
        order.push(name);
        observer.complete();
        return () => {};
      })(source.stream)({ next: () => {}, error: () => order.push("error"), complete: () => {} });
      for (let i = 0; i < 10_000; i++) source.observer?.next(name);
      return source;
    });
    expect(sources.length).toBe(2);
    held.dispose();
    expect(order.filter((name) => name === "a").length).toBe(10_000);
    expect(order.filter((name) => name === "b").length).toBe(10_000);
    expect(statistics(limiter)).toEqual([1, 0]);
  });
});

// ── a layer of a shield ────────────────────────────────────────────────────────────────────────────────────────────

/** A lease at once, or a promise of one: who has to wait goes on in its own async context. */
function leaseOrPromise(
  limiter: RateLimiter,
  signal?: AbortSignal,
): RateLimitLease | PromiseLike<RateLimitLease> {
  const early: (() => void)[] = [];
  let tell = (settle: () => void): void => void early.push(settle);
  let resolve: (lease: RateLimitLease) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const answer = requestWith(
    limiter,
    1,
    { signal },
    { settled: (lease) => tell(() => resolve(lease)), failed: (error) => tell(() => reject(error)) },
  );
  if (!("cancel" in answer)) return answer;
  return new Promise<RateLimitLease>((...settlers) => {
    [resolve, reject] = settlers;
    tell = (settle) => settle();
    // The sink may have been told before there was a ticket.
    for (const settle of early) settle();
  });
}

/** Runs work with a lease: in the same turn when it is granted at once, with no promise but those of the work. */
function layer(limiter: RateLimiter, onRejected: (reason: unknown) => void = () => {}) {
  return <T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> => {
    const go = async (lease: RateLimitLease): Promise<T> => {
      try {
        if (!lease.isAcquired) onRejected(lease.reason);
        lease.orThrow();
        signal?.throwIfAborted();
        const result = await work();
        lease.report(outcomeOfValue(result));
        return result;
      } catch (error) {
        lease.report(outcomeOfError(error, signal));
        throw error;
      } finally {
        lease.dispose();
      }
    };
    try {
      const answer = leaseOrPromise(limiter, signal);
      return isLease(answer) ? go(answer) : Promise.resolve(answer).then(go);
    } catch (error) {
      return Promise.reject(error);
    }
  };
}

/** Counts the microtasks that pass until it is stopped. */
function countMicrotasks(): () => number {
  let passed = 0;
  let isStopped = false;
  const tick = (): void => {
    if (isStopped) return;
    passed += 1;
    queueMicrotask(tick);
  };
  queueMicrotask(tick);
  return () => {
    isStopped = true;
    return passed;
  };
}

describe("a layer of a shield", () => {
  const never = () => new Promise<never>(() => {});

  it("starts work that is let through at once in the same turn: no microtask before it, through 1 layer or 3", () => {
    for (const layers of [1, 3]) {
      const limiters = Array.from({ length: layers }, () => new ConcurrencyLimiter({ permitLimit: 1 }));
      let execute = <T>(work: () => Promise<T>): Promise<T> => work();
      for (const limiter of limiters) {
        const inner = execute;
        execute = (work) => layer(limiter)(() => inner(work));
      }
      const stop = countMicrotasks();
      let passed = -1;
      void execute(() => {
        passed = stop();
        return never();
      });
      expect(passed).toBe(0);
    }
  });

  it("starts work that has waited one microtask after the hand-over", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = limiter.attemptAcquire();
    let passed = -1;
    let stop: () => number = () => -1;
    const work = layer(limiter)(async () => {
      passed = stop();
    });
    await flush();
    stop = countMicrotasks();
    held.dispose();
    await work;
    // The reaction to the hand-over was queued before the counter's second tick.
    expect(passed).toBeLessThanOrEqual(1);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it("refuses without a start, tells the hook why, and passes errors on with the permit back", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const reasons: unknown[] = [];
    const run = layer(limiter, (reason) => reasons.push(reason));
    const failing = watch(run(() => Promise.reject(new Error("work"))));
    const refused = watch(run(() => expect.unreachable("started")));
    await flush();
    expect([String(failing.reason), reasons]).toEqual(["Error: work", ["limit_reached"]]);
    expect(refused.reason).toMatchObject({ code: "ERR_RATE_LIMIT_REJECTED", reason: "limit_reached" });
    expect(limiter.getStatistics()).toMatchObject({ currentAvailablePermits: 1, totalFailedLeases: 1 });
  });

  it("C-18 makes one request per unit of work: a wait is one success and no failure", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = limiter.attemptAcquire();
    const work = layer(limiter)(() => Promise.resolve("done"));
    held.dispose();
    expect(await work).toBe("done");
    expect(limiter.getStatistics()).toMatchObject({ totalSuccessfulLeases: 2, totalFailedLeases: 0 });
  });

  it("X1 gives the permit back of a caller who left between the hand-over and the start, and never starts", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = limiter.attemptAcquire();
    const caller = new AbortController();
    const work = watch(layer(limiter)(() => expect.unreachable("started"), caller.signal));
    held.dispose();
    caller.abort("left");
    await flush();
    expect([work.reason, limiter.getStatistics().currentAvailablePermits]).toEqual(["left", 1]);
  });

  it("rejects and never throws, for a caller who has left and for a disposed limiter", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const left = watch(layer(limiter)(never, AbortSignal.abort("left")));
    limiter.dispose();
    const late = watch(layer(limiter)(never));
    await flush();
    expect([left.reason, (late.reason as Error).name]).toEqual(["left", "LimiterDisposedError"]);
  });

  it("is granted what somebody gave back who was pushed out for it, before the request had returned", async () => {
    const limiter = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 1,
      queueProcessingOrder: "newestFirst",
    });
    const held = limiter.attemptAcquire();
    void requestWith(limiter, 1, {}, { settled: () => held.dispose(), failed: () => {} });
    expect(await layer(limiter)(() => Promise.resolve("done"))).toBe("done");
  });
});

// ── a wrapper of fetch ─────────────────────────────────────────────────────────────────────────────────────────────

type Fetch = (url: string, init?: { readonly signal?: AbortSignal }) => Promise<Response>;

/** One lease per request, until the answer is there; a vendor's Retry-After pauses everybody who shares the limiter. */
function withRateLimiter(limiter: RateLimiter & { pause?(ms: number): void }, inner: Fetch): Fetch {
  return async (url, init) => {
    const lease = await leaseOrPromise(limiter, init?.signal);
    if (!lease.isAcquired) {
      const seconds =
        lease.retryAfterMs === undefined ? [] : [["retry-after", String(lease.retryAfterMs / 1000)]];
      return new Response(lease.reason, { status: 429, headers: seconds as [string, string][] });
    }
    try {
      const response = await inner(url, init);
      const outcome = outcomeOfValue(response);
      lease.report(outcome);
      const seconds = Number(response.headers.get("retry-after"));
      if (outcome === "dropped" && seconds > 0) limiter.pause?.(seconds * 1000);
      return response;
    } catch (error) {
      lease.report(outcomeOfError(error, init?.signal));
      throw error;
    } finally {
      lease.dispose();
    }
  };
}

describe("a wrapper of fetch", () => {
  const arrange = (queueLimit = 10) => {
    const clock = new ManualClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit, clock });
    const calls: string[] = [];
    const answers: ((answer: Response | Error) => void)[] = [];
    const fetch = withRateLimiter(limiter, (url) => {
      calls.push(url);
      return new Promise((resolve, reject) => {
        answers.push((answer) => (answer instanceof Error ? reject(answer) : resolve(answer)));
      });
    });
    return { clock, limiter, calls, answers, fetch };
  };

  it("sends one request at a time, in order", async () => {
    const { calls, answers, fetch } = arrange();
    const responses = ["a", "b", "c"].map((url) => watch(fetch(url)));
    for (let i = 0; i < 3; i++) {
      await flush();
      expect(calls).toEqual(["a", "b", "c"].slice(0, i + 1));
      answers[i]?.(new Response("ok"));
    }
    await flush();
    expect(responses.map(({ value }) => value.status)).toEqual([200, 200, 200]);
  });

  it("answers 429 itself when the limiter refuses, and sends nothing", async () => {
    const { calls, fetch } = arrange(0);
    void fetch("a");
    const refused = await fetch("b");
    expect([refused.status, await refused.text(), calls]).toEqual([429, "limit_reached", ["a"]]);
  });

  it("C-9 makes everybody wait as long as the vendor asked for", async () => {
    const { clock, calls, answers, fetch } = arrange();
    void fetch("a");
    void fetch("b");
    await flush();
    answers[0]?.(new Response("slow down", { status: 429, headers: { "retry-after": "2" } }));
    await flush();
    clock.advance(1999);
    await flush();
    expect(calls).toEqual(["a"]);
    clock.advance(1);
    await flush();
    expect(calls).toEqual(["a", "b"]);
  });

  it("takes a request back whose caller has left, before or after it was sent, and frees the permit", async () => {
    const { limiter, calls, answers, fetch } = arrange();
    const callers = [new AbortController(), new AbortController()];
    const requests = callers.map(({ signal }, i) => watch(fetch(String(i), { signal })));
    await flush();
    callers[1]?.abort("left");
    await flush();
    expect([requests[1]?.reason, calls]).toEqual(["left", ["0"]]);
    callers[0]?.abort("left too");
    answers[0]?.(new Error("aborted"));
    await flush();
    expect(String(requests[0]?.reason)).toBe("Error: aborted");
    expect(limiter.getStatistics()).toMatchObject({ currentAvailablePermits: 1, currentQueuedCount: 0 });
  });

  it("goes through a chain of limiters like through one", async () => {
    const perHost = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 });
    const all = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 });
    const fetch = withRateLimiter(RateLimiter.createChained(perHost, all), () =>
      Promise.resolve(new Response("ok")),
    );
    const held = all.attemptAcquire();
    const responses = ["a", "b"].map((url) => watch(fetch(url)));
    await flush();
    expect(responses.map(({ state }) => state)).toEqual(["pending", "pending"]);
    held.dispose();
    await flush();
    expect(responses.map(({ value }) => value.status)).toEqual([200, 200]);
    expect([perHost, all].map((limiter) => limiter.getStatistics().currentAvailablePermits)).toEqual([1, 1]);
  });
});
