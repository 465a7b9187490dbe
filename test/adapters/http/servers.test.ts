import { once } from "node:events";
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import express from "express";
import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
import { type Admission, concurrencyLimit, createAdmission, type Rejection, rateLimit } from "headgate/http";
import { expressAdmission } from "headgate/http/express";
import { nodeListener } from "headgate/http/node";
import { trackLeases } from "headgate/testing";
import { afterEach, describe, expect, it, vi } from "vitest";
import { kinds, Script, type Server, scopeOf } from "./servers.js";

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

/** Waits for what other processes and sockets bring about; fails with what was last seen. */
async function until<Seen>(look: () => Seen, expected: Seen): Promise<void> {
  await vi.waitFor(() => expect(look()).toEqual(expected), { timeout: 10_000, interval: 2 });
}

interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly text: string;
}

async function read(response: http.IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return text;
}

interface Client {
  get(path: string, options?: http.RequestOptions): Promise<Answer>;
  /** Starts a request; its errors are expected. */
  open(path: string, options?: http.RequestOptions): http.ClientRequest;
}

function clientOf(server: Server, agent?: http.Agent): Client {
  const options = { host: "127.0.0.1", port: server.port, agent: agent ?? false };
  return {
    async get(path, more) {
      const request = http.request({ ...options, path, ...more }).end();
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      return { status: response.statusCode ?? 0, headers: response.headers, text: await read(response) };
    },
    open(path, more) {
      const request = http.request({ ...options, path, ...more }).end();
      request.on("error", () => {});
      request.on("response", (response) => response.on("error", () => {}));
      return request;
    },
  };
}

