import {
  type Clock,
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type LeaseOutcome,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  shadowed,
  TokenBucketRateLimiter,
} from "headgate";
import {
  deterministic,
  exponential,
  type LimiterFactory,
  mergeArrivals,
  poissonArrivals,
  type SimulatedRequest,
  SimulationError,
  simulate,
  traceArrivals,
  uniformArrivals,
} from "headgate/simulator";
import { ManualClock } from "headgate/testing";
import { describe, expect, it, vi } from "vitest";
import { ForeignLease, ForeignSemaphore, ONE_SERVER, trace } from "./support.js";

const BUSY = {
  arrivals: poissonArrivals({ ratePerSecond: 300 }),
  service: { servers: 2, time: exponential(10) },
  durationMs: 2000,
} as const;

/** A limiter that does as it is told. */
class Scripted extends RateLimiter {
  readonly #answer: (request: number) => RateLimitLease | Promise<RateLimitLease>;
  #requests = 0;

  constructor(answer: (request: number) => RateLimitLease | Promise<RateLimitLease>) {
    super();
    this.#answer = answer;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    return this.#answer(this.#requests++) as RateLimitLease;
  }

  protected override acquireCore(): RateLimitLease | Promise<RateLimitLease> {
    return this.#answer(this.#requests++);
  }

  override getStatistics(): undefined {}

  override get idleDurationMs(): undefined {
    return undefined;
  }
}

const granted = () => new ForeignLease(true);

/** A partitioned limiter with one partition. */
function partitioned(make: () => RateLimiter, clock?: Clock): PartitionedRateLimiter<SimulatedRequest> {
  return PartitionedRateLimiter.create(() => RateLimitPartition.get("all", make), { clock });
}

