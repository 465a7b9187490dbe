import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { pipeline, Readable } from "node:stream";
import express from "express";
import fastify from "fastify";
import { concurrencyLimit, rateLimit } from "headgate/http";
import { expressAdmission } from "headgate/http/express";
import { fastifyAdmission } from "headgate/http/fastify";
import { nodeListener } from "headgate/http/node";
import { afterEach, describe, expect, it, vi } from "vitest";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function listen(listener: http.RequestListener): Promise<number> {
  const server = http.createServer(listener).listen(0, "127.0.0.1");
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  return (server.address() as net.AddressInfo).port;
}

/** Opens a connection, and writes what is to be asked on it. */
function connect(port: number, text: string): net.Socket {
  const socket = net.connect(port, "127.0.0.1").on("error", () => {});
  socket.write(text);
  closing.push(() => socket.destroy());
  return socket;
}

const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;

/** Waits for what sockets bring about; fails with what was last seen. */
async function until<Seen>(look: () => Seen, expected: Seen): Promise<void> {
  await vi.waitFor(() => expect(look()).toEqual(expected), { timeout: 10_000, interval: 2 });
}

describe("Express: the scope route", () => {
  async function statuses(
    mount: (app: express.Express, limit: express.RequestHandler) => void,
    paths: string[],
  ) {
    const admission = rateLimit<express.Request>({ limit: 1, windowMs: 60_000, scope: "route" });
    const app = express();
    mount(app, expressAdmission(admission) as express.RequestHandler);
    const port = await listen(app);
    const seen: number[] = [];
    for (const path of paths) seen.push((await fetch(`http://127.0.0.1:${port}${path}`)).status);
    admission.dispose();
    return seen;
  }
  const ok: express.RequestHandler = (_, response) => void response.end("ok");

  it("has one key for all spellings of what a router is mounted on", async () => {
    const mount = (app: express.Express, limit: express.RequestHandler) => {
      app.use("/reports", express.Router().get("/x", limit, ok));
      app.use("/other", express.Router().get("/x", limit, ok));
    };
    const paths = ["/reports/x", "/Reports/x", "/REPORTS/X", "/other/x"];
    expect(await statuses(mount, paths)).toEqual([200, 503, 503, 200]);
  });

  it("has one key for all values of the parameters above, where the router sees them", async () => {
    const mount = (app: express.Express, limit: express.RequestHandler) => {
      app.use("/t/:id", express.Router({ mergeParams: true }).get("/x/:n", limit, ok));
    };
    const paths = ["/t/1/x/1", "/t/2/x/2", "/t/A%2Fb/x/t", "/T/t/x/a"];
    expect(await statuses(mount, paths)).toEqual([200, 503, 503, 503]);
  });

  it("has one key for all that an expression or a list of paths matches", async () => {
    const mount = (app: express.Express, limit: express.RequestHandler) => {
      app.get(/^\/r\/\w+$/, limit, ok);
      app.get(["/a/:id", "/b/:id"], limit, ok);
    };
    expect(await statuses(mount, ["/r/1", "/r/2", "/a/1", "/b/2"])).toEqual([200, 503, 200, 503]);
  });
});

describe("a refusal with a body of one's own", () => {
  const failing = () =>
    new Response(new ReadableStream({ pull: (controller) => controller.error(new Error("boom")) }));

  it("that fails is answered all the same", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1, reject: { body: failing } });
    const port = await listen(nodeListener(admission, () => {}));
    connect(port, ask("/"));
    await until(() => admission.getStatistics().active, 1);
    expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(503);
  });

  it("that cannot be written goes the way of errors, and the process lives on", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const listener = nodeListener(admission, () => {});
    const port = await listen((request, response) => {
      const { writeHead } = response;
      if (request.url === "/spoilt") {
        response.writeHead = () => {
          response.writeHead = writeHead;
          throw new Error("cannot be written");
        };
      }
      listener(request, response);
    });
    connect(port, ask("/"));
    await until(() => admission.getStatistics().active, 1);
    expect((await fetch(`http://127.0.0.1:${port}/spoilt`)).status).toBe(500);
  });

  it("answers HEAD on Fastify with its status and headers", async () => {
    const app = fastify();
    const admission = concurrencyLimit({
      maxConcurrent: 1,
      reject: { body: () => new Response("busy", { status: 418, headers: { "x-own": "1" } }) },
    });
    await app.register(fastifyAdmission, { admission });
    app.get("/", () => new Promise(() => {}));
    await app.listen({ port: 0, host: "127.0.0.1" });
    closing.push(() => {
      app.server.closeAllConnections();
      void app.close();
    });
    const { port } = app.server.address() as net.AddressInfo;
    connect(port, ask("/"));
    await until(() => admission.getStatistics().active, 1);
    for (const method of ["HEAD", "GET"]) {
      const answer = await fetch(`http://127.0.0.1:${port}/`, { method });
      expect([answer.status, answer.headers.get("x-own")]).toEqual([418, "1"]);
      expect(await answer.text()).toBe(method === "GET" ? "busy" : "");
    }
  });
});

