/*
 * Records runs of the real library and compares headgate with them on the fly, where the .NET SDK is present.
 *
 *   npm run conformance -- --live --seeds 20000      new seeds, from --first (1 000 000 by default)
 *   npm run conformance -- --record                  makes the recorded traces anew
 *   npm run conformance                              replays the recorded traces
 *   npm run conformance -- --table                   writes the table of differences into docs/dotnet.md
 *
 * --library VERSION takes another version of System.Threading.RateLimiting than the one in the project file.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { runnerImport } from "vite";

const RECORDED = { first: 1, count: 4000, perFile: 1000 };

const { values } = parseArgs({
  options: {
    live: { type: "boolean" },
    record: { type: "boolean" },
    table: { type: "boolean" },
    seeds: { type: "string", default: "2000" },
    first: { type: "string", default: "1000000" },
    library: { type: "string" },
    faults: { type: "string", default: "10" },
  },
});

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const folder = new URL("traces/", import.meta.url);

async function load(path) {
  const alias = [
    { find: /^headgate$/, replacement: here("../../src/index.ts") },
    { find: /^headgate\/(.+)$/, replacement: here("../../adapters/$1/index.ts") },
  ];
  const { module } = await runnerImport(here(path), {
    configFile: false,
    logLevel: "error",
    resolve: { alias },
  });
  return module;
}

function buildRecorder(into) {
  const properties = ["-p:UseSharedCompilation=false", `-p:BaseIntermediateOutputPath=${join(into, "obj")}/`];
  if (values.library !== undefined) properties.push(`-p:RateLimitingVersion=${values.library}`);
  const args = [
    "build",
    here("dotnet/Recorder.csproj"),
    "-c",
    "Release",
    "-v",
    "q",
    "-o",
    join(into, "bin"),
    "-nodeReuse:false",
  ];
  const { status, error } = spawnSync("dotnet", [...args, ...properties], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  if (error !== undefined)
    throw new Error("dotnet is not there; without it, `npm test` replays the recorded traces");
  if (status !== 0) throw new Error("the recorder does not build");
  return join(into, "bin", "Recorder.dll");
}

/** The lines that the recorder writes for these seeds. */
async function* record(recorder, first, count) {
  const child = spawn("dotnet", [recorder, String(first), String(count)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  yield* createInterface({ input: child.stdout, crlfDelay: Number.POSITIVE_INFINITY });
  const status = await ended;
  if (status !== 0) throw new Error(`the recorder ended with ${status}`);
}

async function compare(traces) {
  const { Tally } = await load("player/tally.ts");
  const tally = new Tally();
  const start = performance.now();
  for await (const trace of traces) {
    await tally.add(trace);
    if (tally.faults.length >= Number(values.faults)) break;
  }
  for (const line of tally.report()) console.log(line);
  console.log(`${((performance.now() - start) / 1000).toFixed(1)} s`);
  const wrong = tally.wrong();
  for (const fault of wrong) console.error(`\n${fault}`);
  process.exitCode = wrong.length === 0 ? 0 : 1;
}

async function* liveTraces(recorder) {
  let told = 0;
  for await (const line of record(recorder, Number(values.first), Number(values.seeds))) {
    if (!line.startsWith('{"seed"')) {
      console.log(line);
      continue;
    }
    yield JSON.parse(line);
    told += 1;
    if (told % 5000 === 0) console.log(`${told} traces`);
  }
}

/** What the recorder makes of a script. */
function recordScript(recorder, input) {
  const { status, stdout } = spawnSync("dotnet", [recorder, "script"], {
    input,
    encoding: "utf8",
    stdio: ["pipe", "pipe", "inherit"],
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(`the recorder ended with ${status}`);
  return stdout;
}

async function writeRecordings(recorder) {
  for (const name of readdirSync(folder)) if (name.endsWith(".jsonl.gz")) unlinkSync(new URL(name, folder));
  const { first, count, perFile } = RECORDED;
  for (let from = first; from < first + count; from += perFile) {
    let text = "";
    for await (const line of record(recorder, from, perFile)) text += `${line}\n`;
    const name = `seeds-${String(from).padStart(5, "0")}.jsonl.gz`;
    writeFileSync(new URL(name, folder), gzipSync(text, { level: 9 }));
    console.log(`${name}: ${text.length} characters`);
  }
  const { scriptOfTables } = await load("player/tables.ts");
  const tables = recordScript(recorder, scriptOfTables());
  writeFileSync(new URL("tables.jsonl.gz", folder), gzipSync(tables, { level: 9 }));
}

const scratch = mkdtempSync(join(tmpdir(), "headgate-conformance-"));
try {
  if (values.record) await writeRecordings(buildRecorder(scratch));
  if (values.table) {
    const { withTable } = await load("player/differences-table.ts");
    const page = new URL("../../docs/dotnet.md", import.meta.url);
    writeFileSync(page, withTable(readFileSync(page, "utf8")));
  } else if (values.live) {
    await compare(liveTraces(buildRecorder(scratch)));
  } else {
    const { readRecordings } = await load("player/trace.ts");
    await compare([...readRecordings(folder).values()].flat());
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
