import {
  ConcurrencyLimiter,
  LimiterDisposedError,
  MetadataName,
  NoLimiter,
  type QueueProcessingOrder,
  RateLimiter,
  RateLimitLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { flush, ManualClock, type Watched, watch } from "../support.js";

// Table 3.1 of spec/system-threading-ratelimiting.md, row by row. Where design.md settles a row differently, the
// test's name carries the decision.

const clock = new ManualClock();

function concurrency(
  permitLimit: number,
  queueLimit: number,
  queueProcessingOrder: QueueProcessingOrder = "oldestFirst",
): ConcurrencyLimiter {
  return new ConcurrencyLimiter({ permitLimit, queueLimit, queueProcessingOrder, clock });
}

/** A limiter of which everything is taken, by one lease. */
function taken(
  permitLimit: number,
  queueLimit: number,
  order?: QueueProcessingOrder,
): { limiter: ConcurrencyLimiter; held: RateLimitLease } {
  const limiter = concurrency(permitLimit, queueLimit, order);
  const held = limiter.attemptAcquire(permitLimit);
  expect(held.isAcquired).toBe(true);
  return { limiter, held };
}

function ask(limiter: RateLimiter, permitCount = 1, signal?: AbortSignal): Watched<RateLimitLease> {
  return watch(limiter.acquire(permitCount, { signal }));
}

/** What has become of each request, once everything that can happen has happened. */
async function fates(...requests: Watched<RateLimitLease>[]): Promise<string[]> {
  await flush();
  const answer = (lease: RateLimitLease): string => (lease.isAcquired ? "acquired" : "refused");
  return requests.map((one) => (one.state === "fulfilled" ? answer(one.value) : one.state));
}

/** The four numbers as "available/queued/failed/successful". */
function numbers(limiter: RateLimiter): string {
  const now = limiter.getStatistics();
  return [
    now?.currentAvailablePermits,
    now?.currentQueuedCount,
    now?.totalFailedLeases,
    now?.totalSuccessfulLeases,
  ].join("/");
}

describe("granting and queueing", () => {
  it("T-CONC-01 grants an attempt when a permit is free, and again when it has come back", () => {
    const limiter = concurrency(1, 1, "newestFirst");
    const first = limiter.attemptAcquire();
    expect(first.isAcquired).toBe(true);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    first.dispose();
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it("T-CONC-03 makes a request wait, and serves it when the permit comes back", async () => {
    const limiter = concurrency(1, 1, "newestFirst");
    const first = await limiter.acquire();
    const waiting = ask(limiter);
    expect(await fates(waiting)).toEqual(["pending"]);
    first.dispose();
    expect(await fates(waiting)).toEqual(["acquired"]);
  });

  it("T-CONC-04 grants the oldest waiter first", async () => {
    const { limiter, held } = taken(1, 2);
    const a = ask(limiter);
    const b = ask(limiter);
    expect(await fates(a, b)).toEqual(["pending", "pending"]);
    held.dispose();
    expect(await fates(a, b)).toEqual(["acquired", "pending"]);
    a.value.dispose();
    expect(await fates(b)).toEqual(["acquired"]);
  });

  it("T-CONC-05 grants the newest waiter first when asked to", async () => {
    const { limiter, held } = taken(2, 3, "newestFirst");
    const a = ask(limiter, 2);
    const b = ask(limiter, 1);
    expect(await fates(a, b)).toEqual(["pending", "pending"]);
    held.dispose();
    expect(await fates(a, b)).toEqual(["pending", "acquired"]);
    b.value.dispose();
    expect(await fates(a)).toEqual(["acquired"]);
  });

  it("T-CONC-06 refuses a newcomer when the queue is full and the oldest goes first", async () => {
    const { limiter } = taken(1, 1);
    const a = ask(limiter);
    const b = ask(limiter);
    expect(await fates(a, b)).toEqual(["pending", "refused"]);
  });

  it("T-CONC-07 drops the oldest waiter when the queue is full and the newest goes first", async () => {
    const { limiter, held } = taken(1, 1, "newestFirst");
    const a = ask(limiter);
    const b = ask(limiter);
    expect(await fates(a, b)).toEqual(["refused", "pending"]);
    held.dispose();
    expect(await fates(b)).toEqual(["acquired"]);
  });

  it("T-CONC-08 drops as many of the oldest waiters as the newcomer needs room", async () => {
    const { limiter, held } = taken(2, 2, "newestFirst");
    const a = ask(limiter);
    const b = ask(limiter);
    expect(await fates(a, b)).toEqual(["pending", "pending"]);
    const c = ask(limiter, 2);
    expect(await fates(a, b, c)).toEqual(["refused", "refused", "pending"]);
    held.dispose();
    expect(await fates(c)).toEqual(["acquired"]);
  });

  it("T-CONC-09 drops nobody for a newcomer that the whole queue could not hold", async () => {
    const { limiter, held } = taken(2, 1, "newestFirst");
    const a = ask(limiter);
    const tooLarge = ask(limiter, 2);
    expect(await fates(a, tooLarge)).toEqual(["pending", "refused"]);
    held.dispose();
    expect(await fates(a)).toEqual(["acquired"]);
  });

  it("T-CONC-10 has room in the queue again after having been full", async () => {
    const { limiter, held } = taken(1, 1);
    const a = ask(limiter);
    expect(await fates(ask(limiter))).toEqual(["refused"]);
    held.dispose();
    expect(await fates(a)).toEqual(["acquired"]);
    const b = ask(limiter);
    expect(await fates(b)).toEqual(["pending"]);
    a.value.dispose();
    expect(await fates(b)).toEqual(["acquired"]);
  });

  it.each([
    ["2147483647", 2147483647],
    ["Number.MAX_SAFE_INTEGER (R-CORE-2)", Number.MAX_SAFE_INTEGER],
  ])("T-CONC-11 counts exactly with a limit and a queue of %s", async (_, most) => {
    const { limiter, held } = taken(most, most, "newestFirst");
    const a = ask(limiter, 3);
    expect(numbers(limiter)).toBe("0/3/0/1");
    const b = ask(limiter, most);
    expect(numbers(limiter)).toBe(`0/${most}/1/1`);
    expect(await fates(a, b)).toEqual(["refused", "pending"]);
    held.dispose();
    expect(await fates(b)).toEqual(["acquired"]);
    b.value.dispose();
    expect(numbers(limiter)).toBe(`${most}/0/1/2`);
  });

  it("T-CONC-20 serves several waiters with what one lease gives back", async () => {
    const { limiter, held } = taken(2, 2);
    const a = ask(limiter);
    const b = ask(limiter);
    expect(await fates(a, b)).toEqual(["pending", "pending"]);
    held.dispose();
    expect(numbers(limiter)).toBe("0/0/0/3");
    expect(await fates(a, b)).toEqual(["acquired", "acquired"]);
  });
});

describe("bad counts and options", () => {
  it.each([
    ["permitLimit", { permitLimit: -1, queueLimit: 1 }],
    ["queueLimit", { permitLimit: 1, queueLimit: -1 }],
  ])("T-CONC-02 (C-11) throws a RangeError that names the option %s when it is -1", (name, options) => {
    expect(() => new ConcurrencyLimiter(options)).toThrow(RangeError);
    expect(() => new ConcurrencyLimiter(options)).toThrow(new RegExp(`^options\\.${name} .*-1`));
  });

  it.each([
    ["T-CONC-12 throws when an attempt asks for more than the limit", 2],
    ["T-CONC-14 throws when an attempt asks for less than nothing", -1],
  ])("%s", (_, permitCount) => {
    const limiter = concurrency(1, 1, "newestFirst");
    expect(() => limiter.attemptAcquire(permitCount)).toThrow(RangeError);
    expect(() => limiter.attemptAcquire(permitCount)).toThrow(/permitCount/);
  });

  it.each([
    ["T-CONC-13 rejects when a request asks for more than the limit", 2],
    ["T-CONC-15 rejects when a request asks for less than nothing", -1],
  ])("%s", async (_, permitCount) => {
    const request = ask(concurrency(1, 1, "newestFirst"), permitCount);
    expect(await fates(request)).toEqual(["rejected"]);
    expect(request.reason).toBeInstanceOf(RangeError);
    expect(String(request.reason)).toMatch(/permitCount/);
  });
});

describe("asking for nothing", () => {
  it("T-CONC-16 grants an attempt for 0 permits while one is free", () => {
    expect(concurrency(1, 1, "newestFirst").attemptAcquire(0).isAcquired).toBe(true);
  });

  it("T-CONC-17 refuses an attempt for 0 permits while none is free", () => {
    const { limiter } = taken(1, 1, "newestFirst");
    const refused = limiter.attemptAcquire(0);
    expect(refused.isAcquired).toBe(false);
    refused.dispose();
    expect(numbers(limiter)).toBe("0/0/1/1");
  });

  it("T-CONC-18 grants a request for 0 permits at once while one is free", async () => {
    expect(await fates(ask(concurrency(1, 1, "newestFirst"), 0))).toEqual(["acquired"]);
  });

  it("T-CONC-19 makes a request for 0 permits wait until one is free", async () => {
    const { limiter, held } = taken(1, 1, "newestFirst");
    const waiting = ask(limiter, 0);
    expect(await fates(waiting)).toEqual(["pending"]);
    held.dispose();
    expect(await fates(waiting)).toEqual(["acquired"]);
    expect(numbers(limiter)).toBe("1/0/0/2");
  });
});

describe("callers who leave", () => {
  it("T-CONC-21 rejects an aborted waiter with the signal's reason and leaves the permits alone", async () => {
    const { limiter, held } = taken(1, 1);
    const caller = new AbortController();
    const waiting = ask(limiter, 1, caller.signal);
    expect(await fates(waiting)).toEqual(["pending"]);
    const reason = new Error("gone");
    caller.abort(reason);
    expect(await fates(waiting)).toEqual(["rejected"]);
    expect(waiting.reason).toBe(reason);
    held.dispose();
    expect(numbers(limiter)).toBe("1/0/0/1");
  });

  it("T-CONC-22 is not blocked by a large waiter that was aborted", async () => {
    const limiter = concurrency(3, 3);
    const held = limiter.attemptAcquire(1);
    limiter.attemptAcquire(2);
    const caller = new AbortController();
    const aborted = ask(limiter, 2, caller.signal);
    caller.abort();
    const waiting = ask(limiter, 1);
    expect(await fates(aborted, waiting)).toEqual(["rejected", "pending"]);
    held.dispose();
    expect(await fates(waiting)).toEqual(["acquired"]);
    expect(numbers(limiter)).toBe("0/0/0/3");
  });

  it("T-CONC-22 (D-4) lets the others through at once when the large waiter ahead of them is aborted", async () => {
    const limiter = concurrency(3, 3);
    limiter.attemptAcquire(2);
    const caller = new AbortController();
    const aborted = ask(limiter, 2, caller.signal);
    const waiting = ask(limiter, 1);
    expect(await fates(aborted, waiting)).toEqual(["pending", "pending"]);
    caller.abort();
    expect(numbers(limiter)).toBe("0/0/0/2");
    expect(await fates(aborted, waiting)).toEqual(["rejected", "acquired"]);
  });

  it("T-CONC-23 rejects a request whose signal was aborted before", async () => {
    const { limiter, held } = taken(1, 1);
    const reason = new Error("left early");
    const request = ask(limiter, 1, AbortSignal.abort(reason));
    expect(await fates(request)).toEqual(["rejected"]);
    expect(request.reason).toBe(reason);
    held.dispose();
    expect(numbers(limiter)).toBe("1/0/0/1");
  });

  it("T-CONC-24 gives the place of an aborted waiter to the next caller", async () => {
    const { limiter, held } = taken(1, 1);
    const caller = new AbortController();
    const aborted = ask(limiter, 1, caller.signal);
    caller.abort();
    const waiting = ask(limiter);
    expect(await fates(aborted, waiting)).toEqual(["rejected", "pending"]);
    held.dispose();
    expect(await fates(waiting)).toEqual(["acquired"]);
  });

  it("T-CONC-25 does not count an aborted waiter again when room is made", async () => {
    const { limiter, held } = taken(2, 2, "newestFirst");
    const caller = new AbortController();
    const a = ask(limiter, 1, caller.signal);
    const b = ask(limiter, 1);
    caller.abort();
    const c = ask(limiter, 2);
    expect(await fates(a, b, c)).toEqual(["rejected", "refused", "pending"]);
    expect(numbers(limiter)).toBe("0/2/1/1");
    held.dispose();
    expect(await fates(c)).toEqual(["acquired"]);
  });

  it("T-CONC-26 can be disposed after a waiter was aborted", async () => {
    const { limiter } = taken(1, 1);
    const caller = new AbortController();
    const aborted = ask(limiter, 1, caller.signal);
    const reason = new Error("gone");
    caller.abort(reason);
    expect(await fates(aborted)).toEqual(["rejected"]);
    limiter.dispose();
    expect(await fates(aborted)).toEqual(["rejected"]);
    expect(aborted.reason).toBe(reason);
  });
});

describe("metadata", () => {
  it("T-CONC-27 gives a granted lease no reason phrase", () => {
    const { held } = taken(1, 1);
    expect(held.tryGetMetadata("REASON_PHRASE")).toBeUndefined();
    expect(held.tryGetMetadata(MetadataName.reasonPhrase)).toBeUndefined();
  });

  it("T-CONC-28 (C-3, C-8) lists the reason phrase among the names of a granted lease", () => {
    const names = [...taken(1, 1).held.metadataNames];
    expect(names).toContain("REASON_PHRASE");
    expect(names).toHaveLength(new Set(names).size);
  });

  it("T-CONC-42 tells a request that found the queue full why, by raw and by typed name", async () => {
    const { limiter } = taken(2, 1);
    const refused = await limiter.acquire(2);
    expect(refused.isAcquired).toBe(false);
    expect(refused.tryGetMetadata("REASON_PHRASE")).toBe("Queue limit reached");
    expect(refused.tryGetMetadata(MetadataName.reasonPhrase)).toBe("Queue limit reached");
    expect([...refused.metadataNames]).toContain("REASON_PHRASE");
  });
});

describe("disposing the limiter", () => {
  it.each([
    [
      "T-CONC-29 refuses everybody who waits when it is disposed",
      (limiter: RateLimiter) => limiter.dispose(),
    ],
    [
      "T-CONC-30 refuses everybody who waits when it is disposed asynchronously",
      (limiter: RateLimiter) => limiter[Symbol.asyncDispose](),
    ],
  ])("%s", async (_, dispose) => {
    const { limiter, held } = taken(1, 3);
    const waiting = [ask(limiter), ask(limiter), ask(limiter)];
    expect(await fates(...waiting)).toEqual(["pending", "pending", "pending"]);
    await dispose(limiter);
    expect(await fates(...waiting)).toEqual(["refused", "refused", "refused"]);
    held.dispose();
    expect(() => limiter.attemptAcquire()).toThrow(LimiterDisposedError);
    const late = ask(limiter);
    expect(await fates(late)).toEqual(["rejected"]);
    expect(late.reason).toBeInstanceOf(LimiterDisposedError);
  });

  it("T-CONC-41 throws when asked for statistics after having been disposed", () => {
    const limiter = concurrency(100, 50);
    limiter.dispose();
    expect(() => limiter.getStatistics()).toThrow(LimiterDisposedError);
  });
});

describe("newcomers and the queue", () => {
  /** One of two permits is held, and somebody waits for two. */
  async function halfTaken(order: QueueProcessingOrder) {
    const limiter = concurrency(2, 3, order);
    const held = await limiter.acquire();
    const large = ask(limiter, 2);
    expect(await fates(large)).toEqual(["pending"]);
    return { limiter, held, large };
  }

  it.each([
    ["T-CONC-31 lets a request pass the queue", (limiter: RateLimiter) => limiter.acquire()],
    ["T-CONC-33 lets an attempt pass the queue", (limiter: RateLimiter) => limiter.attemptAcquire()],
  ])("%s when the newest goes first", async (_, take) => {
    const { limiter, held, large } = await halfTaken("newestFirst");
    const passing = await take(limiter);
    expect(passing.isAcquired).toBe(true);
    held.dispose();
    expect(await fates(large)).toEqual(["pending"]);
    passing.dispose();
    expect(await fates(large)).toEqual(["acquired"]);
  });

  it("T-CONC-32 makes a request wait behind the queue when the oldest goes first, though a permit is free", async () => {
    const { limiter, held, large } = await halfTaken("oldestFirst");
    const small = ask(limiter);
    expect(await fates(small)).toEqual(["pending"]);
    expect(numbers(limiter)).toBe("1/3/0/1");
    held.dispose();
    expect(await fates(large, small)).toEqual(["acquired", "pending"]);
    large.value.dispose();
    expect(await fates(small)).toEqual(["acquired"]);
  });

  it("T-CONC-34 refuses an attempt while somebody waits and the oldest goes first, though a permit is free", async () => {
    const { limiter, held, large } = await halfTaken("oldestFirst");
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    expect(numbers(limiter)).toBe("1/2/1/1");
    held.dispose();
    expect(await fates(large)).toEqual(["acquired"]);
  });
});

describe("idle time", () => {
  it("T-CONC-35 is not idle while a permit is held", () => {
    expect(taken(1, 1).limiter.idleDurationMs).toBeUndefined();
  });

  it("T-CONC-36 is idle from the start, and longer as time goes by", () => {
    const limiter = concurrency(1, 1);
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(15);
    expect(limiter.idleDurationMs).toBe(15);
  });

  it("T-CONC-37 is idle again when the last permit has come back", () => {
    const { limiter, held } = taken(1, 1);
    clock.advance(15);
    held.dispose();
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(3);
    expect(limiter.idleDurationMs).toBe(3);
  });
});

describe("statistics", () => {
  it("T-CONC-38 gives a snapshot that later activity does not change", () => {
    const limiter = concurrency(1, 1);
    const before = limiter.getStatistics();
    limiter.attemptAcquire();
    const after = limiter.getStatistics();
    expect(after).not.toBe(before);
    expect([before.currentAvailablePermits, after.currentAvailablePermits]).toEqual([1, 0]);
  });

  it("T-CONC-39 counts what is free, queued, refused and granted", async () => {
    const limiter = concurrency(100, 50);
    expect(numbers(limiter)).toBe("100/0/0/0");
    const sixty = limiter.attemptAcquire(60);
    expect(numbers(limiter)).toBe("40/0/0/1");
    const waiting = ask(limiter, 50);
    expect(numbers(limiter)).toBe("40/50/0/1");
    expect(await fates(ask(limiter, 1))).toEqual(["refused"]);
    expect(numbers(limiter)).toBe("40/50/1/1");
    expect(limiter.attemptAcquire(100).isAcquired).toBe(false);
    expect(numbers(limiter)).toBe("40/50/2/1");
    sixty.dispose();
    expect(numbers(limiter)).toBe("50/0/2/2");
    expect(await fates(waiting)).toEqual(["acquired"]);
  });

  it("T-CONC-40 counts requests for 0 permits like all others", async () => {
    const limiter = concurrency(100, 50);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(true);
    expect(numbers(limiter)).toBe("100/0/0/1");
    expect(await fates(ask(limiter, 0))).toEqual(["acquired"]);
    expect(numbers(limiter)).toBe("100/0/0/2");
    expect(limiter.attemptAcquire(100).isAcquired).toBe(true);
    expect(numbers(limiter)).toBe("0/0/0/3");
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
    expect(numbers(limiter)).toBe("0/0/1/3");
  });
});

/** Grants a lease that calls back when it is disposed: the way of user code into the middle of a release. */
class CallingBack extends NoLimiter {
  readonly #onDispose: () => void;

  constructor(onDispose: () => void) {
    super();
    this.#onDispose = onDispose;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    const onDispose = this.#onDispose;
    return new (class extends RateLimitLease {
      override readonly isAcquired = true;
      override readonly metadataNames = [];
      protected override tryGetMetadataCore(): undefined {}
      override dispose(): void {
        onDispose();
      }
    })();
  }
}

describe("an abort in the middle of a release", () => {
  it("T-CONC-43 rejects the waiter when the abort comes before its turn, and the permit stays", async () => {
    const caller = new AbortController();
    const limiter = concurrency(1, 1);
    // The last lease of a chain is disposed first.
    const held = RateLimiter.createChained(limiter, new CallingBack(() => caller.abort())).attemptAcquire();
    const waiting = ask(limiter, 1, caller.signal);
    held.dispose();
    expect(await fates(waiting)).toEqual(["rejected"]);
    expect(numbers(limiter)).toBe("1/0/0/1");
  });

  it("T-CONC-44 leaves the permit with the waiter when the abort comes after its turn", async () => {
    const caller = new AbortController();
    const limiter = concurrency(1, 1);
    const held = RateLimiter.createChained(new CallingBack(() => caller.abort()), limiter).attemptAcquire();
    const waiting = ask(limiter, 1, caller.signal);
    held.dispose();
    expect(numbers(limiter)).toBe("0/0/0/2");
    expect(await fates(waiting)).toEqual(["acquired"]);
    waiting.value.dispose();
    expect(numbers(limiter)).toBe("1/0/0/2");
  });

  it("T-CONC-43 (design 4.2) does not grant to a caller whose abort is under way when the permit comes back", async () => {
    const caller = new AbortController();
    const { limiter, held } = taken(1, 1);
    // Added before the limiter's own listener, so that it runs first.
    caller.signal.addEventListener("abort", () => held.dispose());
    const waiting = ask(limiter, 1, caller.signal);
    caller.abort();
    expect(await fates(waiting)).toEqual(["rejected"]);
    expect(numbers(limiter)).toBe("1/0/0/1");
  });

  it("T-CONC-44 serves the next waiter when the abort itself gives the permit back", async () => {
    const caller = new AbortController();
    const { limiter, held } = taken(1, 2);
    const aborted = ask(limiter, 1, caller.signal);
    caller.signal.addEventListener("abort", () => held.dispose());
    const next = ask(limiter);
    caller.abort();
    expect(await fates(aborted, next)).toEqual(["rejected", "acquired"]);
    expect(numbers(limiter)).toBe("0/0/0/2");
  });
});
