import { type MonoTypeOperatorFunction, Observable } from "rxjs";
import { limiterDoors } from "./doors.js";
import { ProjectedAdmissions } from "./inner-admissions.js";
import { admit } from "./operate.js";
import type { LeasedOptions, LimiterSource } from "./options.js";
import { LEASED_OPTIONS, Rules } from "./rules.js";

/**
 * Subscribes to the source once a limiter grants a lease, and holds that until the source completes, fails or is
 * unsubscribed from.
 *
 * Each subscription has a lease of its own, so what is retried or repeated asks again. The lease has gone back when the end is
 * told: the next stream of a `concat` finds the permit free. How it went is reported as by `limitConcurrency`.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { leased } from "headgate/rxjs";
 * import { defer } from "rxjs";
 *
 * const limiter = new ConcurrencyLimiter({ permitLimit: 5, queueLimit: 100 });
 * const report = defer(() => fetch("https://vendor.example/report")).pipe(leased(limiter));
 * ```
 *
 * @param limiter - A limiter, or a function that makes one for each subscription.
 * @param options - What happens when the limiter refuses, and how to ask.
 * @throws TypeError or RangeError when an argument or option is not what it should be.
 *
 * @public
 */
export function leased<T>(
  limiter: LimiterSource,
  options: LeasedOptions<T> = {},
): MonoTypeOperatorFunction<T> {
  const rules = new Rules<undefined, T>(options, LEASED_OPTIONS);
  const open = limiterDoors(limiter);
  return (source) =>
    new Observable<T>((destination) => {
      const admissions = admit(
        destination,
        rules,
        open,
        (to, door) => new ProjectedAdmissions<undefined, T>(to, rules, door, () => source),
      );
      admissions?.arrive(undefined);
      admissions?.sourceDone();
    });
}
