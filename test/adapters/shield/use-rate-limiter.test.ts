import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  LimiterDisposedError,
  MetadataName,
  PartitionedRateLimiter,
  RateLimiter,
  RateLimitPartition,
  RateLimitRejectedError,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import {
  PartitionedShield,
  type RateLimiterRejectedEvent,
  Shield,
  type ShieldContext,
  ShieldKey,
  ShieldKeys,
  type ShieldStrategy,
  shieldDiagnostics,
} from "headgate/shield";
import { getShieldState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import {
  failure,
  flush,
  gate,
  granted,
  ManualClock,
  RETRY_AFTER,
  Reports,
  refused,
  StubLimiter,
  StubPartitionedLimiter,
  type TrackingLease,
  thrown,
  watch,
} from "./support.js";

const tenant = new ShieldKey<string>("tenant");

describe("a limiter in a shield", () => {
  it("tells the hook, waits for it, and only then fails", async () => {
    const limiter = new FixedWindowRateLimiter({
      permitLimit: 1,
      windowMs: 60_000,
      clock: new ManualClock(),
    });
    const steps: string[] = [];
    const hook = gate();
    const events: RateLimiterRejectedEvent[] = [];
    const shield = Shield.empty.withName("fixed-window").useRateLimiter(limiter, {
      onRejected: async (event) => {
        // The limiter has counted it before.
        steps.push(`hook, ${limiter.getStatistics().totalFailedLeases} refused`);
        events.push(event);
        await hook.promise;
        steps.push("hook done");
      },
    });
    expect(await shield.execute(() => 1)).toBe(1);
    const second = shield.execute(() => 2);
    second.catch(() => steps.push("rejected"));
    await flush();
    expect(steps).toEqual(["hook, 1 refused"]);
    hook.open();
    const error = await failure(second);
    expect(steps).toEqual(["hook, 1 refused", "hook done", "rejected"]);
    expect(error).toBeInstanceOf(RateLimitRejectedError);
    expect(error).toMatchObject({
      name: "RateLimitRejectedError",
      code: "ERR_RATE_LIMIT_REJECTED",
      reason: "limit_reached",
      retryAfterMs: 60_000,
      strategyIndex: 0,
      strategyName: undefined,
      shieldName: "fixed-window",
    });
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({
      reason: "limit_reached",
      retryAfterMs: 60_000,
      permitCount: 1,
      strategyIndex: 0,
      shieldName: "fixed-window",
      isShadow: false,
    });
    expect(events[0]?.metadata.get(RETRY_AFTER)).toBe(60_000);
    expect(events[0]?.metadata).toBe((error as RateLimitRejectedError).metadata);
  });

  it.each<[string, () => RateLimiter]>([
    [
      "a sliding window",
      () =>
        new SlidingWindowRateLimiter({
          permitLimit: 1,
          windowMs: 60_000,
          segmentsPerWindow: 2,
          clock: new ManualClock(),
        }),
    ],
    [
      "a token bucket",
      () =>
        new TokenBucketRateLimiter({
          tokenLimit: 1,
          tokensPerPeriod: 1,
          replenishmentPeriodMs: 60_000,
          clock: new ManualClock(),
        }),
    ],
    [
      "a chain of two windows",
      () =>
        RateLimiter.createChained(
          new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 60_000, clock: new ManualClock() }),
          new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 60_000, clock: new ManualClock() }),
        ),
    ],
  ])("%s goes the same way", async (_, make) => {
    const shield = Shield.empty.useRateLimiter(make());
    expect(await shield.execute(() => 1)).toBe(1);
    expect(RateLimitRejectedError.is(await failure(shield.execute(() => 2)))).toBe(true);
  });

  it("a call that is given up in the queue is cancelled, not refused, and leaves its place", async () => {
    let hooks = 0;
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const shield = Shield.empty.useRateLimiter(limiter, {
      onRejected: () => {
        hooks += 1;
      },
    });
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    const leaving = new AbortController();
    const b = watch(shield.execute(() => 2, { signal: leaving.signal }));
    await flush();
    expect(b.state).toBe("pending");
    const reason = new Error("leaving");
    leaving.abort(reason);
    const c = shield.execute(() => 3);
    open.open(1);
    expect([await a, await c]).toEqual([1, 3]);
    expect([b.state, b.reason, hooks]).toEqual(["rejected", reason, 0]);
  });

  it("a partitioned limiter is asked with the context of the call, and shared by the shields that use it", async () => {
    const limiter = PartitionedRateLimiter.create((context: ShieldContext) =>
      RateLimitPartition.getConcurrencyLimiter(context.get(tenant, "none"), () => ({ permitLimit: 1 })),
    );
    await using shields = new PartitionedShield((_key: string) => Shield.empty.useRateLimiter(limiter));
    const open = gate<number>();
    const run = (name: string, work: () => number | Promise<number>) =>
      shields.get("x").execute(work, { context: [tenant.of(name)] });
    const alpha = run("alpha", () => open.promise);
    expect(RateLimitRejectedError.is(await failure(run("alpha", () => 2)))).toBe(true);
    expect(await run("beta", () => 3)).toBe(3);
    const other = Shield.empty.useRateLimiter(limiter);
    expect(
      RateLimitRejectedError.is(await failure(other.execute(() => 4, { context: [tenant.of("alpha")] }))),
    ).toBe(true);
    open.open(1);
    expect(await alpha).toBe(1);
    expect(shields.size).toBe(1);
    await limiter.disposeAsync();
  });

  it("starts in the same turn behind a partitioned limiter, too", async () => {
    await using limiter = PartitionedRateLimiter.create((context: ShieldContext) =>
      RateLimitPartition.getConcurrencyLimiter(context.get(tenant, "none"), () => ({ permitLimit: 1 })),
    );
    let started = false;
    const call = Shield.empty.useRateLimiter(limiter).execute(() => {
      started = true;
    });
    expect(started).toBe(true);
    await call;
  });

  it("a call that is given up in the queue of a partition leaves no debt", async () => {
    await using limiter = PartitionedRateLimiter.create((context: ShieldContext) =>
      RateLimitPartition.getConcurrencyLimiter(context.get(tenant, "none"), () => ({
        permitLimit: 1,
        queueLimit: 1,
      })),
    );
    const shield = Shield.empty.useRateLimiter(limiter);
    const context = [tenant.of("alpha")];
    const open = gate<number>();
    const a = shield.execute(() => open.promise, { context });
    const leaving = new AbortController();
    const b = failure(shield.execute(() => 2, { context, signal: leaving.signal }));
    leaving.abort("left");
    const c = shield.execute(() => 3, { context });
    open.open(1);
    expect([await a, await b, await c]).toEqual([1, "left", 3]);
  });

  it("hands the signal and the permit count to a partitioned limiter, and copies the metadata of its refusal", async () => {
    const lease = refused({ [RETRY_AFTER]: 5000, partition: "alpha" });
    const seen: unknown[] = [];
    const limiter = new StubPartitionedLimiter((context, permitCount, { signal }) => {
      seen.push(context.get(tenant), context.signal, signal, permitCount);
      return lease;
    });
    let event: RateLimiterRejectedEvent | undefined;
    const shield = Shield.empty.useRateLimiter(limiter, {
      permitCount: 2,
      onRejected: (one) => {
        event = one;
      },
    });
    const { signal } = new AbortController();
    const error = await failure(shield.execute(() => 1, { signal, context: [tenant.of("alpha")] }));
    expect(seen).toEqual(["alpha", signal, signal, 2]);
    expect(seen[1]).toBe(signal);
    expect(error).toMatchObject({ retryAfterMs: 5000 });
    expect(event?.metadata.get("partition")).toBe("alpha");
    expect(event?.permitCount).toBe(2);
    expect([lease.disposed, lease.readAfterDisposal]).toEqual([1, 0]);
    const copied = event?.metadata as Map<string, unknown>;
    expect(() => copied.set("partition", "beta")).toThrow(TypeError);
    expect(() => copied.delete("partition")).toThrow(TypeError);
    expect(() => copied.clear()).toThrow(TypeError);
  });

  it("a function gets the permit count, the context and how to wait, and may return a lease at once", async () => {
    const clock = new ManualClock({ startMs: 100 });
    const lease = granted();
    const seen: unknown[] = [];
    const shield = Shield.empty
      .withClock(clock)
      .withName("delegate-source")
      .useRateLimiter(
        (permitCount, context, options) => {
          seen.push(permitCount, context.shieldName, options);
          return lease;
        },
        { permitCount: 3 },
      );
    const { signal } = new AbortController();
    let hasStarted = false;
    const result = shield.execute(
      () => {
        hasStarted = true;
        return 42;
      },
      { signal, context: [ShieldKeys.priority.of(5), ShieldKeys.deadline.of(350)] },
    );
    expect(hasStarted).toBe(true);
    expect(await result).toBe(42);
    expect(seen).toEqual([3, "delegate-source", { signal, priority: 5, maxWaitMs: 250 }]);
    expect(lease.disposed).toBe(1);
  });

  const leaseLike = { isAcquired: true, dispose() {}, report() {}, adjust() {}, getAllMetadata: () => [] };

  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["a number", 1],
    ["an object that is no lease", {}],
    ["a promise of no lease", Promise.resolve({})],
    ["a promise of nothing", Promise.resolve()],
    ["a lease that cannot be refunded", leaseLike],
    ["a promise of a lease that cannot be refunded", Promise.resolve(leaseLike)],
  ])("a limiter or function that answers with %s is told what it must answer with", async (_, answer) => {
    const [foreign, delegate] = await Promise.all([
      failure(Shield.empty.useRateLimiter(new StubLimiter(() => answer as never)).execute(() => 1)),
      failure(Shield.empty.useRateLimiter(() => answer as never).execute(() => 1)),
    ]);
    expect(foreign).toBeInstanceOf(TypeError);
    const message =
      /^What RateLimiter\((limiter|delegate), permits 1\) answers with must be a RateLimitLease/;
    for (const error of [foreign, delegate] as TypeError[]) expect(error.message).toMatch(message);
    if (answer === leaseLike) expect((foreign as TypeError).message).toMatch(/with refund\(\) and all else/);
  });

  it("takes the lease of another copy of this library", async () => {
    const refund = () => {};
    for (const answer of [{ ...leaseLike, refund }, Promise.resolve({ ...leaseLike, refund })]) {
      expect(await Shield.empty.useRateLimiter(() => answer as never).execute(() => 1)).toBe(1);
    }
  });

  it("asks a limiter once for each call, never by an attempt", async () => {
    const limiter = new StubLimiter(() => granted());
    const shield = Shield.empty.useRateLimiter(limiter);
    const { signal } = new AbortController();
    await shield.execute(() => 1, signal);
    expect([limiter.asked, limiter.attempted, limiter.lastOptions?.signal]).toEqual([1, 0, signal]);
  });

  it("charges the first limiter of a chain once when the call waits for the second", async () => {
    const window = new FixedWindowRateLimiter({
      permitLimit: 10,
      windowMs: 60_000,
      clock: new ManualClock(),
    });
    const shield = Shield.empty.useRateLimiter(
      RateLimiter.createChained(window, new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 })),
    );
    const open = gate();
    const a = shield.execute(() => open.promise);
    const b = shield.execute(() => 2);
    open.open();
    await a;
    expect(await b).toBe(2);
    expect(window.getStatistics().currentAvailablePermits).toBe(8);
  });

  it("holds the lease until the work has ended, and disposes it once", async () => {
    const lease = granted();
    const open = gate();
    const call = Shield.empty.useRateLimiter(new StubLimiter(() => lease)).execute(() => open.promise);
    await flush();
    expect(lease.disposed).toBe(0);
    open.open();
    await call;
    expect([lease.disposed, lease.outcomes]).toEqual([1, ["success"]]);
  });

  it.each<[string, () => unknown, string]>([
    [
      "throws",
      () => {
        throw new Error("x");
      },
      "failure",
    ],
    ["rejects", () => Promise.reject(new Error("x")), "failure"],
    ["rejects with a refusal", () => Promise.reject(new RateLimitRejectedError()), "dropped"],
    ["rejects with a time-out", () => Promise.reject(new DOMException("x", "TimeoutError")), "dropped"],
  ])("disposes it once when the work %s, and tells it %s", async (_, work, outcome) => {
    const lease = granted();
    await failure(Shield.empty.useRateLimiter(new StubLimiter(() => lease)).execute(work));
    expect([lease.disposed, lease.outcomes]).toEqual([1, [outcome]]);
  });

  it("tells a lease nothing of work that fails because its caller left", async () => {
    const lease = granted();
    const leaving = new AbortController();
    const call = Shield.empty.useRateLimiter(new StubLimiter(() => lease)).execute(({ signal }) => {
      leaving.abort("left");
      throw signal.reason;
    }, leaving.signal);
    expect(await failure(call)).toBe("left");
    expect([lease.disposed, lease.outcomes]).toEqual([1, ["ignored"]]);
  });

  it("copies the metadata of a refused lease before it disposes it", async () => {
    const lease = refused({ [RETRY_AFTER]: 7000, tenant: "alpha" });
    const error = await failure(Shield.empty.useRateLimiter(new StubLimiter(() => lease)).execute(() => 1));
    expect(error).toMatchObject({ retryAfterMs: 7000 });
    expect([...(error as RateLimitRejectedError).metadata]).toEqual([
      [RETRY_AFTER, 7000],
      ["tenant", "alpha"],
    ]);
    expect([lease.disposed, lease.readAfterDisposal, lease.outcomes]).toEqual([1, 0, []]);
  });

  it.each<[string, unknown, number | undefined]>([
    ["123 s", 123_000, 123_000],
    ["0", 0, 0],
    ["nothing", undefined, undefined],
    ["a negative time", -5, undefined],
    ["NaN", Number.NaN, undefined],
    ["infinity", Number.POSITIVE_INFINITY, undefined],
    ["text", "3", undefined],
  ])("believes a lease that advises to wait %s only if that is a time", async (_, advice, expected) => {
    for (const onRejected of [undefined, () => {}]) {
      const lease = refused(advice === undefined ? {} : { [RETRY_AFTER]: advice });
      const shield = Shield.empty.useRateLimiter(new StubLimiter(() => lease), { onRejected });
      const error = (await failure(shield.execute(() => 1))) as RateLimitRejectedError;
      expect(error.retryAfterMs).toBe(expected);
      expect(error.metadata.get(RETRY_AFTER)).toBe(advice);
      expect(lease.disposed).toBe(1);
    }
  });

  it.each(["queue_timeout", "queue_evicted"])(
    "gives no advice to a call that left the queue by %s",
    async (reason) => {
      const lease = refused({ [MetadataName.rejectionReason.name]: reason, [RETRY_AFTER]: 5 });
      const error = await failure(Shield.empty.useRateLimiter(new StubLimiter(() => lease)).execute(() => 1));
      expect(error).toMatchObject({ reason, retryAfterMs: undefined });
    },
  );

  it("disposes 64 leases of 64 calls at the same time, each once", async () => {
    const leases: TrackingLease[] = [];
    const shield = Shield.empty.useRateLimiter(() => {
      const lease = granted();
      leases.push(lease);
      return Promise.resolve(lease);
    });
    const calls = Array.from({ length: 64 }, () => shield.execute(() => Promise.resolve()));
    await Promise.all(calls);
    expect(leases.map((lease) => lease.disposed)).toEqual(Array.from({ length: 64 }, () => 1));
  });
});

