// npm run bench:http [-- cost | overload]: what admission costs a server, beside its peers, and what it is worth under
// overload. ROUNDS=5 shortens.
//
// Every side is a server in a process of its own; a round sends the same number of requests to each, in random order, and
// takes the CPU time that the process has used per request. That is what admission adds on a busy machine too, where requests per
// second say more about the neighbours. Ratios are taken within a round.
import { spawn } from "node:child_process";
import os from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import autocannon from "autocannon";
import { randomFrom, ratioInterval, shuffle } from "../harness.mjs";

const ROUNDS = Number(process.env.ROUNDS ?? 30);
const SECONDS = 1;
const CONNECTIONS = 20;
const OVERLOAD_ROUNDS = Math.max(2, Math.round(ROUNDS / 5));
const OVERLOAD_SECONDS = 4;
/** What the work in server.mjs comes to in a second, and how much of it is asked for. */
const CAPACITY_RPS = 125;
const UNLOADED = { connections: 2 };
const OVERLOADED = { connections: 100, overallRate: 10 * CAPACITY_RPS };
const random = randomFrom(3);

async function start(side) {
  const child = spawn(process.execPath, [fileURLToPath(new URL("server.mjs", import.meta.url)), side], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const port = Number((await lines.next()).value);
  return {
    side,
    url: `http://127.0.0.1:${port}/`,
    async look() {
      child.stdin.write("?\n");
      return JSON.parse((await lines.next()).value);
    },
    stop: () => child.stdin.end(),
  };
}

/** Sends requests; tells of each response, and how long all of them took. */
function send(server, options, onResponse) {
  return new Promise((resolve, reject) => {
    const instance = autocannon({ url: server.url, ...options }, (error, result) =>
      error ? reject(error) : resolve(result),
    );
    if (onResponse !== undefined) {
      instance.on("response", (_, status, __, ms) => onResponse(status, ms));
    }
  });
}

const f = (n, places = 1) => n.toFixed(places);
const range = ({ mean, low, high }, places = 3) =>
  `${f(mean, places)} [${f(low, places)}, ${f(high, places)}]`;
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

console.log(
  `node ${process.version}, ${os.cpus()[0]?.model.trim()} x ${os.cpus().length}, load ${f(os.loadavg()[0])}, ` +
    `${ROUNDS} rounds of ${SECONDS} s on ${CONNECTIONS} connections`,
);

// ---- saying yes, and saying no

async function measureCost() {
  const groups = [
    ["node", "node, headgate concurrencyLimit", "node, headgate rateLimit", "node, headgate shed"],
    ["express", "express, headgate rateLimit", "express, express-rate-limit"],
    ["fastify", "fastify, headgate rateLimit", "fastify, @fastify/rate-limit"],
    ["hono", "hono, headgate rateLimit", "hono, hono-rate-limiter"],
  ];
  const servers = await Promise.all(groups.flat().map(start));
  const shed = servers.find(({ side }) => side === "node, headgate shed");
  const cpu = new Map(servers.map(({ side }) => [side, []]));
  const rps = new Map(servers.map(({ side }) => [side, []]));
  for (const server of servers) await send(server, { connections: CONNECTIONS, duration: 2 * SECONDS });
  for (let round = 0; round < ROUNDS; round++) {
    for (const server of shuffle([...servers], random)) {
      const before = await server.look();
      const result = await send(server, { connections: CONNECTIONS, duration: SECONDS });
      const after = await server.look();
      const [wanted, others] = server === shed ? ["non2xx", "2xx"] : ["2xx", "non2xx"];
      if (result[others] > 0 || result.errors > 0) throw new Error(`${server.side}: answers of another kind`);
      cpu.get(server.side).push((after.cpuUs - before.cpuUs) / result[wanted]);
      rps.get(server.side).push(result[wanted] / result.duration);
    }
    process.stderr.write(`  round ${round + 1}\n`);
  }
  for (const server of servers) server.stop();

  console.log(
    "\n| server | CPU us/request, median | CPU / plain, 95 % | requests per second / plain, 95 % |",
  );
  console.log("| --- | --- | --- | --- |");
  for (const [plain, ...others] of groups) {
    console.log(`| ${plain} | ${f(median(cpu.get(plain)))} | 1 | 1 |`);
    for (const side of others) {
      const against = (values) => ratioInterval(values.get(side).map((v, i) => v / values.get(plain)[i]));
      console.log(
        `| ${side} | ${f(median(cpu.get(side)))} | ${range(against(cpu))} | ${range(against(rps))} |`,
      );
    }
  }
}

// ---- overload

async function measureOverload() {
  const [open, guarded] = await Promise.all(["work, open", "work, headgate"].map(start));
  const p99 = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.99)];
  async function load(server, how) {
    const times = [];
    const answers = { served: 0, shed: 0 };
    await send(server, { ...how, duration: OVERLOAD_SECONDS, timeout: 60 }, (status, ms) => {
      if (status === 200) {
        answers.served += 1;
        times.push(ms);
      } else answers.shed += 1;
    });
    return { p99: p99(times), median: median(times), ...answers };
  }
  const rows = { unloaded: [], overloaded: [], open: [] };
  for (let round = 0; round < OVERLOAD_ROUNDS; round++) {
    rows.unloaded.push(await load(guarded, UNLOADED));
    rows.overloaded.push(await load(guarded, OVERLOADED));
    process.stderr.write(`  overload round ${round + 1}\n`);
  }
  rows.open.push(await load(open, OVERLOADED));
  const { counts } = await guarded.look();
  for (const server of [open, guarded]) server.stop();

  console.log(
    `\nWork for 5 requests at a time, 40 ms each (${CAPACITY_RPS} a second), ${OVERLOAD_ROUNDS} rounds of ${OVERLOAD_SECONDS} s:`,
  );
  console.log("| load | served | shed | median ms | p99 ms |");
  console.log("| --- | --- | --- | --- | --- |");
  for (const [name, all] of Object.entries(rows)) {
    const mid = (key) => f(median(all.map((row) => row[key])), 0);
    const label = {
      unloaded: "2 of 5 at a time, headgate",
      overloaded: "10 x capacity, headgate",
      open: "10 x capacity, open",
    };
    console.log(`| ${label[name]} | ${mid("served")} | ${mid("shed")} | ${mid("median")} | ${mid("p99")} |`);
  }
  const ratio = ratioInterval(rows.overloaded.map((row, i) => row.p99 / rows.unloaded[i].p99));
  console.log(`p99 of admitted requests, 10 x capacity / unloaded: ${range(ratio, 2)} (target: 1.5)`);
  console.log(`held at the end: ${counts.active}; admitted ${counts.admitted}, failed ${counts.failed}`);
}

const [part] = process.argv.slice(2);
if (part !== "overload") await measureCost();
if (part !== "cost") await measureOverload();
