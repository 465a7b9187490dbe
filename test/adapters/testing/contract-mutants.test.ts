import {
  type AcquireOptions,
  ConcurrencyLimiter,
  type ConcurrencyLimiterOptions,
  LimiterDisposedError,
  NoLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  RateLimitLease,
} from "headgate";
import { type ContractSubject, describeRateLimiterContract } from "headgate/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

const bringBack: ContractSubject["bringBack"] = (leases) => {
  for (const lease of leases) lease.dispose();
};

/** Runs the suite by a framework of its own; tells of what failed by the name of the test. */
async function failuresOf(subject: Omit<ContractSubject, "name" | "bringBack">) {
  const tests: [name: string, body: () => Promise<void>][] = [];
  const groups: string[] = [];
  describeRateLimiterContract(
    { name: "mutant", bringBack, ...subject },
    {
      describe: (name, body) => {
        groups.push(name);
        body();
      },
      it: (name, body) => tests.push([name, body]),
    },
  );
  const failures = new Map<string, string>();
  for (const [name, body] of tests) {
    const over = body().catch((error: Error) => failures.set(name, error.message));
    // What a mutant never answers fails after a while of real time, which is not the clock's.
    await vi.advanceTimersByTimeAsync(2000);
    await over;
  }
  return { groups, names: tests.map(([name]) => name), failures };
}

const mutant = (Mutant: new (options: ConcurrencyLimiterOptions) => RateLimiter) =>
  failuresOf({ create: (options) => new Mutant(options) });

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Changes each granted lease. */
const change = (lease: RateLimitLease, changes: object): RateLimitLease =>
  lease.isAcquired ? Object.defineProperties(lease, Object.getOwnPropertyDescriptors(changes)) : lease;

class Forgetful extends ConcurrencyLimiter {
  override attemptAcquire(permitCount?: number): RateLimitLease {
    return change(super.attemptAcquire(permitCount), { dispose: () => {} });
  }
}

/** A limiter of a user's, which keeps neither statistics nor a queue. */
class Plain extends RateLimiter {
  readonly #limit: number;
  #left: number;
  #isDisposed = false;

  constructor(limit: number) {
    super();
    this.#limit = limit;
    this.#left = limit;
  }

  override getStatistics(): undefined {
    return undefined;
  }

