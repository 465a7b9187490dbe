import {
  ConcurrencyLimiter,
  LimiterDisposedError,
  MetadataName,
  RateLimiter,
  RateLimitLease,
  RateLimitRejectedError,
} from "headgate";
import { describe, expect, it } from "vitest";

class StubLease extends RateLimitLease {
  readonly calls: string[] = [];
  readonly metadata: Record<string, unknown>;
  readonly isAcquired: boolean;

  constructor(isAcquired: boolean, metadata: Record<string, unknown> = {}) {
    super();
    this.isAcquired = isAcquired;
    this.metadata = metadata;
  }

  override get metadataNames(): Iterable<string> {
    return [...Object.keys(this.metadata), "NEVER_SET"];
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.metadata[name];
  }

  override adjust(actualPermits: number): void {
    this.calls.push(`adjust(${actualPermits})`);
  }

  override dispose(): void {
    this.calls.push("dispose");
  }
}

describe("MetadataName", () => {
  it("is equal by its text, case included", () => {
    const name = MetadataName.create<string>("REGION");
    expect([name.name, String(name)]).toEqual(["REGION", "REGION"]);
    expect(name.equals(MetadataName.create<number>("REGION"))).toBe(true);
    expect(name.equals(MetadataName.create("region"))).toBe(false);
    expect(MetadataName.create("RETRY_AFTER").equals(MetadataName.retryAfter)).toBe(true);
    expect(name.equals(undefined as never)).toBe(false);
  });

  it.each([undefined, null, 1])("refuses %s as a name with a TypeError", (name) => {
    expect(() => MetadataName.create(name as never)).toThrow(TypeError);
  });

  it("has the raw names of .NET, and our own", () => {
    const { retryAfter, reasonPhrase, rejectionReason, limit, remaining, resetAfter } = MetadataName;
    expect([retryAfter, reasonPhrase, rejectionReason, limit, remaining, resetAfter].map(String)).toEqual([
      "RETRY_AFTER",
      "REASON_PHRASE",
      "REJECTION_REASON",
      "LIMIT",
      "REMAINING",
      "RESET_AFTER",
    ]);
  });
});

describe("RateLimitLease", () => {
  it("looks metadata up by raw name and by typed name alike, and lists only what has a value", () => {
    const lease = new StubLease(false, { RETRY_AFTER: 20, REGION: "eu" });
    expect(lease.tryGetMetadata("RETRY_AFTER")).toBe(20);
    expect(lease.tryGetMetadata(MetadataName.retryAfter)).toBe(20);
    expect(lease.tryGetMetadata("UNKNOWN")).toBeUndefined();
    expect([...lease.getAllMetadata()]).toEqual([
      ["RETRY_AFTER", 20],
      ["REGION", "eu"],
    ]);
    expect([lease.retryAfterMs, lease.reason]).toEqual([20, undefined]);
  });

  it("is itself from orThrow when acquired, and not disposed", () => {
    const lease = new StubLease(true);
    expect(lease.orThrow()).toBe(lease);
    expect(lease.calls).toEqual([]);
  });

  it("throws from orThrow what the refusal knew, and disposes the lease", () => {
    const lease = new StubLease(false, { RETRY_AFTER: 1499.2, REJECTION_REASON: "queue_full", REGION: "eu" });
    let error: unknown;
    try {
      lease.orThrow();
    } catch (thrown) {
      error = thrown;
    }
    if (!(error instanceof RateLimitRejectedError)) throw new Error("not a RateLimitRejectedError");
    expect([error.reason, error.retryAfterMs, error.metadata.get("REGION")]).toEqual([
      "queue_full",
      1499.2,
      "eu",
    ]);
    expect([error.name, error.code]).toEqual(["RateLimitRejectedError", "ERR_RATE_LIMIT_REJECTED"]);
    expect(error.message).toContain("queue_full");
    expect(error.message).toContain("1500 ms");
    expect(lease.calls).toEqual(["dispose"]);
  });

  it("refunds by adjusting to 0 and disposing", () => {
    const lease = new StubLease(true);
    lease.refund();
    expect(lease.calls).toEqual(["adjust(0)", "dispose"]);
  });

  it("works with using, and bears report and adjust where nobody learns", () => {
    const lease = new StubLease(true);
    {
      using held = lease;
      held.report("success");
    }
    expect(lease.calls).toEqual(["dispose"]);
    class Plain extends StubLease {
      override adjust(actualPermits: number): void {
        RateLimitLease.prototype.adjust.call(this, actualPermits);
      }
    }
    expect(new Plain(true).adjust(3)).toBeUndefined();
  });
});

