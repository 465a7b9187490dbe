// What admission costs, without the server around it: real listeners and middleware on requests and responses that only
// remember. Beside it, what node:http needs to serve a hello-world from memory, without the kernel's part. With sockets, and
// all frameworks: npm run bench:http.
import { EventEmitter } from "node:events";
import http from "node:http";
import { Duplex } from "node:stream";
import { rateLimit as expressRateLimit } from "express-rate-limit";
import { ConcurrencyLimiter } from "headgate";
import { concurrencyLimit, createAdmission, rateLimit } from "headgate/http";
import { expressAdmission } from "headgate/http/express";
import { nodeListener } from "headgate/http/node";
import { visibleSlots } from "../harness.mjs";

const N = 20_000;
const LIMIT = 1_000_000_000;
const WINDOW_MS = 3_600_000;

class Response extends EventEmitter {
  statusCode = 200;
  headersSent = false;
  writableEnded = false;
  writableFinished = false;
  destroyed = false;
  socket = {};
  #fields = {};

  writeHead(status, fields) {
    this.statusCode = status;
    this.headersSent = true;
    Object.assign(this.#fields, fields);
    return this;
  }

  getHeader(name) {
    return this.#fields[name];
  }

  setHeader(name, value) {
    this.#fields[name] = value;
  }

  end() {
    if (!this.headersSent) this.writeHead(this.statusCode);
    this.writableEnded = true;
    this.writableFinished = true;
    this.emit("finish");
    this.emit("close");
  }
}

const request = () => ({
  method: "GET",
  url: "/",
  originalUrl: "/",
  baseUrl: "",
  headers: {},
  socket: { remoteAddress: "203.0.113.9", destroyed: false },
  ip: "203.0.113.9",
  app: { get: () => false },
});

/** Runs n requests through a listener, and counts those that got the status. */
const through = (label, status, prepare) => ({
  label,
  prepare,
  run(n, listener) {
    const slots = visibleSlots();
    let done = 0;
    for (let i = 0; i < n; i++) {
      const response = new Response();
      const incoming = request();
      slots[i & 3] = incoming;
      listener(incoming, response);
      if (response.statusCode === status && response.writableFinished) done += 1;
    }
    return done;
  },
});

const hello = (_, response) => response.end();

/** A connection in memory: what is pushed has been received, and what is written tells that a response has come. */
class Connection extends Duplex {
  responses = 0;
  onResponse = () => {};

  _read() {}

  _write(_chunk, _encoding, done) {
    this._writev(undefined, done);
  }

  /** Head and body come together. */
  _writev(_chunks, done) {
    done();
    this.responses += 1;
    this.onResponse();
  }
}

const served = {
  label: "a served hello-world",
  n: 2000,
  prepare() {
    const server = http.createServer((_, response) => response.end("hello"));
    const connection = new Connection();
    server.emit("connection", connection);
    return connection;
  },
  async run(n, connection) {
    const text = Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    const before = connection.responses;
    for (let i = 0; i < n; i++) {
      await new Promise((resolve) => {
        connection.onResponse = resolve;
        connection.push(text);
      });
    }
    return connection.responses - before;
  },
  finish: (connection) => connection.destroy(),
};

function shedding() {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
  limiter.attemptAcquire();
  return nodeListener(createAdmission({ policies: [{ name: "full", kind: "concurrency", limiter }] }), hello);
}

const rate = () =>
  rateLimit({ limit: LIMIT, windowMs: WINDOW_MS, clientAddress: "socket", algorithm: "fixedWindow" });

/** Runs n requests through middleware that calls `next` in this turn or later, and counts those that it let through. */
const throughMiddleware = (label, prepare) => ({
  label,
  prepare,
  async run(n, middleware) {
    const slots = visibleSlots();
    let done = 0;
    for (let i = 0; i < n; i++) {
      const response = new Response();
      const incoming = request();
      slots[i & 3] = incoming;
      await middleware(incoming, response, () => {
        done += 1;
        response.end();
      });
    }
    return done;
  },
});

export const cases = [
  {
    name: "http: a request that finds a free slot",
    n: N,
    ours: through("headgate", 200, () =>
      nodeListener(concurrencyLimit({ maxConcurrent: 100, maxQueue: 10 }), hello),
    ),
    peer: served,
    target: { ratio: 0.1 },
  },
  {
    name: "http: a request that is shed",
    n: N,
    ours: through("headgate", 503, shedding),
    peer: served,
    target: { ratio: 0.1 },
  },
  {
    name: "http: a request within its client's rate, with fields",
    n: N,
    ours: throughMiddleware("headgate", () => expressAdmission(rate())),
    peer: throughMiddleware("express-rate-limit", () =>
      expressRateLimit({
        windowMs: WINDOW_MS,
        limit: LIMIT,
        standardHeaders: "draft-8",
        legacyHeaders: false,
        validate: false,
      }),
    ),
    target: { ratio: 1 },
  },
];
