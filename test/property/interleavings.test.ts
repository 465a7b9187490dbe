import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimiter,
  type RateLimitLease,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, test } from "vitest";
import { CountingClock } from "../support.js";
import { Call, CountingController, settle } from "./support.js";

/*
 * Every order of a few operations, up to a depth, against what must always be true (design, section 4). Each order is run
 * from the start; what is checked after each step is not a model of the limiter, only the invariants:
 *
 * - permits are conserved: what is free and what is held make the limit;
 * - every acquire settles once; whoever left gets nothing; who waits is who is counted as waiting;
 * - nobody waits whom order and permits would let go;
 * - no listener and no timer outlives the last waiter;
 * - and in the end, once all leases have come back and time has passed, nobody is left waiting and everything is free.
 */

const DEPTH = Number(process.env["HEADGATE_DEPTH"] ?? 5);

const LIMIT = 2;
const QUEUE_LIMIT = 3;
const PERIOD = 10;
const MAX_WAIT = 5;
const PAUSE = 4;

type Order = "oldestFirst" | "newestFirst";
type Limiter = RateLimiter & { pause(ms: number): void };

interface Kind {
  readonly name: string;
  make(order: Order, clock: CountingClock): Limiter;
}

const KINDS: readonly Kind[] = [
  {
    name: "ConcurrencyLimiter",
    make: (queueProcessingOrder, clock) =>
      new ConcurrencyLimiter({ permitLimit: LIMIT, queueLimit: QUEUE_LIMIT, queueProcessingOrder, clock }),
  },
  {
    name: "FixedWindowRateLimiter",
    make: (queueProcessingOrder, clock) =>
      new FixedWindowRateLimiter({
        permitLimit: LIMIT,
        windowMs: PERIOD,
        queueLimit: QUEUE_LIMIT,
        queueProcessingOrder,
        clock,
      }),
  },
  {
    name: "SlidingWindowRateLimiter",
    make: (queueProcessingOrder, clock) =>
      new SlidingWindowRateLimiter({
        permitLimit: LIMIT,
        windowMs: 2 * PERIOD,
        segmentsPerWindow: 2,
        queueLimit: QUEUE_LIMIT,
        queueProcessingOrder,
        clock,
      }),
  },
  ...(["stepped", "continuous"] as const).map((refill) => ({
    name: `TokenBucketRateLimiter, ${refill}`,
    make: (queueProcessingOrder: Order, clock: CountingClock) =>
      new TokenBucketRateLimiter({
        tokenLimit: LIMIT,
        tokensPerPeriod: 1,
        replenishmentPeriodMs: PERIOD,
        refill,
        queueLimit: QUEUE_LIMIT,
        queueProcessingOrder,
        clock,
      }),
  })),
];

interface Held {
  readonly lease: RateLimitLease;
  readonly granted: number;
  held: number;
}

/** One order of operations under way. */
class Trial {
  readonly clock = new CountingClock();
  readonly limiter: Limiter;
  readonly order: Order;
  readonly calls: Call[] = [];
  /** Calls that have not been seen to settle, in order of arrival. */
  pending: Call[] = [];
  held: Held[] = [];
  readonly left = new Set<Call>();
  controllers: CountingController[] = [];
  pausedUntil = 0;
  isDisposed = false;
  onAbort: (() => void) | undefined;
  attempts = { granted: 0, refused: 0 };
  what = "";

  constructor(kind: Kind, order: Order) {
    this.order = order;
    this.limiter = kind.make(order, this.clock);
  }

  get limit(): number {
    return this.limiter instanceof ConcurrencyLimiter ? this.limiter.permitLimit : LIMIT;
  }

  fails(message: string): never {
    throw new Error(`${message}\nafter ${this.what}`);
  }

  acquire(permits: number, how: { signal?: boolean; maxWaitMs?: number } = {}): boolean {
    const { signal = false, maxWaitMs } = how;
    const controller = signal ? new CountingController() : undefined;
    if (controller !== undefined) {
      this.controllers.push(controller);
      // A listener of the caller's own, which runs before the limiter hears of the abort. Not by way of the controller's
      // counting, which is about the limiter's listeners.
      const listen = EventTarget.prototype.addEventListener;
      listen.call(controller.signal, "abort", () => this.onAbort?.());
    }
    const call = new Call(this.limiter, permits, { controller, maxWaitMs, now: this.clock.now() });
    this.calls.push(call);
    this.pending.push(call);
    return true;
  }

