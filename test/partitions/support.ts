import {
  type AcquireOptions,
  ConcurrencyLimiter,
  type KeyedRateLimiter,
  type LeaseOutcome,
  PartitionedRateLimiter,
  type PartitionedRateLimiterOptions,
  type RateLimiterStatistics,
  RateLimitLease,
  RateLimitPartition,
  ReplenishingRateLimiter,
} from "headgate";
import { expect } from "vitest";
import { flush, ManualClock, watch } from "../support.js";

// What the tests of partitioned limiters have in common.

/** How a stub behaves. May change while it lives. */
export interface StubPlan {
  refuses?: boolean;
  metadata?: Readonly<Record<string, unknown>>;
  /** Thrown instead of an answer. */
  error?: unknown;
  /** Thrown by the dispose of its leases. */
  leaseError?: unknown;
  /** Whether `acquire` waits for ever. */
  waits?: boolean;
  /** Idle for so long; in use when left out. */
  idleMs?: number;
  /** Whether somebody has to replenish it; by default it says that it does so itself. */
  manual?: boolean;
  statistics?: RateLimiterStatistics;
  onLook?(): void;
  onReplenish?(): void;
  onDispose?(): void;
  onDisposeAsync?(): void | Promise<void>;
}

class StubLease extends RateLimitLease {
  readonly #stub: Stub;

  constructor(stub: Stub) {
    super();
    this.#stub = stub;
  }

  override get isAcquired(): boolean {
    return this.#stub.plan.refuses !== true;
  }

  override get metadataNames(): string[] {
    return Object.keys(this.#stub.plan.metadata ?? {});
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return this.#stub.plan.metadata?.[name];
  }

  override report(outcome: LeaseOutcome): void {
    this.#stub.note(`lease report ${outcome}`);
  }

  override adjust(actualPermits: number): void {
    this.#stub.note(`lease adjust ${actualPermits}`);
  }

  override dispose(): void {
    this.#stub.note("lease dispose");
    if (this.#stub.plan.leaseError !== undefined) throw this.#stub.plan.leaseError;
  }
}

/** A limiter as a user might write it, which writes down what it is asked for. */
export class Stub extends ReplenishingRateLimiter {
  readonly name: string;
  readonly log: string[];
  readonly plan: StubPlan;

  constructor(name: string, log: string[], plan: StubPlan = {}) {
    super();
    this.name = name;
    this.log = log;
    this.plan = plan;
  }

  note(what: string): void {
    this.log.push(`${this.name} ${what}`);
  }

  protected override attemptAcquireCore(permitCount: number): RateLimitLease {
    this.note(`attempt ${permitCount}`);
    return this.#answer();
  }

  protected override acquireCore(
    permitCount: number,
    { signal, maxWaitMs }: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    const details = [signal && "abortable", maxWaitMs === undefined ? undefined : `within ${maxWaitMs}`];
    this.note(["acquire", permitCount, ...details.filter(Boolean)].join(" "));
    return this.plan.waits === true ? new Promise(() => {}) : this.#answer();
  }

  #answer(): RateLimitLease {
    if (this.plan.error !== undefined) throw this.plan.error;
    return new StubLease(this);
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    this.note("statistics");
    return this.plan.statistics;
  }

  override get idleDurationMs(): number | undefined {
    this.plan.onLook?.();
    return this.plan.idleMs;
  }

  override get replenishmentPeriodMs(): number {
    return 0;
  }

  override get isAutoReplenishing(): boolean {
    return this.plan.manual !== true;
  }

  override tryReplenish(): boolean {
    this.note("tryReplenish");
    this.plan.onReplenish?.();
    return this.plan.manual === true;
  }

  protected override disposeCore(): void {
    this.note("dispose");
    this.plan.onDispose?.();
  }

  protected override async disposeAsyncCore(): Promise<void> {
    this.note("disposeAsync");
    await this.plan.onDisposeAsync?.();
  }
}

/** A partitioned limiter whose resources are the keys, with stubs that are named after them and share one log. */
export function stubbed<Key>(
  plans: (key: Key) => StubPlan = () => ({}),
  options: PartitionedRateLimiterOptions = {},
): {
  readonly limiter: KeyedRateLimiter<Key, Key>;
  readonly log: string[];
  /** The keys for which the factory has run. */
  readonly made: Key[];
  readonly clock: ManualClock;
  /** What has been written since the last look. */
  logged(word?: string): string[];
} {
  const clock = new ManualClock();
  const log: string[] = [];
  const made: Key[] = [];
  const factory = (key: Key) => {
    made.push(key);
    return new Stub(String(key), log, plans(key));
  };
  const limiter = PartitionedRateLimiter.create((key: Key) => RateLimitPartition.get(key, factory), {
    clock,
    ...options,
  });
  const logged = (word = "") => log.splice(0).filter((line) => line.includes(word));
  return { limiter, log, made, clock, logged };
}

/** A partitioned limiter whose resources are the keys, each with a concurrency limiter of its own. */
export function concurrencyByKey<Key = string>(
  permitLimit: number,
  options: PartitionedRateLimiterOptions & {
    readonly queueLimit?: number;
    readonly clock?: ManualClock;
  } = {},
): { readonly limiter: KeyedRateLimiter<Key, Key>; readonly clock: ManualClock } {
  const { queueLimit, ...others } = options;
  const clock = options.clock ?? new ManualClock();
  const shared = { permitLimit, queueLimit, clock };
  const limiter = PartitionedRateLimiter.create(
    (key: Key) => RateLimitPartition.getConcurrencyLimiter(key, () => shared),
    { clock, ...others },
  );
  return { limiter, clock };
}

export function concurrency(permitLimit: number, queueLimit = 0): ConcurrencyLimiter {
  return new ConcurrencyLimiter({ permitLimit, queueLimit, clock: new ManualClock() });
}

/** "available/queued/failed/successful". */
export function show(now: RateLimiterStatistics | undefined): string {
  if (now === undefined) return "none";
  const { currentAvailablePermits, currentQueuedCount, totalFailedLeases, totalSuccessfulLeases } = now;
  return [currentAvailablePermits, currentQueuedCount, totalFailedLeases, totalSuccessfulLeases].join("/");
}

/** What a call throws, or its promise rejects with, without waiting for a promise that stays pending. */
export async function errorOf(action: () => unknown): Promise<unknown> {
  const call = watch((async () => action())());
  await flush();
  if (call.state !== "rejected") throw new Error(`no error was thrown: ${call.state}`);
  return call.reason;
}

/** The errors of the AggregateError that a call throws, or its promise rejects with. */
export async function errorsOf(action: () => unknown): Promise<readonly unknown[]> {
  const error = await errorOf(action);
  expect(error).toBeInstanceOf(AggregateError);
  return (error as AggregateError).errors;
}

export const E = new Error("E");
export const F = new Error("F");
export const G = new Error("G");
