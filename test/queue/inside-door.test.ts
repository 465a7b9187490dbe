import { AsyncLocalStorage } from "node:async_hooks";
import {
  type AcquireOptions,
  ConcurrencyLimiter,
  type ConcurrencyLimiterOptions,
  FixedWindowRateLimiter,
  LimiterDisposedError,
  NoLimiter,
  RateLimiter,
  type RateLimitLease,
  SlidingWindowRateLimiter,
  shadowed,
  TokenBucketRateLimiter,
} from "headgate";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type AcquireTicket,
  type Inside,
  type InsideLimiter,
  inside,
  isLease,
  type LimiterSnapshot,
  requestWith,
} from "../../src/internal.js";
import { CountingClock, CountingController, flush, ManualClock, watch } from "../support.js";

// rxjs-opentelemetry.md section 0 (CORE rules, T-CO rows), by way of src/internal.ts; design.md C-17.

/** What a sink is told, in order, each as "name: granted", "name: reason" or "name: failed error". */
class Told {
  readonly log: string[] = [];
  readonly leases: RateLimitLease[] = [];

  sink(name: string, then?: (lease: RateLimitLease) => void) {
    return {
      settled: (lease: RateLimitLease) => {
        this.log.push(`${name}: ${lease.isAcquired ? "granted" : lease.reason}`);
        this.leases.push(lease);
        then?.(lease);
      },
      failed: (error: unknown) => {
        this.log.push(`${name}: failed ${String(error)}`);
      },
    };
  }
}

const make = (options: Partial<ConcurrencyLimiterOptions> = {}) => {
  const clock = new CountingClock();
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10, clock, ...options });
  return { clock, limiter, told: new Told() };
};
/** The same with all permits taken, by one lease. */
const busy = (options: Partial<ConcurrencyLimiterOptions> = {}) => {
  const made = make(options);
  return { ...made, held: made.limiter.attemptAcquire(options.permitLimit ?? 1) };
};
const doorOf = (limiter: RateLimiter): Inside => (limiter as InsideLimiter)[inside] as Inside;
const snapshotOf = (limiter: RateLimiter): LimiterSnapshot => {
  const into = {} as LimiterSnapshot;
  expect(doorOf(limiter).snapshot(into)).toBe(true);
  return into;
};

/** A request that is expected to be answered at once. */
function leaseOf(limiter: RateLimiter, permits = 1, options: AcquireOptions = {}): RateLimitLease {
  const answer = requestWith(limiter, permits, options, {
    settled: () => expect.unreachable("told of what it had in its hand"),
    failed: () => expect.unreachable("told of an error that was not thrown"),
  });
  if (!isLease(answer)) return expect.unreachable("it would have to wait");
  return answer;
}

/** A request that is expected to wait. */
function ticketOf(
  limiter: RateLimiter,
  sink: ReturnType<Told["sink"]>,
  permits = 1,
  options: AcquireOptions = {},
): AcquireTicket {
  const answer = requestWith(limiter, permits, options, sink);
  if (isLease(answer) || !("cancel" in answer)) return expect.unreachable("it does not wait with a ticket");
  return answer;
}

const unhandled: unknown[] = [];
const onUnhandled = (error: unknown) => unhandled.push(error);
/** Vitest's own listeners would fail the run for what is thrown here on purpose. */
let others: NodeJS.UnhandledRejectionListener[] = [];

/** Hosts report what nobody handled a little later than the microtasks. */
const reported = async (): Promise<unknown[]> => {
  await flush();
  await new Promise((resolve) => setImmediate(resolve));
  return unhandled.splice(0);
};

beforeEach(() => {
  unhandled.length = 0;
  others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", onUnhandled);
});

afterEach(async () => {
  const left = await reported();
  process.removeListener("unhandledRejection", onUnhandled);
  for (const listener of others) process.on("unhandledRejection", listener);
  expect(left).toEqual([]);
});