async function failureOf(limiter: LimiterFactory): Promise<unknown> {
  return await simulate({ ...BUSY, arrivals: uniformArrivals({ ratePerSecond: 100 }), limiter }).then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe("a limiter that a user wrote", () => {
  it("gives the same run as one of this library that decides alike", async () => {
    const settings = { ...BUSY, clients: { timeoutMs: 60 } };
    const own = await trace({
      ...settings,
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 3, clock }),
    });
    const foreign = await trace({ ...settings, limiter: () => new ForeignSemaphore(2, 3) });
    const withoutReasons = (attempts: typeof own.attempts) =>
      attempts.map(({ reason, ...rest }) => ({ ...rest, isRefused: reason !== undefined }));
    expect(own.result.counts.rejected).toBeGreaterThan(20);
    expect(withoutReasons(foreign.attempts)).toEqual(withoutReasons(own.attempts));
    expect(foreign.result.rejections.other).toBe(own.result.counts.rejected);
  });

  it("sees clients leave its queue, when they do", async () => {
    const clients = { timeoutMs: 15, onTimeout: "cancel-waiting" } as const;
    const own = await trace({
      ...BUSY,
      clients,
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 5, clock }),
    });
    const limiters: ForeignSemaphore[] = [];
    const foreign = await trace({
      ...BUSY,
      clients,
      limiter: () => {
        const limiter = new ForeignSemaphore(2, 5);
        limiters.push(limiter);
        return limiter;
      },
    });
    expect(own.result.counts.cancelled).toBeGreaterThan(20);
    expect(foreign.result.counts).toEqual(own.result.counts);
    expect(limiters[0]).toMatchObject({ held: 0, waiting: 0 });
  });

  it("may answer after several turns of the host, and time waits for it", async () => {
    const limiter = () =>
      new Scripted(async () => {
        for (let i = 0; i < 3; i++) await new Promise((resolve) => void setImmediate(resolve));
        return granted();
      });
    const { attempts } = await trace({
      ...BUSY,
      arrivals: uniformArrivals({ ratePerSecond: 1000 }),
      durationMs: 50,
      limiter,
    });
    expect(attempts).toHaveLength(50);
    for (const attempt of attempts) expect(attempt.grantedMs).toBe(attempt.atMs);
  });

  it("may take such turns for one answer after the other", async () => {
    let answerFirst: () => void = () => {};
    const threeTurns = async () => {
      for (let i = 0; i < 3; i++) await new Promise((resolve) => void setImmediate(resolve));
    };
    const first = new Promise<void>((resolve) => {
      answerFirst = resolve;
    });
    const limiter = () =>
      new Scripted(async (request) => {
        if (request === 0) await first;
        if (request === 1) {
          await threeTurns();
          answerFirst();
          await threeTurns();
        }
        return granted();
      });
    const { attempts } = await trace({
      ...BUSY,
      arrivals: traceArrivals([{ atMs: 0 }, { atMs: 10 }, { atMs: 20 }]),
      limiter,
    });
    expect(attempts.map((attempt) => attempt.grantedMs)).toEqual([10, 10, 20]);
  });

  it("costs a turn of the host for an answer, and nothing while no answer is due", async () => {
    const turns = vi.spyOn(globalThis, "setImmediate");
    const { counts } = await simulate({
      ...BUSY,
      arrivals: uniformArrivals({ ratePerSecond: 100 }),
      limiter: () => new Scripted(granted),
    });
    expect(counts.completed).toBe(200);
    expect(turns.mock.calls.length).toBe(200);
  });

  it("gets every lease back, and each of them once", async () => {
    const limiter = new ForeignSemaphore(2, 50);
    const settings = { ...BUSY, clients: { timeoutMs: 30 }, limiter: () => limiter };
    // The run ends while leases are out and clients wait.
    const result = await simulate({ ...settings, drainMs: 0 });
    expect(result.counts.unfinished).toBeGreaterThan(0);
    expect(limiter).toMatchObject({ held: 0, waiting: 0 });
    expect(limiter.leases.every((lease) => lease.disposals === 1)).toBe(true);
  });

  it("may wait in a chain behind one of this library", async () => {
    const chained = await trace({
      ...BUSY,
      limiter: ({ clock }) =>
        RateLimiter.createChained(
          new ConcurrencyLimiter({ permitLimit: 1000, clock }),
          new ForeignSemaphore(2, 3),
        ),
    });
    const alone = await trace({ ...BUSY, limiter: () => new ForeignSemaphore(2, 3) });
    expect(chained.attempts).toEqual(alone.attempts);
  });

  it("that throws ends the run, with the time, the request and the cause", async () => {
    const cause = new Error("out of order");
    for (const fail of [
      () => {
        throw cause;
      },
      () => Promise.reject(cause),
    ]) {
      const limiter = () => new Scripted((request) => (request === 9 ? fail() : granted()));
      const error = await failureOf(limiter);
      expect(error).toBeInstanceOf(SimulationError);
      expect(error).toMatchObject({ timeMs: 90, requestId: 9, cause });
      expect((error as Error).message).toContain("out of order");
    }
  });

  it("whose leases or statistics throw ends the run too", async () => {
    class Broken extends ForeignSemaphore {
      override getStatistics(): undefined {
        throw new Error("no statistics");
      }
    }
    expect(await failureOf(() => new Broken(1))).toMatchObject({
      message: expect.stringContaining("no statistics"),
    });
    const lease = () =>
      new ForeignLease(true, undefined, () => {
        throw new Error("stuck");
      });
    expect(await failureOf(() => new Scripted(lease))).toMatchObject({
      message: expect.stringContaining("stuck"),
      requestId: 0,
    });
  });

  it("may reject with anything, also with nothing", async () => {
    for (const cause of [undefined, null, 0]) {
      const limiter = () => new Scripted((request) => (request === 9 ? Promise.reject(cause) : granted()));
      const error = await failureOf(limiter);
      expect(error).toBeInstanceOf(SimulationError);
      expect(error).toMatchObject({ timeMs: 90, requestId: 9 });
      expect((error as Error).cause).toBe(cause);
    }
  });

  it.each([Number.NaN, -1, "soon", null])(
    "that asks to be retried after %s is an error",
    async (retryAfterMs) => {
      class Odd extends ForeignLease {
        override get retryAfterMs(): number {
          return retryAfterMs as number;
        }
      }
      expect(await failureOf(() => new Scripted(() => new Odd(false)))).toMatchObject({
        message: expect.stringContaining("The retryAfterMs of a refused lease must be"),
        requestId: 0,
      });
    },
  );

  it("may ask never to be retried, or give no reason that is known", async () => {
    for (const reason of ["constructor", "__proto__", "server_queue", "queue-full", 5, null, undefined]) {
      class Odd extends ForeignLease {
        override get reason(): never {
          return reason as never;
        }
      }
      const limiter = () => new Scripted(() => new Odd(false, Number.POSITIVE_INFINITY));
      const result = await simulate({ ...BUSY, clients: { retries: { max: 1, baseMs: 1 } }, limiter });
      expect(result.rejections.other).toBe(result.counts.arrivals);
      expect(Object.values(result.rejections).reduce((sum, count) => sum + count, 0)).toBe(
        result.counts.rejected,
      );
      expect(result.counts).toMatchObject({ retries: 0, unfinished: result.counts.arrivals });
    }
  });

  it("has a limit when it says so, and only then", async () => {
    class Counting extends ForeignSemaphore {
      override getStatistics(): never {
        return { currentAvailablePermits: 4 - this.held, currentQueuedCount: 0 } as never;
      }
    }
    class Limited extends Counting {
      readonly permitLimit = 4;
    }
    const limitOf = async (limiter: LimiterFactory) => (await simulate({ ...BUSY, limiter })).limiter;
    expect(await limitOf(() => new Counting(4))).toMatchObject({
      limitMean: null,
      timeAtLimit: expect.any(Number),
    });
    expect(await limitOf(() => new Limited(4))).toMatchObject({ limitMean: 4, limitEnd: 4 });
  });

  it("that never answers leaves attempts unfinished, and a warning", async () => {
    const result = await simulate({
      ...BUSY,
      arrivals: uniformArrivals({ ratePerSecond: 10 }),
      limiter: () => new Scripted(() => new Promise(() => {})),
    });
    expect(result.counts).toMatchObject({ arrivals: 20, admitted: 0, unfinished: 20 });
    expect(result.warnings).toContain("20 attempts were still waiting for the limiter at the end.");
  });

  it("that sets timers for the present without end stops the run", async () => {
    const limiter: LimiterFactory = ({ clock }) => {
      const again = () => void clock.setTimer(again, 0);
      again();
      return new Scripted(granted);
    };
    await expect(failureOf(limiter)).resolves.toMatchObject({
      message: expect.stringMatching(/time does not advance.*again/),
    });
  });

  it("is refused when it is no limiter", async () => {
    await expect(failureOf(() => ({}) as never)).resolves.toMatchObject({
      message: expect.stringContaining("RateLimiter"),
    });
    const error = new Error("cannot be made");
    await expect(
      failureOf(() => {
        throw error;
      }),
    ).resolves.toMatchObject({ cause: error });
  });
});

