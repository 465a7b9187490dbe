import {
  ConcurrencyLimiter,
  type ConcurrencyLimiterOptions,
  LimiterDisposedError,
  MetadataName,
  type RateLimitLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { CountingClock, CountingController, flush, type Watched, watch } from "../support.js";

// The rules of sections 2.1 to 2.4 and 2.9 of spec/system-threading-ratelimiting.md that no row of table 3.1 tests.

type Options = Partial<ConcurrencyLimiterOptions>;

/** A limiter with all of its permits held one by one. */
function busy(permitLimit: number, options: Options = {}) {
  const clock = new CountingClock();
  const limiter = new ConcurrencyLimiter({ permitLimit, clock, ...options });
  const leases = Array.from({ length: permitLimit }, () => limiter.attemptAcquire());
  const ask = (permitCount: number, signal?: AbortSignal) => watch(limiter.acquire(permitCount, { signal }));
  const release = (count: number) => {
    for (const lease of leases.splice(0, count)) lease.dispose();
  };
  return { clock, limiter, leases, ask, release };
}

const newestFirst: Options = { queueProcessingOrder: "newestFirst" };

/** What has become of each request: "+" granted, "-" refused, "x" rejected, "." still waiting. */
async function outcome(...requests: Watched<RateLimitLease>[]): Promise<string> {
  await flush();
  const signs = { pending: ".", rejected: "x" } as const;
  return requests
    .map((one) => (one.state === "fulfilled" ? (one.value.isAcquired ? "+" : "-") : signs[one.state]))
    .join("");
}

/** Available, queued, failed, successful. */
function counts(limiter: ConcurrencyLimiter): number[] {
  const { currentAvailablePermits, currentQueuedCount, totalFailedLeases, totalSuccessfulLeases } =
    limiter.getStatistics();
  return [currentAvailablePermits, currentQueuedCount, totalFailedLeases, totalSuccessfulLeases];
}

const gone = new Error("gone");
const left = AbortSignal.abort(gone);

describe("which complaint wins", () => {
  it.each<[string, number, object, boolean, unknown]>([
    ["R-CORE-1 a malformed count over everything", -1, { signal: left, oops: 1 }, true, RangeError],
    ["C-12 malformed options over an aborted signal", 1, { signal: left, oops: 1 }, true, TypeError],
    ["R-CORE-4 an aborted signal over a count above the limit", 9, { signal: left }, true, gone],
    ["R-CORE-4 an aborted signal over a disposed limiter", 1, { signal: left }, true, gone],
    ["R-CORE-5 a count above the limit over a disposed limiter", 9, {}, true, RangeError],
    ["C-12 a count above the limit over a deadline that has passed", 9, { maxWaitMs: -1 }, false, RangeError],
    [
      "C-12 a disposed limiter over a deadline that has passed",
      1,
      { maxWaitMs: -1 },
      true,
      LimiterDisposedError,
    ],
  ])("%s", async (_, permitCount, options, disposed, expected) => {
    const { limiter } = busy(2);
    const before = counts(limiter);
    if (disposed) limiter.dispose();
    const request = watch(limiter.acquire(permitCount, options));
    expect(await outcome(request)).toBe("x");
    if (typeof expected === "function") expect(request.reason).toBeInstanceOf(expected);
    else expect(request.reason).toBe(expected);
    if (!disposed) expect(counts(limiter)).toEqual(before);
  });

  it("R-CORE-1 R-CORE-5 for an attempt, a bad count wins over a disposed limiter", () => {
    const { limiter } = busy(1);
    limiter.dispose();
    expect(() => limiter.attemptAcquire(-1)).toThrow(RangeError);
    expect(() => limiter.attemptAcquire(2)).toThrow(RangeError);
    expect(() => limiter.attemptAcquire(1)).toThrow(LimiterDisposedError);
  });

  it("R-CORE-3 returns a promise even then", async () => {
    const { limiter } = busy(1);
    limiter.dispose();
    const answers = [
      limiter.acquire(-1),
      limiter.acquire(2),
      limiter.acquire(1),
      limiter.acquire({ signal: left }),
    ];
    for (const answer of answers) await expect(answer).rejects.toThrow();
  });

  it("R-CORE-4 an aborted signal wins over a free permit, and over a place in the queue", async () => {
    const { limiter, release } = busy(1, { queueLimit: 1 });
    for (const free of [0, 1]) {
      release(free);
      const before = counts(limiter);
      const caller = new CountingController();
      caller.abort(gone);
      const request = watch(limiter.acquire(1, { signal: caller.signal }));
      expect(counts(limiter)).toEqual(before);
      expect(await outcome(request)).toBe("x");
      expect(request.reason).toBe(gone);
      expect(caller.added).toBe(0);
    }
  });

  it("R-CORE-5 says how many permits were asked for and how many there can be, and counts nothing", () => {
    const { limiter } = busy(2);
    const before = counts(limiter);
    expect(() => limiter.attemptAcquire(3)).toThrow(/\b3\b.*permits?.*\b2\b/);
    expect(counts(limiter)).toEqual(before);
  });

  it("R-CORE-5 grants more than the queue could hold when it is free", async () => {
    const { limiter, ask, release } = busy(3, { queueLimit: 1 });
    release(3);
    expect(await outcome(ask(3))).toBe("+");
    expect(counts(limiter)).toEqual([0, 0, 0, 4]);
  });

  it("R-CORE-6 idle time can be read from a disposed limiter", () => {
    const { limiter, release, clock } = busy(1);
    release(1);
    expect(limiter.idleDurationMs).toBe(0);
    limiter.dispose();
    clock.advance(5);
    expect(limiter.idleDurationMs).toBe(5);
  });
});

describe("requests for nothing", () => {
  it("R-CORE-7 R-CORE-8 go ahead of everybody who waits while a permit is free", async () => {
    const { limiter, ask, release } = busy(2, { queueLimit: 2 });
    const large = ask(2);
    release(1);
    expect(counts(limiter)).toEqual([1, 2, 0, 2]);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(true);
    expect(await outcome(ask(0), large)).toBe("+.");
    expect(counts(limiter)).toEqual([1, 2, 0, 4]);
  });

  it.each([
    ["without a queue", 0, ""],
    ["when the queue is full", 1, "."],
  ])("R-CORE-8 wait and are never refused, %s", async (_, queueLimit, waiting) => {
    const { limiter, ask, release } = busy(1, { queueLimit });
    const others = waiting === "" ? [] : [ask(1)];
    const nothing = ask(0);
    expect(await outcome(...others, nothing)).toBe(`${waiting}.`);
    expect(counts(limiter)).toEqual([0, queueLimit, 0, 1]);
    release(1);
    expect(await outcome(...others, nothing)).toBe(`${waiting && "+"}+`);
  });

  it.each<[string, Options, number[], string]>([
    ["oldest first", {}, [1, 0, 1], "++."],
    ["newest first", newestFirst, [1, 0, 1], ".++"],
  ])("R-CORE-9 go along with whoever takes the last permit, %s", async (_, order, sizes, expected) => {
    const { limiter, ask, release } = busy(1, { queueLimit: 2, ...order });
    const waiting = sizes.map((size) => ask(size));
    release(1);
    expect(await outcome(...waiting)).toBe(expected);
    expect(counts(limiter)).toEqual([0, 1, 0, 3]);
  });

  it("R-CORE-9 wait their turn behind somebody who does not fit", async () => {
    const { ask, release } = busy(2, { queueLimit: 2 });
    const waiting = [ask(2), ask(0)];
    release(1);
    expect(await outcome(...waiting)).toBe("..");
    release(1);
    expect(await outcome(...waiting)).toBe("++");
  });
});

describe("room in the queue", () => {
  it("R-CORE-12 is counted in permits", async () => {
    const { limiter, ask } = busy(3, { queueLimit: 3 });
    expect(await outcome(ask(2), ask(2), ask(1), ask(1))).toBe(".-.-");
    expect(counts(limiter)).toEqual([0, 3, 2, 3]);
  });

  it("R-CORE-12 R-CORE-13 is none by default: what is not free is refused at once", async () => {
    const { limiter, ask } = busy(1);
    const refused = ask(1);
    expect(counts(limiter)).toEqual([0, 0, 1, 1]);
    expect(await outcome(refused)).toBe("-");
  });

  it("R-CORE-14 is made from the old end, no more than needed, passing by those who want nothing", async () => {
    const { limiter, ask, release } = busy(3, { queueLimit: 3, ...newestFirst });
    const waiting = [ask(0), ask(1), ask(0), ask(1), ask(1)];
    const newcomer = ask(2);
    expect(counts(limiter)).toEqual([0, 3, 4, 3]);
    expect(await outcome(...waiting, newcomer)).toBe("----..");
    release(3);
    expect(await outcome(waiting[4] as Watched<RateLimitLease>, newcomer)).toBe("++");
  });

  it("R-CORE-14 R-LEASE-4 is made without a word to the evicted of queue limits or retries", async () => {
    const { ask } = busy(1, { queueLimit: 1, ...newestFirst });
    const evicted = ask(1);
    ask(1);
    await flush();
    expect(evicted.value.reason).toBe("queue_evicted");
    expect(evicted.value.retryAfterMs).toBeUndefined();
    expect(evicted.value.tryGetMetadata(MetadataName.reasonPhrase)).toBeUndefined();
  });

  it("R-CORE-17 is there again in the turn of the abort, and no total moves", async () => {
    const { limiter, ask } = busy(2, { queueLimit: 2 });
    const caller = new AbortController();
    const aborted = ask(2, caller.signal);
    expect(counts(limiter)).toEqual([0, 2, 0, 2]);
    caller.abort(gone);
    expect(counts(limiter)).toEqual([0, 0, 0, 2]);
    expect(await outcome(ask(2), aborted)).toBe(".x");
  });
});

describe("the order of the queue", () => {
  it.each<[string, Options, number[]]>([
    ["oldest", {}, [3, 1, 1]],
    ["newest", newestFirst, [1, 1, 3]],
  ])("R-CORE-10 R-CORE-16 never looks past the %s waiter, if that does not fit", async (_, order, sizes) => {
    const { limiter, ask, release } = busy(3, { queueLimit: 5, ...order });
    const waiting = sizes.map((size) => ask(size));
    release(2);
    expect(await outcome(...waiting)).toBe("...");
    expect(counts(limiter)).toEqual([2, 5, 0, 3]);
    release(1);
    expect(await outcome(...waiting)).toBe(sizes.map((size) => (size === 3 ? "+" : ".")).join(""));
  });

  it.each<[string, Options, number[]]>([
    ["oldest", {}, [3, 1, 1]],
    ["newest", newestFirst, [1, 1, 3]],
  ])(
    "R-CORE-18 R-CORE-19 (D-4) goes on at once when the %s waiter, which blocked, leaves",
    async (_, order, sizes) => {
      const { limiter, ask, release } = busy(3, { queueLimit: 5, ...order });
      const caller = new AbortController();
      const waiting = sizes.map((size) => ask(size, size === 3 ? caller.signal : undefined));
      release(2);
      caller.abort();
      expect(counts(limiter)).toEqual([0, 0, 0, 5]);
      expect(await outcome(...waiting)).toBe(sizes.map((size) => (size === 3 ? "x" : "+")).join(""));
    },
  );

  it.each<[string, Options, string[]]>([
    ["oldest", {}, ["a", "b", "c"]],
    ["newest", newestFirst, ["c", "b", "a"]],
  ])(
    "R-JS-4 R-CORE-22 lets callers go on with the %s first, granted or disposed",
    async (_, order, expected) => {
      for (const end of ["release", "dispose"] as const) {
        const { limiter, release } = busy(3, { queueLimit: 3, ...order });
        const heard: string[] = [];
        const all = ["a", "b", "c"].map((name) => limiter.acquire().then(() => heard.push(name)));
        if (end === "release") release(3);
        else limiter.dispose();
        await Promise.all(all);
        expect(heard).toEqual(expected);
      }
    },
  );
});

describe("one end for each request", () => {
  it("R-CORE-20 an abort after the grant changes nothing: the caller has the lease", async () => {
    const { limiter, ask, release } = busy(1, { queueLimit: 1 });
    const caller = new AbortController();
    const waiting = ask(1, caller.signal);
    release(1);
    caller.abort();
    expect(await outcome(waiting)).toBe("+");
    expect(counts(limiter)).toEqual([0, 0, 0, 2]);
    waiting.value.dispose();
    expect(counts(limiter)).toEqual([1, 0, 0, 2]);
  });

  it.each<[string, Options, (limiter: ConcurrencyLimiter) => void]>([
    ["was evicted", newestFirst, (limiter) => void watch(limiter.acquire())],
    ["was refused by a dispose", {}, (limiter) => limiter.dispose()],
  ])("R-CORE-20 an abort changes nothing for a waiter that %s", async (_, order, end) => {
    const { limiter, ask } = busy(1, { queueLimit: 1, ...order });
    const caller = new AbortController();
    const waiting = ask(1, caller.signal);
    end(limiter);
    caller.abort();
    expect(await outcome(waiting)).toBe("-");
  });

  it.each<[string, Options, (arranged: ReturnType<typeof busy>) => void]>([
    ["a release", {}, ({ release }) => release(1)],
    ["a newcomer", newestFirst, ({ ask }) => void ask(1)],
    ["a dispose", {}, ({ limiter }) => limiter.dispose()],
  ])("R-CORE-20 %s changes nothing for a waiter that was aborted", async (_, order, end) => {
    const arranged = busy(1, { queueLimit: 1, ...order });
    const caller = new AbortController();
    const waiting = arranged.ask(1, caller.signal);
    caller.abort(gone);
    end(arranged);
    expect(await outcome(waiting)).toBe("x");
    expect(waiting.reason).toBe(gone);
  });

  it("R-CORE-20 R-JS-8 everybody who waits with one signal leaves by it, and nobody else", async () => {
    const { limiter, ask, release } = busy(1, { queueLimit: 4 });
    const caller = new AbortController();
    const waiting = [ask(1, caller.signal), ask(1), ask(1, caller.signal), ask(1)];
    caller.abort(gone);
    expect(counts(limiter)).toEqual([0, 2, 0, 1]);
    release(1);
    expect(await outcome(...waiting)).toBe("x+x.");
  });
});

describe("listeners", () => {
  type Arranged = ReturnType<typeof busy> & { caller: CountingController };
  it.each<[string, (arranged: Arranged) => void]>([
    ["granted", ({ release }) => release(1)],
    ["evicted", ({ ask }) => void ask(2)],
    ["aborted", ({ caller }) => caller.abort()],
    ["refused by a dispose", ({ limiter }) => limiter.dispose()],
    ["refused for having waited too long", ({ clock }) => clock.advance(10)],
    [
      "refused since it is above a lowered limit",
      ({ limiter }) => Object.assign(limiter, { permitLimit: 1 }),
    ],
  ])("R-CORE-21 are gone in the turn in which the waiter is %s", async (_, end) => {
    const arranged = busy(2, { queueLimit: 2, ...newestFirst });
    const caller = new CountingController();
    arranged.release(1);
    const waiting = watch(arranged.limiter.acquire(2, { signal: caller.signal, maxWaitMs: 10 }));
    expect(caller.listeners).toBe(1);
    expect(arranged.clock.timerCount).toBe(1);
    arranged.limiter.attemptAcquire().dispose();
    expect(caller.listeners).toBe(1);
    end({ ...arranged, caller });
    expect(caller.listeners).toBe(0);
    await flush();
    expect(waiting.state).not.toBe("pending");
    expect(arranged.clock.timerCount).toBe(0);
  });

  it("R-CORE-21 are never added for a request that does not wait", async () => {
    const { ask, release } = busy(1);
    const caller = new CountingController();
    const refused = ask(1, caller.signal);
    release(1);
    expect(await outcome(refused, ask(1, caller.signal))).toBe("-+");
    expect(caller.added).toBe(0);
  });
});

describe("disposing the limiter", () => {
  it("R-CORE-22 may be done again in any way", async () => {
    const { limiter, ask } = busy(1, { queueLimit: 1 });
    const waiting = ask(1);
    limiter.dispose();
    limiter[Symbol.dispose]();
    await limiter.disposeAsync();
    await limiter[Symbol.asyncDispose]();
    expect(await outcome(waiting)).toBe("-");
    expect(waiting.value.reason).toBe("limiter_disposed");
    expect(waiting.value.retryAfterMs).toBeUndefined();
    expect(waiting.value.tryGetMetadata("REASON_PHRASE")).toBeUndefined();
  });

  it("R-CORE-22 stops the timer that somebody's maxWaitMs needed", () => {
    const { limiter, clock } = busy(1, { queueLimit: 1 });
    watch(limiter.acquire(1, { maxWaitMs: 5 }));
    expect(clock.timerCount).toBe(1);
    limiter.dispose();
    expect(clock.timerCount).toBe(0);
  });

  it("R-CORE-22 has refused everybody in the turn in which disposeAsync is called", async () => {
    const { limiter, ask } = busy(1, { queueLimit: 1 });
    const waiting = ask(1);
    const disposed = limiter.disposeAsync();
    expect(() => limiter.attemptAcquire()).toThrow(LimiterDisposedError);
    await disposed;
    expect(waiting.value.isAcquired).toBe(false);
  });

  it("R-CONC-4 makes disposing a lease a silent no-op", () => {
    const { limiter, leases } = busy(1);
    limiter.dispose();
    expect(leases.map((lease) => lease.dispose())).toEqual([undefined]);
    expect(() => limiter.attemptAcquire()).toThrow(LimiterDisposedError);
  });
});

describe("leases", () => {
  it("R-LEASE-1 give back once, however often they are disposed", () => {
    const { limiter, leases } = busy(2);
    const [lease] = leases;
    lease?.dispose();
    lease?.dispose();
    lease?.[Symbol.dispose]();
    expect(counts(limiter)[0]).toBe(1);
  });

  it("R-LEASE-1 that hold nothing give nothing back", async () => {
    const { limiter, ask, release } = busy(2, { queueLimit: 0 });
    const refused = [limiter.attemptAcquire(), (await ask(1).promise) as RateLimitLease];
    release(1);
    for (const lease of [...refused, limiter.attemptAcquire(0)]) {
      lease.dispose();
      lease.dispose();
    }
    expect(counts(limiter)[0]).toBe(1);
  });

  it("R-LEASE-2 stay what they are when they are disposed", () => {
    const { limiter, leases } = busy(1);
    const refused = limiter.attemptAcquire();
    refused.dispose();
    leases[0]?.dispose();
    expect([leases[0]?.isAcquired, refused.isAcquired]).toEqual([true, false]);
  });

  it("R-LEASE-4 have no value for reasons and retries when granted, nor for names they do not know", () => {
    const { leases } = busy(1);
    const [lease] = leases;
    for (const name of [
      "RETRY_AFTER",
      "REASON_PHRASE",
      "REJECTION_REASON",
      "reason_phrase",
      "toString",
      "",
    ]) {
      expect(lease?.tryGetMetadata(name)).toBeUndefined();
      expect(lease?.tryGetMetadata(MetadataName.create(name))).toBeUndefined();
    }
  });

  it("R-LEASE-4 (C-8) tell the limit and what is left, granted or refused, by raw and by typed name", () => {
    const { limiter, leases } = busy(2);
    leases[1]?.dispose();
    for (const lease of [leases[0] as RateLimitLease, limiter.attemptAcquire(2)]) {
      expect(lease.tryGetMetadata(MetadataName.limit)).toBe(2);
      expect(lease.tryGetMetadata("LIMIT")).toBe(2);
      expect(lease.tryGetMetadata(MetadataName.remaining)).toBe(1);
    }
  });

  it("R-LEASE-5 list exactly those metadata that have a value", async () => {
    const { limiter, leases, ask } = busy(1);
    expect(Object.fromEntries((leases[0] as RateLimitLease).getAllMetadata())).toEqual({
      LIMIT: 1,
      REMAINING: 0,
    });
    const attempt = limiter.attemptAcquire();
    expect(Object.fromEntries(attempt.getAllMetadata())).toEqual({
      REJECTION_REASON: "limit_reached",
      LIMIT: 1,
      REMAINING: 0,
    });
    expect(new Map((await ask(1).promise).getAllMetadata()).get("REASON_PHRASE")).toBe("Queue limit reached");
    const names = [...attempt.metadataNames];
    expect(names).toEqual(
      expect.arrayContaining(["REASON_PHRASE", "REJECTION_REASON", "LIMIT", "REMAINING"]),
    );
  });

  it("R-CONC-6 carry the reason phrase only when a request that could have waited found no room", async () => {
    const { limiter, ask } = busy(1);
    expect(limiter.attemptAcquire().tryGetMetadata("REASON_PHRASE")).toBeUndefined();
    expect(limiter.attemptAcquire(0).tryGetMetadata("REASON_PHRASE")).toBeUndefined();
    expect((await ask(1).promise).tryGetMetadata("REASON_PHRASE")).toBe("Queue limit reached");
  });

  it("R-CONC-6 C-2 do not blame the queue when the caller did not want to wait and there was room", async () => {
    const { limiter } = busy(1, { queueLimit: 5 });
    const refused = await limiter.acquire(1, { maxWaitMs: 0 });
    expect(refused.reason).toBe("limit_reached");
    expect(refused.tryGetMetadata("REASON_PHRASE")).toBeUndefined();
  });

  it("R-LEASE-6 metadata names are equal when their text is, in the same case", () => {
    const name = MetadataName.create<number>("RETRY_AFTER");
    expect(name.equals(MetadataName.retryAfter)).toBe(true);
    expect(MetadataName.retryAfter.equals(name)).toBe(true);
    expect(name.equals(MetadataName.create("retry_after"))).toBe(false);
    expect(name.equals(MetadataName.reasonPhrase)).toBe(false);
    expect(String(name)).toBe("RETRY_AFTER");
    expect(MetadataName.reasonPhrase.name).toBe("REASON_PHRASE");
  });

  it.each([null, undefined, 5, Symbol("name"), {}])("R-LEASE-6 %o is no metadata name", (name) => {
    expect(() => MetadataName.create(name as never)).toThrow(TypeError);
    expect(() => MetadataName.create(name as never)).toThrow(/name/);
  });
});

describe("statistics", () => {
  it("R-STAT-1 R-STAT-2 R-STAT-3 count leases whatever their size, and permits where permits are meant", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 7 });
    const held = limiter.attemptAcquire(10);
    const waiting = [watch(limiter.acquire(5)), watch(limiter.acquire(0)), watch(limiter.acquire(2))];
    expect(counts(limiter)).toEqual([0, 7, 0, 1]);
    limiter.attemptAcquire(0);
    limiter.attemptAcquire(9);
    watch(limiter.acquire(8));
    expect(counts(limiter)).toEqual([0, 7, 3, 1]);
    held.dispose();
    expect(counts(limiter)).toEqual([3, 0, 3, 4]);
    expect(await outcome(...waiting)).toBe("+++");
  });

  it("R-STAT-4 count no error, no abort and no return", async () => {
    const { limiter, ask, release } = busy(1, { queueLimit: 1 });
    const caller = new AbortController();
    const failing = [ask(-1), ask(2), ask(1, left), ask(1, caller.signal)];
    caller.abort();
    expect(() => limiter.attemptAcquire(2)).toThrow();
    release(1);
    expect(counts(limiter)).toEqual([1, 0, 0, 1]);
    expect(await outcome(...failing)).toBe("xxxx");
  });

  it("R-STAT-5 cannot be changed by whoever reads them", () => {
    const { limiter } = busy(1);
    expect(Object.isFrozen(limiter.getStatistics())).toBe(true);
  });
});

