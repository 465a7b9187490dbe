import fc from "fast-check";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimiter,
  type RateLimitLease,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, test } from "vitest";
import { CountingClock } from "../support.js";
import { Call, CountingController, EFFORT, SEED, settle } from "./support.js";

/*
 * Each limiter next to a plain model of it, written from the specification (spec 2.1 to 2.8, design C-2, C-7, C-9, C-10,
 * C-12, C-14, C-16, and section 4) and not from the code. The model lives in single ticks of 1 ms and keeps waiters in an
 * array; whatever callers do, both have to say the same, tick by tick.
 */

type Order = "oldestFirst" | "newestFirst";

/** How permits come and go. */
interface Amount {
  limit: number;
  available: number;
  /** The tick at which all permits had come back; means something while they are all there. */
  fullSince: number;
  /** Takes permits; what comes out says where they came from. */
  take(permits: number): number;
  /** Charges more (or, below 0, less) for what was taken there. */
  charge(permits: number, from: number, now: number): number;
  /** A tick has passed; true when permits came. */
  tick(now: number): boolean;
  clone(): Amount;
}

class Held implements Amount {
  limit: number;
  available: number;
  fullSince = Number.NaN;
  constructor(limit: number) {
    this.limit = limit;
    this.available = limit;
  }
  take(permits: number): number {
    this.available -= permits;
    return 0;
  }
  charge(permits: number): number {
    this.available -= permits;
    return 0;
  }
  tick(): boolean {
    return false;
  }
  clone(): Amount {
    return Object.assign(new Held(1), this);
  }
}

class Windows implements Amount {
  limit: number;
  available: number;
  fullSince = 0;
  window = 0;
  left: number;
  readonly windowMs: number;
  constructor(limit: number, windowMs: number) {
    this.limit = limit;
    this.available = limit;
    this.windowMs = windowMs;
    this.left = windowMs;
  }
  take(permits: number): number {
    this.available -= permits;
    return this.window;
  }
  charge(permits: number, from: number, now: number): number {
    // Goes back until the window of the lease is over.
    if (permits < 0 && from !== this.window) return from;
    this.available -= permits;
    if (permits < 0) this.fullSince = now;
    return this.window;
  }
  tick(now: number): boolean {
    this.left -= 1;
    if (this.left > 0) return false;
    this.left = this.windowMs;
    this.window += 1;
    if (this.available === this.limit) return false;
    // A debt is paid by as many windows as it takes.
    this.available = Math.min(this.limit, this.available + this.limit);
    this.fullSince = now;
    return true;
  }
  clone(): Amount {
    return Object.assign(new Windows(1, this.windowMs), this);
  }
}

class Segments implements Amount {
  limit: number;
  available: number;
  fullSince = 0;
  segment = 0;
  left: number;
  taken = new Map<number, number>();
  readonly segments: number;
  readonly segmentMs: number;
  constructor(limit: number, segments: number, segmentMs: number) {
    this.limit = limit;
    this.available = limit;
    this.segments = segments;
    this.segmentMs = segmentMs;
    this.left = segmentMs;
  }
  #add(segment: number, permits: number): void {
    this.taken.set(segment, (this.taken.get(segment) ?? 0) + permits);
    this.available -= permits;
  }
  take(permits: number): number {
    this.#add(this.segment, permits);
    return this.segment;
  }
  charge(permits: number, from: number, now: number): number {
    const counts = this.segment - from < this.segments;
    if (permits < 0 && !counts) return from;
    const charged = counts ? from : this.segment;
    this.#add(charged, permits);
    if (permits < 0) this.fullSince = now;
    return charged;
  }
  tick(now: number): boolean {
    this.left -= 1;
    if (this.left > 0) return false;
    this.left = this.segmentMs;
    this.segment += 1;
    const back = this.taken.get(this.segment - this.segments) ?? 0;
    if (back === 0) return false;
    this.taken.delete(this.segment - this.segments);
    this.available += back;
    this.fullSince = now;
    return true;
  }
  clone(): Amount {
    const clone = Object.assign(new Segments(1, this.segments, this.segmentMs), this);
    clone.taken = new Map(this.taken);
    return clone;
  }
}

