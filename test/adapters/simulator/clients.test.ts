import { ConcurrencyLimiter } from "headgate";
import {
  type ClientModel,
  closedLoopArrivals,
  deterministic,
  exponential,
  type LimiterFactory,
  type RetryModel,
  type SimulationOptions,
  scheduledArrivals,
  simulate,
  traceArrivals,
} from "headgate/simulator";
import { describe, expect, it } from "vitest";
import { ForeignSemaphore, ONE_SERVER, trace } from "./support.js";

/** One client who is refused every time; when it asks. */
async function asksAt(retries: RetryModel, retryAfterMs?: number, seed = 1): Promise<number[]> {
  const { attempts } = await trace({
    arrivals: traceArrivals([{ atMs: 100 }]),
    service: ONE_SERVER,
    clients: { retries },
    limiter: () => new ForeignSemaphore(0, 0, retryAfterMs),
    durationMs: 200,
    drainMs: 1e6,
    seed,
  });
  return attempts.map((attempt) => attempt.atMs - 100);
}

describe("clients that try again", () => {
  it("wait longer each time, up to a cap", async () => {
    expect(await asksAt({ max: 4, baseMs: 10 })).toEqual([0, 10, 30, 70, 150]);
    expect(await asksAt({ max: 4, baseMs: 10, factor: 3, capMs: 50 })).toEqual([0, 10, 40, 90, 140]);
    expect(await asksAt({ max: 2, baseMs: 10, factor: 1 })).toEqual([0, 10, 20]);
    expect(await asksAt({ max: 0, baseMs: 10 })).toEqual([0]);
    expect(await asksAt({ max: 2, baseMs: 0 })).toEqual([0, 0, 0]);
  });

  it("spread their waits by jitter", async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const full = (await asksAt({ max: 1, baseMs: 10, jitter: "full" }, undefined, seed))[1] ?? -1;
      const equal = (await asksAt({ max: 1, baseMs: 10, jitter: "equal" }, undefined, seed))[1] ?? -1;
      expect(full).toBeGreaterThanOrEqual(0);
      expect(full).toBeLessThan(10);
      expect(equal).toBeCloseTo(5 + full / 2, 12);
    }
  });

  it("obey Retry-After, obey it with jitter, or ignore it", async () => {
    expect(await asksAt({ max: 2, baseMs: 10 }, 40)).toEqual([0, 40, 80]);
    expect(await asksAt({ max: 2, baseMs: 10, retryAfter: "ignore" }, 40)).toEqual([0, 10, 30]);
    const [, first = 0] = await asksAt({ max: 1, baseMs: 10, retryAfter: "jittered" }, 40);
    expect(first).toBeGreaterThanOrEqual(40);
    expect(first).toBeLessThan(80);
  });

  it("do so only for the causes they were told", async () => {
    expect(await asksAt({ max: 2, baseMs: 10, on: ["timeout", "error"] })).toEqual([0]);
    const settings = {
      arrivals: traceArrivals([{ atMs: 0, serviceMs: 30 }]),
      service: { servers: 1, time: deterministic(1), degradations: [{ fromMs: 25, toMs: 35, failRate: 1 }] },
      durationMs: 100,
    };
    const retries = { max: 1, baseMs: 5 };
    const count = async (clients: ClientModel) => (await simulate({ ...settings, clients })).counts.attempts;
    expect(await count({ retries })).toBe(2);
    expect(await count({ retries: { ...retries, on: ["error"] } })).toBe(2);
    expect(await count({ retries: { ...retries, on: ["timeout"] } })).toBe(1);
    expect(await count({ timeoutMs: 10, retries: { ...retries, on: ["timeout"] } })).toBe(2);
    expect(await count({ timeoutMs: 10, retries: { ...retries, on: ["error"] } })).toBe(1);
  });

  it("want the same work again, whatever came of the first attempt", async () => {
    const { attempts } = await trace({
      arrivals: traceArrivals([{ atMs: 0 }]),
      service: { servers: 9, time: exponential(50), degradations: [{ fromMs: 0, toMs: 1e6, failRate: 1 }] },
      clients: { retries: { max: 2, baseMs: 1 } },
      durationMs: 100,
      drainMs: 10_000,
    });
    const times = attempts.map((attempt) => attempt.endMs - attempt.atMs);
    expect(times).toHaveLength(3);
    for (const time of times) expect(time).toBeCloseTo(times[0] ?? 0, 9);
  });

  it("keep a budget: so many retries for so many first attempts, and ten for nothing", async () => {
    const run = async (arrivals: number, budgetRatio?: number) =>
      await simulate({
        arrivals: traceArrivals(Array.from({ length: arrivals }, (_, i) => ({ atMs: i }))),
        service: ONE_SERVER,
        clients: { retries: { max: 3, baseMs: 1, ...(budgetRatio === undefined ? {} : { budgetRatio }) } },
        limiter: () => new ForeignSemaphore(0),
        durationMs: 10_000,
      });
    expect((await run(500)).counts.retries).toBe(1500);
    expect((await run(500, 0.1)).counts.retries).toBe(50);
    expect((await run(500, 0)).counts.retries).toBe(10);
    expect((await run(2, 0)).counts.retries).toBe(6);
  });

  it("are counted once as arrivals, and once for each attempt", async () => {
    const { result } = await trace({
      arrivals: traceArrivals([{ atMs: 0, serviceMs: 15 }, { atMs: 1 }]),
      service: ONE_SERVER,
      clients: { retries: { max: 9, baseMs: 10, factor: 1 } },
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 1, clock }),
      durationMs: 100,
    });
    expect(result.counts).toMatchObject({
      arrivals: 2,
      attempts: 4,
      retries: 2,
      rejected: 2,
      admitted: 2,
      delivered: 2,
      gaveUp: 0,
    });
  });

  it("keep a server down after a spike is over; a limit or a budget lets it come back", async () => {
    const rates = [
      { atMs: 0, ratePerSecond: 125 },
      { atMs: 30_000, ratePerSecond: 600 },
      { atMs: 40_000, ratePerSecond: 125 },
    ];
    const retries = { max: 3, baseMs: 100, jitter: "full" } as const;
    // 250 a second can be served: twice as much as is asked for but for 10 seconds.
    const storm = {
      arrivals: scheduledArrivals(rates),
      service: { servers: 50, time: exponential(200) },
      clients: { timeoutMs: 1000, retries },
      durationMs: 130_000,
      stepMs: 1000,
    } as const;
    const goodput = async (options: Partial<SimulationOptions>) => {
      const { series } = await simulate({ ...storm, ...options });
      const mean = (from: number, to: number) =>
        series.goodput.slice(from, to).reduce((sum, rate) => sum + rate, 0) / (to - from);
      return { before: mean(10, 30), after: mean(100, 130) };
    };
    const alone = await goodput({});
    expect(alone.before).toBeGreaterThan(115);
    expect(alone.after).toBe(0);
    const limiter: LimiterFactory = ({ clock }) => new ConcurrencyLimiter({ permitLimit: 60, clock });
    expect((await goodput({ limiter })).after).toBeGreaterThan(115);
    const clients = { timeoutMs: 1000, retries: { ...retries, budgetRatio: 0.1 } };
    expect((await goodput({ clients })).after).toBeGreaterThan(115);
  });
});