describe("the concurrency limiter", () => {
  it("R-CONC-1 looks at permitLimit before queueLimit", () => {
    const both = { permitLimit: 0, queueLimit: -1 };
    expect(() => new ConcurrencyLimiter(both)).toThrow(/^options\.permitLimit /);
  });

  it("R-CORE-24 has taken its options when it was made", async () => {
    const options: { -readonly [Name in keyof ConcurrencyLimiterOptions]: ConcurrencyLimiterOptions[Name] } =
      {
        permitLimit: 1,
        queueLimit: 2,
      };
    const limiter = new ConcurrencyLimiter(options);
    Object.assign(options, { permitLimit: 9, queueLimit: 0, queueProcessingOrder: "newestFirst" });
    const held = limiter.attemptAcquire();
    const waiting = [watch(limiter.acquire()), watch(limiter.acquire())];
    expect(counts(limiter)).toEqual([0, 2, 0, 1]);
    held.dispose();
    expect(await outcome(...waiting)).toBe("+.");
    expect(limiter.permitLimit).toBe(1);
  });

  it("R-CONC-2 R-CONC-3 R-CONC-5 moves permits in the very calls, each lease with its own", async () => {
    const { limiter, ask, release } = busy(3, { queueLimit: 3 });
    const [two, one] = [ask(2), ask(1)];
    release(3);
    expect(counts(limiter)).toEqual([0, 0, 0, 5]);
    expect([two.state, one.state]).toEqual(["pending", "pending"]);
    await flush();
    expect(two.value).not.toBe(one.value);
    two.value.dispose();
    expect(counts(limiter)).toEqual([2, 0, 0, 5]);
    one.value.dispose();
    expect(counts(limiter)).toEqual([3, 0, 0, 5]);
  });

  it("R-CONC-7 C-21 sets no timer, and reads the clock only when somebody begins to wait and is served", async () => {
    const { limiter, clock, ask, release } = busy(2, { queueLimit: 1 });
    const readsAtStart = clock.reads;
    const waiting = ask(1);
    const refused = [limiter.attemptAcquire(), await ask(1).promise];
    release(2);
    expect(await outcome(waiting)).toBe("+");
    waiting.value.dispose();
    expect(refused.map((lease) => lease.retryAfterMs)).toEqual([undefined, undefined]);
    expect(clock.timersSet).toBe(0);
    expect(clock.reads).toBe(readsAtStart + 2);
  });

  it("R-JS-1 design 3 C-17 comes out as worked by hand", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 3, queueLimit: 3 });
    const caller = new AbortController();
    const first = limiter.attemptAcquire(2);
    const a = watch(limiter.acquire(2, { signal: caller.signal }));
    const b = watch(limiter.acquire(1));
    expect(counts(limiter)).toEqual([1, 3, 0, 1]);
    expect(limiter.attemptAcquire(1).isAcquired).toBe(false);
    expect(await outcome(watch(limiter.acquire(0)))).toBe("+");
    const refused = await limiter.acquire(1);
    expect(refused.tryGetMetadata(MetadataName.reasonPhrase)).toBe("Queue limit reached");
    caller.abort();
    expect(counts(limiter)).toEqual([0, 0, 2, 3]);
    first.dispose();
    expect(counts(limiter)).toEqual([2, 0, 2, 3]);
    expect(await outcome(a, b)).toBe("x+");
  });
});

