import { ConcurrencyLimiter, LimiterDisposedError, systemClock } from "headgate";
import {
  type ConcurrencyLimitRejectedEvent,
  type PolicyLike,
  Shield,
  type ShieldContext,
  ShieldKey,
  ShieldKeys,
  type ShieldStrategy,
} from "headgate/shield";
import { describe, expect, it } from "vitest";
import { CountingClock, CountingController } from "../../support.js";
import { failure, flush, gate, granted, ManualClock, refused, StubLimiter, thrown } from "./support.js";

/** Runs what is further in a number of times, as a retry does. */
const repeated = (times: number, betweenAttempts: () => Promise<void> = flush): PolicyLike => ({
  async execute(work, signal) {
    let last: unknown;
    for (let attempt = 0; attempt < times; attempt++) {
      try {
        return await work({ signal, attempt });
      } catch (error) {
        last = error;
        if (attempt < times - 1) await betweenAttempts();
      }
    }
    throw last;
  },
});

const passThrough: ShieldStrategy = { run: (next) => next() };

describe("executing", () => {
  it("runs the work as it is in an empty shield", async () => {
    expect(await Shield.empty.execute(() => 42)).toBe(42);
    expect(await Shield.empty.execute(async () => 42)).toBe(42);
    expect(Shield.empty.describe()).toBe("(empty)");
  });

  it("always returns a promise, and never throws", async () => {
    for (const work of [
      () => {
        throw new Error("x");
      },
      undefined,
    ]) {
      const call = Shield.concurrencyLimit(1).execute(work as () => never);
      expect(call).toBeInstanceOf(Promise);
      expect(await failure(call)).toBeInstanceOf(Error);
    }
  });

  it.each<[string, (shield: Shield) => Shield]>([
    ["an empty shield", (shield) => shield],
    ["limits", (shield) => shield.rateLimit(1000, 1000).concurrencyLimit(1)],
    ["a policy", (shield) => shield.use(repeated(1))],
    ["a strategy", (shield) => shield.use(passThrough)],
  ])("%s hands the error of the work on as the same object", async (_, make) => {
    const shield = make(Shield.empty);
    for (const error of [new Error("x"), "text", undefined, null, { code: 1 }]) {
      const fails = () => Promise.reject(error);
      const throws = () => {
        throw error;
      };
      for (const work of [fails, throws]) {
        expect(await failure(shield.execute(work))).toBe(error);
        expect(await shield.executeOutcome(work)).toEqual({ ok: false, error });
      }
    }
    const value = { a: 1 };
    const outcome = await shield.executeOutcome(() => value);
    expect(outcome).toEqual({ ok: true, value });
    expect(outcome.ok && outcome.value).toBe(value);
  });

  it("tells refusals and cancellation as an outcome, too", async () => {
    const shield = Shield.empty.useRateLimiter(new StubLimiter(() => refused()));
    const outcome = await shield.executeOutcome(() => 1);
    expect(outcome).toMatchObject({ ok: false, error: { strategyIndex: 0 } });
    expect(await shield.executeOutcome(() => 1, AbortSignal.abort("left"))).toEqual({
      ok: false,
      error: "left",
    });
  });

  it("stops a call whose signal is aborted before anything else", async () => {
    const limiter = new StubLimiter(() => granted());
    let touched = 0;
    const touch = () => {
      touched += 1;
    };
    const strategy: ShieldStrategy = {
      run(next) {
        touch();
        return next();
      },
    };
    const shield = Shield.empty.use(strategy).useRateLimiter(limiter, { onRejected: touch });
    const reason = new Error("left");
    const call = shield.execute(touch, { signal: AbortSignal.abort(reason), context: touch });
    expect(await failure(call)).toBe(reason);
    expect([touched, limiter.asked]).toEqual([0, 0]);
  });

  it("takes a bare signal as well as one in options, also of a polyfill", async () => {
    const { signal } = new AbortController();
    const seen: unknown[] = [];
    const note = (context: ShieldContext) => void seen.push(context.signal);
    await Shield.empty.execute(note, signal);
    await Shield.empty.execute(note, { signal });
    const polyfill = { aborted: false, addEventListener() {}, removeEventListener() {} } as never;
    await Shield.empty.execute(note, polyfill);
    expect(seen).toEqual([signal, signal, polyfill]);
    const aborted = {
      aborted: true,
      reason: "left",
      addEventListener() {},
      removeEventListener() {},
    } as never;
    expect(await failure(Shield.empty.execute(note, aborted))).toBe("left");
  });

  it("gives a call without a signal one that is never aborted, and no other call has", async () => {
    const signals: AbortSignal[] = [];
    const shield = Shield.concurrencyLimit(2);
    for (let i = 0; i < 2; i++) {
      await shield.execute((context) => {
        signals.push(context.signal, context.signal);
      });
    }
    expect(signals.map(({ aborted }) => aborted)).toEqual([false, false, false, false]);
    expect([signals[0] === signals[1], signals[0] === signals[2]]).toEqual([true, false]);
  });

  it.each<[unknown, RegExp]>([
    [null, /options must be an object; got null/],
    [5, /options must be an object; got 5/],
    [{ sinal: 1 }, /options\.sinal is not an option; did you mean options\.signal\?/],
    [{ signal: {} }, /options\.signal must be an AbortSignal/],
    [{ context: 5 }, /options\.context must be a function, or an array/],
  ])("refuses the options %j", async (options, message) => {
    const error = await failure(Shield.empty.execute(() => 1, options as never));
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toMatch(message);
  });

  it("fails when the work is no function", async () => {
    expect((await failure(Shield.empty.execute(5 as never))) as Error).toMatchObject({
      message: "work must be a function; got 5.",
    });
  });

  it("hands on work that returns a thenable which misbehaves", async () => {
    const shield = Shield.concurrencyLimit(1);
    const broken = new Proxy(
      {},
      {
        get(_, name) {
          if (name === "then") throw new Error("then");
        },
      },
    );
    expect(await failure(shield.execute(() => broken))).toMatchObject({ message: "then" });
    const odd = {};
    Reflect.set(odd, "then", () => {
      throw new Error("throws");
    });
    expect(await failure(shield.execute(() => odd))).toMatchObject({ message: "throws" });
    expect(await shield.execute(() => "the place is free")).toBe("the place is free");
  });
});

