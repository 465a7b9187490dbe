// node test/adapters/opentelemetry/prometheus.mjs PROMETHEUS: has a Prometheus server scrape limiters under load, and runs
// each query of docs/observability.md against it; fails when one has no answer. By hand, since it takes a server.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startLoad } from "./load.mjs";

const [binary] = process.argv.slice(2);
if (binary === undefined) throw new Error("usage: prometheus.mjs PATH_OF_PROMETHEUS");
const page = readFileSync(new URL("../../../docs/observability.md", import.meta.url), "utf8");
const queries = [...page.matchAll(/^```promql\n([\s\S]*?)^```$/gm)].flatMap(([, block]) =>
  block.trim().split("\n"),
);
const dir = mkdtempSync(path.join(tmpdir(), "headgate-prometheus-"));
const [exporterPort, serverPort] = [19464, 19465];
const { stop, exporter } = await startLoad(exporterPort);
writeFileSync(
  path.join(dir, "prometheus.yml"),
  JSON.stringify({
    global: { scrape_interval: "1s" },
    scrape_configs: [{ job_name: "load", static_configs: [{ targets: [`127.0.0.1:${exporterPort}`] }] }],
  }),
);
const server = spawn(
  binary,
  [
    `--config.file=${dir}/prometheus.yml`,
    `--storage.tsdb.path=${dir}/data`,
    `--web.listen-address=127.0.0.1:${serverPort}`,
  ],
  { stdio: "ignore" },
);
let failed = 0;
try {
  // Rates over a minute need one.
  await sleep(65_000);
  for (const query of queries) {
    const url = `http://127.0.0.1:${serverPort}/api/v1/query?query=${encodeURIComponent(query)}`;
    const { status, data, error } = await (await fetch(url)).json();
    const answers = (data?.result ?? []).map(
      ({ metric, value }) =>
        `${[metric.headgate_limiter_name, metric.headgate_limiter_result, metric.headgate_rejection_reason, metric.headgate_adaptive_decision].filter(Boolean).join("/")} ${Number(value[1]).toFixed(3)}`,
    );
    const isGood =
      status === "success" && answers.length > 0 && !answers.every((answer) => answer.endsWith("NaN"));
    if (!isGood) failed += 1;
    console.log(`${isGood ? "ok  " : "FAIL"} ${query}\n       ${error ?? answers.join(", ")}`);
  }
} finally {
  server.kill();
  await stop();
  await exporter.shutdown();
  rmSync(dir, { recursive: true, force: true });
}
console.log(`${queries.length} queries, ${failed} without an answer`);
process.exitCode = failed === 0 ? 0 : 1;
