import {
  type AcquireOptions,
  type Clock,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  ReplenishingRateLimiter,
} from "headgate";
import {
  type AcquireTicket,
  type InsideLimiter,
  inside,
  isLease,
  type LimiterSnapshot,
  requestWith,
  wrongType,
} from "../../src/internal.js";
import { ASKING, type Attempt, DEFAULT_TENANT } from "./attempt.js";
import { MOST_TENANTS } from "./measures.js";

/**
 * What a partitioned limiter gets to see of an attempt.
 *
 * @public
 */
export interface SimulatedRequest {
  /** The number of the arrival, from 0; retries have the same. */
  readonly id: number;
  /** How many attempts came before for the same arrival: 0 for the first. */
  readonly attempt: number;
  /** For whom; `default` where the arrival does not say. */
  readonly tenant: string;
  /** How urgent; 0 where the arrival does not say. */
  readonly priority: number;
  /** Whatever the arrival carries. */
  readonly data: unknown;
}

/**
 * What can stand in front of the server: any limiter, also one that you wrote, or nothing.
 *
 * @public
 */
export type SimulatedLimiter = RateLimiter | PartitionedRateLimiter<SimulatedRequest> | undefined;

/** The limiters whose permits come back with leases alone. */
const HOLDING_KINDS: readonly string[] = ["ConcurrencyLimiter", "AdaptiveConcurrencyLimiter"];

/** How attempts ask the limiter. */
interface GateSettings {
  readonly waits: boolean;
  readonly maxWaitMs: number | undefined;
  /** Whether clients may leave the limiter's queue. */
  readonly canLeave: boolean;
  /** Whether a clock shows the time of the run. */
  readonly isShownBy: (clock: Clock) => boolean;
}

/** A partition, as the first request of a tenant saw it. */
interface SeenPartition {
  readonly limiter: InsideLimiter;
  /** What could be taken then; NaN when unknown. */
  readonly atStart: number;
}

/*
 * The limiter, as the run sees it.
 *
 * The limiters of this library tell a sink in the very turn in which permits come free, so a run with them needs no promise
 * and is never interrupted. Only the limiters themselves know that no promise is in between: those that have a queue of
 * their own can be looked into. Of all others (chains, limiters that users wrote) an answer may come by a promise, and the run
 * lets the host do its turn after each event that touched them (see `barrier.ts`).
 */