describe("a hook that fails", () => {
  const rejected = async (onRejected: () => void | Promise<void>, reports: Reports) => {
    const shield = Shield.empty
      .withName("orders")
      .withDiagnostics(reports.diagnostics)
      .useRateLimiter(new StubLimiter(() => refused()), { onRejected, name: "vendor" });
    return failure(shield.execute(() => 1));
  };

  it.each<[string, (error: Error) => () => void | Promise<void>]>([
    [
      "throws",
      (error) => () => {
        throw error;
      },
    ],
    [
      "rejects after a while",
      (error) => async () => {
        await flush();
        throw error;
      },
    ],
  ])("and %s is reported once, and the call is refused all the same", async (_, hook) => {
    const reports = new Reports();
    const error = new Error("hook");
    const outcome = await rejected(hook(error), reports);
    expect(RateLimitRejectedError.is(outcome)).toBe(true);
    expect(reports.events).toEqual([
      {
        kind: "rate_limiter_rejected",
        error,
        source: "RateLimiter(vendor, permits 1)",
        shieldName: "orders",
        strategyIndex: 0,
        attempt: 0,
      },
    ]);
    expect(reports.events[0]?.error).toBe(error);
    expect(Object.isFrozen(reports.events[0])).toBe(true);
  });

  it("a thenable of no promise library is awaited as well", async () => {
    const reports = new Reports();
    let resolve = () => {};
    const thenable = {};
    Reflect.set(thenable, "then", (done: () => void) => {
      resolve = done;
    });
    const call = watch(rejected(() => thenable as never, reports));
    await flush();
    expect(call.state).toBe("pending");
    resolve();
    await call.promise;
    expect(reports.events).toEqual([]);
  });

  it("tells the shield's own diagnostics first, then the others in order, past one that throws", async () => {
    const told: string[] = [];
    const note = (who: string) => () => {
      told.push(who);
      throw new Error(who);
    };
    const first = shieldDiagnostics.onCallbackError(note("first"));
    const second = shieldDiagnostics.onCallbackError(note("second"));
    const shield = Shield.empty
      .withDiagnostics({ onCallbackError: note("own") })
      .useRateLimiter(new StubLimiter(() => refused()), { onRejected: note("hook") });
    expect(RateLimitRejectedError.is(await failure(shield.execute(() => 1)))).toBe(true);
    first.dispose();
    await failure(shield.execute(() => 1));
    second.dispose();
    expect(told).toEqual(["hook", "own", "first", "second", "hook", "own", "second"]);
  });

  it("a hook that succeeds leaves the refusal as it is", async () => {
    const reports = new Reports();
    expect(RateLimitRejectedError.is(await rejected(() => {}, reports))).toBe(true);
    expect(reports.events).toEqual([]);
  });
});

