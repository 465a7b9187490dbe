import fc from "fast-check";
import { ConcurrencyLimiter, FixedWindowRateLimiter, type RateLimiter, type RateLimitLease } from "headgate";
import { describe, expect, test } from "vitest";
import {
  type AcquireTicket,
  type Inside,
  type InsideLimiter,
  inside,
  isLease,
  type LimiterSnapshot,
  requestWith,
} from "../../src/internal.js";
import { CountingClock } from "../support.js";
import { CountingController, EFFORT, SEED } from "./support.js";

/*
 * A queue that goes by priority next to the plainest model of one: an array that is sorted anew whenever somebody looks
 * (shield.md, design C-9, C-10, C-16). Requests come by the inside door, so that what callers are
 * told can be compared in the very order in which they are told it, call by call.
 */

const WINDOW = 7;

interface Waiter {
  readonly id: number;
  readonly permits: number;
  readonly priority: number;
  readonly deadline: number;
  readonly signal: number | undefined;
}

class Model {
  readonly isTimed: boolean;
  readonly queueLimit: number;
  readonly queueTimeoutMs: number;
  limit: number;
  available: number;
  now = 0;
  pausedUntil = 0;
  waiters: Waiter[] = [];
  /** What each caller was told, in order. */
  told: string[] = [];
  granted = 0;
  refused = 0;
  aborted = 0;

  constructor(isTimed: boolean, limit: number, queueLimit: number, queueTimeoutMs: number) {
    this.isTimed = isTimed;
    this.limit = limit;
    this.available = limit;
    this.queueLimit = queueLimit;
    this.queueTimeoutMs = queueTimeoutMs;
  }

  get isPaused(): boolean {
    return this.now < this.pausedUntil;
  }

  get inOrder(): Waiter[] {
    return [...this.waiters].sort((a, b) => b.priority - a.priority || a.id - b.id);
  }

  get queued(): number {
    return this.waiters.reduce((sum, { permits }) => sum + permits, 0);
  }

  tell({ id }: { readonly id: number }, what: string): void {
    this.waiters = this.waiters.filter((waiter) => waiter.id !== id);
    this.told.push(`${id} ${what}`);
    if (what === "granted") this.granted += 1;
    else if (what === "aborted") this.aborted += 1;
    else this.refused += 1;
  }

  drain(): void {
    if (this.available <= 0 || this.isPaused) return;
    for (const waiter of this.inOrder) {
      if (waiter.permits > this.available) return;
      this.available -= waiter.permits;
      this.tell(waiter, "granted");
    }
  }

  /** What a newcomer is told at once; undefined when it waits. */
  ask(
    id: number,
    permits: number,
    priority: number,
    how: { maxWaitMs?: number | undefined; signal?: number | undefined; attempt?: boolean },
  ): string | undefined {
    const { maxWaitMs, signal, attempt = false } = how;
    const say = (what: string): string => {
      this.tell({ id }, what);
      return this.told.pop() as string;
    };
    if (permits > this.limit) return `${id} RangeError`;
    if (maxWaitMs !== undefined && maxWaitMs < 0) return say("deadline_expired");
    const ahead = this.waiters.filter((waiter) => waiter.priority >= priority);
    const isFirst = permits === 0 ? this.available > 0 : ahead.length === 0 || this.queued === 0;
    if (!this.isPaused && isFirst && permits <= this.available) {
      this.available -= permits;
      return say("granted");
    }
    const noPermit = this.isPaused ? "server_pause" : "limit_reached";
    if (attempt || maxWaitMs === 0) return say(noPermit);
    if (maxWaitMs !== undefined) {
      const wanted = Math.max(1, permits) + ahead.reduce((sum, waiter) => sum + waiter.permits, 0);
      const windows = Math.ceil(Math.max(0, wanted - this.available) / this.limit);
      const atMs = windows === 0 ? 0 : (Math.floor(this.now / WINDOW) + windows) * WINDOW - this.now;
      if (Math.max(atMs, this.pausedUntil - this.now) > maxWaitMs) return say("deadline_unmet");
    }
    let room = this.queueLimit - this.queued;
    if (permits > room) {
      const losers: Waiter[] = [];
      for (const waiter of this.inOrder.reverse()) {
        if (permits <= room || waiter.priority >= priority) break;
        losers.push(waiter);
        room += waiter.permits;
      }
      if (permits > room || permits > this.queueLimit) {
        if (this.isPaused) return say("server_pause");
        return say(this.queueLimit === 0 ? "limit_reached" : "queue_full");
      }
      for (const loser of losers) this.tell(loser, "queue_evicted");
    }
    const waitMs = Math.min(maxWaitMs ?? Number.POSITIVE_INFINITY, this.queueTimeoutMs);
    this.waiters.push({ id, permits, priority, deadline: this.now + waitMs, signal });
    return undefined;
  }