describe("the start of a call", () => {
  /** Which microtask of the turn the work starts in: 0 is the turn of the call itself. */
  async function startOf(shield: Shield): Promise<number> {
    let microtask = 0;
    let startedIn = -1;
    const call = shield.execute(() => {
      startedIn = microtask;
    });
    for (microtask = 1; microtask < 10 && startedIn === -1; microtask++) await Promise.resolve();
    await call;
    return startedIn;
  }

  it("is in the turn of the call through any number of limits: they add no microtask", async () => {
    const shield = Shield.rateLimit(1000, 1000)
      .concurrencyLimit(10)
      .useRateLimiter(new ConcurrencyLimiter({ permitLimit: 10 }))
      .useRateLimiter(new StubLimiter(() => granted()))
      .useRateLimiter(() => granted());
    expect(await startOf(shield)).toBe(0);
    expect(
      await startOf(Shield.concurrencyLimit({ maxConcurrency: 5, queueLimit: 5, usePriorityQueue: true })),
    ).toBe(0);
    expect(await startOf(Shield.empty.use(passThrough).concurrencyLimit(1))).toBe(0);
  });

  it("is later by a microtask behind a limiter that answers by a promise", async () => {
    expect(await startOf(Shield.empty.useRateLimiter(() => Promise.resolve(granted())))).toBe(1);
  });

  it("sets no timer and no abort listener, and reads the clock once for a rate limit", async () => {
    const clock = new CountingClock();
    const shield = Shield.empty
      .withClock(clock)
      .concurrencyLimit(10, { queueLimit: 10, queueTimeoutMs: 100 })
      .rateLimit(1000, 1000, { queueLimit: 10, queueTimeoutMs: 100 });
    const caller = new CountingController();
    clock.reads = 0;
    for (let i = 0; i < 10; i++) await shield.execute(() => i, caller.signal);
    expect([clock.reads, clock.timersSet, caller.added]).toEqual([10, 0, 0]);
  });

  it("of 1000 calls with one signal leaves no listener on it", async () => {
    const caller = new CountingController();
    const shield = Shield.concurrencyLimit(1, { queueLimit: 1 });
    for (let i = 0; i < 500; i++) {
      await Promise.all([shield.execute(flush, caller.signal), shield.execute(() => i, caller.signal)]);
    }
    expect(caller.listeners).toBe(0);
  });
});