describe("cancellation and the answer of a limiter", () => {
  it.each<[string, () => TrackingLease]>([
    ["a grant", granted],
    ["a refusal", refused],
  ])("cancellation comes before %s that arrives later", async (_, make) => {
    const lease = make();
    const answer = gate<TrackingLease>();
    let ran = 0;
    const shield = Shield.empty.useRateLimiter(() => answer.promise, {
      onRejected: () => {
        ran += 1;
      },
    });
    const leaving = new AbortController();
    const call = failure(
      shield.execute(() => {
        ran += 1;
      }, leaving.signal),
    );
    const reason = new Error("leaving");
    leaving.abort(reason);
    answer.open(lease);
    expect(await call).toBe(reason);
    expect([ran, lease.disposed, lease.outcomes]).toEqual([0, 1, []]);
  });

  it("refunds a grant whose work never starts", async () => {
    const clock = new ManualClock();
    const bucket = new TokenBucketRateLimiter({
      tokenLimit: 1,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 1000,
      queueLimit: 1,
      clock,
    });
    const shield = Shield.empty.useRateLimiter(bucket);
    await shield.execute(() => 1);
    const leaving = new AbortController();
    const call = failure(shield.execute(() => 2, leaving.signal));
    clock.advance(1000);
    leaving.abort("left");
    expect(await call).toBe("left");
    expect(bucket.getStatistics()?.currentAvailablePermits).toBe(1);
  });

  it("a limiter that fails after the caller has left does not hide that", async () => {
    const answer = gate<TrackingLease>();
    const leaving = new AbortController();
    const shield = Shield.empty.useRateLimiter(() => answer.promise);
    const call = failure(shield.execute(() => 1, leaving.signal));
    leaving.abort("left");
    answer.fail(new Error("limiter"));
    expect(await call).toBe("left");
    const early = Shield.empty.useRateLimiter(() => {
      throw new Error("limiter");
    });
    const aborting = new AbortController();
    const second = early.execute(() => 1, {
      signal: aborting.signal,
      context: () => aborting.abort("left early"),
    });
    expect(await failure(second)).toBe("left early");
  });

  it("an aborted signal is not asked for", async () => {
    const limiter = new StubLimiter(() => granted());
    const shield = Shield.empty.useRateLimiter(limiter);
    const leaving = new AbortController();
    const call = shield.execute(() => 1, { signal: leaving.signal, context: () => leaving.abort("left") });
    expect(await failure(call)).toBe("left");
    let asked = 0;
    const behind = Shield.empty.useRateLimiter(() => {
      asked += 1;
      return granted();
    });
    const second = new AbortController();
    expect(
      await failure(
        behind.execute(() => 1, { signal: second.signal, context: () => second.abort("left, too") }),
      ),
    ).toBe("left, too");
    expect([limiter.asked, asked]).toEqual([0, 0]);
  });

  it("an abort while the hook runs does not undo the refusal", async () => {
    const open = gate();
    const leaving = new AbortController();
    const shield = Shield.empty.useRateLimiter(new StubLimiter(() => refused()), {
      onRejected: () => open.promise,
    });
    const call = shield.execute(() => 1, leaving.signal);
    leaving.abort("left");
    open.open();
    expect(RateLimitRejectedError.is(await failure(call))).toBe(true);
  });
});

