import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  type Clock,
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { schedulerClock } from "headgate/rxjs";
import type { Observable } from "rxjs";
import { type RunHelpers, TestScheduler } from "rxjs/testing";
import { expect } from "vitest";
import { type InsideLimiter, inside, type LimiterSnapshot } from "../../../src/internal.js";

/** What a limiter looks like from inside, also after it has been disposed. */
export function look(limiter: RateLimiter): LimiterSnapshot {
  const into = {} as LimiterSnapshot;
  (limiter as InsideLimiter)[inside]?.snapshot(into);
  return into;
}

/** Limiters of a marble test, in the scheduler's time; each is checked to be as it was when the test ends. */
export class Limiters {
  readonly clock: Clock;
  readonly #made: { readonly limiter: RateLimiter; readonly holds: boolean }[] = [];

  constructor(scheduler: TestScheduler) {
    this.clock = schedulerClock(scheduler);
  }

  concurrency(permitLimit: number, queueLimit: number): ConcurrencyLimiter {
    return this.#keep(new ConcurrencyLimiter({ permitLimit, queueLimit, clock: this.clock }), true);
  }

  priority(permitLimit: number, queueLimit: number): ConcurrencyLimiter {
    const queueProcessingOrder = "highestPriorityFirst";
    const options = { permitLimit, queueLimit, queueProcessingOrder, clock: this.clock } as const;
    return this.#keep(new ConcurrencyLimiter(options), true);
  }

  window(permitLimit: number, windowMs: number, queueLimit: number): FixedWindowRateLimiter {
    const options = { permitLimit, windowMs, queueLimit, clock: this.clock };
    return this.#keep(new FixedWindowRateLimiter(options), false);
  }

  bucket(tokenLimit: number, periodMs: number, queueLimit: number): TokenBucketRateLimiter {
    const { clock } = this;
    const options = { tokenLimit, tokensPerPeriod: 1, replenishmentPeriodMs: periodMs, queueLimit, clock };
    return this.#keep(new TokenBucketRateLimiter(options), false);
  }

  /** Nobody holds or waits for anything. */
  expectAllBack(): void {
    for (const { limiter, holds } of this.#made) {
      const { available, permitLimit, queuedRequests, isDisposed } = look(limiter);
      expect(queuedRequests).toBe(0);
      if (holds && !isDisposed) expect(available).toBe(permitLimit);
    }
  }

  #keep<L extends RateLimiter>(limiter: L, holds: boolean): L {
    this.#made.push({ limiter, holds });
    return limiter;
  }
}

/** Runs a marble test in virtual time, and checks at its end that everything has been given back. */
export function marbles(
  test: (helpers: RunHelpers & { limiters: Limiters; scheduler: TestScheduler }) => void,
): void {
  const scheduler = new TestScheduler((actual, expected) => expect(actual).toEqual(expected));
  let limiters: Limiters | undefined;
  scheduler.run((helpers) => {
    limiters = new Limiters(scheduler);
    test({ ...helpers, limiters, scheduler });
  });
  limiters?.expectAllBack();
}

/** What a stream tells in this turn. */
export function seen<T>(stream: Observable<T>): unknown[] {
  const told: unknown[] = [];
  stream.subscribe({
    next: (value) => told.push(value),
    error: (error: unknown) => told.push(error),
    complete: () => told.push("complete"),
  });
  return told;
}

/** Has the host collect what nobody refers to. */
export function collectGarbage(): void {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
}