  abort(signal: number): void {
    for (const waiter of this.waiters.filter((one) => one.signal === signal)) this.tell(waiter, "aborted");
    this.drain();
  }

  giveBack(permits: number): void {
    this.available += permits;
    this.drain();
  }

  setLimit(limit: number): void {
    this.available += limit - this.limit;
    this.limit = limit;
    for (const waiter of this.inOrder) if (waiter.permits > limit) this.tell(waiter, "limit_reached");
    this.drain();
  }

  tick(): void {
    const wasPaused = this.isPaused;
    this.now += 1;
    if (this.isTimed && this.now % WINDOW === 0) this.available = this.limit;
    if (wasPaused || this.isTimed) this.drain();
    for (const waiter of this.waiters
      .filter(({ deadline }) => deadline <= this.now)
      .sort((a, b) => a.id - b.id))
      this.tell(waiter, "queue_timeout");
    this.drain();
  }
}

type Command =
  | {
      readonly op: "acquire";
      readonly permits: number;
      readonly priority?: number;
      readonly maxWaitMs?: number;
      readonly signal?: number;
    }
  | { readonly op: "attempt"; readonly permits: number }
  | { readonly op: "cancel" | "end"; readonly index: number }
  | { readonly op: "adjust"; readonly index: number; readonly actual: number }
  | { readonly op: "abort"; readonly signal: number }
  | { readonly op: "limit"; readonly limit: number }
  | { readonly op: "pause" | "wait"; readonly ms: number };

const constant = <T extends string>(op: T) => fc.constant(op);
const permits = fc.integer({ min: 0, max: 4 });
const index = fc.nat({ max: 5 });
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 24,
    arbitrary: fc.record(
      {
        op: constant("acquire"),
        permits,
        priority: fc.constantFrom(-2, -1, -0, 0, 1, 1, 2),
        maxWaitMs: fc.constantFrom(-1, 0, 1, 3, 7, 12, 20),
        signal: fc.nat({ max: 2 }),
      },
      { requiredKeys: ["op", "permits"] },
    ),
  },
  { weight: 2, arbitrary: fc.record({ op: constant("attempt"), permits }) },
  { weight: 2, arbitrary: fc.record({ op: constant("cancel"), index }) },
  { weight: 5, arbitrary: fc.record({ op: constant("end"), index }) },
  { weight: 2, arbitrary: fc.record({ op: constant("adjust"), index, actual: fc.nat({ max: 6 }) }) },
  { weight: 2, arbitrary: fc.record({ op: constant("abort"), signal: fc.nat({ max: 2 }) }) },
  { weight: 1, arbitrary: fc.record({ op: constant("limit"), limit: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 1, arbitrary: fc.record({ op: constant("pause"), ms: fc.integer({ min: 1, max: 9 }) }) },
  { weight: 5, arbitrary: fc.record({ op: constant("wait"), ms: fc.integer({ min: 1, max: 9 }) }) },
);

interface Setup {
  readonly limit: number;
  readonly queueLimit: number;
  readonly queueTimeoutMs: number | undefined;
}
type Limiter = RateLimiter & { pause(ms: number): void };

const KINDS: readonly (readonly [string, (setup: Setup, clock: CountingClock) => Limiter])[] = [
  [
    "ConcurrencyLimiter",
    ({ limit, ...rest }, clock) =>
      new ConcurrencyLimiter({
        permitLimit: limit,
        queueProcessingOrder: "highestPriorityFirst",
        clock,
        ...rest,
      }),
  ],
  [
    "FixedWindowRateLimiter",
    ({ limit, ...rest }, clock) =>
      new FixedWindowRateLimiter({
        ...{ permitLimit: limit, windowMs: WINDOW, queueProcessingOrder: "highestPriorityFirst", clock },
        ...rest,
      }),
  ],
];

function same(actual: unknown, expected: unknown, what: string): void {
  const [is, should] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== should) throw new Error(`${what}: is ${is}, should be ${should}`);
}

