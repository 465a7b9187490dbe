import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimiter,
  type RateLimitLease,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { AdaptiveConcurrencyLimiter, SettableLimit } from "headgate/adaptive";
import { describe, expect, test } from "vitest";
import { isLease, requestWith } from "../../src/internal.js";
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
 *
 * A second set of operations is about those who wait behind a sink (the inside door): they are told while a hand-over is under
 * way, and act in that very moment.
 */

const DEPTH = Number(process.env["HEADGATE_DEPTH"] ?? 5);

const LIMIT = 2;
const QUEUE_LIMIT = 3;
const PERIOD = 10;
const MAX_WAIT = 5;
const PAUSE = 4;
/** Only limiters that go by priority have one here. */
const QUEUE_TIMEOUT = 12;

type Order = "oldestFirst" | "newestFirst" | "highestPriorityFirst";
const ORDERS = ["oldestFirst", "newestFirst", "highestPriorityFirst"] as const;
type Limiter = RateLimiter & { pause(ms: number): void };

const queueOptions = (queueProcessingOrder: Order, clock: CountingClock) => ({
  queueLimit: QUEUE_LIMIT,
  queueProcessingOrder,
  queueTimeoutMs: queueProcessingOrder === "highestPriorityFirst" ? QUEUE_TIMEOUT : undefined,
  clock,
});

interface Kind {
  readonly name: string;
  make(order: Order, clock: CountingClock): Limiter;
}

const KINDS: readonly Kind[] = [
  {
    name: "ConcurrencyLimiter",
    make: (order, clock) => new ConcurrencyLimiter({ permitLimit: LIMIT, ...queueOptions(order, clock) }),
  },
  {
    name: "AdaptiveConcurrencyLimiter",
    make: (order, clock) =>
      new AdaptiveConcurrencyLimiter({ limit: new SettableLimit(LIMIT), ...queueOptions(order, clock) }),
  },
  {
    name: "FixedWindowRateLimiter",
    make: (order, clock) =>
      new FixedWindowRateLimiter({ permitLimit: LIMIT, windowMs: PERIOD, ...queueOptions(order, clock) }),
  },
  {
    name: "SlidingWindowRateLimiter",
    make: (order, clock) =>
      new SlidingWindowRateLimiter({
        permitLimit: LIMIT,
        windowMs: 2 * PERIOD,
        segmentsPerWindow: 2,
        ...queueOptions(order, clock),
      }),
  },
  ...(["stepped", "continuous"] as const).map((refill) => ({
    name: `TokenBucketRateLimiter, ${refill}`,
    make: (order: Order, clock: CountingClock) =>
      new TokenBucketRateLimiter({
        tokenLimit: LIMIT,
        tokensPerPeriod: 1,
        replenishmentPeriodMs: PERIOD,
        refill,
        ...queueOptions(order, clock),
      }),
  })),
];

/** Limiters whose permits come back when they are given back, and whose limit can be changed. */
type HeldLimiter = ConcurrencyLimiter | AdaptiveConcurrencyLimiter;

function isHeldLimiter(limiter: RateLimiter): limiter is HeldLimiter {
  return limiter instanceof ConcurrencyLimiter || limiter instanceof AdaptiveConcurrencyLimiter;
}

/** An `acquire`, or a request through the inside door, as its caller sees it. */
type Request = Pick<Call, "permits" | "controller" | "outcome" | "settled" | "lease">;

