import type { RateLimitLease } from "headgate";
import { Observable, type ObservableInput, type ObservedValueOf, Subscription } from "rxjs";
import { checkBoolean, checkFunction, checkOptionNames } from "../../src/internal.js";
import { countingDoors } from "./doors.js";
import { ProjectedAdmissions } from "./inner-admissions.js";
import { admit } from "./operate.js";
import type { LimitedFromOptions, LimiterSource, Project } from "./options.js";
import { LIMITED_FROM_OPTIONS, Rules } from "./rules.js";
import { openSource, type PullSource, type Reader } from "./sources.js";

/**
 * Reads a source that can wait, such as an async generator or a `ReadableStream`, only as fast as a limiter lets its
 * values through, and works on each with a lease.
 *
 * `from(source).pipe(mergeMap(project, n))` reads everything there is at once, since RxJS cannot ask a source to wait. This
 * asks for a value only when the one before has its lease, so that no more than one is held without. Unsubscribing tells
 * the source at once, even while it is making a value: `return()` of an iterator, `cancel()` of a stream.
 *
 * @example
 * ```ts
 * import { limitedFrom } from "headgate/rxjs";
 *
 * async function* pages(): AsyncGenerator<string> {
 *   for (let page = 1; page <= 10; page++) yield `https://vendor.example/items?page=${page}`;
 * }
 * const texts = limitedFrom(pages(), 2, async (url) => (await fetch(url)).text());
 * ```
 *
 * @param source - An iterable, an async iterable or a `ReadableStream`; asked for its iterator or reader at each
 * subscription.
 * @param limiter - A limiter, a function that makes one for each subscription, or how many may be worked on at a time.
 * @param project - Makes the work for a value.
 * @param options - As for `limitConcurrency`, without a buffer, and `acquireFirst`.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function limitedFrom<T, O extends ObservableInput<unknown>>(
  source: Iterable<T> | AsyncIterable<T> | ReadableStream<T>,
  limiter: number | LimiterSource,
  project: Project<T, O>,
  options: LimitedFromOptions<T, ObservedValueOf<O>> = {},
): Observable<ObservedValueOf<O>> {
  const open = openSource(source);
  checkFunction("project", project);
  checkOptionNames(options, LIMITED_FROM_OPTIONS);
  const { acquireFirst = false, ...rest } = options;
  checkBoolean("options.acquireFirst", acquireFirst);
  // One waits, and no other is asked for meanwhile.
  const rules = new Rules<T, ObservedValueOf<O>>(rest, LIMITED_FROM_OPTIONS, { size: 1 });
  if (acquireFirst) rules.checkValueless();
  const openDoor = countingDoors(limiter, rules);
  const work = project as unknown as Project<T, ObservableInput<ObservedValueOf<O>>>;
  const Admissions = acquireFirst ? LeaseFirstAdmissions : PullingAdmissions;
  return new Observable((destination) => {
    admit(destination, rules, openDoor, (to, door) => new Admissions(to, rules, door, work))?.read(open);
  });
}

/** Fetches a value when none waits, and asks for its lease then. */
class PullingAdmissions<T, R> extends ProjectedAdmissions<T, R> implements Reader<T> {
  #source: PullSource<T> | undefined;
  #isFetching = false;

  /** Begins to read. */
  read(open: () => PullSource<T>): void {
    if (this.isClosed) return;
    try {
      const source = open();
      this.#source = source;
      this.setSource(new Subscription(() => source.cancel()));
    } catch (error) {
      this.fail(error);
      return;
    }
    this.proceed(() => {});
  }

  protected override pull(): boolean {
    if (this.#isFetching) return false;
    this.fetch();
    return !this.#isFetching;
  }

  protected fetch(): void {
    this.#isFetching = true;
    this.#source?.next(this);
  }

  fetched(value: T): void {
    this.#isFetching = false;
    this.proceed(() => this.take(value));
  }

  ended(): void {
    this.#isFetching = false;
    this.sourceDone();
  }

  broke(error: unknown): void {
    this.#isFetching = false;
    this.fail(error);
  }

  protected take(value: T): void {
    this.admit(value);
  }
}

/** A lease whose value is being fetched. */
interface Held {
  readonly lease: RateLimitLease;
  readonly index: number;
  readonly permitCount: number;
}

/** Asks for a lease when none waits, and fetches the value for it then. */
class LeaseFirstAdmissions<T, R> extends PullingAdmissions<T, R> {
  #held: Held | undefined;

  protected override pull(): boolean {
    if (this.#held !== undefined) return false;
    // Stands for the value that will be fetched when there is a lease for it.
    this.admit(undefined as T);
    return true;
  }

  protected override go(_value: T, index: number, lease: RateLimitLease, permitCount: number): void {
    this.#held = { lease, index, permitCount };
    this.fetch();
  }

  protected override take(value: T): void {
    const held = this.#held as Held;
    this.#held = undefined;
    super.go(value, held.index, held.lease, held.permitCount, undefined);
  }

  override ended(): void {
    this.#giveUp();
    super.ended();
  }

  protected override closeActive(attempt: (action: () => void) => void): void {
    attempt(() => this.#giveUp());
    super.closeActive(attempt);
  }

  #giveUp(): void {
    const held = this.#held;
    this.#held = undefined;
    held?.lease.refund();
  }
}
