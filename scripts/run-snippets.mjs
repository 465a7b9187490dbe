// Compiles every block that starts with ```ts run, and runs each in a process of its own. A block fails when it throws,
// does not come to its end, or is not done in time. Needs a build.
import { spawnSync } from "node:child_process";
import path from "node:path";
import { compileSnippets, findSnippets, inDocs } from "./snippets.mjs";

const TIMEOUT_MS = 30_000;

const snippets = findSnippets().filter(({ words }) => words.includes("run"));
const { out, status } = compileSnippets(snippets, ".run-snippets", { noEmitOnError: true });
let failed = 0;
for (const { name, file, line } of status === 0 ? snippets : []) {
  const args = ["--enable-source-maps", path.join(out, `${name}.js`)];
  const run = spawnSync(process.execPath, args, { encoding: "utf8", timeout: TIMEOUT_MS });
  if (run.status === 0) continue;
  failed += 1;
  const why = run.error?.message ?? `exit ${run.status ?? run.signal}`;
  console.error(`FAIL ${file}:${line}: ${why}\n${inDocs(`${run.stdout}${run.stderr}`, snippets)}`);
}
console.log(
  status === 0 ? `${snippets.length} snippets run, ${failed} failed` : "the snippets do not compile",
);
process.exitCode = status === 0 && failed === 0 && snippets.length > 0 ? 0 : 1;