/** Passes a priority on to a limiter that goes by it. */
const withPriority = (limiter: RateLimiter, priority: number): RateLimiter =>
  ({
    acquire: (permits: number, options: object) => limiter.acquire(permits, { ...options, priority }),
  }) as unknown as RateLimiter;

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
  readonly calls: Request[] = [];
  /** Calls that have not been seen to settle, in order of arrival. */
  pending: Request[] = [];
  held: Held[] = [];
  readonly left = new Set<Request>();
  readonly deadlines = new Map<Request, number>();
  readonly priorities = new Map<Request, number>();
  controllers: CountingController[] = [];
  pausedUntil = 0;
  isDisposed = false;
  onAbort: (() => void) | undefined;
  attempts = { granted: 0, refused: 0 };
  what = "";
  overGrant: string | undefined;

  constructor(kind: Kind, order: Order) {
    this.order = order;
    this.limiter = kind.make(order, this.clock);
  }

  get limit(): number {
    return isHeldLimiter(this.limiter) ? this.limiter.permitLimit : LIMIT;
  }

  fails(message: string): never {
    throw new Error(`${message}\nafter ${this.what}`);
  }

  #note(call: Request, priority: number, maxWaitMs: number | undefined): void {
    this.calls.push(call);
    this.pending.push(call);
    this.priorities.set(call, priority);
    const timeout = this.order === "highestPriorityFirst" ? QUEUE_TIMEOUT : Number.POSITIVE_INFINITY;
    const waitMs = Math.min(timeout, maxWaitMs ?? timeout);
    if (waitMs < timeout || timeout === QUEUE_TIMEOUT) this.deadlines.set(call, this.clock.now() + waitMs);
  }

  /** Waits behind a sink, which acts when it is told. */
  ask(permits: number, act: (lease: RateLimitLease) => void, signal = false, priority = 0): boolean {
    const controller = signal ? new CountingController() : undefined;
    if (controller !== undefined) this.controllers.push(controller);
    const call: Request = { permits, controller, outcome: "pending", settled: 0, lease: undefined };
    this.#note(call, priority, undefined);
    const settled = (lease: RateLimitLease): void => {
      call.settled += 1;
      call.outcome = lease.isAcquired ? "granted" : String(lease.reason);
      this.pending = this.pending.filter((other) => other !== call);
      if (lease.isAcquired) this.held.push({ lease, granted: permits, held: permits });
    };
    const failed = (error: unknown): void => {
      call.settled += 1;
      call.outcome = error === controller?.signal.reason ? "aborted" : (error as Error).name;
      this.pending = this.pending.filter((other) => other !== call);
    };
    try {
      const answer = requestWith(
        this.limiter,
        permits,
        { signal: controller?.signal, priority },
        {
          settled: (lease) => {
            settled(lease);
            act(lease);
          },
          failed,
        },
      );
      if (isLease(answer)) {
        settled(answer);
        this.#checkGrant(answer);
      }
    } catch (error) {
      failed(error);
    }
    return true;
  }

  /** What is granted in answer to a call is within the limit as it is then. */
  #checkGrant({ isAcquired }: RateLimitLease): void {
    if (!isAcquired || !isHeldLimiter(this.limiter)) return;
    const { held } = this;
    const { permitsHeld } = this;
    // When nothing is held, an adaptive limiter grants what its limit has become too low for.
    const isOnlyOne = this.limiter instanceof AdaptiveConcurrencyLimiter && held.at(-1)?.held === permitsHeld;
    // A sink must not throw: that would be somebody else's error.
    if (permitsHeld > this.limit && !isOnlyOne)
      this.overGrant ??= `${permitsHeld} held of ${this.limit} when more was granted`;
  }

  get permitsHeld(): number {
    return this.held.reduce((sum, one) => sum + one.held, 0);
  }

  giveBack(lease: RateLimitLease): void {
    this.held = this.held.filter((one) => one.lease !== lease);
    lease.dispose();
  }

  dispose(): boolean {
    if (this.isDisposed) return false;
    this.isDisposed = true;
    this.limiter.dispose();
    return true;
  }

  pause(): boolean {
    if (this.isDisposed) return false;
    this.pausedUntil = Math.max(this.pausedUntil, this.clock.now() + PAUSE);
    this.limiter.pause(PAUSE);
    return true;
  }

  acquire(permits: number, how: { signal?: boolean; maxWaitMs?: number; priority?: number } = {}): boolean {
    const { signal = false, maxWaitMs, priority = 0 } = how;
    const controller = signal ? new CountingController() : undefined;
    if (controller !== undefined) {
      this.controllers.push(controller);
      // A listener of the caller's own, which runs before the limiter hears of the abort. Not by way of the controller's
      // counting, which is about the limiter's listeners.
      const listen = EventTarget.prototype.addEventListener;
      listen.call(controller.signal, "abort", () => this.onAbort?.());
    }
    const limiter =
      this.order === "highestPriorityFirst" ? withPriority(this.limiter, priority) : this.limiter;
    const call = new Call(limiter, permits, { controller, maxWaitMs, now: this.clock.now() });
    this.#note(call, priority, maxWaitMs);
    return true;
  }

  attempt(): boolean {
    if (this.isDisposed) return false;
    let lease: RateLimitLease;
    try {
      lease = this.limiter.attemptAcquire(1);
    } catch (error) {
      // By a sink, in the very call, which had first to bring the limiter up to the present.
      if (this.isDisposed) return true;
      throw error;
    }
    if (!lease.isAcquired) this.attempts.refused += 1;
    else {
      this.attempts.granted += 1;
      this.held.push({ lease, granted: 1, held: 1 });
      if (this.calls.every((call) => !(call instanceof Call))) this.#checkGrant(lease);
    }
    return true;
  }

  release(): boolean {
    const oldest = this.held.shift();
    if (oldest === undefined) return false;
    oldest.lease.report("success");
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
    if (!isHeldLimiter(limiter)) return false;
    const next = limiter.permitLimit === LIMIT ? 1 : LIMIT;
    if (limiter instanceof ConcurrencyLimiter) limiter.permitLimit = next;
    else (limiter.limit as SettableLimit).setLimit(next);
    return true;
  }

  advance(ms: number): void {
    this.clock.advance(ms);
  }

  /** Timers that were late do their work, and sinks that were to be told by then act. */
  catchUp(): void {
    this.clock.advance(0);
    try {
      if (!this.isDisposed) this.limiter.getStatistics();
    } catch (error) {
      if (!this.isDisposed) throw error;
    }
  }

  async look(): Promise<void> {
    if (this.overGrant !== undefined) this.fails(this.overGrant);
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
    if (pending.some((call) => (this.deadlines.get(call) ?? Number.POSITIVE_INFINITY) <= now))
      this.fails("somebody waits past the deadline");
    if (pending.some((call) => call.controller?.signal.aborted === true))
      this.fails("somebody waits whose signal was aborted");
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
    const held = this.permitsHeld;
    if (isHeldLimiter(this.limiter)) {
      if (free !== Math.max(0, this.limit - held))
        this.fails(`${held} held and ${free} free of ${this.limit}`);
    }
    const next = this.#next;
    const isStuck = this.limiter instanceof AdaptiveConcurrencyLimiter && held === 0;
    if (next !== undefined && now >= this.pausedUntil && (next.permits <= free || isStuck))
      this.fails(`${free} free, and one who wants ${next.permits} waits first in order`);
  }

  /** Who is first in order of those who wait. */
  get #next(): Request | undefined {
    const { pending, priorities } = this;
    if (this.order === "newestFirst") return pending.at(-1);
    if (this.order === "oldestFirst") return pending[0];
    const priority = (call: Request): number => priorities.get(call) as number;
    const highest = Math.max(...pending.map(priority));
    return pending.find((call) => priority(call) === highest);
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
    }
    // Some sinks dispose the limiter.
    if (!this.isDisposed) {
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
  ["acquire(2, { signal })", (trial) => trial.acquire(2, { signal: true, priority: 1 })],
  [
    "acquire(1, { signal, maxWaitMs })",
    (trial) => trial.acquire(1, { signal: true, maxWaitMs: MAX_WAIT, priority: -1 }),
  ],
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
      if (!trial.pending.some((call) => trial.deadlines.has(call))) return false;
      trial.advance(MAX_WAIT);
      return true;
    },
  ],
  ["pause", (trial) => trial.pause()],
  [
    "tick",
    (trial) => {
      if (trial.isDisposed) return false;
      trial.advance(PERIOD);
      return true;
    },
  ],
  ["dispose", (trial) => trial.dispose()],
];