describe("a request through the inside door", () => {
  it.each([
    ["ConcurrencyLimiter", () => new ConcurrencyLimiter({ permitLimit: 1 })],
    ["FixedWindowRateLimiter", () => new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000 })],
    [
      "SlidingWindowRateLimiter",
      () => new SlidingWindowRateLimiter({ permitLimit: 1, windowMs: 1000, segmentsPerWindow: 2 }),
    ],
    [
      "TokenBucketRateLimiter",
      () => new TokenBucketRateLimiter({ tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 1000 }),
    ],
    ["a chain", () => RateLimiter.createChained(new ConcurrencyLimiter({ permitLimit: 1 }))],
  ] as const)("gives a lease at once when the answer is known, yes or no: %s", (_kind, makeOne) => {
    const limiter: RateLimiter = makeOne();
    expect(leaseOf(limiter).isAcquired).toBe(true);
    expect(leaseOf(limiter).reason).toBe("limit_reached");
  });

  it("gives a lease at once from limiters that have no door", () => {
    expect(leaseOf(new NoLimiter()).isAcquired).toBe(true);
  });

  it("gives a ticket for a limiter that has no door, tells the sink a moment later, and gives back what nobody wants", async () => {
    const held = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2 });
    class Foreign extends NoLimiter {
      protected override attemptAcquireCore = () => held.attemptAcquire();
      protected override acquireCore = () => held.acquire() as never;
    }
    const told = new Told();
    const tickets = ["a", "b"].map((name) => requestWith(new Foreign(), 1, {}, told.sink(name)));
    await flush();
    expect(told.log).toEqual(["a: granted"]);
    const [first, second] = tickets as [AcquireTicket, AcquireTicket];
    expect([second.cancel(), second.cancel()]).toEqual([true, false]);
    expect(isLease(first)).toBe(false);
    held.permitLimit = 2;
    await flush();
    expect(told.log).toEqual(["a: granted"]);
    expect(held.getStatistics()).toMatchObject({ currentAvailablePermits: 1, totalSuccessfulLeases: 2 });
  });

  it("CORE-1 tells the sink in the very call that gives the permit back, once", async () => {
    const { limiter, held, told } = busy();
    ticketOf(limiter, told.sink("a"));
    expect(told.log).toEqual([]);
    held.dispose();
    expect(told.log).toEqual(["a: granted"]);
    held.dispose();
    limiter.dispose();
    await flush();
    expect(told.log).toEqual(["a: granted"]);
  });

  it("CORE-1 tells it in the turn of the alarm when a permit comes with time, and when the wait is over", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({
      ...{ permitLimit: 1, windowMs: 1000, queueLimit: 2, queueTimeoutMs: 1500 },
      clock,
    });
    limiter.attemptAcquire();
    const told = new Told();
    const at: number[] = [];
    for (const name of ["a", "b"])
      ticketOf(
        limiter,
        told.sink(name, () => at.push(clock.now())),
      );
    clock.advance(2000);
    expect([told.log, at]).toEqual([
      ["a: granted", "b: queue_timeout"],
      [1000, 1500],
    ]);
  });

  it("C-17 tells it in whichever call brings the limiter up to the present, before that call does anything", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1000, queueLimit: 2, clock });
    limiter.attemptAcquire();
    const told = new Told();
    ticketOf(limiter, told.sink("a"));
    clock.set(1000);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    expect(told.log).toEqual(["a: granted"]);
  });

  it("tells it of the refusals as well: evicted, too large for a lowered limit, disposed", () => {
    const { limiter, told } = busy({ permitLimit: 2, queueLimit: 3, queueProcessingOrder: "newestFirst" });
    ticketOf(limiter, told.sink("a"), 2);
    ticketOf(limiter, told.sink("b"), 2);
    ticketOf(limiter, told.sink("c"), 1);
    limiter.permitLimit = 1;
    limiter.dispose();
    expect(told.log).toEqual(["a: queue_evicted", "b: limit_reached", "c: limiter_disposed"]);
  });

  it("tells it that the caller's own signal was aborted, with the reason, in that turn", () => {
    const { limiter, told } = busy();
    const caller = new CountingController();
    ticketOf(limiter, told.sink("a"), 1, { signal: caller.signal });
    ticketOf(limiter, told.sink("b"));
    expect(caller.listeners).toBe(1);
    caller.abort("left");
    expect([told.log, caller.listeners]).toEqual([["a: failed left"], 0]);
    expect(snapshotOf(limiter)).toMatchObject({ queuedRequests: 1, aborted: 1, refused: 0 });
  });

  it("CORE-1 throws synchronously: aborted, above the limit, a bad priority, disposed; and nothing has changed", () => {
    const { limiter, told } = make({ queueProcessingOrder: "highestPriorityFirst" });
    const before = snapshotOf(limiter);
    const ask = (permits: number, options: AcquireOptions) => () =>
      requestWith(limiter, permits, options, told.sink("a"));
    expect(ask(1, { signal: AbortSignal.abort(new Error("left")) })).toThrow("left");
    expect(ask(2, {})).toThrow(RangeError);
    expect(ask(1, { priority: 0.5 })).toThrow(RangeError);
    expect(ask(1, { priority: "1" as never })).toThrow(TypeError);
    expect(snapshotOf(limiter)).toEqual(before);
    limiter.dispose();
    expect(ask(1, {})).toThrow(LimiterDisposedError);
    expect(told.log).toEqual([]);
  });

  it("takes the options of acquire: priority, maxWaitMs", () => {
    const { limiter, clock, held, told } = busy({ queueProcessingOrder: "highestPriorityFirst" });
    ticketOf(limiter, told.sink("low"), 1, { priority: -1 });
    ticketOf(limiter, told.sink("short"), 1, { maxWaitMs: 100 });
    ticketOf(limiter, told.sink("high"), 1, { priority: 1 });
    expect(leaseOf(limiter, 1, { maxWaitMs: 0 }).reason).toBe("limit_reached");
    expect(leaseOf(limiter, 1, { maxWaitMs: -1 }).reason).toBe("deadline_expired");
    held.dispose();
    clock.advance(100);
    for (let i = 0; i < told.leases.length; i++) told.leases[i]?.dispose();
    expect(told.log).toEqual(["high: granted", "short: queue_timeout", "low: granted"]);
  });
});

