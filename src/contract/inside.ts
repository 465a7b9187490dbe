import type { AcquireOptions } from "./acquire-options.js";
import type { Clock } from "./clock.js";
import type { RateLimitLease } from "./rate-limit-lease.js";
import type { RateLimiter } from "./rate-limiter.js";
import type { RejectionReason } from "./rejection-reason.js";

/** Leads to what the library's own limiters tell one another, and the adapters. */
export const inside: unique symbol = Symbol.for("headgate.inside.v1") as never;

/** Who is told of the end of a wait, in the very turn in which it comes. Exactly one of the two is called, once. */
export interface AcquireSink {
  /** The answer: a lease, acquired or not. */
  settled(lease: RateLimitLease): void;
  /** There is none: the caller's own signal was aborted, or the limiter failed. */
  failed(error: unknown): void;
}

/** Somebody's place in a queue. */
export interface AcquireTicket {
  /** Gives the place up; true when the sink will not be told any more. */
  cancel(): boolean;
}

/** What a limiter looks like; filled in place, so that looking allocates nothing. */
export interface LimiterSnapshot {
  /** The kind of limiter, such as `ConcurrencyLimiter`. */
  kind: string;
  permitLimit: number;
  /** Permits that can be taken now; below 0 for a debt. */
  available: number;
  queueLimit: number;
  queuedPermits: number;
  queuedRequests: number;
  /** Totals of requests: granted, refused, and given up by their callers while they waited. */
  granted: number;
  refused: number;
  aborted: number;
  isPaused: boolean;
  isDisposed: boolean;
}

export interface Inside {
  /** The clock that the limiter lives by. */
  readonly clock: Clock | undefined;
  /** Whether it orders its queue by priority, which then has to be a proper one. */
  readonly usesPriority: boolean;
  /** Whether a request of this size that cannot be granted now would wait, rather than be refused. */
  hasRoom(permitCount: number): boolean;
  /**
   * Answers as `acquireCore` does, without a promise: a lease when the answer is known, else a ticket, and the sink is told.
   * The sink is other people's code, so it is told only when every queue's state is final.
   */
  acquireWith(
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket;
  /** Fills in what the limiter looks like; false for one that has no queue of its own. Works on disposed limiters too. */
  snapshot(into: LimiterSnapshot): boolean;
  /**
   * Tells of all that was refused, those refused by dispose included, by reason; a reason may come more than once. Left out by
   * what keeps no counts of its own.
   */
  forEachRefusal?(visit: (reason: RejectionReason, count: number) => void): void;
  /** Permits that are waited for by priority, the highest first. */
  queuedByPriority(): Map<number, number>;
}

/** A limiter, maybe one of the library's own; limiters that users wrote have no inside. */
export interface InsideLimiter extends RateLimiter {
  readonly [inside]?: Inside | undefined;
}

/** Whether an answer is a lease, and not something that stands for one to come. */
export function isLease(
  answer: RateLimitLease | AcquireTicket | PromiseLike<RateLimitLease>,
): answer is RateLimitLease {
  return "isAcquired" in answer;
}

/** Has a sink told of what a promise brings. Nobody can be told that it is not wanted any more, so that is given back then. */
export function ticketFor(promise: PromiseLike<RateLimitLease>, sink: AcquireSink): AcquireTicket {
  let isWanted = true;
  /** Ends it, the first time: the sink is told, or it never is. */
  const end = () => {
    const wasWanted = isWanted;
    isWanted = false;
    return wasWanted;
  };
  promise.then(
    (lease) => {
      if (end()) sink.settled(lease);
      else lease.refund();
    },
    (error: unknown) => {
      if (end()) sink.failed(error);
    },
  );
  return { cancel: end };
}
