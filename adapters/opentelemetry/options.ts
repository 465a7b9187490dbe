import type { Attributes, Meter, Tracer } from "@opentelemetry/api";
import type { PartitionedRateLimiter, RateLimiter, RateLimiterStatistics } from "headgate";

/**
 * What can be instrumented: limiters, partitioned limiters, and anything else that tells statistics or describes itself as a
 * `CodelFilter` does. The limiters of a shield are those that were given to it; instrument them.
 *
 * @public
 */
export type Instrumentable =
  | RateLimiter
  | PartitionedRateLimiter<never>
  | { getStatistics(): RateLimiterStatistics | undefined }
  | { describe(): { readonly droppedCount: number; readonly isDropping: boolean } };

/**
 * Options of `instrumentRateLimiter`.
 *
 * @public
 */
export interface InstrumentOptions {
  /**
   * The name of the limiter, the attribute `headgate.limiter.name`: 1 to 64 characters. Limiters of the same name are added
   * up. It should be one of a few: at most 256 are told apart, those that have ended not counted.
   */
  readonly name: string;
  /**
   * Where the instruments are made; the meter `headgate` of the global provider by default. One that does nothing, as those
   * do that were fetched before an SDK was registered, counts as none.
   */
  readonly meter?: Meter | undefined;
  /** Attributes of all series of this limiter; at most 8, which never change. */
  readonly attributes?: Attributes | undefined;
  /** Series for some partitions of a partitioned limiter; none by default, since keys are often names of people. */
  readonly partitions?: PartitionSeriesOptions | undefined;
  /**
   * Counts in front of the limiter what it does not count itself: waits and their time, what became of leases, time at the
   * limit, and why a chain or a limiter of your own refused. For that the handle's `limiter` has to be used in place of yours, and each request costs a
   * little more. `false` by default.
   */
  readonly wrap?: boolean | undefined;
  /** Spans for requests that really waited; none by default. Needs `wrap`. */
  readonly tracing?: boolean | TracingOptions | undefined;
}

/**
 * Which partitions have series of their own.
 *
 * @public
 */
export interface PartitionSeriesOptions {
  /**
   * Which keys are told apart, or what a key is called: a plan or a region, say, rather than a customer. Undefined is for
   * keys that are added up as `_other`. Called once for each partition while it is there; throwing is undefined too. Listed
   * names are compared with keys as text.
   */
  readonly keys: readonly string[] | ((key: unknown) => string | undefined);
  /** At most so many are told apart, those that come first; 50 by default, 500 at most. */
  readonly max?: number | undefined;
}

/**
 * How waits become spans.
 *
 * @public
 */
export interface TracingOptions {
  /** Who makes them; the tracer `headgate` of the global provider by default. */
  readonly tracer?: Tracer | undefined;
  /** How long a wait has to be to become one, in milliseconds; 1 by default. */
  readonly minWaitMs?: number | undefined;
}

/**
 * What `instrumentRateLimiter` returns.
 *
 * @public
 */
export interface LimiterInstrumentation<Limiter> extends Disposable {
  /** The limiter, or with `wrap` what stands before it and is to be used in its place. */
  readonly limiter: Limiter;
  /** Whether there is a meter that does something. Until an SDK is registered there is none. */
  readonly isAttached: boolean;
  /**
   * Attaches it to a meter; to be called when an SDK has been registered late, or in place of another. Without a meter it
   * is that of the global provider.
   *
   * @returns Whether it is attached.
   */
  attach(meter?: Meter): boolean;
  /** Ends it. At the next collection all that can go down is told to be 0, once. */
  dispose(): void;
}