describe("a limiter or lease that fails", () => {
  const error = new Error("S");
  const disposal = new Error("D");
  let hooks = 0;
  const run = (script: () => TrackingLease | Promise<TrackingLease>, work: () => unknown = () => 42) => {
    hooks = 0;
    const options = {
      onRejected: () => {
        hooks += 1;
      },
    };
    return Shield.empty.useRateLimiter(new StubLimiter(script), options).execute(work);
  };
  const lease = (isAcquired: boolean, faults: Partial<TrackingLease>) =>
    Object.assign(isAcquired ? granted() : refused({ x: 1 }), faults);

  it.each<[string, () => TrackingLease | Promise<TrackingLease>]>([
    [
      "the request throws",
      () => {
        throw error;
      },
    ],
    ["the request rejects", () => Promise.reject(error)],
  ])("when %s, the call fails with that error, and nothing is refused", async (_, script) => {
    expect(await failure(run(script))).toBe(error);
    expect(hooks).toBe(0);
  });

  it.each<[string, TrackingLease]>([
    ["isAcquired", lease(true, { acquiredError: error })],
    ["its metadata", lease(false, { metadataError: error })],
  ])(
    "when the lease fails to tell %s, the call fails with that error and the lease is disposed once",
    async (_, one) => {
      expect(await failure(run(() => one))).toBe(error);
      expect([one.disposed, hooks]).toEqual([1, 0]);
    },
  );

  it("when disposing fails after the work has succeeded, the call fails with that error", async () => {
    const one = lease(true, { disposalError: disposal });
    expect(await failure(run(() => one))).toBe(disposal);
    expect(one.disposed).toBe(1);
  });

  it("when disposing a refused lease fails, the call fails with that error, and nobody is told of a refusal", async () => {
    const one = lease(false, { disposalError: disposal });
    expect(await failure(run(() => one))).toBe(disposal);
    expect([one.disposed, hooks]).toEqual([1, 0]);
  });

  it.each<[string, TrackingLease, () => unknown]>([
    ["isAcquired", lease(true, { acquiredError: error, disposalError: disposal }), () => 42],
    ["its metadata", lease(false, { metadataError: error, disposalError: disposal }), () => 42],
    ["work", lease(true, { disposalError: disposal }), () => Promise.reject(error)],
    [
      "work that throws",
      lease(true, { disposalError: disposal }),
      () => {
        throw error;
      },
    ],
  ])("when %s fails and disposing too, the call fails with both", async (_, one, work) => {
    const both = await failure(run(() => one, work));
    expect(both).toBeInstanceOf(AggregateError);
    expect((both as AggregateError).errors).toEqual([error, disposal]);
    expect([one.disposed, hooks]).toEqual([1, 0]);
  });

  it("disposes a lease that cannot be told the outcome", async () => {
    const one = granted();
    one.report = () => {
      throw error;
    };
    expect(await failure(run(() => one))).toBe(error);
    expect(one.disposed).toBe(1);
  });

  it("gives all leases back from the inside out, past one that fails, each once", async () => {
    const order: string[] = [];
    const named = (name: string, fails: boolean) => {
      const one = granted();
      one.dispose = () => {
        order.push(name);
        if (fails) throw new Error(name);
      };
      return new StubLimiter(() => one);
    };
    const shield = Shield.empty
      .useRateLimiter(named("outer", true))
      .useRateLimiter(named("middle", false))
      .useRateLimiter(named("inner", true));
    const both = await failure(shield.execute(() => 1));
    expect(order).toEqual(["inner", "middle", "outer"]);
    expect((both as AggregateError).errors.map((one: Error) => one.message)).toEqual(["inner", "outer"]);
  });

  it("tells outer leases how the work went, also when giving back an inner one fails", async () => {
    const outer = granted();
    const inner = lease(true, { disposalError: disposal });
    const shield = Shield.empty
      .useRateLimiter(new StubLimiter(() => outer))
      .useRateLimiter(new StubLimiter(() => inner));
    await failure(shield.execute(() => Promise.reject(new DOMException("slow", "TimeoutError"))));
    expect([inner.outcomes, outer.outcomes]).toEqual([["dropped"], ["dropped"]]);
  });

  it("tells outer leases of what an inner one has made of the call", async () => {
    const outer = granted();
    const inner = lease(true, { disposalError: disposal });
    const shield = Shield.empty
      .useRateLimiter(new StubLimiter(() => outer))
      .useRateLimiter(new StubLimiter(() => inner));
    await failure(shield.execute(() => 1));
    expect([inner.outcomes, outer.outcomes]).toEqual([["success"], ["failure"]]);
  });

  it("gives outer leases back when an inner layer refuses, and tells them so", async () => {
    const outer = granted();
    const shield = Shield.empty
      .useRateLimiter(new StubLimiter(() => outer))
      .useRateLimiter(new StubLimiter(() => refused()));
    const error = await failure(shield.execute(() => 1));
    expect(error).toMatchObject({ strategyIndex: 1 });
    expect([outer.disposed, outer.refunded, outer.outcomes]).toEqual([1, 1, ["dropped"]]);
  });
});

