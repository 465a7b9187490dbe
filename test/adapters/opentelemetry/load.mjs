// Limiters under load, instrumented, behind a Prometheus exporter; for checking the queries of docs/observability.md. Needs a
// build, and @opentelemetry packages beside it.
import { setTimeout as sleep } from "node:timers/promises";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { ConcurrencyLimiter, TokenBucketRateLimiter, withLease } from "headgate";
import { AdaptiveConcurrencyLimiter } from "headgate/adaptive";
import { instrumentRateLimiter } from "headgate/opentelemetry";

/** Starts the load; returns how to stop it, and the limiters with their own counts. */
export async function startLoad(port) {
  const exporter = new PrometheusExporter({ port });
  const meter = new MeterProvider({ readers: [exporter] }).getMeter("headgate");
  const limiters = {
    vendor: new ConcurrencyLimiter({ permitLimit: 4, queueLimit: 8, queueTimeoutMs: 40 }),
    bucket: new TokenBucketRateLimiter({
      tokenLimit: 5,
      tokensPerPeriod: 50,
      replenishmentPeriodMs: 1000,
      refill: "continuous",
      queueLimit: 4,
    }),
    adaptive: new AdaptiveConcurrencyLimiter({ initialLimit: 8, queueLimit: 8 }),
  };
  const handles = Object.entries(limiters).map(([name, limiter]) =>
    instrumentRateLimiter(limiter, { name, meter, wrap: true }),
  );
  let isOver = false;
  const caller = async (limiter, i) => {
    for (let n = 0; !isOver; n++) {
      const signal = n % 10 === 0 ? AbortSignal.timeout(20) : undefined;
      const work = async () => {
        await sleep(10 + ((i * 7 + n) % 20));
        if (n % 13 === 0) throw new Error("own");
      };
      await withLease(limiter, work, signal === undefined ? {} : { signal }).catch(() => sleep(5));
    }
  };
  const callers = handles.flatMap(({ limiter }) => Array.from({ length: 14 }, (_, i) => caller(limiter, i)));
  const stop = async () => {
    isOver = true;
    await Promise.all(callers);
    return limiters;
  };
  return { stop, exporter, limiters };
}