interface Counts {
  steps: number;
  evicted: number;
  expired: number;
}

function runSideBySide(
  limiter: Limiter,
  model: Model,
  clock: CountingClock,
  commands: readonly Command[],
  counts: Counts,
): void {
  const door = (limiter as InsideLimiter)[inside] as Inside;
  const snapshot = {} as LimiterSnapshot;
  const told: string[] = [];
  const leases: { readonly lease: RateLimitLease; held: number }[] = [];
  const tickets = new Map<number, AcquireTicket>();
  const controllers = [0, 1, 2].map(() => new CountingController());
  const sizes = new Map<number, number>();
  let ids = 0;

  const answered = (id: number, lease: RateLimitLease): string => {
    if (lease.isAcquired) leases.push({ lease, held: sizes.get(id) as number });
    return `${id} ${lease.isAcquired ? "granted" : lease.reason}`;
  };
  const compare = (what: string): void => {
    counts.steps += 1;
    for (const line of told) {
      if (line.endsWith("queue_evicted")) counts.evicted += 1;
      if (line.endsWith("queue_timeout")) counts.expired += 1;
    }
    same(told, model.told, `${what}: told`);
    told.length = 0;
    model.told.length = 0;
    door.snapshot(snapshot);
    const { available, queuedPermits, queuedRequests, granted, refused, aborted, permitLimit } = snapshot;
    same(
      [available, queuedPermits, queuedRequests, granted, refused, aborted, permitLimit],
      [
        model.available,
        model.queued,
        model.waiters.length,
        model.granted,
        model.refused,
        model.aborted,
        model.limit,
      ],
      `${what}: available, queued permits and requests, granted, refused, aborted, limit`,
    );
    const byPriority = new Map<number, number>();
    for (const waiter of model.inOrder)
      byPriority.set(waiter.priority, (byPriority.get(waiter.priority) ?? 0) + waiter.permits);
    same([...door.queuedByPriority()], [...byPriority], `${what}: queued by priority`);
    for (const [i, controller] of controllers.entries()) {
      const isAwaited = model.waiters.some(({ signal }) => signal === i);
      same(controller.listeners, isAwaited ? 1 : 0, `${what}: listeners on signal ${i}`);
    }
    if (clock.timerCount > (model.waiters.length === 0 ? 0 : 1))
      throw new Error(`${what}: ${clock.timerCount} timers for ${model.waiters.length} waiters`);
  };

  for (const [step, one] of commands.entries()) {
    const what = `step ${step}, ${JSON.stringify(one)}`;
    switch (one.op) {
      case "acquire": {
        const id = ids++;
        sizes.set(id, one.permits);
        // A concurrency limiter refuses early by its pace, which is not modelled here.
        const maxWaitMs = model.isTimed || (one.maxWaitMs ?? 1) <= 0 ? one.maxWaitMs : undefined;
        const { signal } = one;
        if (signal !== undefined && controllers[signal]?.signal.aborted === true)
          controllers[signal] = new CountingController();
        const controller = signal === undefined ? undefined : controllers[signal];
        const expected = model.ask(id, one.permits, one.priority ?? 0, { maxWaitMs, signal });
        let actual: string | undefined;
        try {
          const answer = requestWith(
            limiter,
            one.permits,
            { priority: one.priority, maxWaitMs, signal: controller?.signal },
            {
              settled: (lease) => told.push(answered(id, lease)),
              failed: (error) =>
                told.push(error === controller?.signal.reason ? `${id} aborted` : String(error)),
            },
          );
          if (isLease(answer)) actual = answered(id, answer);
          else tickets.set(id, answer as AcquireTicket);
        } catch (error) {
          actual = `${id} ${(error as Error).name}`;
        }
        same(actual, expected, what);
        break;
      }
      case "attempt": {
        const id = ids++;
        sizes.set(id, one.permits);
        if (one.permits > model.limit) break;
        const expected = model.ask(id, one.permits, 0, { attempt: true });
        same(answered(id, limiter.attemptAcquire(one.permits)), expected, what);
        break;
      }
      case "cancel": {
        const waiter = model.waiters[one.index];
        if (waiter === undefined) break;
        model.tell(waiter, "aborted");
        model.told.pop();
        model.drain();
        same(tickets.get(waiter.id)?.cancel(), true, what);
        same(tickets.get(waiter.id)?.cancel(), false, `${what}, again`);
        break;
      }
      case "end": {
        const [ended] = leases.splice(one.index, 1);
        if (ended === undefined) break;
        if (!model.isTimed) model.giveBack(ended.held);
        ended.lease.dispose();
        break;
      }
      case "adjust": {
        const adjusted = leases[one.index];
        if (adjusted === undefined || model.isTimed) break;
        const back = adjusted.held - one.actual;
        adjusted.held = one.actual;
        model.giveBack(back);
        adjusted.lease.adjust(one.actual);
        break;
      }
      case "abort":
        if (controllers[one.signal]?.signal.aborted === true) break;
        model.abort(one.signal);
        controllers[one.signal]?.abort(new Error("left"));
        break;
      case "limit":
        if (!(limiter instanceof ConcurrencyLimiter)) break;
        model.setLimit(one.limit);
        limiter.permitLimit = one.limit;
        break;
      case "pause":
        model.pausedUntil = Math.max(model.pausedUntil, model.now + one.ms);
        limiter.pause(one.ms);
        break;
      case "wait":
        for (let tick = 0; tick < one.ms; tick++) {
          model.tick();
          clock.advance(1);
          // The snapshot does not look at the time; statistics do.
          limiter.getStatistics();
          // The order among those whose time is up at the same moment is not laid down.
          const expiries = (lines: string[]) => lines.sort((a, b) => rank(a) - rank(b));
          const rank = (line: string) => (line.endsWith("queue_timeout") ? Number.parseInt(line, 10) : -1);
          if (told.filter((line) => line.endsWith("queue_timeout")).length > 1) {
            expiries(told);
            expiries(model.told);
          }
          compare(`${what}, tick ${tick + 1}`);
        }
        break;
    }
    compare(what);
  }
}

