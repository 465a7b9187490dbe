// What every command on a fresh checkout needs before it can do its own work.
import { existsSync, statSync } from "node:fs";

const stamp = "node_modules/.package-lock.json";

export const isInstallStale = () =>
  !existsSync(stamp) || statSync(stamp).mtimeMs < statSync("package-lock.json").mtimeMs;
// NODE_ENV=production must not leave out the compiler.
export const install = ["npm", ["ci", "--include=dev", "--no-audit", "--no-fund"]];
export const build = (...projects) => [
  process.execPath,
  ["node_modules/@typescript/native/bin/tsc", "-b", ...projects],
];