export class Gate {
  readonly #limiter: SimulatedLimiter;
  /** The same, if it is one that has a state to look at, rather than one for each partition. */
  readonly #single: InsideLimiter | undefined;
  /** Whether permits come back with time, rather than with leases. */
  readonly #replenishes: boolean;
  /** By tenant, so that it can be seen at the end what has been kept. */
  readonly #partitions = new Map<string, SeenPartition>();
  readonly #settings: GateSettings;
  readonly #options: AcquireOptions;
  readonly #snapshot: LimiterSnapshot = {
    kind: "",
    permitLimit: 0,
    available: 0,
    queueLimit: 0,
    queuedPermits: 0,
    queuedRequests: 0,
    granted: 0,
    refused: 0,
    aborted: 0,
    isPaused: false,
    isDisposed: false,
  };
  /** Whether anything has been asked or given back since somebody set this to false. */
  touched = false;
  /** How many answers may come by a promise, and how many have come. */
  uncertain = 0;
  news = 0;
  /**
   * The limiter's own limit, the permits that could be taken, and whether it would make one permit wait (1) or not (0), all as
   * of the last `look`; NaN when unknown.
   */
  limit: number = Number.NaN;
  available: number = Number.NaN;
  atLimit: number = Number.NaN;
  #atStart: number = Number.NaN;

  constructor(limiter: SimulatedLimiter, settings: GateSettings) {
    if (
      limiter !== undefined &&
      !(limiter instanceof RateLimiter) &&
      !(limiter instanceof PartitionedRateLimiter)
    ) {
      throw wrongType(
        "The result of limiter()",
        "a RateLimiter, a PartitionedRateLimiter or undefined",
        limiter,
      );
    }
    this.#limiter = limiter;
    this.#single = limiter instanceof RateLimiter ? limiter : undefined;
    this.#replenishes = limiter instanceof ReplenishingRateLimiter;
    this.#settings = settings;
    if (this.#single !== undefined) this.#checkClock(this.#single);
    const { maxWaitMs } = settings;
    this.#options = Object.freeze(maxWaitMs === undefined ? {} : { maxWaitMs });
  }

  get hasLimiter(): boolean {
    return this.#limiter !== undefined;
  }

  /** What kind of limiter it is, for the record. */
  get kind(): string | null {
    if (this.#limiter === undefined) return null;
    if (this.#single === undefined) return "PartitionedRateLimiter";
    return this.#single[inside]?.snapshot(this.#snapshot) === true ? this.#snapshot.kind : "RateLimiter";
  }

  /** Asks for an attempt's permits: the lease, where it is known at once; else the attempt will be told. */
  ask(attempt: Attempt): RateLimitLease | undefined {
    this.touched = true;
    const limiter = this.#limiter as RateLimiter | PartitionedRateLimiter<SimulatedRequest>;
    if (!(limiter instanceof PartitionedRateLimiter)) return this.#askOne(limiter, attempt);
    const request = requestOf(attempt);
    const partition = limiter.forResource(request);
    // Its clock is the partitioned limiter's own until there is a partition, then that of the first one.
    this.#checkClock(partition);
    this.#notice(partition, request.tenant);
    const answer = this.#askOne(partition, attempt);
    try {
      this.#checkClock(partition);
    } catch (error) {
      answer?.dispose();
      throw error;
    }
    return answer;
  }

  #askOne(limiter: RateLimiter, attempt: Attempt): RateLimitLease | undefined {
    return this.#settings.waits ? this.#acquire(limiter, attempt) : limiter.attemptAcquire(attempt.permits);
  }

  #checkClock(limiter: InsideLimiter): void {
    const clock = limiter[inside]?.clock;
    if (clock === undefined || this.#settings.isShownBy(clock)) return;
    throw new TypeError(
      "a limiter lives by another time than the run: pass the clock of the context to each that you make, and to partitioned limiters",
    );
  }

  #notice(limiter: InsideLimiter, tenant: string): void {
    if (this.#partitions.has(tenant) || this.#partitions.size >= MOST_TENANTS) return;
    const atStart = limiter.getStatistics()?.currentAvailablePermits ?? Number.NaN;
    this.#partitions.set(tenant, { limiter, atStart });
  }

  /** Takes back what an attempt has asked for; false when it has its answer already. */
  leave(attempt: Attempt): boolean {
    this.touched = true;
    if (attempt.ticket?.cancel() !== true) return false;
    this.hasEnded(attempt);
    return true;
  }

  /** An attempt has its answer, or wants none any more. */
  hasEnded(attempt: Attempt): void {
    attempt.ticket = undefined;
    if (!attempt.isUncertain) return;
    attempt.isUncertain = false;
    this.uncertain -= 1;
    this.news += 1;
  }

  /**
   * How many permits the limiter misses, to be asked when everything has been given back: those that are in use by its own
   * limit, and those that could be taken at the start but cannot any more. Of partitions, as many as one of them misses.
   */
  findMissing(): { readonly inUse: number; readonly lost: number } {
    if (this.#single !== undefined) {
      this.look();
      const lost = this.#replenishes ? 0 : this.#atStart - this.available;
      return Number.isNaN(this.limit)
        ? { inUse: 0, lost: Math.max(0, lost || 0) }
        : { inUse: Math.max(0, this.limit - this.available), lost: 0 };
    }
    let inUse = 0;
    let lost = 0;
    const snapshot = this.#snapshot;
    for (const { limiter, atStart } of this.#partitions.values()) {
      if (limiter[inside]?.snapshot(snapshot) === true) {
        const isHeld = HOLDING_KINDS.includes(snapshot.kind);
        if (isHeld) inUse = Math.max(inUse, snapshot.permitLimit - snapshot.available);
      } else {
        const { currentAvailablePermits = atStart } = limiter.getStatistics() ?? {};
        if (atStart > currentAvailablePermits) lost = Math.max(lost, atStart - currentAvailablePermits);
      }
    }
    return { inUse, lost };
  }

  /** Looks at the limiter. */
  look(): void {
    const limiter: InsideLimiter | undefined = this.#single;
    if (limiter === undefined) return;
    let available: number;
    let queued: number;
    let limit = Number.NaN;
    const snapshot = this.#snapshot;
    if (limiter[inside]?.snapshot(snapshot) === true) {
      available = snapshot.available;
      queued = snapshot.queuedPermits;
      limit = snapshot.permitLimit;
    } else {
      const statistics = limiter.getStatistics();
      if (statistics === undefined) return;
      available = statistics.currentAvailablePermits;
      queued = statistics.currentQueuedCount;
    }
    this.atLimit = available < 1 || queued > 0 ? 1 : 0;
    const { permitLimit } = limiter as { readonly permitLimit?: unknown };
    if (typeof permitLimit === "number") limit = permitLimit;
    // What comes back with time is no limit on what is in use.
    this.limit = this.#replenishes ? Number.NaN : limit;
    this.available = available;
    if (Number.isNaN(this.#atStart)) this.#atStart = available;
  }

  #acquire(limiter: InsideLimiter, attempt: Attempt): RateLimitLease | undefined {
    const { priority } = attempt.arrival;
    const options = priority === undefined ? this.#options : { ...this.#options, priority };
    const door = limiter[inside];
    if (door === undefined) {
      this.#isUncertain(attempt);
      attempt.ticket = this.#acquireByPromise(limiter, attempt, options);
      return undefined;
    }
    const answer = requestWith(limiter, attempt.permits, options, attempt);
    if (isLease(answer)) return answer;
    // It may have been told before its request has returned.
    if (attempt.stage !== ASKING) return undefined;
    attempt.ticket = answer;
    if (!door.snapshot(this.#snapshot)) this.#isUncertain(attempt);
    return undefined;
  }

  #isUncertain(attempt: Attempt): void {
    attempt.isUncertain = true;
    this.uncertain += 1;
  }

  #acquireByPromise(limiter: RateLimiter, attempt: Attempt, options: AcquireOptions): AcquireTicket {
    const leaving = this.#settings.canLeave ? new AbortController() : undefined;
    const how = leaving === undefined ? options : { ...options, signal: leaving.signal };
    let isWanted = true;
    limiter.acquire(attempt.permits, how).then(
      (lease) => {
        if (isWanted) attempt.settled(lease);
        else lease.dispose();
      },
      (error: unknown) => {
        if (isWanted) attempt.failed(error);
      },
    );
    return {
      cancel: () => {
        isWanted = false;
        leaving?.abort();
        return true;
      },
    };
  }
}

function requestOf({ id, number, arrival }: Attempt): SimulatedRequest {
  const { tenant = DEFAULT_TENANT, priority = 0, data } = arrival;
  return { id, attempt: number, tenant, priority, data };
}