class Tokens implements Amount {
  limit: number;
  available: number;
  fullSince = 0;
  /** Parts of the next token, `periodMs` to one; or, stepped, the ticks of this period. */
  part = 0;
  readonly perPeriod: number;
  readonly periodMs: number;
  readonly isStepped: boolean;
  constructor(limit: number, perPeriod: number, periodMs: number, isStepped: boolean) {
    this.limit = limit;
    this.available = limit;
    this.perPeriod = perPeriod;
    this.periodMs = periodMs;
    this.isStepped = isStepped;
  }
  take(permits: number): number {
    this.available -= permits;
    return 0;
  }
  charge(permits: number, _from: number, now: number): number {
    const before = this.available;
    this.#set(before - permits);
    if (this.available > before) this.fullSince = now;
    return 0;
  }
  /** What is above the brim is lost, parts of a token too. */
  #set(available: number): void {
    this.available = Math.min(this.limit, available);
    if (!this.isStepped && this.available === this.limit) this.part = 0;
  }
  tick(now: number): boolean {
    if (this.isStepped) {
      this.part += 1;
      if (this.part < this.periodMs) return false;
      this.part = 0;
      if (this.available === this.limit) return false;
      this.#set(this.available + this.perPeriod);
      this.fullSince = now;
      return true;
    }
    if (this.available === this.limit) return false;
    this.part += this.perPeriod;
    const whole = Math.floor(this.part / this.periodMs);
    if (whole === 0) return false;
    this.part -= whole * this.periodMs;
    this.#set(this.available + whole);
    this.fullSince = now;
    return true;
  }
  clone(): Amount {
    return Object.assign(new Tokens(1, this.perPeriod, this.periodMs, this.isStepped), this);
  }
}

interface Answer {
  outcome: string;
  retryAfterMs?: number | undefined;
}

interface ModelWaiter {
  readonly permits: number;
  readonly deadline: number;
  readonly controller: CountingController | undefined;
  readonly answer: Answer;
}

interface ModelPart {
  readonly from: number;
  permits: number;
}

interface ModelLease {
  readonly granted: number;
  held: number;
  readonly parts: ModelPart[];
  isLive: boolean;
}

/** What waits, and what has been answered. */
class Model {
  readonly amount: Amount;
  readonly isTimed: boolean;
  readonly countsQueue: boolean;
  readonly queueLimit: number;
  readonly order: Order;
  now = 0;
  waiters: ModelWaiter[] = [];
  leases = new Map<Answer, ModelLease>();
  pausedUntil = 0;
  succeeded = 0;
  failed = 0;
  isDisposed = false;

  constructor(amount: Amount, queueLimit: number, order: Order) {
    this.amount = amount;
    this.isTimed = !(amount instanceof Held);
    this.countsQueue = amount instanceof Tokens && order === "oldestFirst";
    this.queueLimit = queueLimit;
    this.order = order;
  }

  get isPaused(): boolean {
    return this.now < this.pausedUntil;
  }

  get queued(): number {
    return this.waiters.reduce((sum, { permits }) => sum + permits, 0);
  }

  get next(): ModelWaiter | undefined {
    return this.order === "oldestFirst" ? this.waiters[0] : this.waiters.at(-1);
  }