describe("a call whose work never starts", () => {
  /** Ten tokens, none of which comes back during the test. */
  function tokens() {
    const clock = new ManualClock();
    const options = { tokenLimit: 10, tokensPerPeriod: 1, replenishmentPeriodMs: 1000, clock };
    const bucket = new TokenBucketRateLimiter(options);
    return { bucket, left: () => bucket.getStatistics().currentAvailablePermits };
  }

  it("costs an outer limit nothing when an inner one refuses", async () => {
    const { bucket, left } = tokens();
    const shield = Shield.empty.useRateLimiter(bucket).concurrencyLimit(1);
    const open = gate();
    const holder = shield.execute(() => open.promise);
    for (let i = 0; i < 5; i++) await failure(shield.execute(() => 1));
    expect(left()).toBe(9);
    open.open();
    await holder;
    expect(left()).toBe(9);
  });

  it("costs nothing when its caller leaves in the queue of an inner limit", async () => {
    const { bucket, left } = tokens();
    const shield = Shield.empty.useRateLimiter(bucket).concurrencyLimit(1, { queueLimit: 1 });
    const open = gate();
    const holder = shield.execute(() => open.promise);
    const leaving = new AbortController();
    const call = failure(shield.execute(() => 1, leaving.signal));
    expect(left()).toBe(8);
    leaving.abort();
    await call;
    expect(left()).toBe(9);
    open.open();
    await holder;
  });

  it("costs nothing behind a layer that wraps, either, unless one of the attempts has started", async () => {
    const { bucket, left } = tokens();
    const twice: ShieldStrategy = { run: (next) => next().catch(() => next()) };
    let refusing = true;
    const inner = granted();
    const shield = Shield.empty
      .useRateLimiter(bucket)
      .use(twice)
      .useRateLimiter(() => (refusing ? refused() : inner));
    await failure(shield.execute(() => 1));
    expect(left()).toBe(10);
    refusing = false;
    const fails = () => {
      refusing = true;
      throw new Error("work");
    };
    expect(await failure(shield.execute(fails))).toMatchObject({ strategyIndex: 2 });
    expect([left(), inner.refunded]).toEqual([9, 0]);
  });

  it("costs what it costs once the work has started, however it fails", async () => {
    const { bucket, left } = tokens();
    const shield = Shield.empty.useRateLimiter(bucket);
    await failure(
      shield.execute(() => {
        throw new Error("work");
      }),
    );
    await failure(shield.execute(() => Promise.reject(new Error("work"))));
    expect(left()).toBe(8);
  });

  it("is still congestion to an adaptive limit further out", async () => {
    const clock = new ManualClock();
    const shield = Shield.empty
      .withClock(clock)
      .concurrencyLimit({ algorithm: "aimd", initialLimit: 10, samplingWindowMs: 100 })
      .useRateLimiter(() => refused());
    await failure(shield.execute(() => 1));
    clock.advance(100);
    await failure(shield.execute(() => 1));
    expect(getShieldState(shield).strategies[0]).toMatchObject({ currentLimit: 9, runningExecutions: 0 });
  });
});

