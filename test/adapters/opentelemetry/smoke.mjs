// Runs with whatever OpenTelemetry SDK is installed beside it: limiters under load, scraped over HTTP, compared with their
// own counts; then the end of a handle, and an SDK that comes late. Prints SMOKE OK.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { metrics } from "@opentelemetry/api";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { MeterProvider } from "@opentelemetry/sdk-metrics";
import { ConcurrencyLimiter } from "headgate";
import { instrumentRateLimiter } from "headgate/opentelemetry";
import { startLoad } from "./load.mjs";

const scrape = async (port) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
const numberIn = (text, name, ...parts) => {
  const line = text
    .split("\n")
    .find((l) => l.startsWith(`${name}{`) && parts.every((part) => l.includes(`"${part}"`)));
  return line === undefined ? undefined : Number(line.split(" ").at(-1));
};

const { stop, exporter } = await startLoad(19466);
await sleep(1500);
const limiters = await stop();
const text = await scrape(19466);
for (const [name, limiter] of Object.entries(limiters)) {
  const { totalSuccessfulLeases, totalFailedLeases } = limiter.getStatistics();
  assert.ok(totalSuccessfulLeases > 10, name);
  assert.equal(numberIn(text, "headgate_limiter_requests_total", name, "acquired"), totalSuccessfulLeases);
  assert.equal(numberIn(text, "headgate_limiter_requests_total", name, "rejected"), totalFailedLeases);
  assert.equal(numberIn(text, "headgate_limiter_lease_active", name), 0);
}
await exporter.shutdown();

const late = new ConcurrencyLimiter({ permitLimit: 3 });
for (let i = 0; i < 4; i++) late.attemptAcquire();
const handle = instrumentRateLimiter(late, { name: "late" });
assert.equal(handle.isAttached, false);
const second = new PrometheusExporter({ port: 19467 });
metrics.setGlobalMeterProvider(new MeterProvider({ readers: [second] }));
await sleep(1200);
assert.equal(handle.isAttached, true);
const before = await scrape(19467);
assert.equal(numberIn(before, "headgate_limiter_permit_usage", "late"), 3);
assert.equal(numberIn(before, "headgate_limiter_requests_total", "late", "rejected"), 1);
handle.dispose();
for (let i = 0; i < 2; i++) {
  const after = await scrape(19467);
  assert.equal(numberIn(after, "headgate_limiter_permit_usage", "late"), 0);
  assert.equal(numberIn(after, "headgate_limiter_requests_total", "late", "acquired"), 3);
}
await second.shutdown();
console.log("SMOKE OK");
