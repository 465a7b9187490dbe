import { ConcurrencyLimiter } from "headgate";
import {
  type Degradation,
  deterministic,
  exponential,
  type LimiterContext,
  poissonArrivals,
  type ServiceModel,
  simulate,
  traceArrivals,
} from "headgate/simulator";
import { describe, expect, it } from "vitest";
import { trace } from "./support.js";

type Work = readonly (readonly [atMs: number, serviceMs: number])[];

/** Sends work to a server; tells when each piece of it was begun and done. */
async function serve(model: Omit<ServiceModel, "time">, work: Work, timeoutMs?: number) {
  const { attempts, result } = await trace({
    arrivals: traceArrivals(work.map(([atMs, serviceMs]) => ({ atMs, serviceMs }))),
    service: { time: deterministic(10), ...model },
    clients: timeoutMs === undefined ? {} : { timeoutMs, onTimeout: "cancel-all" },
    durationMs: 10_000,
  });
  const inOrder = [...attempts].sort((a, b) => a.id - b.id);
  return {
    result,
    begun: inOrder.map((attempt) => attempt.startedMs),
    done: inOrder.map((attempt) => attempt.endMs),
    outcomes: inOrder.map((attempt) => attempt.reason ?? attempt.outcome),
  };
}

const slow = (fromMs: number, toMs: number, slowdown: number): Degradation => ({ fromMs, toMs, slowdown });
const pause = (fromMs: number, toMs: number): Degradation => ({ fromMs, toMs, pause: true });

