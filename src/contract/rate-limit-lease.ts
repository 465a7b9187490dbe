/// <reference lib="esnext.disposable" preserve="true" />
import { RateLimitRejectedError } from "./errors.js";
import { MetadataName } from "./metadata-name.js";
import type { LeaseOutcome } from "./outcome.js";
import type { RejectionReason } from "./rejection-reason.js";

/**
 * A limiter's answer: whether the work may go ahead and, if so, what it holds until it is disposed.
 *
 * A lease is never an error. `isAcquired` says yes or no; a refused lease tells `reason` and, where the limiter
 * knows, `retryAfterMs`. Dispose every lease, best by `using`: a lease of a concurrency limiter holds its permits
 * until then, and an adaptive limiter learns from it. Disposing twice, or disposing a refused lease, does nothing.
 *
 * Models .NET's `RateLimitLease`; `reason`, `orThrow`, `report`, `adjust` and `refund` are additions.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 *
 * const limiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 100 });
 *
 * async function load(id: string): Promise<Response> {
 *   using lease = await limiter.acquire();
 *   if (!lease.isAcquired) return new Response(lease.reason, { status: 503 });
 *   return await fetch(`https://vendor.example/${id}`);
 * }
 * ```
 *
 * To write a lease of your own, implement `isAcquired`, `metadataNames`, `tryGetMetadataCore` and `dispose`.
 *
 * @public
 */
export abstract class RateLimitLease implements Disposable {
  /** Whether the permits were granted. Stays as it is when the lease is disposed. */
  abstract get isAcquired(): boolean;

  /** The raw names of all metadata that leases of this kind may carry, whether or not this one has a value. */
  abstract get metadataNames(): Iterable<string>;

  /**
   * Gives back what the lease holds. Only the first call does anything.
   *
   * Runs synchronously: when it returns, whoever waited for these permits has them.
   */
  abstract dispose(): void;

  /** Looks up one piece of metadata by raw name; undefined when the lease has no value for it. */
  protected abstract tryGetMetadataCore(name: string): unknown;

  /**
   * Looks up one piece of metadata.
   *
   * @returns The value, or undefined when the lease has none.
   */
  tryGetMetadata<T>(name: MetadataName<T>): T | undefined;
  /** Looks up one piece of metadata by its raw name. */
  tryGetMetadata(name: string): unknown;
  tryGetMetadata(name: string | MetadataName<unknown>): unknown {
    return this.tryGetMetadataCore(String(name));
  }

  /** All metadata that have a value, as pairs of raw name and value. */
  *getAllMetadata(): Generator<readonly [string, unknown], void, undefined> {
    for (const name of this.metadataNames) {
      const value = this.tryGetMetadataCore(name);
      if (value !== undefined) yield [name, value];
    }
  }

  /** Milliseconds to wait before trying again; undefined on a granted lease, and when the limiter cannot tell. */
  get retryAfterMs(): number | undefined {
    return this.tryGetMetadata(MetadataName.retryAfter);
  }

  /** Why the lease was refused; undefined on a granted lease, and when the limiter does not say. */
  get reason(): RejectionReason | undefined {
    return this.tryGetMetadata(MetadataName.rejectionReason);
  }

  /**
   * Turns a refusal into an error, for code that has nothing else to do with it.
   *
   * @example
   * ```ts
   * import { ConcurrencyLimiter } from "headgate";
   *
   * const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
   * using lease = (await limiter.acquire()).orThrow();
   * ```
   *
   * @returns This lease, when it was granted.
   * @throws {@link RateLimitRejectedError} when it was refused; the refused lease is disposed first.
   */
  orThrow(): this {
    if (this.isAcquired) return this;
    const { reason, retryAfterMs } = this;
    const metadata = new Map(this.getAllMetadata());
    this.dispose();
    throw new RateLimitRejectedError({ reason, retryAfterMs, metadata });
  }

  /**
   * Says how the work went. The first call counts, and it marks the end of the work; the limiter learns of it when
   * the lease is disposed. Without a report the outcome is `ignored`; after dispose this does nothing. Limiters
   * that do not learn take no notice.
   */
  report(outcome: LeaseOutcome): void {
    void outcome;
  }

  /**
   * Corrects the number of permits to what the work really cost, for costs that are known only afterwards. Fewer
   * than were acquired: the difference goes back, as far as it still counts. More: the difference is taken, into
   * debt if need be, and nobody is granted anything until that is paid. On a concurrency lease it changes how many
   * permits are held. Does nothing on refused leases, after dispose, and on leases that hold nothing.
   *
   * @param actualPermits - The real cost in permits: an integer of at least 0.
   * @throws TypeError or RangeError when that is not such a number.
   */
  adjust(actualPermits: number): void {
    void actualPermits;
  }

  /**
   * Undoes the acquisition, as far as it can be undone: `adjust(0)`, then `dispose()`. For limiters that learn, the work was not
   * done, whatever has been reported: it counts as `ignored`.
   */
  refund(): void {
    try {
      this.adjust(0);
    } finally {
      this.dispose();
    }
  }

  /** The same as `dispose()`, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}