describe("node:http: a head written as a list", () => {
  it.each([
    ["of names and values", ["Set-Cookie", "a=1", "Set-Cookie", "b=2", "RateLimit", '"up";r=1']],
    [
      "of pairs",
      [
        ["Set-Cookie", "a=1"],
        ["Set-Cookie", "b=2"],
        ["RateLimit", '"up";r=1'],
      ],
    ],
  ])("%s keeps all of it, and tells of the limits", async (_, head) => {
    const admission = rateLimit({ limit: 9, windowMs: 60_000, scope: "global", algorithm: "fixedWindow" });
    const port = await listen(
      nodeListener(admission, (__, response: http.ServerResponse) => {
        response.writeHead(200, head as http.OutgoingHttpHeader[]);
        response.end("x");
      }),
    );
    const { headers } = await fetch(`http://127.0.0.1:${port}/`);
    expect(headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(headers.get("ratelimit")).toMatch(/^"up";r=1, "rate";r=8;t=/);
    expect(headers.get("ratelimit-policy")).toBe('"rate";q=9;w=60');
    admission.dispose();
  });
});

describe("node:http: a request that is answered by somebody else", () => {
  it("while it waits leaves the queue", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1, maxQueue: 1 });
    const handled: (string | undefined)[] = [];
    const waiting: http.ServerResponse[] = [];
    const listener = nodeListener(admission, (request: http.IncomingMessage) => handled.push(request.url));
    const port = await listen((request, response) => {
      waiting.push(response);
      listener(request, response);
    });
    connect(port, ask("/first"));
    await until(() => admission.getStatistics().active, 1);
    const second = fetch(`http://127.0.0.1:${port}/second`);
    await until(() => admission.getStatistics().queued, 1);
    waiting[1]?.writeHead(408).end("too late");
    expect((await second).status).toBe(408);
    await until(() => admission.getStatistics().queued, 0);
    expect(admission.getStatistics()).toMatchObject({ active: 1, clientGone: 1 });
    waiting[0]?.end();
    await until(() => admission.getStatistics().active, 0);
    expect(handled).toEqual(["/first"]);
  });
});

describe("node:http: many requests pipelined on one connection", () => {
  it("leave one listener on it, and all end when it closes", async () => {
    const warnings: string[] = [];
    const note = (warning: Error) => warnings.push(warning.message);
    process.on("warning", note);
    closing.push(() => process.off("warning", note));
    const admission = concurrencyLimit({ maxConcurrent: 100 });
    const open: http.ServerResponse[] = [];
    let socket: net.Socket | undefined;
    const listener = nodeListener(
      admission,
      (request: http.IncomingMessage, response: http.ServerResponse) => {
        socket = request.socket;
        open.push(response);
      },
    );
    const before = new Promise<number>((resolve) => {
      closing.push(() => resolve(0));
      void listen((request, response) => {
        if (open.length === 0) resolve(request.socket.listenerCount("close"));
        listener(request, response);
      }).then((port) => connect(port, ask("/").repeat(30)));
    });
    const count = await before;
    await until(() => admission.getStatistics().active, 30);
    expect((socket?.listenerCount("close") ?? 0) - count).toBeLessThanOrEqual(2);
    for (const response of open.slice(0, 10)) response.end();
    await until(() => admission.getStatistics().active, 20);
    socket?.destroy();
    await until(() => admission.getStatistics().active, 0);
    expect(admission.getStatistics()).toMatchObject({ completed: 10, aborted: 20 });
    expect(warnings).toEqual([]);
  });
});

describe("node:http: a stream whose source fails", () => {
  it("is a failure of the server, not a client that has left", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    async function* source() {
      yield "first";
      await Promise.resolve();
      throw new Error("the source has failed");
    }
    const port = await listen(
      nodeListener(admission, (_, response: http.ServerResponse) => {
        pipeline(Readable.from(source()), response, () => {});
      }),
    );
    const answer = fetch(`http://127.0.0.1:${port}/`).then((response) => response.text());
    await expect(answer).rejects.toThrow();
    await until(() => admission.getStatistics().active, 0);
    expect(admission.getStatistics()).toMatchObject({ failed: 1, aborted: 0, completed: 0 });
  });
});

describe("node:http: a handler that rejects", () => {
  it.each(["response", "handler"] as const)("is told as an unhandled rejection, hold: %s", async (hold) => {
    const rejections: unknown[] = [];
    const others = process.listeners("unhandledRejection");
    process.removeAllListeners("unhandledRejection");
    process.on("unhandledRejection", (error: Error) => rejections.push(error.message));
    closing.push(() => {
      process.removeAllListeners("unhandledRejection");
      for (const other of others) process.on("unhandledRejection", other);
    });
    const admission = concurrencyLimit({ maxConcurrent: 1, hold });
    const port = await listen(nodeListener(admission, () => Promise.reject(new Error("rejected"))));
    connect(port, ask("/"));
    await until(() => rejections, ["rejected"]);
  });
});

describe("node:http: cookies of a refusal of one's own", () => {
  it("are all sent", async () => {
    const headers: [string, string][] = [
      ["set-cookie", "a=1"],
      ["set-cookie", "b=2"],
    ];
    const body = () => new Response("busy", { status: 503, headers });
    const admission = concurrencyLimit({ maxConcurrent: 1, reject: { body } });
    const port = await listen(nodeListener(admission, () => {}));
    connect(port, ask("/"));
    await until(() => admission.getStatistics().active, 1);
    const refused = await fetch(`http://127.0.0.1:${port}/`);
    expect(refused.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
  });
});
