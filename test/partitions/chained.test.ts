import {
  LimiterDisposedError,
  PartitionedRateLimiter,
  type RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
} from "headgate";
import { describe, expect, it } from "vitest";
import { CountingController, flush, ManualClock, watch } from "../support.js";
import {
  concurrency,
  concurrencyByKey,
  E,
  errorOf,
  errorsOf,
  F,
  G,
  Stub,
  type StubPlan,
  show,
  stubbed,
} from "./support.js";

// Table 3.6 and R-PART-16 of spec/system-threading-ratelimiting.md, PT-15 of spec/rxjs-opentelemetry.md, with the
// give-back of design.md C-19.

type Partitioned = PartitionedRateLimiter<string>;

/** A partitioned limiter with one key, around a limiter. */
const around = (limiter: RateLimiter): Partitioned =>
  PartitionedRateLimiter.create(() => RateLimitPartition.get("only", () => limiter), {
    clock: new ManualClock(),
  });

const chainOf = (...limiters: RateLimiter[]): Partitioned =>
  PartitionedRateLimiter.createChained(...limiters.map(around));

/** Stubs named a, b, c… with one log. */
function stubs(...plans: StubPlan[]) {
  const log: string[] = [];
  return { log, limiters: plans.map((plan, i) => new Stub("abc".charAt(i), log, plan)) };
}

/** A limiter whose only permit is taken. */
function taken(): RateLimiter {
  const limiter = concurrency(1);
  limiter.attemptAcquire();
  return limiter;
}

const free = (...limiters: RateLimiter[]) =>
  limiters.map((limiter) => limiter.getStatistics()?.currentAvailablePermits).join();

const bothWays = [
  {
    verb: "attempt",
    column: 0,
    ask: async (chain: Partitioned, count = 1, resource = "r"): Promise<RateLimitLease> =>
      chain.attemptAcquire(resource, count),
  },
  {
    verb: "acquire",
    column: 1,
    ask: (chain: Partitioned, count = 1, resource = "r"): Promise<RateLimitLease> =>
      chain.acquire(resource, count),
  },
];

describe("making a chain of partitioned limiters", () => {
  it("T-PCHAIN-01 throws when there is nothing to chain", () => {
    const { createChained } = PartitionedRateLimiter;
    expect(() => createChained()).toThrow(new TypeError(expectedNone));
    expect(() => createChained(...[])).toThrow(TypeError);
    expect(() => createChained([] as never)).toThrow(/^limiters\[0\] must be a PartitionedRateLimiter/);
  });
  const expectedNone = "limiters must hold at least one PartitionedRateLimiter; got none.";

  it.each([null, undefined, {}, concurrency(1)])("T-PCHAIN-02 throws when it is given %o", (value) => {
    const { createChained } = PartitionedRateLimiter;
    expect(() => createChained(value as never)).toThrow(TypeError);
    expect(() => createChained(around(concurrency(1)), value as never)).toThrow(/^limiters\[1\]/);
  });

  it("T-PCHAIN-05 takes no notice of later changes of the list", () => {
    const first = concurrency(1);
    const list = [around(first)];
    const chain: Partitioned = Reflect.apply(PartitionedRateLimiter.createChained, undefined, list);
    list[0] = around(taken());
    expect(chain.attemptAcquire("r").isAcquired).toBe(true);
    expect(free(first)).toBe("0");
  });
});

describe.each<[string, (chain: Partitioned) => unknown]>([
  ["T-PCHAIN-03 T-PCHAIN-46 dispose", (chain) => chain.dispose()],
  ["T-PCHAIN-04 T-PCHAIN-47 asyncDispose", (chain) => chain[Symbol.asyncDispose]()],
  ["R-CHAIN-13 several disposes", (chain) => [chain.dispose(), chain.disposeAsync(), chain.dispose()]],
])("%s of a chain", (_, dispose) => {
  it("makes its methods fail, and leaves its limiters as they are", async () => {
    const limiters = [concurrencyByKey(1).limiter, concurrencyByKey(1).limiter];
    const chain = PartitionedRateLimiter.createChained(...limiters);
    await dispose(chain);
    const calls = [
      () => chain.attemptAcquire("r"),
      () => chain.acquire("r"),
      () => chain.getStatistics("r"),
      () => chain.forResource("r").attemptAcquire(),
    ];
    for (const call of calls) expect(await errorOf(call)).toBeInstanceOf(LimiterDisposedError);
    expect(limiters.map((limiter) => limiter.size)).toEqual([0, 0]);
    expect(limiters.map((limiter) => limiter.attemptAcquire("r").isAcquired)).toEqual([true, true]);
  });
});