describe("a ticket", () => {
  it("CORE-2 T-CO1 takes every second of 1000 waiters out: counted at once, told never; the others are told once", () => {
    const { limiter, held, told } = busy({ queueLimit: 1000 });
    const tickets = Array.from({ length: 1000 }, (_, i) => ticketOf(limiter, told.sink(String(i))));
    let left = 1000;
    for (const [i, ticket] of tickets.entries()) {
      if (i % 2 === 0) continue;
      expect(ticket.cancel()).toBe(true);
      left -= 1;
      expect(limiter.getStatistics().currentQueuedCount).toBe(left);
    }
    held.dispose();
    for (let i = 0; i < told.leases.length; i++) told.leases[i]?.dispose();
    expect(told.log).toEqual(Array.from({ length: 500 }, (_, i) => `${2 * i}: granted`));
    expect(snapshotOf(limiter)).toMatchObject({
      available: 1,
      queuedRequests: 0,
      aborted: 500,
      granted: 501,
    });
  });

  it("CORE-2 D-4 lets those through whom it blocked, before cancel returns", () => {
    const { limiter, told } = make({ permitLimit: 4 });
    limiter.attemptAcquire(2);
    const large = ticketOf(limiter, told.sink("large"), 4);
    ticketOf(limiter, told.sink("small"), 1);
    const promised = watch(limiter.acquire(1));
    expect(large.cancel()).toBe(true);
    expect(told.log).toEqual(["small: granted"]);
    expect([promised.state, limiter.getStatistics().currentAvailablePermits]).toEqual(["pending", 0]);
  });

  it("is worth nothing twice, after the grant, after a refusal, after an abort, after dispose", () => {
    const { limiter, held, told } = busy({ queueLimit: 4 });
    const caller = new AbortController();
    const cancelled = ticketOf(limiter, told.sink("cancelled"));
    const granted = ticketOf(limiter, told.sink("granted"));
    const aborted = ticketOf(limiter, told.sink("aborted"), 1, { signal: caller.signal });
    const disposed = ticketOf(limiter, told.sink("disposed"));
    expect(cancelled.cancel()).toBe(true);
    caller.abort("left");
    held.dispose();
    limiter.dispose();
    expect([cancelled, granted, aborted, disposed].map((ticket) => ticket.cancel())).toEqual([
      false,
      false,
      false,
      false,
    ]);
    expect(told.log).toEqual(["aborted: failed left", "granted: granted", "disposed: limiter_disposed"]);
    expect(snapshotOf(limiter)).toMatchObject({ available: 0, granted: 2, refused: 1 });
  });

  it("takes the caller's listener and the timer along", () => {
    const { limiter, clock, told } = busy();
    const caller = new CountingController();
    const ticket = ticketOf(limiter, told.sink("a"), 1, { signal: caller.signal, maxWaitMs: 100 });
    expect([caller.listeners, clock.timerCount]).toEqual([1, 1]);
    ticket.cancel();
    expect([caller.listeners, clock.timerCount]).toEqual([0, 0]);
    caller.abort("left");
    clock.advance(100);
    expect(told.log).toEqual([]);
  });

  it("says false when the answer is on its way although the sink has not heard of it yet", () => {
    const { limiter, told } = make({ permitLimit: 2 });
    const held = limiter.attemptAcquire(2);
    const tickets: AcquireTicket[] = [];
    const answers: boolean[] = [];
    tickets.push(
      ticketOf(
        limiter,
        told.sink("a", () => answers.push(tickets[1]?.cancel() as boolean)),
      ),
      ticketOf(limiter, told.sink("b")),
    );
    held.dispose();
    expect([answers, told.log]).toEqual([[false], ["a: granted", "b: granted"]]);
  });
});

