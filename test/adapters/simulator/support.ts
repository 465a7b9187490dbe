import { type AcquireOptions, MetadataName, RateLimiter, RateLimitLease } from "headgate";
import {
  type AttemptRecord,
  deterministic,
  type SimulationOptions,
  type SimulationResult,
  simulate,
} from "headgate/simulator";

/** A run together with every attempt in it, in the order in which they were made. */
export interface Traced {
  readonly result: SimulationResult;
  readonly attempts: readonly AttemptRecord[];
}

/** Runs a simulation and keeps each attempt. */
export async function trace(options: SimulationOptions): Promise<Traced> {
  const attempts: AttemptRecord[] = [];
  const result = await simulate({ ...options, onAttempt: (record) => attempts.push(record) });
  attempts.sort((a, b) => a.atMs - b.atMs || a.attempt - b.attempt || a.id - b.id);
  return { result, attempts };
}

/** One server that takes 10 ms, for tests in which nothing else matters. */
export const ONE_SERVER = { servers: 1, time: deterministic(10) } as const;

/** A lease of somebody else's limiter. */
export class ForeignLease extends RateLimitLease {
  readonly #isAcquired: boolean;
  readonly #retryAfterMs: number | undefined;
  readonly #giveBack: () => void;
  disposals = 0;

  constructor(isAcquired: boolean, retryAfterMs?: number, giveBack: () => void = () => {}) {
    super();
    this.#isAcquired = isAcquired;
    this.#retryAfterMs = retryAfterMs;
    this.#giveBack = giveBack;
  }

  override get isAcquired(): boolean {
    return this.#isAcquired;
  }

  override get metadataNames(): Iterable<string> {
    return [MetadataName.retryAfter.name];
  }

  protected override tryGetMetadataCore(name: string): unknown {
    return name === MetadataName.retryAfter.name ? this.#retryAfterMs : undefined;
  }

  override dispose(): void {
    this.disposals += 1;
    if (this.disposals === 1) this.#giveBack();
  }
}

/**
 * A semaphore as a user might write one: its queue is a list of promises, and it knows nothing of the inside of this library.
 */
export class ForeignSemaphore extends RateLimiter {
  readonly #limit: number;
  readonly #queueLimit: number;
  readonly #retryAfterMs: number | undefined;
  readonly #waiters: (() => void)[] = [];
  readonly leases: ForeignLease[] = [];
  held = 0;

  constructor(limit: number, queueLimit = 0, retryAfterMs?: number) {
    super();
    this.#limit = limit;
    this.#queueLimit = queueLimit;
    this.#retryAfterMs = retryAfterMs;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    return this.held < this.#limit ? this.#lend() : new ForeignLease(false, this.#retryAfterMs);
  }

  protected override acquireCore(
    _permitCount: number,
    options: AcquireOptions,
  ): RateLimitLease | Promise<RateLimitLease> {
    if (this.held < this.#limit || this.#waiters.length >= this.#queueLimit) return this.attemptAcquireCore();
    return new Promise((resolve, reject) => {
      const go = () => resolve(this.#lend());
      this.#waiters.push(go);
      options.signal?.addEventListener("abort", () => {
        this.#waiters.splice(this.#waiters.indexOf(go), 1);
        reject(options.signal?.reason);
      });
    });
  }

  override getStatistics(): undefined {}

  override get idleDurationMs(): undefined {
    return undefined;
  }

  #lend(): RateLimitLease {
    this.held += 1;
    const lease = new ForeignLease(true, undefined, () => {
      this.held -= 1;
      this.#waiters.shift()?.();
    });
    this.leases.push(lease);
    return lease;
  }
}
