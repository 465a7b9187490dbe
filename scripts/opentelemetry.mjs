// Packs the library, and runs test/adapters/opentelemetry/smoke.mjs with the API and the SDKs of OpenTelemetry that are named here, on
// the Node that they need; each is fetched from the registry.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const matrix = [
  { api: "1.9.1", sdk: "2.12.1", exporter: "0.223.0", node: 20 },
  { api: "1.10.0", sdk: "3.1.1", exporter: "0.301.0", node: 24 },
];
const root = fileURLToPath(new URL("..", import.meta.url));
let failed = 0;
for (const { api, sdk, exporter, node } of matrix) {
  const dir = mkdtempSync(path.join(tmpdir(), "headgate-opentelemetry-"));
  const sh = (cmd, args, cwd = dir) => {
    const run = spawnSync(cmd, args, { cwd, encoding: "utf8", timeout: 180_000 });
    if (run.status !== 0)
      throw new Error(`${cmd} ${args.join(" ")}\n${run.stdout}${run.stderr}${run.error ?? ""}`);
    return run.stdout;
  };
  const what = `API ${api}, SDK ${sdk}, Node ${node}`;
  try {
    sh("npm", ["pack", "--silent", "--pack-destination", dir], root);
    const packed = readdirSync(dir).find((file) => file.endsWith(".tgz"));
    writeFileSync(path.join(dir, "package.json"), '{"private":true,"type":"module"}');
    const peers = [`api@${api}`, `sdk-metrics@${sdk}`, `exporter-prometheus@${exporter}`];
    sh("npm", [
      "install",
      "--silent",
      "--no-audit",
      "--no-fund",
      `./${packed}`,
      ...peers.map((p) => `@opentelemetry/${p}`),
    ]);
    copyFileSync(path.join(root, "test/adapters/opentelemetry/smoke.mjs"), path.join(dir, "smoke.mjs"));
    copyFileSync(path.join(root, "test/adapters/opentelemetry/load.mjs"), path.join(dir, "load.mjs"));
    const version = sh("npx", ["-y", "-p", `node@${node}`, "node", "--version"]).trim();
    const output = sh("npx", ["-y", "-p", `node@${node}`, "node", "smoke.mjs"]);
    if (!output.includes("SMOKE OK")) throw new Error(output);
    console.log(`ok   ${what} (${version})`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${what}: ${error.message}`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
process.exitCode = failed === 0 ? 0 : 1;