describe("delivery", () => {
  it("C-17 CORE-3 has all state final before anybody is told, of every waiter served in the same turn", () => {
    const { limiter, told } = make({ permitLimit: 3 });
    const held = limiter.attemptAcquire(3);
    const seen: unknown[] = [];
    const look = () => {
      const { currentAvailablePermits, currentQueuedCount, totalSuccessfulLeases } = limiter.getStatistics();
      seen.push([currentAvailablePermits, currentQueuedCount, totalSuccessfulLeases]);
    };
    for (const name of ["a", "b", "c", "d"]) ticketOf(limiter, told.sink(name, look));
    held.dispose();
    expect(seen).toEqual([
      [0, 1, 4],
      [0, 1, 4],
      [0, 1, 4],
    ]);
  });

  it("C-10 C-17 has a lowered limit in force before it tells those who are too large for it", () => {
    const { limiter, told } = make({ permitLimit: 5 });
    limiter.attemptAcquire(2);
    const attempts: boolean[] = [];
    ticketOf(
      limiter,
      told.sink("large", () => attempts.push(limiter.attemptAcquire(1).isAcquired)),
      5,
    );
    limiter.permitLimit = 2;
    expect([told.log, attempts]).toEqual([["large: limit_reached"], [false]]);
    expect(snapshotOf(limiter)).toMatchObject({ permitLimit: 2, available: 0, granted: 1 });
  });

  it("goes on in one order for the whole process: what a sink causes is told after what was waiting to be told", () => {
    const first = make({ permitLimit: 2 });
    const second = busy();
    const held = first.limiter.attemptAcquire(2);
    const told = new Told();
    ticketOf(second.limiter, told.sink("caused"));
    ticketOf(
      first.limiter,
      told.sink("a", () => {
        second.held.dispose();
        told.log.push("a is done");
      }),
    );
    ticketOf(first.limiter, told.sink("b"));
    held.dispose();
    expect(told.log).toEqual(["a: granted", "a is done", "b: granted", "caused: granted"]);
  });

  it("CORE-4 lets promises and sinks wait in one order; promises go on a microtask later", async () => {
    const { limiter, held, told } = busy({ permitLimit: 4, queueProcessingOrder: "oldestFirst" });
    const log = told.log;
    void limiter.acquire(1).then(() => log.push("promise 1"));
    ticketOf(limiter, told.sink("sink 1"));
    void limiter.acquire(1).then(() => log.push("promise 2"));
    ticketOf(limiter, told.sink("sink 2"));
    const fifth = watch(limiter.acquire(1));
    held.dispose();
    log.push("dispose returned");
    await flush();
    expect(log).toEqual(["sink 1: granted", "sink 2: granted", "dispose returned", "promise 1", "promise 2"]);
    expect(fifth.state).toBe("pending");
  });

  it("CORE-4 T-CO3 grants in queue order whoever throws, reports each error, and stops nobody", async () => {
    const { limiter, held, told } = busy({ queueLimit: 30 });
    const order: string[] = [];
    const next = (name: string) => (lease: RateLimitLease) => {
      order.push(name);
      lease.dispose();
      if (name.startsWith("throws")) throw new Error(name);
    };
    for (let i = 0; i < 30; i++) {
      const name = `${i % 3 === 2 ? "throws" : i % 3 === 1 ? "promise" : "sink"} ${i}`;
      if (i % 3 === 1) void limiter.acquire().then(next(name));
      else ticketOf(limiter, told.sink(name, next(name)));
    }
    held.dispose();
    await flush();
    expect(order.map((name) => Number(name.split(" ")[1]))).toEqual(Array.from({ length: 30 }, (_, i) => i));
    const errors = (await reported()) as Error[];
    expect(errors.map(({ message }) => message)).toEqual(order.filter((name) => name.startsWith("throws")));
    expect(snapshotOf(limiter)).toMatchObject({ available: 1, queuedRequests: 0, granted: 31 });
  });

  it("CORE-4 reports what `failed` throws too, and never to whoever aborted or disposed", async () => {
    const { limiter, told } = busy();
    const caller = new AbortController();
    const bad = {
      settled: () => {
        throw new Error("settled");
      },
      failed: () => {
        throw new Error("failed");
      },
    };
    ticketOf(limiter, bad, 1, { signal: caller.signal });
    ticketOf(limiter, bad);
    ticketOf(limiter, told.sink("after"));
    caller.abort("left");
    limiter.dispose();
    expect(told.log).toEqual(["after: limiter_disposed"]);
    expect((await reported()).map((error) => (error as Error).message)).toEqual(["failed", "settled"]);
  });

  it("CORE-3 T-CO2 keeps the stack as deep as it was for 100 000 grants that hang on one another", () => {
    const count = 100_000;
    const { limiter, held } = busy({ queueLimit: count });
    const depths = new Set<number>();
    const depth = (): number => {
      const { stackTraceLimit } = Error;
      Error.stackTraceLimit = 200;
      const lines = (new Error().stack as string).split("\n").length;
      Error.stackTraceLimit = stackTraceLimit;
      return lines;
    };
    let granted = 0;
    const sink = {
      settled: (lease: RateLimitLease) => {
        granted += 1;
        if (granted % 1000 === 1) depths.add(depth());
        lease.dispose();
      },
      failed: () => expect.unreachable(),
    };
    for (let i = 0; i < count; i++) ticketOf(limiter, sink);
    held.dispose();
    expect(granted).toBe(count);
    expect(depths.size).toBe(1);
    expect(snapshotOf(limiter)).toMatchObject({ available: 1, queuedRequests: 0, granted: count + 1 });
  });

  it("CORE-3 does so when each grant comes by way of another limiter, and when each asks anew", () => {
    const one = busy({ queueLimit: 20_000 });
    const two = busy({ queueLimit: 20_000 });
    let granted = 0;
    const release = {
      settled: (lease: RateLimitLease) => {
        granted += 1;
        lease.dispose();
      },
      failed: () => {},
    };
    for (let i = 0; i < 10_000; i++) {
      // A permit of one, then a permit of the other, like a chain.
      ticketOf(one.limiter, {
        settled: (lease) => {
          const answer = requestWith(two.limiter, 1, {}, release);
          if (isLease(answer)) release.settled(answer);
          lease.dispose();
        },
        failed: () => expect.unreachable(),
      });
    }
    two.held.dispose();
    one.held.dispose();
    expect(granted).toBe(10_000);
    expect([snapshotOf(one.limiter).available, snapshotOf(two.limiter).available]).toEqual([1, 1]);
  });

  it("bears a sink that acquires, releases, cancels, aborts, pauses, changes the limit and disposes, all inside", () => {
    const { limiter, held, told, clock } = busy({ queueLimit: 10 });
    const caller = new AbortController();
    let cancelled: AcquireTicket | undefined;
    ticketOf(
      limiter,
      told.sink("a", (lease) => {
        expect(leaseOf(limiter, 1, { maxWaitMs: 0 }).isAcquired).toBe(false);
        caller.abort("left");
        expect(cancelled?.cancel()).toBe(true);
        limiter.permitLimit = 2;
        lease.dispose();
        limiter.pause(10);
        limiter.permitLimit = 3;
        ticketOf(limiter, told.sink("f"), 3);
      }),
    );
    ticketOf(limiter, told.sink("b"), 1, { signal: caller.signal });
    cancelled = ticketOf(limiter, told.sink("c"));
    ticketOf(limiter, told.sink("d"));
    ticketOf(limiter, told.sink("e"));
    ticketOf(limiter, told.sink("g"));
    held.dispose();
    // d takes what the limit was raised by, e what a gives back; then the pause.
    expect(told.log).toEqual(["a: granted", "b: failed left", "d: granted", "e: granted"]);
    expect(snapshotOf(limiter)).toMatchObject({
      available: 1,
      queuedRequests: 2,
      isPaused: true,
      aborted: 2,
    });
    clock.advance(10);
    expect(told.log.slice(4)).toEqual(["g: granted"]);
    told.leases[1]?.dispose();
    told.leases[2]?.dispose();
    told.leases[3]?.dispose();
    expect(told.log.slice(5)).toEqual(["f: granted"]);
    expect(snapshotOf(limiter)).toMatchObject({ available: 0, queuedRequests: 0 });
  });

  it("CORE-5 T-CO4 dispose tells everybody before it returns; later requests fail, and leases that are out come back", async () => {
    const { limiter, held, told } = busy();
    ticketOf(
      limiter,
      told.sink("a", () => {
        expect(() => limiter.attemptAcquire()).toThrow(LimiterDisposedError);
      }),
    );
    const promised = watch(limiter.acquire());
    ticketOf(limiter, told.sink("b"));
    limiter.dispose();
    expect(told.log).toEqual(["a: limiter_disposed", "b: limiter_disposed"]);
    await flush();
    expect(promised.value.reason).toBe("limiter_disposed");
    held.dispose();
    expect(snapshotOf(limiter)).toMatchObject({ isDisposed: true, queuedRequests: 0, queuedPermits: 0 });
  });

  it("4.2 a limiter that a sink disposes while a pause ends grants nothing more, and leaves nobody waiting", async () => {
    const { limiter, clock, told } = make({ permitLimit: 1 });
    limiter.pause(10);
    ticketOf(
      limiter,
      told.sink("a", () => limiter.dispose()),
    );
    // No timer fires: the newcomer finds that the pause is over.
    clock.set(10);
    const newcomer = watch(limiter.acquire());
    await flush();
    expect(told.log).toEqual(["a: granted"]);
    expect([newcomer.state === "pending", clock.timerCount]).toEqual([false, 0]);
    expect(newcomer.state === "fulfilled" && newcomer.value.isAcquired).toBe(false);
    expect(snapshotOf(limiter)).toMatchObject({ queuedRequests: 0, granted: 1 });
  });

  it("4.2 a limit that a sink lowers while a pause ends holds for the newcomer who found that", async () => {
    const { limiter, clock, told } = make({ permitLimit: 3 });
    limiter.pause(10);
    ticketOf(
      limiter,
      told.sink("a", (lease) => {
        limiter.permitLimit = 2;
        lease.dispose();
      }),
    );
    clock.set(10);
    const newcomer = watch(limiter.acquire(3));
    await flush();
    // It can never fit: refused or a mistake, but it does not wait for ever.
    expect(newcomer.state).not.toBe("pending");
    expect(snapshotOf(limiter).queuedRequests).toBe(0);
  });

  it("4.2 a newcomer whose signal a sink aborts while its own request brings the limiter up to date does not wait on", async () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, queueLimit: 5, clock });
    limiter.attemptAcquire();
    const told = new Told();
    const caller = new CountingController();
    ticketOf(
      limiter,
      told.sink("a", () => caller.abort("left")),
    );
    clock.set(10);
    const newcomer = watch(limiter.acquire(1, { signal: caller.signal }));
    await flush();
    expect([told.log, newcomer.reason]).toEqual([["a: granted"], "left"]);
    expect([limiter.getStatistics().currentQueuedCount, caller.listeners, clock.timerCount]).toEqual([
      0, 0, 0,
    ]);
  });

  it("4.6 a limiter that a sink disposes while time brings permits bears the abort that noticed it", async () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, queueLimit: 5, clock });
    limiter.attemptAcquire();
    const told = new Told();
    const caller = new AbortController();
    ticketOf(
      limiter,
      told.sink("a", () => limiter.dispose()),
    );
    ticketOf(limiter, told.sink("b"), 1, { signal: caller.signal });
    clock.set(10);
    // What an abort listener throws is reported as an uncaught exception.
    const uncaught: unknown[] = [];
    const listeners = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", (error) => uncaught.push(error));
    caller.abort("left");
    await new Promise((resolve) => setImmediate(resolve));
    process.removeAllListeners("uncaughtException");
    for (const listener of listeners) process.on("uncaughtException", listener);
    expect(uncaught).toEqual([]);
    // The permit was handed over before the abort was heard of by way of the queue; b left either way.
    expect(told.log.sort()).toEqual(["a: granted", "b: failed left"]);
    expect(clock.timerCount).toBe(0);
  });
});