describe("a queue that goes by priority does what a sorted array does", { timeout: 300_000 }, () => {
  test.each(KINDS)("%s", (name, make) => {
    const counts: Counts = { steps: 0, evicted: 0, expired: 0 };
    const numRuns = 1500 * EFFORT;
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.nat({ max: 5 }),
        fc.constantFrom(undefined, 5, 11),
        fc.array(command, { maxLength: 50, size: "max" }),
        (limit, queueLimit, queueTimeoutMs, commands) => {
          const clock = new CountingClock();
          const limiter = make({ limit, queueLimit, queueTimeoutMs }, clock);
          const timeout = queueTimeoutMs ?? Number.POSITIVE_INFINITY;
          const model = new Model(!(limiter instanceof ConcurrencyLimiter), limit, queueLimit, timeout);
          runSideBySide(limiter, model, clock, commands, counts);
        },
      ),
      {
        numRuns,
        seed: SEED | 0,
        reporter(details) {
          if (!details.failed) return;
          if (details.counterexample === null) throw new Error(`the run did not end (seed ${details.seed})`);
          const [limit, queueLimit, queueTimeoutMs, commands] = details.counterexample;
          const steps = commands.map((one) => `  ${JSON.stringify(one)}`).join("\n");
          throw new Error(
            `limit ${limit}, queueLimit ${queueLimit}, queueTimeoutMs ${queueTimeoutMs} (seed ${details.seed}, path ${details.counterexamplePath})\n${steps}\n${String((details.errorInstance as Error | null)?.message)}`,
          );
        },
      },
    );
    console.log(
      `${name}: ${numRuns} sequences, ${counts.steps} steps compared, ${counts.evicted} evictions, ${counts.expired} time-outs`,
    );
    // The commands reach what they are there for.
    expect(Math.min(counts.evicted, counts.expired)).toBeGreaterThan(100);
  });
});
