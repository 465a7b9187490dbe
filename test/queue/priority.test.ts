import {
  type AcquireOptions,
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type QueueOptions,
  type RateLimiter,
  type RateLimitLease,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, it } from "vitest";
import { type Inside, type InsideLimiter, inside, requestWith } from "../../src/internal.js";
import { CountingClock, CountingController, flush, type Watched, watch } from "../support.js";

// shield.md 3.2 and table 4.4 as design.md C-16 leaves them: FIFO within a priority (Q-22, and with it P16 to P18, is void).

type Options = QueueOptions & { readonly limit: number };

const PERIOD = 1000;
const OPTIONS = { limit: 1, queueLimit: 10, queueProcessingOrder: "highestPriorityFirst" } as const;

const KINDS: readonly (readonly [string, (options: Options) => RateLimiter])[] = [
  ["ConcurrencyLimiter", ({ limit, ...rest }) => new ConcurrencyLimiter({ permitLimit: limit, ...rest })],
  [
    "FixedWindowRateLimiter",
    ({ limit, ...rest }) => new FixedWindowRateLimiter({ permitLimit: limit, windowMs: PERIOD, ...rest }),
  ],
  [
    "SlidingWindowRateLimiter",
    ({ limit, ...rest }) =>
      new SlidingWindowRateLimiter({ permitLimit: limit, windowMs: PERIOD, segmentsPerWindow: 1, ...rest }),
  ],
  [
    "TokenBucketRateLimiter",
    ({ limit, ...rest }) =>
      new TokenBucketRateLimiter({
        tokenLimit: limit,
        tokensPerPeriod: limit,
        replenishmentPeriodMs: PERIOD,
        ...rest,
      }),
  ],
];

/** A limiter that goes by priority unless told otherwise, and those who ask it, by name. */
class Scene {
  readonly clock = new CountingClock();
  readonly limiter: RateLimiter;
  /** Who was granted, in that order. */
  readonly granted: string[] = [];
  /** Who was refused, and why. */
  readonly refused: Record<string, string> = {};
  #held: RateLimitLease[] = [];

  constructor(make: (options: Options) => RateLimiter, options: Partial<Options> = {}) {
    this.limiter = make({ ...OPTIONS, clock: this.clock, ...options });
  }

  /** Takes permits that are free. */
  take(permits: number): void {
    const lease = this.limiter.attemptAcquire(permits);
    expect(lease.isAcquired).toBe(true);
    this.#held.push(lease);
  }

  ask(name: string, priority?: number, permits = 1, options: AcquireOptions = {}): Watched<RateLimitLease> {
    const promise = this.limiter.acquire(
      permits,
      priority === undefined ? options : { ...options, priority },
    );
    promise.then(
      (lease) => {
        if (lease.isAcquired) {
          this.granted.push(name);
          this.#held.push(lease);
        } else this.refused[name] = String(lease.reason);
      },
      () => {
        this.refused[name] = "aborted";
      },
    );
    return watch(promise);
  }

  /** Brings back everything that is taken. */
  async refill(): Promise<void> {
    const held = this.#held;
    this.#held = [];
    if (this.limiter instanceof ConcurrencyLimiter) for (const lease of held) lease.dispose();
    else this.clock.advance(PERIOD);
    await flush();
  }

  /** Brings it back at a moment at which that of a period begins, or just before. */
  async refillAt(moment: number): Promise<void> {
    const left = moment - this.clock.now();
    if (!(this.limiter instanceof ConcurrencyLimiter)) {
      this.clock.advance(left);
      await flush();
      return;
    }
    this.clock.advance(left - 1);
    await this.refill();
    this.clock.advance(1);
  }

  /** Refills until nobody waits; who was granted, in order. */
  async run(): Promise<string> {
    await flush();
    for (let i = 0; i < 20 && this.queued > 0; i++) await this.refill();
    expect(this.queued).toBe(0);
    return this.granted.join(" ");
  }

  get queued(): number {
    return this.limiter.getStatistics()?.currentQueuedCount as number;
  }

  get free(): number {
    return this.limiter.getStatistics()?.currentAvailablePermits as number;
  }

  get byPriority(): [number, number][] {
    return [...((this.limiter as InsideLimiter)[inside] as Inside).queuedByPriority()];
  }
}

