import { TaskCancelledError } from "cockatiel";
import { TaskCancelledError as TaskCancelledError3 } from "cockatiel3";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type LeaseOutcome,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimitPartition,
  RateLimitRejectedError,
  withLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, watch } from "../support.js";

/** A limiter whose lease records the outcome that it is told. */
class Recorder extends NoLimiter {
  readonly outcomes: LeaseOutcome[] = [];
  disposed = 0;
  protected override attemptAcquireCore(permitCount: number) {
    const lease = Object.create(super.attemptAcquireCore(permitCount));
    lease.report = (outcome: LeaseOutcome) => void this.outcomes.push(outcome);
    lease.dispose = () => {
      this.disposed += 1;
    };
    return lease;
  }
}

const outcomeOf = async (work: () => unknown, signal?: AbortSignal): Promise<LeaseOutcome | undefined> => {
  const limiter = new Recorder();
  await withLease(limiter, work, { signal }).catch(() => undefined);
  expect(limiter.disposed).toBe(1);
  expect(limiter.outcomes).toHaveLength(1);
  return limiter.outcomes[0];
};
const failing = (error: unknown) => () => Promise.reject(error);

describe("withLease", () => {
  it("holds the lease while the work runs, and returns what it returns", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 3 });
    const held: unknown[] = [];
    const result = await withLease(
      limiter,
      async (lease) => {
        await Promise.resolve();
        held.push(lease.isAcquired, limiter.getStatistics().currentAvailablePermits);
        return 42;
      },
      { permitCount: 2 },
    );
    expect([result, ...held, limiter.getStatistics().currentAvailablePermits]).toEqual([42, true, 1, 3]);
  });

  it.each<[string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("work");
      },
    ],
    ["rejects", failing(new Error("work"))],
  ])("gives the lease back when the work %s, and passes that error on", async (_, work) => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    await expect(withLease(limiter, work)).rejects.toThrow("work");
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it("takes plain values and thenables from the work", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    expect(await withLease(limiter, () => "plain")).toBe("plain");
    // biome-ignore lint/suspicious/noThenProperty: a thenable that is no promise is the case
    const thenable: PromiseLike<string> = { then: (f) => Promise.resolve(f?.("thenable") as never) };
    expect(await withLease(limiter, () => thenable)).toBe("thenable");
  });

  it("rejects with the refusal, and does not start the work", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.attemptAcquire();
    let started = false;
    const error = await withLease(limiter, () => {
      started = true;
    }).catch((e: unknown) => e);
    expect(RateLimitRejectedError.is(error) && error.reason).toBe("limit_reached");
    expect(started).toBe(false);
  });

  it("hands the signal on to the work, and its abort ends the wait with its own reason", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const controller = new AbortController();
    const seen = await withLease(limiter, (_, signal) => signal, { signal: controller.signal });
    expect(seen).toBe(controller.signal);
    expect(await withLease(limiter, (_, signal) => signal)).toBeUndefined();
    limiter.attemptAcquire();
    const waiting = watch(withLease(limiter, () => 1, { signal: controller.signal }));
    controller.abort("left");
    await flush();
    expect(waiting.reason).toBe("left");
  });

  it("does not start work for a caller who left between the grant and its turn, and gives the permit back", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = limiter.attemptAcquire();
    const controller = new AbortController();
    let started = false;
    const waiting = watch(
      withLease(
        limiter,
        () => {
          started = true;
        },
        { signal: controller.signal },
      ),
    );
    held.dispose();
    controller.abort("left");
    await flush();
    expect([waiting.reason, started]).toEqual(["left", false]);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it("C-15 is not charged for work that never started because the caller left in time", async () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000, clock });
    const controller = new AbortController();
    const waiting = watch(withLease(limiter, () => 1, { signal: controller.signal }));
    controller.abort("left");
    await flush();
    expect(waiting.reason).toBe("left");
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it("is charged for work that started, also when it throws at once", async () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000, clock });
    await expect(
      withLease(limiter, () => {
        throw new Error("work");
      }),
    ).rejects.toThrow("work");
    expect(limiter.getStatistics().currentAvailablePermits).toBe(0);
  });

  it("asks without options when it has none, and reads those it has as often as acquire does", async () => {
    class Asked extends NoLimiter {
      readonly options: unknown[] = [];
      override acquire(...given: never[]) {
        this.options.push(given[1]);
        return super.acquire(...given);
      }
    }
    const limiter = new Asked();
    await withLease(limiter, () => 1);
    await withLease(limiter, () => 1, { permitCount: 2, maxWaitMs: 5 });
    expect(limiter.options).toEqual([undefined, { maxWaitMs: 5 }]);
  });

  it("says what to pass in place of a partitioned limiter", async () => {
    const partitioned = PartitionedRateLimiter.create((key: string) => RateLimitPartition.getNoLimiter(key));
    await expect(withLease(partitioned as never, () => 1)).rejects.toThrow(
      "limiter must be a RateLimiter (use its forResource(resource)); got an object.",
    );
  });

  it("passes maxWaitMs on", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const error = await withLease(limiter, () => 1, { maxWaitMs: -1 }).catch((e: unknown) => e);
    expect(RateLimitRejectedError.is(error) && error.reason).toBe("deadline_expired");
  });

  it("refuses what is not a limiter or not a function, as a rejection", async () => {
    await expect(withLease({} as never, () => 1)).rejects.toThrow(/limiter.*RateLimiter/);
    await expect(withLease(new NoLimiter(), 1 as never)).rejects.toThrow(/work.*function/);
    await expect(withLease(new NoLimiter(), () => 1, { permitCuont: 1 } as never)).rejects.toThrow(
      "permitCuont",
    );
  });
});