describe("statistics of a chain of partitioned limiters", () => {
  const limits = [
    { permitLimit: 34, queueLimit: 4 },
    { permitLimit: 22, queueLimit: 2 },
    { permitLimit: 13, queueLimit: 10 },
  ];
  const three = () => chainOf(...limits.map((limit) => concurrency(limit.permitLimit, limit.queueLimit)));

  it("T-PCHAIN-06 show the fewest available permits", () => {
    expect(show(three().getStatistics("r"))).toBe("13/0/0/0");
  });

  it("T-PCHAIN-07 show what a single limiter shows", () => {
    expect(show(chainOf(concurrency(34)).getStatistics("r"))).toBe("34/0/0/0");
  });

  it("T-PCHAIN-08 are a new snapshot each time", () => {
    const chain = three();
    const before = chain.getStatistics("r");
    expect(chain.getStatistics("r")).not.toBe(before);
    chain.attemptAcquire("r", 3);
    expect([show(before), show(chain.getStatistics("r"))]).toEqual(["13/0/0/0", "10/0/0/1"]);
  });

  it("T-PCHAIN-09 add up what waits and what failed, and show the last limiter's successes", async () => {
    const chain = three();
    const shown: string[] = [];
    const look = () => shown.push(show(chain.getStatistics("r")));
    const held = chain.attemptAcquire("r", 10);
    look();
    chain.attemptAcquire("r", 10);
    look();
    const waiting = watch(chain.acquire("r", 10));
    look();
    held.dispose();
    await flush();
    look();
    expect(shown).toEqual(["3/0/0/1", "3/0/1/1", "2/10/1/1", "3/0/1/2"]);
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("R-CHAIN-11 are unlimited when no limiter keeps any", () => {
    const { limiters } = stubs({}, {});
    expect(show(chainOf(...limiters).getStatistics("r"))).toBe(`${Number.MAX_SAFE_INTEGER}/0/0/0`);
  });
});

describe.each(bothWays)("a chain of partitioned limiters, by $verb", ({ verb, column, ask }) => {
  /** The ids of a behaviour whose first id is that of `attempt`. */
  const id = (first: number) => `T-PCHAIN-${String(first + column)}`;

  it(`${id(10)} asks a single limiter once`, async () => {
    const { limiters, log } = stubs({});
    expect((await ask(chainOf(...limiters))).isAcquired).toBe(true);
    expect(log).toEqual([`a ${verb} 1`]);
  });

  it(`${id(12)} asks each limiter once, in order`, async () => {
    const { limiters, log } = stubs({}, {}, {});
    expect((await ask(chainOf(...limiters), 2)).isAcquired).toBe(true);
    expect(log).toEqual(["a", "b", "c"].map((name) => `${name} ${verb} 2`));
  });

  it.each([
    [id(14), 2, "0,0", "1,1"],
    [id(16), 1, "0", "1"],
  ])("%s gives back to each of %i limiters when the lease is disposed", async (_, n, held, returned) => {
    const limiters = Array.from({ length: n }, () => concurrency(1));
    const lease = await ask(chainOf(...limiters));
    expect(free(...limiters)).toBe(held);
    lease.dispose();
    expect(free(...limiters)).toBe(returned);
    lease.dispose();
    expect(free(...limiters)).toBe(returned);
  });

  it(`${id(18)} refuses when a later limiter has too little, after asking the earlier one`, async () => {
    const { limiters, log } = stubs({});
    const refused = await ask(chainOf(...limiters, taken()));
    expect(refused.isAcquired).toBe(false);
    expect(log.shift()).toBe(`a ${verb} 1`);
    // C-19: what it gave goes back at that moment.
    expect(log).toEqual(["a lease report ignored", "a lease adjust 0", "a lease dispose"]);
  });

  it(`${id(20)} PT-15 gives back what earlier limiters gave when a later one refuses`, async () => {
    const first = concurrency(1);
    expect((await ask(chainOf(first, taken()))).isAcquired).toBe(false);
    expect(free(first)).toBe("1");
  });

  it(`${id(22)} gives back when a later limiter throws, and throws that error itself`, async () => {
    const first = concurrency(1);
    const { limiters } = stubs({ error: E });
    expect(await errorOf(() => ask(chainOf(first, ...limiters)))).toBe(E);
    expect(free(first)).toBe("1");
  });

  it(`${id(24)} throws the error of a single limiter as it is`, async () => {
    expect(await errorOf(() => ask(chainOf(...stubs({ error: E }).limiters)))).toBe(E);
  });

  it.each<[string, StubPlan[], unknown[]]>([
    [id(26), [{ leaseError: E }, { refuses: true }], [E]],
    [id(28), [{ leaseError: E }, { leaseError: F }, { refuses: true }], [F, E]],
    [id(30), [{ leaseError: E }, { leaseError: F }, { error: G }], [F, E, G]],
  ])("%s collects what giving back throws, last limiter first, cause last", async (_, plans, errors) => {
    expect(await errorsOf(() => ask(chainOf(...stubs(...plans).limiters)))).toEqual(errors);
  });

  it(`${id(32)} disposes all leases even when one throws, and then says so`, async () => {
    const last = concurrency(1);
    const lease = await ask(chainOf(...stubs({ leaseError: E }).limiters, last));
    expect([lease.isAcquired, free(last)]).toEqual([true, "0"]);
    expect(await errorsOf(() => lease.dispose())).toEqual([E]);
    expect(free(last)).toBe("1");
  });

  it(`${id(34)} asks each limiter for the same number of permits`, async () => {
    const limiters = [concurrency(5), concurrency(3)];
    const lease = await ask(chainOf(...limiters), 3);
    expect(free(...limiters)).toBe("2,0");
    lease.dispose();
    expect(free(...limiters)).toBe("5,3");
  });

  it(`${id(36)} hands the resource on, so that only its partitions are made`, async () => {
    const made: number[] = [];
    const keyed = (one: number, other: number) =>
      PartitionedRateLimiter.create(
        (resource: string) =>
          RateLimitPartition.get(resource === "1" ? one : other, (key) => {
            made.push(key);
            return concurrency(1);
          }),
        { clock: new ManualClock() },
      );
    await ask(PartitionedRateLimiter.createChained(keyed(1, 2), keyed(3, 4)), 1, "1");
    expect(made).toEqual([1, 3]);
  });

  it(`T-PCHAIN-${42 + column} disposes the later lease first when a limiter throws`, async () => {
    const { limiters, log } = stubs({}, {}, { error: E });
    expect(await errorOf(() => ask(chainOf(...limiters)))).toBe(E);
    expect(log.filter((line) => line.endsWith("dispose"))).toEqual(["b lease dispose", "a lease dispose"]);
  });

  it("R-CHAIN-4 returns the very lease of the limiter that refused", async () => {
    const { limiters } = stubs({}, { refuses: true, metadata: { RETRY_AFTER: 7, TENANT: "acme" } });
    const refused = await ask(chainOf(...limiters));
    expect(refused.retryAfterMs).toBe(7);
    expect([...refused.metadataNames]).toEqual(["RETRY_AFTER", "TENANT"]);
  });

  it("T-PT11 has the permit of the global limit back when the tenant's refuses, for the tenant's reason", async () => {
    const clock = new ManualClock();
    const day = { permitLimit: 3, windowMs: 86_400_000, clock };
    const global = PartitionedRateLimiter.create(
      (_: string) => RateLimitPartition.getFixedWindowLimiter("all", () => day),
      { clock },
    );
    const tenants = PartitionedRateLimiter.create(
      (tenant: string) =>
        RateLimitPartition.getFixedWindowLimiter(tenant, () => ({ ...day, permitLimit: 1 })),
      { clock },
    );
    const chain = PartitionedRateLimiter.createChained(global, tenants);
    expect((await ask(chain, 1, "acme")).isAcquired).toBe(true);
    for (let i = 0; i < 20; i++) {
      const refused = await ask(chain, 1, "acme");
      expect([refused.reason, refused.retryAfterMs]).toEqual(["limit_reached", 86_400_000]);
      expect(show(global.peekStatistics("acme"))).toMatch(/^2\//);
    }
    expect((await ask(chain, 1, "other")).isAcquired).toBe(true);
  });

  it("R-CHAIN-5 gives back when a later partitioner or factory throws, or a later limiter is disposed", async () => {
    const first = concurrency(2);
    const clock = new ManualClock();
    const throwing = [
      PartitionedRateLimiter.create(
        (): RateLimitPartition<string> => {
          throw E;
        },
        { clock },
      ),
      PartitionedRateLimiter.create(
        () =>
          RateLimitPartition.get("k", () => {
            throw E;
          }),
        { clock },
      ),
    ];
    for (const second of throwing) {
      expect(await errorOf(() => ask(PartitionedRateLimiter.createChained(around(first), second)))).toBe(E);
      expect(free(first)).toBe("2");
    }
    const disposed = around(concurrency(2));
    disposed.dispose();
    const chain = PartitionedRateLimiter.createChained(around(first), disposed);
    expect(await errorOf(() => ask(chain))).toBeInstanceOf(LimiterDisposedError);
    expect(free(first)).toBe("2");
  });

  it("R-PART-1 checks the count before any limiter is asked", async () => {
    const { limiter, log, made } = stubbed<string>();
    const chain = PartitionedRateLimiter.createChained(limiter);
    expect(await errorOf(() => ask(chain, -1))).toBeInstanceOf(RangeError);
    expect(await errorOf(() => ask(chain, "1" as never))).toBeInstanceOf(TypeError);
    expect([log, made]).toEqual([[], []]);
  });

  it("R-CHAIN-16 takes from and gives back to the limiters of a chain in a chain", async () => {
    const limiters = [concurrency(4), concurrency(3), concurrency(2)] as const;
    const [a, b, c] = limiters;
    const chain = PartitionedRateLimiter.createChained(around(a), chainOf(b, c));
    const lease = await ask(chain, 2);
    expect((await ask(chain, 2)).isAcquired).toBe(false);
    expect(free(...limiters)).toBe("2,1,0");
    lease.dispose();
    expect(free(...limiters)).toBe("4,3,2");
  });
});

describe("waiting in a chain of partitioned limiters", () => {
  it("T-PCHAIN-38 rejects with the signal's reason when a waiting caller leaves", async () => {
    const chain = chainOf(concurrency(1, 1));
    chain.attemptAcquire("r");
    const caller = new CountingController();
    const waiting = watch(chain.acquire("r", 1, { signal: caller.signal }));
    caller.abort(E);
    await flush();
    expect([waiting.reason, caller.listeners]).toEqual([E, 0]);
  });

  it("T-PCHAIN-39 gives back what it took while it waited when the caller leaves", async () => {
    const first = concurrency(2);
    const chain = chainOf(first, concurrency(1, 1));
    chain.attemptAcquire("r");
    const caller = new AbortController();
    const waiting = watch(chain.acquire("r", { signal: caller.signal }));
    expect(free(first)).toBe("0");
    caller.abort(E);
    await flush();
    expect([waiting.reason, free(first)]).toEqual([E, "1"]);
  });

  it("T-PCHAIN-40 does not ask the next limiter before the one before it has granted", async () => {
    const second = concurrency(1);
    const chain = chainOf(concurrency(1, 1), second);
    const held = chain.attemptAcquire("r");
    const waiting = watch(chain.acquire("r"));
    await flush();
    expect([waiting.state, show(second.getStatistics())]).toEqual(["pending", "0/0/0/1"]);
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("R-PART-1 asks no limiter for a caller who has left already", async () => {
    const { limiters, log } = stubs({}, {});
    const signal = AbortSignal.abort(E);
    expect(await errorOf(() => chainOf(...limiters).acquire("r", { signal }))).toBe(E);
    expect(log).toEqual([]);
  });

  it("C-2 bounds the wait in all limiters together by maxWaitMs", async () => {
    const outer = concurrencyByKey(1, { queueLimit: 1 });
    const { clock } = outer;
    const inner = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1, queueLimit: 1, clock })),
      { clock },
    );
    const held = outer.limiter.attemptAcquire("r");
    inner.attemptAcquire("r");
    const chain = PartitionedRateLimiter.createChained(outer.limiter, inner);
    const waiting = watch(chain.acquire("r", 1, { maxWaitMs: 100 }));
    clock.advance(60);
    held.dispose();
    await flush();
    expect(show(inner.peekStatistics("r"))).toBe("0/1/0/1");
    clock.advance(40);
    await flush();
    expect(waiting.state).toBe("fulfilled");
    expect(waiting.value.reason).toBe("queue_timeout");
    expect(show(outer.limiter.peekStatistics("r"))).toBe("1/0/0/2");
  });
});

describe("the lease of a chain of partitioned limiters", () => {
  it("T-PCHAIN-41 disposes the later lease before the earlier one, once", () => {
    const { limiters, log } = stubs({}, {});
    const lease = chainOf(...limiters).attemptAcquire("r");
    for (let i = 0; i < 3; i++) lease.dispose();
    expect(log.slice(2)).toEqual(["b lease dispose", "a lease dispose"]);
  });

  it.each([
    [
      "T-PCHAIN-44 has the metadata of all leases",
      { 3: "three", 4: 4 },
      ["1=one", "2=two", "3=three", "4=4"],
    ],
    [
      "T-PCHAIN-45 takes a name from the first lease that has it",
      { 1: "other", 3: 3 },
      ["1=one", "2=two", "3=3"],
    ],
  ])("%s", (_, metadata, expected) => {
    const { limiters } = stubs({ metadata: { 1: "one", 2: "two" } }, { metadata });
    const lease = chainOf(...limiters).attemptAcquire("r");
    expect([...lease.metadataNames].map((name) => `${name}=${lease.tryGetMetadata(name)}`)).toEqual(expected);
  });

  it("C-19 passes report, adjust and refund on to all leases", () => {
    const { limiters, log } = stubs({}, {});
    const lease = chainOf(...limiters).attemptAcquire("r", 2);
    lease.report("failure");
    lease.adjust(3);
    lease.refund();
    expect(log.slice(2).map((line) => line.replace("lease ", ""))).toEqual([
      ...["a report failure", "b report failure", "a adjust 3", "b adjust 3"],
      ...["b adjust 0", "b dispose", "a adjust 0", "a dispose"],
    ]);
  });
});