describe("a partitioned limiter that a user wrote", () => {
  class ForeignPartitions extends PartitionedRateLimiter<SimulatedRequest> {
    readonly #limiters = new Map<string, ForeignSemaphore>();

    #of({ tenant }: SimulatedRequest): ForeignSemaphore {
      const limiter = this.#limiters.get(tenant) ?? new ForeignSemaphore(2, 3);
      this.#limiters.set(tenant, limiter);
      return limiter;
    }

    protected override attemptAcquireCore(request: SimulatedRequest): RateLimitLease {
      return this.#of(request).attemptAcquire();
    }

    protected override acquireCore(request: SimulatedRequest): Promise<RateLimitLease> {
      return this.#of(request).acquire();
    }

    override getStatistics(): undefined {}
  }

  it("gives the same run as one of this library", async () => {
    const arrivals = mergeArrivals({ a: poissonArrivals({ ratePerSecond: 300 }), b: BUSY.arrivals });
    const service = { servers: 4, time: exponential(10) };
    const own = await trace({
      ...BUSY,
      arrivals,
      service,
      limiter: ({ clock }) =>
        PartitionedRateLimiter.create(
          ({ tenant }: SimulatedRequest) =>
            RateLimitPartition.getConcurrencyLimiter(tenant, () => ({
              permitLimit: 2,
              queueLimit: 3,
              clock,
            })),
          { clock },
        ),
    });
    const foreign = await trace({ ...BUSY, arrivals, service, limiter: () => new ForeignPartitions() });
    expect(own.result.counts.rejected).toBeGreaterThan(50);
    expect(foreign.attempts.map(({ reason, ...rest }) => rest)).toEqual(
      own.attempts.map(({ reason, ...rest }) => rest),
    );
    // Nobody knows the limit of all partitions together.
    expect(own.result.limiter).toMatchObject({ timeAtLimit: null, limitMean: null });
    expect(own.result.setup.limiter).toBe("PartitionedRateLimiter");
  });
});

