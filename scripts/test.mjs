// One command on a fresh checkout: installs what is missing, builds, and runs every check that the machine can run.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build, install, isInstallStale } from "./prepare.mjs";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));
const ci = process.env.CI !== undefined;
const sh = (cmd, args, env = {}) =>
  spawnSync(cmd, args, { stdio: "inherit", env: { ...process.env, ...env } }).status ?? 1;
const step = (name, cmd, args, env) => {
  const t = performance.now();
  console.log(`\n== ${name}`);
  const rc = sh(cmd, args, env);
  console.log(
    `== ${name}: ${rc === 0 ? "ok" : `FAILED (${rc})`} in ${((performance.now() - t) / 1000).toFixed(1)} s`,
  );
  return rc;
};
if (isInstallStale() && step("npm ci", ...install) !== 0) process.exit(1);

const chromium = process.env.CHROMIUM_PATH ?? "/usr/bin/chromium";
if (
  !existsSync(chromium) &&
  process.getuid?.() === 0 &&
  existsSync("/usr/bin/apt-get") &&
  !process.env.HEADGATE_NO_APT
) {
  step("apt-get chromium", "sh", [
    "-c",
    "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null",
  ]);
}
const browser = existsSync(chromium);
if (!browser && ci) throw new Error("a Chromium is needed in CI");
if (!browser) console.warn("chromium: not found; the browser tests are skipped (set CHROMIUM_PATH)");

const node = process.execPath;
const tsc = "node_modules/@typescript/native/bin/tsc";
const bin = (p) => `node_modules/${p}`;
const failed = [];
const must = (name, ...args) => {
  if (step(name, ...args) !== 0) failed.push(name);
};
if (step("build", ...build()) !== 0) process.exit(1);
must("lint", bin(".bin/biome"), ["check", "--error-on-warnings", "."]);
must("typecheck", node, [tsc, "-p", "test"]);
must("api-report", node, ["scripts/api-report.mjs"]);
must("snippets", node, ["scripts/check-snippets.mjs"]);
must("run snippets", node, ["scripts/run-snippets.mjs"]);
must("timelines", node, ["scripts/timelines.mjs"]);
must("size", node, ["scripts/size.mjs"]);
const projects = ["node", "rxjs-7.8.0", "types", ...(browser ? ["browser"] : [])].flatMap((p) => [
  "--project",
  p,
]);
must("vitest", node, [bin("vitest/vitest.mjs"), "run", "--coverage", ...projects, ...process.argv.slice(2)]);
if (failed.length > 0) console.error(`\nfailed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