describe.each(kinds)("$name", (kind) => {
  async function start(admission: Admission): Promise<{ client: Client; script: Script; server: Server }> {
    const script = new Script();
    const server = await kind.start(admission, script);
    closing.push(() => server.close());
    return { client: clientOf(server), script, server };
  }

  const counts = (admission: Admission) => {
    const { active, queued } = admission.getStatistics();
    return { active, queued };
  };

  it("lets the slots be used, then the queue, and refuses the rest with a complete answer", async () => {
    const rejections: Rejection[] = [];
    const admission = concurrencyLimit({
      maxConcurrent: 1,
      maxQueue: 1,
      reject: { retryAfterJitter: false },
      onReject: (rejection) => rejections.push(rejection),
    });
    const { client, script } = await start(admission);
    const first = client.get("/wait");
    await until(() => script.started.length, 1);
    const second = client.get("/ok");
    await until(() => counts(admission), { active: 1, queued: 1 });
    const third = await client.get("/ok?secret=1");
    expect(third.status).toBe(503);
    expect(third.headers).toMatchObject({
      "retry-after": "1",
      "cache-control": "no-store",
      "content-length": String(third.text.length),
    });
    expect(third.headers["content-type"]).toMatch(/^application\/problem\+json/);
    expect(JSON.parse(third.text)).toMatchObject({ status: 503, "violated-policies": ["concurrency"] });
    expect(rejections).toMatchObject([{ reason: "queue_full", active: 1, queued: 1, method: "GET" }]);
    expect(script.started).toHaveLength(1);
    script.go();
    expect([(await first).text, (await second).text]).toEqual(["done", "ok"]);
    await until(() => counts(admission), { active: 0, queued: 0 });
    expect(admission.getStatistics()).toMatchObject({ admitted: 2, completed: 2, shed: 1, failed: 0 });
  });

  it("refuses HEAD without a body, and keeps the connection", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const { client, script, server } = await start(admission);
    const first = client.get("/wait");
    await until(() => script.started.length, 1);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const kept = clientOf(server, agent);
    const answers = [await kept.get("/ok", { method: "HEAD" }), await kept.get("/ok", { method: "HEAD" })];
    for (const { status, text, headers } of answers) {
      expect([status, text]).toEqual([503, ""]);
      expect(Number(headers["content-length"])).toBeGreaterThan(100);
    }
    agent.destroy();
    script.go();
    await first;
  });

  it.each(["/ok", "/empty", "/not-modified", "/redirect", "/missing", "/throw", "/ok?HEAD"])(
    "gives the slot back after %s",
    async (path) => {
      const admission = concurrencyLimit({ maxConcurrent: 1 });
      const { client } = await start(admission);
      for (let i = 0; i < 3; i++) {
        const { status } = await client.get(path, path.endsWith("HEAD") ? { method: "HEAD" } : {});
        expect(status).not.toBe(503);
        await until(() => counts(admission), { active: 0, queued: 0 });
      }
      const { admitted, completed, failed, aborted } = admission.getStatistics();
      expect([admitted, completed + failed, aborted]).toEqual([3, 3, 0]);
      expect(failed).toBe(path === "/throw" ? 3 : 0);
    },
  );

  it("gives the slot back when the client leaves before the head, although the handler goes on", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const { client, script } = await start(admission);
    const request = client.open("/wait");
    await until(() => script.started.length, 1);
    expect(counts(admission).active).toBe(1);
    request.destroy();
    await until(() => counts(admission), { active: 0, queued: 0 });
    expect(script.finished).toBe(0);
    expect(admission.getStatistics()).toMatchObject({ aborted: 1, completed: 0, failed: 0 });
    script.go();
  });

  it("holds the slot for a stream until its end", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const { client, script } = await start(admission);
    for (const path of ["/stream", "/sse"]) {
      const request = client.open(path);
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      await once(response, "data");
      expect((await client.get("/ok")).status).toBe(503);
      script.go();
      await once(response.resume(), "end");
      await until(() => counts(admission), { active: 0, queued: 0 });
      expect((await client.get("/ok")).status).toBe(200);
      await until(() => counts(admission).active, 0);
    }
  });

  it("gives the slot back when the client leaves in the middle of a stream", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const { client, script } = await start(admission);
    for (const path of ["/stream", "/sse"]) {
      const request = client.open(path);
      const [response] = (await once(request, "response")) as [http.IncomingMessage];
      await once(response, "data");
      request.destroy();
      await until(() => counts(admission), { active: 0, queued: 0 });
      script.go();
    }
    expect(admission.getStatistics()).toMatchObject({ aborted: 2, completed: 0 });
  });

  it("gives the slot back when the source of a stream fails, and when the handler destroys the response", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const { client, script } = await start(admission);
    const request = client.open("/broken");
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    await once(response, "data");
    const closed = new Promise((resolve) => response.on("close", resolve));
    script.go();
    await closed;
    await until(() => counts(admission), { active: 0, queued: 0 });
    const destroyed = client.open("/destroy");
    await new Promise((resolve) => destroyed.on("close", resolve));
    await until(() => counts(admission), { active: 0, queued: 0 });
    const { admitted, completed, aborted, failed } = admission.getStatistics();
    // Some frameworks destroy the response with the error. Hono's server for Node ends such a response as if it were complete.
    expect([admitted, completed, aborted + failed]).toEqual(
      kind.name === "Hono on Node" ? [2, 2, 0] : [2, 0, 2],
    );
  });

  it("takes a client out of the queue that leaves, and never runs its handler", async () => {
    const onReject = vi.fn();
    const admission = concurrencyLimit({ maxConcurrent: 1, maxQueue: 5, onReject });
    const { client, script } = await start(admission);
    const first = client.get("/wait");
    await until(() => script.started.length, 1);
    const leaving = client.open("/ok?leaving");
    await until(() => counts(admission).queued, 1);
    const third = client.get("/ok");
    await until(() => counts(admission).queued, 2);
    leaving.destroy();
    await until(() => counts(admission).queued, 1);
    script.go();
    expect([(await first).status, (await third).status]).toEqual([200, 200]);
    await until(() => counts(admission), { active: 0, queued: 0 });
    expect(script.started).toHaveLength(2);
    expect(admission.getStatistics()).toMatchObject({ clientGone: 1, shed: 0, completed: 2, aborted: 0 });
    expect(onReject).not.toHaveBeenCalled();
  });

  it("gives every slot back when a client leaves that has pipelined its requests", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 3, maxQueue: 5 });
    const { script, server } = await start(admission);
    const socket = net.connect(server.port, "127.0.0.1");
    const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
    socket.write(["/wait", "/ok", "/wait", "/ok", "/ok"].map(ask).join(""));
    await until(() => counts(admission).active + counts(admission).queued, 5);
    socket.destroy();
    await until(() => counts(admission), { active: 0, queued: 0 });
    expect(script.started.length).toBeLessThanOrEqual(3);
    script.go();
    expect(admission.getStatistics()).toMatchObject({ clientGone: 2, aborted: 3 });
  });

  it("answers pipelined requests in their order, and counts each", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1, maxQueue: 5 });
    const { script, server } = await start(admission);
    const socket = net.connect(server.port, "127.0.0.1");
    const ask = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
    socket.write(ask("/wait") + ask("/ok") + ask("/ok", "Connection: close\r\n"));
    await until(() => counts(admission), { active: 1, queued: 2 });
    script.go();
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    expect(text.match(/HTTP\/1.1 200/g)).toHaveLength(3);
    expect(text.indexOf("done")).toBeLessThan(text.indexOf("ok"));
    await until(() => counts(admission), { active: 0, queued: 0 });
    expect(admission.getStatistics()).toMatchObject({ completed: 3, aborted: 0 });
  });

  it("serves 500 requests on one connection without piling up listeners", async () => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on("warning", note);
    const admission = concurrencyLimit({ maxConcurrent: 1, maxQueue: 1 });
    const { server } = await start(admission);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const client = clientOf(server, agent);
    for (let i = 0; i < 500; i++) expect((await client.get("/ok")).status).toBe(200);
    await until(() => counts(admission), { active: 0, queued: 0 });
    agent.destroy();
    process.off("warning", note);
    expect(warnings).toEqual([]);
    expect(admission.getStatistics()).toMatchObject({ admitted: 500, completed: 500 });
  });

  it("hands errors of key functions to the framework, which answers with 500", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1, scope: scopeOf });
    const { client, script } = await start(admission);
    expect((await client.get("/ok", { headers: { "x-scope": "throw" } })).status).toBe(500);
    expect(script.started).toEqual([]);
    expect((await client.get("/ok", { headers: { "x-scope": "a" } })).status).toBe(200);
    await until(() => counts(admission), { active: 0, queued: 0 });
  });

  it("tells of limits after what the handler says itself", async () => {
    const admission = rateLimit({
      limit: 3,
      windowMs: 60_000,
      clientAddress: "socket",
      algorithm: "fixedWindow",
    });
    const { client } = await start(admission);
    const answers = [await client.get("/ok"), await client.get("/own-fields"), await client.get("/redirect")];
    expect(answers.map(({ headers }) => headers["ratelimit"])).toEqual([
      '"rate";r=2;t=60',
      '"upstream";r=1, "rate";r=1;t=60',
      undefined,
    ]);
    expect(answers[0]?.headers["ratelimit-policy"]).toBe('"rate";q=3;w=60');
    const refused = await client.get("/ok");
    expect([refused.status, refused.headers["ratelimit"]]).toEqual([429, '"rate";r=0;t=60']);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThanOrEqual(60);
  });

  it("answers with a response of one's own", async () => {
    const admission = concurrencyLimit({
      maxConcurrent: 1,
      reject: {
        body: ({ reason }) =>
          new Response(`<b>${reason}</b>`, { status: 503, headers: { "content-type": "text/html" } }),
      },
    });
    const { client, script } = await start(admission);
    const first = client.get("/wait");
    await until(() => script.started.length, 1);
    const refused = await client.get("/ok");
    expect([refused.status, refused.text]).toEqual([503, "<b>queue_full</b>"]);
    expect(refused.headers["content-type"]).toMatch(/^text\/html/);
    expect(refused.headers).toHaveProperty("retry-after");
    script.go();
    await first;
  });

  it("reads the client's address from the header that its proxy has written", async () => {
    const admission = rateLimit({ limit: 1, windowMs: 60_000, trustedProxies: ["127.0.0.1"] });
    const { client } = await start(admission);
    const from = (address: string) => client.get("/ok", { headers: { "x-forwarded-for": address } });
    expect((await from("6.6.6.6, 203.0.113.9")).status).toBe(200);
    expect((await from("7.7.7.7, 203.0.113.9")).status).toBe(429);
    expect((await from("203.0.113.10")).status).toBe(200);
  });

  it("drains under load: what has come in is answered, what comes later is refused", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 5, maxQueue: 20 });
    const { client, script } = await start(admission);
    const answers = Array.from({ length: 20 }, () => client.get("/wait"));
    await until(() => counts(admission), { active: 5, queued: 15 });
    let isDrained = false;
    const drained = admission.drain({ reject: true }).then(() => {
      isDrained = true;
    });
    const late = await client.get("/ok");
    expect([late.status, late.headers["retry-after"] !== undefined]).toEqual([503, true]);
    for (let done = 5; done <= 20; done += 5) {
      await until(() => script.started.length, done);
      expect(isDrained).toBe(false);
      script.go();
    }
    expect((await Promise.all(answers)).map(({ text }) => text)).toEqual(
      Array.from({ length: 20 }, () => "done"),
    );
    await drained;
    expect(admission.getStatistics()).toMatchObject({ active: 0, queued: 0, completed: 20, shed: 1 });
  });

  it("answers odd request targets", async () => {
    const keys: (string | undefined)[] = [];
    const admission = concurrencyLimit({
      maxConcurrent: 1,
      scope: "route",
      onReject: ({ key }) => keys.push(key),
    });
    const { server } = await start(admission);
    for (const target of ["http://elsewhere.example/x?y=1", "//x", "/%ff", "/a%0d%0ab", "*"]) {
      const method = target === "*" ? "OPTIONS" : "GET";
      const socket = net.connect(server.port, "127.0.0.1");
      socket.end(`${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      let text = "";
      for await (const chunk of socket) text += String(chunk);
      expect(text).toMatch(/^HTTP\/1.1 [245]\d\d/);
    }
    await until(() => counts(admission), { active: 0, queued: 0 });
  });
});

describe.each(kinds.filter(({ showsHandlers }) => showsHandlers))("$name, with hold: handler", (kind) => {
  it("keeps the slot until the handler is done, when told so", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1, hold: "handler" });
    const script = new Script();
    const server = await kind.start(admission, script);
    closing.push(() => server.close());
    const client = clientOf(server);
    const request = client.open("/wait");
    await until(() => script.started.length, 1);
    request.destroy();
    await until(() => admission.getStatistics().aborted, 1);
    expect(admission.getStatistics().active).toBe(1);
    expect((await client.get("/ok")).status).toBe(503);
    script.go();
    await until(() => admission.getStatistics().active, 0);
    expect((await client.get("/ok")).status).toBe(200);
  });
});

describe("what only one framework has", () => {
  it("Express: the pattern of the route, and mounts that do nothing twice or too late", async () => {
    const keys: (string | undefined)[] = [];
    const options = {
      scope: "route",
      maxConcurrent: 1,
      onReject: ({ key }: Rejection) => keys.push(key),
    } as const;
    const global = concurrencyLimit<express.Request>({ maxConcurrent: 9 });
    const route = concurrencyLimit<express.Request>(options);
    const app = express();
    let go = () => {};
    const router = express.Router();
    app.use(expressAdmission(global));
    router.get("/:id", expressAdmission(global), expressAdmission(route), (request, response) => {
      if (request.params["id"] === "1") go = () => response.send("one");
      else response.send("other");
    });
    app.use("/items", router);
    const late = concurrencyLimit<express.Request>({ maxConcurrent: 1 });
    app.get(
      "/late",
      (_, response, next) => {
        response.write("x");
        next();
      },
      expressAdmission(late),
      (_, response) => {
        response.end("y");
      },
    );
    const server = http.createServer(app).listen(0, "127.0.0.1");
    closing.push(async () => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, "listening");
    const client = clientOf({ port: (server.address() as net.AddressInfo).port, close: async () => {} });
    const first = client.get("/items/1");
    await until(() => route.getStatistics().active, 1);
    expect(global.getStatistics()).toMatchObject({ active: 1, admitted: 1 });
    expect((await client.get("/items/2")).status).toBe(503);
    expect(keys).toEqual(["GET /items/:id"]);
    go();
    await first;
    expect((await client.get("/late")).text).toBe("xy");
    expect(late.getStatistics().admitted).toBe(0);
  });

  it("Express: the lease of a request holds on for work that goes on", async () => {
    const admission = concurrencyLimit<express.Request>({ maxConcurrent: 1 });
    const app = express();
    let finish = () => {};
    app.use(expressAdmission(admission), (request, response) => {
      admission.leaseOf(request)?.holdUntil(
        new Promise<void>((resolve) => {
          finish = resolve;
        }),
      );
      response.send("accepted");
    });
    const server = http.createServer(app).listen(0, "127.0.0.1");
    closing.push(async () => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, "listening");
    const client = clientOf({ port: (server.address() as net.AddressInfo).port, close: async () => {} });
    expect((await client.get("/")).status).toBe(200);
    await until(() => admission.getStatistics().completed, 1);
    expect((await client.get("/")).status).toBe(503);
    finish();
    await until(() => admission.getStatistics().active, 0);
  });

  it("Fastify: routes that are left alone, policies by name, and the pattern of the route", async () => {
    const kind = kinds.find(({ name }) => name === "Fastify");
    const keys: (string | undefined)[] = [];
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const admission = createAdmission({
      policies: [{ name: "all", kind: "concurrency", limiter }],
      onReject: ({ route }) => keys.push(route),
    });
    const server = (await kind?.start(admission, new Script())) as Server;
    closing.push(() => server.close());
    const client = clientOf(server);
    limiter.attemptAcquire();
    expect((await client.get("/left-alone")).text).toBe("free");
    expect((await client.get("/items/5")).status).toBe(503);
    expect((await client.get("/nowhere")).status).toBe(503);
    expect(keys).toEqual(["/items/:id", undefined]);
  });

  it("node:http: HTTP/2, with streams that the client resets", async () => {
    const admission = concurrencyLimit<http2.Http2ServerRequest>({ maxConcurrent: 2, maxQueue: 1 });
    const waiting: http2.Http2ServerResponse[] = [];
    const listener = nodeListener(
      admission,
      (request: http2.Http2ServerRequest, response: http2.Http2ServerResponse) => {
        if (request.url === "/wait") waiting.push(response);
        else response.end("ok");
      },
    );
    const server = http2.createServer(listener).listen(0, "127.0.0.1");
    closing.push(async () => {
      server.close();
    });
    await once(server, "listening");
    const session = http2.connect(`http://127.0.0.1:${(server.address() as net.AddressInfo).port}`);
    closing.push(async () => session.destroy());
    const ask = (path: string) => {
      const stream = session.request({ ":path": path });
      stream.on("error", () => {});
      return stream;
    };
    const status = async (stream: http2.ClientHttp2Stream) => {
      const [headers] = (await once(stream, "response")) as [http2.IncomingHttpHeaders];
      stream.resume();
      return headers[":status"];
    };
    const streams = [ask("/wait"), ask("/wait")];
    await until(() => waiting.length, 2);
    const queued = ask("/ok");
    await until(() => admission.getStatistics().queued, 1);
    const refused = ask("/ok");
    expect(await status(refused)).toBe(503);
    streams[0]?.close(http2.constants.NGHTTP2_CANCEL);
    expect(await status(queued)).toBe(200);
    await until(() => admission.getStatistics().active, 1);
    waiting[1]?.end("done");
    expect(await status(streams[1] as http2.ClientHttp2Stream)).toBe(200);
    await until(() => admission.getStatistics().active, 0);
    expect(admission.getStatistics()).toMatchObject({ aborted: 1, completed: 2, shed: 1 });
  });

  it("node:http: a rate that was charged for a request which a later limit refuses is given back", async () => {
    const rate = new FixedWindowRateLimiter({ permitLimit: 100, windowMs: 3_600_000 });
    const slots = trackLeases(new ConcurrencyLimiter({ permitLimit: 1 }));
    const admission = createAdmission<http.IncomingMessage>({
      policies: [
        { name: "rate", kind: "rate", limiter: rate },
        { name: "slots", kind: "concurrency", limiter: slots },
      ],
    });
    let go = () => {};
    const server = http.createServer(
      nodeListener(admission, (_, response: http.ServerResponse) => {
        go = () => response.end();
      }),
    );
    server.listen(0, "127.0.0.1");
    closing.push(async () => {
      server.closeAllConnections();
      server.close();
    });
    await once(server, "listening");
    const client = clientOf({ port: (server.address() as net.AddressInfo).port, close: async () => {} });
    const first = client.get("/");
    await until(() => slots.held.length, 1);
    for (let i = 0; i < 5; i++) expect((await client.get("/")).status).toBe(503);
    expect(rate.getStatistics().currentAvailablePermits).toBe(99);
    go();
    await first;
    await until(() => slots.held.length, 0);
  });
});