/** As above, by sinks only. */
const INSIDE: readonly Operation[] = [
  ["ask(2, { signal })", (trial) => trial.ask(2, () => {}, true, 1)],
  ["ask(1), and then give back", (trial) => trial.ask(1, (lease) => trial.giveBack(lease))],
  [
    "ask(1, { signal }), and then ask and attempt",
    (trial) =>
      trial.ask(
        1,
        () => {
          trial.ask(1, () => {}, false, 1);
          trial.attempt();
        },
        true,
      ),
  ],
  ["ask(1), and then abort", (trial) => trial.ask(1, () => void trial.abort(), false, -1)],
  ["ask(1), and then dispose", (trial) => trial.ask(1, () => void trial.dispose())],
  [
    "ask(2), and then set the limit or pause",
    (trial) => trial.ask(2, () => void (trial.setLimit() || trial.pause())),
  ],
  ["ask(2), and then attempt", (trial) => trial.ask(2, () => void trial.attempt())],
  ["attempt(1)", (trial) => trial.attempt()],
  ["release", (trial) => trial.release()],
  ["abort", (trial) => trial.abort()],
  ["setLimit", (trial) => trial.setLimit()],
  ["pause", (trial) => trial.pause()],
  [
    "tick",
    (trial) => {
      if (trial.isDisposed) return false;
      trial.advance(PERIOD);
      return true;
    },
  ],
  [
    // Whatever comes next finds that time has passed.
    "tick, with late timers",
    (trial) => {
      if (trial.isDisposed) return false;
      trial.clock.set(trial.clock.now() + PERIOD);
      return true;
    },
  ],
  ["dispose", (trial) => trial.dispose()],
];

