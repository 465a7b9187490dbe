import type { AcquireOptions } from "../contract/acquire-options.js";
import type { Clock } from "../contract/clock.js";
import type { AcquireSink, AcquireTicket } from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";

/** Leads to what the library's own partitioned limiters tell one another. */
export const insidePartitions: unique symbol = Symbol("headgate.partitions");

export interface InsidePartitions<Resource> {
  /** The clock that its limiters live by, where that is known. */
  readonly clock: Clock | undefined;
  /** Whether `keyOf` can tell: a chain cannot, since each of its limiters has keys of its own. */
  readonly tellsKeys: boolean;
  /** The key of the partition that a resource belongs to. Makes no partition. */
  keyOf(resource: Resource): unknown;
  /** Whether the resource's limiter orders its queue by priority. Makes the partition if need be. */
  usesPriority(resource: Resource): boolean;
  /** As `Inside.acquireWith`, for a resource. The caller has checked that the signal is not aborted. */
  acquireWith(
    resource: Resource,
    permitCount: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket;
}
