import { type AcquireOptions, type Clock, RateLimiter, type RateLimitLease } from "headgate";
import {
  type AcquireSink,
  type AcquireTicket,
  type Inside,
  type InsideLimiter,
  inside,
  isLease,
  type LimiterSnapshot,
  promiseOf,
  request,
} from "../../src/internal.js";
import { callerStack } from "./caller-stack.js";
import type { LeaseLedger } from "./lease-ledger.js";
import { TrackedLease } from "./tracked-lease.js";

const { acquire, attemptAcquire } = RateLimiter.prototype;

/** Asks a limiter, and writes down each lease that it grants, in the very turn of the grant where the limiter tells. */
export class LeaseTracking {
  readonly limiter: InsideLimiter;
  readonly ledger: LeaseLedger;
  /** The limiter's own inside, with the leases written down; undefined when it has none. */
  readonly inside: Inside | undefined;

  constructor(limiter: RateLimiter, ledger: LeaseLedger) {
    this.limiter = limiter;
    this.ledger = ledger;
    const door = this.limiter[inside];
    this.inside = door === undefined ? undefined : new TrackedInside(door, this);
  }

  attempt(permitCount: number): RateLimitLease {
    return this.track(this.limiter.attemptAcquire(permitCount), permitCount, callerStack(attemptAcquire));
  }

  acquire(permitCount: number, options: AcquireOptions): RateLimitLease | Promise<RateLimitLease> {
    const door = this.inside;
    if (door !== undefined) return promiseOf((sink) => door.acquireWith(permitCount, options, sink));
    const stack = callerStack(acquire);
    const answer = request(this.limiter, permitCount, options);
    return isLease(answer)
      ? this.track(answer, permitCount, stack)
      : answer.then((lease) => this.track(lease, permitCount, stack));
  }

  /** Writes a lease down if it was granted; a refused one is passed on as it is. */
  track(lease: RateLimitLease, permitCount: number, stack: string): RateLimitLease {
    if (!lease.isAcquired) return lease;
    return new TrackedLease(lease, this.ledger, this.ledger.open(permitCount, stack));
  }

  /** Disposes the limiter, then throws when a lease is out. */
  dispose(): void {
    this.limiter.dispose();
    this.ledger.assertNoneHeld();
  }
}

/** Another limiter's inside, with the leases written down. */
class TrackedInside implements Inside {
  readonly #door: Inside;
  readonly #tracking: LeaseTracking;

  constructor(door: Inside, tracking: LeaseTracking) {
    this.#door = door;
    this.#tracking = tracking;
  }

  get clock(): Clock | undefined {
    return this.#door.clock;
  }

  get usesPriority(): boolean {
    return this.#door.usesPriority;
  }

  hasRoom(permitCount: number): boolean {
    return this.#door.hasRoom(permitCount);
  }

  acquireWith(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    const stack = callerStack(acquire);
    const track = (lease: RateLimitLease) => this.#tracking.track(lease, permitCount, stack);
    const answer = this.#door.acquireWith(permitCount, options, {
      settled: (lease) => sink.settled(track(lease)),
      failed: (error) => sink.failed(error),
    });
    return isLease(answer) ? track(answer) : answer;
  }

  snapshot(into: LimiterSnapshot): boolean {
    return this.#door.snapshot(into);
  }

  queuedByPriority(): Map<number, number> {
    return this.#door.queuedByPriority();
  }
}