  #leave(waiter: ModelWaiter): void {
    this.waiters = this.waiters.filter((other) => other !== waiter);
  }

  #grant(answer: Answer, permits: number): void {
    const from = this.amount.take(permits);
    this.leases.set(answer, { granted: permits, held: permits, parts: [{ from, permits }], isLive: true });
    this.succeeded += 1;
    answer.outcome = "granted";
  }

  #refuse(answer: Answer, reason: string, permits?: number): void {
    this.failed += 1;
    if (permits !== undefined && this.isPaused) {
      answer.outcome = "server_pause";
      answer.retryAfterMs = this.pausedUntil - this.now;
      return;
    }
    answer.outcome = reason;
    if (permits !== undefined && this.isTimed) answer.retryAfterMs = this.#ticksUntil(permits);
  }

  /** NaN: not laid down, since the permits are there and only the order forbids to take them. */
  #ticksUntil(permits: number): number {
    const wanted = Math.max(1, permits) + (this.countsQueue ? this.queued : 0);
    if (wanted <= this.amount.available) return Number.NaN;
    const future = this.amount.clone();
    const overflows = future instanceof Tokens && future.isStepped && future.perPeriod > future.limit;
    if (future instanceof Tokens && !overflows) future.limit = Number.POSITIVE_INFINITY;
    let left = wanted;
    for (let ticks = 0; ticks < 1e5; ticks++) {
      if (ticks > 0) future.tick(this.now + ticks);
      if (future.available >= left) return ticks;
      // What is at the brim is handed on to those who are ahead before the next step, which would be lost otherwise.
      if (overflows && future.available === future.limit) {
        left -= future.limit;
        future.available = 0;
      }
    }
    throw new Error("the model waits for ever");
  }

  #canGrant(permits: number): boolean {
    if (this.isPaused) return false;
    if (permits === 0) return this.amount.available > 0;
    return permits <= this.amount.available && (this.order === "newestFirst" || this.queued === 0);
  }

  drain(): void {
    // A waiter for 0 needs one that is free, or a grant just before it in the same drain.
    if (this.amount.available <= 0 || this.isPaused || this.isDisposed) return;
    for (
      let next = this.next;
      next !== undefined && next.permits <= this.amount.available;
      next = this.next
    ) {
      this.#leave(next);
      this.#grant(next.answer, next.permits);
    }
  }

  #unusable(permits: number): string | undefined {
    if (permits > this.amount.limit) return "RangeError";
    return this.isDisposed ? "LimiterDisposedError" : undefined;
  }

  attempt(permits: number): Answer {
    const answer: Answer = { outcome: "pending" };
    const error = this.#unusable(permits);
    if (error !== undefined) answer.outcome = error;
    else if (this.#canGrant(permits)) this.#grant(answer, permits);
    else this.#refuse(answer, "limit_reached", permits);
    return answer;
  }

  /** `expectedMs` is what the limiter itself expects of the wait: a caller who cannot wait so long is not let in. */
  acquire(
    permits: number,
    controller: CountingController | undefined,
    maxWaitMs: number | undefined,
    expectedMs: number | undefined,
  ): Answer {
    const answer: Answer = { outcome: "pending" };
    if (controller?.signal.aborted === true) {
      answer.outcome = "aborted";
      return answer;
    }
    const error = this.#unusable(permits);
    if (error !== undefined) answer.outcome = error;
    else if (maxWaitMs !== undefined && maxWaitMs < 0) this.#refuse(answer, "deadline_expired");
    else if (this.#canGrant(permits)) this.#grant(answer, permits);
    else if (maxWaitMs === 0) this.#refuse(answer, "limit_reached", permits);
    else if (maxWaitMs !== undefined && expectedMs !== undefined && expectedMs > maxWaitMs) {
      this.#refuse(answer, "deadline_unmet");
      answer.retryAfterMs = Math.ceil(expectedMs - 1e-6);
    } else {
      while (
        this.order === "newestFirst" &&
        permits <= this.queueLimit &&
        permits > this.queueLimit - this.queued
      ) {
        const oldest = this.waiters[0] as ModelWaiter;
        this.#leave(oldest);
        this.#refuse(oldest.answer, "queue_evicted");
      }
      if (permits > this.queueLimit - this.queued)
        this.#refuse(answer, this.queueLimit === 0 ? "limit_reached" : "queue_full", permits);
      else {
        const deadline = maxWaitMs === undefined ? Number.POSITIVE_INFINITY : this.now + maxWaitMs;
        this.waiters.push({ permits, deadline, controller, answer });
      }
    }
    return answer;
  }

  abort(controller: CountingController): void {
    for (const waiter of this.waiters.filter((one) => one.controller === controller)) {
      this.#leave(waiter);
      waiter.answer.outcome = "aborted";
    }
    this.drain();
  }

  adjust(lease: ModelLease, actual: number): void {
    if (!lease.isLive) return;
    const more = actual - lease.held;
    lease.held = actual;
    if (this.isDisposed) return;
    // What was charged last goes back first, each part to where it was charged.
    const { parts } = lease;
    const last = (): ModelPart => parts.at(-1) as ModelPart;
    if (more > 0) {
      const from = this.amount.charge(more, last().from, this.now);
      if (from === last().from) last().permits += more;
      else parts.push({ from, permits: more });
    }
    for (let left = -more; left > 0; ) {
      const back = Math.min(left, last().permits);
      left -= back;
      last().permits -= back;
      if (back > 0) this.amount.charge(-back, last().from, this.now);
      if (last().permits === 0 && parts.length > 1) parts.pop();
    }
    this.drain();
  }

  end(lease: ModelLease): void {
    if (!this.isTimed) this.adjust(lease, 0);
    lease.isLive = false;
  }

  setLimit(limit: number): void {
    const more = limit - this.amount.limit;
    this.amount.limit = limit;
    if (this.isDisposed) return;
    this.amount.available += more;
    for (const waiter of this.waiters.filter((one) => one.permits > limit)) {
      this.#leave(waiter);
      this.#refuse(waiter.answer, "limit_reached");
    }
    this.drain();
  }

  pause(ms: number): void {
    if (!this.isDisposed) this.pausedUntil = Math.max(this.pausedUntil, this.now + ms);
  }

  tick(): void {
    const wasPaused = this.isPaused;
    this.now += 1;
    const came = this.amount.tick(this.now);
    if (came || (wasPaused && !this.isPaused)) this.drain();
    for (const waiter of this.waiters.filter((one) => one.deadline <= this.now)) {
      this.#leave(waiter);
      this.#refuse(waiter.answer, "queue_timeout");
    }
    this.drain();
  }

  dispose(): void {
    this.isDisposed = true;
    for (const { answer } of this.waiters) answer.outcome = "limiter_disposed";
    this.waiters = [];
  }

  get idleMs(): number | undefined {
    const isIdle = !this.isPaused && this.waiters.length === 0 && this.amount.available >= this.amount.limit;
    return isIdle ? this.now - this.amount.fullSince : undefined;
  }
}

function attemptEstimate(
  limiter: { estimateWaitMs(permitCount: number): number | undefined },
  permits: number,
): number | undefined {
  try {
    return limiter.estimateWaitMs(permits);
  } catch {
    return undefined;
  }
}

type Command =
  | { readonly op: "attempt"; readonly permits: number }
  | {
      readonly op: "acquire";
      readonly permits: number;
      /** Which signal; a used one is replaced when `fresh`. */
      readonly signal?: number;
      readonly fresh?: boolean;
      readonly maxWaitMs?: number;
    }
  | { readonly op: "end" | "refund"; readonly lease: number }
  | { readonly op: "adjust"; readonly lease: number; readonly actual: number }
  | { readonly op: "abort"; readonly signal: number }
  | { readonly op: "limit"; readonly limit: number }
  | { readonly op: "pause" | "wait"; readonly ms: number }
  | { readonly op: "dispose" };

const permits = fc.integer({ min: 0, max: 5 });
const index = fc.nat({ max: 3 });

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ op: fc.constant("attempt" as const), permits }) },
  {
    weight: 10,
    arbitrary: fc.record(
      {
        op: fc.constant("acquire" as const),
        permits,
        signal: fc.nat({ max: 1 }),
        fresh: fc.boolean(),
        maxWaitMs: fc.constantFrom(-1, 0, 1, 2, 3, 5, 8, 13),
      },
      { requiredKeys: ["op", "permits"] },
    ),
  },
  { weight: 5, arbitrary: fc.record({ op: fc.constant("end" as const), lease: index }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant("refund" as const), lease: index }) },
  {
    weight: 3,
    arbitrary: fc.record({ op: fc.constant("adjust" as const), lease: index, actual: fc.nat({ max: 9 }) }),
  },
  { weight: 3, arbitrary: fc.record({ op: fc.constant("abort" as const), signal: fc.nat({ max: 1 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant("limit" as const), limit: fc.integer({ min: 1, max: 5 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant("pause" as const), ms: fc.integer({ min: 1, max: 9 }) }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ op: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 12 }) }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant("dispose" as const) }) },
);

