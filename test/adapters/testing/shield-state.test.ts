import { ConcurrencyLimiter, PartitionedRateLimiter, RateLimitPartition } from "headgate";
import { Shield, type ShieldContext } from "headgate/shield";
import { getShieldDescriptor, getShieldState } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { gate, granted, ManualClock, StubLimiter, thrown } from "../shield/support.js";

const policy = { execute: async (work: (context: unknown) => unknown) => work({}) };

describe("the state of a shield", () => {
  it("has an entry for each limit, under its own position, and none for policies", () => {
    const shield = Shield.empty
      .withClock(new ManualClock())
      .use(policy)
      .concurrencyLimit(2, { queueLimit: 1, name: "places" })
      .use({ run: (next) => next() })
      .rateLimit(2, 1000, { queueLimit: 1 });
    expect(getShieldState(shield)).toEqual({
      strategies: [
        {
          kind: "concurrencyLimit",
          strategyIndex: 1,
          name: "places",
          currentLimit: 2,
          availablePermits: 2,
          runningExecutions: 0,
          queuedExecutions: 0,
          queuedByPriority: new Map(),
        },
        {
          kind: "rateLimit",
          strategyIndex: 3,
          name: undefined,
          availablePermits: 2,
          queuedExecutions: 0,
          queuedByPriority: new Map(),
        },
      ],
    });
    expect(getShieldState(Shield.empty)).toEqual({ strategies: [] });
  });

  it("is the same for all shields that share a layer", async () => {
    const base = Shield.concurrencyLimit(1, { queueLimit: 1 });
    const derived = Shield.empty.use(base);
    const open = gate();
    const calls = [base.execute(() => open.promise), derived.execute(() => 2)];
    expect(getShieldState(base).strategies).toMatchObject([
      { availablePermits: 0, runningExecutions: 1, queuedExecutions: 1 },
    ]);
    expect(getShieldState(derived)).toEqual(getShieldState(base));
    open.open();
    await Promise.all(calls);
  });

  it("cannot be changed, and does not change", async () => {
    const shield = Shield.concurrencyLimit(1);
    const before = getShieldState(shield);
    const [first] = before.strategies;
    expect(() => Object.assign(before, { strategies: [] })).toThrow(TypeError);
    expect(() => (before.strategies as unknown[]).pop()).toThrow(TypeError);
    expect(() => Object.assign(first ?? {}, { availablePermits: 5 })).toThrow(TypeError);
    await shield.execute(() => expect(first).toMatchObject({ availablePermits: 1 }));
  });

  it("shows the statistics of a limiter of the user's, where there are any", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 3 });
    const partitioned = PartitionedRateLimiter.create((_: ShieldContext) =>
      RateLimitPartition.getNoLimiter(1),
    );
    const shields = [
      Shield.empty.useRateLimiter(limiter, { name: "mine" }),
      Shield.empty.useRateLimiter(partitioned),
      Shield.empty.useRateLimiter(() => granted()),
      Shield.empty.useRateLimiter(new StubLimiter(() => granted())),
    ];
    const states = () => shields.map((shield) => getShieldState(shield).strategies[0]);
    expect(states()).toEqual([
      { kind: "rateLimiter", strategyIndex: 0, name: "mine", statistics: limiter.getStatistics() },
      ...Array.from({ length: 3 }, () => ({
        kind: "rateLimiter",
        strategyIndex: 0,
        name: undefined,
        statistics: undefined,
      })),
    ]);
    limiter.dispose();
    expect(states()[0]).toMatchObject({ statistics: undefined });
    partitioned.dispose();
  });

  it("looks at limits in shadow, too", async () => {
    const shield = Shield.concurrencyLimit(1, { shadow: true });
    await shield.execute(() =>
      shield.execute(() => {
        expect(getShieldState(shield).strategies).toMatchObject([{ runningExecutions: 1 }]);
      }),
    );
  });

  it("shows what limits in shadow would not have let through", async () => {
    const shield = Shield.concurrencyLimit(1, { shadow: true, queueLimit: 1 })
      .rateLimit(1, 1000, { shadow: true })
      .useRateLimiter(new ConcurrencyLimiter({ permitLimit: 1 }), { shadow: true })
      .rateLimit(100, 1000);
    await shield.execute(() => shield.execute(() => 1));
    const { strategies } = getShieldState(shield);
    expect(strategies.map(({ shadow }) => shadow)).toEqual([
      { wouldHaveRefused: 0, wouldHaveWaited: 1 },
      { wouldHaveRefused: 1, wouldHaveWaited: 0 },
      { wouldHaveRefused: 1, wouldHaveWaited: 0 },
      undefined,
    ]);
    expect(Object.isFrozen(strategies[0]?.shadow)).toBe(true);
  });

  it("is of shields only", () => {
    for (const look of [getShieldState, getShieldDescriptor]) {
      expect((thrown(() => look({} as Shield)) as Error).message).toBe(
        "shield must be a Shield; got an object.",
      );
    }
  });
});

describe("the descriptor of a shield", () => {
  it("tells the options of all layers from the outside in, and can be cloned", () => {
    const shield = Shield.empty
      .withName("search")
      .use(policy, { describe: "Retry" })
      .rateLimit({
        permits: 5,
        windowMs: 250,
        burst: 7,
        queueLimit: 3,
        queueTimeoutMs: 9,
        usePriorityQueue: true,
      })
      .concurrencyLimit({ maxConcurrency: 4, name: "places", onRejected: () => {} })
      .useRateLimiter(new ConcurrencyLimiter({ permitLimit: 3 }), { permitCount: 2, ownsLimiter: true })
      .useRateLimiter(new ConcurrencyLimiter({ permitLimit: 3 }), { shadow: true })
      .use({ run: (next) => next(), describe: () => "Mine" });
    const descriptor = getShieldDescriptor(shield);
    expect(descriptor).toEqual({
      name: "search",
      strategies: [
        { kind: "policy", name: undefined, description: "Retry" },
        {
          kind: "rateLimit",
          name: undefined,
          description: "RateLimit(5/250ms, burst 7, queue 3/9ms, priority queue)",
          permits: 5,
          windowMs: 250,
          burst: 7,
          queueLimit: 3,
          queueTimeoutMs: 9,
          usePriorityQueue: true,
          shadow: false,
          hasNotification: false,
        },
        {
          kind: "concurrencyLimit",
          name: "places",
          description: "ConcurrencyLimit(4)",
          maxConcurrency: 4,
          queueLimit: 0,
          queueTimeoutMs: undefined,
          usePriorityQueue: false,
          shadow: false,
          hasNotification: true,
        },
        {
          kind: "rateLimiter",
          name: undefined,
          description: "RateLimiter(limiter, permits 2)",
          source: "limiter",
          permitCount: 2,
          ownsLimiter: true,
          shadow: false,
          hasNotification: false,
        },
        {
          kind: "rateLimiter",
          name: undefined,
          description: "RateLimiter(limiter, permits 1, shadow)",
          source: "limiter",
          permitCount: 1,
          ownsLimiter: false,
          shadow: true,
          hasNotification: false,
        },
        { kind: "custom", name: undefined, description: "Mine" },
      ],
    });
    expect(structuredClone(descriptor)).toEqual(descriptor);
    expect(Object.isFrozen(descriptor.strategies[0])).toBe(true);
  });
});
