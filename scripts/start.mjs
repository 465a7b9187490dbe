// The library at its main job, on real traffic: prepares what is missing, then runs demo/main.ts.
import { spawnSync } from "node:child_process";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build, install, isInstallStale } from "./prepare.mjs";

process.chdir(fileURLToPath(new URL("..", import.meta.url)));

function quietly(what, [command, args]) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: "utf8" });
  if (status === 0) return;
  console.error(`${what} failed${error ? `: ${error.message}` : ""}\n${stdout ?? ""}${stderr ?? ""}`);
  process.exit(1);
}

if (isInstallStale()) {
  console.error("Installing what the build needs (npm ci) ...");
  quietly("npm ci", install);
}
quietly("The build", build("scripts/demo"));
await import(pathToFileURL("dist/scripts/demo/main.js").href);