describe("concurrency lease metadata", () => {
  it("tells limit and what remains, on granted and on refused leases, as it is when read (C-8)", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 3 });
    const lease = limiter.attemptAcquire(2);
    const read = () => [
      lease.tryGetMetadata(MetadataName.limit),
      lease.tryGetMetadata(MetadataName.remaining),
    ];
    expect(read()).toEqual([3, 1]);
    limiter.permitLimit = 1;
    expect(read()).toEqual([1, 0]);
    expect(Object.fromEntries(limiter.attemptAcquire().getAllMetadata())).toEqual({
      REJECTION_REASON: "limit_reached",
      LIMIT: 1,
      REMAINING: 0,
    });
    expect(lease.tryGetMetadata(MetadataName.resetAfter)).toBeUndefined();
  });
});

describe("RateLimitRejectedError", () => {
  it("has a text of its own without details, or the one it is given, and a cause", () => {
    const bare = new RateLimitRejectedError();
    expect([bare.reason, bare.retryAfterMs, bare.metadata.size, "cause" in bare]).toEqual([
      undefined,
      undefined,
      0,
      false,
    ]);
    expect(bare.message).toBe("The rate limiter refused a lease.");
    const cause = new Error("why");
    const full = new RateLimitRejectedError({}, { message: "No more today.", cause });
    expect([full.message, full.cause]).toEqual(["No more today.", cause]);
  });

  it("is recognised by its brand, in subclasses and across copies of the library", () => {
    class Sub extends RateLimitRejectedError {}
    const foreign = { [Symbol.for("headgate.RateLimitRejectedError")]: true };
    expect(
      [new RateLimitRejectedError(), new Sub(), foreign].map((e) => RateLimitRejectedError.is(e)),
    ).toEqual([true, true, true]);
    expect([new Error("x"), null, undefined, "x", {}].map((e) => RateLimitRejectedError.is(e))).toEqual(
      [0, 1, 2, 3, 4].map(() => false),
    );
  });
});

describe("LimiterDisposedError", () => {
  it("names the limiter", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    await limiter.disposeAsync();
    const error = await limiter.acquire().catch((e: unknown) => e);
    if (!(error instanceof LimiterDisposedError)) throw new Error("not a LimiterDisposedError");
    expect([error.name, error.code, error.limiterName]).toEqual([
      "LimiterDisposedError",
      "ERR_LIMITER_DISPOSED",
      "ConcurrencyLimiter",
    ]);
    expect(error.message).toContain("ConcurrencyLimiter");
  });
});

describe("a limiter that a user wrote", () => {
  class Stub extends RateLimiter {
    readonly calls: string[] = [];
    readonly idleDurationMs = undefined;
    override getStatistics(): undefined {
      return undefined;
    }
    protected override attemptAcquireCore(permitCount: number): RateLimitLease {
      this.calls.push(`attempt ${permitCount}`);
      return new StubLease(true);
    }
    protected override acquireCore(permitCount: number): RateLimitLease {
      this.calls.push(`acquire ${permitCount}`);
      return new StubLease(true);
    }
    protected override disposeCore(): void {
      this.calls.push("dispose");
    }
  }
  class AsyncStub extends Stub {
    protected override async disposeAsyncCore(): Promise<void> {
      this.calls.push("async dispose");
      await Promise.resolve();
      this.calls.push("async disposed");
    }
  }

  it("sees only counts that are well formed, and 1 when none is given", async () => {
    const limiter = new Stub();
    limiter.attemptAcquire();
    await limiter.acquire();
    await limiter.acquire({});
    await limiter.acquire(3);
    expect(() => limiter.attemptAcquire(-1)).toThrow(RangeError);
    await expect(limiter.acquire(-1)).rejects.toThrow(RangeError);
    expect(limiter.calls).toEqual(["attempt 1", "acquire 1", "acquire 1", "acquire 3"]);
  });

  it("is disposed by its sync hook, and by both in order when disposed asynchronously (R-CORE-23)", async () => {
    const [sync, async] = [new AsyncStub(), new AsyncStub()];
    sync[Symbol.dispose]();
    await async[Symbol.asyncDispose]();
    expect(sync.calls).toEqual(["dispose"]);
    expect(async.calls).toEqual(["async dispose", "async disposed", "dispose"]);
  });

  it("rejects with what its core throws", async () => {
    const error = new Error("core");
    class Throwing extends Stub {
      protected override acquireCore(): RateLimitLease {
        throw error;
      }
    }
    await expect(new Throwing().acquire()).rejects.toBe(error);
  });
});
