// npm run bench [-- NAME...]: the cost of the limiters beside their peers, as ratios. NAME keeps the rows whose name
// contains it; BENCH_PAIRS=5 shortens. Always exits with 0 when it could measure: a busy machine is not a broken build.
import os from "node:os";
import { cases as adaptive } from "./cases/adaptive.mjs";
import { cases as concurrency } from "./cases/concurrency.mjs";
import { cases as fetchCases } from "./cases/fetch.mjs";
import { cases as http } from "./cases/http.mjs";
import { cases as opentelemetry } from "./cases/opentelemetry.mjs";
import { cases as partitions } from "./cases/partitions.mjs";
import { cases as priority } from "./cases/priority.mjs";
import { cases as shield } from "./cases/shield.mjs";
import { cases as streams } from "./cases/streams.mjs";
import { cases as timeBased } from "./cases/time-based.mjs";
import { checkBytes, measure, randomFrom } from "./harness.mjs";
import { warmKinds } from "./kinds.mjs";

const groups = [
  concurrency,
  adaptive,
  timeBased,
  partitions,
  priority,
  fetchCases,
  http,
  shield,
  streams,
  opentelemetry,
];

const filters = process.argv.slice(2).map((name) => name.toLowerCase());
const chosen = groups
  .flat()
  .filter(({ name }) => filters.length === 0 || filters.some((part) => name.toLowerCase().includes(part)));
const forcedPairs = process.env.BENCH_PAIRS === undefined ? undefined : Number(process.env.BENCH_PAIRS);
if (typeof gc !== "function") throw new Error("Run it by `npm run bench`: it needs node --expose-gc.");
if (forcedPairs !== undefined && !(Number.isInteger(forcedPairs) && forcedPairs >= 2)) {
  throw new RangeError(`BENCH_PAIRS must be an integer of at least 2; got ${process.env.BENCH_PAIRS}.`);
}
if (chosen.length === 0) throw new Error(`No row's name contains ${filters.join(" or ")}.`);

const digits = (value) => (value < 100 ? value.toFixed(1) : Math.round(value).toString());
const range = ({ mean, low, high }, places) =>
  `${mean.toFixed(places)} [${low.toFixed(places)}, ${high.toFixed(places)}]`;
const bytes = (value) => (Number.isNaN(value) ? "?" : Math.max(0, Math.round(value)).toString());

function compared(target, versus) {
  if (target?.overNs === undefined) return range(versus.ratio, 3);
  const beyond = `+${range(versus.over, 1)} ns`;
  return target.ratio === undefined ? beyond : `${target.ratio} x ${beyond}`;
}

function allowed(target) {
  if (target === undefined) return "";
  const parts = [];
  if (target.ratio !== undefined) parts.push(`${target.ratio.toFixed(2)} x`);
  if (target.overNs !== undefined) parts.push(`+${target.overNs} ns`);
  const time = parts.join(" ");
  return target.bytes === undefined ? time : `${time}, ${target.bytes} B`;
}

function rowsOf(result) {
  const { target, peer } = result;
  const head = [
    result.name,
    digits(result.ns),
    peer.label,
    digits(peer.ns),
    compared(target, peer),
    allowed(target),
    result.verdict,
    `${bytes(result.bytes)} / ${bytes(peer.bytes)}`,
    String(peer.pairs),
  ];
  const beside = result.beside.map((one) => [
    one.note === undefined ? "" : `  (${one.note})`,
    "",
    one.label,
    digits(one.ns),
    compared(undefined, one),
    "",
    "",
    `- / ${bytes(one.bytes)}`,
    String(one.pairs),
  ]);
  return [head, ...beside];
}

function print(rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)));
  const line = (row) => `| ${row.map((cell, column) => cell.padEnd(widths[column])).join(" | ")} |`;
  const [header, ...rest] = rows;
  console.log([line(header), line(widths.map((width) => "-".repeat(width))), ...rest.map(line)].join("\n"));
}

const started = performance.now();
const load = os.loadavg()[0].toFixed(1);
console.log(
  `node ${process.version}, V8 ${process.versions.v8}, ${os.cpus()[0]?.model.trim()} x ${os.cpus().length}, ` +
    `${os.platform()} ${os.release()}, load ${load}`,
);
await warmKinds();
console.log(`byte counts: an object of 48 bytes is measured as ${(await checkBytes()).toFixed(1)}`);

const random = randomFrom(1);
const rows = [
  ["work", "ours ns", "peer", "peer ns", "ours / peer, 95 %", "target", "", "B/op ours / peer", "pairs"],
];
const missed = [];
for (const testCase of chosen) {
  const result = await measure(testCase, forcedPairs ?? testCase.pairs ?? 30, random);
  if (result.verdict === "MISSED") missed.push(result.name);
  rows.push(...rowsOf(result));
  process.stderr.write(`  ${result.name}: ${((performance.now() - started) / 1000).toFixed(0)} s\n`);
}
print(rows);
console.log(
  "met?: the interval holds the target. Rows without a work stand beside the row above, for information.",
);
console.log(
  missed.length === 0
    ? "No target missed."
    : `MISSED ${missed.length} of ${chosen.length}: ${missed.join("; ")}`,
);