describe("a disposed limiter", () => {
  it("refuses those who wait, lets running work end, and fails later calls", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const shield = Shield.empty.useRateLimiter(limiter);
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    const b = failure(shield.execute(() => 2));
    limiter.dispose();
    expect(await b).toMatchObject({ reason: "limiter_disposed", retryAfterMs: undefined });
    open.open(1);
    expect(await a).toBe(1);
    const later = await failure(shield.execute(() => 3));
    expect(later).toBeInstanceOf(LimiterDisposedError);
    expect(RateLimitRejectedError.is(later)).toBe(false);
  });

  it("cannot be put into a shield, and says what to do", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.dispose();
    const error = thrown(() => Shield.empty.useRateLimiter(limiter)) as TypeError;
    expect(error).toBeInstanceOf(TypeError);
    expect(error.message).toMatch(/the ConcurrencyLimiter has been disposed; make a new one/);
    expect(error.cause).toBeInstanceOf(LimiterDisposedError);
  });

  it("a limiter whose statistics fail for another reason is taken", () => {
    const limiter = new StubLimiter(() => granted());
    limiter.getStatistics = () => {
      throw new Error("no statistics");
    };
    expect(Shield.empty.useRateLimiter(limiter).describe()).toBe("RateLimiter(limiter, permits 1)");
  });
});

