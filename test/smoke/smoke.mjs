// Runs on Node, Bun, Deno and workerd alike: no test runner, no Node modules.
import { ConcurrencyLimiter, RateLimitRejectedError, withLease } from "headgate";
import { ManualClock } from "headgate/testing";

export async function smoke() {
  const check = (ok, what) => {
    if (!ok) throw new Error(`smoke: ${what}`);
  };
  const clock = new ManualClock();
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
  const held = await limiter.acquire();
  check(held.isAcquired, "a free permit is granted");
  const waiting = limiter.acquire();
  check(limiter.getStatistics().currentQueuedCount === 1, "the second waits");
  const refused = await limiter.acquire();
  check(refused.reason === "queue_full", "the third is refused");
  held.dispose();
  check((await waiting).isAcquired, "the second is served by dispose");
  limiter.pause(10);
  const late = limiter.acquire();
  (await waiting).dispose();
  clock.advance(10);
  (await late).dispose();
  const controller = new AbortController();
  const lease = await limiter.acquire({ signal: controller.signal });
  const aborted = limiter.acquire({ signal: controller.signal });
  controller.abort();
  check((await aborted.catch((error) => error)).name === "AbortError", "an abort ends the wait");
  const error = await withLease(limiter, () => 1, { maxWaitMs: 0 }).catch((e) => e);
  check(RateLimitRejectedError.is(error), "withLease throws a refusal");
  lease[Symbol.dispose]();
  check((await withLease(limiter, () => 1)) === 1, "withLease works");
}