  attempt(): boolean {
    if (this.isDisposed) return false;
    const lease = this.limiter.attemptAcquire(1);
    if (!lease.isAcquired) this.attempts.refused += 1;
    else {
      this.attempts.granted += 1;
      this.held.push({ lease, granted: 1, held: 1 });
    }
    return true;
  }

  release(): boolean {
    const oldest = this.held.shift();
    if (oldest === undefined) return false;
    oldest.lease.dispose();
    return true;
  }

  adjust(): boolean {
    const newest = this.held.at(-1);
    if (newest === undefined) return false;
    newest.held = newest.held === newest.granted ? newest.granted + 1 : 0;
    newest.lease.adjust(newest.held);
    return true;
  }

  refund(): boolean {
    const newest = this.held.pop();
    newest?.lease.refund();
    return newest !== undefined;
  }

  /** The signal of the waiter that came last, if any has one. */
  abort(meanwhile?: () => void): boolean {
    const call = this.pending.filter((one) => one.controller !== undefined).at(-1);
    if (call?.controller === undefined) return false;
    this.onAbort = meanwhile;
    this.left.add(call);
    call.controller.abort(new Error("left"));
    this.onAbort = undefined;
    return true;
  }

  setLimit(): boolean {
    const { limiter } = this;
    if (!(limiter instanceof ConcurrencyLimiter)) return false;
    limiter.permitLimit = limiter.permitLimit === LIMIT ? 1 : LIMIT;
    return true;
  }

  advance(ms: number): void {
    this.clock.advance(ms);
  }

  async look(): Promise<void> {
    if (this.pending.length === 0) return;
    await settle();
    for (const call of this.pending) {
      if (call.settled > 1) this.fails("an acquire settled twice");
      if (call.outcome === "granted") {
        if (this.left.has(call)) this.fails("granted after its caller left");
        const lease = call.lease as RateLimitLease;
        this.held.push({ lease, granted: call.permits, held: call.permits });
      } else if (this.left.has(call) && call.outcome !== "aborted")
        this.fails(`its caller left, and it is ${call.outcome}`);
    }
    this.pending = this.pending.filter((call) => call.outcome === "pending");
  }

  check(): void {
    const { pending, clock } = this;
    const now = clock.now();
    for (const controller of this.controllers) {
      const isAwaited = pending.some((call) => call.controller === controller);
      if (controller.listeners !== (isAwaited ? 1 : 0))
        this.fails(`${controller.listeners} listeners on a signal`);
    }
    if (clock.timerCount > (pending.length === 0 ? 0 : 1)) this.fails(`${clock.timerCount} timers`);
    if (this.isDisposed) {
      if (pending.length > 0) this.fails("somebody waits in a disposed limiter");
      return;
    }
    if (pending.some((call) => call.deadline !== undefined && call.deadline <= now))
      this.fails("somebody waits past the deadline");
    const is = this.limiter.getStatistics();
    if (is === undefined) return;
    const free = is.currentAvailablePermits;
    if (!(free >= 0 && free <= this.limit)) this.fails(`${free} free`);
    const queued = pending.reduce((sum, call) => sum + call.permits, 0);
    if (is.currentQueuedCount !== queued) this.fails(`${is.currentQueuedCount} queued, ${queued} wait`);
    let granted = this.attempts.granted;
    let refused = this.attempts.refused;
    for (const { outcome } of this.calls) {
      if (outcome === "granted") granted += 1;
      else if (outcome !== "pending" && outcome !== "aborted" && outcome !== "RangeError") refused += 1;
    }
    if (is.totalSuccessfulLeases !== granted)
      this.fails(`${is.totalSuccessfulLeases} succeeded, ${granted} did`);
    if (is.totalFailedLeases !== refused) this.fails(`${is.totalFailedLeases} failed, ${refused} did`);
    if (this.limiter instanceof ConcurrencyLimiter) {
      const held = this.held.reduce((sum, one) => sum + one.held, 0);
      if (free !== Math.max(0, this.limit - held))
        this.fails(`${held} held and ${free} free of ${this.limit}`);
    }
    const next = this.order === "oldestFirst" ? pending[0] : pending.at(-1);
    if (next !== undefined && now >= this.pausedUntil && next.permits <= free)
      this.fails(`${free} free, and one who wants ${next.permits} waits first in order`);
  }

