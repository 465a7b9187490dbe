import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  type RateLimitLease,
  RateLimitPartition,
  ReplenishingRateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { ManualClock } from "headgate/testing";
import type { Spec, Trace } from "./trace.js";

export type Mode = "manual" | "auto";

export class FactoryFault extends Error {}

/** Text for statistics; a limiter without a limit says "max", whatever the largest number of its host is. */
export function statisticsText(statistics: RateLimiterStatistics | undefined): string {
  if (statistics === undefined) return "none";
  const { currentAvailablePermits: available } = statistics;
  return [
    available === Number.MAX_SAFE_INTEGER ? "max" : available,
    statistics.currentQueuedCount,
    statistics.totalFailedLeases,
    statistics.totalSuccessfulLeases,
  ].join(",");
}

/** What a trace is about, made of headgate's limiters. */
export abstract class World {
  readonly clock = new ManualClock();
  readonly mode: Mode;
  readonly leaves: RateLimiter[] = [];
  /** The options of each of those. */
  readonly specs: Spec[] = [];
  /** When each of those was made. */
  readonly madeAt: number[] = [];
  made: number[] = [];
  readonly failNext = new Set<number>();

  /** The limiter that a trace is about, where it has no partitions. */
  abstract readonly top: RateLimiter | undefined;

  constructor(mode: Mode) {
    this.mode = mode;
  }

  abstract attempt(target: number, permits: number): RateLimitLease;
  abstract acquire(target: number, permits: number, signal: AbortSignal | undefined): Promise<RateLimitLease>;
  abstract statistics(target: number): RateLimiterStatistics | undefined;
  abstract dispose(): void;
  abstract disposeAsync(): Promise<void>;
  disposeInner(): void {}

  tick(ms: number): void {
    this.clock.advance(ms);
    if (this.mode === "auto") return;
    // Whoever gets on goes to the next limiter of a chain at once here, and later in the original: so the last comes first.
    for (const leaf of [...this.leaves].reverse())
      if (leaf instanceof ReplenishingRateLimiter) leaf.tryReplenish();
  }

  observe(): string {
    return this.observed.map(show).join(";");
  }

  protected get observed(): readonly RateLimiter[] {
    return this.leaves;
  }

  protected make(spec: Spec): RateLimiter {
    const [kind] = spec;
    const key = 0;
    if (kind === "n") return RateLimitPartition.getNoLimiter(key).factory(key);
    return this.adopt(spec, makeLimiter(spec, this.mode, this.clock));
  }

  protected adopt<L extends RateLimiter>(spec: Spec, limiter: L): L {
    this.leaves.push(limiter);
    this.specs.push(spec);
    this.madeAt.push(this.clock.now());
    return limiter;
  }
}

function show(limiter: RateLimiter): string {
  let numbers = "D";
  let idle = "D";
  try {
    numbers = statisticsText(limiter.getStatistics());
  } catch {}
  try {
    const idleMs = limiter.idleDurationMs;
    idle = idleMs === undefined ? "-" : String(Math.floor(idleMs + 1e-6));
  } catch {}
  return `${numbers},${idle}`;
}

const orderOf = (newest: 0 | 1) => (newest === 1 ? "newestFirst" : "oldestFirst");

export function makeLimiter(spec: Spec, mode: Mode, clock: ManualClock): RateLimiter {
  const [kind, limit, queueLimit, newest, periodMs, segments, perPeriod] = spec;
  const common = { queueLimit, queueProcessingOrder: orderOf(newest), clock } as const;
  const autoReplenishment = mode === "auto";
  switch (kind) {
    case "f":
      return new FixedWindowRateLimiter({
        ...common,
        permitLimit: limit,
        windowMs: periodMs,
        autoReplenishment,
      });
    case "s":
      return new SlidingWindowRateLimiter({
        ...common,
        permitLimit: limit,
        windowMs: periodMs * segments,
        segmentsPerWindow: segments,
        autoReplenishment,
      });
    case "t":
      return new TokenBucketRateLimiter({
        ...common,
        tokenLimit: limit,
        tokensPerPeriod: perPeriod,
        replenishmentPeriodMs: periodMs,
        autoReplenishment,
      });
    default:
      return new ConcurrencyLimiter({ ...common, permitLimit: limit });
  }
}

class SingleWorld extends World {
  readonly top: RateLimiter;

  constructor(spec: Spec, mode: Mode) {
    super(mode);
    this.top = this.make(spec);
  }

  attempt(_target: number, permits: number): RateLimitLease {
    return this.top.attemptAcquire(permits);
  }

  acquire(_target: number, permits: number, signal: AbortSignal | undefined): Promise<RateLimitLease> {
    return this.top.acquire(permits, { signal });
  }

  statistics(): RateLimiterStatistics | undefined {
    return this.top.getStatistics();
  }

