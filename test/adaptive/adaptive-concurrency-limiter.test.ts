import {
  ConcurrencyLimiter,
  type LeaseOutcome,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  withLease,
} from "headgate";
import {
  AdaptiveConcurrencyLimiter,
  type AdaptiveConcurrencyLimiterOptions,
  type AdaptiveDiagnostic,
  FixedLimit,
  type Limit,
  SettableLimit,
} from "headgate/adaptive";
import { getLimiterState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { type AcquireSink, requestWith } from "../../src/internal.js";
import { CountingClock, CountingController, flush, ManualClock, watch } from "../support.js";

interface Sample {
  readonly start: number;
  readonly rtt: number;
  readonly inFlight: number;
  readonly outcome: LeaseOutcome;
  readonly running: number | undefined;
}

/** A limit that writes down what it is told. */
class RecordingLimit extends SettableLimit {
  readonly samples: Sample[] = [];
  whenSampled: (() => void) | undefined;

  override onSample(
    start: number,
    rtt: number,
    inFlight: number,
    outcome: LeaseOutcome,
    running?: number,
  ): void {
    this.samples.push({ start, rtt, inFlight, outcome, running });
    this.whenSampled?.();
  }
}

function setUp(permits: number, options: AdaptiveConcurrencyLimiterOptions = {}) {
  const clock = new CountingClock();
  const limit = new RecordingLimit(permits);
  const limiter = new AdaptiveConcurrencyLimiter({ limit, clock, ...options });
  return { clock, limit, limiter };
}

/** Takes permits that have to be there. */
function hold(limiter: RateLimiter, permits = 1): RateLimitLease {
  const lease = limiter.attemptAcquire(permits);
  expect(lease.isAcquired).toBe(true);
  return lease;
}

describe("what an adaptive limiter learns from", () => {
  it("is the time from the grant to the report, however late the lease is disposed", () => {
    const { clock, limit, limiter } = setUp(5);
    clock.advance(10);
    const lease = hold(limiter);
    clock.advance(30);
    lease.report("success");
    clock.advance(500);
    expect(limit.samples).toEqual([]);
    lease.dispose();
    expect(limit.samples).toEqual([{ start: 10, rtt: 30, inFlight: 1, outcome: "success", running: 0 }]);
  });

  it.each(["success", "failure", "dropped"] as const)("is a lease that reported %s, once", (outcome) => {
    const { limit, limiter } = setUp(5);
    const lease = hold(limiter);
    lease.report(outcome);
    lease.report("success");
    lease.report("ignored");
    lease.dispose();
    lease.dispose();
    lease.report("dropped");
    expect(limit.samples.map((sample) => sample.outcome)).toEqual([outcome]);
    const { succeeded, failed, dropped, ignored } = limiter.getStatistics();
    expect({ success: succeeded, failure: failed, dropped }[outcome]).toBe(1);
    expect(succeeded + failed + dropped + ignored).toBe(1);
  });

  it("is not a lease that reported nothing, or ignored, or was refunded", () => {
    const { limit, limiter } = setUp(5);
    const [silent, given, refunded] = [hold(limiter), hold(limiter), hold(limiter)];
    silent?.dispose();
    given?.report("ignored");
    given?.dispose();
    refunded?.report("success");
    refunded?.refund();
    expect(limit.samples).toEqual([]);
    expect(limiter.getStatistics()).toMatchObject({ ignored: 3, succeeded: 0, inFlight: 0 });
  });

  it("is not a lease for no permits, nor one that was refused", () => {
    const { limit, limiter } = setUp(1);
    const asked = hold(limiter, 0);
    const held = hold(limiter);
    const refused = limiter.attemptAcquire();
    for (const lease of [asked, refused]) {
      lease.report("success");
      lease.dispose();
    }
    expect(limit.samples).toEqual([]);
    expect(limiter.getStatistics()).toMatchObject({ succeeded: 0, ignored: 0, inFlight: 1 });
    held.dispose();
  });

  it("is told how much was in flight at the grant, and how much is left", () => {
    const { limit, limiter } = setUp(10);
    const first = hold(limiter, 2);
    const second = hold(limiter, 3);
    first.report("success");
    first.dispose();
    second.report("success");
    second.dispose();
    expect(limit.samples.map(({ inFlight, running }) => [inFlight, running])).toEqual([
      [2, 3],
      [5, 0],
    ]);
  });

  it("comes from withLease by itself", async () => {
    const { limit, limiter } = setUp(5);
    await withLease(limiter, () => Promise.resolve("done"));
    await withLease(limiter, () =>
      Promise.reject(Object.assign(new Error("late"), { name: "TimeoutError" })),
    ).catch(() => undefined);
    expect(limit.samples.map((sample) => sample.outcome)).toEqual(["success", "dropped"]);
  });

  it("refuses an outcome that it does not know, and the lease stays as it is", () => {
    const { limit, limiter } = setUp(5);
    const lease = hold(limiter);
    expect(() => lease.report("fine" as never)).toThrow(/outcome must be "success" or .*got "fine"/);
    lease.report("dropped");
    lease.dispose();
    expect(limit.samples.map((sample) => sample.outcome)).toEqual(["dropped"]);
  });
});

describe("the end of a lease", () => {
  it("gives permits back before the algorithm learns, and serves who waits after", async () => {
    const { limit, limiter } = setUp(1, { queueLimit: 5 });
    const lease = hold(limiter);
    const waiting = watch(limiter.acquire());
    const seen: unknown[] = [];
    limit.whenSampled = () => {
      const { inFlight, currentQueuedCount } = limiter.getStatistics();
      seen.push([inFlight, currentQueuedCount]);
    };
    lease.report("success");
    lease.dispose();
    await flush();
    expect(seen).toEqual([[0, 1]]);
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("serves by the limit that the sample led to", async () => {
    const { limit, limiter } = setUp(2, { queueLimit: 5 });
    const leases = [hold(limiter), hold(limiter)];
    const waiting = [watch(limiter.acquire()), watch(limiter.acquire())];
    limit.whenSampled = () => limit.setLimit(1);
    leases[0]?.report("dropped");
    leases[0]?.dispose();
    await flush();
    expect(waiting.map((one) => one.state)).toEqual(["pending", "pending"]);
    limit.whenSampled = () => limit.setLimit(3);
    leases[1]?.report("success");
    leases[1]?.dispose();
    await flush();
    expect(waiting.map((one) => one.state)).toEqual(["fulfilled", "fulfilled"]);
    expect(limiter.getStatistics()).toMatchObject({ inFlight: 2, permitLimit: 3 });
  });

  it("keeps no permit when the algorithm throws, and tells of it", async () => {
    const told: AdaptiveDiagnostic[] = [];
    const { limit, limiter } = setUp(1, {
      queueLimit: 5,
      onDiagnostic: (diagnostic) => told.push(diagnostic),
    });
    const failure = new Error("broken algorithm");
    limit.whenSampled = () => {
      throw failure;
    };
    const lease = hold(limiter);
    const waiting = watch(limiter.acquire());
    lease.report("success");
    lease.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(told).toEqual([{ kind: "limit_failed", error: failure }]);
  });

  it("goes on when whoever is told of errors throws too, and when nobody is told", () => {
    for (const onDiagnostic of [
      undefined,
      () => {
        throw new Error("no better");
      },
    ]) {
      const { limit, limiter } = setUp(1, { onDiagnostic });
      limit.whenSampled = () => {
        throw new Error("broken algorithm");
      };
      const lease = hold(limiter);
      lease.report("success");
      lease.dispose();
      expect(limiter.getStatistics().inFlight).toBe(0);
    }
  });

  it("may come inside of a sample, and an acquire too", () => {
    const { limit, limiter } = setUp(3);
    const [first, second] = [hold(limiter), hold(limiter)];
    let inner: RateLimitLease | undefined;
    limit.whenSampled = () => {
      limit.whenSampled = undefined;
      second?.report("success");
      second?.dispose();
      inner = limiter.attemptAcquire(2);
    };
    first?.report("success");
    first?.dispose();
    expect(inner?.isAcquired).toBe(true);
    expect(limiter.getStatistics()).toMatchObject({ inFlight: 2, currentAvailablePermits: 1 });
    inner?.dispose();
    expect(limiter.getStatistics()).toMatchObject({ inFlight: 0, currentAvailablePermits: 3 });
  });

  it("works after the limiter was disposed", () => {
    const { limit, limiter } = setUp(2);
    const lease = hold(limiter);
    lease.report("success");
    limiter.dispose();
    lease.dispose();
    expect(limit.samples.length).toBe(1);
  });
});

describe("a limit that moves", () => {
  it("serves as many as fit when it rises, without a release", async () => {
    const { limit, limiter } = setUp(1, { queueLimit: 10 });
    hold(limiter);
    const waiting = Array.from({ length: 4 }, () => watch(limiter.acquire()));
    limit.setLimit(4);
    await flush();
    expect(waiting.map((one) => one.state)).toEqual(["fulfilled", "fulfilled", "fulfilled", "pending"]);
    expect(limiter.permitLimit).toBe(4);
  });

  it("takes nothing away and refuses nobody who waits when it falls", async () => {
    const { limit, limiter } = setUp(4, { queueLimit: 10 });
    const leases = Array.from({ length: 4 }, () => hold(limiter));
    const waiting = watch(limiter.acquire(3));
    limit.setLimit(2);
    await flush();
    expect(waiting.state).toBe("pending");
    expect(limiter.getStatistics()).toMatchObject({
      inFlight: 4,
      permitLimit: 2,
      currentAvailablePermits: 0,
    });
    for (const lease of leases.slice(1)) lease.dispose();
    await flush();
    expect(waiting.state).toBe("pending");
    leases[0]?.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(limiter.getStatistics()).toMatchObject({
      inFlight: 3,
      permitLimit: 2,
      currentAvailablePermits: 0,
    });
  });

  it("gives a request that is larger than it what it wants once nothing is in flight, with or without a queue", () => {
    const { limit, limiter } = setUp(10);
    limit.setLimit(2);
    const small = hold(limiter);
    expect(limiter.attemptAcquire(5).reason).toBe("limit_reached");
    small.dispose();
    const large = hold(limiter, 5);
    expect(limiter.attemptAcquire(1).isAcquired).toBe(false);
    large.dispose();
    expect(limiter.getStatistics()).toMatchObject({ inFlight: 0, currentAvailablePermits: 2 });
  });

  it("lets the waiters behind a large one go once that one has gone", async () => {
    const { limit, limiter } = setUp(8, { queueLimit: 20 });
    const lease = hold(limiter, 8);
    const large = watch(limiter.acquire(6));
    const small = watch(limiter.acquire(1));
    limit.setLimit(3);
    lease.dispose();
    await flush();
    expect(large.value.isAcquired).toBe(true);
    expect(small.state).toBe("pending");
    large.value.dispose();
    await flush();
    expect(small.value.isAcquired).toBe(true);
  });

  it("admits nobody at 0, not even when nothing is in flight", async () => {
    const { limit, limiter } = setUp(1, { queueLimit: 5 });
    limit.setLimit(0);
    expect(limiter.attemptAcquire().reason).toBe("limit_reached");
    const waiting = watch(limiter.acquire());
    await flush();
    expect(waiting.state).toBe("pending");
    limit.setLimit(1);
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 2.5, "7"])("is not followed to %s", (wrong) => {
    const told: AdaptiveDiagnostic[] = [];
    let limit: unknown = 3;
    const listeners: (() => void)[] = [];
    const custom: Limit = {
      get limit() {
        return limit as number;
      },
      onSample: () => undefined,
      onChange: (listener) => {
        listeners.push(() => listener(0, 0));
        return () => undefined;
      },
    };
    const limiter = new AdaptiveConcurrencyLimiter({ limit: custom, onDiagnostic: (one) => told.push(one) });
    limit = wrong;
    for (const tell of listeners) tell();
    expect(limiter.permitLimit).toBe(3);
    expect(told).toEqual([
      { kind: "limit_failed", error: expect.any(typeof wrong === "number" ? RangeError : TypeError) },
    ]);
    limit = 5;
    for (const tell of listeners) tell();
    expect(limiter.getStatistics()).toMatchObject({ permitLimit: 5, currentAvailablePermits: 5 });
  });

  it("is followed after a sample even when the algorithm tells no listener", () => {
    let limit = 3;
    const custom: Limit = {
      get limit() {
        return limit;
      },
      onSample: () => {
        limit += 1;
      },
      onChange: () => () => undefined,
    };
    const limiter = new AdaptiveConcurrencyLimiter({ limit: custom });
    const lease = hold(limiter);
    lease.report("success");
    lease.dispose();
    expect(limiter.permitLimit).toBe(4);
  });

  it("is not listened to any more after dispose", () => {
    const { limit, limiter } = setUp(3);
    limiter.dispose();
    limit.setLimit(9);
    expect(limiter.permitLimit).toBe(3);
  });

  it("may be shared by limiters, which all follow it", () => {
    const limit = new SettableLimit(1);
    const limiters = [1, 2, 3].map(() => new AdaptiveConcurrencyLimiter({ limit }));
    limit.setLimit(2);
    expect(limiters.map((limiter) => limiter.getStatistics().currentAvailablePermits)).toEqual([2, 2, 2]);
  });
});

describe("shares", () => {
  const shares = { live: 0.7, batch: 0.3 };

  it("let one kind of work use what is free, and keep the other's part for it", () => {
    const { limiter } = setUp(10, { shares });
    const [live, batch] = [limiter.forShare("live"), limiter.forShare("batch")];
    for (let i = 0; i < 10; i++) hold(batch);
    expect(batch.attemptAcquire().reason).toBe("share_exceeded");
    for (let i = 0; i < 7; i++) hold(live);
    expect(live.attemptAcquire().reason).toBe("share_exceeded");
    expect(limiter.attemptAcquire().reason).toBe("share_exceeded");
    expect(limiter.getStatistics()).toMatchObject({
      inFlight: 17,
      totalSuccessfulLeases: 17,
      totalFailedLeases: 3,
    });
  });

  it("by the hard rule never let more in flight than the limit, and keep free what others may still use", () => {
    const { limiter } = setUp(10, { shares: { live: 0.5, batch: 0.3 }, shareRule: "hard" });
    const [live, batch] = [limiter.forShare("live"), limiter.forShare("batch")];
    const leases: RateLimitLease[] = [];
    while (batch.attemptAcquire().isAcquired) leases.push(batch.attemptAcquire(0));
    // Its own 3, and the 2 that nobody can count on.
    expect(limiter.getStatistics().inFlight).toBe(5);
    for (let i = 0; i < 5; i++) hold(live);
    expect(live.attemptAcquire().reason).toBe("share_exceeded");
    expect(limiter.getStatistics().inFlight).toBe(10);
  });

  it("have queues of their own: who waits blocks only their like, and who has waited longest goes first", async () => {
    const { limiter } = setUp(4, { shares: { live: 0.5, batch: 0.5 }, queueLimit: 5 });
    const [live, batch] = [limiter.forShare("live"), limiter.forShare("batch")];
    const held = Array.from({ length: 4 }, () => hold(batch));
    const heldLive = [hold(live), hold(live)];
    const waitingBatch = watch(batch.acquire(2));
    const waitingLive = watch(live.acquire());
    heldLive[0]?.dispose();
    await flush();
    expect([waitingBatch.state, waitingLive.state]).toEqual(["pending", "fulfilled"]);
    for (const lease of held.slice(0, 2)) lease.dispose();
    await flush();
    expect(waitingBatch.state).toBe("pending");
    held[2]?.dispose();
    await flush();
    expect(waitingBatch.state).toBe("pending");
    held[3]?.dispose();
    await flush();
    expect(waitingBatch.value.isAcquired).toBe(true);
    expect(limiter.getStatistics().inFlight).toBe(4);
  });

  it.each([
    ["oldestFirst", ["b1", "a1"]],
    ["newestFirst", ["a2", "b2"]],
  ] as const)(
    "serve what is free to all in the order %s across shares",
    async (queueProcessingOrder, expected) => {
      const { limiter } = setUp(4, { shares: { a: 0, b: 0 }, queueLimit: 5, queueProcessingOrder });
      const held = Array.from({ length: 4 }, () => hold(limiter));
      // A part is 1 at least.
      hold(limiter.forShare("a"));
      hold(limiter.forShare("b"));
      const served: string[] = [];
      for (const name of ["b1", "a1", "b2", "a2"]) {
        void limiter
          .forShare(name.slice(0, 1))
          .acquire()
          .then(() => served.push(name));
      }
      for (const lease of held) {
        lease.dispose();
        await flush();
      }
      expect(served).toEqual(expected);
    },
  );

  it("take names from traffic: any other name is that of work without a share", () => {
    const { limiter } = setUp(2, { shares: { live: 1 } });
    for (const name of ["", "nobody", "__proto__", "constructor", "unknown"]) {
      const lease = hold(limiter.forShare(name));
      expect(limiter.getStatistics().shares.get("unknown")).toMatchObject({ permitLimit: 0, inFlight: 1 });
      lease.dispose();
    }
    const { limiter: plain } = setUp(2);
    hold(plain.forShare("live"));
    expect(plain.getStatistics()).toMatchObject({ inFlight: 1, shares: new Map() });
  });

  it("may be called __proto__", () => {
    const { limiter } = setUp(10, { shares: JSON.parse('{ "__proto__": 0.5 }') });
    hold(limiter.forShare("__proto__"));
    expect(limiter.getStatistics().shares.get("__proto__")).toMatchObject({ permitLimit: 5, inFlight: 1 });
  });

  it("are partitions, if one likes, and outlive those", () => {
    const { limiter } = setUp(10, { shares });
    const partitioned = PartitionedRateLimiter.create((kind: string) =>
      RateLimitPartition.get(kind, (name) => limiter.forShare(name)),
    );
    expect(partitioned.attemptAcquire("batch").isAcquired).toBe(true);
    partitioned.dispose();
    hold(limiter.forShare("batch"));
    expect(limiter.getStatistics().shares.get("batch")?.inFlight).toBe(2);
  });

  it("pause by themselves, and together when the limiter is paused", () => {
    const { clock, limiter } = setUp(10, { shares });
    const live = limiter.forShare("live") as AdaptiveConcurrencyLimiter;
    live.pause(100);
    expect(live.attemptAcquire().reason).toBe("server_pause");
    hold(limiter.forShare("batch"));
    limiter.pause(200);
    expect(limiter.forShare("batch").attemptAcquire().retryAfterMs).toBe(200);
    clock.advance(100);
    expect(live.attemptAcquire().reason).toBe("server_pause");
    clock.advance(100);
    hold(live);
  });

  it("are idle when they hold nothing; the limiter when none does", () => {
    const { clock, limiter } = setUp(10, { shares });
    const live = limiter.forShare("live");
    const lease = hold(live);
    expect(limiter.forShare("batch").idleDurationMs).toBe(0);
    expect(live.idleDurationMs).toBeUndefined();
    expect(limiter.idleDurationMs).toBeUndefined();
    lease.dispose();
    expect(live.idleDurationMs).toBe(0);
    clock.advance(50);
    expect(live.idleDurationMs).toBe(50);
    expect(limiter.forShare("batch").idleDurationMs).toBe(50);
    hold(limiter);
    expect(limiter.idleDurationMs).toBeUndefined();
    expect(limiter.forShare("batch").idleDurationMs).toBe(50);
  });

  it("are seen together by whoever looks at the limiter", async () => {
    const { limiter } = setUp(2, {
      shares: { live: 0.5 },
      queueLimit: 5,
      queueProcessingOrder: "highestPriorityFirst",
    });
    hold(limiter, 2);
    hold(limiter.forShare("live"));
    const waiting = [
      watch(limiter.acquire({ priority: 1 })),
      watch(limiter.forShare("live").acquire(2, { priority: 1 })),
      watch(limiter.forShare("live").acquire(1, { priority: 3 })),
    ];
    expect(getLimiterState(limiter)).toMatchObject({
      kind: "AdaptiveConcurrencyLimiter",
      permitLimit: 2,
      queuedPermits: 4,
      queuedRequests: 3,
      totalGranted: 2,
      queuedByPriority: new Map([
        [3, 1],
        [1, 3],
      ]),
    });
    limiter.dispose();
    await flush();
    expect(waiting.map((one) => one.value.reason)).toEqual(Array(3).fill("limiter_disposed"));
  });
});

describe("refusals that are held back", () => {
  const options = { shares: { live: { share: 1, rejectDelayMs: 50 } } };

  it("come after the delay, with what they would have said at once", async () => {
    const { clock, limiter } = setUp(1, options);
    const live = limiter.forShare("live");
    hold(live);
    const refused = watch(live.acquire());
    await flush();
    expect(refused.state).toBe("pending");
    expect(limiter.getStatistics()).toMatchObject({
      delayed: 1,
      totalFailedLeases: 1,
      currentQueuedCount: 0,
    });
    clock.advance(50);
    await flush();
    expect(refused.value.reason).toBe("share_exceeded");
    expect(clock.timerCount).toBe(0);
  });

  it("come at once to an attempt, to who cannot wait, and to those above the budget", async () => {
    const { clock, limiter } = setUp(1, { ...options, maxDelayed: 1 });
    const live = limiter.forShare("live");
    hold(live);
    expect(live.attemptAcquire().isAcquired).toBe(false);
    const hurried = watch(live.acquire({ maxWaitMs: 0 }));
    const expired = watch(live.acquire({ maxWaitMs: -1 }));
    const delayed = watch(live.acquire({ maxWaitMs: 20 }));
    const tooMany = watch(live.acquire());
    await flush();
    expect([hurried, expired, delayed, tooMany].map((one) => one.state)).toEqual([
      "fulfilled",
      "fulfilled",
      "pending",
      "fulfilled",
    ]);
    clock.advance(20);
    await flush();
    expect(delayed.value.reason).toBe("share_exceeded");
  });

  it("end early when the caller leaves, and leave no listener", async () => {
    const { clock, limiter } = setUp(1, options);
    const live = limiter.forShare("live");
    hold(live);
    const controller = new CountingController();
    const refused = watch(live.acquire({ signal: controller.signal }));
    const other = watch(live.acquire({ signal: controller.signal }));
    controller.abort(new Error("gone"));
    await flush();
    expect([refused.reason, other.reason]).toEqual([new Error("gone"), new Error("gone")]);
    expect(controller.listeners).toBe(0);
    expect(clock.timerCount).toBe(0);
    expect(limiter.getStatistics().delayed).toBe(0);
  });

  it("end when the limiter is disposed", async () => {
    const { clock, limiter } = setUp(1, options);
    const live = limiter.forShare("live");
    hold(live);
    const refused = watch(live.acquire());
    limiter.dispose();
    await flush();
    expect(refused.value.reason).toBe("share_exceeded");
    expect(clock.timerCount).toBe(0);
  });

  it("are not taken for more when the caller cancels through a chain", async () => {
    const { clock, limiter } = setUp(1, options);
    const chain = RateLimiter.createChained(
      new ConcurrencyLimiter({ permitLimit: 1 }),
      limiter.forShare("live"),
    );
    hold(limiter.forShare("live"));
    const controller = new AbortController();
    const refused = watch(chain.acquire({ signal: controller.signal }));
    await flush();
    expect(refused.state).toBe("pending");
    clock.advance(50);
    await flush();
    expect(refused.value.reason).toBe("share_exceeded");
    expect(chain.getStatistics()?.currentAvailablePermits).toBe(0);
  });
});

describe("the way around an adaptive limiter", () => {
  it("is open when nothing is free, counts, and holds nothing", async () => {
    const { limit, limiter } = setUp(1);
    hold(limiter);
    const bypass = limiter.forBypass();
    const leases = [bypass.attemptAcquire(), await bypass.acquire(5)];
    for (const lease of leases) {
      expect(lease.isAcquired).toBe(true);
      lease.report("dropped");
      lease.dispose();
    }
    expect(limiter.getStatistics()).toMatchObject({
      bypassed: 2,
      inFlight: 1,
      dropped: 0,
      totalFailedLeases: 0,
    });
    expect(limit.samples).toEqual([]);
    bypass.dispose();
    expect(limiter.forBypass()).toBe(bypass);
    expect(bypass.attemptAcquire().isAcquired).toBe(true);
  });

  it("is closed with the limiter", () => {
    const { limiter } = setUp(1);
    const bypass = limiter.forBypass();
    limiter.dispose();
    expect(() => bypass.attemptAcquire()).toThrow(/AdaptiveConcurrencyLimiter has been disposed/);
  });
});

describe("what an adaptive limiter costs", () => {
  it("is one clock read for a lease, a second for one that reports, none for a refusal, and no timer", () => {
    const { clock, limiter } = setUp(1);
    clock.reads = 0;
    hold(limiter).dispose();
    expect(clock.reads).toBe(1);
    const lease = hold(limiter);
    lease.report("success");
    lease.dispose();
    expect(clock.reads).toBe(3);
    hold(limiter);
    limiter.attemptAcquire();
    clock.reads = 0;
    const refusals = new Set(Array.from({ length: 100 }, () => limiter.attemptAcquire()));
    expect(refusals.size).toBe(1);
    expect(clock.reads).toBe(0);
    expect(clock.timersSet).toBe(0);
  });
});

describe("the options of an adaptive limiter", () => {
  it("may all be left out", () => {
    const limiter = new AdaptiveConcurrencyLimiter();
    expect(limiter.permitLimit).toBe(20);
    expect(limiter.limit.maxLimit).toBe(1000);
    expect(limiter.limit.describe?.().algorithm).toBeTypeOf("string");
  });

  it("set the bounds of the default algorithm", () => {
    const limiter = new AdaptiveConcurrencyLimiter({ initialLimit: 50, minLimit: 10, maxLimit: 80 });
    expect(limiter.permitLimit).toBe(50);
    expect(() => limiter.attemptAcquire(81)).toThrow(/permitCount 81 is more permits than the limit of 80/);
  });

  const limit = new FixedLimit(1);
  it.each([
    [{ limits: 1 }, TypeError, /options.limits is not an option; did you mean options.limit\?/],
    [{ limit: 5 }, TypeError, /options.limit must be an object with onSample\(\) and onChange\(\); got 5/],
    [
      { limit: { limit: Number.NaN, onSample() {}, onChange() {} } },
      RangeError,
      /options.limit.limit must be/,
    ],
    [{ limit, initialLimit: 5 }, TypeError, /options.initialLimit must be left out when limit is given/],
    [{ random: 0.5 }, TypeError, /options.random must be a function/],
    [{ limit, random: () => 0.5 }, TypeError, /options.random must be left out when limit is given/],
    [{ initialLimit: 0 }, RangeError, /options.initialLimit must be/],
    [{ minLimit: 50, maxLimit: 10 }, RangeError, /options.minLimit must be/],
    [{ shares: [0.5] }, TypeError, /options.shares must be an object of shares by name; got an array/],
    [{ shares: { unknown: 0.5 } }, RangeError, /options.shares\["unknown"\] must have another name/],
    [{ shares: { a: 1.5 } }, RangeError, /options.shares\["a"\].share must be a number from 0 to 1; got 1.5/],
    [{ shares: { a: Number.NaN } }, RangeError, /options.shares\["a"\].share must be/],
    [
      { shares: { a: "0.5" } },
      TypeError,
      /options.shares\["a"\] must be a number from 0 to 1, or an object; got "0.5"/,
    ],
    [{ shares: { a: { part: 1 } } }, TypeError, /options.shares\["a"\].part is not an option/],
    [{ shares: { a: 0.6, b: 0.5 } }, RangeError, /The sum of options.shares must be 1 at most; got 1.1/],
    [
      { shares: { a: { share: 1, rejectDelayMs: -1 } } },
      RangeError,
      /options.shares\["a"\].rejectDelayMs must be/,
    ],
    [{ shareRule: "strict" }, TypeError, /options.shareRule must be "soft" or "hard"; got "strict"/],
    [{ maxDelayed: -1 }, RangeError, /options.maxDelayed must be/],
    [{ onDiagnostic: true }, TypeError, /options.onDiagnostic must be a function/],
    [{ queueLimit: -1 }, RangeError, /options.queueLimit must be/],
    [
      { codel: {}, queueProcessingOrder: "newestFirst" },
      TypeError,
      /options.queueProcessingOrder must be "oldestFirst"/,
    ],
    [null, TypeError, /options must be an object/],
  ])("are refused when they are %o", (options, kind, message) => {
    const make = () => new AdaptiveConcurrencyLimiter(options as AdaptiveConcurrencyLimiterOptions);
    expect(make).toThrow(kind);
    expect(make).toThrow(message);
  });

  it("accept shares whose sum is 1 but for rounding", () => {
    expect(() => new AdaptiveConcurrencyLimiter({ shares: { a: 0.1, b: 0.2, c: 0.7 } })).not.toThrow();
  });
});

describe("an adaptive limiter in a chain", () => {
  it("is given back as ignored when a later limiter refuses", () => {
    const clock = new ManualClock();
    const limit = new RecordingLimit(5);
    const limiter = new AdaptiveConcurrencyLimiter({ limit, clock });
    const other = new ConcurrencyLimiter({ permitLimit: 1 });
    const chain = RateLimiter.createChained(limiter, other);
    other.attemptAcquire();
    expect(chain.attemptAcquire().isAcquired).toBe(false);
    expect(limiter.getStatistics()).toMatchObject({ ignored: 1, inFlight: 0 });
    expect(limit.samples).toEqual([]);
  });
});

describe("what a review found: an adaptive limiter", () => {
  it("grants a newcomer what would have fitted before the limit fell, and no more, when nothing is held", () => {
    const { limit, limiter } = setUp(10);
    expect(limiter.attemptAcquire(11).reason).toBe("limit_reached");
    limit.setLimit(4);
    expect(limiter.attemptAcquire(11).reason).toBe("limit_reached");
    hold(limiter, 10);
  });

  it("grants whoever waits first what they want when nothing is held, however much", async () => {
    const { limiter } = setUp(4, { queueLimit: 100 });
    const lease = hold(limiter);
    const waiting = watch(limiter.acquire(50));
    lease.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    waiting.value.dispose();
    const alone = watch(limiter.acquire(50));
    await flush();
    expect(alone.value.isAcquired).toBe(true);
  });

  it("lets others not keep a share out for ever, whose first waiter wants more than the limit", async () => {
    const { limit, limiter } = setUp(10, { shares: { a: 0.5, b: 0.5 }, queueLimit: 20 });
    const [a, b] = [limiter.forShare("a"), limiter.forShare("b")];
    const held = hold(b);
    const [holding, heavy, light] = [hold(a, 5), watch(a.acquire(8)), watch(a.acquire(1))];
    limit.setLimit(6);
    holding.dispose();
    await flush();
    expect(heavy.value.isAcquired).toBe(true);
    expect(light.state).toBe("pending");
    heavy.value.dispose();
    await flush();
    expect(light.value.isAcquired).toBe(true);
    held.dispose();
  });

  it("keeps the parts of others free by the hard rule, also when nothing is held", () => {
    const { limiter } = setUp(10, { shares: { a: 0.7, b: 0.3 }, shareRule: "hard" });
    expect(limiter.attemptAcquire(10).reason).toBe("share_exceeded");
    expect(limiter.attemptAcquire(1).reason).toBe("share_exceeded");
    hold(limiter.forShare("a"), 7);
    hold(limiter.forShare("b"), 3);
  });

  it("has no permits for shares either while its limit is 0", () => {
    const { limit, limiter } = setUp(5, { shares: { a: 0.5 } });
    limit.setLimit(0);
    expect(limiter.forShare("a").attemptAcquire().isAcquired).toBe(false);
    expect(limiter.getStatistics().shares.get("a")?.permitLimit).toBe(0);
  });

  it("tells nobody before those of all shares have been served who can be", async () => {
    const { limit, limiter } = setUp(2, { shares: { a: 0, b: 0 }, queueLimit: 5 });
    hold(limiter, 2);
    const [a, b] = [limiter.forShare("a"), limiter.forShare("b")];
    hold(a);
    hold(b);
    const told: string[] = [];
    const sink = (name: string, act: () => void): AcquireSink => ({
      settled: (lease) => {
        told.push(`${name} ${lease.isAcquired}`);
        act();
      },
      failed: () => told.push(`${name} failed`),
    });
    const greedy = () => told.push(`greedy ${limiter.attemptAcquire().isAcquired}`);
    requestWith(a, 1, {}, sink("a", greedy));
    requestWith(
      b,
      1,
      {},
      sink("b", () => undefined),
    );
    limit.setLimit(6);
    expect(told).toEqual(["a true", "greedy false", "b true"]);
  });

  it("serves whoever has waited longest of all shares when a pause of all ends", async () => {
    const { clock, limiter } = setUp(3, { shares: { a: 0, b: 0 }, queueLimit: 5 });
    hold(limiter.forShare("a"));
    hold(limiter.forShare("b"));
    limiter.pause(100);
    const older = watch(limiter.forShare("b").acquire());
    const younger = watch(limiter.forShare("a").acquire());
    // The timers are late, and it is the younger one's share that is asked first.
    clock.set(100);
    expect(limiter.forShare("a").attemptAcquire().isAcquired).toBe(false);
    await flush();
    expect([older.state, younger.state]).toEqual(["fulfilled", "pending"]);
  });

  it("shows one moment in its statistics, also when a pause has just ended", () => {
    const { clock, limiter } = setUp(2, { queueLimit: 5 });
    limiter.pause(100);
    void limiter.acquire();
    clock.set(150);
    const { inFlight, currentAvailablePermits, currentQueuedCount } = limiter.getStatistics();
    expect({ inFlight, currentAvailablePermits, currentQueuedCount }).toEqual({
      inFlight: 1,
      currentAvailablePermits: 1,
      currentQueuedCount: 0,
    });
  });

  it("ends all waits when it is disposed, whatever its algorithm does then", async () => {
    const told: AdaptiveDiagnostic[] = [];
    const onChange = () => () => {
      throw new Error("cannot leave");
    };
    const limiter = new AdaptiveConcurrencyLimiter({
      limit: { limit: 1, onSample() {}, onChange },
      queueLimit: 5,
      onDiagnostic: (one) => told.push(one),
    });
    hold(limiter);
    const waiting = watch(limiter.acquire());
    limiter.dispose();
    limiter.dispose();
    await flush();
    expect(waiting.value.reason).toBe("limiter_disposed");
    expect(told).toEqual([{ kind: "limit_failed", error: new Error("cannot leave") }]);
    expect(() => limiter.attemptAcquire()).toThrow(/has been disposed/);
  });

  it("serves who waits when the limit cannot be read", async () => {
    let isBroken = false;
    const told: AdaptiveDiagnostic[] = [];
    const limiter = new AdaptiveConcurrencyLimiter({
      limit: {
        get limit() {
          if (isBroken) throw new Error("no limit today");
          return 1;
        },
        onSample() {},
        onChange: () => () => undefined,
      },
      queueLimit: 5,
      onDiagnostic: (one) => told.push(one),
    });
    const lease = hold(limiter);
    const waiting = watch(limiter.acquire());
    isBroken = true;
    lease.report("success");
    lease.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(told).toEqual([{ kind: "limit_failed", error: new Error("no limit today") }]);
  });

  it.each([
    [
      { limit: { limit: 1, onSample() {}, onChange() {} } },
      TypeError,
      /the result of options.limit.onChange\(\) must be/,
    ],
    [
      { limit: { limit: 1, maxLimit: Number.NaN, onSample() {}, onChange() {} } },
      RangeError,
      /options.limit.maxLimit/,
    ],
    [
      { limit: { limit: 1, maxLimit: "5", onSample() {}, onChange() {} } },
      TypeError,
      /options.limit.maxLimit/,
    ],
    [{ shares: new Map([["live", 0.7]]) }, TypeError, /options.shares must be an object of shares by name/],
    [{ shares: null }, TypeError, /options.shares must be an object of shares by name; got null/],
  ])("refuses %o", (options, kind, message) => {
    const make = () => new AdaptiveConcurrencyLimiter(options as never);
    expect(make).toThrow(kind);
    expect(make).toThrow(message);
  });

  it("lets nobody past their deadline through its bypass, and shows nothing of it after dispose", async () => {
    const { limiter } = setUp(1);
    const bypass = limiter.forBypass();
    expect((await bypass.acquire({ maxWaitMs: -1 })).reason).toBe("deadline_expired");
    expect(limiter.getStatistics().bypassed).toBe(0);
    limiter.dispose();
    expect(() => bypass.getStatistics()).toThrow(/has been disposed/);
  });
});
