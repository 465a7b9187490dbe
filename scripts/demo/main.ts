import { constants } from "node:os";
import { overload } from "./overload.js";
import { publishedLimit } from "./published-limit.js";
import type { Section } from "./section.js";

const sections: readonly (() => Promise<Section>)[] = [overload, publishedLimit];
// Several times what it takes; only a hang needs longer.
const timeLimitMs = 40_000;

// Leaves by process.exit, which takes the servers along.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}
setTimeout(() => {
  console.error(`The demo did not end within ${timeLimitMs / 1000} s.`);
  process.exit(1);
}, timeLimitMs).unref();

// Loads what fetch needs, at the cost of none of the runs.
await fetch("data:,").then((response) => response.text());

for (const run of sections) {
  const { text, problems } = await run();
  console.log(text);
  for (const problem of problems) console.error(`FAILED: ${problem}`);
  if (problems.length > 0) process.exitCode = 1;
}
