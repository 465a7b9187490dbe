// Runs on Node, Bun, Deno and workerd alike: no test runner, no Node modules.
import { ConcurrencyLimiter, RateLimitRejectedError, withLease } from "headgate";
import { AdaptiveConcurrencyLimiter, AnchoredGradientLimit, WindowedLimit } from "headgate/adaptive";
import { bimodal, lognormal, mergeArrivals, poissonArrivals, simulate } from "headgate/simulator";
import { ManualClock } from "headgate/testing";

/** FNV-1a, for hosts without a common way to hash. */
function hash(text) {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return (h >>> 0).toString(16);
}

/** What simulations come to, to the last bit: the same on every host. */
export async function fingerprint() {
  const adaptive = ({ clock, random }) =>
    new AdaptiveConcurrencyLimiter({
      // Left to itself, the algorithm takes its chances from the host.
      limit: new WindowedLimit(new AnchoredGradientLimit({ initialLimit: 15, probeInterval: 5, random })),
      queueLimit: 50,
      codel: { targetMs: 20, intervalMs: 100 },
      clock,
    });
  const base = {
    arrivals: mergeArrivals({
      a: poissonArrivals({ ratePerSecond: 300 }),
      b: poissonArrivals({ ratePerSecond: 60 }),
    }),
    clients: { timeoutMs: 900, retries: { max: 2, baseMs: 50, jitter: "full" } },
    limiter: adaptive,
    durationMs: 20_000,
    seed: "fingerprint",
  };
  const queue = { servers: 40, time: lognormal({ meanMs: 200, sigma: 1 }) };
  const shared = {
    servers: 40,
    time: bimodal({ lowShare: 0.9, lowMs: 100, highMs: 1100 }),
    discipline: "ps",
    contention: 1.2,
  };
  const results = [];
  for (const service of [queue, shared]) results.push(await simulate({ ...base, service }));
  return hash(JSON.stringify(results));
}

/** What `fingerprint` comes to. Another number means that a run is not what it was, or not the same everywhere. */
export const FINGERPRINT = "dedca34e";

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
  check((await fingerprint()) === FINGERPRINT, "simulations are the same on every host");
}
