import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/** What the server has seen of the requests that carry the same `id`. */
export interface Seen {
  requests: number;
  running: number;
  peak: number;
  /** Answers whose connection was closed before they were complete. */
  cut: number;
  /** When each came, in milliseconds. */
  times: number[];
  bodies: string[];
}

async function readAll(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  return text;
}

/** A server for the tests: its paths are what it does. Any origin may use it. */
export async function startServer(port = 0): Promise<{ url: string; close(): Promise<void> }> {
  const all = new Map<string, Seen>();
  const seenBy = (id: string): Seen => {
    let seen = all.get(id);
    if (seen === undefined) {
      seen = { requests: 0, running: 0, peak: 0, cut: 0, times: [], bodies: [] };
      all.set(id, seen);
    }
    return seen;
  };

  async function answer(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    const number = (name: string, other: number) => Number(url.searchParams.get(name) ?? other);
    switch (url.pathname) {
      case "/text":
        response.end("hello");
        return;
      case "/json":
        response.setHeader("content-type", "application/json").end('{"hello":"world"}');
        return;
      case "/form":
        response.setHeader("content-type", "application/x-www-form-urlencoded").end("a=1&b=2");
        return;
      case "/echo":
        response.end(await readAll(request));
        return;
      case "/slow":
        await sleep(number("ms", 50));
        response.end("slow");
        return;
      case "/pieces":
        for (let i = 0; i < number("count", 3); i++) {
          response.write(`piece ${i};`);
          await sleep(number("gapMs", 10));
        }
        response.end();
        return;
      case "/endless":
        while (!response.destroyed) {
          response.write("more;");
          await sleep(5);
        }
        return;
      case "/cut":
        response.write("half of it");
        await sleep(20);
        response.destroy();
        return;
      case "/redirect":
        response.writeHead(302, { location: `/text?id=${url.searchParams.get("id")}` }).end();
        return;
      // ?code=429&h=retry-after:2
      case "/status": {
        for (const header of url.searchParams.getAll("h")) {
          const colon = header.indexOf(":");
          response.setHeader(header.slice(0, colon), header.slice(colon + 1));
        }
        const code = number("code", 200);
        response.writeHead(code);
        response.end(code === 204 || code === 304 ? undefined : "status");
        return;
      }
      default:
        response.writeHead(404).end("nothing here");
    }
  }

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    response.setHeader("access-control-allow-origin", "*");
    response.setHeader("access-control-allow-headers", "*");
    response.setHeader("access-control-allow-methods", "*");
    response.setHeader("access-control-expose-headers", "*");
    if (request.method === "OPTIONS") {
      response.writeHead(204).end();
      return;
    }
    const id = url.searchParams.get("id") ?? "";
    if (url.pathname === "/seen") {
      response.setHeader("content-type", "application/json").end(JSON.stringify(seenBy(id)));
      return;
    }
    const seen = seenBy(id);
    seen.requests += 1;
    seen.running += 1;
    seen.peak = Math.max(seen.peak, seen.running);
    seen.times.push(performance.now());
    response.once("close", () => {
      seen.running -= 1;
      if (!response.writableFinished) seen.cut += 1;
    });
    void answer(request, response, url).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