describe("idle time", () => {
  it("R-IDLE-1 runs from construction", () => {
    const clock = new CountingClock({ startMs: 1000 });
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, clock });
    clock.advance(40);
    expect(limiter.idleDurationMs).toBe(40);
  });

  it("R-IDLE-2 goes on through requests for nothing, through errors and through callers who have left", async () => {
    const clock = new CountingClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
    clock.advance(10);
    limiter.attemptAcquire(0).dispose();
    expect(() => limiter.attemptAcquire(2)).toThrow(RangeError);
    expect(await outcome(watch(limiter.acquire(0)), watch(limiter.acquire(1, { signal: left })))).toBe("+x");
    expect(limiter.idleDurationMs).toBe(10);
  });

  it("R-IDLE-2 ends with a grant, by an attempt or by a request", async () => {
    const clock = new CountingClock();
    for (const take of ["attemptAcquire", "acquire"] as const) {
      const limiter = new ConcurrencyLimiter({ permitLimit: 2, clock });
      const lease = await limiter[take]();
      expect(limiter.idleDurationMs).toBeUndefined();
      lease.dispose();
      expect(limiter.idleDurationMs).toBe(0);
    }
  });

  it("R-IDLE-3 begins only when the last permit is back and went to nobody", async () => {
    const { limiter, ask, release } = busy(2, { queueLimit: 1 });
    const waiting = ask(1);
    release(1);
    expect(limiter.idleDurationMs).toBeUndefined();
    release(1);
    expect(limiter.idleDurationMs).toBeUndefined();
    expect(await outcome(waiting)).toBe("+");
    waiting.value.dispose();
    expect(limiter.idleDurationMs).toBe(0);
  });

  it("R-IDLE-3 (C-21) runs from the first look after the last permit came back", () => {
    const { limiter, release, clock } = busy(1);
    release(1);
    clock.advance(30);
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(30);
    expect(limiter.idleDurationMs).toBe(30);
    limiter.attemptAcquire().dispose();
    clock.advance(30);
    expect(limiter.idleDurationMs).toBe(0);
  });

  it("R-IDLE-4 is not ended by dispose", () => {
    const { limiter, release, clock } = busy(2);
    limiter.dispose();
    clock.advance(1);
    expect(limiter.idleDurationMs).toBeUndefined();
    release(1);
    expect(limiter.idleDurationMs).toBeUndefined();
  });

  it("R-IDLE-3 never runs backwards with a clock that does", () => {
    const { limiter, release, clock } = busy(1);
    clock.set(100);
    release(1);
    expect(limiter.idleDurationMs).toBe(0);
    clock.set(20);
    expect(limiter.idleDurationMs).toBe(0);
  });
});