describe("a server with a queue", () => {
  it("serves as many at once as it has servers, the others in the order in which they came", async () => {
    const { begun, done } = await serve({ servers: 2 }, [
      [0, 30],
      [0, 10],
      [1, 5],
      [2, 5],
    ]);
    expect(begun).toEqual([0, 0, 10, 15]);
    expect(done).toEqual([30, 10, 15, 20]);
  });

  it("with infinitely many servers is a mere delay", async () => {
    const work = Array.from({ length: 100 }, () => [0, 10] as const);
    const { done, result } = await serve({ servers: Number.POSITIVE_INFINITY }, work);
    expect(new Set(done)).toEqual(new Set([10]));
    expect(result.ratios.goodputOfCapacity).toBeNull();
    expect(result.utilization.servers).toBeNull();
  });

  it("with lifo takes whoever came last", async () => {
    const { begun } = await serve({ servers: 1, discipline: "lifo" }, [
      [0, 10],
      [1, 10],
      [2, 10],
      [3, 10],
    ]);
    expect(begun).toEqual([0, 30, 20, 10]);
  });

  it("turns away who finds its queue full", async () => {
    const { outcomes, result } = await serve({ servers: 1, queueLimit: 1 }, [
      [0, 10],
      [1, 10],
      [2, 10],
      [11, 10],
    ]);
    expect(outcomes).toEqual(["delivered", "delivered", "server_queue", "delivered"]);
    expect(result.counts).toMatchObject({ admitted: 4, rejected: 1, completed: 3 });
    expect(result.rejections.server_queue).toBe(1);
  });

  it("asks its filter about each request when that would be served, with a memory of its own for each run", async () => {
    let filters = 0;
    const seen: string[] = [];
    const model: Omit<ServiceModel, "time"> = {
      servers: 1,
      dequeueFilter: ({ clock }) => {
        filters += 1;
        return (enqueuedAtMs, nowMs) => {
          seen.push(`${enqueuedAtMs} ${nowMs}`);
          return clock.now() - enqueuedAtMs > 12;
        };
      },
    };
    const work: Work = [
      [0, 10],
      [1, 10],
      [2, 10],
      [3, 10],
      [15, 10],
    ];
    const { begun, outcomes } = await serve(model, work);
    expect(outcomes).toEqual(["delivered", "delivered", "dequeue", "dequeue", "delivered"]);
    expect(begun).toEqual([0, 10, undefined, undefined, 20]);
    expect(seen).toEqual(["0 0", "1 10", "2 20", "3 20", "15 20"]);
    await serve(model, work);
    expect(filters).toBe(2);
  });

  it("works slower for a while, also on what is half done", async () => {
    // 10 ms of 20 are done at 10; the rest takes 3 × 10 ms.
    const { done } = await serve({ servers: 1, degradations: [slow(10, 100, 3)] }, [[0, 20]]);
    expect(done).toEqual([40]);
    // 10 of 100 done at 10, 30 more by 100, 60 left at full speed.
    const second = await serve({ servers: 1, degradations: [slow(10, 100, 3)] }, [[0, 100]]);
    expect(second.done).toEqual([160]);
  });

  it("multiplies slowdowns that overlap, and speeds up for less than 1", async () => {
    const degradations = [slow(0, 100, 2), slow(0, 100, 5)];
    expect((await serve({ servers: 1, degradations }, [[0, 4]])).done).toEqual([40]);
    expect((await serve({ servers: 1, degradations: [slow(0, 100, 0.5)] }, [[0, 40]])).done).toEqual([20]);
  });

  it("stands still during a pause, and takes nobody's work away", async () => {
    const { begun, done } = await serve({ servers: 2, degradations: [pause(5, 25)] }, [
      [0, 10],
      [10, 10],
    ]);
    expect(done).toEqual([30, 35]);
    expect(begun).toEqual([0, 10]);
  });

  it.each(["fifo", "ps"] as const)(
    "lets nobody who is done wait for the end of a pause: %s",
    async (discipline) => {
      const model = { servers: 1, discipline };
      expect((await serve({ ...model, degradations: [pause(10, 500)] }, [[0, 10]])).done).toEqual([10]);
      // What has nothing to do waits with all others.
      expect((await serve({ ...model, degradations: [pause(5, 50)] }, [[7, 0]])).done).toEqual([50]);
    },
  );

  it("does not let a rounding decide whether a pause comes before the end of the work", async () => {
    // 0.6 + 1.1 is a little more than 1.7.
    expect((await serve({ servers: 1, degradations: [pause(1.7, 500)] }, [[0.6, 1.1]])).done).toEqual([
      0.6 + 1.1,
    ]);
  });

  it("finishes what it runs when it gets smaller, and takes more at once when it gets larger", async () => {
    const degradations = [{ fromMs: 5, toMs: 50, servers: 1 }];
    const work: Work = [
      [0, 10],
      [0, 20],
      [0, 10],
      [0, 10],
    ];
    const { begun, done } = await serve({ servers: 2, degradations }, work);
    // From 5 to 50 one server: the first to go on after both are done is the third, at 20.
    expect(begun).toEqual([0, 0, 20, 30]);
    expect(done).toEqual([10, 20, 30, 40]);
    const raised = await serve({ servers: 0, degradations: [{ fromMs: 7, toMs: 8, servers: 3 }] }, work);
    expect(raised.begun).toEqual([7, 7, 7, undefined]);
  });

  it("has the fewest servers of all that it is told at one time", async () => {
    const degradations = [
      { fromMs: 0, toMs: 50, servers: 1 },
      { fromMs: 0, toMs: 50, servers: 3 },
    ];
    const { begun } = await serve({ servers: 9, degradations }, [
      [0, 10],
      [0, 10],
      [0, 10],
    ]);
    expect(begun).toEqual([0, 10, 20]);
  });

  it("with no servers serves nobody, and that is no error", async () => {
    const { outcomes, result } = await serve({ servers: 0 }, [[0, 10]]);
    expect(outcomes).toEqual(["unfinished"]);
    expect(result.counts).toMatchObject({ arrivals: 1, unfinished: 1, completed: 0 });
  });

  it("fails as much of its work as it is told, while it is told", async () => {
    const all = await serve({ servers: 9, degradations: [{ fromMs: 5, toMs: 25, failRate: 1 }] }, [
      [0, 4],
      [0, 5],
      [0, 20],
      [0, 25],
    ]);
    // What completes right at 5 or 25 completes before the trouble begins or ends.
    expect(all.outcomes).toEqual(["delivered", "delivered", "error", "error"]);
    expect(all.result.counts).toMatchObject({ completed: 4, delivered: 2, errors: 2, gaveUp: 2 });
    const third = await simulate({
      arrivals: poissonArrivals({ ratePerSecond: 1000 }),
      service: {
        servers: 100,
        time: deterministic(1),
        degradations: [
          { fromMs: 0, toMs: 100_000, failRate: 0.5 },
          { fromMs: 0, toMs: 100_000, failRate: 0.5 },
        ],
      },
      durationMs: 20_000,
    });
    expect(third.counts.errors / third.counts.completed).toBeCloseTo(0.75, 1);
  });

  it("stops work whose client has gone when clients cancel everything", async () => {
    const { done, outcomes, result } = await serve(
      { servers: 1 },
      [
        [0, 100],
        [1, 10],
        [2, 100],
      ],
      30,
    );
    // The first is stopped at 30 and the second served from then on: too late by 9.
    expect(outcomes).toEqual(["cancelled", "cancelled", "cancelled"]);
    expect(done).toEqual([30, 31, 32]);
    expect(result.counts).toMatchObject({ admitted: 3, cancelled: 3, completed: 0, gaveUp: 3 });
  });
});

