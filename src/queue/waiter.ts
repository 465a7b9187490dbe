import type { AcquireSink } from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { captureContext } from "./async-context.js";
import { deliverLater } from "./delivery.js";
import type { SignalWatch } from "./signal-watch.js";

/**
 * One request in a queue: it knows its places in the queue's list, in its signal's list and in the deadline heap,
 * so that it can leave all three without a search.
 */
export abstract class Waiter {
  readonly permits: number;
  readonly priority: number;
  /** Where it is in the queue's list. */
  place = 0;
  watch: SignalWatch | undefined = undefined;
  nextOnSignal: Waiter | undefined = undefined;
  previousOnSignal: Waiter | undefined = undefined;
  /** When it gives up, by the limiter's clock; looked at only while `deadlinePlace` is not -1. */
  deadline = 0;
  deadlinePlace = -1;
  /** A number that grows: who of any two, in whatever queue, came first. */
  arrival = 0;

  constructor(permits: number, priority: number) {
    this.permits = permits;
    this.priority = priority;
  }

  /** Ends the wait with an answer. Called once, when everything about the waiter and the limiter is final. */
  abstract settle(lease: RateLimitLease): void;

  /** Ends the wait because the caller's signal was aborted. */
  abstract abort(reason: unknown): void;
}

// The executor of `new Promise` runs at once, so one function can serve all waiters instead of a closure for each.
let resolveCaptured: (lease: RateLimitLease) => void;
let rejectCaptured: (reason: unknown) => void;
function capture(resolve: (lease: RateLimitLease) => void, reject: (reason: unknown) => void): void {
  resolveCaptured = resolve;
  rejectCaptured = reject;
}

/** A waiter behind a promise. Its caller goes on in a microtask, in its own async context. */
export class PromiseWaiter extends Waiter {
  readonly promise: Promise<RateLimitLease>;
  readonly #resolve: (lease: RateLimitLease) => void;
  readonly #reject: (reason: unknown) => void;

  constructor(permits: number, priority: number) {
    super(permits, priority);
    this.promise = new Promise<RateLimitLease>(capture);
    this.#resolve = resolveCaptured;
    this.#reject = rejectCaptured;
  }

  override settle(lease: RateLimitLease): void {
    this.#resolve(lease);
  }

  override abort(reason: unknown): void {
    this.#reject(reason);
  }
}

/** A waiter behind a sink. Its caller goes on in the same turn, once every queue's state is final, and in its own async
 * context. */
export class SinkWaiter extends Waiter {
  readonly #sink: AcquireSink;
  readonly #runInContext = captureContext();
  isWaiting = true;

  constructor(permits: number, priority: number, sink: AcquireSink) {
    super(permits, priority);
    this.#sink = sink;
  }

  override settle(lease: RateLimitLease): void {
    this.isWaiting = false;
    deliverLater(() => this.#runInContext(() => this.#sink.settled(lease)));
  }

  override abort(reason: unknown): void {
    this.isWaiting = false;
    deliverLater(() => this.#runInContext(() => this.#sink.failed(reason)));
  }
}