interface Setup {
  readonly limit: number;
  readonly queueLimit: number;
  readonly order: Order;
}

interface Kind {
  readonly name: string;
  amount(setup: Setup): Amount;
  make(
    setup: Setup,
    clock: CountingClock,
  ): RateLimiter & Pick<ConcurrencyLimiter, "pause" | "estimateWaitMs">;
}

const common = (setup: Setup, clock: CountingClock) => ({
  queueLimit: setup.queueLimit,
  queueProcessingOrder: setup.order,
  clock,
});

const KINDS: readonly Kind[] = [
  {
    name: "ConcurrencyLimiter",
    amount: ({ limit }) => new Held(limit),
    make: (setup, clock) => new ConcurrencyLimiter({ permitLimit: setup.limit, ...common(setup, clock) }),
  },
  {
    name: "FixedWindowRateLimiter",
    amount: ({ limit }) => new Windows(limit, 7),
    make: (setup, clock) =>
      new FixedWindowRateLimiter({ permitLimit: setup.limit, windowMs: 7, ...common(setup, clock) }),
  },
  {
    name: "SlidingWindowRateLimiter",
    amount: ({ limit }) => new Segments(limit, 3, 4),
    make: (setup, clock) =>
      new SlidingWindowRateLimiter({
        permitLimit: setup.limit,
        windowMs: 12,
        segmentsPerWindow: 3,
        ...common(setup, clock),
      }),
  },
  {
    name: "TokenBucketRateLimiter, stepped",
    amount: ({ limit }) => new Tokens(limit, 2, 5, true),
    make: (setup, clock) =>
      new TokenBucketRateLimiter({
        tokenLimit: setup.limit,
        tokensPerPeriod: 2,
        replenishmentPeriodMs: 5,
        ...common(setup, clock),
      }),
  },
  // Tokens that come at ticks, and tokens that come between them.
  ...[1, 3].map((tokensPerPeriod) => ({
    name: `TokenBucketRateLimiter, continuous, ${tokensPerPeriod} per 4 ms`,
    amount: ({ limit }: Setup) => new Tokens(limit, tokensPerPeriod, 4, false),
    make: (setup: Setup, clock: CountingClock) =>
      new TokenBucketRateLimiter({
        tokenLimit: setup.limit,
        tokensPerPeriod,
        replenishmentPeriodMs: 4,
        refill: "continuous",
        ...common(setup, clock),
      }),
  })),
];