describe("what a limiter is told", () => {
  class Reported extends ForeignLease {
    readonly reports: LeaseOutcome[];

    constructor(reports: LeaseOutcome[]) {
      super(true);
      this.reports = reports;
    }

    override report(outcome: LeaseOutcome): void {
      if (this.disposals === 0) this.reports.push(outcome);
    }
  }

  async function reports(lateVerdict?: "dropped" | "success" | "ignored") {
    const all: LeaseOutcome[] = [];
    await simulate({
      arrivals: traceArrivals([5, 15, 20, 500].map((serviceMs) => ({ atMs: 0, serviceMs }))),
      service: { servers: 9, time: deterministic(1), degradations: [{ fromMs: 19, toMs: 21, failRate: 1 }] },
      clients: { timeoutMs: 10 },
      durationMs: 20,
      drainMs: 100,
      ...(lateVerdict === undefined ? {} : { lateVerdict }),
      limiter: () => new Scripted(() => new Reported(all)),
    });
    return all;
  }

  it("is success in time, dropped when late or failed, and ignored when the run was over first", async () => {
    expect(await reports()).toEqual(["success", "dropped", "dropped", "ignored"]);
    expect(await reports("success")).toEqual(["success", "success", "success", "ignored"]);
    expect(await reports("ignored")).toEqual(["success", "ignored", "ignored", "ignored"]);
  });
});

