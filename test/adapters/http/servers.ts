import { EventEmitter, once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import type { Admission, AdmissionRequest } from "headgate/http";
import { expressAdmission } from "headgate/http/express";
import { fastifyAdmission } from "headgate/http/fastify";
import { honoAdmission } from "headgate/http/hono";
import { koaAdmission } from "headgate/http/koa";
import { nodeListener } from "headgate/http/node";
import { type Context, Hono } from "hono";
import Koa from "koa";

/** How the handlers of a server are told to go on, and what they have done. */
export class Script extends EventEmitter<{ go: []; started: [string] }> {
  /** Paths whose handlers have started. */
  readonly started: string[] = [];
  /** How many handlers have come to their end. */
  finished = 0;

  start(path: string): void {
    this.started.push(path);
    this.emit("started", path);
  }

  /** Waits until `go` is called. */
  async wait(): Promise<void> {
    await once(this, "go");
  }

  /** Lets all handlers go on that wait now. */
  go(): void {
    this.emit("go");
  }

  /** One chunk at once, and one when it may go on. */
  async *chunks(): AsyncGenerator<string, void, undefined> {
    yield "first,";
    await this.wait();
    yield "last";
  }

  /** One chunk, then an error. */
  async *broken(): AsyncGenerator<string, void, undefined> {
    yield "first,";
    await this.wait();
    throw new Error("the source has failed");
  }
}

export interface Server {
  readonly port: number;
  close(): Promise<void>;
}

export interface Kind {
  readonly name: string;
  /** Whether the framework shows when a handler is done. */
  readonly showsHandlers: boolean;
  /** The status of an error that a handler throws. */
  start(admission: Admission, script: Script): Promise<Server>;
}

/** The key of a request for tests: what its header says; throws when that is `throw`. */
export function scopeOf(request: AdmissionRequest<unknown>): string | undefined {
  const scope = request.header("x-scope");
  if (scope === "throw") throw new Error("no key");
  return scope;
}

async function listen(server: http.Server): Promise<Server> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

async function answer(
  script: Script,
  request: http.IncomingMessage,
  response: http.ServerResponse,
): Promise<void> {
  const path = (request.url ?? "").split("?")[0] as string;
  script.start(path);
  switch (path) {
    case "/wait":
      await script.wait();
      response.end("done");
      break;
    case "/empty":
      response.writeHead(204).end();
      break;
    case "/not-modified":
      response.writeHead(304).end();
      break;
    case "/redirect":
      response.writeHead(302, { location: "/ok" }).end();
      break;
    case "/throw":
      throw new Error("thrown");
    case "/stream":
      Readable.from(script.chunks()).pipe(response);
      break;
    case "/sse":
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      response.write("data: 1\n\n");
      await script.wait();
      response.end("data: 2\n\n");
      break;
    case "/broken": {
      const source = Readable.from(script.broken());
      source.on("error", () => response.destroy());
      source.pipe(response);
      break;
    }
    case "/destroy":
      response.destroy();
      break;
    case "/own-fields":
      response.writeHead(200, { RateLimit: '"upstream";r=1' }).end("x");
      break;
    case "/missing":
      response.writeHead(404).end("missing");
      break;
    default:
      response.end("ok");
  }
  script.finished += 1;
}

function answerOrFail(script: Script) {
  return async (request: http.IncomingMessage, response: http.ServerResponse) => {
    try {
      await answer(script, request, response);
    } catch {
      if (!response.headersSent) response.writeHead(500).end();
    }
  };
}

export const kinds: readonly Kind[] = [
  {
    name: "node:http",
    showsHandlers: true,
    start: (admission, script) => listen(http.createServer(nodeListener(admission, answerOrFail(script)))),
  },
  {
    name: "Express",
    showsHandlers: false,
    start(admission, script) {
      const app = express();
      app.use(expressAdmission<express.Request>(admission));
      app.get("/own-fields", (_, response) => {
        response.set("RateLimit", '"upstream";r=1').send("x");
      });
      app.get("/throw", () => {
        script.start("/throw");
        throw new Error("thrown");
      });
      app.get("/missing", (_, __, next) => next());
      app.use((request, response, next) => {
        if (request.path === "/missing") next();
        else answer(script, request, response).catch(next);
      });
      app.use((error: Error, _: express.Request, response: express.Response, __: express.NextFunction) => {
        if (!response.headersSent) response.status(500).send(error.message);
      });
      return listen(http.createServer(app));
    },
  },
  {
    name: "Fastify",
    showsHandlers: true,
    async start(admission, script) {
      const app = fastify();
      await app.register(fastifyAdmission, { admission });
      app.get("/wait", async (request) => {
        script.start(request.url);
        await script.wait();
        script.finished += 1;
        return "done";
      });
      app.get("/empty", (_, reply) => reply.code(204).send());
      app.get("/not-modified", (_, reply) => reply.code(304).send());
      app.get("/redirect", (_, reply) => reply.redirect("/ok"));
      app.get("/own-fields", (_, reply) => reply.header("RateLimit", '"upstream";r=1').send("x"));
      app.get("/throw", async () => {
        throw new Error("thrown");
      });
      app.get("/stream", (_, reply) => reply.send(Readable.from(script.chunks())));
      app.get("/sse", (request, reply) => {
        reply.hijack();
        void answer(script, request.raw, reply.raw);
      });
      app.get("/broken", (_, reply) => reply.send(Readable.from(script.broken())));
      app.get("/destroy", (_, reply) => {
        reply.raw.destroy();
        return reply;
      });
      app.get("/ok", async (request) => {
        script.start(request.url);
        return "ok";
      });
      app.get("/left-alone", { config: { headgate: false } }, async () => "free");
      app.get("/items/:id", async () => "item");
      await app.listen({ port: 0, host: "127.0.0.1" });
      return {
        port: (app.server.address() as AddressInfo).port,
        async close() {
          app.server.closeAllConnections();
          await app.close();
        },
      };
    },
  },
  {
    name: "Koa",
    showsHandlers: true,
    start(admission, script) {
      const app = new Koa();
      app.silent = true;
      app.use(koaAdmission<Koa.Context>(admission));
      app.use(async (context) => {
        script.start(context.path);
        switch (context.path) {
          case "/wait":
            await script.wait();
            context.body = "done";
            break;
          case "/empty":
            context.status = 204;
            break;
          case "/not-modified":
            context.status = 304;
            break;
          case "/redirect":
            context.redirect("/ok");
            break;
          case "/own-fields":
            context.set("RateLimit", '"upstream";r=1');
            context.body = "x";
            break;
          case "/throw":
            throw new Error("thrown");
          case "/stream":
            context.body = Readable.from(script.chunks());
            break;
          case "/sse":
            context.respond = false;
            await answer(script, context.req, context.res);
            break;
          case "/broken":
            context.body = Readable.from(script.broken());
            break;
          case "/destroy":
            context.respond = false;
            context.res.destroy();
            break;
          case "/missing":
            break;
          default:
            context.body = "ok";
        }
        script.finished += 1;
      });
      return listen(http.createServer(app.callback()));
    },
  },
  {
    name: "Hono on Node",
    showsHandlers: true,
    async start(admission, script) {
      const server = serve({
        fetch: honoApp(admission, script).fetch,
        port: 0,
        hostname: "127.0.0.1",
      }) as http.Server;
      if (!server.listening) await once(server, "listening");
      return {
        port: (server.address() as AddressInfo).port,
        async close() {
          server.closeAllConnections();
          server.close();
          await once(server, "close");
        },
      };
    },
  },
];

export function honoApp(admission: Admission, script: Script): Hono {
  const app = new Hono();
  app.use(honoAdmission<Context>(admission));
  const text = (source: AsyncGenerator<string>) =>
    new Response(
      Readable.toWeb(Readable.from(source).map((chunk: string) => Buffer.from(chunk))) as ReadableStream,
    );
  app.get("/wait", async (context) => {
    script.start("/wait");
    await script.wait();
    script.finished += 1;
    return context.text("done");
  });
  app.get("/empty", (context) => context.body(null, 204));
  app.get("/not-modified", (context) => context.body(null, 304));
  app.get("/redirect", (context) => context.redirect("/ok"));
  app.get("/own-fields", (context) => context.text("x", 200, { RateLimit: '"upstream";r=1' }));
  app.get("/throw", () => {
    throw new Error("thrown");
  });
  app.get("/stream", () => text(script.chunks()));
  app.get("/sse", () => text(script.chunks()));
  app.get("/broken", () => text(script.broken()));
  app.get("/destroy", (context) => {
    (context.env as { outgoing?: http.ServerResponse }).outgoing?.destroy();
    return context.text("nobody reads it");
  });
  app.get("/ok", (context) => {
    script.start("/ok");
    return context.text("ok");
  });
  app.get("/items/:id", (context) => context.text("item"));
  app.onError((error, context) => context.text(error.message, 500));
  return app;
}