  override get idleDurationMs(): undefined {
    return undefined;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    if (permitCount > this.#limit) throw new RangeError(`${permitCount} is more than ${this.#limit}`);
    if (this.#isDisposed) throw new LimiterDisposedError("Plain");
    if (this.#left < Math.max(1, permitCount)) return new PlainLease();
    this.#left -= permitCount;
    return new PlainLease(() => {
      this.#left += permitCount;
    });
  }

  protected override acquireCore(permitCount: number): RateLimitLease {
    return this.attemptAcquireCore(permitCount);
  }

  protected override disposeCore(): void {
    this.#isDisposed = true;
  }
}

class PlainLease extends RateLimitLease {
  readonly isAcquired: boolean;
  #giveBack: (() => void) | undefined;

  constructor(giveBack?: () => void) {
    super();
    this.isAcquired = giveBack !== undefined;
    this.#giveBack = giveBack;
  }

  override get metadataNames(): Iterable<string> {
    return ["REJECTION_REASON"];
  }

  protected override tryGetMetadataCore(): unknown {
    return this.isAcquired ? undefined : "limit_reached";
  }

  override dispose(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
  }
}

describe("describeRateLimiterContract", () => {
  it("declares one group of tests, all of which pass for a limiter that keeps the contract", async () => {
    const { groups, names, failures } = await mutant(ConcurrencyLimiter);
    expect(groups).toEqual(["contract: mutant"]);
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeGreaterThan(25);
    expect(failures).toEqual(new Map());
  });

  it("leaves out what does not apply", async () => {
    const create = () => new NoLimiter();
    const { names, failures } = await failuresOf({
      create,
      isLimited: false,
      canBeDisposed: false,
      keepsStatistics: false,
    });
    expect(failures).toEqual(new Map());
    expect(names.filter((name) => /refuses an|waiter|dispose,|idle|statistics/.test(name))).toEqual([]);
  });

  it("finds a limiter that forgets to give back, and says so", async () => {
    const { failures } = await mutant(Forgetful);
    expect(failures.get("grants again when permits have come back")).toBe(
      "isAcquired of an attempt after the permits have come back: expected true, got false.",
    );
    expect(failures.get("serves waiters oldest first, and lets no attempt pass them")).toBe(
      'two waiters after the permits came back: expected ["fulfilled", "pending"], got ["pending", "pending"].',
    );
    expect(failures.get("does nothing to a lease when the signal is aborted after the grant")).toBe(
      "A promise should have been fulfilled by now, but it is rejected with AbortError: This operation was aborted.",
    );
    expect(failures.get("takes an aborted waiter out at once, with its listener")).toBe(
      "A promise should have been fulfilled by now, but it is still pending.",
    );
  });

  it("finds a lease that gives back twice", async () => {
    class Generous extends ConcurrencyLimiter {
      override attemptAcquire(permitCount = 1): RateLimitLease {
        const lease = super.attemptAcquire(permitCount);
        const giveBack = () => {
          this.permitLimit += permitCount;
        };
        return change(lease, { dispose: giveBack });
      }
    }
    const { failures } = await mutant(Generous);
    expect(failures.get("keeps isAcquired when a lease is disposed, and bears a second dispose")).toBe(
      "statistics after a second and a third dispose of one lease: " +
        'expected "2 available, 0 queued, 0 refused, 1 granted", got "4 available, 0 queued, 0 refused, 1 granted".',
    );
  });

  it("finds a limiter that takes counts for granted", async () => {
    class Trusting extends ConcurrencyLimiter {
      override attemptAcquire(): RateLimitLease {
        return super.attemptAcquire(1);
      }

      override acquire(): Promise<RateLimitLease> {
        return super.acquire(1);
      }
    }
    const { failures } = await mutant(Trusting);
    const title = "as a count with a RangeError, by attempt and by acquire, and changes nothing";
    expect(failures.get(`refuses NaN ${title}`)).toBe(
      "attemptAcquire(NaN): expected a RangeError, but it returned an object.",
    );
    expect(failures.get("refuses a count above its limit with a RangeError that names both")).toMatch(
      /^attemptAcquire\(4\) with a limit of 3: expected a RangeError that names 4 and 3, but it returned/,
    );
    expect(failures.get("probes with a count of 0, taking nothing")).toBe(
      "acquire(0): expected an answer, but the promise is still pending.",
    );
    expect(
      failures.get(
        "rejects with the reason of an aborted signal before anything else but a malformed argument",
      ),
    ).toBe(
      "acquire with an aborted signal: expected the reason of the signal, but it fulfilled with an object.",
    );
  });

  it("finds errors of the wrong kind, and errors that are thrown where a promise is due", async () => {
    class Wrong extends ConcurrencyLimiter {
      override attemptAcquire(permitCount = 1): RateLimitLease {
        if (permitCount !== 1 && permitCount !== 2) throw new Error("no such count");
        return super.attemptAcquire(permitCount);
      }

      override acquire(permitCount?: number | AcquireOptions, options?: AcquireOptions) {
        if (permitCount === 4) throw new RangeError("4 of 3");
        if (permitCount === 1000) return Promise.reject([]);
        return super.acquire(permitCount as number, options);
      }
    }
    const { failures } = await mutant(Wrong);
    expect([...failures.values()]).toContain(
      "attemptAcquire(1n): expected a TypeError, but it threw Error: no such count.",
    );
    expect([...failures.values()]).toContain(
      "the same with a count above the limit: expected the reason of the signal, but it rejected with [].",
    );
    class RightAttempt extends Wrong {
      override attemptAcquire(permitCount = 1): RateLimitLease {
        if (permitCount === 4) throw new RangeError("4 of 3");
        return super.attemptAcquire(permitCount);
      }
    }
    const right = await mutant(RightAttempt);
    expect(right.failures.get("refuses a count above its limit with a RangeError that names both")).toBe(
      "acquire(4) with a limit of 3: expected a promise that rejects, but it threw RangeError: 4 of 3.",
    );
  });

  it("finds statistics that are missing or move, and a limiter that lives after dispose", async () => {
    class Careless extends ConcurrencyLimiter {
      readonly #live = { currentAvailablePermits: 0, totalSuccessfulLeases: 0 } as RateLimiterStatistics;

      override getStatistics(): RateLimiterStatistics {
        return Object.assign(this.#live, super.getStatistics());
      }

      protected override disposeCore(): void {}
    }
    const { failures } = await mutant(Careless);
    expect(failures.get("gives statistics that stay as they were")).toBe(
      "whether a second look gives the same object: expected false, got true.",
    );
    expect(
      failures.get("fails every call after dispose, and bears leases and disposes that come later"),
    ).toMatch(/^attemptAcquire\(\) after dispose: expected an error with the code ERR_LIMITER_DISPOSED/);
    class Silent extends ConcurrencyLimiter {
      override getStatistics(): never {
        return undefined as never;
      }
    }
    const message = "getStatistics: expected statistics, got undefined.";
    expect([...(await mutant(Silent)).failures.values()]).toContain(message);
  });

  it("finds a queue that leaves listeners behind", async () => {
    class Listening extends ConcurrencyLimiter {
      override acquire(permitCount?: number | AcquireOptions, options?: AcquireOptions) {
        options?.signal?.addEventListener("abort", () => {});
        return super.acquire(permitCount as number, options);
      }
    }
    const { failures } = await mutant(Listening);
    expect(failures.get("leaves no listener behind when a waiter is served")).toBe(
      "listeners of their signal after that: expected 0, got 2.",
    );
    expect(failures.get("takes an aborted waiter out at once, with its listener")).toBe(
      "listeners of the signal after that: expected 0, got 1.",
    );
  });

  it("bears a limiter of a user's, without a queue, statistics and idleness", async () => {
    const { names, failures } = await failuresOf({
      create: ({ permitLimit }) => new Plain(permitLimit),
      queues: false,
      keepsStatistics: false,
      canBeIdle: false,
    });
    expect(failures).toEqual(new Map());
    expect(names).toContain("probes with a count of 0, taking nothing");
  });

  it("leaves the order newestFirst out for a queue that has no such", async () => {
    const { names, failures } = await failuresOf({
      create: ({ permitLimit, queueLimit, clock }) =>
        new ConcurrencyLimiter({ permitLimit, queueLimit, clock }),
      ordersQueue: false,
    });
    expect(failures).toEqual(new Map());
    expect(names.filter((name) => name.includes("newest first"))).toEqual([]);
  });

  it("refuses arguments that are not what they should be", () => {
    const no = <T>(value: T) => value as never;
    const subject = { name: "n", create: () => new NoLimiter(), bringBack };
    const framework = { describe: () => {}, it: () => {} };
    expect(() => describeRateLimiterContract(no(5), framework)).toThrow(/subject must be an object/);
    expect(() => describeRateLimiterContract({ ...subject, name: no(5) }, framework)).toThrow(
      new TypeError("subject.name must be a string; got 5."),
    );
    for (const name of ["create", "bringBack"]) {
      expect(() => describeRateLimiterContract({ ...subject, [name]: 5 }, framework)).toThrow(
        new TypeError(`subject.${name} must be a function; got 5.`),
      );
    }
    expect(() => describeRateLimiterContract({ ...subject, queus: false } as never, framework)).toThrow(
      /did you mean subject\.queues/,
    );
    for (const name of ["describe", "it"]) {
      expect(() => describeRateLimiterContract(subject, { ...framework, [name]: undefined })).toThrow(
        new TypeError(`framework.${name} must be a function; got undefined.`),
      );
    }
    expect(() => describeRateLimiterContract(subject, no(undefined))).toThrow(TypeError);
  });
});
