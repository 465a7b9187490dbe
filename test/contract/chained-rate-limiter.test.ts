import {
  type AcquireOptions,
  type ChainedRateLimiter,
  ConcurrencyLimiter,
  type LeaseOutcome,
  LimiterDisposedError,
  NoLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  RateLimitLease,
  ReplenishingRateLimiter,
} from "headgate";
import { describe, expect, it, vi } from "vitest";
import { requestWith } from "../../src/internal.js";
import { CountingController, flush, ManualClock, watch } from "../support.js";

// Section 2.10 and table 3.5 of spec/system-threading-ratelimiting.md, with the give-back of design.md C-19.

/** What a limiter written by a user does. */
interface Plan {
  readonly refuses?: boolean;
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Thrown instead of an answer. */
  readonly error?: unknown;
  /** Thrown by these methods of its leases. */
  readonly leaseErrors?: { readonly dispose?: unknown; readonly report?: unknown; readonly adjust?: unknown };
  readonly waits?: boolean;
  readonly statistics?: RateLimiterStatistics;
  readonly idleMs?: number;
  readonly periodMs?: number;
  readonly auto?: boolean;
  readonly replenishError?: unknown;
}

/** A lease written by a user: writes down what happens to it. */
class UserLease extends RateLimitLease {
  readonly #name: string;
  readonly #log: string[];
  readonly #plan: Plan;

  constructor(name: string, log: string[], plan: Plan) {
    super();
    this.#name = name;
    this.#log = log;
    this.#plan = plan;
  }

  override get isAcquired(): boolean {
    return this.#plan.refuses !== true;
  }

  override get metadataNames(): string[] {
    return Object.keys(this.#plan.metadata ?? {});
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.#plan.metadata?.[name];
  }

  override report(outcome: LeaseOutcome): void {
    this.#note("report", ` ${outcome}`);
  }

  override adjust(actualPermits: number): void {
    this.#note("adjust", ` ${actualPermits}`);
  }

  override dispose(): void {
    this.#note("dispose");
  }

  #note(what: "report" | "adjust" | "dispose", detail = ""): void {
    this.#log.push(`${this.#name} ${what}${detail}`);
    const error = this.#plan.leaseErrors?.[what];
    if (error !== undefined) throw error;
  }
}

/** A replenishing limiter written by a user. */
class UserLimiter extends ReplenishingRateLimiter {
  readonly #name: string;
  readonly #log: string[];
  readonly #plan: Plan;
  /** Lets a caller that waits go on. */
  release: () => void = () => {};

  constructor(name: string, log: string[], plan: Plan = {}) {
    super();
    this.#name = name;
    this.#log = log;
    this.#plan = plan;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    this.#log.push(`${this.#name} attempt ${permitCount}`);
    return this.#answer();
  }