describe("useRateLimiter", () => {
  const limiter = () => new ConcurrencyLimiter({ permitLimit: 5 });

  it("is described without the names of classes", () => {
    const partitioned = PartitionedRateLimiter.create((_: ShieldContext) =>
      RateLimitPartition.getNoLimiter("all"),
    );
    expect(
      [
        Shield.empty.useRateLimiter(limiter(), { permitCount: 2 }),
        Shield.empty.useRateLimiter(partitioned),
        Shield.empty.useRateLimiter(() => granted()),
        Shield.empty.useRateLimiter(limiter(), { name: "github-api" }),
        Shield.empty.useRateLimiter(limiter(), { shadow: true }),
      ].map(String),
    ).toEqual([
      "RateLimiter(limiter, permits 2)",
      "RateLimiter(partitioned, permits 1)",
      "RateLimiter(delegate, permits 1)",
      "RateLimiter(github-api, permits 1)",
      "RateLimiter(limiter, permits 1, shadow)",
    ]);
    partitioned.dispose();
  });

  it.each<[unknown, typeof TypeError | typeof RangeError]>([
    [0, RangeError],
    [-1, RangeError],
    [1.5, RangeError],
    ["2", TypeError],
    [null, TypeError],
  ])("refuses a permit count of %s", (permitCount, type) => {
    const error = thrown(() =>
      Shield.empty.useRateLimiter(limiter(), { permitCount: permitCount as number }),
    );
    expect(error).toBeInstanceOf(type);
    expect((error as Error).message).toMatch(
      /RateLimiterAdapterOptions\.permitCount must be an integer from 1 .*; got /,
    );
  });

  it.each<[string, unknown]>([
    ["null", null],
    ["nothing", undefined],
    ["an object", { acquire() {} }],
    ["a number", 3],
  ])("refuses %s in place of a limiter", (_, source) => {
    const error = thrown(() => Shield.empty.useRateLimiter(source as RateLimiter));
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toMatch(
      /^limiter must be a RateLimiter, a PartitionedRateLimiter or a function/,
    );
  });

  it.each<[object, RegExp]>([
    [
      { permitCont: 1 },
      /RateLimiterAdapterOptions\.permitCont is not an option; did you mean .*permitCount\?/,
    ],
    [{ name: 1 }, /RateLimiterAdapterOptions\.name must be a string; got 1/],
    [{ onRejected: {} }, /RateLimiterAdapterOptions\.onRejected must be a function/],
    [{ ownsLimiter: 1 }, /RateLimiterAdapterOptions\.ownsLimiter must be true or false/],
    [{ shadow: "yes" }, /RateLimiterAdapterOptions\.shadow must be true or false/],
  ])("refuses the options %j", (options, message) => {
    expect(() => Shield.empty.useRateLimiter(limiter(), options)).toThrow(message);
  });

  it("refuses ownership of what it cannot dispose, and a shadow of what it cannot try", () => {
    const options = { ownsLimiter: true, shadow: false };
    expect(() => Shield.empty.useRateLimiter(() => granted(), options as object)).toThrow(
      /RateLimiterAdapterOptions\.ownsLimiter must be false for a function/,
    );
    expect(() => Shield.empty.useRateLimiter(() => granted(), { shadow: true } as object)).toThrow(
      /shadow must be false for a function: put the limiters behind it in shadow/,
    );
    const partitioned = new StubPartitionedLimiter(() => granted());
    expect(() => Shield.empty.useRateLimiter(partitioned, { shadow: true })).toThrow(
      /shadow must be false for a partitioned limiter/,
    );
  });

  it("refuses the same limiter twice in one chain, in one layer or in two", () => {
    const one = limiter();
    const shield = Shield.empty.useRateLimiter(one);
    expect(() => shield.use(shield)).toThrow(/in the chain twice, at positions 0 and 1/);
    expect(() => shield.rateLimit(1, 1).useRateLimiter(one)).toThrow(
      /in the chain twice, at positions 0 and 2/,
    );
  });
});