describe("building", () => {
  it("changes nothing that is there", async () => {
    const base = Shield.concurrencyLimit(1).withName("base");
    const more = base.rateLimit(5, 1000).withName("more");
    expect([base.describe(), more.describe()]).toEqual([
      "base: ConcurrencyLimit(1)",
      "more: ConcurrencyLimit(1) → RateLimit(5/1s)",
    ]);
    expect(Object.isFrozen(base)).toBe(true);
  });

  it("describes layers from the outside in", () => {
    const texts = [
      Shield.rateLimit(100, 1000),
      Shield.rateLimit(100, 1000, { queueLimit: 20 }),
      Shield.rateLimit({ burst: 200, queueLimit: 20, queueTimeoutMs: 250, usePriorityQueue: true }),
      Shield.rateLimit(100, 1500),
      Shield.rateLimit(1, 999.94),
      Shield.rateLimit(1, 999.96),
      Shield.rateLimit(1, 0.04),
      Shield.rateLimit(1, 57_500),
      Shield.rateLimit(1, 59_999),
      Shield.rateLimit(1, 60_000),
      Shield.rateLimit(1, 5_400_000),
      Shield.rateLimit(1, 100 * 86_400_000),
      Shield.concurrencyLimit(10),
      Shield.concurrencyLimit(10, { queueLimit: 20 }),
      Shield.concurrencyLimit(10, { queueLimit: 20, queueTimeoutMs: 250 }),
      Shield.concurrencyLimit(10, { queueLimit: 20, queueTimeoutMs: 250, usePriorityQueue: true }),
    ].map(String);
    expect(texts).toEqual([
      "RateLimit(100/1s)",
      "RateLimit(100/1s, queue 20)",
      "RateLimit(100/1s, burst 200, queue 20/250ms, priority queue)",
      "RateLimit(100/1.5s)",
      "RateLimit(1/999.9ms)",
      "RateLimit(1/1s)",
      "RateLimit(1/0.04ms)",
      "RateLimit(1/57.5s)",
      "RateLimit(1/1m)",
      "RateLimit(1/1m)",
      "RateLimit(1/1.5h)",
      "RateLimit(1/2400h)",
      "ConcurrencyLimit(10)",
      "ConcurrencyLimit(10, queue 20)",
      "ConcurrencyLimit(10, queue 20/250ms)",
      "ConcurrencyLimit(10, queue 20/250ms, priority queue)",
    ]);
  });

  it("describes policies by their class, or as it is told", () => {
    class RetryPolicy {
      execute = repeated(1).execute;
    }
    class Policy {
      execute = repeated(1).execute;
    }
    const bare = Object.assign(Object.create(null), repeated(1));
    const shield = Shield.empty
      .use(new RetryPolicy())
      .use(new Policy())
      .use(repeated(1))
      .use(bare)
      .use(repeated(1), { describe: "Breaker" })
      .use({ ...passThrough, describe: () => "Timed" })
      .use(passThrough);
    expect(shield.describe()).toBe("Retry → Policy → Policy → Policy → Breaker → Timed → Custom");
  });

  it("composes shields from the outside in", () => {
    const [a, b, c] = [Shield.concurrencyLimit(1), Shield.rateLimit(2, 1000), Shield.concurrencyLimit(3)];
    expect(Shield.compose(a, b, c).describe()).toBe(a.use(b).use(c).describe());
    expect(Shield.compose().describe()).toBe("(empty)");
    expect(() => Shield.compose(a, {} as Shield)).toThrow(/shields\[1\] must be a Shield/);
  });

  it("takes name, clock and diagnostics of the outer shield where it has them, else of the inner one", async () => {
    const clock = new ManualClock();
    const told: string[] = [];
    const inner = Shield.empty
      .withName("inner")
      .withClock(clock)
      .withDiagnostics({ onCallbackError: () => void told.push("inner") });
    const seen = (shield: Shield) => shield.execute((context) => [context.shieldName, context.clock]);
    expect(await seen(Shield.empty.use(inner))).toEqual(["inner", clock]);
    const other = new ManualClock();
    const outer = Shield.empty
      .withName("")
      .withClock(other)
      .withDiagnostics({ onCallbackError: () => void told.push("outer") });
    expect(await seen(outer.use(inner))).toEqual(["", other]);
    expect(await seen(Shield.empty)).toEqual([undefined, systemClock]);
    const fails = () => {
      throw new Error("hook");
    };
    const limit = Shield.empty.useRateLimiter(new StubLimiter(() => refused()), { onRejected: fails });
    await failure(inner.use(limit).execute(() => 1));
    await failure(
      outer
        .use(inner)
        .use(limit)
        .execute(() => 1),
    );
    expect(told).toEqual(["inner", "outer"]);
  });

  it("refuses the same layer twice, and says where", () => {
    const stateful: ShieldStrategy = { ...passThrough, stateful: true, describe: () => "Cache" };
    for (const [shield, name] of [
      [Shield.concurrencyLimit(1), "ConcurrencyLimit\\(1\\)"],
      [Shield.rateLimit(1, 1), "RateLimit\\(1/1ms\\)"],
      [Shield.empty.use(stateful), "Cache"],
      [Shield.empty.useRateLimiter(() => granted()), "RateLimiter\\(delegate, permits 1\\)"],
    ] as const) {
      const error = thrown(() => Shield.empty.use(passThrough).use(shield).use(repeated(1)).use(shield));
      expect(error).toBeInstanceOf(Error);
      expect((error as Error).message).toMatch(
        new RegExp(`^${name} is in the chain twice, at positions 1 and 3: .*Leave one out`),
      );
    }
  });

  it.each<[() => unknown, RegExp]>([
    [
      () => Shield.concurrencyLimit({ maxConcurrency: 1 } as never, { queueLimit: 1 } as never),
      /^concurrencyLimit takes one object with all options, or a number and then an object; got 2 arguments, the first an object\./,
    ],
    [
      () => Shield.rateLimit({ permits: 1 } as never, 500),
      /^rateLimit takes one object with all options, or two numbers and then an object; got 2 arguments, the first an object\./,
    ],
    [
      () => Shield.empty.use(passThrough as never, { describe: "Pass" }),
      /^Options of use are for policies: give a strategy a method describe\(\)\./,
    ],
    [
      () => Shield.empty.use(Shield.concurrencyLimit(1) as never, { describe: "Pass" }),
      /^Options of use are for policies: name a shield by withName\(\)\./,
    ],
  ])("takes nothing without a word that it would leave out: %s", (build, message) => {
    expect(thrown(build)).toBeInstanceOf(TypeError);
    expect((thrown(build) as Error).message).toMatch(message);
  });

  it("takes a layer without state twice", async () => {
    let runs = 0;
    const counting: ShieldStrategy = {
      run(next) {
        runs += 1;
        return next();
      },
    };
    await Shield.empty
      .use(counting)
      .use(counting)
      .execute(() => 1);
    expect(runs).toBe(2);
  });

  it.each<[string, unknown, RegExp]>([
    [
      "nothing",
      undefined,
      /What is given to use must be a Shield, a strategy with run\(\), or a policy with execute\(\); got undefined/,
    ],
    ["null", null, /got null/],
    ["an empty object", {}, /got an object/],
    ["a policy whose execute is no function", { execute: 1 }, /a policy with execute\(\)/],
    ["a limiter", new ConcurrencyLimiter({ permitLimit: 1 }), /\(a limiter is added by useRateLimiter\)/],
  ])("use refuses %s", (_, added, message) => {
    const error = thrown(() => Shield.empty.use(added as Shield));
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toMatch(message);
  });

  it.each<[() => unknown, RegExp]>([
    [() => Shield.empty.withName(5 as never), /^name must be a string; got 5/],
    [() => Shield.empty.withClock({} as never), /^clock must be an object with now\(\) and setTimer\(\)/],
    [
      () => Shield.concurrencyLimit(1).withClock(systemClock),
      /before the first layer; this shield has 1: begin with Shield\.empty\.withClock/,
    ],
    [() => Shield.empty.withDiagnostics(5 as never), /ShieldDiagnostics must be an object/],
    [
      () => Shield.empty.withDiagnostics({ onCallbackEror: () => {} } as never),
      /did you mean ShieldDiagnostics\.onCallbackError\?/,
    ],
    [
      () => Shield.empty.withDiagnostics({ onCallbackError: 1 as never }),
      /onCallbackError must be a function/,
    ],
    [() => Shield.empty.use(repeated(1), { describe: 1 as never }), /UseOptions\.describe must be a string/],
    [() => Shield.empty.use(repeated(1), { name: "x" } as never), /UseOptions\.name is not an option/],
    [
      () => Shield.empty.use({ ...passThrough, describe: 1 } as never),
      /strategy\.describe must be a function/,
    ],
    [() => Shield.empty.use({ ...passThrough, dispose: 1 } as never), /strategy\.dispose must be a function/],
    [() => new ShieldKey(5 as never), /^name must be a string; got 5/],
    [() => ShieldKey.for(5 as never), /^name must be a string; got 5/],
  ])("%s says what is wrong", (act, message) => {
    const error = thrown(act);
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toMatch(message);
  });
});

