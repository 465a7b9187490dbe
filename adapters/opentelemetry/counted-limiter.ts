import {
  type AcquireOptions,
  type Clock,
  RateLimiter,
  type RateLimiterStatistics,
  type RateLimitLease,
  type RejectionReason,
  ReplenishingRateLimiter,
} from "headgate";
import {
  type AcquireSink,
  type AcquireTicket,
  type Inside,
  type InsideLimiter,
  inside,
  isLease,
  type LimiterSnapshot,
  promiseOf,
  requestWith,
} from "../../src/internal.js";
import type { WaitResult } from "./catalogue.js";
import { CountedLease } from "./counted-lease.js";
import type { Counters } from "./counters.js";
import type { WaitTracing } from "./wait-tracing.js";

/** Asks a limiter, and counts how that goes. It is an inside too, so that waits end in the turn in which they do behind it. */
class CountedDoor implements Inside {
  readonly limiter: InsideLimiter;
  readonly #counters: Counters;
  readonly #tracing: WaitTracing | undefined;

  constructor(limiter: RateLimiter, counters: Counters, tracing: WaitTracing | undefined) {
    this.limiter = limiter;
    this.#counters = counters;
    this.#tracing = tracing;
  }

  get clock(): Clock | undefined {
    return this.limiter[inside]?.clock;
  }

  get usesPriority(): boolean {
    return this.limiter[inside]?.usesPriority === true;
  }

  hasRoom(permitCount: number): boolean {
    return this.limiter[inside]?.hasRoom(permitCount) === true;
  }

  snapshot(into: LimiterSnapshot): boolean {
    return this.limiter[inside]?.snapshot(into) === true;
  }

  forEachRefusal(visit: (reason: RejectionReason, count: number) => void): void {
    this.limiter[inside]?.forEachRefusal?.(visit);
  }

  queuedByPriority(): Map<number, number> {
    return this.limiter[inside]?.queuedByPriority() ?? new Map();
  }

  attempt(permitCount: number): RateLimitLease {
    return this.#counted(this.limiter.attemptAcquire(permitCount), undefined);
  }

  acquireWith(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    if (this.limiter[inside] !== undefined) return this.#request(permitCount, options, sink);
    // A limiter without an inside gives promises, which know nothing of cancelling; its signal does.
    const { signal } = options;
    const controller = new AbortController();
    const abort = (): void => controller.abort(signal?.reason);
    const forget = (): void => signal?.removeEventListener("abort", abort);
    signal?.addEventListener("abort", abort);
    let answer: RateLimitLease | AcquireTicket;
    try {
      answer = this.#request(permitCount, options, sink, controller.signal, forget);
    } catch (error) {
      forget();
      throw error;
    }
    if (isLease(answer)) {
      forget();
      return answer;
    }
    const ticket = answer;
    return {
      cancel: () => {
        const isCancelled = ticket.cancel();
        forget();
        controller.abort();
        return isCancelled;
      },
    };
  }

