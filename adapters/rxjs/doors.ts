import {
  type AcquireOptions,
  type Clock,
  ConcurrencyLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
} from "headgate";
import {
  type AcquireSink,
  type AcquireTicket,
  type InsideLimiter,
  inside,
  insideOf,
  isLease,
  requestForWith,
  requestWith,
  wrongType,
} from "../../src/internal.js";
import type { LimiterSource, PartitionedLimiterSource } from "./options.js";
import type { Rules } from "./rules.js";

/** Where a subscription gets its leases from. */
export interface Door {
  /** How many permits may be out at the same time, by the operator's own count; infinite when the limiter counts. */
  readonly capacity: number;
  readonly clock: Clock | undefined;
  request(
    resource: unknown,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket;
  /** The lane of a resource, where the limiter can tell. */
  keyOf?(resource: unknown): unknown;
  readonly tellsKeys: boolean;
  /** Lets go of what was made for this subscription. */
  close(): void;
}

/** Makes the door of a new subscription. */
export type OpenDoor = () => Door;

/**
 * Nobody else counts along, so there is no limiter: the operator counts, and its buffer is the only queue. The lease that
 * work gets stands for a permit and holds nothing.
 */
class CountingDoor implements Door {
  readonly capacity: number;
  readonly clock: undefined;
  readonly tellsKeys = false;
  readonly #lease: RateLimitLease = new NoLimiter().attemptAcquire();

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  request(): RateLimitLease {
    return this.#lease;
  }

  close(): void {}
}

/** Asks in a way that can be taken back of a limiter that has no inside: its promises know nothing of cancelling. */
function requestOfForeign(
  options: AcquireOptions,
  ask: (options: AcquireOptions) => RateLimitLease | AcquireTicket,
): RateLimitLease | AcquireTicket {
  const controller = new AbortController();
  const answer = ask({ ...options, signal: controller.signal });
  if (isLease(answer)) return answer;
  return {
    cancel: () => {
      const isCancelled = answer.cancel();
      controller.abort();
      return isCancelled;
    },
  };
}

class LimiterDoor implements Door {
  readonly capacity: number = Number.POSITIVE_INFINITY;
  readonly tellsKeys = false;
  readonly #limiter: InsideLimiter;
  readonly #isOwn: boolean;
  readonly #isForeign: boolean;

  constructor(limiter: InsideLimiter, isOwn: boolean) {
    this.#limiter = limiter;
    this.#isOwn = isOwn;
    this.#isForeign = limiter[inside] === undefined;
  }

  get clock(): Clock | undefined {
    return this.#limiter[inside]?.clock;
  }

  request(
    _resource: unknown,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    if (!this.#isForeign) return requestWith(this.#limiter, permitCount, options, sink);
    return requestOfForeign(options, (how) => requestWith(this.#limiter, permitCount, how, sink));
  }

  close(): void {
    if (this.#isOwn) this.#limiter.dispose();
  }
}

class PartitionedDoor<Resource> implements Door {
  readonly capacity: number = Number.POSITIVE_INFINITY;
  readonly #limiter: PartitionedRateLimiter<Resource>;
  readonly #isOwn: boolean;
  readonly #isForeign: boolean;

  constructor(limiter: PartitionedRateLimiter<Resource>, isOwn: boolean) {
    this.#limiter = limiter;
    this.#isOwn = isOwn;
    this.#isForeign = insideOf(limiter) === undefined;
  }

  get clock(): Clock | undefined {
    return insideOf(this.#limiter)?.clock;
  }

  get tellsKeys(): boolean {
    return tellsKeys(this.#limiter);
  }

  request(
    resource: Resource,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    const limiter = this.#limiter;
    if (!this.#isForeign) return requestForWith(limiter, resource, permitCount, options, sink);
    return requestOfForeign(options, (how) => requestForWith(limiter, resource, permitCount, how, sink));
  }

  keyOf(resource: Resource): unknown {
    return insideOf(this.#limiter)?.keyOf(resource);
  }

  close(): void {
    if (this.#isOwn) this.#limiter.dispose();
  }
}

function tellsKeys<Resource>(limiter: PartitionedRateLimiter<Resource>): boolean {
  return insideOf(limiter)?.tellsKeys === true;
}

const A_LIMITER = "a RateLimiter, or a function that makes one";

/** The doors to a limiter, or to those that a function makes. */
export function limiterDoors(source: LimiterSource, allowed: string = A_LIMITER): OpenDoor {
  if (source instanceof RateLimiter) {
    const door = new LimiterDoor(source, false);
    return () => door;
  }
  if (typeof source === "function") {
    return () => {
      const limiter: unknown = source();
      if (!(limiter instanceof RateLimiter)) throw wrongType("limiter()", "a RateLimiter", limiter);
      return new LimiterDoor(limiter, true);
    };
  }
  const isPartitioned = (source as unknown) instanceof PartitionedRateLimiter;
  throw wrongType("limiter", isPartitioned ? `${allowed} (use its forResource(resource))` : allowed, source);
}

/**
 * The same, and a number counts for itself. Where a limiter's queue has something to do (rank values, watch their time), a
 * number is a limiter, whose queue is bounded by the operator's own buffer alone.
 */
export function countingDoors<T, R>(source: number | LimiterSource, rules: Rules<T, R>): OpenDoor {
  if (typeof source !== "number") return limiterDoors(source, `a number, ${A_LIMITER}`);
  if (!(source >= 1) || (!Number.isInteger(source) && source !== Number.POSITIVE_INFINITY)) {
    throw new RangeError(`limiter must be an integer of at least 1, or Infinity; got ${source}.`);
  }
  if (!rules.needsQueue) return () => new CountingDoor(source);
  const options = {
    permitLimit: Math.min(source, Number.MAX_SAFE_INTEGER),
    queueLimit: Number.MAX_SAFE_INTEGER,
    queueProcessingOrder: "highestPriorityFirst",
    clock: rules.clockOf(undefined),
  } as const;
  return () => new LimiterDoor(new ConcurrencyLimiter(options), true);
}

const LANE_NEEDED =
  "options.lane must be given, or false, for a limiter that cannot tell the keys of its partitions.";

/** The doors to a partitioned limiter, which has to tell its keys if nothing else makes lanes. */
export function partitionedDoors<Resource>(
  source: PartitionedLimiterSource<Resource>,
  needsKeys: boolean,
): OpenDoor {
  if (source instanceof PartitionedRateLimiter) {
    if (needsKeys && !tellsKeys(source)) throw new TypeError(LANE_NEEDED);
    const door = new PartitionedDoor(source, false);
    return () => door as Door;
  }
  if (typeof source !== "function") {
    throw wrongType("limiter", "a PartitionedRateLimiter, or a function that makes one", source);
  }
  return () => {
    const limiter: unknown = source();
    if (!(limiter instanceof PartitionedRateLimiter)) {
      throw wrongType("limiter()", "a PartitionedRateLimiter", limiter);
    }
    const door = new PartitionedDoor<Resource>(limiter, true);
    if (needsKeys && !door.tellsKeys) {
      limiter.dispose();
      throw new TypeError(LANE_NEEDED);
    }
    return door as Door;
  };
}