/** What is explored, and how deep. */
interface Plan {
  readonly operations: readonly Operation[];
  readonly depth: number;
  /** How many permits are taken before the first operation. */
  readonly taken: number;
}

const PLAN: Plan = { operations: OPERATIONS, depth: DEPTH, taken: 0 };
const INSIDE_PLAN: Plan = { operations: INSIDE, depth: DEPTH - 1, taken: 1 };

interface Explored {
  orders: number;
  states: number;
}

/**
 * Runs one order; returns the step that made no difference, or the depth when all did. What comes before `fresh` has been
 * checked by the order before.
 */
async function run(
  { operations, taken }: Plan,
  kind: Kind,
  order: Order,
  steps: readonly number[],
  fresh: number,
  explored: Explored,
): Promise<number> {
  const trial = new Trial(kind, order);
  for (let i = 0; i < taken; i++) trial.attempt();
  for (let i = 0; i < steps.length; i++) {
    const [name, operate] = operations[steps[i] as number] as Operation;
    if (!operate(trial)) return i;
    trial.what += `${i === 0 ? "" : ", "}${name}`;
    if (!name.endsWith("late timers")) trial.catchUp();
    await trial.look();
    if (i < fresh || name.endsWith("late timers")) continue;
    explored.states += 1;
    trial.check();
  }
  await trial.end();
  explored.orders += 1;
  return steps.length;
}

async function explore(plan: Plan, kind: Kind, order: Order): Promise<Explored> {
  const { depth, operations } = plan;
  const explored: Explored = { orders: 0, states: 0 };
  const steps = new Array<number>(depth).fill(0);
  let fresh = 0;
  for (;;) {
    const stop = await run(plan, kind, order, steps, fresh, explored);
    // On to the next order: one that differs at the step that made no difference, or else at the last.
    let at = Math.min(stop, depth - 1);
    while (at >= 0 && steps[at] === operations.length - 1) at -= 1;
    if (at < 0) return explored;
    steps[at] = (steps[at] as number) + 1;
    steps.fill(0, at + 1);
    fresh = at;
  }
}

describe.each([
  ["", PLAN],
  [" on what sinks are told and do in that moment", INSIDE_PLAN],
])("every order of operations%s keeps what must always be true", { timeout: 600_000 }, (_what, plan) => {
  test.each(KINDS.flatMap((kind) => ORDERS.map((order) => [kind.name, order, kind] as const)))(
    "%s, %s",
    async (_name, order, kind) => {
      const { orders, states } = await explore(plan, kind, order);
      console.log(
        `${kind.name}, ${order}: ${orders} orders of ${plan.depth} of ${plan.operations.length} operations, ${states} states checked`,
      );
      expect(states).toBeGreaterThan(1000);
    },
  );
});