  /** All leases come back and time passes, until nobody waits. */
  async end(): Promise<void> {
    if (!this.isDisposed) {
      for (let round = 0; round === 0 || (round < 8 && this.pending.length + this.held.length > 0); round++) {
        while (this.release());
        this.advance(10 * PERIOD);
        await this.look();
      }
      this.what += ", and all leases given back";
      if (this.pending.length > 0) this.fails("somebody waits for ever");
      this.check();
      const free = this.limiter.getStatistics()?.currentAvailablePermits;
      if (free !== this.limit) this.fails(`${free} free of ${this.limit} when nothing is held`);
      this.limiter.dispose();
    }
    if (this.clock.timerCount > 0) this.fails("a timer outlives the limiter");
  }
}

/** False when it makes no difference now, so that the order need not be looked at. */
type Operation = readonly [name: string, run: (trial: Trial) => boolean];

const OPERATIONS: readonly Operation[] = [
  ["acquire(1)", (trial) => trial.acquire(1)],
  ["acquire(2, { signal })", (trial) => trial.acquire(2, { signal: true })],
  ["acquire(1, { signal, maxWaitMs })", (trial) => trial.acquire(1, { signal: true, maxWaitMs: MAX_WAIT })],
  ["attempt(1)", (trial) => trial.attempt()],
  ["release", (trial) => trial.release()],
  ["adjust", (trial) => trial.adjust()],
  ["refund", (trial) => trial.refund()],
  ["abort", (trial) => trial.abort()],
  [
    "abort, and in its listener release and attempt",
    (trial) =>
      trial.abort(() => {
        trial.release();
        trial.attempt();
      }),
  ],
  ["setLimit", (trial) => trial.setLimit()],
  [
    "expire",
    (trial) => {
      if (!trial.pending.some((call) => call.deadline !== undefined)) return false;
      trial.advance(MAX_WAIT);
      return true;
    },
  ],
  [
    "pause",
    (trial) => {
      if (trial.isDisposed) return false;
      trial.limiter.pause(PAUSE);
      trial.pausedUntil = Math.max(trial.pausedUntil, trial.clock.now() + PAUSE);
      return true;
    },
  ],
  [
    "tick",
    (trial) => {
      if (trial.isDisposed) return false;
      trial.advance(PERIOD);
      return true;
    },
  ],
  [
    "dispose",
    (trial) => {
      if (trial.isDisposed) return false;
      trial.limiter.dispose();
      trial.isDisposed = true;
      return true;
    },
  ],
];

interface Explored {
  orders: number;
  states: number;
}

/**
 * Runs one order; returns the step that made no difference, or the depth when all did. What comes before `fresh` has been
 * checked by the order before.
 */
async function run(
  kind: Kind,
  order: Order,
  steps: readonly number[],
  fresh: number,
  explored: Explored,
): Promise<number> {
  const trial = new Trial(kind, order);
  for (let i = 0; i < steps.length; i++) {
    const [name, operate] = OPERATIONS[steps[i] as number] as Operation;
    if (!operate(trial)) return i;
    trial.what += `${i === 0 ? "" : ", "}${name}`;
    await trial.look();
    if (i < fresh) continue;
    explored.states += 1;
    trial.check();
  }
  await trial.end();
  explored.orders += 1;
  return steps.length;
}

async function explore(kind: Kind, order: Order): Promise<Explored> {
  const explored: Explored = { orders: 0, states: 0 };
  const steps = new Array<number>(DEPTH).fill(0);
  let fresh = 0;
  for (;;) {
    const stop = await run(kind, order, steps, fresh, explored);
    // On to the next order: one that differs at the step that made no difference, or else at the last.
    let at = Math.min(stop, DEPTH - 1);
    while (at >= 0 && steps[at] === OPERATIONS.length - 1) at -= 1;
    if (at < 0) return explored;
    steps[at] = (steps[at] as number) + 1;
    steps.fill(0, at + 1);
    fresh = at;
  }
}

describe(`every order of ${OPERATIONS.length} operations, ${DEPTH} deep, keeps what must always be true`, {
  timeout: 600_000,
}, () => {
  test.each(
    KINDS.flatMap((kind) =>
      (["oldestFirst", "newestFirst"] as const).map((order) => [kind.name, order, kind] as const),
    ),
  )("%s, %s", async (_name, order, kind) => {
    const { orders, states } = await explore(kind, order);
    console.log(`${kind.name}, ${order}: ${orders} orders of ${DEPTH} operations, ${states} states checked`);
    expect(states).toBeGreaterThan(1000);
  });
});