describe("the outcome that the lease is told", () => {
  const abort = new AbortController();
  abort.abort();

  it.each<[LeaseOutcome, string, () => unknown]>([
    ["success", "a value", () => 1],
    ["success", "undefined", () => undefined],
    ["success", "a response of 200", () => new Response("ok")],
    ["success", "a response of 500, which is an answer", () => new Response("", { status: 500 })],
    ["success", "a value that only looks like a response", () => ({ status: 429 })],
    ["dropped", "a response of 429", () => new Response("", { status: 429 })],
    ["dropped", "a response of 503", () => new Response("", { status: 503 })],
    ["dropped", "a polyfilled response of 503", () => ({ [Symbol.toStringTag]: "Response", status: 503 })],
    ["dropped", "a time-out of AbortSignal.timeout", failing(new DOMException("", "TimeoutError"))],
    ["dropped", "a time-out of a socket", failing(Object.assign(new Error(), { code: "ETIMEDOUT" }))],
    [
      "dropped",
      "a time-out of undici behind fetch",
      failing(
        new TypeError("fetch failed", {
          cause: Object.assign(new Error(), { code: "UND_ERR_HEADERS_TIMEOUT" }),
        }),
      ),
    ],
    ["dropped", "an error with status 429", failing(Object.assign(new Error(), { status: 429 }))],
    ["dropped", "an error with statusCode 503", failing(Object.assign(new Error(), { statusCode: 503 }))],
    [
      "dropped",
      "an error with a response of 429",
      failing(Object.assign(new Error(), { response: { status: 429 } })),
    ],
    ["dropped", "a refusal further down", failing(new RateLimitRejectedError())],
    [
      "dropped",
      "a wrapped refusal further down",
      failing(new Error("outer", { cause: new RateLimitRejectedError() })),
    ],
    ["dropped", "a time-out of cockatiel 3", failing(new TaskCancelledError3("timed out"))],
    ["dropped", "a time-out of cockatiel 4", failing(new TaskCancelledError("timed out"))],
    ["failure", "an abort that was not the caller's", failing(new DOMException("", "AbortError"))],
    ["failure", "any other error", failing(new Error("bug"))],
    [
      "failure",
      "an error with status 500",
      failing(Object.assign(new Error(), { status: 500, response: null })),
    ],
    ["failure", "something that is no error", failing("no")],
    ["failure", "null", failing(null)],
  ])("is %s for %s", async (outcome, _, work) => {
    expect(await outcomeOf(work)).toBe(outcome);
  });

  const trapped = (...names: string[]) =>
    Object.defineProperties(
      new Error("work"),
      Object.fromEntries(
        names.map((name) => [
          name,
          {
            get(): never {
              throw new Error(`the getter of ${name}`);
            },
          },
        ]),
      ),
    );

  it.each(["status", "code", "response", "cause"])(
    "is a failure for an error whose %s throws, and that error is passed on",
    async (name) => {
      const error = trapped(name);
      expect(await outcomeOf(failing(error))).toBe("failure");
      await expect(withLease(new NoLimiter(), failing(error))).rejects.toBe(error);
    },
  );

  it("is a success for a value that cannot be looked at, and that value is returned", async () => {
    const value = trapped("status");
    Object.defineProperty(value, Symbol.toStringTag, { value: "Response" });
    expect(await outcomeOf(() => value)).toBe("success");
    expect(await withLease(new NoLimiter(), () => value)).toBe(value);
  });

  it("is ignored when the caller's own signal was aborted, whatever the error", async () => {
    const controller = new AbortController();
    const work = () => {
      controller.abort();
      throw new DOMException("", "TimeoutError");
    };
    expect(await outcomeOf(work, controller.signal)).toBe("ignored");
  });

  it("is a failure, and found in time, when causes go in a circle", async () => {
    const error = new Error("circle");
    error.cause = error;
    expect(await outcomeOf(failing(error))).toBe("failure");
  });
});