describe.each(KINDS)("priorities in the queue of %s", (_kind, make) => {
  /** All permits are taken. */
  const full = (options: Partial<Options> = {}): Scene => {
    const scene = new Scene(make, options);
    scene.take(options.limit ?? 1);
    return scene;
  };

  describe("order", () => {
    it("P1 Q-10 serves the highest priority first, and within one whoever has waited longest", async () => {
      const scene = full();
      scene.ask("a", 0);
      scene.ask("b", 5);
      scene.ask("c", -1);
      scene.ask("d", 5);
      expect(await scene.run()).toBe("b d a c");
    });

    it("P2 takes no priority, undefined, 0 and -0 for the same one", async () => {
      const scene = full();
      scene.ask("none");
      scene.ask("minus zero", -0);
      scene.ask("zero", 0);
      scene.ask("undefined", undefined, 1, { priority: undefined });
      scene.ask("below", -1);
      scene.ask("none again");
      expect(scene.byPriority).toEqual([
        [0, 5],
        [-1, 1],
      ]);
      expect(await scene.run()).toBe("none,minus zero,zero,undefined,none again,below".replaceAll(",", " "));
    });

    it("tells priorities apart up to the largest and the least that there are", async () => {
      const { MAX_SAFE_INTEGER: most, MIN_SAFE_INTEGER: least } = Number;
      const scene = full();
      for (const priority of [least + 1, most - 1, least, most, 0]) scene.ask(String(priority), priority);
      expect(await scene.run()).toBe([most, most - 1, 0, least + 1, least].join(" "));
    });

    it("Q-05 lets a newcomer of a higher priority go before those who wait already", async () => {
      const scene = full();
      scene.ask("a", 1);
      scene.ask("b", 1);
      await scene.refill();
      scene.ask("c", 2);
      scene.ask("d", 1);
      expect(await scene.run()).toBe("a c b d");
    });

    it("forgets a priority that nobody waits with, and takes it up again", async () => {
      const scene = full();
      scene.ask("a", 7);
      await scene.refill();
      expect(scene.byPriority).toEqual([]);
      scene.ask("b", 3);
      scene.ask("c", 7);
      expect(scene.byPriority).toEqual([
        [7, 1],
        [3, 1],
      ]);
      expect(await scene.run()).toBe("a c b");
    });

    it("P8 tells the permits that are waited for by priority, the highest first, as they were when asked", async () => {
      const scene = full({ limit: 3 });
      scene.ask("a");
      scene.ask("b", 5, 2);
      scene.ask("c", 5);
      scene.ask("d", -2);
      const before = scene.byPriority;
      expect(before).toEqual([
        [5, 3],
        [0, 1],
        [-2, 1],
      ]);
      expect(scene.queued).toBe(5);
      await scene.run();
      expect([before.length, scene.byPriority]).toEqual([3, []]);
    });
  });

  describe("a full queue", () => {
    it("P3 evicts the newest of the lowest priority for a newcomer of a higher one", async () => {
      const scene = full({ queueLimit: 2 });
      scene.ask("a", 0);
      const evicted = scene.ask("b", 0);
      scene.ask("c", 1);
      await flush();
      expect(scene.refused).toEqual({ b: "queue_evicted" });
      expect([evicted.value.retryAfterMs, evicted.value.tryGetMetadata("REASON_PHRASE")]).toEqual([
        undefined,
        undefined,
      ]);
      expect(await scene.run()).toBe("c a");
    });

    it("P4 Q-11 refuses newcomers of an equal or lower priority, and leaves the others alone", async () => {
      const scene = full({ queueLimit: 2 });
      scene.ask("a", 3);
      scene.ask("b", 3);
      scene.ask("c", 3);
      scene.ask("d", 2);
      await flush();
      expect(scene.refused).toEqual({ c: "queue_full", d: "queue_full" });
      expect(scene.queued).toBe(2);
      expect(await scene.run()).toBe("a b");
    });

    it("P5 evicts one after another, from the then lowest priority, as long as that is below", async () => {
      const scene = full({ queueLimit: 3 });
      scene.ask("a", 5);
      scene.ask("b", 1);
      scene.ask("c", 1);
      const fates: (string | undefined)[] = [];
      for (const [name, watched] of [
        ["d", "c"],
        ["e", "b"],
        ["f", "f"],
      ] as const) {
        scene.ask(name, 2);
        await flush();
        fates.push(scene.refused[watched]);
      }
      expect(fates).toEqual(["queue_evicted", "queue_evicted", "queue_full"]);
      expect(Object.keys(scene.refused)).toEqual(["c", "b", "f"]);
      expect(await scene.run()).toBe("a d e");
    });

    it("P6 Q-13 is nothing that running work has to fear, and with no queue nobody is evicted at all", async () => {
      const scene = full({ queueLimit: 0 });
      scene.ask("a", 100);
      await flush();
      expect(scene.refused).toEqual({ a: "limit_reached" });
      expect([scene.free, scene.clock.timersSet]).toEqual([0, 0]);
    });

    it("P11 Q-12 evicts as many as a large newcomer needs, and nobody of its own priority", async () => {
      const scene = full({ limit: 4, queueLimit: 4 });
      scene.ask("a", 0, 2);
      scene.ask("b", 0, 1);
      scene.ask("c", 1, 1);
      scene.ask("d", 2, 3);
      await flush();
      expect(scene.refused).toEqual({ b: "queue_evicted", a: "queue_evicted" });
      expect(Object.keys(scene.refused)).toEqual(["b", "a"]);
      expect(scene.queued).toBe(4);
      expect(await scene.run()).toBe("d c");
    });

    it("P11 evicts no more than it needs", async () => {
      const scene = full({ limit: 4, queueLimit: 4 });
      scene.ask("a", 0, 2);
      scene.ask("b", -1, 1);
      scene.ask("c", 0, 1);
      scene.ask("d", 2, 2);
      await flush();
      expect(Object.keys(scene.refused)).toEqual(["b", "c"]);
      expect(scene.byPriority).toEqual([
        [2, 2],
        [0, 2],
      ]);
    });

    it("P12 Q-12 evicts nobody when that would not make room enough", async () => {
      const scene = full({ limit: 4, queueLimit: 4 });
      scene.ask("a", 0, 2);
      scene.ask("b", 0, 1);
      scene.ask("c", 1, 1);
      scene.ask("d", 1, 4);
      await flush();
      expect(scene.refused).toEqual({ d: "queue_full" });
      expect(scene.queued).toBe(4);
      expect(await scene.run()).toBe("c a b");
    });

    it("Q-12 refuses who wants more than the queue ever holds, and evicts nobody for it", async () => {
      const scene = full({ limit: 4, queueLimit: 3 });
      scene.ask("a", 0, 3);
      scene.ask("b", 9, 4);
      await flush();
      expect(scene.refused).toEqual({ b: "queue_full" });
      expect(scene.queued).toBe(3);
    });

    it("Q-12 may have to let everybody go for one", async () => {
      const scene = full({ limit: 3, queueLimit: 3 });
      for (const name of ["a", "b", "c"]) scene.ask(name, 0);
      scene.ask("d", 1, 3);
      await flush();
      expect(Object.keys(scene.refused)).toEqual(["c", "b", "a"]);
      expect(await scene.run()).toBe("d");
    });

    it("Q-71 counts each eviction and each refusal as a failed lease, once", async () => {
      const scene = full({ queueLimit: 2 });
      for (const [name, priority] of Object.entries({ a: 0, b: 0, c: 1, d: 1, e: 1, f: 0 }))
        scene.ask(name, priority);
      await flush();
      expect(scene.limiter.getStatistics()?.totalFailedLeases).toBe(4);
      expect(scene.limiter.getStatistics()?.totalSuccessfulLeases).toBe(1);
    });

    it("has room again at once where somebody was evicted and somebody left", async () => {
      const scene = full({ queueLimit: 2 });
      const caller = new AbortController();
      scene.ask("a", 0);
      scene.ask("b", 1, 1, { signal: caller.signal });
      scene.ask("c", 2);
      caller.abort();
      scene.ask("d", 0);
      await flush();
      expect(scene.refused).toEqual({ a: "queue_evicted", b: "aborted" });
      expect(await scene.run()).toBe("c d");
    });

    it("P22 Q-14 has the newcomer in it and the evicted one out of it when that one is told", () => {
      const scene = full({ queueLimit: 1 });
      const seen: unknown[] = [];
      void requestWith(
        scene.limiter,
        1,
        {},
        {
          settled: (lease) => seen.push(lease.reason, scene.queued, scene.byPriority),
          failed: () => seen.push("failed"),
        },
      );
      const newcomer = scene.ask("b", 1);
      expect(seen).toEqual(["queue_evicted", 1, [[1, 1]]]);
      expect(newcomer.state).toBe("pending");
    });

    it("P10 Q-15 lets an aborted waiter go as aborted, and evicts nobody for the newcomer who comes after", async () => {
      const scene = full({ queueLimit: 1 });
      const caller = new AbortController();
      const leaving = scene.ask("a", 0, 1, { signal: caller.signal });
      caller.abort("left");
      scene.ask("b", 1);
      await flush();
      expect([leaving.reason, scene.limiter.getStatistics()?.totalFailedLeases]).toEqual(["left", 0]);
      expect(await scene.run()).toBe("b");
    });

    it("P10 Q-08 settles a waiter once, who is evicted and then aborted in the same turn", async () => {
      const scene = full({ queueLimit: 1 });
      const caller = new CountingController();
      scene.ask("a", 0, 1, { signal: caller.signal });
      scene.ask("b", 1);
      expect(caller.listeners).toBe(0);
      caller.abort("left");
      await flush();
      expect(scene.refused).toEqual({ a: "queue_evicted" });
      expect(scene.queued).toBe(1);
    });
  });

  describe("permits that are free although somebody waits", () => {
    it("P13 Q-05 go to a newcomer of a strictly higher priority than all who wait", () => {
      const scene = new Scene(make, { limit: 4 });
      scene.take(3);
      scene.ask("large", 0, 3);
      scene.ask("small", 5, 1);
      expect([scene.free, scene.queued]).toEqual([0, 3]);
    });

    it("P14 Q-06 do not go to one of an equal or lower priority: the head blocks", async () => {
      const scene = new Scene(make, { limit: 4 });
      scene.take(3);
      scene.ask("large", 5, 3);
      scene.ask("equal", 5, 1);
      scene.ask("lower", 0, 1);
      expect([scene.free, scene.queued]).toEqual([1, 5]);
      await scene.refill();
      expect(scene.granted).toEqual(["large", "equal"]);
    });

    it("do not go to one who is above some, but not above the highest who waits", () => {
      const scene = new Scene(make, { limit: 4 });
      scene.take(3);
      scene.ask("large", 5, 3);
      scene.ask("lower", 0, 2);
      scene.ask("between", 3, 1);
      expect([scene.free, scene.queued]).toEqual([1, 6]);
    });

    it("do not go to a newcomer of the highest priority for whom they are too few: it is the head then", async () => {
      const scene = new Scene(make, { limit: 4 });
      scene.take(3);
      scene.ask("first", 0, 2);
      scene.ask("large", 5, 4);
      scene.ask("small", 3, 1);
      expect([scene.free, scene.queued]).toEqual([1, 7]);
      await scene.refill();
      expect(scene.granted).toEqual(["large"]);
    });

    it("P15 D-4 go to the next in order when the head is aborted", async () => {
      const scene = new Scene(make, { limit: 4 });
      scene.take(3);
      const caller = new AbortController();
      scene.ask("large", 5, 3, { signal: caller.signal });
      scene.ask("large too", 0, 2);
      scene.ask("small", 3, 1);
      caller.abort();
      expect([scene.free, scene.queued]).toEqual([0, 2]);
      await flush();
      expect(scene.granted).toEqual(["small"]);
    });

    it("Q-18 go to the next in order when the head has waited long enough", async () => {
      const scene = new Scene(make, { limit: 4, queueTimeoutMs: PERIOD / 2 });
      scene.take(3);
      scene.ask("head", 5, 3);
      scene.clock.advance(PERIOD / 4);
      scene.ask("next", 3, 1);
      expect([scene.free, scene.queued]).toEqual([1, 4]);
      scene.clock.advance(PERIOD / 4);
      expect([scene.free, scene.queued]).toEqual([0, 0]);
      await flush();
      expect([scene.refused, scene.granted]).toEqual([{ head: "queue_timeout" }, ["next"]]);
    });

    it("make an attempt pass only those of a negative priority, for an attempt counts as 0", () => {
      const outcomes = [-1, 0, 1].map((priority) => {
        const scene = new Scene(make, { limit: 4 });
        scene.take(3);
        scene.ask("waiting", priority, 2);
        return scene.limiter.attemptAcquire(1).isAcquired;
      });
      expect(outcomes).toEqual([true, false, false]);
    });

    it("make an acquire without a priority pass only those of a negative one", () => {
      const outcomes = [-1, 0, 1].map((priority) => {
        const scene = new Scene(make, { limit: 4 });
        scene.take(3);
        scene.ask("waiting", priority, 2);
        scene.ask("newcomer");
        return scene.free;
      });
      expect(outcomes).toEqual([0, 1, 1]);
    });
  });

  describe("requests for 0 permits", () => {
    it("R-CORE-8 are granted while a permit is free, whoever waits, and take none", async () => {
      const scene = new Scene(make, { limit: 4 });
      scene.take(3);
      scene.ask("large", 9, 4);
      scene.ask("nothing", -9, 0);
      await flush();
      expect([scene.granted, scene.free, scene.queued]).toEqual([["nothing"], 1, 4]);
    });

    it("wait in their place otherwise, and have a place even when the queue is full", async () => {
      const scene = full({ queueLimit: 1 });
      scene.ask("one", 0, 1);
      scene.ask("probe low", -1, 0);
      scene.ask("probe high", 1, 0);
      expect(scene.byPriority).toEqual([
        [1, 0],
        [0, 1],
        [-1, 0],
      ]);
      await scene.refill();
      // The one takes the last permit; who waits for 0 right behind it goes along.
      expect(scene.granted).toEqual(["probe high", "one", "probe low"]);
    });

    it("go when the newest of the lowest has to, although that makes no room", async () => {
      const scene = full({ queueLimit: 1 });
      scene.ask("one", 0, 1);
      scene.ask("probe", 0, 0);
      scene.ask("higher", 1, 1);
      await flush();
      expect(scene.refused).toEqual({ probe: "queue_evicted", one: "queue_evicted" });
      expect(await scene.run()).toBe("higher");
    });
  });

  describe("leaving from the middle", () => {
    it("by abort leaves the order of the others as it was", async () => {
      const scene = full();
      const caller = new CountingController();
      for (const [name, priority] of [
        ["a", 1],
        ["b", 2],
        ["c", 1],
        ["d", 2],
        ["e", 1],
      ] as const)
        scene.ask(name, priority, 1, name === "c" || name === "b" ? { signal: caller.signal } : {});
      expect(caller.added).toBe(1);
      caller.abort();
      await flush();
      expect(scene.refused).toEqual({ b: "aborted", c: "aborted" });
      expect(await scene.run()).toBe("d a e");
      expect(caller.listeners).toBe(0);
    });

    it("by a time-out does so too", async () => {
      const scene = full({ queueTimeoutMs: 2.5 * PERIOD });
      scene.ask("x", 9);
      scene.ask("a", 1);
      scene.ask("y", 9);
      scene.clock.advance(0.7 * PERIOD);
      scene.ask("b", 2);
      await scene.refillAt(PERIOD);
      scene.clock.advance(0.5 * PERIOD);
      scene.ask("c", 1);
      await scene.refillAt(2 * PERIOD);
      scene.clock.advance(0.5 * PERIOD);
      expect(scene.byPriority).toEqual([
        [2, 1],
        [1, 1],
      ]);
      await scene.refillAt(3 * PERIOD);
      await scene.refillAt(4 * PERIOD);
      expect(scene.granted.join(" ")).toBe("x y b c");
      expect([scene.refused, scene.clock.timerCount]).toEqual([{ a: "queue_timeout" }, 0]);
    });

    it("by a priority that nobody else has, the highest, the lowest or one between, leaves the others in order", async () => {
      for (const leaving of [9, 5, 1]) {
        const scene = full();
        const caller = new AbortController();
        for (const priority of [5, 1, 9, 3, 7])
          scene.ask(String(priority), priority, 1, priority === leaving ? { signal: caller.signal } : {});
        caller.abort();
        const rest = [9, 7, 5, 3, 1].filter((priority) => priority !== leaving);
        expect(await scene.run()).toBe(rest.join(" "));
      }
    });
  });

  it("Q-17 starves a lower priority for as long as higher ones come", async () => {
    const scene = full();
    scene.ask("low", 0);
    for (let i = 0; i < 10; i++) {
      scene.ask(`high ${i}`, 9);
      await scene.refill();
    }
    expect(scene.granted).toEqual(Array.from({ length: 10 }, (_, i) => `high ${i}`));
    expect(await scene.run()).toMatch(/ low$/);
  });

  it("P7 takes no notice of a priority in the other orders", async () => {
    for (const queueProcessingOrder of ["oldestFirst", "newestFirst"] as const) {
      const scene = full({ queueProcessingOrder, queueLimit: 2 });
      scene.ask("a", 0);
      scene.ask("b", 9);
      expect(scene.byPriority).toEqual([[0, 2]]);
      scene.ask("c", -9);
      await flush();
      expect(scene.refused).toEqual(
        queueProcessingOrder === "oldestFirst" ? { c: "queue_full" } : { a: "queue_evicted" },
      );
      expect(await scene.run()).toBe(queueProcessingOrder === "oldestFirst" ? "a b" : "c b");
    }
  });

  it("dispose refuses everybody, from the highest priority down", async () => {
    const scene = full();
    for (const priority of [1, 3, 2]) scene.ask(String(priority), priority);
    scene.limiter.dispose();
    await flush();
    expect(Object.keys(scene.refused).sort()).toEqual(["1", "2", "3"]);
    expect(new Set(Object.values(scene.refused))).toEqual(new Set(["limiter_disposed"]));
    expect(scene.clock.timerCount).toBe(0);
  });

  it("Q-61 100 000 waiters on 1000 priorities leave nothing when they all abort: no listener, no timer, no place", async () => {
    const scene = full({ queueLimit: 100_000, queueTimeoutMs: 1e9 });
    const callers = Array.from({ length: 10 }, () => new CountingController());
    let rejected = 0;
    for (let i = 0; i < 100_000; i++) {
      const caller = callers[i % 10] as CountingController;
      const priority = (i * 7919) % 1000;
      scene.limiter.acquire(1, { priority, signal: caller.signal }).catch(() => {
        rejected += 1;
      });
    }
    expect([scene.queued, scene.byPriority.length, scene.clock.timerCount]).toEqual([100_000, 1000, 1]);
    expect(callers.map(({ added }) => added)).toEqual(callers.map(() => 1));
    for (const caller of callers) caller.abort();
    expect([scene.queued, scene.byPriority.length, scene.clock.timerCount]).toEqual([0, 0, 0]);
    expect(callers.map(({ listeners }) => listeners)).toEqual(callers.map(() => 0));
    await flush();
    expect(rejected).toBe(100_000);
    scene.ask("after", 5);
    expect(await scene.run()).toBe("after");
  });

  it("Q-61 100 000 waiters on 1000 priorities are served in order", async () => {
    const limit = 1000;
    const scene = full({ limit, queueLimit: 100_000 });
    const served: number[] = [];
    const leases: RateLimitLease[] = [];
    for (let i = 0; i < 100_000; i++) {
      const priority = (i * 7919) % 1000;
      void scene.limiter.acquire(1, { priority }).then((lease) => {
        served.push(priority * 100_000 + (99_999 - i));
        leases.push(lease);
      });
    }
    await scene.refill();
    while (scene.queued > 0) {
      if (scene.limiter instanceof ConcurrencyLimiter) for (const lease of leases.splice(0)) lease.dispose();
      else scene.clock.advance(PERIOD);
      await flush();
    }
    expect(served.length).toBe(100_000);
    expect(served.findIndex((rank, i) => i > 0 && rank >= (served[i - 1] as number))).toBe(-1);
  });
});