  /** Asks, and counts the answer; `signal` is what the limiter is asked with, and `onEnd` is called when a wait has ended. */
  #request(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
    signalBehind: AbortSignal | undefined = options.signal,
    onEnd?: () => void,
  ): RateLimitLease | AcquireTicket {
    const { signal } = options;
    const { clock } = this.#counters;
    let startMs = Number.NaN;
    let span: ReturnType<WaitTracing["begin"]>;
    const ended = (result: WaitResult, lease?: RateLimitLease): void => {
      // Told before there was a ticket: it has not waited.
      if (Number.isNaN(startMs)) return;
      this.#counters.waited(result, clock.now() - startMs);
      span?.end(permitCount, result, lease?.reason);
    };
    const how = signalBehind === signal ? options : { ...options, signal: signalBehind };
    const answer = requestWith(this.limiter, permitCount, how, {
      settled: (lease) => {
        onEnd?.();
        // The sink has the lease, whatever counting does.
        let counted = lease;
        try {
          ended(lease.isAcquired ? "acquired" : "rejected", lease);
          counted = this.#counted(lease, signal);
        } finally {
          sink.settled(counted);
        }
      },
      failed: (error) => {
        onEnd?.();
        try {
          if (signal?.aborted === true) {
            this.#counters.canceled();
            ended("canceled");
          }
        } finally {
          sink.failed(error);
        }
      },
    });
    if (isLease(answer)) return this.#counted(answer, signal);
    startMs = clock.now();
    span = this.#tracing?.begin();
    return {
      cancel: () => {
        const isCancelled = answer.cancel();
        if (isCancelled) {
          this.#counters.canceled();
          ended("canceled");
        }
        return isCancelled;
      },
    };
  }

  acquire(permitCount: number, options: AcquireOptions): RateLimitLease | Promise<RateLimitLease> {
    // Nobody takes a promise back, so a signal of the caller's own is all there is.
    return promiseOf((sink) => this.#request(permitCount, options, sink));
  }

  #counted(lease: RateLimitLease, signal: AbortSignal | undefined): RateLimitLease {
    this.#counters.answered(lease);
    return lease.isAcquired ? new CountedLease(lease, this.#counters, signal) : lease;
  }
}

// Two classes that differ in nothing but what they extend: whoever drives or evicts limiters asks by `instanceof`.

class CountedLimiter extends RateLimiter {
  readonly #door: CountedDoor;

  constructor(door: CountedDoor) {
    super();
    this.#door = door;
  }

  /** @internal */
  get [inside](): Inside {
    return this.#door;
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#door.limiter.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#door.limiter.idleDurationMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#door.attempt(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return this.#door.acquire(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#door.limiter.dispose();
  }

  protected override disposeAsyncCore(): Promise<void> {
    return this.#door.limiter.disposeAsync();
  }
}

class ReplenishingCountedLimiter extends ReplenishingRateLimiter {
  readonly #door: CountedDoor;
  readonly #limiter: ReplenishingRateLimiter;

  constructor(door: CountedDoor, limiter: ReplenishingRateLimiter) {
    super();
    this.#door = door;
    this.#limiter = limiter;
  }

  /** @internal */
  get [inside](): Inside {
    return this.#door;
  }

  override get replenishmentPeriodMs(): number {
    return this.#limiter.replenishmentPeriodMs;
  }

  override get isAutoReplenishing(): boolean {
    return this.#limiter.isAutoReplenishing;
  }

  override tryReplenish(): boolean {
    return this.#limiter.tryReplenish();
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return this.#limiter.getStatistics();
  }

  override get idleDurationMs(): number | undefined {
    return this.#limiter.idleDurationMs;
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    return this.#door.attempt(permitCount);
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    return this.#door.acquire(permitCount, options);
  }

  protected override disposeCore(): void {
    this.#limiter.dispose();
  }

  protected override disposeAsyncCore(): Promise<void> {
    return this.#limiter.disposeAsync();
  }
}

/** What limiters have besides the contract, and adapters and callers look for. */
const EXTRAS = ["pause", "estimateWaitMs", "permitLimit"] as const;

/** Puts a counter before a limiter. It has of the rest what the limiter has. */
export function counted(
  limiter: RateLimiter,
  counters: Counters,
  tracing: WaitTracing | undefined,
): RateLimiter {
  const door = new CountedDoor(limiter, counters, tracing);
  const inFront =
    limiter instanceof ReplenishingRateLimiter
      ? new ReplenishingCountedLimiter(door, limiter)
      : new CountedLimiter(door);
  for (const name of EXTRAS)
    if (name in limiter) Object.defineProperty(inFront, name, passedOn(limiter, name));
  return inFront;
}

/** A property that is another object's. */
function passedOn(target: object, name: (typeof EXTRAS)[number]): PropertyDescriptor {
  const behind = target as Record<string, unknown>;
  return {
    configurable: true,
    get: () => {
      const value = behind[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
    set: (value: unknown) => {
      behind[name] = value;
    },
  };
}
