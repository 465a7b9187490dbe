import * as four from "cockatiel";
import * as three from "cockatiel3";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  LimiterDisposedError,
  RateLimitRejectedError,
  TokenBucketRateLimiter,
} from "headgate";
import { limiterPolicy, retryAfterBackoff, shieldPolicy } from "headgate/cockatiel";
import {
  ConcurrencyLimitExceededError,
  RateLimitExceededError,
  type RateLimiterRejectedEvent,
  Shield,
  type ShieldContext,
  shieldDiagnostics,
} from "headgate/shield";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { CountingController } from "../../support.js";
import {
  failure,
  flush,
  gate,
  granted,
  ManualClock,
  Reports,
  refused,
  StubLimiter,
  thrown,
  watch,
} from "../shield/support.js";

const isRejection = RateLimitRejectedError.is;

// Cockatiel 3 types errors as Error; the two are the same otherwise.
describe.each([
  ["3.2.1", three as unknown as typeof four],
  ["4.0.0", four],
])("with cockatiel %s", (_, cockatiel) => {
  const { circuitBreaker, ConsecutiveBreaker, fallback, handleAll, handleType, handleWhen, noop } = cockatiel;
  const { retry, TaskCancelledError, timeout, TimeoutStrategy, wrap, bulkhead } = cockatiel;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("a limiter stands between a retry and a time-out in wrap", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const policy = wrap(
      retry(handleAll, { maxAttempts: 3 }),
      limiterPolicy(limiter),
      timeout(1000, TimeoutStrategy.Cooperative),
    );
    const attempts: number[] = [];
    const call = policy.execute(({ signal, attempt }) => {
      expect(signal.aborted).toBe(false);
      expect(limiter.getStatistics().currentAvailablePermits).toBe(0);
      attempts.push(attempt);
      if (attempts.length < 3) throw new Error("again");
      return "done" as const;
    });
    await vi.runAllTimersAsync();
    expect(await call).toBe("done");
    expect(attempts).toEqual([0, 1, 2]);
    expect(limiter.getStatistics()).toMatchObject({ currentAvailablePermits: 1, totalSuccessfulLeases: 3 });
  });

  it("a shield takes the policies of cockatiel as layers, with their signal and attempt", async () => {
    const shield = Shield.empty
      .use(retry(handleWhen(isRejection), { maxAttempts: 3, backoff: retryAfterBackoff() }))
      .rateLimit(1, 1000)
      .use(timeout(200, TimeoutStrategy.Aggressive));
    expect(await shield.execute(({ attempt }) => attempt)).toBe(0);
    const runs: number[] = [];
    const second = watch(
      shield.execute(({ attempt }) => {
        runs.push(attempt);
        return attempt;
      }),
    );
    await vi.advanceTimersByTimeAsync(999);
    expect([second.state, runs]).toEqual(["pending", []]);
    await vi.advanceTimersByTimeAsync(101);
    expect([second.value, runs]).toEqual([1, [1]]);
    // The time-out is the innermost: it is not reached in the second of waiting, but in the work.
    await vi.advanceTimersByTimeAsync(1000);
    const slow = failure(shield.execute(({ signal }) => new Promise((_, no) => (signal.onabort = no))));
    await vi.advanceTimersByTimeAsync(200);
    expect(await slow).toBeInstanceOf(TaskCancelledError);
    expect(shield.describe()).toBe("Retry → RateLimit(1/1s) → Timeout");
  });

  it("a fallback gives its value for what a limit refuses", async () => {
    const shield = Shield.empty.use(fallback(handleWhen(isRejection), "cached" as const)).concurrencyLimit(1);
    const open = gate<number>();
    const holder = shield.execute(() => open.promise);
    expect(await shield.execute(() => 2)).toBe("cached");
    open.open(1);
    expect(await holder).toBe(1);
  });

  it("a breaker that leaves refusals out stays closed however many there are", async () => {
    const breaker = circuitBreaker(
      handleWhen((error) => !isRejection(error)),
      { halfOpenAfter: 1000, breaker: new ConsecutiveBreaker(2) },
    );
    const naive = circuitBreaker(handleAll, { halfOpenAfter: 1000, breaker: new ConsecutiveBreaker(2) });
    const open = gate();
    const limit = Shield.concurrencyLimit(1);
    const holder = limit.execute(() => open.promise);
    for (let i = 0; i < 10; i++) {
      await failure(
        Shield.empty
          .use(breaker)
          .use(limit)
          .execute(() => 1),
      );
      await failure(
        Shield.empty
          .use(naive)
          .use(limit)
          .execute(() => 1),
      );
    }
    expect([breaker.state, naive.state]).toEqual([
      cockatiel.CircuitState.Closed,
      cockatiel.CircuitState.Open,
    ]);
    open.open();
    await holder;
  });

  it("an error of a policy, and one of a shield inside it, keep their identity", async () => {
    const error = new Error("x");
    const policies = [noop, bulkhead(1), retry(handleType(TypeError), { maxAttempts: 2 })];
    for (const policy of policies) {
      const shield = Shield.empty.use(policy).concurrencyLimit(1).use(noop);
      expect(await failure(shield.execute(() => Promise.reject(error)))).toBe(error);
    }
  });

  it("an abort in a pause between attempts stops the next attempt at the limit, which is not charged", async () => {
    const bucket = new TokenBucketRateLimiter({
      tokenLimit: 5,
      tokensPerPeriod: 5,
      replenishmentPeriodMs: 1e9,
    });
    const slow = retry(handleAll, {
      maxAttempts: 3,
      backoff: { next: () => ({ duration: 300, next: never }) },
    });
    const shield = Shield.empty.use(slow).useRateLimiter(bucket);
    const leaving = new AbortController();
    let runs = 0;
    const call = failure(
      shield.execute(() => {
        runs += 1;
        throw new Error("again");
      }, leaving.signal),
    );
    await vi.advanceTimersByTimeAsync(20);
    leaving.abort("left");
    await vi.advanceTimersByTimeAsync(280);
    expect(await call).toBe("left");
    expect([runs, bucket.getStatistics()?.currentAvailablePermits]).toEqual([1, 4]);
  });

  it.each(["first", "middle", "last"])("a shield works as the %s policy of wrap", async (place) => {
    const shield = Shield.concurrencyLimit(1);
    const guarded = shieldPolicy(shield);
    const policy =
      place === "first"
        ? wrap(guarded, noop)
        : place === "middle"
          ? wrap(noop, guarded, noop)
          : wrap(retry(handleType(TypeError), { maxAttempts: 1 }), guarded);
    const open = gate<number>();
    const caller = new AbortController();
    const holder = policy.execute(({ signal }) => {
      expect(signal).toBe(caller.signal);
      return open.promise;
    }, caller.signal);
    expect(await failure(policy.execute(() => 2))).toBeInstanceOf(ConcurrencyLimitExceededError);
    open.open(1);
    expect(await holder).toBe(1);
  });

  it("leaves no listener on the caller's signal after 1000 calls through a time-out and a limit", async () => {
    const caller = new CountingController();
    const limited = Shield.concurrencyLimit(1);
    await limited.execute(() => 1, caller.signal);
    expect(caller.added).toBe(0);
    const shield = Shield.empty.use(timeout(1000, TimeoutStrategy.Aggressive)).use(limited);
    for (let i = 0; i < 1000; i++) await shield.execute(() => i, caller.signal);
    // Cockatiel 3 keeps its own by weak references, so only ours can be counted: that of a wait.
    const before = caller.listeners;
    const open = gate();
    const queueing = Shield.concurrencyLimit(1, { queueLimit: 1 });
    const calls = [queueing.execute(() => open.promise), queueing.execute(() => 1, caller.signal)];
    expect(caller.listeners).toBe(before + 1);
    open.open();
    await Promise.all(calls);
    expect(caller.listeners).toBe(before);
  });

  it("the queue time-out of a limit comes before a longer time-out around it", async () => {
    const clock = new ManualClock();
    const shield = Shield.empty
      .withClock(clock)
      .use(timeout(1000, TimeoutStrategy.Aggressive))
      .concurrencyLimit(1, { queueLimit: 1, queueTimeoutMs: 250 });
    const open = gate();
    const holder = shield.execute(() => open.promise);
    const waiter = failure(shield.execute(() => 2));
    clock.advance(250);
    expect(await waiter).toMatchObject({ reason: "queue_timeout" });
    open.open();
    await holder;
  });

  it("a time-out around a limit ends the wait in its queue, as a cancellation", async () => {
    let hooks = 0;
    const shield = Shield.empty.use(timeout(1000, TimeoutStrategy.Aggressive)).concurrencyLimit(1, {
      queueLimit: 1,
      onRejected: () => {
        hooks += 1;
      },
    });
    const open = gate();
    const holder = failure(shield.execute(() => open.promise));
    const waiter = failure(shield.execute(() => 2));
    await vi.advanceTimersByTimeAsync(1000);
    expect(await waiter).toBeInstanceOf(TaskCancelledError);
    expect(await holder).toBeInstanceOf(TaskCancelledError);
    expect(hooks).toBe(0);
    open.open();
  });

  it("tells of successes, failures and refusals", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const policy = limiterPolicy(limiter);
    const told: unknown[] = [];
    const durations: number[] = [];
    policy.onSuccess(({ duration }) => {
      told.push("success");
      durations.push(duration);
    });
    policy.onFailure(({ duration, handled, reason }) => {
      told.push(["failure", handled, reason.error]);
      durations.push(duration);
    });
    const subscription = policy.onReject(({ reason }) => void told.push(["reject", reason]));
    await Promise.all([
      policy.execute(async () => {
        await new Promise((resolve) => setTimeout(resolve, 50));
      }),
      vi.advanceTimersByTimeAsync(50),
    ]);
    const error = new Error("x");
    await failure(policy.execute(() => Promise.reject(error)));
    const lease = limiter.attemptAcquire();
    const refusal = await failure(policy.execute(() => 1));
    lease.dispose();
    subscription.dispose();
    expect(told).toEqual([
      "success",
      ["failure", false, error],
      ["reject", "limit_reached"],
      ["failure", false, refusal],
    ]);
    expect(durations).toEqual([50, 0, 0]);
  });

  it("wrap shows the events of a limiter that comes first", async () => {
    const policy = wrap(limiterPolicy(new ConcurrencyLimiter({ permitLimit: 1 })), noop);
    let successes = 0;
    policy.onSuccess(() => {
      successes += 1;
    });
    await policy.execute(() => 1);
    expect(successes).toBe(1);
  });

  /** How often the work was tried until all calls of a burst have been through. */
  async function burst(
    calls: number,
    limit: Shield,
    backoff: four.IBackoffFactory<four.IRetryBackoffContext<unknown>>,
  ): Promise<{ attempts: number; tookMs: number }> {
    let attempts = 0;
    const counting: Shield = Shield.empty.use({
      run(next) {
        attempts += 1;
        return next();
      },
    });
    const polite = retry(handleType(RateLimitRejectedError), { maxAttempts: 1000, backoff });
    const shield = Shield.empty.use(polite).use(counting).use(limit);
    const start = performance.now();
    const all = Promise.all(Array.from({ length: calls }, () => shield.execute(() => performance.now())));
    await vi.advanceTimersByTimeAsync(600_000);
    return { attempts, tookMs: Math.max(...(await all)) - start };
  }

  it("a burst needs the fewest attempts that there can be: each refused call comes back once", async () => {
    const exponential = () =>
      new cockatiel.ExponentialBackoff({ initialDelay: 128, generator: cockatiel.noJitterGenerator });
    const limit = () => Shield.rateLimit(10, 1000);
    // 10 go at once, and 20 are refused once: their permits come every 100 ms.
    expect(await burst(30, limit(), retryAfterBackoff({ spacingMs: 100 }))).toEqual({
      attempts: 50,
      tookMs: 2000,
    });
    // All who are refused come back at the same moment, for one permit.
    const unspaced = await burst(30, limit(), retryAfterBackoff({ jitter: 0 }));
    expect(unspaced).toEqual({ attempts: 240, tookMs: 2000 });
    const plain = await burst(30, limit(), exponential());
    expect(plain.attempts).toBeGreaterThan(50);
    expect(plain.tookMs).toBeGreaterThan(2000);
    console.log(`30 calls at 10 per second, cockatiel: ${JSON.stringify({ spaced: 50, unspaced, plain })}`);
  });

  /** Calls at once through a retry of three, outside a rate limit of 100 per second. */
  async function flagship(calls: number, backoff: four.IBackoffFactory<four.IRetryBackoffContext<unknown>>) {
    const limit = Shield.rateLimit(100, 1000).concurrencyLimit(10, { queueLimit: 1000 });
    const shield = Shield.empty.use(retry(handleWhen(isRejection), { maxAttempts: 3, backoff })).use(limit);
    const all = Promise.allSettled(Array.from({ length: calls }, () => shield.execute(() => 1)));
    await vi.advanceTimersByTimeAsync(60_000);
    return (await all).filter(({ status }) => status === "rejected").length;
  }

  it("with spaced retries nobody of a burst fails for good; with plain advice nearly all do that were refused", async () => {
    const spaced = await flagship(130, retryAfterBackoff({ spacingMs: 10 }));
    const plain = await flagship(130, retryAfterBackoff());
    console.log(`130 calls at 100 per second, 3 retries: ${JSON.stringify({ spaced, plain })} fail`);
    expect(spaced).toBe(0);
    expect(plain).toBeGreaterThan(20);
  });

  it("callers who leave in their pause keep nobody waiting", async () => {
    const backoff = retryAfterBackoff({ spacingMs: 100 });
    const delays: number[] = [];
    const polite = retry(handleWhen(isRejection), { maxAttempts: 3, backoff });
    polite.onRetry(({ delay }) => void delays.push(delay));
    const limited = Shield.empty.use(polite).rateLimit(10, 1000);
    const impatient = Shield.empty.use(timeout(300, TimeoutStrategy.Aggressive)).use(limited);
    const crowd = Promise.allSettled(Array.from({ length: 100 }, () => impatient.execute(() => 1)));
    await vi.advanceTimersByTimeAsync(1500);
    const left = (await crowd).filter(({ status }) => status === "rejected").length;
    expect(left).toBeGreaterThan(80);
    delays.length = 0;
    const calls = Promise.all(Array.from({ length: 11 }, () => limited.execute(() => 1)));
    await vi.advanceTimersByTimeAsync(1000);
    await calls;
    expect(delays).toEqual([100]);
  });

  it("1000 pauses under the signal that calls without one share are no leak to Node", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => void warnings.push(warning);
    process.on("warning", onWarning);
    expect(await flagship(1000, retryAfterBackoff({ spacingMs: 10 }))).toBe(0);
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });

  it.each([
    ["Aggressive", "dropped"],
    ["Cooperative", "failure"],
  ] as const)("a time-out further in, %s, is %s to the lease", async (strategy, outcome) => {
    const lease = granted();
    const shield = Shield.empty
      .useRateLimiter(new StubLimiter(() => lease))
      .use(timeout(10, TimeoutStrategy[strategy]));
    const call = failure(
      shield.execute(
        ({ signal }) =>
          new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason));
          }),
      ),
    );
    await vi.advanceTimersByTimeAsync(10);
    await call;
    expect(lease.outcomes).toEqual([outcome]);
  });

  it("a burst behind a window needs no spacing: the whole window comes back at once", async () => {
    const limit = () =>
      Shield.empty.useRateLimiter(new FixedWindowRateLimiter({ permitLimit: 20, windowMs: 1000 }));
    const { attempts, tookMs } = await burst(30, limit(), retryAfterBackoff({ jitter: 0 }));
    expect(attempts).toBe(40);
    expect(tookMs).toBeLessThanOrEqual(1000);
  });

  it("calls one after another are refused once each", async () => {
    const shield = Shield.empty
      .use(retry(handleType(RateLimitExceededError), { maxAttempts: 1, backoff: retryAfterBackoff() }))
      .rateLimit(1, 1000);
    const all = (async () => {
      for (let i = 0; i < 5; i++) await shield.execute(() => i);
      return "done";
    })();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await all).toBe("done");
  });
});