let stepsDone = 0;

/** Cheaper than `expect`, which would take most of the time here. */
function same(actual: unknown, expected: unknown, what: string): void {
  if (!Object.is(actual, expected))
    throw new Error(`${what}: is ${show(actual)}, should be ${show(expected)}`);
}

/** An attempt, as an answer to compare; the lease as well, when there is one. */
function attempt(limiter: RateLimiter, count: number): { outcome: string; lease?: RateLimitLease } {
  try {
    const lease = limiter.attemptAcquire(count);
    return { outcome: lease.isAcquired ? "granted" : String(lease.reason), lease };
  } catch (error) {
    return { outcome: (error as Error).name };
  }
}

async function runSideBySide(kind: Kind, setup: Setup, commands: readonly Command[]): Promise<void> {
  const clock = new CountingClock();
  const limiter = kind.make(setup, clock);
  const model = new Model(kind.amount(setup), setup.queueLimit, setup.order);
  const controllers = [new CountingController(), new CountingController()];
  const all = [...controllers];
  const calls: { call: Call; answer: Answer }[] = [];
  const leases: { lease: RateLimitLease; model: ModelLease }[] = [];
  const taken = new Set<Call>();

  const compareRetryAfter = (lease: RateLimitLease, answer: Answer, what: string): void => {
    if (Number.isNaN(answer.retryAfterMs)) return;
    const { retryAfterMs } = lease;
    // The model sees only whole ticks.
    const ticks = retryAfterMs === undefined ? undefined : Math.ceil(retryAfterMs - 1e-6);
    same(ticks, answer.retryAfterMs, `${what}: retryAfterMs (${retryAfterMs}) in ticks`);
  };

  const compare = async (what: string): Promise<void> => {
    await settle();
    stepsDone += 1;
    for (const [i, { call, answer }] of calls.entries()) {
      if (call.outcome === answer.outcome && call.settled === (answer.outcome === "pending" ? 0 : 1)) {
        if (call.lease === undefined || taken.has(call)) continue;
      }
      same(call.outcome, answer.outcome, `${what}: acquire #${i} (${call.permits})`);
      same(call.settled, answer.outcome === "pending" ? 0 : 1, `${what}: acquire #${i}, times settled`);
      if (call.lease === undefined) continue;
      taken.add(call);
      const granted = model.leases.get(answer);
      if (granted !== undefined) leases.push({ lease: call.lease, model: granted });
      else compareRetryAfter(call.lease, answer, `${what}: acquire #${i} (${call.permits})`);
    }
    const { amount, waiters } = model;
    if (!model.isDisposed) {
      const is = limiter.getStatistics();
      same(is?.currentAvailablePermits, Math.max(0, amount.available), `${what}: available`);
      same(is?.currentQueuedCount, model.queued, `${what}: queued`);
      same(is?.totalFailedLeases, model.failed, `${what}: failed`);
      same(is?.totalSuccessfulLeases, model.succeeded, `${what}: succeeded`);
      if (model.isTimed) {
        const { idleDurationMs } = limiter;
        const ticks = idleDurationMs === undefined ? undefined : Math.floor(idleDurationMs + 1e-6);
        same(ticks, model.idleMs, `${what}: idleDurationMs (${idleDurationMs}) in ticks`);
      }
      // Permits are conserved.
      if (!model.isTimed) {
        const held = leases.reduce((sum, one) => sum + (one.model.isLive ? one.model.held : 0), 0);
        same(amount.available, amount.limit - held, `${what}: free and held`);
      }
      // Nobody stays whom order and permits would let go.
      const { next } = model;
      const couldGo = next !== undefined && !model.isPaused && Math.max(1, next.permits) <= amount.available;
      same(couldGo, false, `${what}: a waiter stays without need`);
    }
    for (const controller of all) {
      const isAwaited = waiters.some((waiter) => waiter.controller === controller);
      same(controller.listeners, isAwaited ? 1 : 0, `${what}: listeners on a signal`);
    }
    same(
      Math.max(clock.timerCount, waiters.length === 0 ? 0 : 1),
      waiters.length === 0 ? 0 : 1,
      `${what}: timers`,
    );
  };

  for (const [i, one] of commands.entries()) {
    const what = `step ${i}, ${JSON.stringify(one)}`;
    switch (one.op) {
      case "attempt": {
        const { outcome, lease } = attempt(limiter, one.permits);
        const answer = model.attempt(one.permits);
        same(outcome, answer.outcome, what);
        const granted = model.leases.get(answer);
        if (granted !== undefined) leases.push({ lease: lease as RateLimitLease, model: granted });
        else if (lease !== undefined) compareRetryAfter(lease, answer, what);
        break;
      }
      case "acquire": {
        const { signal, fresh, maxWaitMs } = one;
        if (signal !== undefined && fresh === true && controllers[signal]?.signal.aborted === true) {
          controllers[signal] = new CountingController();
          all.push(controllers[signal]);
        }
        const controller = signal === undefined ? undefined : controllers[signal];
        const expected = attemptEstimate(limiter, one.permits);
        const call = new Call(limiter, one.permits, { controller, maxWaitMs, now: clock.now() });
        calls.push({ call, answer: model.acquire(one.permits, controller, maxWaitMs, expected) });
        break;
      }
      case "abort": {
        const controller = controllers[one.signal] as CountingController;
        if (controller.signal.aborted) break;
        controller.abort(new Error(`abort ${i}`));
        model.abort(controller);
        break;
      }
      case "limit":
        if (!(limiter instanceof ConcurrencyLimiter)) break;
        limiter.permitLimit = one.limit;
        model.setLimit(one.limit);
        break;
      case "pause":
        limiter.pause(one.ms);
        model.pause(one.ms);
        break;
      case "wait":
        for (let tick = 0; tick < one.ms; tick++) {
          clock.advance(1);
          model.tick();
          await compare(`${what}, tick ${tick + 1}`);
        }
        break;
      case "dispose":
        limiter.dispose();
        model.dispose();
        break;
      default: {
        const target = leases[one.lease];
        // Whether a lease for 0 permits can be charged is not laid down: it may be a shared one.
        if (target === undefined || target.model.granted === 0) break;
        if (one.op === "adjust") {
          target.lease.adjust(one.actual);
          model.adjust(target.model, one.actual);
          break;
        }
        if (one.op === "refund") {
          target.lease.refund();
          model.adjust(target.model, 0);
        } else target.lease.dispose();
        model.end(target.model);
      }
    }
    await compare(what);
  }
}