  dispose(): void {
    this.top.dispose();
  }

  disposeAsync(): Promise<void> {
    return this.top.disposeAsync();
  }
}

class ChainWorld extends World {
  readonly top: RateLimiter;

  constructor(specs: readonly Spec[], mode: Mode) {
    super(mode);
    for (const spec of specs) this.make(spec);
    this.top = RateLimiter.createChained(...this.leaves);
  }

  attempt(target: number, permits: number): RateLimitLease {
    return this.#at(target).attemptAcquire(permits);
  }

  acquire(target: number, permits: number, signal: AbortSignal | undefined): Promise<RateLimitLease> {
    return this.#at(target).acquire(permits, { signal });
  }

  statistics(target: number): RateLimiterStatistics | undefined {
    return this.#at(target).getStatistics();
  }

  dispose(): void {
    this.top.dispose();
  }

  disposeAsync(): Promise<void> {
    return this.top.disposeAsync();
  }

  protected override get observed(): readonly RateLimiter[] {
    return [this.top, ...this.leaves];
  }

  #at(target: number): RateLimiter {
    return target === 0 ? this.top : (this.leaves[target - 1] as RateLimiter);
  }
}

class PartitionWorld extends World {
  readonly top = undefined;
  readonly #inner: PartitionedRateLimiter<number>;
  readonly #outer: PartitionedRateLimiter<number>;

  constructor(trace: Trace, mode: Mode) {
    super(mode);
    this.#inner = this.#create(trace.leaves, 0);
    if (trace.second !== undefined) {
      this.#outer = PartitionedRateLimiter.createChained(this.#inner, this.#create(trace.second, 100));
    } else if (trace.kind === "translated") {
      const translated = this.#inner.withTranslatedKey((text: string) => Number(text), {
        leaveOpen: trace.open === 1,
      });
      this.#outer = translated as unknown as PartitionedRateLimiter<number>;
    } else {
      this.#outer = this.#inner;
    }
  }

  attempt(target: number, permits: number): RateLimitLease {
    return this.#outer.attemptAcquire(target, permits);
  }

  acquire(target: number, permits: number, signal: AbortSignal | undefined): Promise<RateLimitLease> {
    return this.#outer.acquire(target, permits, { signal });
  }

  statistics(target: number): RateLimiterStatistics | undefined {
    return this.#outer.getStatistics(target);
  }

  dispose(): void {
    this.#outer.dispose();
  }

  disposeAsync(): Promise<void> {
    return this.#outer.disposeAsync();
  }

  override disposeInner(): void {
    this.#inner.dispose();
  }

  /** Partitions are driven by the limiter that holds them. */
  override tick(ms: number): void {
    this.clock.advance(ms);
  }

  #create(specs: readonly Spec[], offset: number): PartitionedRateLimiter<number> {
    return PartitionedRateLimiter.create(
      (resource: number) => {
        const key = resource % specs.length;
        const spec = specs[key] as Spec;
        return RateLimitPartition.get(key, () => {
          this.made.push(key + offset);
          if (this.failNext.delete(key + offset)) throw new FactoryFault("factory");
          return this.adopt(spec, this.#partition(spec, key));
        });
      },
      { clock: this.clock },
    );
  }

  #partition(spec: Spec, key: number): RateLimiter {
    const [kind, limit, queueLimit, newest, periodMs, segments, perPeriod] = spec;
    if (kind === "n") return RateLimitPartition.getNoLimiter(key).factory(key);
    if (this.mode === "manual") return makeLimiter(spec, "manual", this.clock);
    const common = { queueLimit, queueProcessingOrder: orderOf(newest), clock: this.clock } as const;
    switch (kind) {
      case "f":
        return RateLimitPartition.getFixedWindowLimiter(key, () => ({
          ...common,
          permitLimit: limit,
          windowMs: periodMs,
        })).factory(key);
      case "s":
        return RateLimitPartition.getSlidingWindowLimiter(key, () => ({
          ...common,
          permitLimit: limit,
          windowMs: periodMs * segments,
          segmentsPerWindow: segments,
        })).factory(key);
      case "t":
        return RateLimitPartition.getTokenBucketLimiter(key, () => ({
          ...common,
          tokenLimit: limit,
          tokensPerPeriod: perPeriod,
          replenishmentPeriodMs: periodMs,
        })).factory(key);
      default:
        return RateLimitPartition.getConcurrencyLimiter(key, () => ({
          ...common,
          permitLimit: limit,
        })).factory(key);
    }
  }
}

export function makeWorld(trace: Trace, mode: Mode): World {
  if (trace.kind === "single") return new SingleWorld(trace.leaves[0] as Spec, mode);
  if (trace.kind === "chain") return new ChainWorld(trace.leaves, mode);
  return new PartitionWorld(trace, mode);
}
