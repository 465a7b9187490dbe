import { type AcquireOptions, type LeaseOutcome, RateLimiter, RateLimitLease } from "headgate";
import { type AcquireSink, type Inside, inside } from "../../../src/internal.js";

/** A limiter whose leases write down what is done to them. */
export class LoggedLimiter extends RateLimiter {
  readonly log: string[];
  free: number;
  granted = 0;
  disposed = 0;

  constructor(free: number, log: string[] = []) {
    super();
    this.free = free;
    this.log = log;
  }

  override get idleDurationMs(): undefined {
    return undefined;
  }

  override getStatistics(): undefined {
    return undefined;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    return new LoggedLease(this, this.free > 0);
  }

  protected override acquireCore(_permitCount?: number, _options?: AcquireOptions): RateLimitLease {
    return this.attemptAcquireCore();
  }
}

class LoggedLease extends RateLimitLease {
  readonly #limiter: LoggedLimiter;
  readonly isAcquired: boolean;
  readonly metadataNames: readonly string[] = [];
  #isOut: boolean;

  constructor(limiter: LoggedLimiter, isAcquired: boolean) {
    super();
    this.#limiter = limiter;
    this.isAcquired = isAcquired;
    this.#isOut = isAcquired;
    if (!isAcquired) return;
    limiter.free -= 1;
    limiter.granted += 1;
  }

  protected override tryGetMetadataCore(): undefined {}

  override report(outcome: LeaseOutcome): void {
    this.#limiter.log.push(`report ${outcome}`);
  }

  override dispose(): void {
    this.#limiter.log.push("dispose");
    if (!this.#isOut) return;
    this.#isOut = false;
    this.#limiter.free += 1;
    this.#limiter.disposed += 1;
  }
}

/** A limiter as users write them, which answers only when it is told to, and cannot take a promise back. */
export class SlowLimiter extends LoggedLimiter {
  aborted = 0;
  asked = 0;
  readonly #waiting: { resolve(lease: RateLimitLease): void; reject(error: unknown): void }[] = [];

  constructor() {
    super(1000);
  }

  protected override acquireCore(_permitCount?: number, options: AcquireOptions = {}): never {
    this.asked += 1;
    options.signal?.addEventListener("abort", () => {
      this.aborted += 1;
    });
    return new Promise<RateLimitLease>((resolve, reject) => this.#waiting.push({ resolve, reject })) as never;
  }

  grant(): void {
    this.#waiting.shift()?.resolve(new LoggedLease(this, true));
  }

  fail(error: unknown): void {
    this.#waiting.shift()?.reject(error);
  }
}

/** A limiter with an inside, which a test plays; whoever cancels is told that it is too late. */
export class PlayedLimiter extends LoggedLimiter {
  readonly sinks: AcquireSink[] = [];
  /** Called before a ticket is handed out. */
  onAsk: (sink: AcquireSink) => void = () => {};

  get [inside](): Inside {
    return {
      clock: undefined,
      usesPriority: false,
      hasRoom: () => true,
      acquireWith: (_permitCount, _options, sink) => {
        this.sinks.push(sink);
        this.onAsk(sink);
        return { cancel: () => false };
      },
      snapshot: () => false,
      queuedByPriority: () => new Map(),
    };
  }

  lend(): RateLimitLease {
    return new LoggedLease(this, true);
  }
}