describe("a limiter in shadow", () => {
  it("lets everything through, and tells of what it would have refused", async () => {
    const events: RateLimiterRejectedEvent[] = [];
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const shield = Shield.empty.useRateLimiter(limiter, {
      shadow: true,
      onRejected: (event) => void events.push(event),
    });
    const open = gate<number>();
    const a = shield.execute(() => open.promise);
    expect(events).toEqual([]);
    expect(await shield.execute(() => 2)).toBe(2);
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ isShadow: true, reason: "limit_reached", permitCount: 1 });
    open.open(1);
    expect(await a).toBe(1);
    expect(await shield.execute(() => 3)).toBe(3);
    expect(events).toHaveLength(1);
  });

  it("tells what the limiter has thrown in place of an answer", async () => {
    const events: RateLimiterRejectedEvent[] = [];
    const shield = Shield.empty.useRateLimiter(new ConcurrencyLimiter({ permitLimit: 1 }), {
      shadow: true,
      permitCount: 2,
      onRejected: (event) => void events.push(event),
    });
    expect(await shield.execute(() => 1)).toBe(1);
    expect(events).toMatchObject([{ isShadow: true, reason: undefined, error: expect.any(RangeError) }]);
  });

  it("leaves the values of the call to its hook until that has ended, and to nobody after it", async () => {
    const seen: unknown[] = [];
    let kept: ShieldContext | undefined;
    const open = gate();
    const done = gate();
    const shield = Shield.empty.useRateLimiter(new ConcurrencyLimiter({ permitLimit: 1 }), {
      shadow: true,
      permitCount: 2,
      onRejected: async ({ context }) => {
        kept = context;
        await open.promise;
        seen.push(context.get(tenant));
        done.open();
      },
    });
    await shield.execute(() => 1, { context: [tenant.of("acme")] });
    open.open();
    await done.promise;
    await flush();
    expect(seen).toEqual(["acme"]);
    expect(() => kept?.get(tenant)).toThrow(/after its call had ended/);
  });

  it("does not tell of a call that would have waited, nor wait for the hook, nor fail with it", async () => {
    const reports = new Reports();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    const never = gate();
    let hooks = 0;
    const shield = Shield.empty.withDiagnostics(reports.diagnostics).useRateLimiter(limiter, {
      shadow: true,
      onRejected: async () => {
        hooks += 1;
        await never.promise;
      },
    });
    const open = gate();
    const a = shield.execute(() => open.promise);
    await shield.execute(() => 2);
    expect(hooks).toBe(0);
    const queued = limiter.acquire();
    await shield.execute(() => 3);
    expect(hooks).toBe(1);
    never.fail(new Error("hook"));
    open.open();
    await a;
    (await queued).dispose();
    await flush();
    expect(reports.events).toHaveLength(1);
  });
});