describe("the context of a call", () => {
  const tenant = new ShieldKey<string>("tenant");

  it("carries values to every layer, attempt, hook and the work", async () => {
    const seen: unknown[] = [];
    const note = (where: string, context: ShieldContext) =>
      void seen.push([where, context.get(tenant), context.attempt]);
    const shield = Shield.empty
      .use({
        run(next, context) {
          note("outermost", context);
          return next();
        },
      })
      .use(repeated(2))
      .concurrencyLimit(1, {
        onRejected: (event: ConcurrencyLimitRejectedEvent) => note("hook", event.context),
      })
      .useRateLimiter((_, context) => {
        note("limiter", context);
        return granted();
      });
    const open = gate();
    const holder = shield.execute(() => open.promise, { context: [tenant.of("holder")] });
    seen.length = 0;
    await failure(shield.execute(() => 1, { context: [tenant.of("acme")] }));
    open.open();
    await holder;
    await shield.execute((context) => note("work", context), { context: (c) => c.set(tenant, "acme") });
    expect(seen).toEqual([
      ["outermost", "acme", 0],
      ["hook", "acme", 0],
      ["hook", "acme", 1],
      ["outermost", "acme", 0],
      ["limiter", "acme", 0],
      ["work", "acme", 0],
    ]);
  });

  it("fails the call when it cannot be set up, before any layer", async () => {
    const limiter = new StubLimiter(() => granted());
    const error = new Error("context");
    const call = Shield.empty.useRateLimiter(limiter).execute(() => 1, {
      context: () => {
        throw error;
      },
    });
    expect(await failure(call)).toBe(error);
    expect(limiter.asked).toBe(0);
  });

  it("is closed when it could not be set up", async () => {
    let kept: ShieldContext | undefined;
    const call = Shield.empty.execute(() => 1, {
      context: (context) => {
        kept = context;
        throw new Error("context");
      },
    });
    await failure(call);
    expect(() => kept?.get(tenant)).toThrow(/after its call had ended/);
  });

  it("stores, tells, and forgets; what is stored as undefined is there", async () => {
    const maybe = new ShieldKey<string | undefined>("maybe");
    await Shield.empty.execute((context) => {
      expect([context.has(maybe), context.get(maybe), context.get(maybe, "fallback")]).toEqual([
        false,
        undefined,
        "fallback",
      ]);
      context.set(maybe, undefined);
      expect([context.has(maybe), context.get(maybe, "fallback")]).toEqual([true, undefined]);
      expect([context.delete(maybe), context.delete(maybe), context.has(maybe)]).toEqual([
        true,
        false,
        false,
      ]);
    });
  });

  it("knows keys by themselves, and shared ones by their names", async () => {
    const [a, b] = [new ShieldKey<number>("x"), new ShieldKey<number>("x")];
    const shared = () => ShieldKey.for<number>("x");
    await Shield.empty.execute(
      (context) => {
        expect([context.get(a), context.get(b), context.get(shared())]).toEqual([1, undefined, 3]);
        expect(context.get(ShieldKey.for<number>("priority"))).toBe(7);
        expect(String(a)).toBe("x");
      },
      { context: [a.of(1), shared().of(3), ShieldKeys.priority.of(7)] },
    );
  });

  it.each([undefined, null, "tenant", {}, { id: "tenant" }])("takes keys only, and not %j", async (key) => {
    await Shield.empty.execute((context) => {
      for (const use of [
        () => context.get(key as never),
        () => context.has(key as never),
        () => context.set(key as never, 1 as never),
        () => context.delete(key as never),
      ]) {
        expect(use).toThrow(/^key must be a ShieldKey; got /);
      }
    });
    for (const entry of [key, { key, value: 1 }]) {
      const error = await failure(Shield.empty.execute(() => 1, { context: [entry as never] }));
      expect((error as Error).message).toMatch(/^key must be a ShieldKey; got /);
    }
  });

  it("of another call is not taken for this one's, only its signal and attempt are", async () => {
    let other: ShieldContext | undefined;
    const open = gate();
    const running = Shield.empty.execute(
      (context) => {
        other = context;
        return open.promise;
      },
      { context: [tenant.of("other")] },
    );
    const mixing: ShieldStrategy = { run: (next) => next(other) };
    const seen = await Shield.empty
      .use(mixing)
      .execute((context) => [context.get(tenant), context.signal === other?.signal], {
        context: [tenant.of("mine")],
      });
    expect(seen).toEqual(["mine", true]);
    open.open();
    await running;
  });

  it("is closed when the call has ended, whichever way", async () => {
    const kept: ShieldContext[] = [];
    const keep = (context: ShieldContext) => void kept.push(context);
    const shield = Shield.empty.use(repeated(1)).concurrencyLimit(1);
    await shield.execute(keep);
    await failure(
      shield.execute((context) => {
        keep(context);
        throw new Error("x");
      }),
    );
    await failure(
      shield.execute(async (context) => {
        keep(context);
        throw new Error("x");
      }),
    );
    expect(kept).toHaveLength(3);
    for (const context of kept) {
      for (const use of [
        () => context.get(tenant),
        () => context.has(tenant),
        () => context.set(tenant, "x"),
        () => context.delete(tenant),
      ]) {
        expect(use).toThrow(/used after its call had ended: read what you need before/);
      }
      expect(context.signal.aborted).toBe(false);
    }
  });

  it("of a call inside a call is another one", async () => {
    const shield = Shield.concurrencyLimit(2);
    await shield.execute(
      async (outer) => {
        await shield.execute((inner) => {
          expect(inner.has(tenant)).toBe(false);
          inner.set(tenant, "inner");
        });
        expect(outer.get(tenant)).toBe("outer");
      },
      { context: [tenant.of("outer")] },
    );
  });

  it("gives each layer the signal that the layer around it sets, and leaves the outer one alone", async () => {
    const caller = new AbortController();
    const inner = [new AbortController(), new AbortController()];
    const seen: unknown[] = [];
    const both: ShieldStrategy = {
      async run(next, context) {
        const results = await Promise.allSettled(
          inner.map(({ signal }, attempt) => next({ signal, attempt })),
        );
        seen.push(
          context.signal === caller.signal,
          results.map(({ status }) => status),
        );
        return next();
      },
    };
    const shield = Shield.empty.use(both).use(passThrough).concurrencyLimit(3);
    await shield.execute(({ signal, attempt }) => {
      seen.push([[...inner, caller].findIndex((one) => one.signal === signal), attempt]);
    }, caller.signal);
    expect(seen).toEqual([[0, 0], [1, 1], true, ["fulfilled", "fulfilled"], [2, 0]]);
  });

  it("stays as it is through a policy that hands on nothing of use", async () => {
    for (const handedOn of [undefined, null, 5, {}, { signal: "x", attempt: "y" }]) {
      const policy: PolicyLike = { execute: async (work) => work(handedOn) };
      const { signal } = new AbortController();
      const seen = await Shield.empty
        .use(policy)
        .execute((context) => [context.signal, context.attempt], signal);
      expect(seen).toEqual([signal, 0]);
      expect((seen as unknown[])[0]).toBe(signal);
    }
  });
});