describe("limiters of this library", () => {
  it("a chain takes back what the first part gave when the second refuses", async () => {
    const outer: ConcurrencyLimiter[] = [];
    const result = await simulate({
      ...BUSY,
      service: ONE_SERVER,
      limiter: ({ clock }) => {
        const room = new ConcurrencyLimiter({ permitLimit: 100, clock });
        outer.push(room);
        return RateLimiter.createChained(room, new ConcurrencyLimiter({ permitLimit: 1, clock }));
      },
    });
    expect(result.counts.rejected).toBeGreaterThan(100);
    expect(outer[0]?.getStatistics().currentAvailablePermits).toBe(100);
  });

  it("partitions see who asks: id, attempt, tenant, priority and data", async () => {
    const seen: SimulatedRequest[] = [];
    await simulate({
      arrivals: traceArrivals([
        { atMs: 0, tenant: "a", priority: 3, data: "x" },
        { atMs: 1 },
        { atMs: 2, tenant: "a" },
      ]),
      service: ONE_SERVER,
      clients: { retries: { max: 1, baseMs: 1 } },
      limiter: ({ clock }) =>
        PartitionedRateLimiter.create(
          (request: SimulatedRequest) => {
            seen.push(request);
            return RateLimitPartition.getConcurrencyLimiter(request.tenant, () => ({
              permitLimit: 1,
              clock,
            }));
          },
          { clock },
        ),
      durationMs: 100,
    });
    expect(seen).toEqual([
      { id: 0, attempt: 0, tenant: "a", priority: 3, data: "x" },
      { id: 1, attempt: 0, tenant: "default", priority: 0, data: undefined },
      { id: 2, attempt: 0, tenant: "a", priority: 0, data: undefined },
      { id: 2, attempt: 1, tenant: "a", priority: 0, data: undefined },
    ]);
  });

  it("partitions have their beat in virtual time", async () => {
    const { attempts } = await trace({
      arrivals: traceArrivals(Array.from({ length: 4 }, (_, i) => ({ atMs: i }))),
      service: { servers: 9, time: deterministic(1) },
      limiter: ({ clock }) =>
        PartitionedRateLimiter.create(
          (request: SimulatedRequest) =>
            RateLimitPartition.get(
              request.tenant,
              () =>
                new FixedWindowRateLimiter({
                  permitLimit: 1,
                  windowMs: 1000,
                  queueLimit: 9,
                  autoReplenishment: false,
                  clock,
                }),
            ),
          { clock },
        ),
      durationMs: 10,
      drainMs: 10_000,
    });
    expect(attempts.map((attempt) => attempt.grantedMs)).toEqual([0, 1000, 2000, 3000]);
  });

  it("order their queues by the priority of arrivals, and take as many permits as those want", async () => {
    const { attempts, result } = await trace({
      arrivals: traceArrivals([
        { atMs: 0, permitCount: 3 },
        { atMs: 1, priority: 1 },
        { atMs: 2, priority: 2, permitCount: 2 },
        { atMs: 3, priority: 3, permitCount: 3 },
      ]),
      service: { servers: 9, time: deterministic(10) },
      limiter: ({ clock }) =>
        new ConcurrencyLimiter({
          permitLimit: 3,
          queueLimit: 9,
          queueProcessingOrder: "highestPriorityFirst",
          clock,
        }),
      durationMs: 50,
    });
    expect(attempts.map((attempt) => attempt.grantedMs)).toEqual([0, 20, 20, 10]);
    expect(result.limiter).toMatchObject({ permitsInUseMax: 3, limitMean: 3 });
    // 30 ms of 50.
    expect(result.limiter.permitsInUseMean).toBeCloseTo(1.8, 12);
    expect(result.limiter.timeAtLimit).toBeCloseTo(0.6, 12);
  });

  it("are asked without waiting in the mode attempt", async () => {
    const limiter: LimiterFactory = ({ clock }) =>
      new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 9, clock });
    const arrivals = traceArrivals([{ atMs: 0 }, { atMs: 1 }]);
    const settings = { arrivals, service: ONE_SERVER, limiter, durationMs: 50 };
    expect((await simulate(settings)).counts).toMatchObject({ delivered: 2 });
    const attempts = await simulate({ ...settings, acquire: { mode: "attempt" } });
    expect(attempts.counts).toMatchObject({ delivered: 1, rejected: 1 });
    expect(attempts.rejections.limit_reached).toBe(1);
    const partitioned: LimiterFactory = (context) =>
      PartitionedRateLimiter.create(
        () => RateLimitPartition.get("all", () => limiter(context) as RateLimiter),
        { clock: context.clock },
      );
    const inPartition = await simulate({ ...settings, limiter: partitioned, acquire: { mode: "attempt" } });
    expect(inPartition.counts).toEqual(attempts.counts);
  });

  it("let a fixed window pass twice its limit at a boundary, a sliding window and a bucket much less", async () => {
    const admitted = async (limiter: LimiterFactory) => {
      const { attempts } = await trace({
        // 200 requests around the boundary at 1000.
        arrivals: traceArrivals(Array.from({ length: 200 }, (_, i) => ({ atMs: 900 + i }))),
        service: { servers: 999, time: deterministic(1) },
        limiter,
        durationMs: 2000,
      });
      return attempts.filter((attempt) => attempt.outcome === "delivered").length;
    };
    expect(
      await admitted(({ clock }) => new FixedWindowRateLimiter({ permitLimit: 100, windowMs: 1000, clock })),
    ).toBe(200);
    expect(
      await admitted(
        ({ clock }) =>
          new TokenBucketRateLimiter({
            tokenLimit: 100,
            tokensPerPeriod: 1,
            replenishmentPeriodMs: 10,
            clock,
          }),
      ),
    ).toBeLessThanOrEqual(120);
  });

  it("get everything back at the end, also from those whom a large request held up", async () => {
    const limiters: ConcurrencyLimiter[] = [];
    const { attempts, result } = await trace({
      arrivals: traceArrivals([{ atMs: 0, permitCount: 2 }, { atMs: 1, permitCount: 3 }, { atMs: 2 }]),
      service: { servers: 9, time: deterministic(1000) },
      limiter: ({ clock }) => {
        const limiter = new ConcurrencyLimiter({ permitLimit: 3, queueLimit: 9, clock });
        limiters.push(limiter);
        return limiter;
      },
      durationMs: 10,
      drainMs: 0,
    });
    expect(attempts.map((attempt) => attempt.outcome)).toEqual(["unfinished", "unfinished", "unfinished"]);
    expect(result.counts).toMatchObject({ admitted: 1, unfinished: 3 });
    // One permit is free all the time, but from 1 on it is not for newcomers.
    expect(result.limiter.timeAtLimit).toBeCloseTo(0.9, 12);
    expect(limiters[0]?.getStatistics()).toMatchObject({ currentAvailablePermits: 3, currentQueuedCount: 0 });
    expect(result.warnings.join()).not.toContain("still in use");
  });

  it("must live by the time of the run, also in partitions and chains", async () => {
    const forgotten: readonly LimiterFactory[] = [
      () => new ConcurrencyLimiter({ permitLimit: 2 }),
      () => new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 100, clock: new ManualClock() }),
      ({ clock }) =>
        RateLimiter.createChained(
          new ConcurrencyLimiter({ permitLimit: 2 }),
          new ConcurrencyLimiter({ permitLimit: 2, clock }),
        ),
      ({ clock }) => partitioned(() => new ConcurrencyLimiter({ permitLimit: 2, clock })),
      ({ clock }) => partitioned(() => new ConcurrencyLimiter({ permitLimit: 2 }), clock),
    ];
    for (const limiter of forgotten) {
      for (const mode of ["acquire", "attempt"] as const) {
        const error = await simulate({ ...BUSY, acquire: { mode }, limiter }).catch(
          (reason: unknown) => reason,
        );
        expect(error).toBeInstanceOf(SimulationError);
        expect((error as Error).message).toContain("pass the clock of the context");
      }
    }
    // What it has granted before that was seen is given back.
    const made: ConcurrencyLimiter[] = [];
    const inPartition: LimiterFactory = ({ clock }) =>
      partitioned(() => {
        const limiter = new ConcurrencyLimiter({ permitLimit: 2 });
        made.push(limiter);
        return limiter;
      }, clock);
    await expect(simulate({ ...BUSY, limiter: inPartition })).rejects.toThrow(SimulationError);
    expect(made.map((limiter) => limiter.getStatistics().currentAvailablePermits)).toEqual([2]);
    // One that asks the run's clock for the time will do.
    const limiter: LimiterFactory = ({ clock }) => {
      const own = { now: () => clock.now(), setTimer: clock.setTimer };
      return partitioned(() => new ConcurrencyLimiter({ permitLimit: 2, clock: own }), own);
    };
    await expect(simulate({ ...BUSY, limiter })).resolves.toBeDefined();
  });

  it("have no limit on what is in use when their permits come back with time", async () => {
    const bucket = { tokenLimit: 9, tokensPerPeriod: 3, replenishmentPeriodMs: 10 };
    const factories: readonly LimiterFactory[] = [
      ({ clock }) => new FixedWindowRateLimiter({ permitLimit: 20, windowMs: 100, clock }),
      ({ clock }) => new TokenBucketRateLimiter({ ...bucket, clock }),
      ({ clock }) =>
        RateLimiter.createChained(
          new ConcurrencyLimiter({ permitLimit: 5, clock }),
          new TokenBucketRateLimiter({ ...bucket, clock }),
        ),
      ({ clock }) => shadowed(new TokenBucketRateLimiter({ ...bucket, clock })),
    ];
    for (const limiter of factories) {
      const result = await simulate({ ...BUSY, limiter });
      expect(result.limiter).toMatchObject({ limitMean: null, limitMax: null, limitEnd: null });
      expect(result.warnings.filter((warning) => warning.includes("permits"))).toEqual([]);
    }
    const shadow: LimiterFactory = ({ clock }) => shadowed(new ConcurrencyLimiter({ permitLimit: 5, clock }));
    expect((await simulate({ ...BUSY, limiter: shadow })).limiter).toMatchObject({ limitMean: 5 });
  });

  it("that keep permits are found out, also in partitions, chains and limiters that users wrote", async () => {
    class Leaky extends Scripted {
      left = 1000;

      constructor() {
        super(() => {
          this.left -= 1;
          return granted();
        });
      }

      override getStatistics(): never {
        return { currentAvailablePermits: this.left, currentQueuedCount: 0 } as never;
      }
    }
    const warned = async (limiter: LimiterFactory) => {
      const { counts, warnings } = await simulate({ ...BUSY, limiter });
      return { counts, warning: warnings.find((text) => text.includes("permits")) };
    };
    const { counts, warning } = await warned(() => new Leaky());
    expect(warning).toContain(
      `${counts.admitted} permits that could be taken at the start could not at the end`,
    );
    const inPartition = await warned(({ clock }) =>
      partitioned(() => {
        const limiter = new ConcurrencyLimiter({ permitLimit: 5, clock });
        limiter.attemptAcquire(2);
        return limiter;
      }, clock),
    );
    expect(inPartition.warning).toBe("2 permits were still in use when everything had been given back.");
    const inChain = await warned(({ clock }) => {
      const inner = new ConcurrencyLimiter({ permitLimit: 5, clock });
      clock.setTimer(() => void inner.attemptAcquire(), 0);
      return RateLimiter.createChained(inner, new ConcurrencyLimiter({ permitLimit: 9, clock }));
    });
    expect(inChain.warning).toContain("1 permits that could be taken at the start");
    const sound: LimiterFactory = ({ clock }) =>
      partitioned(() => new FixedWindowRateLimiter({ permitLimit: 9, windowMs: 1e6, clock }), clock);
    expect((await warned(sound)).warning).toBeUndefined();
  });

  it("that keep permits are found out", async () => {
    const result = await simulate({
      ...BUSY,
      limiter: ({ clock }) => {
        const limiter = new ConcurrencyLimiter({ permitLimit: 5, clock });
        limiter.attemptAcquire(2);
        return limiter;
      },
    });
    expect(result.warnings).toContain("2 permits were still in use when everything had been given back.");
  });

  it("one limiter for each tenant keeps a heavy one from taking the shares of the others", async () => {
    const tenant = (ratePerSecond: number) => poissonArrivals({ ratePerSecond });
    const tenants = { light: tenant(40), other: tenant(40), heavy: tenant(400) };
    const settings = {
      arrivals: mergeArrivals(tenants),
      service: { servers: 20, time: exponential(100) },
      durationMs: 30_000,
    };
    const shared = await simulate({
      ...settings,
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 20, clock }),
    });
    const split = await simulate({
      ...settings,
      limiter: ({ clock }) =>
        PartitionedRateLimiter.create(
          (request: SimulatedRequest) =>
            RateLimitPartition.getConcurrencyLimiter(request.tenant, () => ({ permitLimit: 7, clock })),
          { clock },
        ),
    });
    const success = ({ fairness }: typeof shared, name: string) => {
      const { delivered = 0, arrivals = 1 } = fairness.tenants[name] ?? {};
      return delivered / arrivals;
    };
    expect(success(shared, "light")).toBeLessThan(0.55);
    expect(success(split, "light")).toBeGreaterThan(0.9);
    expect(success(split, "heavy")).toBeLessThan(0.2);
    expect(shared.fairness.jainGoodput).toBeLessThan(0.6);
    expect(split.fairness.jainGoodput).toBeGreaterThan(0.85);
    expect(Object.keys(shared.fairness.tenants).sort()).toEqual(["heavy", "light", "other"]);
  });
});
