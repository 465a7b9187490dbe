import type { LeaseOutcome, RateLimitLease } from "headgate";
import { from, type ObservableInput, Subscriber } from "rxjs";
import { outcomeOfError, outcomeOfValue } from "../../src/internal.js";
import { Admissions } from "./admissions.js";
import type { Door } from "./doors.js";
import type { Project } from "./options.js";
import type { Rules } from "./rules.js";

/** Who is told by the work for a value. */
interface InnerOwner<R> {
  innerNext(value: R): void;
  innerError(inner: Inner<R>, error: unknown): void;
  innerComplete(inner: Inner<R>): void;
}

/**
 * The work for one value, and its lease. A subscriber of its own kind, rather than an observer, so that a source which emits
 * in a loop sees at once that nobody listens any more. The only place that builds on how RxJS 7 makes subscribers.
 */
class Inner<R> extends Subscriber<R> {
  readonly owner: InnerOwner<R>;
  lease: RateLimitLease | undefined;
  readonly permitCount: number;
  readonly laneKey: unknown;
  outcome: LeaseOutcome = "success";
  previous: Inner<R> | undefined = undefined;
  following: Inner<R> | undefined = undefined;

  constructor(
    owner: InnerOwner<R>,
    lease: RateLimitLease | undefined,
    permitCount: number,
    laneKey: unknown,
  ) {
    super();
    this.owner = owner;
    this.lease = lease;
    this.permitCount = permitCount;
    this.laneKey = laneKey;
  }

  protected override _next(value: R): void {
    if (typeof value === "object") this.outcome = outcomeOfValue(value);
    this.owner.innerNext(value);
  }

  protected override _error(error: unknown): void {
    this.owner.innerError(this, error);
  }

  protected override _complete(): void {
    this.owner.innerComplete(this);
  }
}

/** What is subscribed to for values: the work of those that go ahead, and what stands in for refused ones. */
abstract class InnerAdmissions<T, R> extends Admissions<T, R> implements InnerOwner<R> {
  #first: Inner<R> | undefined = undefined;

  innerNext(value: R): void {
    this.destination.next(value);
  }

  innerError(inner: Inner<R>, error: unknown): void {
    try {
      this.#release(inner, outcomeOfError(error, this.rules.signal));
    } finally {
      this.fail(error);
    }
  }

  innerComplete(inner: Inner<R>): void {
    try {
      this.#release(inner, inner.outcome);
    } catch (error) {
      this.fail(error);
      return;
    }
    this.resume(inner.laneKey);
  }

  protected override replace(input: ObservableInput<R>): void {
    this.subscribe(this.hold(undefined, 0, undefined), () => input);
  }

  protected override closeActive(attempt: (action: () => void) => void): void {
    for (let inner = this.#first; inner !== undefined; inner = this.#first) {
      const ended = inner;
      attempt(() => this.#release(ended, "ignored"));
    }
  }

  /** Subscribes to what is made, unless that has ended the stream. */
  protected subscribe(inner: Inner<R>, make: () => ObservableInput<R>): void {
    try {
      const input = make();
      const observable = from(input);
      if (!inner.closed) observable.subscribe(inner);
      // Making it has ended the stream, so nobody hears of how it goes on.
      else if (input instanceof Promise) input.catch(() => {});
    } catch (error) {
      // When the stream has ended meanwhile there is nobody to tell.
      if (!inner.closed) this.innerError(inner, error);
    }
  }

  /** Counts a piece of work that holds a lease; it ends when the stream does, whatever happens. */
  protected hold(lease: RateLimitLease | undefined, permitCount: number, laneKey: unknown): Inner<R> {
    const inner = new Inner<R>(this, lease, permitCount, laneKey);
    const next = this.#first;
    inner.following = next;
    if (next !== undefined) next.previous = inner;
    this.#first = inner;
    this.begin(permitCount);
    return inner;
  }

  /** Ends work in this order: its own teardowns, the report, the lease. Whoever is told of the end is told later. */
  #release(inner: Inner<R>, outcome: LeaseOutcome): void {
    const { lease, previous, following } = inner;
    inner.lease = undefined;
    if (previous === undefined) this.#first = following;
    else previous.following = following;
    if (following !== undefined) following.previous = previous;
    try {
      inner.unsubscribe();
    } finally {
      this.end(inner.permitCount);
      if (lease !== undefined) giveBack(lease, outcome);
    }
  }
}

function giveBack(lease: RateLimitLease, outcome: LeaseOutcome): void {
  try {
    lease.report(outcome);
  } finally {
    lease.dispose();
  }
}

/** Work for each value, which holds the lease until it ends. */
export class ProjectedAdmissions<T, R> extends InnerAdmissions<T, R> {
  readonly #project: Project<T, ObservableInput<R>>;

  constructor(
    destination: Subscriber<R>,
    rules: Rules<T, R>,
    door: Door,
    project: Project<T, ObservableInput<R>>,
    resourceOf?: (value: T, index: number) => unknown,
  ) {
    super(destination, rules, door, resourceOf);
    this.#project = project;
  }

  protected override go(
    value: T,
    index: number,
    lease: RateLimitLease,
    permitCount: number,
    laneKey: unknown,
  ): void {
    const inner = this.hold(lease, permitCount, laneKey);
    this.subscribe(inner, () => this.#project(value, index, lease));
  }
}

/** Hands values on, each while it holds its lease. */
export class PacedAdmissions<T> extends InnerAdmissions<T, T> {
  protected override go(value: T, _index: number, lease: RateLimitLease): void {
    try {
      this.destination.next(value);
    } finally {
      lease.dispose();
    }
  }
}