describe("async context (C-17)", () => {
  const storage = new AsyncLocalStorage<string>();

  it("lets a promise go on in the context of the caller who waits", async () => {
    const { limiter, held } = busy();
    let seen: string | undefined;
    const work = storage.run("caller", async () => {
      await limiter.acquire();
      seen = storage.getStore();
    });
    storage.run("releaser", () => held.dispose());
    await work;
    expect(seen).toBe("caller");
  });

  it("tells a sink in the context captured when it began to wait", () => {
    const { limiter, held, told } = busy();
    let seen: string | undefined;
    storage.run("caller", () => {
      ticketOf(
        limiter,
        told.sink("a", () => {
          seen = storage.getStore();
        }),
      );
    });
    storage.run("releaser", () => held.dispose());
    expect([told.log, seen]).toEqual([["a: granted"], "caller"]);
  });
});

describe("a snapshot", () => {
  const FIELDS = [
    "kind",
    "permitLimit",
    "available",
    "queueLimit",
    "queuedPermits",
    "queuedRequests",
    "granted",
    "refused",
    "aborted",
    "isPaused",
    "isDisposed",
  ];

  it("says what the limiter looks like", () => {
    const { limiter, told } = make({ permitLimit: 5, queueLimit: 8 });
    limiter.attemptAcquire(3);
    limiter.attemptAcquire(5);
    ticketOf(limiter, told.sink("a"), 3);
    ticketOf(limiter, told.sink("b"), 4);
    ticketOf(limiter, told.sink("c"), 1).cancel();
    expect(snapshotOf(limiter)).toEqual({
      kind: "ConcurrencyLimiter",
      permitLimit: 5,
      available: 2,
      queueLimit: 8,
      queuedPermits: 7,
      queuedRequests: 2,
      granted: 1,
      refused: 1,
      aborted: 1,
      isPaused: false,
      isDisposed: false,
    });
  });

  it("shows a debt as one", () => {
    const { limiter } = busy({ permitLimit: 5 });
    limiter.permitLimit = 2;
    expect(snapshotOf(limiter)).toMatchObject({ permitLimit: 2, available: -3 });
  });

  it("fills the caller's object, with plain values and nothing else, however often it is asked", () => {
    const { limiter, told } = busy();
    ticketOf(limiter, told.sink("a"));
    const target: Record<string, unknown> = {};
    let writes = 0;
    const into = new Proxy(target, {
      set(object, key, value) {
        writes += 1;
        if (typeof value === "object" || typeof value === "function")
          expect.unreachable(`${String(key)} is an object`);
        object[String(key)] = value;
        return true;
      },
      defineProperty: () => expect.unreachable("a property was defined"),
      deleteProperty: () => expect.unreachable("a property was deleted"),
    }) as unknown as LimiterSnapshot;
    for (let i = 0; i < 10; i++) expect(doorOf(limiter).snapshot(into)).toBe(true);
    expect(writes).toBe(10 * FIELDS.length);
    expect(Object.keys(target).sort()).toEqual([...FIELDS].sort());
  });

  it("reads no clock and sets no timer for a limiter that time does not change", () => {
    const { limiter, clock } = busy();
    clock.reads = 0;
    snapshotOf(limiter);
    expect([clock.reads, clock.timersSet]).toEqual([0, 0]);
  });

  it("C-13 is of the present: permits that have come are there, and a pause that is over is over", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 1000, clock });
    limiter.attemptAcquire(2);
    limiter.pause(500);
    expect(snapshotOf(limiter)).toMatchObject({ available: 0, isPaused: true });
    clock.advance(1000);
    expect(snapshotOf(limiter)).toMatchObject({ available: 2, isPaused: false });
  });

  it("works after dispose, and then still knows what has been", () => {
    const { limiter, told } = busy();
    limiter.attemptAcquire();
    ticketOf(limiter, told.sink("a")).cancel();
    const before = snapshotOf(limiter);
    expect(before).toMatchObject({ granted: 1, refused: 1, aborted: 1 });
    limiter.dispose();
    expect(snapshotOf(limiter)).toEqual({ ...before, isDisposed: true });
  });

  it("counts those whom dispose refused, unlike the statistics (rxjs-opentelemetry.md 0.3)", () => {
    const { limiter, told } = busy();
    ticketOf(limiter, told.sink("a"));
    limiter.dispose();
    expect(told.log).toEqual(["a: limiter_disposed"]);
    expect(snapshotOf(limiter)).toMatchObject({ granted: 1, refused: 1 });
  });

  it("counts every request once: granted, refused, aborted or waiting", () => {
    const { limiter, clock, held, told } = busy({ queueLimit: 3, queueProcessingOrder: "newestFirst" });
    const caller = new AbortController();
    let asked = 1;
    const ask = (options: AcquireOptions): void => {
      asked += 1;
      void requestWith(limiter, 1, options, told.sink("x"));
    };
    ask({ maxWaitMs: -1 });
    ask({ maxWaitMs: 0 });
    ask({ maxWaitMs: 10 });
    ask({ signal: caller.signal });
    for (let i = 0; i < 3; i++) ask({});
    caller.abort();
    clock.advance(10);
    held.dispose();
    const { granted, refused, aborted, queuedRequests } = snapshotOf(limiter);
    expect(granted + refused + aborted + queuedRequests).toBe(asked);
    expect([granted, queuedRequests]).toEqual([2, 2]);
  });

  it("is not to be had of what has no queue of its own", () => {
    const into = {} as LimiterSnapshot;
    const chain = RateLimiter.createChained(new ConcurrencyLimiter({ permitLimit: 1 }));
    expect(doorOf(chain).snapshot(into)).toBe(false);
    expect(into).toEqual({});
    expect((new NoLimiter() as InsideLimiter)[inside]).toBeUndefined();
  });

  it("T-CO6 CORE-8 is behind a symbol that other copies of the library know", () => {
    expect(inside).toBe(Symbol.for("headgate.inside.v1"));
  });
});

