import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  type AcquireOptions,
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  LimiterDisposedError,
  MetadataName,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  RateLimitLease,
  RateLimitPartition,
  type RejectionReason,
  ReplenishingRateLimiter,
  shadowed,
  systemClock,
} from "headgate";
import { getLimiterState, type HeldLease, trackLeases } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { describeRateLimiterContract } from "../../contract/suite.js";
import { flush, ManualClock, watch } from "../../support.js";

// Disposing a tracker while a lease is out is an error of its own; tests below look at that.
const TRACKER = { canBeDisposed: false, ownsQueue: false };

describeRateLimiterContract({
  name: "tracked ConcurrencyLimiter",
  create: (options) => trackLeases(new ConcurrencyLimiter(options)),
  bringBack: (leases) => {
    for (const lease of leases) lease.dispose();
  },
  ...TRACKER,
});

describeRateLimiterContract({
  name: "chain of a tracked ConcurrencyLimiter and a tracked FixedWindowRateLimiter",
  create: ({ clock, ...options }) =>
    RateLimiter.createChained(
      trackLeases(new ConcurrencyLimiter({ permitLimit: 1000, clock })),
      trackLeases(new FixedWindowRateLimiter({ ...options, windowMs: 100, clock })),
    ),
  bringBack: (leases, _limiter, clock) => {
    for (const lease of leases) lease.dispose();
    clock.advance(100);
  },
  ...TRACKER,
});

const arrange = (permitLimit = 2, queueLimit = 4) => {
  const clock = new ManualClock({ startMs: 100 });
  const inner = new ConcurrencyLimiter({ permitLimit, queueLimit, clock });
  return { clock, inner, limiter: trackLeases(inner) };
};

const times = (held: readonly HeldLease[]) =>
  held.map(({ permitCount, acquiredAt }) => [permitCount, acquiredAt]);

/** A limiter of the user's, which answers with leases that write down what is done to them. */
class Foreign extends RateLimiter {
  readonly calls: string[] = [];
  waits = false;

  override getStatistics(): RateLimiterStatistics | undefined {
    return undefined;
  }

  override get idleDurationMs(): undefined {
    return undefined;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    return new ForeignLease(this.calls);
  }

  protected override acquireCore(
    permitCount: number,
    { priority }: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    this.calls.push(`acquire ${permitCount} ${priority}`);
    if (priority === 13) throw new Error("core");
    const lease = new ForeignLease(this.calls);
    return this.waits ? Promise.resolve(lease) : lease;
  }
}

class ForeignLease extends RateLimitLease {
  readonly #calls: string[];

  constructor(calls: string[]) {
    super();
    this.#calls = calls;
  }

  override get isAcquired(): boolean {
    return true;
  }

  override get metadataNames(): Iterable<string> {
    return ["COLOUR", "SIZE"];
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return name === "COLOUR" ? "blue" : undefined;
  }

  override get retryAfterMs(): number {
    return 7;
  }

  override get reason(): RejectionReason {
    return "pressure";
  }

  override report(outcome: string): void {
    this.#calls.push(`report ${outcome}`);
  }

  override adjust(actualPermits: number): void {
    if (actualPermits < 0) throw new RangeError("adjust");
    this.#calls.push(`adjust ${actualPermits}`);
  }

  override refund(): void {
    this.#calls.push("refund");
  }

  override dispose(): void {
    this.#calls.push("dispose");
  }
}