describe("a server behind a limiter", () => {
  const limiter = ({ clock }: LimiterContext) =>
    new ConcurrencyLimiter({ permitLimit: 3, queueLimit: 9, clock });
  /** Three are let in at 0, the fourth waits for the limiter. */
  const arrivals = traceArrivals([0, 0, 0, 1].map((atMs) => ({ atMs, serviceMs: 10 })));

  it("goes on with who is in its own queue before the limiter lets in the next", async () => {
    const { attempts } = await trace({
      arrivals,
      service: { servers: 1, time: deterministic(10), discipline: "lifo" },
      limiter,
      durationMs: 100,
    });
    // The last of its own at 10; who is let in then has come after the one that is left.
    expect(attempts.map((attempt) => attempt.startedMs)).toEqual([0, 30, 10, 20]);
  });

  it("lets nobody pass its queue whom the limiter lets in because another was turned away", async () => {
    const { attempts } = await trace({
      arrivals,
      service: {
        servers: 1,
        time: deterministic(10),
        dequeueFilter: () => {
          let asked = 0;
          return () => ++asked === 2;
        },
      },
      limiter,
      durationMs: 100,
    });
    expect(attempts.map((attempt) => attempt.startedMs)).toEqual([0, undefined, 10, 20]);
  });
});

describe("a server that is shared", () => {
  const ps = { discipline: "ps" } as const;

  it("runs everybody at once, each slower the more there are", async () => {
    const { done } = await serve({ servers: 1, ...ps }, [
      [0, 10],
      [5, 10],
      [6, 1],
    ]);
    expect(done).toEqual([16, 21, 9]);
  });

  it("loses capacity to contention only beyond its servers", async () => {
    const few = await serve({ servers: 2, ...ps, contention: 1 }, [
      [0, 10],
      [0, 10],
    ]);
    expect(few.done).toEqual([10, 10]);
    const many = await serve({ servers: 2, ...ps, contention: 1 }, [
      [0, 10],
      [0, 10],
      [0, 10],
      [0, 10],
    ]);
    expect(many.done).toEqual([40, 40, 40, 40]);
  });

  it("knows slowdowns, pauses and other numbers of servers", async () => {
    expect((await serve({ servers: 1, ...ps, degradations: [slow(5, 99, 2)] }, [[0, 10]])).done).toEqual([
      15,
    ]);
    expect((await serve({ servers: 1, ...ps, degradations: [pause(5, 25)] }, [[0, 10]])).done).toEqual([30]);
    const smaller = [{ fromMs: 5, toMs: 99, servers: 1 }];
    const { done } = await serve({ servers: 2, ...ps, degradations: smaller }, [
      [0, 10],
      [0, 10],
    ]);
    expect(done).toEqual([15, 15]);
    const none = [{ fromMs: 5, toMs: 25, servers: 0 }];
    expect((await serve({ servers: 1, ...ps, contention: 1, degradations: none }, [[0, 10]])).done).toEqual([
      30,
    ]);
  });

  it("turns away who is too many, and goes on faster when somebody is stopped", async () => {
    const { outcomes } = await serve({ servers: 1, ...ps, queueLimit: 1 }, [
      [0, 10],
      [0, 10],
      [0, 10],
    ]);
    expect(outcomes).toEqual(["delivered", "delivered", "server_queue"]);
    const { done } = await serve(
      { servers: 1, ...ps },
      [
        [0, 100],
        [20, 9],
      ],
      30,
    );
    // Half speed from 20 to 30, alone from then on.
    expect(done).toEqual([30, 34]);
  });

  it("gives the same as looking at every job on every change", async () => {
    const work: [number, number][] = [];
    let at = 0;
    for (let i = 0; i < 300; i++) {
      at += (i * 7919) % 13;
      work.push([at, 1 + ((i * 104_729) % 61)]);
    }
    const servers = 4;
    const contention = 0.3;
    const { done } = await serve({ servers, ...ps, contention }, work);
    expect(done).toHaveLength(300);
    for (const [i, end] of naiveSharing(work, servers, contention).entries()) {
      expect(done[i]).toBeCloseTo(end, 6);
    }
  });

  it("stays exact when it is never empty for long", async () => {
    const work = Array.from({ length: 900 }, (_, i) => [i * 10, 10.5] as const);
    const { done } = await serve({ servers: 2, ...ps }, work);
    expect(done.at(-1)).toBeCloseTo(899 * 10 + 10.5, 9);
  });
});

