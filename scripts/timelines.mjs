// Runs each scenario of scripts/timelines/ in virtual time, and prints what happened into the docs, between
// `<!-- timeline:NAME -->` and `<!-- /timeline -->`. Without --write it fails when the docs are out of date.
// A new scenario is a new file there; see scripts/timelines/queue-order.mjs. Needs a build.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setImmediate } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ManualClock } from "headgate/testing";

/** What a scenario is given: a clock, steps to take, and a row for each step. */
class Timeline {
  clock = new ManualClock();
  /** The columns after time and event: title to function. Set by the scenario. */
  columns = {};
  #requests = new Map();
  #news = [];
  #rows = [];

  /** Permits of the leases that are out. */
  get held() {
    return [...this.#requests.values()].reduce((sum, { lease, permits }) => sum + (lease ? permits : 0), 0);
  }

  /** One caller asks for permits, under a name that the rows show. */
  async acquire(name, limiter, permits = 1, options = {}) {
    const request = { permits, lease: undefined, isOver: false };
    this.#requests.set(name, request);
    void this.#settle(name, request, limiter.acquire(permits, options));
    await setImmediate();
    const answer = this.#news.findIndex((text) => text.startsWith(`${name} `));
    const what = answer === -1 ? "waits" : this.#news.splice(answer, 1)[0].slice(name.length + 1);
    this.#row(`${name} acquires ${permits}: ${what}`);
  }

  /** The same without waiting. */
  async attempt(name, limiter, permits = 1) {
    const lease = limiter.attemptAcquire(permits);
    if (lease.isAcquired) this.#requests.set(name, { permits, lease, isOver: true });
    await this.step(`${name} attempts ${permits}: ${describe(lease)}`);
  }

  /** A caller gives back what it holds. */
  async dispose(name) {
    const request = this.#requests.get(name);
    if (request?.lease === undefined) throw new Error(`${name} holds nothing`);
    const { lease } = request;
    request.lease = undefined;
    await this.step(`${name} returns ${request.permits}`, () => lease.dispose());
  }

  /** Anything else that happens. */
  async step(text, action = () => {}) {
    action();
    await setImmediate();
    this.#row(text);
  }

  /** Lets time pass, a millisecond at a time so that each answer is seen at its own moment. */
  async advance(ms) {
    for (let i = 0; i < ms; i++) {
      this.clock.advance(1);
      await setImmediate();
      if (this.#news.length > 0) this.#row();
    }
  }

  async #settle(name, request, promise) {
    try {
      const lease = await promise;
      if (lease.isAcquired) request.lease = lease;
      this.#news.push(`${name} ${describe(lease)}`);
    } catch (error) {
      this.#news.push(`${name} rejected: ${error.name}`);
    }
    request.isOver = true;
  }

  /** A row shows how things stand after the step and all that followed from it in the same turn. */
  #row(text) {
    const event = [...(text === undefined ? [] : [text]), ...this.#news.splice(0)].join("; ");
    const cells = Object.values(this.columns).map((read) => String(read()));
    this.#rows.push([String(this.clock.now()), event, ...cells]);
  }

  toString() {
    const waiting = [...this.#requests].filter(([, request]) => !request.isOver).map(([name]) => name);
    if (waiting.length > 0) throw new Error(`still waiting at the end: ${waiting.join(", ")}`);
    const rows = [["t (ms)", "event", ...Object.keys(this.columns)], ...this.#rows];
    const widths = rows[0].map((_, i) => Math.max(...rows.map((row) => row[i].length)));
    const line = (row) => row.map((cell, i) => (i === 1 ? cell.padEnd(widths[i]) : cell.padStart(widths[i])));
    return rows.map((row) => line(row).join("  ").trimEnd()).join("\n");
  }
}

function describe(lease) {
  if (lease.isAcquired) return "granted";
  const retryAfter = lease.retryAfterMs === undefined ? "" : `, retry after ${lease.retryAfterMs} ms`;
  return `refused, ${lease.reason}${retryAfter}`;
}

async function runAll(folder) {
  const blocks = new Map();
  for (const file of readdirSync(folder).sort()) {
    if (!file.endsWith(".mjs")) continue;
    const { default: scenario } = await import(new URL(file, folder).href);
    const timeline = new Timeline();
    // A scenario that draws something else than rows returns that.
    const picture = (await scenario(timeline)) ?? timeline;
    blocks.set(path.basename(file, ".mjs"), `\n\`\`\`text\n${picture}\n\`\`\`\n\n`);
  }
  return blocks;
}

/** The first line in which two texts differ, for people. */
function firstDifference(old, fresh) {
  const [a, b] = [old.split("\n"), fresh.split("\n")];
  const i = b.findIndex((line, n) => line !== a[n]);
  const at = i === -1 ? b.length : i;
  return `  - ${a[at] ?? "(end)"}\n  + ${b[at] ?? "(end)"}`;
}

/** A block between its markers; not one that runs into the next. */
const MARKED = /<!-- timeline:(\S+) -->\n((?:(?!<!-- timeline:)[\s\S])*?)<!-- \/timeline -->/g;
const write = process.argv.includes("--write");
const root = fileURLToPath(new URL("..", import.meta.url));
const blocks = await runAll(new URL("timelines/", import.meta.url));
const unused = new Set(blocks.keys());
const problems = [];
let shown = 0;
const pages = readdirSync(path.join(root, "docs"), { recursive: true })
  .map((file) => path.join("docs", file))
  .filter((file) => file.endsWith(".md") && !file.includes("node_modules"));
for (const page of ["README.md", ...pages]) {
  const file = path.join(root, page);
  const text = readFileSync(file, "utf8");
  let closed = 0;
  const fresh = text.replaceAll(MARKED, (all, name, old) => {
    closed += 1;
    shown += 1;
    unused.delete(name);
    const block = blocks.get(name);
    if (block === undefined) {
      problems.push(`${page}: no scenario scripts/timelines/${name}.mjs`);
      return all;
    }
    if (old !== block && !write) {
      problems.push(`${page}: timeline:${name} is out of date\n${firstDifference(old, block)}`);
    }
    return `<!-- timeline:${name} -->\n${block}<!-- /timeline -->`;
  });
  if (closed !== text.split("<!-- timeline:").length - 1) {
    problems.push(`${page}: a timeline is not closed by <!-- /timeline -->`);
    continue;
  }
  if (write && fresh !== text) {
    writeFileSync(file, fresh);
    console.log(`wrote ${page}`);
  }
}
for (const name of unused) problems.push(`scripts/timelines/${name}.mjs: no page shows it`);
for (const problem of problems) console.error(`FAIL ${problem}`);
if (problems.length > 0 && !write)
  console.error("node scripts/timelines.mjs --write brings the docs up to date");
console.log(`${blocks.size} timelines, shown ${shown} times, ${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