describe("trackLeases", () => {
  it("knows the leases that are out, in the order of the grants", async () => {
    const { clock, limiter } = arrange(5);
    const first = limiter.attemptAcquire(2);
    clock.advance(10);
    const second = await limiter.acquire(3);
    expect(times(limiter.held)).toEqual([
      [2, 100],
      [3, 110],
    ]);
    first.dispose();
    first.dispose();
    expect(times(limiter.held)).toEqual([[3, 110]]);
    second[Symbol.dispose]();
    expect(limiter.held).toEqual([]);
    limiter.assertNoneHeld();
  });

  it("counts a probe as out, and no refused lease", () => {
    const { limiter } = arrange(1);
    const probe = limiter.attemptAcquire(0);
    limiter.attemptAcquire(1).dispose();
    expect(times(limiter.held)).toEqual([[0, 100]]);
    probe.dispose();
    const held = limiter.attemptAcquire();
    const refused = limiter.attemptAcquire();
    expect(refused.reason).toBe("limit_reached");
    expect(limiter.held).toHaveLength(1);
    held.dispose();
  });

  it("knows of a waiter's lease in the very turn of the grant, and since when it is out", async () => {
    const { clock, limiter } = arrange(1);
    const held = limiter.attemptAcquire();
    const waiting = watch(limiter.acquire());
    clock.advance(200);
    held.dispose();
    expect(times(limiter.held)).toEqual([[1, 300]]);
    clock.advance(200);
    await flush();
    waiting.value.dispose();
    expect(limiter.held).toEqual([]);
  });

  it("shows what adjust made of a lease, not in what was read before", () => {
    const { inner, limiter } = arrange(5);
    const lease = limiter.attemptAcquire(2);
    const before = limiter.held;
    lease.adjust(4);
    expect(times(limiter.held)).toEqual([[4, 100]]);
    expect(times(before)).toEqual([[2, 100]]);
    expect(Object.isFrozen(before)).toBe(true);
    expect(Object.isFrozen(before[0])).toBe(true);
    expect(() => lease.adjust(-1)).toThrow(RangeError);
    expect(times(limiter.held)).toEqual([[4, 100]]);
    lease.refund();
    expect(limiter.held).toEqual([]);
    expect(inner.getStatistics().currentAvailablePermits).toBe(5);
  });

  it("gives the permits of a lease to the next when that is already crossed out", async () => {
    const { limiter } = arrange(1);
    const held = limiter.attemptAcquire();
    const waiting = limiter.acquire();
    held.dispose();
    expect(limiter.held).toHaveLength(1);
    (await waiting).dispose();
    limiter.assertNoneHeld();
  });

  it("throws an error that lists who holds what, since when, and from where", () => {
    const { clock, limiter } = arrange(5);
    function loadUser() {
      return limiter.attemptAcquire(3);
    }
    const lease = loadUser();
    clock.advance(50.5);
    function saveUser() {
      return limiter.attemptAcquire();
    }
    saveUser();
    const lines = messageOf(() => limiter.assertNoneHeld()).split("\n");
    expect(lines.filter((line) => !/^\s+at /.test(line))).toEqual([
      "2 leases have not been disposed:",
      "1. 3 permits, held for 50.5 ms (since 100 ms), acquired",
      "2. 1 permit, held for 0 ms (since 150.5 ms), acquired",
    ]);
    expect(lines[2]).toMatch(/^\s+at loadUser .*track-leases\.test\.ts:\d+/);
    lease.dispose();
    expect(messageOf(() => limiter.assertNoneHeld())).toMatch(
      /^1 lease has not been disposed:\n.*\n\s+at saveUser /,
    );
  });

  it("says where a waiting request came from", async () => {
    const { limiter } = arrange(1);
    const held = limiter.attemptAcquire();
    async function waitForIt() {
      return limiter.acquire();
    }
    const waiting = waitForIt();
    held.dispose();
    await waiting;
    expect(limiter.held[0]?.stack).toMatch(/^\s+at waitForIt /);
  });

  it("says where a request came from that reached it through a chain or a partition", async () => {
    const { limiter } = arrange(5);
    const chain = RateLimiter.createChained(limiter);
    async function throughChain() {
      return chain.acquire();
    }
    await throughChain();
    expect(limiter.held[0]?.stack).toMatch(/^\s+at throughChain /);
    const partitioned = PartitionedRateLimiter.create(() => RateLimitPartition.get("all", () => limiter));
    const { stackTraceLimit } = Error;
    async function throughPartition() {
      return partitioned.acquire("a");
    }
    await throughPartition();
    expect(limiter.held[1]?.stack).toContain("at throughPartition ");
    expect(Error.stackTraceLimit).toBe(stackTraceLimit);
  });

  it("says where a request came from on hosts whose traces cannot be cut", () => {
    const { limiter } = arrange();
    const { captureStackTrace } = Error;
    try {
      Reflect.set(Error, "captureStackTrace", undefined);
      limiter.attemptAcquire();
    } finally {
      Error.captureStackTrace = captureStackTrace;
    }
    expect(limiter.held[0]?.stack).toMatch(/^\s+at .*[\s\S]*track-leases\.test\.ts/);
  });

  it("makes a test that leaks fail, and disposes the limiter all the same", async () => {
    const { inner } = arrange();
    const leak = () => {
      using limiter = trackLeases(inner);
      limiter.attemptAcquire();
    };
    expect(leak).toThrow(/^1 lease has not been disposed/);
    expect(() => inner.attemptAcquire()).toThrow(LimiterDisposedError);

    const other = arrange();
    const lease = other.limiter.attemptAcquire();
    await expect(other.limiter.disposeAsync()).rejects.toThrow(/^1 lease has not been disposed/);
    expect(() => other.inner.attemptAcquire()).toThrow(LimiterDisposedError);
    expect(() => other.limiter.dispose()).toThrow(/^1 lease has not been disposed/);
    lease.dispose();
    other.limiter.dispose();
  });

  it("lets a test pass that disposes its leases", async () => {
    const { inner } = arrange();
    {
      using limiter = trackLeases(inner);
      using _lease = limiter.attemptAcquire();
      using _other = await limiter.acquire();
    }
    expect(() => inner.attemptAcquire()).toThrow(LimiterDisposedError);
  });

  it("refuses its waiters when it is disposed, and keeps no lease for them", async () => {
    const { limiter } = arrange(1);
    const held = limiter.attemptAcquire();
    const waiting = watch(limiter.acquire());
    held.adjust(2);
    expect(() => limiter.dispose()).toThrow(/2 permits/);
    await flush();
    expect(waiting.value.reason).toBe("limiter_disposed");
    held.dispose();
    expect(limiter.held).toEqual([]);
    expect(() => limiter.getStatistics()).toThrow(LimiterDisposedError);
  });

  it("rejects with the reason of a signal that ends the wait", async () => {
    const { limiter } = arrange(1);
    using _held = limiter.attemptAcquire();
    const controller = new AbortController();
    const waiting = watch(limiter.acquire(1, { signal: controller.signal }));
    controller.abort("left");
    await flush();
    expect(waiting.reason).toBe("left");
    expect(getLimiterState(limiter)).toMatchObject({ queuedRequests: 0, totalAborted: 1 });
  });

  it("reports a lease that was collected before anybody disposed it", async () => {
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const { inner } = arrange(5);
    const collected: HeldLease[] = [];
    const limiter = trackLeases(inner, { onCollected: (held) => collected.push(held) });
    const kept = limiter.attemptAcquire(1);
    (() => {
      limiter.attemptAcquire(2);
      limiter.attemptAcquire(1).dispose();
    })();
    for (let turn = 0; turn < 100 && collected.length === 0; turn++) {
      gc();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(times(collected)).toEqual([[2, 100]]);
    expect(Object.isFrozen(collected[0])).toBe(true);
    expect(times(limiter.held)).toEqual([
      [1, 100],
      [2, 100],
    ]);
    kept.dispose();
    expect(times(limiter.held)).toEqual([[2, 100]]);
  });

  it("passes all that is done to a lease on, and all that it tells", async () => {
    const foreign = new Foreign();
    const limiter = trackLeases(foreign);
    const lease = limiter.attemptAcquire(3);
    expect(lease.isAcquired).toBe(true);
    expect(lease.orThrow()).toBe(lease);
    expect([...lease.metadataNames]).toEqual(["COLOUR", "SIZE"]);
    expect([...lease.getAllMetadata()]).toEqual([["COLOUR", "blue"]]);
    expect(lease.tryGetMetadata(MetadataName.create<string>("COLOUR"))).toBe("blue");
    expect([lease.retryAfterMs, lease.reason]).toEqual([7, "pressure"]);
    lease.report("dropped");
    lease.adjust(1);
    lease.refund();
    lease.dispose();
    expect(foreign.calls).toEqual(["report dropped", "adjust 1", "refund", "dispose"]);
    expect(limiter.getStatistics()).toBeUndefined();
    expect(limiter.idleDurationMs).toBeUndefined();
  });

  it("asks a limiter without an inside as it is asked itself, and answers as it does", async () => {
    const foreign = new Foreign();
    const before = systemClock.now();
    const limiter = trackLeases(foreign);
    const lease = await limiter.acquire(2, { priority: 5 });
    foreign.waits = true;
    const waited = await limiter.acquire(3);
    expect(foreign.calls).toEqual(["acquire 2 5", "acquire 3 undefined"]);
    expect(limiter.held.map((held) => held.permitCount)).toEqual([2, 3]);
    for (const held of limiter.held) expect(held.acquiredAt).toBeGreaterThanOrEqual(before);
    lease.dispose();
    waited.dispose();
    await expect(limiter.acquire(1, { priority: 13 })).rejects.toThrow("core");
    limiter.dispose();
  });

  it("lets a chain around it go on in the turn of the grant", async () => {
    for (const make of [
      () => arrange(1).limiter,
      () => trackLeases(RateLimiter.createChained(arrange(1).inner)),
    ]) {
      const limiter = make();
      const chain = RateLimiter.createChained(
        limiter,
        new ConcurrencyLimiter({ permitLimit: 5, clock: new ManualClock() }),
      );
      const granted = await chain.acquire();
      const waiting = chain.acquire();
      granted.dispose();
      expect(chain.getStatistics()?.currentAvailablePermits).toBe(0);
      expect(limiter.held).toHaveLength(1);
      (await waiting).dispose();
      limiter.assertNoneHeld();
    }
  });

  it("shows the inside of the limiter behind it", () => {
    const { inner, limiter } = arrange(1, 1);
    using _held = limiter.attemptAcquire();
    watch(limiter.acquire());
    expect(getLimiterState(limiter)).toEqual(getLimiterState(inner));
    expect(getLimiterState(trackLeases(new NoLimiter()))).toEqual(getLimiterState(new NoLimiter()));
  });

  it("tells a shadow around it whether there is room to wait", () => {
    const { limiter } = arrange(1, 1);
    const shadow = shadowed(limiter);
    using _held = shadow.attemptAcquire();
    void shadow.acquire();
    expect([shadow.wouldHaveWaited, shadow.wouldHaveRefused]).toEqual([1, 0]);
  });

  it("is a ReplenishingRateLimiter when the limiter is one", async () => {
    const clock = new ManualClock();
    const inner = new FixedWindowRateLimiter({
      permitLimit: 2,
      windowMs: 100,
      autoReplenishment: false,
      clock,
    });
    const limiter = trackLeases(inner);
    if (!(limiter instanceof ReplenishingRateLimiter)) return expect.unreachable();
    expect([limiter.replenishmentPeriodMs, limiter.isAutoReplenishing]).toEqual([100, false]);
    expect(limiter.idleDurationMs).toBe(0);
    const leases = [limiter.attemptAcquire(), await limiter.acquire()];
    expect(limiter.held).toHaveLength(2);
    expect(() => limiter.assertNoneHeld()).toThrow(/^2 leases/);
    clock.advance(100);
    expect(limiter.tryReplenish()).toBe(true);
    expect(limiter.getStatistics()?.currentAvailablePermits).toBe(2);
    expect(getLimiterState(limiter).kind).toBe("FixedWindowRateLimiter");
    for (const lease of leases) lease.dispose();
    await limiter.disposeAsync();
    expect(() => inner.attemptAcquire()).toThrow(LimiterDisposedError);
    expect(trackLeases(new NoLimiter())).not.toBeInstanceOf(ReplenishingRateLimiter);
  });

  it("takes the time from the clock that it is given", () => {
    const limiter = trackLeases(arrange().inner, { clock: new ManualClock({ startMs: 7 }) });
    using _lease = limiter.attemptAcquire();
    expect(times(limiter.held)).toEqual([[1, 7]]);
  });

  it("refuses arguments that are not what they should be", () => {
    const limiter = new NoLimiter();
    const no = <T>(value: T) => value as never;
    expect(() => trackLeases(no(5))).toThrow(new TypeError("limiter must be a RateLimiter; got 5."));
    expect(() => trackLeases(limiter, no(5))).toThrow(new TypeError("options must be an object; got 5."));
    expect(() => trackLeases(limiter, no({ clok: 5 }))).toThrow(/did you mean options\.clock/);
    expect(() => trackLeases(limiter, { clock: no({}) })).toThrow(
      new TypeError("options.clock must be an object with now() and setTimer(); got an object."),
    );
    expect(() => trackLeases(limiter, { onCollected: no("log") })).toThrow(
      new TypeError('options.onCollected must be a function; got "log".'),
    );
  });
});

function messageOf(call: () => void): string {
  try {
    call();
  } catch (error) {
    return (error as Error).message;
  }
  return "nothing was thrown";
}