describe("a limit that changes while priorities wait", () => {
  const make = (KINDS[0] as (typeof KINDS)[number])[1];

  it("C-10 is raised: the highest go first", async () => {
    const scene = new Scene(make);
    scene.take(1);
    for (const priority of [1, 3, 2, 0]) scene.ask(String(priority), priority);
    (scene.limiter as ConcurrencyLimiter).permitLimit = 3;
    await flush();
    expect(scene.granted).toEqual(["3", "2"]);
  });

  it("C-10 is lowered: who wants more is refused wherever it stands, the highest first, and the others go on in order", async () => {
    const scene = new Scene(make, { limit: 4, queueLimit: 20 });
    scene.take(4);
    scene.ask("a", 0, 4);
    scene.ask("b", 2, 4);
    scene.ask("c", 1, 2);
    scene.ask("d", 1, 3);
    scene.ask("e", 2, 1);
    (scene.limiter as ConcurrencyLimiter).permitLimit = 2;
    await flush();
    expect(Object.entries(scene.refused)).toEqual([
      ["b", "limit_reached"],
      ["d", "limit_reached"],
      ["a", "limit_reached"],
    ]);
    expect(await scene.run()).toBe("e c");
  });

  it("C-10 is lowered: the head that can never be served lets those through whom it blocked", async () => {
    const scene = new Scene(make, { limit: 4 });
    scene.take(2);
    scene.ask("large", 5, 4);
    scene.ask("small", 0, 1);
    (scene.limiter as ConcurrencyLimiter).permitLimit = 3;
    await flush();
    expect([scene.refused, scene.granted]).toEqual([{ large: "limit_reached" }, ["small"]]);
  });
});