const never = (): never => {
  throw new Error("no more steps");
};

describe("limiterPolicy", () => {
  it("hands priority, longest wait, permits and signal to the limiter", async () => {
    const limiter = new StubLimiter((permitCount) => {
      expect(permitCount).toBe(3);
      return granted();
    });
    const { signal } = new AbortController();
    const run = (policy: ReturnType<typeof limiterPolicy>) =>
      policy.execute(() => limiter.lastOptions, signal);
    expect(await run(limiterPolicy(limiter, { permitCount: 3, priority: 5, maxWaitMs: 250 }))).toEqual({
      signal,
      priority: 5,
      maxWaitMs: 250,
    });
    expect(
      await run(limiterPolicy(limiter, { permitCount: 3, priority: (one) => (one === signal ? 7 : 8) })),
    ).toEqual({ signal, priority: 7, maxWaitMs: undefined });
    expect(await run(limiterPolicy(limiter, { permitCount: 3, priority: () => undefined }))).toEqual({
      signal,
    });
  });

  it("takes a function in place of a limiter", async () => {
    const lease = granted();
    const policy = limiterPolicy((permitCount, context: ShieldContext, options) => {
      expect([permitCount, options.signal, context.signal.aborted]).toEqual([1, undefined, false]);
      return Promise.resolve(lease);
    });
    expect(await policy.execute(({ signal }) => signal.aborted)).toBe(false);
    expect(lease.disposed).toBe(1);
  });

  it("hands the work a signal that is never aborted when there is none, and nothing else", async () => {
    const policy = limiterPolicy(new ConcurrencyLimiter({ permitLimit: 1 }));
    await policy.execute((context) => {
      expect(Object.keys(context)).toEqual(["signal"]);
      expect(context.signal.aborted).toBe(false);
    });
  });

  it("hands each call a signal of its own, on which listeners do not pile up", async () => {
    const policy = limiterPolicy(new ConcurrencyLimiter({ permitLimit: 2 }));
    const seen: unknown[] = [];
    const look = (context: { signal: AbortSignal }) => void seen.push(context.signal, { ...context }.signal);
    await Promise.all([policy.execute(look), policy.execute(look)]);
    expect(seen[0]).toBe(seen[1]);
    expect(seen[2]).toBe(seen[3]);
    expect(seen[0]).not.toBe(seen[2]);
  });

  it("an aborted signal ends it with the signal's reason, without asking", async () => {
    const limiter = new StubLimiter(() => granted());
    const policy = limiterPolicy(limiter);
    const failures: unknown[] = [];
    policy.onFailure(({ reason }) => void failures.push(reason.error));
    policy.onReject(never);
    expect(await failure(policy.execute(() => 1, AbortSignal.abort("left")))).toBe("left");
    expect([limiter.asked, failures]).toEqual([0, ["left"]]);
  });

  it("tells its hook, and the error its name and metadata", async () => {
    const events: RateLimiterRejectedEvent[] = [];
    const policy = limiterPolicy(new StubLimiter(() => refused({ RETRY_AFTER: 5, x: 1 })), {
      name: "vendor",
      permitCount: 2,
      onRejected: (event) => void events.push(event),
    });
    const error = await failure(policy.execute(() => 1));
    expect(error).toMatchObject({ strategyName: "vendor", retryAfterMs: 5 });
    expect(events).toMatchObject([{ permitCount: 2, retryAfterMs: 5 }]);
    expect(events[0]?.metadata.get("x")).toBe(1);
  });

  it("does not take a refusal of the work's own for its own", async () => {
    const policy = limiterPolicy(new ConcurrencyLimiter({ permitLimit: 1 }));
    let rejects = 0;
    policy.onReject(() => {
      rejects += 1;
    });
    const error = new RateLimitRejectedError({ reason: "queue_full" });
    expect(await failure(policy.execute(() => Promise.reject(error)))).toBe(error);
    expect(rejects).toBe(0);
  });

  it("hands on the error of a disposed limiter", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const policy = limiterPolicy(limiter);
    limiter.dispose();
    expect(await failure(policy.execute(() => 1))).toBeInstanceOf(LimiterDisposedError);
  });

  it.each(["onSuccess", "onFailure", "onReject"] as const)(
    "takes only functions as listeners, %s",
    (event) => {
      const policy = limiterPolicy(new ConcurrencyLimiter({ permitLimit: 1 }));
      expect(() => policy[event](5 as never)).toThrow(/^listener must be a function; got 5\.$/);
    },
  );

  it("reports a listener that fails, tells the others, and leaves the call as it is", async () => {
    const reports = new Reports();
    const subscription = shieldDiagnostics.onCallbackError((event) => void reports.events.push(event));
    const policy = limiterPolicy(new ConcurrencyLimiter({ permitLimit: 1 }));
    let told = 0;
    policy.onSuccess(never);
    policy.onSuccess(() => {
      told += 1;
    });
    expect(await policy.execute(() => 42)).toBe(42);
    subscription.dispose();
    expect(told).toBe(1);
    expect(reports.events).toMatchObject([{ kind: "event_listener", source: "onSuccess" }]);
  });

  it.each<[() => unknown, RegExp]>([
    [
      () => limiterPolicy({} as never),
      /limiter must be a RateLimiter, a PartitionedRateLimiter or a function/,
    ],
    [
      () => limiterPolicy(new StubLimiter(never), { permitCount: 0 }),
      /permitCount must be an integer from 1/,
    ],
    [
      () => limiterPolicy(new StubLimiter(never), { priority: 1.5 }),
      /LimiterPolicyOptions\.priority must be a safe integer or a function/,
    ],
    [
      () => limiterPolicy(new StubLimiter(never), { maxWaitMs: -1 }),
      /LimiterPolicyOptions\.maxWaitMs must be a number of milliseconds of at least 0/,
    ],
    [
      () => limiterPolicy(new StubLimiter(never), { maxWait: 1 } as never),
      /did you mean LimiterPolicyOptions\.maxWaitMs\?/,
    ],
    [() => shieldPolicy({} as never), /shield must be a Shield/],
  ])("%s says what is wrong", (act, message) => {
    expect((thrown(act) as Error).message).toMatch(message);
  });
});

describe("shieldPolicy", () => {
  it("tells of the refusals of its layers", async () => {
    const shield = Shield.empty.withClock(new ManualClock()).rateLimit(1, 1000);
    const policy = shieldPolicy(shield);
    const told: unknown[] = [];
    policy.onReject((error) => void told.push(error));
    await policy.execute(() => 1);
    const error = await failure(policy.execute(() => 2));
    expect(error).toBeInstanceOf(RateLimitExceededError);
    expect(told).toEqual([error]);
    await flush();
  });
});