describe("very many retries", () => {
  it("take no longer the more there have been", async () => {
    const asked = await asksAt({ max: 50_000, baseMs: 2, factor: 1 });
    expect(asked).toHaveLength(50_001);
    expect(asked.at(-1)).toBe(100_000);
    const capped = await asksAt({ max: 50_000, baseMs: 1, capMs: 4 });
    expect(capped.slice(0, 5)).toEqual([0, 1, 3, 7, 11]);
    expect(capped.at(-1)).toBe(3 + 4 * 49_998);
    expect(await asksAt({ max: 3, baseMs: 9, capMs: 5 })).toEqual([0, 5, 10, 15]);
  });
});

describe("clients for whom time stands still", () => {
  const full: LimiterFactory = () => new ForeignSemaphore(0);

  it("end the run: a closed loop without thinking that is always refused", async () => {
    const run = simulate({
      arrivals: closedLoopArrivals({ users: 10, thinkMs: 0 }),
      service: ONE_SERVER,
      acquire: { mode: "attempt" },
      limiter: full,
      durationMs: 100,
    });
    await expect(run).rejects.toThrow(/time does not advance: clients came again 100000 times/);
  });

  it("end the run: retries at once without end", async () => {
    const run = simulate({
      arrivals: traceArrivals([{ atMs: 5 }]),
      service: ONE_SERVER,
      clients: { retries: { max: Number.MAX_SAFE_INTEGER, baseMs: 0 } },
      acquire: { mode: "attempt" },
      limiter: full,
      durationMs: 100,
    });
    await expect(run).rejects.toMatchObject({
      timeMs: 5,
      message: expect.stringContaining("does not advance"),
    });
  });

  it("are told from a crowd that comes at one instant, and again when all are served together", async () => {
    const crowd = 120_000;
    const result = await simulate({
      arrivals: closedLoopArrivals({ users: crowd, thinkMs: 0 }),
      service: { servers: Number.POSITIVE_INFINITY, time: deterministic(10) },
      durationMs: 25,
    });
    expect(result.counts).toMatchObject({ arrivals: 3 * crowd, delivered: 3 * crowd });
    const open = await simulate({
      arrivals: traceArrivals(Array.from({ length: crowd }, () => ({ atMs: 0 }))),
      service: ONE_SERVER,
      clients: { retries: { max: 2, baseMs: 0 } },
      acquire: { mode: "attempt" },
      limiter: full,
      durationMs: 10,
    });
    expect(open.counts.rejected).toBe(3 * crowd);
  });
});

describe("a closed loop", () => {
  it("has as many customers as it has users, each of whom waits for the answer and thinks", async () => {
    const result = await simulate({
      arrivals: closedLoopArrivals({ users: 10, thinkMs: 90 }),
      service: { servers: 10, time: deterministic(10) },
      durationMs: 10_000,
    });
    // One request in 100 ms for each user.
    expect(result.perSecond.offered).toBeGreaterThan(98);
    expect(result.perSecond.offered).toBeLessThanOrEqual(101);
    expect(result.limiter.permitsInUseMax).toBeLessThanOrEqual(10);
    expect(result.warnings.join()).toContain("closed loop");
  });

  it("offers less when the server is slow, and goes on after refusals and timeouts", async () => {
    const settings = {
      arrivals: closedLoopArrivals({ users: 10, thinkMs: 90 }),
      service: { servers: 1, time: deterministic(20) },
      durationMs: 10_000,
    };
    const slow = await simulate(settings);
    expect(slow.perSecond.offered).toBeLessThan(52);
    const refused = await simulate({ ...settings, limiter: () => new ForeignSemaphore(0) });
    expect(refused.perSecond.offered).toBeCloseTo(111, -1);
    const late = await simulate({ ...settings, clients: { timeoutMs: 10 } });
    expect(late.counts.gaveUp).toBeGreaterThan(900);
  });
});