/** When each job ends, by working out all jobs anew on every change. */
function naiveSharing(work: readonly [number, number][], servers: number, contention: number): number[] {
  const left = new Map<number, number>();
  const ends: number[] = [];
  let now = 0;
  let next = 0;
  while (next < work.length || left.size > 0) {
    const n = left.size;
    const loss = 1 + (contention * Math.max(0, n - servers)) / servers;
    const speed = n === 0 ? 0 : Math.min(1, servers / n) / loss;
    const arrival = work[next]?.[0] ?? Number.POSITIVE_INFINITY;
    const shortest = Math.min(...left.values());
    const end = n === 0 ? Number.POSITIVE_INFINITY : now + shortest / speed;
    const until = Math.min(arrival, end);
    for (const [id, ms] of left) left.set(id, ms - (until - now) * speed);
    now = until;
    if (end <= arrival) {
      for (const [id, ms] of left) {
        if (ms > 1e-9) continue;
        left.delete(id);
        ends[id] = now;
      }
    } else {
      left.set(next, work[next]?.[1] ?? 0);
      next += 1;
    }
  }
  return ends;
}

describe("utilization", () => {
  it("is the share of servers that was busy, and of their work that was in vain", async () => {
    const { result } = await trace({
      arrivals: traceArrivals([
        { atMs: 0, serviceMs: 20 },
        { atMs: 0, serviceMs: 60 },
      ]),
      service: { servers: 4, time: exponential(10) },
      clients: { timeoutMs: 30 },
      limiter: ({ clock }) => new ConcurrencyLimiter({ permitLimit: 5, clock }),
      durationMs: 100,
    });
    expect(result.utilization).toEqual({ servers: 0.2, wasted: 0.75 });
  });

  it("is the share of as many servers as there were, also when troubles make them more or fewer", async () => {
    const busy = async (degradations: readonly Degradation[], atMs: readonly number[]) => {
      const { result } = await trace({
        arrivals: traceArrivals(atMs.map((time) => ({ atMs: time, serviceMs: 100 }))),
        service: { servers: 2, time: deterministic(1), degradations },
        durationMs: 100,
      });
      return result.utilization.servers;
    };
    const four = [{ fromMs: 0, toMs: 100, servers: 4 }];
    expect(await busy(four, [0, 0, 0, 0])).toBe(1);
    expect(await busy(four, [0])).toBe(0.25);
    // Two are still at work when there should be one.
    expect(await busy([{ fromMs: 50, toMs: 100, servers: 1 }], [0, 0])).toBe(1);
  });

  it("of a shared server is in vain by what each request has used of it", async () => {
    const { result } = await trace({
      arrivals: traceArrivals([0, 0, 60].map((atMs) => ({ atMs, serviceMs: 20 }))),
      service: { servers: 1, time: exponential(10), discipline: "ps" },
      clients: { timeoutMs: 30 },
      durationMs: 100,
    });
    expect(result.utilization.wasted).toBeCloseTo(2 / 3, 12);
  });

  it("of a shared server counts servers, not requests", async () => {
    const { result } = await trace({
      arrivals: traceArrivals([
        { atMs: 0, serviceMs: 20 },
        { atMs: 0, serviceMs: 20 },
      ]),
      service: { servers: 1, time: exponential(10), discipline: "ps" },
      durationMs: 100,
    });
    expect(result.utilization.servers).toBeCloseTo(0.4, 12);
  });
});
