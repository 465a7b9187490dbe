// npm run scenarios [-- --seeds 3] [--only S1,S2] [--write]: judges every algorithm in every scenario, in virtual time, and prints
// the tables of docs/simulator.md; --write puts them there. Takes minutes. Exits with 1 when the default misses a target.
import { readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { LEARNING } from "./algorithms.js";
import { fairnessTable, queueTable, shareTable, type Table } from "./queues.js";
import { mean, type Run, run, type Scenario } from "./run.js";
import { SCENARIOS } from "./scenarios.js";
import { bestStaticOf, comparedTarget, soundness, type Target, targetsOf } from "./targets.js";

const DOC = "docs/simulator.md";
const [BEGIN, END] = ["<!-- scenarios -->", "<!-- /scenarios -->"];

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "3" },
    only: { type: "string" },
    write: { type: "boolean", default: false },
  },
});
const seeds = Array.from({ length: Number(values.seeds) }, (_, i) => i + 1);
const only = values.only?.split(",");
const isWanted = (id: string) =>
  only === undefined || only.some((part) => id.split(" ")[0] === part || id === part);

/** Fixed limits around the number of servers: the best of them is what somebody could find who knew everything. */
function staticsOf({ options }: Scenario): string[] {
  return [0.8, 1, 1.2, 1.6, 2.4, 4].map((times) => `static ${Math.round(times * options.service.servers)}`);
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

function cell(runs: readonly Run[], capacity: number): string {
  const served = mean(runs.map((one) => one.goodput())) / capacity;
  const limit = mean(runs.map((one) => one.limitP95));
  const share = `${(100 * served).toFixed(0)} %`;
  return Number.isNaN(limit) ? share : `${share}, ${limit.toFixed(0)}`;
}

const targetRows = (id: string, targets: readonly Target[]) =>
  targets.map(({ what, measured, isMet }) => [id, what, measured, isMet ? "met" : "**missed**"]);

const overview: string[][] = [];
const verdicts: string[][] = [];
for (const scenario of SCENARIOS.filter(({ id }) => isWanted(id))) {
  const began = performance.now();
  const runs: Record<string, Run[]> = {};
  const statics = staticsOf(scenario);
  for (const algorithm of ["none", ...statics, ...LEARNING]) {
    runs[algorithm] = [];
    for (const seed of seeds) runs[algorithm].push(await run(scenario, algorithm, seed));
  }
  const untold: Run[] = [];
  for (const seed of seeds) untold.push(await run(scenario, "default", seed, false));
  overview.push([
    `${scenario.id}: ${scenario.title}`,
    cell(runs["none"] ?? [], scenario.capacity),
    cell(bestStaticOf(runs), scenario.capacity),
    ...LEARNING.map((name) => cell(runs[name] ?? [], scenario.capacity)),
    cell(untold, scenario.capacity),
  ]);
  const others = LEARNING.filter((name) => name !== "default");
  verdicts.push(
    ...targetRows(scenario.id, [
      ...targetsOf(scenario, runs),
      comparedTarget(scenario, runs, others),
      soundness({ ...runs, untold }),
    ]),
  );
  const seconds = (performance.now() - began) / 1000;
  const arrivals = Object.values(runs)
    .flat()
    .reduce((sum, one) => sum + one.arrivals, 0);
  console.error(
    `${scenario.id}: ${seconds.toFixed(0)} s, ${Math.round(arrivals / seconds)} arrivals a second`,
  );
}
const tables: Table[] = [];
if (isWanted("S11")) tables.push(await queueTable(seeds));
if (isWanted("S12")) tables.push(await shareTable(seeds));
if (isWanted("S13")) tables.push(await fairnessTable(seeds));
for (const { title, targets } of tables) verdicts.push(...targetRows(title.split(":")[0] ?? "", targets));

const text = [
  "Served in time, of what the server can do at best, and the 95th percentile of the limit; means over the seeds.",
  "",
  table(["scenario", "no limit", "best fixed limit", ...LEARNING, "default, not told who left"], overview),
  ...tables.flatMap(({ title, head, rows }) => ["", `${title}.`, "", table(head, rows)]),
  "",
  `What the default has to reach, and the lowest and highest that it reached with seeds ${seeds.join(", ")}:`,
  "",
  table(["scenario", "target", "measured", ""], verdicts),
].join("\n");
console.log(text);
if (values.write) {
  const doc = readFileSync(DOC, "utf8");
  const [from, to] = [doc.indexOf(BEGIN), doc.indexOf(END)];
  if (from === -1 || to === -1) throw new Error(`${DOC} has no ${BEGIN} and ${END}.`);
  writeFileSync(DOC, `${doc.slice(0, from)}${BEGIN}\n${text}\n${doc.slice(to)}`);
}
if (verdicts.some((row) => row[3] !== "met")) process.exitCode = 1;