describe("the place of a layer", () => {
  it("a limit outside a retry is held for all attempts and the pauses between them; inside, for each attempt", async () => {
    for (const [build, isHeld] of [
      [(retry: PolicyLike) => Shield.concurrencyLimit(1).use(retry), true],
      [(retry: PolicyLike) => Shield.empty.use(retry).concurrencyLimit(1), false],
    ] as const) {
      const pause = gate();
      const shield = build(repeated(2, () => pause.promise));
      let attempts = 0;
      const first = shield.execute(() => {
        attempts += 1;
        if (attempts === 1) throw new Error("first attempt");
        return "done";
      });
      await flush();
      const second = failure(shield.execute(() => "second").then((value) => Promise.reject(value)));
      await flush();
      pause.open();
      expect(isHeld ? ((await second) as Error).name : await second).toBe(
        isHeld ? "ConcurrencyLimitExceededError" : "second",
      );
      expect(await first).toBe("done");
    }
  });

  it("each attempt inside a retry has a lease of its own, which goes back before the next", async () => {
    const leases: ReturnType<typeof granted>[] = [];
    const shield = Shield.empty.use(repeated(3)).useRateLimiter(() => {
      expect(leases.map(({ disposed }) => disposed)).toEqual(leases.map(() => 1));
      const lease = granted();
      leases.push(lease);
      return lease;
    });
    await failure(shield.execute(() => Promise.reject(new Error("x"))));
    expect(leases.map(({ disposed, outcomes }) => [disposed, outcomes])).toEqual(
      Array.from({ length: 3 }, () => [1, ["failure"]]),
    );
  });

  it("a policy that gives up on the work leaves its lease with it until it has ended, and nothing unhandled", async () => {
    const lease = granted();
    const open = gate();
    const impatient: ShieldStrategy = {
      async run(next) {
        void next();
        throw new Error("time-out");
      },
    };
    const outer = granted();
    const shield = Shield.empty
      .useRateLimiter(new StubLimiter(() => outer))
      .use(impatient)
      .useRateLimiter(new StubLimiter(() => lease));
    expect(await failure(shield.execute(() => open.promise))).toMatchObject({ message: "time-out" });
    expect([outer.disposed, lease.disposed]).toEqual([1, 0]);
    open.fail(new Error("late"));
    await flush();
    expect([lease.disposed, lease.outcomes]).toEqual([1, ["failure"]]);
  });

  it("an outer layer hears of a disposed limiter as of any other error", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const shield = Shield.empty.use(repeated(2)).useRateLimiter(limiter);
    limiter.dispose();
    expect(await failure(shield.execute(() => 1))).toBeInstanceOf(LimiterDisposedError);
  });
});