describe("a chain through the door", () => {
  const chain = () => {
    const clock = new ManualClock();
    const outer = new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 10, clock });
    const inner = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10, clock });
    return { clock, outer, inner, limiter: RateLimiter.createChained(outer, inner), told: new Told() };
  };
  const free = (...limiters: ConcurrencyLimiter[]) =>
    limiters.map((limiter) => limiter.getStatistics().currentAvailablePermits);

  it("tells its sink in the turn in which the last of its limiters grants", () => {
    const { outer, inner, limiter, told } = chain();
    const held = [outer.attemptAcquire(2), inner.attemptAcquire()];
    ticketOf(limiter, told.sink("a"));
    held[0]?.dispose();
    expect([told.log, free(outer, inner)]).toEqual([[], [1, 0]]);
    held[1]?.dispose();
    expect([told.log, free(outer, inner)]).toEqual([["a: granted"], [1, 0]]);
    told.leases[0]?.dispose();
    expect(free(outer, inner)).toEqual([2, 1]);
  });

  it("gives a lease at once where all of them do", () => {
    const { outer, inner, limiter } = chain();
    leaseOf(limiter).dispose();
    expect(free(outer, inner)).toEqual([2, 1]);
  });

  it("C-19 gives back what the earlier ones gave when it is cancelled, at whichever it waits", () => {
    const { outer, inner, limiter, told } = chain();
    const held = inner.attemptAcquire();
    expect(ticketOf(limiter, told.sink("at the inner")).cancel()).toBe(true);
    expect(free(outer, inner)).toEqual([2, 0]);
    const all = outer.attemptAcquire(2);
    const ticket = ticketOf(limiter, told.sink("on its way"));
    all.dispose();
    expect(free(outer, inner)).toEqual([1, 0]);
    expect(ticket.cancel()).toBe(true);
    expect(ticket.cancel()).toBe(false);
    held.dispose();
    expect([told.log, free(outer, inner)]).toEqual([[], [2, 1]]);
  });

  it("C-19 gives it back when a later one refuses or the caller's signal is aborted, in that turn", () => {
    const { outer, inner, limiter, told } = chain();
    inner.attemptAcquire();
    const caller = new AbortController();
    ticketOf(limiter, told.sink("a"), 1, { signal: caller.signal });
    ticketOf(limiter, told.sink("b"));
    expect(free(outer)).toEqual([0]);
    caller.abort("left");
    expect([told.log, free(outer)]).toEqual([["a: failed left"], [1]]);
    inner.dispose();
    expect([told.log[1], free(outer)]).toEqual(["b: limiter_disposed", [2]]);
  });

  it("tells its sink of what a later limiter throws", () => {
    const { outer, inner, limiter, told } = chain();
    const held = outer.attemptAcquire(2);
    ticketOf(limiter, told.sink("a"));
    inner.dispose();
    held.dispose();
    expect(told.log).toEqual([expect.stringContaining("a: failed LimiterDisposedError")]);
    expect(free(outer)).toEqual([2]);
  });

  it("does not lose an answer that comes before the request has returned, from somebody who was evicted for it", async () => {
    const limiter = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 1,
      queueProcessingOrder: "newestFirst",
    });
    const held = limiter.attemptAcquire();
    const told = new Told();
    // It gives back what the newcomer waits for, in the turn in which that one pushes it out.
    ticketOf(
      limiter,
      told.sink("evicted", () => held.dispose()),
    );
    const newcomer = watch(RateLimiter.createChained(limiter).acquire());
    await flush();
    expect(told.log).toEqual(["evicted: queue_evicted"]);
    expect(newcomer.state).toBe("fulfilled");
    expect(newcomer.value.isAcquired).toBe(true);
  });

  it("can be cancelled at its second limiter, when it came past the first before the request had returned", () => {
    const first = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 1,
      queueProcessingOrder: "newestFirst",
    });
    const second = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    second.attemptAcquire();
    const held = first.attemptAcquire();
    const told = new Told();
    ticketOf(
      first,
      told.sink("evicted", () => held.dispose()),
    );
    const ticket = ticketOf(RateLimiter.createChained(first, second), told.sink("chain"));
    expect(snapshotOf(second).queuedRequests).toBe(1);
    expect(ticket.cancel()).toBe(true);
    expect([snapshotOf(second).queuedRequests, free(first)]).toEqual([0, [1]]);
    expect(told.log).toEqual(["evicted: queue_evicted"]);
  });

  it("a direct request may be told before its ticket is there (CORE-1): the ticket is then worth nothing", () => {
    const limiter = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 1,
      queueProcessingOrder: "newestFirst",
    });
    const held = limiter.attemptAcquire();
    const told = new Told();
    ticketOf(
      limiter,
      told.sink("evicted", () => held.dispose()),
    );
    const ticket = ticketOf(limiter, told.sink("newcomer"));
    expect(told.log).toEqual(["evicted: queue_evicted", "newcomer: granted"]);
    expect(ticket.cancel()).toBe(false);
  });

  it("waits for a member without a door by its promise, and gives back what comes after it was cancelled", async () => {
    const outer = new ConcurrencyLimiter({ permitLimit: 1 });
    const hidden = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const held = hidden.attemptAcquire();
    class Foreign extends NoLimiter {
      protected override acquireCore = () => hidden.acquire() as never;
    }
    const told = new Told();
    const ticket = ticketOf(RateLimiter.createChained(outer, new Foreign()), told.sink("a"));
    expect(ticket.cancel()).toBe(true);
    expect(free(outer)).toEqual([1]);
    held.dispose();
    await flush();
    expect([told.log, free(hidden)]).toEqual([[], [1]]);
  });
});