  protected override acquireCore(
    permitCount: number,
    { maxWaitMs, signal }: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    const wait = maxWaitMs === undefined ? "" : ` within ${maxWaitMs}`;
    this.#log.push(`${this.#name} acquire ${permitCount}${wait}${signal === undefined ? "" : " abortable"}`);
    if (this.#plan.waits !== true) return this.#answer();
    return new Promise<void>((resolve) => {
      this.release = resolve;
    }).then(() => this.#answer());
  }

  #answer(): RateLimitLease {
    if (this.#plan.error !== undefined) throw this.#plan.error;
    return new UserLease(this.#name, this.#log, this.#plan);
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#plan.statistics;
  }

  override get idleDurationMs(): number | undefined {
    return this.#plan.idleMs;
  }

  override get replenishmentPeriodMs(): number {
    return this.#plan.periodMs ?? 0;
  }

  override get isAutoReplenishing(): boolean {
    return this.#plan.auto ?? false;
  }

  override tryReplenish(): boolean {
    this.#log.push(`${this.#name} tryReplenish`);
    if (this.#plan.replenishError !== undefined) throw this.#plan.replenishError;
    return !this.isAutoReplenishing;
  }
}

/** Limiters written by a user, named a, b, c…, that share one log. */
function userLimiters(...plans: Plan[]): {
  limiters: UserLimiter[];
  log: string[];
  chain: ChainedRateLimiter;
} {
  const log: string[] = [];
  const limiters = plans.map((plan, i) => new UserLimiter("abc".charAt(i), log, plan));
  return { limiters, log, chain: RateLimiter.createChained(...limiters) };
}

const clock = new ManualClock();

function concurrency(permitLimit: number, queueLimit = 0): ConcurrencyLimiter {
  return new ConcurrencyLimiter({ permitLimit, queueLimit, clock });
}

/** A concurrency limiter that has nothing left. */
function full(): ConcurrencyLimiter {
  const limiter = concurrency(1);
  limiter.attemptAcquire();
  return limiter;
}

function available(...limiters: RateLimiter[]): (number | undefined)[] {
  return limiters.map((limiter) => limiter.getStatistics()?.currentAvailablePermits);
}

/** "available/queued/failed/successful". */
function numbers(limiter: RateLimiter): string {
  const now = limiter.getStatistics();
  return `${now?.currentAvailablePermits}/${now?.currentQueuedCount}/${now?.totalFailedLeases}/${now?.totalSuccessfulLeases}`;
}

/** What `acquire` and `attemptAcquire` have in common. */
type Ask = (limiter: RateLimiter, permitCount?: number) => Promise<RateLimitLease>;
const attempt: Ask = async (limiter, permitCount) => limiter.attemptAcquire(permitCount);
const acquire: Ask = (limiter, permitCount) => limiter.acquire(permitCount);

/** What a call throws, or its promise rejects with. */
async function errorOf(action: () => unknown): Promise<unknown> {
  try {
    await action();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

async function errorsOf(action: () => unknown): Promise<readonly unknown[]> {
  const error = await errorOf(action);
  expect(error).toBeInstanceOf(AggregateError);
  return (error as AggregateError).errors;
}

const E = new Error("E");
const F = new Error("F");
const G = new Error("G");

describe("making a chain", () => {
  it("T-CHAIN-01 R-CHAIN-1 throws when there is nothing to chain", () => {
    expect(() => RateLimiter.createChained()).toThrow(TypeError);
    expect(() => RateLimiter.createChained()).toThrow(/limiters/);
    expect(() => RateLimiter.createChained([] as never)).toThrow(TypeError);
  });

  it.each([
    ["null", null],
    ["undefined", undefined],
    ["something that is no limiter", { attemptAcquire: () => true }],
  ])("T-CHAIN-02 throws when it is given %s", (_, value) => {
    expect(() => RateLimiter.createChained(value as never)).toThrow(TypeError);
    expect(() => RateLimiter.createChained(concurrency(1), value as never)).toThrow(/^limiters\[1\]/);
  });

  it("T-CHAIN-05 takes no notice of later changes of the list", () => {
    const list = [concurrency(1)];
    const chain = Reflect.apply(RateLimiter.createChained, RateLimiter, list) as RateLimiter;
    const [first] = list;
    list[0] = full();
    expect(chain.attemptAcquire().isAcquired).toBe(true);
    expect(first && available(first)).toEqual([0]);
  });

  it("T-CHAIN-45 R-CHAIN-2 is a replenishing limiter exactly when one of its limiters is", () => {
    const { limiters } = userLimiters({});
    expect(RateLimiter.createChained(concurrency(1), new NoLimiter())).not.toBeInstanceOf(
      ReplenishingRateLimiter,
    );
    const mixed = RateLimiter.createChained(concurrency(1), ...limiters);
    expect(mixed).toBeInstanceOf(ReplenishingRateLimiter);
    expect(RateLimiter.createChained(mixed)).toBeInstanceOf(ReplenishingRateLimiter);
  });
});

describe.each<[string, () => RateLimiter[]]>([
  ["of two concurrency limiters", () => [concurrency(2), concurrency(1)]],
  ["with a limiter that replenishes", () => [concurrency(1), ...userLimiters({}).limiters]],
])("a disposed chain %s", (_, limiters) => {
  it.each<[string, (chain: RateLimiter) => unknown]>([
    ["T-CHAIN-03 fails after dispose", (chain) => chain.dispose()],
    ["T-CHAIN-04 fails after asyncDispose", (chain) => chain[Symbol.asyncDispose]()],
    [
      "R-CHAIN-13 fails after any number of disposes",
      async (chain) => {
        chain[Symbol.dispose]();
        await chain.disposeAsync();
        chain.dispose();
      },
    ],
  ])("%s", async (__, dispose) => {
    const chain = RateLimiter.createChained(...limiters());
    await dispose(chain);
    expect(() => chain.attemptAcquire()).toThrow(LimiterDisposedError);
    expect(() => chain.getStatistics()).toThrow(LimiterDisposedError);
    expect(() => chain.idleDurationMs).toThrow(LimiterDisposedError);
    expect(await errorOf(() => chain.acquire())).toBeInstanceOf(LimiterDisposedError);
    if (chain instanceof ReplenishingRateLimiter) {
      expect(() => chain.tryReplenish()).toThrow(LimiterDisposedError);
    }
  });

  it("T-CHAIN-49 R-CHAIN-13 leaves its limiters usable", () => {
    const children = limiters();
    const chain = RateLimiter.createChained(...children);
    chain.dispose();
    expect(children.map((child) => child.attemptAcquire().isAcquired)).toEqual([true, true]);
  });

  it("R-CHAIN-15 complains of a malformed count first, then of the aborted signal, then of being disposed", async () => {
    const chain = RateLimiter.createChained(...limiters());
    chain.dispose();
    const signal = AbortSignal.abort(E);
    expect(() => chain.attemptAcquire(-1)).toThrow(RangeError);
    expect(await errorOf(() => chain.acquire(-1, { signal }))).toBeInstanceOf(RangeError);
    expect(await errorOf(() => chain.acquire(1, { signal }))).toBe(E);
  });
});

describe("statistics and idle time", () => {
  const three = () => {
    const limits = [34, 22, 13];
    const queues = [4, 2, 10];
    return limits.map(
      (permitLimit, i) =>
        new ConcurrencyLimiter({
          permitLimit,
          queueLimit: queues[i],
          queueProcessingOrder: "newestFirst",
          clock,
        }),
    );
  };

  it("T-CHAIN-06 shows the fewest available permits and nothing else at first", () => {
    expect(numbers(RateLimiter.createChained(...three()))).toBe("13/0/0/0");
  });

  it("T-CHAIN-07 shows what a single limiter shows", () => {
    expect(numbers(RateLimiter.createChained(concurrency(34)))).toBe("34/0/0/0");
  });

  it("T-CHAIN-08 gives a new snapshot each time", () => {
    const chain = RateLimiter.createChained(...three());
    const before = chain.getStatistics();
    chain.attemptAcquire(10);
    expect(chain.getStatistics()).not.toBe(before);
    expect(before?.currentAvailablePermits).toBe(13);
  });

  it("T-CHAIN-09 shows sums of what waits and fails, and the last limiter's successes", async () => {
    const chain = RateLimiter.createChained(...three());
    const held = chain.attemptAcquire(10);
    expect(numbers(chain)).toBe("3/0/0/1");
    expect(chain.attemptAcquire(10).isAcquired).toBe(false);
    expect(numbers(chain)).toBe("3/0/1/1");
    const waiting = watch(chain.acquire(10));
    expect(numbers(chain)).toBe("2/10/1/1");
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(numbers(chain)).toBe("3/0/1/2");
  });

  it("R-CHAIN-11 adds up all queues and all failures, and skips limiters without statistics", () => {
    const busy = (queued: number, failed: number): RateLimiterStatistics => ({
      currentAvailablePermits: 9,
      currentQueuedCount: queued,
      totalFailedLeases: failed,
      totalSuccessfulLeases: queued * 100,
    });
    const { chain } = userLimiters({ statistics: busy(1, 10) }, { statistics: busy(2, 20) }, {});
    expect(numbers(chain)).toBe("9/3/30/200");
  });

  it("R-CHAIN-11 is unlimited when none of its limiters has statistics", () => {
    expect(numbers(userLimiters({}, {}).chain)).toBe(`${Number.MAX_SAFE_INTEGER}/0/0/0`);
  });

  it("T-CHAIN-10 R-CHAIN-12 has been idle as long as the limiter that was used last", () => {
    expect(userLimiters({ idleMs: 3 }, { idleMs: 2 }).chain.idleDurationMs).toBe(2);
  });

  it("T-CHAIN-10 R-CHAIN-12 is in use while one of its limiters is", () => {
    expect(userLimiters({ idleMs: 3 }, {}, { idleMs: 2 }).chain.idleDurationMs).toBeUndefined();
    expect(RateLimiter.createChained(concurrency(1)).idleDurationMs).toBe(0);
    expect(RateLimiter.createChained(concurrency(1), full()).idleDurationMs).toBeUndefined();
    expect(RateLimiter.createChained(concurrency(1), new NoLimiter()).idleDurationMs).toBeUndefined();
  });
});

describe.each([
  { ask: attempt, verb: "attempt", rows: [11, 13, 15, 17, 19, 21, 35] },
  { ask: acquire, verb: "acquire", rows: [12, 14, 16, 18, 20, 22, 36] },
])("taking permits by $verb", ({ ask, verb, rows }) => {
  const [single, several, disposal, singleDisposal, refusal, releases, counts] = rows;

  it(`T-CHAIN-${single} asks a single limiter once`, async () => {
    const { chain, log } = userLimiters({});
    expect((await ask(chain)).isAcquired).toBe(true);
    expect(log).toEqual([`a ${verb} 1`]);
  });

  it(`T-CHAIN-${several} R-CHAIN-3 asks each of several limiters once, in order`, async () => {
    const { chain, log } = userLimiters({}, {});
    expect((await ask(chain)).isAcquired).toBe(true);
    expect(log).toEqual([`a ${verb} 1`, `b ${verb} 1`]);
  });

  it(`T-CHAIN-${disposal} gives back to each limiter when the lease is disposed`, async () => {
    const limiters = [concurrency(1), concurrency(1)];
    const lease = await ask(RateLimiter.createChained(...limiters));
    expect(available(...limiters)).toEqual([0, 0]);
    lease.dispose();
    expect(available(...limiters)).toEqual([1, 1]);
  });

  it(`T-CHAIN-${singleDisposal} gives back to a single limiter when the lease is disposed`, async () => {
    const limiter = concurrency(1);
    const lease = await ask(RateLimiter.createChained(limiter));
    expect(available(limiter)).toEqual([0]);
    lease.dispose();
    expect(available(limiter)).toEqual([1]);
  });

  it(`T-CHAIN-${refusal} refuses when a later limiter has too little, after asking the earlier one`, async () => {
    const { limiters, log } = userLimiters({});
    const refused = await ask(RateLimiter.createChained(...limiters, full()));
    expect(refused.isAcquired).toBe(false);
    expect(log.filter((line) => line.includes(verb))).toEqual([`a ${verb} 1`]);
  });

  it(`T-CHAIN-${releases} gives back what earlier limiters gave when a later one refuses`, async () => {
    const first = concurrency(1);
    const refused = await ask(RateLimiter.createChained(first, full()));
    expect(refused.isAcquired).toBe(false);
    expect(available(first)).toEqual([1]);
  });

  it(`T-CHAIN-${counts} R-CHAIN-3 asks each limiter for the same number of permits`, async () => {
    const limiters = [concurrency(5), concurrency(3)];
    const lease = await ask(RateLimiter.createChained(...limiters), 3);
    expect(available(...limiters)).toEqual([2, 0]);
    lease.dispose();
    expect(available(...limiters)).toEqual([5, 3]);
  });
});

describe.each([
  { ask: attempt, verb: "attempt", rows: [23, 25, 27, 29, 31, 33, 41] },
  { ask: acquire, verb: "acquire", rows: [24, 26, 28, 30, 32, 34, 42] },
])("errors while taking permits by $verb", ({ ask, rows }) => {
  const [releases, single, disposeError, disposeErrors, allErrors, successError, order] = rows;
  const throwsOnDispose = (error: unknown): Plan => ({ leaseErrors: { dispose: error } });

  it(`T-CHAIN-${releases} R-CHAIN-5 gives back what it has when a later limiter throws, and throws that error itself`, async () => {
    const first = concurrency(1);
    const chain = RateLimiter.createChained(first, ...userLimiters({ error: E }).limiters);
    expect(await errorOf(() => ask(chain))).toBe(E);
    expect(available(first)).toEqual([1]);
  });

  it(`T-CHAIN-${single} throws the error of a single limiter as it is`, async () => {
    expect(await errorOf(() => ask(userLimiters({ error: E }).chain))).toBe(E);
  });

  it(`T-CHAIN-${disposeError} throws an AggregateError of what giving back threw, after a refusal`, async () => {
    const chain = RateLimiter.createChained(...userLimiters(throwsOnDispose(E)).limiters, full());
    expect(await errorsOf(() => ask(chain))).toEqual([E]);
  });

  it(`T-CHAIN-${disposeErrors} R-CHAIN-6 collects all that giving back threw, last limiter first`, async () => {
    const { limiters } = userLimiters(throwsOnDispose(E), throwsOnDispose(F));
    const chain = RateLimiter.createChained(...limiters, full());
    expect(await errorsOf(() => ask(chain))).toEqual([F, E]);
  });

  it(`T-CHAIN-${allErrors} R-CHAIN-6 puts the error that caused it last, and nests nothing`, async () => {
    const { chain } = userLimiters(throwsOnDispose(E), throwsOnDispose(F), { error: G });
    expect(await errorsOf(() => ask(chain))).toEqual([F, E, G]);
  });

  it(`T-CHAIN-${successError} R-CHAIN-8 disposes all leases even when one throws, and then says so`, async () => {
    const last = concurrency(1);
    const chain = RateLimiter.createChained(...userLimiters(throwsOnDispose(E)).limiters, last);
    const lease = await ask(chain);
    expect(lease.isAcquired).toBe(true);
    expect(available(last)).toEqual([0]);
    expect(await errorsOf(() => lease.dispose())).toEqual([E]);
    expect(available(last)).toEqual([1]);
    lease.dispose();
    expect(available(last)).toEqual([1]);
  });

  it(`T-CHAIN-${order} disposes the later lease before the earlier one when a limiter throws`, async () => {
    const { chain, log } = userLimiters({}, {}, { error: E });
    expect(await errorOf(() => ask(chain))).toBe(E);
    expect(log.filter((line) => line.includes("dispose"))).toEqual(["b dispose", "a dispose"]);
  });

  it("R-CHAIN-5 passes on that a limiter has been disposed, or that the count is above its limit", async () => {
    const first = concurrency(2);
    const disposed = concurrency(2);
    disposed.dispose();
    const late = await errorOf(() => ask(RateLimiter.createChained(first, disposed)));
    expect(late).toBeInstanceOf(LimiterDisposedError);
    const large = await errorOf(() => ask(RateLimiter.createChained(first, concurrency(1)), 2));
    expect(large).toBeInstanceOf(RangeError);
    expect(available(first)).toEqual([2]);
  });
});

describe("waiting", () => {
  it("T-CHAIN-37 rejects with the signal's reason when a waiting caller leaves", async () => {
    const chain = RateLimiter.createChained(concurrency(1, 1));
    chain.attemptAcquire();
    const caller = new AbortController();
    const waiting = watch(chain.acquire(1, { signal: caller.signal }));
    caller.abort(E);
    await flush();
    expect(waiting.reason).toBe(E);
    expect(numbers(chain)).toBe("0/0/0/1");
  });

  it("T-CHAIN-38 gives back what it took while it waited when the caller leaves", async () => {
    const first = concurrency(2);
    const second = concurrency(1, 1);
    const chain = RateLimiter.createChained(first, second);
    chain.attemptAcquire();
    expect(available(first)).toEqual([1]);
    const caller = new CountingController();
    const waiting = watch(chain.acquire(1, { signal: caller.signal }));
    expect(available(first)).toEqual([0]);
    caller.abort(E);
    await flush();
    expect(waiting.reason).toBe(E);
    expect(available(first)).toEqual([1]);
    expect(caller.listeners).toBe(0);
  });

  it("T-CHAIN-39 R-CHAIN-3 does not ask the next limiter before the one before it has granted", async () => {
    const second = concurrency(1);
    const chain = RateLimiter.createChained(concurrency(1, 1), second);
    const held = chain.attemptAcquire();
    const waiting = watch(chain.acquire());
    await flush();
    expect(waiting.state).toBe("pending");
    expect(numbers(second)).toBe("0/0/0/1");
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("R-CHAIN-9 has the inner permit back before the outer one admits the next caller", async () => {
    const outer = concurrency(1, 3);
    const inner = concurrency(1);
    const chain = RateLimiter.createChained(outer, inner);
    const held = chain.attemptAcquire();
    const waiting = [watch(chain.acquire()), watch(chain.acquire())];
    held.dispose();
    await flush();
    expect(waiting.map(({ state }) => state)).toEqual(["fulfilled", "pending"]);
    waiting[0]?.value.dispose();
    await flush();
    expect(waiting[1]?.value.isAcquired).toBe(true);
    expect(numbers(inner)).toBe("0/0/0/3");
  });

  it("R-CHAIN-4 gives back after a wait too, and returns the very lease of the limiter that refused", async () => {
    const { limiters, log } = userLimiters({ waits: true }, { refuses: true, metadata: { RETRY_AFTER: 7 } });
    const waiting = watch(RateLimiter.createChained(...limiters).acquire());
    await flush();
    expect(log).toEqual(["a acquire 1"]);
    limiters[0]?.release();
    await flush();
    expect(waiting.value.isAcquired).toBe(false);
    expect(waiting.value.retryAfterMs).toBe(7);
    expect(log.slice(1)).toEqual(["b acquire 1", "a report ignored", "a adjust 0", "a dispose"]);
  });

  it("C-19 gives back when the limiter that made it wait rejects", async () => {
    const first = concurrency(1);
    const { limiters } = userLimiters({ waits: true, error: E });
    const waiting = watch(RateLimiter.createChained(first, ...limiters).acquire());
    expect(available(first)).toEqual([0]);
    limiters[0]?.release();
    await flush();
    expect(waiting.reason).toBe(E);
    expect(available(first)).toEqual([1]);
  });

  it("C-19 gives back when the caller leaves between two limiters, and asks no more of them", async () => {
    const [first, last] = [concurrency(1), concurrency(1)];
    const { limiters } = userLimiters({ waits: true });
    const caller = new AbortController();
    const waiting = watch(
      RateLimiter.createChained(first, ...limiters, last).acquire(1, { signal: caller.signal }),
    );
    // A limiter that a user wrote answers by a promise, so its answer comes a moment later.
    limiters[0]?.release();
    caller.abort(E);
    await flush();
    expect(waiting.reason).toBe(E);
    expect(numbers(last)).toBe("1/0/0/0");
    expect(available(first)).toEqual([1]);
  });

  it("C-17 C-19 goes on in the turn of the hand-over, so that nobody slips in and nothing is held in vain", () => {
    const [first, middle, last] = [concurrency(2), concurrency(1, 2), concurrency(1)];
    const chain = RateLimiter.createChained(first, middle, last);
    const held = middle.attemptAcquire();
    watch(chain.acquire());
    expect(available(first, middle, last)).toEqual([1, 0, 1]);
    held.dispose();
    expect(available(first, middle, last)).toEqual([1, 0, 0]);
  });

  it("C-19 gives back at the moment of the abort, and of a refusal that comes late", async () => {
    const [first, middle, last] = [concurrency(2), concurrency(1, 2), full()];
    const chain = RateLimiter.createChained(first, middle, last);
    const held = middle.attemptAcquire();
    const caller = new AbortController();
    const leaving = watch(chain.acquire(1, { signal: caller.signal }));
    const refused = watch(chain.acquire());
    expect(available(first)).toEqual([0]);
    caller.abort(E);
    expect(available(first)).toEqual([1]);
    held.dispose();
    expect(available(first, middle)).toEqual([2, 1]);
    await flush();
    expect([leaving.reason, refused.value.isAcquired]).toEqual([E, false]);
  });

  it("R-CORE-20 keeps a lease that the last limiter granted before the caller left", async () => {
    const first = concurrency(2);
    const last = concurrency(1, 1);
    const chain = RateLimiter.createChained(first, last);
    const held = chain.attemptAcquire();
    const caller = new AbortController();
    const waiting = watch(chain.acquire(1, { signal: caller.signal }));
    held.dispose();
    caller.abort();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    waiting.value.dispose();
    expect(available(first, last)).toEqual([2, 1]);
  });

  it("R-CHAIN-3 hands the signal on to each limiter", async () => {
    const { chain, log } = userLimiters({}, {});
    await chain.acquire(1, { signal: new AbortController().signal });
    expect(log).toEqual(["a acquire 1 abortable", "b acquire 1 abortable"]);
  });

  it("R-JS-2 takes from all limiters before acquire returns when nobody has to wait", () => {
    const limiters = [concurrency(2), concurrency(1)];
    const waiting = watch(RateLimiter.createChained(...limiters).acquire());
    expect(available(...limiters)).toEqual([1, 0]);
    expect(waiting.state).toBe("pending");
  });

  it("R-CHAIN-13 lets a caller who waits already have its lease when the chain is disposed", async () => {
    const limiters = [concurrency(1, 1), concurrency(1)];
    const chain = RateLimiter.createChained(...limiters);
    const held = chain.attemptAcquire();
    const waiting = watch(chain.acquire());
    chain.dispose();
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    waiting.value.dispose();
    expect(available(...limiters)).toEqual([1, 1]);
  });
});

describe.each([
  { ask: attempt, verb: "attempt" },
  { ask: acquire, verb: "acquire" },
])("giving back after an $verb", ({ ask, verb }) => {
  const asked = (...names: string[]): string[] => names.map((name) => `${name} ${verb} 2`);
  const returned = (name: string): string[] => [
    `${name} report ignored`,
    `${name} adjust 0`,
    `${name} dispose`,
  ];

  it("C-19 R-CHAIN-4 refunds the earlier leases, the last first, and does not touch the refusal", async () => {
    const { chain, log } = userLimiters({}, {}, { refuses: true });
    const refused = await ask(chain, 2);
    expect(refused).toBeInstanceOf(UserLease);
    expect(log).toEqual([...asked("a", "b", "c"), ...returned("b"), ...returned("a")]);
  });

  it("C-19 refunds the earlier leases, the last first, when a limiter throws", async () => {
    const { chain, log } = userLimiters({}, {}, { error: E });
    expect(await errorOf(() => ask(chain, 2))).toBe(E);
    expect(log).toEqual([...asked("a", "b", "c"), ...returned("b"), ...returned("a")]);
  });

  it.each(["report", "adjust"])(
    "C-19 design 4.6 gives a lease back even when its %s throws",
    async (method) => {
      const { chain, log } = userLimiters({}, { leaseErrors: { [method]: E } }, { refuses: true });
      expect(await errorsOf(() => ask(chain, 2))).toEqual([E]);
      expect(log.filter((line) => line.includes("dispose"))).toEqual(["b dispose", "a dispose"]);
    },
  );

  it("C-19 design 4.6 gives back when a limiter has a bug and answers with nothing", async () => {
    const first = concurrency(2);
    class Buggy extends NoLimiter {
      protected override attemptAcquireCore(): RateLimitLease {
        return undefined as never;
      }
    }
    const chain = RateLimiter.createChained(first, new Buggy());
    expect(await errorOf(() => ask(chain, 2))).toBeInstanceOf(TypeError);
    expect(available(first)).toEqual([2]);
  });

  it("R-CHAIN-10 D-9 (C-19) leaves the refused caller uncharged however often it asks", async () => {
    const first = concurrency(10);
    const chain = RateLimiter.createChained(first, full());
    for (let i = 0; i < 50; i++) expect((await ask(chain)).isAcquired).toBe(false);
    expect(numbers(first)).toBe("10/0/0/50");
  });
});

describe("the lease of a chain", () => {
  it("T-CHAIN-40 disposes the later lease before the earlier one, once", () => {
    const { chain, log } = userLimiters({}, {});
    const lease = chain.attemptAcquire();
    lease.dispose();
    lease.dispose();
    lease[Symbol.dispose]();
    expect(log.slice(2)).toEqual(["b dispose", "a dispose"]);
    expect(lease.isAcquired).toBe(true);
  });

  it("T-CHAIN-43 R-CHAIN-7 has the metadata of all leases", () => {
    const { chain } = userLimiters({ metadata: { 1: "one", 2: 2 } }, { metadata: { 3: true, 4: "four" } });
    const lease = chain.attemptAcquire();
    expect([...lease.metadataNames]).toEqual(["1", "2", "3", "4"]);
    expect(new Map(lease.getAllMetadata())).toEqual(
      new Map<string, unknown>([
        ["1", "one"],
        ["2", 2],
        ["3", true],
        ["4", "four"],
      ]),
    );
  });

  it("T-CHAIN-44 R-CHAIN-7 lists a name once, and takes its value from the first lease that has one", () => {
    const { chain } = userLimiters(
      { metadata: { 1: "first", 5: undefined } },
      { metadata: { 1: "second", 3: "three", 5: "five" } },
    );
    const lease = chain.attemptAcquire();
    expect([...lease.metadataNames].sort()).toEqual(["1", "3", "5"]);
    expect(["1", "3", "5", "6"].map((name) => lease.tryGetMetadata(name))).toEqual([
      "first",
      "three",
      "five",
      undefined,
    ]);
  });

  it("R-CHAIN-8 has no metadata any more once it is disposed", () => {
    const lease = userLimiters({ metadata: { 1: "one" } }).chain.attemptAcquire();
    expect(lease.tryGetMetadata("1")).toBe("one");
    lease.dispose();
    expect([...lease.metadataNames]).toEqual([]);
    expect(lease.tryGetMetadata("1")).toBeUndefined();
    expect(lease.isAcquired).toBe(true);
  });

  it("R-CHAIN-8 collects what all of its leases throw at dispose, last limiter first, and then is disposed", async () => {
    const { chain, log } = userLimiters({ leaseErrors: { dispose: E } }, {}, { leaseErrors: { dispose: F } });
    const lease = chain.attemptAcquire();
    expect(await errorsOf(() => lease.dispose())).toEqual([F, E]);
    lease.dispose();
    expect(log.slice(3)).toEqual(["c dispose", "b dispose", "a dispose"]);
  });

  it("C-19 passes report and adjust on to all leases", () => {
    const { chain, log } = userLimiters({}, {});
    const lease = chain.attemptAcquire(2);
    lease.report("dropped");
    lease.adjust(5);
    expect(log.slice(2)).toEqual(["a report dropped", "b report dropped", "a adjust 5", "b adjust 5"]);
  });

  it("C-19 passes refund on to all leases, the last first, and is disposed then", () => {
    const { chain, log } = userLimiters({}, {});
    const lease = chain.attemptAcquire(2);
    lease.refund();
    lease.refund();
    lease.dispose();
    expect(log.slice(2)).toEqual(["b adjust 0", "b dispose", "a adjust 0", "a dispose"]);
  });

  it("C-7 takes no report and no adjustment once it is disposed", () => {
    const { chain, log } = userLimiters({}, {});
    const lease = chain.attemptAcquire();
    lease.dispose();
    const before = [...log];
    lease.report("success");
    lease.adjust(3);
    expect(log).toEqual(before);
  });

  it("C-7 changes how many permits are held in each concurrency limiter", () => {
    const limiters = [concurrency(5), concurrency(4)];
    const lease = RateLimiter.createChained(...limiters).attemptAcquire(3);
    lease.adjust(1);
    expect(available(...limiters)).toEqual([4, 3]);
    lease.adjust(4);
    expect(available(...limiters)).toEqual([1, 0]);
    lease.refund();
    expect(available(...limiters)).toEqual([5, 4]);
  });

  it.each([
    ["built-in limiters", () => []],
    ["built-in limiters behind one that a user wrote", () => userLimiters({}).limiters],
  ])("C-7 R-CORE-2 refuses a malformed adjustment and charges nothing, with %s", (_, others) => {
    const limiters = [concurrency(5), concurrency(4)];
    const lease = RateLimiter.createChained(...others(), ...limiters).attemptAcquire(3);
    for (const bad of [Number.NaN, 1.5, -1]) expect(() => lease.adjust(bad)).toThrow(RangeError);
    expect(() => lease.adjust("2" as never)).toThrow(TypeError);
    expect(available(...limiters)).toEqual([2, 1]);
  });
});

describe("replenishing", () => {
  function replenishing(...plans: Plan[]): { chain: ReplenishingRateLimiter; log: string[] } {
    const { limiters, log } = userLimiters(...plans);
    const chain = RateLimiter.createChained(concurrency(1), ...limiters);
    if (!(chain instanceof ReplenishingRateLimiter)) throw new Error("the chain does not replenish");
    return { chain, log };
  }

  it("T-CHAIN-46 R-CHAIN-14 replenishes each limiter in order, as often as the most frequent", () => {
    const { chain, log } = replenishing({ periodMs: 100 }, { periodMs: 50, auto: true });
    expect(chain.isAutoReplenishing).toBe(false);
    expect(chain.replenishmentPeriodMs).toBe(50);
    expect(chain.tryReplenish()).toBe(true);
    expect(log).toEqual(["a tryReplenish", "b tryReplenish"]);
  });

  it("T-CHAIN-47 R-CHAIN-14 replenishes itself when all of its limiters do", () => {
    const { chain } = replenishing({ periodMs: 100, auto: true }, { periodMs: 50, auto: true });
    expect(chain.isAutoReplenishing).toBe(true);
    expect(chain.replenishmentPeriodMs).toBe(50);
    expect(chain.tryReplenish()).toBe(false);
  });

  it("T-CHAIN-48 R-CHAIN-14 replenishes the others when one throws, and then says so", async () => {
    const { chain, log } = replenishing({ replenishError: E }, {});
    expect(await errorsOf(() => chain.tryReplenish())).toEqual([E]);
    expect(log).toEqual(["a tryReplenish", "b tryReplenish"]);
  });

  it("R-CHAIN-14 takes no notice of periods that are not above 0", () => {
    expect(replenishing({ periodMs: 0 }, { periodMs: 70 }).chain.replenishmentPeriodMs).toBe(70);
    expect(replenishing({ periodMs: 0 }, { periodMs: -1 }).chain.replenishmentPeriodMs).toBe(0);
  });

  it("R-CHAIN-14 reads period and mode once, when it is made", () => {
    const plan = { periodMs: 80, auto: true };
    const { chain } = replenishing(plan);
    Object.assign(plan, { periodMs: 5, auto: false });
    expect(chain.replenishmentPeriodMs).toBe(80);
    expect(chain.isAutoReplenishing).toBe(true);
  });

  it("R-CHAIN-2 counts and gives back like any other chain when a limiter replenishes", async () => {
    const last = concurrency(1, 1);
    const { limiters } = userLimiters({ idleMs: 4 });
    const chain = RateLimiter.createChained(...limiters, last);
    expect(chain.idleDurationMs).toBe(0);
    const held = chain.attemptAcquire();
    expect(chain.attemptAcquire().isAcquired).toBe(false);
    const waiting = watch(chain.acquire());
    expect(numbers(chain)).toBe("0/1/1/1");
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });
});

describe("maxWaitMs", () => {
  it("C-2 bounds the wait in all limiters together, by their clock", async () => {
    const limiters = [concurrency(1, 1), concurrency(1, 1)];
    const [outer, inner] = limiters.map((limiter) => limiter.attemptAcquire());
    const waiting = watch(RateLimiter.createChained(...limiters).acquire(1, { maxWaitMs: 100 }));
    clock.advance(60);
    outer?.dispose();
    await flush();
    expect(limiters.map(numbers)).toEqual(["0/0/0/2", "0/1/0/1"]);
    clock.advance(39);
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(waiting.value.reason).toBe("queue_timeout");
    expect(limiters.map(numbers)).toEqual(["1/0/0/2", "0/0/1/1"]);
    inner?.dispose();
    expect(available(...limiters)).toEqual([1, 1]);
    expect(clock.timerCount).toBe(0);
  });

  it.each([
    ["a chain", (...limiters: RateLimiter[]) => RateLimiter.createChained(...limiters)],
    [
      "a chain in a chain",
      (head: RateLimiter, ...tail: RateLimiter[]) =>
        RateLimiter.createChained(RateLimiter.createChained(head), ...tail),
    ],
  ])("C-2 tells each limiter of %s what is left", async (_, makeChain) => {
    const first = concurrency(1, 1);
    const held = first.attemptAcquire();
    const { limiters, log } = userLimiters({});
    const waiting = watch(makeChain(first, ...limiters).acquire(1, { maxWaitMs: 100 }));
    clock.advance(60);
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
    expect(log).toEqual(["a acquire 1 within 40"]);
  });

  it("C-2 measures by the system clock when no limiter has a clock", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    try {
      const { chain, limiters, log } = userLimiters({ waits: true }, {});
      const waiting = watch(chain.acquire(1, { maxWaitMs: 100 }));
      vi.advanceTimersByTime(60);
      limiters[0]?.release();
      await flush();
      expect(waiting.value.isAcquired).toBe(true);
      expect(log).toEqual(["a acquire 1 within 100", "b acquire 1 within 40"]);
    } finally {
      vi.useRealTimers();
    }
  });

  it("C-2 refuses a caller whose deadline has passed, and takes nothing", async () => {
    const limiters = [concurrency(1), concurrency(1)];
    const refused = await RateLimiter.createChained(...limiters).acquire(1, { maxWaitMs: -1 });
    expect(refused.isAcquired).toBe(false);
    expect(refused.reason).toBe("deadline_expired");
    expect(limiters.map(numbers)).toEqual(["1/0/1/0", "1/0/0/0"]);
  });

  it("C-2 does not wait when maxWaitMs is 0", async () => {
    const limiters = [concurrency(1), concurrency(1, 1)];
    const held = limiters[1]?.attemptAcquire();
    const chain = RateLimiter.createChained(...limiters);
    expect((await chain.acquire(1, { maxWaitMs: 0 })).isAcquired).toBe(false);
    expect(limiters.map(numbers)).toEqual(["1/0/0/1", "0/0/1/1"]);
    held?.dispose();
    expect((await chain.acquire(1, { maxWaitMs: 0 })).isAcquired).toBe(true);
  });

  it("C-2 grants what is free with maxWaitMs 0 although time goes by while the limiters are asked", async () => {
    class RunningClock extends ManualClock {
      override now(): number {
        this.set(super.now() + 0.001);
        return super.now();
      }
    }
    const options = { permitLimit: 1, clock: new RunningClock() };
    const limiters = [new ConcurrencyLimiter(options), new ConcurrencyLimiter(options)];
    const lease = await RateLimiter.createChained(...limiters).acquire(1, { maxWaitMs: 0 });
    expect(lease.reason).toBeUndefined();
    expect(lease.isAcquired).toBe(true);
  });
});

describe("a ticket of a chain", () => {
  const sinkOf = () => {
    const told: unknown[] = [];
    const sink = {
      settled: (lease: RateLimitLease) => void told.push(lease),
      failed: (error: unknown) => void told.push(error),
    };
    return { told, sink };
  };

  it.each([
    ["a limiter written by a user", (user: RateLimiter) => user],
    ["a chain", (user: RateLimiter) => RateLimiter.createChained(user, concurrency(1))],
    ["a chain in a chain", (user: RateLimiter) => RateLimiter.createChained(RateLimiter.createChained(user))],
  ])("leaves the lease of a request that is finished, for %s", async (_, wrap) => {
    const { limiters, log } = userLimiters({ waits: true });
    const { told, sink } = sinkOf();
    const ticket = requestWith(wrap(limiters[0] as RateLimiter), 1, {}, sink) as { cancel(): boolean };
    limiters[0]?.release();
    await flush();
    expect(told).toHaveLength(1);
    log.length = 0;
    expect(ticket.cancel()).toBe(false);
    await flush();
    expect(log).toEqual([]);
  });

  it("has nothing to give up once the request has failed", async () => {
    const { limiters, chain } = userLimiters({}, { waits: true, error: E });
    const { told, sink } = sinkOf();
    const ticket = requestWith(chain, 1, {}, sink) as { cancel(): boolean };
    limiters[1]?.release();
    await flush();
    expect(told).toEqual([E]);
    expect(ticket.cancel()).toBe(false);
  });

  it("gives back once what was taken, however often it is cancelled", async () => {
    const { limiters, log, chain } = userLimiters({}, { waits: true });
    const { told, sink } = sinkOf();
    const ticket = requestWith(chain, 1, {}, sink) as { cancel(): boolean };
    log.length = 0;
    expect([ticket.cancel(), ticket.cancel()]).toEqual([true, false]);
    expect(log).toEqual(["a report ignored", "a adjust 0", "a dispose"]);
    limiters[1]?.release();
    await flush();
    expect(told).toEqual([]);
    expect(log.slice(3)).toEqual(["b adjust 0", "b dispose"]);
  });
});

describe("pause", () => {
  it("C-9 of a chain reaches each limiter that can pause", () => {
    const limiters = [concurrency(1), concurrency(1)];
    const chain = RateLimiter.createChained(
      limiters[0] as RateLimiter,
      ...userLimiters({}).limiters,
      limiters[1] as RateLimiter,
    );
    chain.pause(50);
    expect(chain.attemptAcquire()).toMatchObject({ reason: "server_pause", retryAfterMs: 50 });
    expect(limiters.map((limiter) => limiter.attemptAcquire().reason)).toEqual([
      "server_pause",
      "server_pause",
    ]);
    clock.advance(50);
    expect(chain.attemptAcquire().isAcquired).toBe(true);
  });

  it("C-9 of a chain in a chain reaches the limiters of both", () => {
    const inner = concurrency(1);
    const outer = concurrency(1);
    RateLimiter.createChained(outer, RateLimiter.createChained(inner)).pause(5);
    expect([outer, inner].map((limiter) => limiter.attemptAcquire().reason)).toEqual([
      "server_pause",
      "server_pause",
    ]);
    clock.advance(5);
  });

  it("C-9 is a TypeError when no limiter can pause, since it would hold nobody off", () => {
    expect(() => userLimiters({}).chain.pause(5)).toThrow(TypeError);
  });

  it("C-9 C-11 pauses nobody when the duration is malformed", () => {
    const limiter = concurrency(1);
    const chain = RateLimiter.createChained(limiter);
    expect(() => chain.pause(0)).toThrow(RangeError);
    expect(() => chain.pause("1" as never)).toThrow(TypeError);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it("C-9 pauses all others when one throws, and does nothing on a disposed chain", async () => {
    class Throwing extends NoLimiter {
      override pause(): void {
        throw E;
      }
    }
    const limiter = concurrency(1);
    const chain = RateLimiter.createChained(new Throwing(), limiter);
    expect(await errorsOf(() => chain.pause(5))).toEqual([E]);
    expect(limiter.attemptAcquire().reason).toBe("server_pause");
    chain.dispose();
    chain.pause(1000);
    clock.advance(5);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });
});

describe("estimateWaitMs", () => {
  it("C-8 of a chain is the longest of its limiters' estimates", () => {
    const limiters = [concurrency(2), concurrency(1)] as const;
    const chain = RateLimiter.createChained(...limiters, ...userLimiters({}).limiters);
    expect(chain.estimateWaitMs()).toBe(0);
    limiters[0].pause(20);
    limiters[1].pause(30);
    expect(chain.estimateWaitMs()).toBe(30);
    expect(() => chain.estimateWaitMs(2)).toThrow(RangeError);
    expect(() => chain.estimateWaitMs(-1)).toThrow(RangeError);
    clock.advance(30);
  });

  it("C-8 of a chain is undefined when one of them cannot tell, or none has an estimate", () => {
    expect(RateLimiter.createChained(concurrency(1), full()).estimateWaitMs()).toBeUndefined();
    expect(userLimiters({}).chain.estimateWaitMs()).toBeUndefined();
  });

  it("C-8 R-CHAIN-5 fails on a disposed chain", () => {
    const chain = RateLimiter.createChained(concurrency(1));
    chain.dispose();
    expect(() => chain.estimateWaitMs()).toThrow(LimiterDisposedError);
  });
});

describe("chains in chains", () => {
  it("R-CHAIN-16 takes from and gives back to the limiters of all of them", async () => {
    const limiters = [concurrency(4), concurrency(3), concurrency(2)] as const;
    const [a, b, c] = limiters;
    const chain = RateLimiter.createChained(a, RateLimiter.createChained(b, c));
    const lease = await chain.acquire(2);
    expect(available(...limiters)).toEqual([2, 1, 0]);
    expect(numbers(chain)).toBe("0/0/0/1");
    expect(chain.attemptAcquire(2).isAcquired).toBe(false);
    expect(available(...limiters)).toEqual([2, 1, 0]);
    lease.dispose();
    expect(available(...limiters)).toEqual([4, 3, 2]);
  });

  it("R-CHAIN-16 C-19 gives a chain's lease back, the last limiter first", () => {
    const { chain, log } = userLimiters({}, {});
    const refused = RateLimiter.createChained(chain, full()).attemptAcquire();
    expect(refused.reason).toBe("limit_reached");
    expect(log.filter((line) => line.includes("dispose"))).toEqual(["b dispose", "a dispose"]);
    expect(log.filter((line) => line.includes("report"))).toHaveLength(2);
  });

  it("R-CHAIN-16 C-19 gives back what the outer chain took when the caller leaves the inner one", async () => {
    const outer = concurrency(1);
    const middle = concurrency(1);
    const inner = concurrency(1, 1);
    inner.attemptAcquire();
    const caller = new AbortController();
    const chain = RateLimiter.createChained(outer, RateLimiter.createChained(middle, inner));
    const waiting = watch(chain.acquire(1, { signal: caller.signal }));
    expect(available(outer, middle)).toEqual([0, 0]);
    caller.abort(E);
    await flush();
    expect(waiting.reason).toBe(E);
    expect(available(outer, middle)).toEqual([1, 1]);
  });

  it("R-CHAIN-5 passes on that the inner chain has been disposed", async () => {
    const outer = concurrency(1);
    const inner = RateLimiter.createChained(concurrency(1));
    const chain = RateLimiter.createChained(outer, inner);
    inner.dispose();
    expect(() => chain.attemptAcquire()).toThrow(LimiterDisposedError);
    expect(await errorOf(() => chain.acquire())).toBeInstanceOf(LimiterDisposedError);
    expect(available(outer)).toEqual([1]);
  });
});

describe("a limiter written by a user", () => {
  it("R-CORE-23 is disposed once by dispose, and asynchronously first by asyncDispose", async () => {
    const log: string[] = [];
    class Disposing extends NoLimiter {
      protected override disposeCore(): void {
        log.push("sync");
      }
      protected override async disposeAsyncCore(): Promise<void> {
        await flush();
        log.push("async");
      }
    }
    new Disposing().dispose();
    expect(log.splice(0)).toEqual(["sync"]);
    await new Disposing().disposeAsync();
    expect(log).toEqual(["async", "sync"]);
  });

  it("R-CORE-3 rejects with what its acquireCore throws", async () => {
    const [limiter] = userLimiters({ error: E }).limiters;
    expect(await errorOf(() => limiter?.acquire())).toBe(E);
  });

  it("R-CORE-1 R-CORE-4 is not asked with a malformed count or for a caller who has left", async () => {
    const { limiters, log } = userLimiters({});
    const [limiter] = limiters;
    expect(() => limiter?.attemptAcquire(0.5)).toThrow(RangeError);
    expect(await errorOf(() => limiter?.acquire(-1))).toBeInstanceOf(RangeError);
    expect(await errorOf(() => limiter?.acquire(1, { signal: AbortSignal.abort(E) }))).toBe(E);
    expect(log).toEqual([]);
  });
});