function show(value: unknown): string {
  return JSON.stringify(value);
}

describe("each limiter does what a plain model of it does", { timeout: 600_000 }, () => {
  test.each(
    KINDS.flatMap((kind) =>
      (["oldestFirst", "newestFirst"] as const).map((order) => [kind.name, order, kind] as const),
    ),
  )("%s, %s", async (_name, order, kind) => {
    stepsDone = 0;
    const numRuns = 600 * EFFORT;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.nat({ max: 6 }),
        fc.array(command, { maxLength: 40, size: "max" }),
        (limit, queueLimit, commands) => runSideBySide(kind, { limit, queueLimit, order }, commands),
      ),
      {
        numRuns,
        seed: (SEED + KINDS.indexOf(kind)) | 0,
        reporter(details) {
          if (!details.failed) return;
          if (details.counterexample === null) throw new Error(`the run did not end (seed ${details.seed})`);
          const [limit, queueLimit, commands] = details.counterexample;
          const steps = commands.map((one) => `  ${show(one)}`).join("\n");
          throw new Error(
            `limit ${limit}, queueLimit ${queueLimit}, ${order} (seed ${details.seed}, path ${details.counterexamplePath})\n${steps}\n${String((details.errorInstance as Error | null)?.message)}`,
          );
        },
      },
    );
    console.log(`${kind.name}, ${order}: ${numRuns} sequences, ${stepsDone} steps compared`);
  });
});
