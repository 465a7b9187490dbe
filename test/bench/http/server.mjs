// One server of the measurement, in a process of its own: node server.mjs SIDE. It prints its port, and answers each
// line of its input with the CPU time that it has used so far, in microseconds, and what the admission has counted.
import http from "node:http";
import { serve } from "@hono/node-server";
import express from "express";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import fastify from "fastify";
import { ConcurrencyLimiter } from "headgate";
import { concurrencyLimit, createAdmission, rateLimit } from "headgate/http";
import { expressAdmission } from "headgate/http/express";
import { fastifyAdmission } from "headgate/http/fastify";
import { honoAdmission } from "headgate/http/hono";
import { nodeListener } from "headgate/http/node";
import { Hono } from "hono";
import { rateLimiter as honoRateLimiter } from "hono-rate-limiter";

const [side = ""] = process.argv.slice(2);
/** So many that nobody is refused: what is measured is the work of saying yes. */
const LIMIT = 1_000_000_000;
const WINDOW_MS = 60_000;

const slots = () => concurrencyLimit({ maxConcurrent: 1000, maxQueue: 1000 });
const rate = () =>
  rateLimit({ limit: LIMIT, windowMs: WINDOW_MS, clientAddress: "socket", algorithm: "fixedWindow" });
const hello = (_, response) => response.end("hello");

function overExpress(...middleware) {
  const app = express();
  for (const one of middleware) app.use(one);
  app.get("/", (_, response) => response.send("hello"));
  return http.createServer(app);
}

async function overFastify(register) {
  const app = fastify();
  await register?.(app);
  app.get("/", async () => "hello");
  await app.ready();
  return app.server;
}

function overHono(...middleware) {
  const app = new Hono();
  for (const one of middleware) app.use(one);
  app.get("/", (context) => context.text("hello"));
  return serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
}

// ---- work that a resource does for 5 requests at a time, 40 ms each: it can do 125 a second, and what is beyond that waits

const CAPACITY = 5;
const SERVICE_MS = 40;
let busy = 0;
const line = [];

function work(_, response) {
  if (busy === CAPACITY) {
    line.push(response);
    return;
  }
  busy += 1;
  setTimeout(() => {
    busy -= 1;
    response.end("done");
    const next = line.shift();
    if (next !== undefined) work(_, next);
  }, SERVICE_MS);
}

let admission;
const use = (made) => {
  admission = made;
  return made;
};

const sides = {
  node: () => http.createServer(hello),
  "node, headgate concurrencyLimit": () => http.createServer(nodeListener(use(slots()), hello)),
  "node, headgate rateLimit": () => http.createServer(nodeListener(use(rate()), hello)),
  "node, headgate shed": () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.attemptAcquire();
    const policies = [{ name: "full", kind: "concurrency", limiter }];
    return http.createServer(nodeListener(use(createAdmission({ policies })), hello));
  },
  express: () => overExpress(),
  "express, headgate rateLimit": () => overExpress(expressAdmission(use(rate()))),
  "express, express-rate-limit": () =>
    overExpress(
      expressRateLimit({
        windowMs: WINDOW_MS,
        limit: LIMIT,
        standardHeaders: "draft-8",
        legacyHeaders: false,
      }),
    ),
  fastify: () => overFastify(),
  "fastify, headgate rateLimit": () =>
    overFastify((app) => app.register(fastifyAdmission, { admission: use(rate()) })),
  "fastify, @fastify/rate-limit": () =>
    overFastify(async (app) =>
      app.register((await import("@fastify/rate-limit")).default, { max: LIMIT, timeWindow: WINDOW_MS }),
    ),
  hono: () => overHono(),
  "hono, headgate rateLimit": () => overHono(honoAdmission(use(rate()))),
  "hono, hono-rate-limiter": () =>
    overHono(
      honoRateLimiter({
        windowMs: WINDOW_MS,
        limit: LIMIT,
        keyGenerator: (context) => context.env.incoming.socket.remoteAddress,
      }),
    ),
  "work, open": () => http.createServer(work),
  "work, headgate": () =>
    http.createServer(
      nodeListener(use(concurrencyLimit({ maxConcurrent: CAPACITY, reject: { body: "none" } })), work),
    ),
};

const server = await sides[side]();
if (!server.listening) await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
console.log(server.address().port);
process.stdin.on("data", () => {
  const { user, system } = process.cpuUsage();
  console.log(JSON.stringify({ cpuUs: user + system, counts: admission?.getStatistics() }));
});
process.stdin.on("end", () => process.exit(0));