describe.each(KINDS.slice(1))("priorities and permits that come with time, in %s", (_kind, make) => {
  it("P19 Q-20 a permit is taken by whoever is first when it comes, and held by nobody before", async () => {
    const scene = new Scene(make, { queueLimit: 3 });
    scene.take(1);
    scene.ask("a", 0);
    scene.clock.advance(PERIOD / 2);
    scene.ask("b", 5);
    scene.clock.advance(PERIOD / 2);
    await flush();
    expect(scene.granted).toEqual(["b"]);
    scene.clock.advance(PERIOD);
    await flush();
    expect(scene.granted).toEqual(["b", "a"]);
  });

  it("P20 Q-20 nobody who was evicted, left or waited too long leaves a debt", async () => {
    const scene = new Scene(make, { queueLimit: 2 });
    scene.take(1);
    const caller = new AbortController();
    scene.ask("evicted", 0);
    scene.ask("aborted", 1, 1, { signal: caller.signal });
    scene.ask("higher", 2, 1, { maxWaitMs: PERIOD });
    caller.abort();
    scene.clock.advance(PERIOD);
    scene.clock.advance(PERIOD);
    await flush();
    expect([scene.granted, scene.refused]).toEqual([
      ["higher"],
      { evicted: "queue_evicted", aborted: "aborted" },
    ]);
    expect([scene.free, scene.queued]).toEqual([1, 0]);
    expect(scene.limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it("Q-20 one timer stands for whoever is first, and none when nobody waits", async () => {
    const scene = new Scene(make, { limit: 2 });
    scene.take(2);
    for (const priority of [0, 5, 3]) scene.ask(String(priority), priority, 2);
    expect(scene.clock.timerCount).toBe(1);
    expect(await scene.run()).toBe("5 3 0");
    expect(scene.clock.timerCount).toBe(0);
  });
});

describe("priorities and what a token bucket tells those it refuses", () => {
  const waiting = (...priorities: number[]): Scene => {
    const scene = new Scene(
      ({ limit, ...rest }) =>
        new TokenBucketRateLimiter({
          tokenLimit: limit,
          tokensPerPeriod: 1,
          replenishmentPeriodMs: PERIOD,
          ...rest,
        }),
      { limit: 2, queueLimit: priorities.length },
    );
    scene.take(2);
    for (const priority of priorities) scene.ask(String(priority), priority);
    return scene;
  };

  it("Q-52 counts those ahead of it: who waits with an equal or higher priority", async () => {
    const retryAfter = async (priority: number): Promise<number | undefined> => {
      const refused = watch(waiting(5, 0, -5).limiter.acquire(1, { priority, maxWaitMs: 0 }));
      await flush();
      return refused.value.retryAfterMs;
    };
    expect(await Promise.all([-6, -5, -1, 0, 4, 5, 6].map(retryAfter))).toEqual(
      [4, 4, 3, 3, 2, 2, 1].map((periods) => periods * PERIOD),
    );
  });

  it("counts an attempt as one of priority 0", () => {
    const refused = waiting(5, 0, -5).limiter.attemptAcquire();
    expect([refused.isAcquired, refused.retryAfterMs]).toEqual([false, 3 * PERIOD]);
  });
});
