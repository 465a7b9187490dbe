import type { ObservableInput, ObservedValueOf, OperatorFunction } from "rxjs";
import { checkFunction } from "../../src/internal.js";
import { countingDoors, partitionedDoors } from "./doors.js";
import { ProjectedAdmissions } from "./inner-admissions.js";
import { operate } from "./operate.js";
import type {
  LimitConcurrencyByOptions,
  LimitConcurrencyOptions,
  LimiterSource,
  PartitionedLimiterSource,
  Project,
} from "./options.js";
import { LIMIT_CONCURRENCY_BY_OPTIONS, LIMIT_CONCURRENCY_OPTIONS, Rules } from "./rules.js";

/**
 * Works on each value with a lease of a limiter, as `mergeMap(project, n)` does with a count of its own.
 *
 * The lease is acquired before `project` is called, and given back, synchronously and once, when the inner Observable
 * completes, fails or is unsubscribed from: after its own teardowns, and before anybody is told. So the permit is free when
 * the next stream of a `concat` asks for it. Values wait in a bounded buffer, in order.
 *
 * With a number the operator counts for itself, and emits what `mergeMap(project, n)` emits; but it takes a million
 * buffered values whose work ends at once without a deeper stack, and its buffer is bounded. With a limiter everybody who
 * uses that limiter shares its permits: other streams, HTTP handlers, jobs.
 *
 * How the work went is reported for adaptive limiters: completed work is a `success`, errors are sorted as by `withLease`,
 * unsubscribed work is `ignored`. What `project` reports on the lease itself comes first. A promise cannot be cancelled: when
 * the stream is unsubscribed, its lease goes back at once, although the work may still be running.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { limitConcurrency } from "headgate/rxjs";
 * import { from } from "rxjs";
 *
 * const vendor = new ConcurrencyLimiter({ permitLimit: 5, queueLimit: 100 });
 * const load = async (id: string): Promise<string> => (await fetch(`https://vendor.example/${id}`)).text();
 * from(["a", "b", "c"]).pipe(limitConcurrency(vendor, load));
 * from(["a", "b", "c"]).pipe(limitConcurrency(2, load)); // a limit of its own
 * ```
 *
 * @param limiter - A limiter, a function that makes one for each subscription, or how many may be worked on at a time.
 * @param project - Makes the work for a value.
 * @param options - Where values wait, what becomes of refused ones, and how to ask.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function limitConcurrency<T, O extends ObservableInput<unknown>>(
  limiter: number | LimiterSource,
  project: Project<T, O>,
  options?: LimitConcurrencyOptions<T, ObservedValueOf<O>>,
): OperatorFunction<T, ObservedValueOf<O>>;
/**
 * The same for a stream of streams, as `mergeAll(n)` does it.
 *
 * @public
 */
export function limitConcurrency<O extends ObservableInput<unknown>>(
  limiter: number | LimiterSource,
  options?: LimitConcurrencyOptions<O, ObservedValueOf<O>>,
): OperatorFunction<O, ObservedValueOf<O>>;
export function limitConcurrency<T, R>(
  limiter: number | LimiterSource,
  projectOrOptions: Project<T, ObservableInput<R>> | LimitConcurrencyOptions<T, R> = {},
  more: LimitConcurrencyOptions<T, R> = {},
): OperatorFunction<T, R> {
  const hasProject = typeof projectOrOptions === "function";
  const project = hasProject ? projectOrOptions : (value: T) => value as ObservableInput<R>;
  const rules = new Rules<T, R>(hasProject ? more : projectOrOptions, LIMIT_CONCURRENCY_OPTIONS);
  const open = countingDoors(limiter, rules);
  return operate(
    rules,
    open,
    (destination, door) => new ProjectedAdmissions(destination, rules, door, project),
  );
}

/**
 * The same with a limiter for each tenant, client or whatever else values have in common. Values wait for those of their own
 * partition only, so that one slow tenant does not hold up the others; room in the buffer, errors and completion are
 * those of the whole stream.
 *
 * @example
 * ```ts
 * import { PartitionedRateLimiter, RateLimitPartition } from "headgate";
 * import { limitConcurrencyBy } from "headgate/rxjs";
 * import { of } from "rxjs";
 *
 * const perTenant = PartitionedRateLimiter.create((tenant: string) =>
 *   RateLimitPartition.getConcurrencyLimiter(tenant, () => ({ permitLimit: 2, queueLimit: 50 })),
 * );
 * of({ tenant: "acme", body: "1" }, { tenant: "zeta", body: "2" }).pipe(
 *   limitConcurrencyBy(perTenant, ({ tenant }) => tenant, async ({ body }) => body.length),
 * );
 * ```
 *
 * @param limiter - A partitioned limiter, or a function that makes one for each subscription.
 * @param resource - What the limiter is asked about; called once for each value.
 * @param project - Makes the work for a value.
 * @param options - As for `limitConcurrency`, and `lane`.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function limitConcurrencyBy<T, Resource, O extends ObservableInput<unknown>>(
  limiter: PartitionedLimiterSource<Resource>,
  resource: (value: T, index: number) => Resource,
  project: Project<T, O>,
  options: LimitConcurrencyByOptions<T, ObservedValueOf<O>> = {},
): OperatorFunction<T, ObservedValueOf<O>> {
  checkFunction("resource", resource);
  checkFunction("project", project);
  const rules = new Rules<T, ObservedValueOf<O>>(options, LIMIT_CONCURRENCY_BY_OPTIONS);
  const open = partitionedDoors(limiter, rules.needsKeys);
  const work = project as unknown as Project<T, ObservableInput<ObservedValueOf<O>>>;
  return operate(rules, open, (to, door) => new ProjectedAdmissions(to, rules, door, work, resource));
}
