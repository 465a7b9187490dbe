import {
  type AcquireOptions,
  type LeaseOutcome,
  MetadataName,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  RateLimitLease,
} from "headgate";
import type { CallbackErrorEvent, ShieldContext, ShieldDiagnostics } from "headgate/shield";

export { flush, ManualClock, watch } from "../../support.js";

/** A promise that the test settles. */
export interface Gate<T = void> {
  readonly promise: Promise<T>;
  open(value: T): void;
  fail(error: unknown): void;
}

export function gate<T = void>(): Gate<T> {
  let open: Gate<T>["open"] = () => {};
  let fail: Gate<T>["fail"] = () => {};
  const promise = new Promise<T>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  return { promise, open: (value) => open(value), fail: (error) => fail(error) };
}

/** A lease that knows what was done to it. */
export class TrackingLease extends RateLimitLease {
  disposed = 0;
  refunded = 0;
  readAfterDisposal = 0;
  readonly outcomes: LeaseOutcome[] = [];
  readonly #isAcquired: boolean;
  readonly #metadata: Map<string, unknown>;
  disposalError: unknown = undefined;
  metadataError: unknown = undefined;
  acquiredError: unknown = undefined;

  constructor(isAcquired: boolean, metadata: Readonly<Record<string, unknown>> = {}) {
    super();
    this.#isAcquired = isAcquired;
    this.#metadata = new Map(Object.entries(metadata));
  }

  override get isAcquired(): boolean {
    if (this.acquiredError !== undefined) throw this.acquiredError;
    return this.#isAcquired;
  }

  override get metadataNames(): Iterable<string> {
    if (this.disposed > 0) this.readAfterDisposal += 1;
    if (this.metadataError !== undefined) throw this.metadataError;
    return this.#metadata.keys();
  }

  protected override tryGetMetadataCore(name: string): unknown {
    if (this.disposed > 0) this.readAfterDisposal += 1;
    return this.#metadata.get(name);
  }

  override report(outcome: LeaseOutcome): void {
    this.outcomes.push(outcome);
  }

  override adjust(actualPermits: number): void {
    if (actualPermits === 0) this.refunded += 1;
  }

  override dispose(): void {
    this.disposed += 1;
    if (this.disposalError !== undefined) throw this.disposalError;
  }
}

export const granted = (): TrackingLease => new TrackingLease(true);
export const refused = (metadata?: Readonly<Record<string, unknown>>): TrackingLease =>
  new TrackingLease(false, metadata);
export const RETRY_AFTER: string = MetadataName.retryAfter.name;

/** What a stub answers with: a lease, a promise of one, or an exception. */
export type Script = (
  permitCount: number,
  options: AcquireOptions,
) => RateLimitLease | Promise<RateLimitLease>;

/** A limiter of the user's that answers as a test says. */
export class StubLimiter extends RateLimiter {
  readonly #script: Script;
  asked = 0;
  attempted = 0;
  disposals = 0;
  lastOptions: AcquireOptions | undefined = undefined;

  constructor(script: Script) {
    super();
    this.#script = script;
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return undefined;
  }

  override get idleDurationMs(): number | undefined {
    return undefined;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    this.attempted += 1;
    throw new Error("a shield must not attempt");
  }

  protected override acquireCore(
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    this.asked += 1;
    this.lastOptions = options;
    return this.#script(permitCount, options);
  }

  protected override disposeCore(): void {
    this.disposals += 1;
  }
}

/** A partitioned limiter of the user's. */
export class StubPartitionedLimiter extends PartitionedRateLimiter<ShieldContext> {
  readonly #script: (context: ShieldContext, permitCount: number, options: AcquireOptions) => RateLimitLease;

  constructor(
    script: (context: ShieldContext, permitCount: number, options: AcquireOptions) => RateLimitLease,
  ) {
    super();
    this.#script = script;
  }

  override getStatistics(): RateLimiterStatistics | undefined {
    return undefined;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    throw new Error("a shield must not attempt");
  }

  protected override acquireCore(
    context: ShieldContext,
    permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease {
    return this.#script(context, permitCount, options);
  }
}

/** Collects callback errors. */
export class Reports {
  readonly events: CallbackErrorEvent[] = [];
  readonly diagnostics: ShieldDiagnostics = {
    onCallbackError: (event) => void this.events.push(event),
  };
}

/** The error that a promise rejects with; fails when it fulfills. */
export async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("the promise was fulfilled");
}

/** What a function throws; fails when it does not. */
export function thrown(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}