describe("a shadow through the door (C-26: it never refuses, and nobody waits)", () => {
  const shadow = () => {
    const inner = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    return { inner, limiter: shadowed(inner), told: new Told() };
  };

  it("lets everything through and counts it, as its acquire does", () => {
    const { inner, limiter, told } = shadow();
    const answers = Array.from({ length: 3 }, () => requestWith(limiter, 1, {}, told.sink("a")));
    expect(answers.map((answer) => isLease(answer) && answer.isAcquired)).toEqual([true, true, true]);
    expect(inner.getStatistics().currentQueuedCount).toBe(0);
    expect(limiter.wouldHaveWaited + limiter.wouldHaveRefused).toBe(2);
  });

  it("lets everything through as a member of a chain, where acquire goes by the door", async () => {
    const { limiter } = shadow();
    const chain = RateLimiter.createChained(limiter);
    chain.attemptAcquire();
    const waits = [watch(chain.acquire()), watch(chain.acquire())];
    await flush();
    expect(waits.map(({ state }) => state)).toEqual(["fulfilled", "fulfilled"]);
    expect(waits.map(({ value }) => value.isAcquired)).toEqual([true, true]);
  });

  it("lets everything through when its limiter has been disposed, or the count is above its limit", () => {
    const { inner, limiter, told } = shadow();
    const answers = [2, 1].map((permits, i) => {
      if (i === 1) inner.dispose();
      return requestWith(limiter, permits, {}, told.sink("a"));
    });
    expect(answers.map((answer) => isLease(answer) && answer.isAcquired)).toEqual([true, true]);
  });

  it("shows the snapshot of its limiter", () => {
    const { inner, limiter } = shadow();
    inner.attemptAcquire();
    expect(snapshotOf(limiter)).toEqual(snapshotOf(inner));
  });
});

describe("hasRoom", () => {
  it("tells whether a request of that size would find a place in the queue, the queue as it is now", () => {
    const { limiter, told } = busy({ permitLimit: 5, queueLimit: 3 });
    const door = doorOf(limiter);
    expect([0, 3, 4].map((n) => door.hasRoom(n))).toEqual([true, true, false]);
    const ticket = ticketOf(limiter, told.sink("a"), 2);
    expect([0, 1, 2].map((n) => door.hasRoom(n))).toEqual([true, true, false]);
    ticket.cancel();
    expect(door.hasRoom(3)).toBe(true);
  });
});
