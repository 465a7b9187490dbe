import type { Clock } from "headgate";
import type { SchedulerLike } from "rxjs";
import { checkMethods } from "../../src/internal.js";

/**
 * A clock for limiters that takes its time from a scheduler of RxJS. With a `TestScheduler` limiters live in the virtual
 * time of marble tests.
 *
 * Make the limiter inside `run`, so that its time begins with the scheduler's.
 *
 * @example
 * ```ts
 * import { FixedWindowRateLimiter } from "headgate";
 * import { rateLimit, schedulerClock } from "headgate/rxjs";
 * import { TestScheduler } from "rxjs/testing";
 *
 * const scheduler = new TestScheduler((actual, expected) => {
 *   if (JSON.stringify(actual) !== JSON.stringify(expected)) throw new Error("not as drawn");
 * });
 * scheduler.run(({ cold, expectObservable }) => {
 *   const clock = schedulerClock(scheduler);
 *   const limiter = new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 10, queueLimit: 9, clock });
 *   expectObservable(cold("(abc|)").pipe(rateLimit(limiter))).toBe("(ab)------(c|)");
 * });
 * ```
 *
 * @param scheduler - Whose time it is. Those that read the host's clock, such as `asyncScheduler`, can go back.
 * @throws TypeError when it is not a scheduler.
 *
 * @public
 */
export function schedulerClock(scheduler: SchedulerLike): Clock {
  checkMethods("scheduler", scheduler, ["now", "schedule"]);
  return {
    now: () => scheduler.now(),
    setTimer: (callback, delayMs) => {
      const timer = scheduler.schedule(callback, delayMs);
      return { cancel: () => timer.unsubscribe() };
    },
  };
}
