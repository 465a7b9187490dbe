import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { ConcurrencyLimiter } from "headgate";
import { withRateLimiter } from "headgate/fetch";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startServer } from "./server.js";
import { behaviours } from "./suite.js";

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

describe("a wrapped fetch against a real server", () => {
  for (const [name, show] of behaviours) it(name, () => show(server.url));
});

describe("a wrapped fetch of Node", () => {
  const one = (queueLimit = 30) => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit });
    return { limiter, limited: withRateLimiter(fetch, limiter) };
  };

  it("a 304 and a redirect that is not followed hold nothing", async () => {
    const { limited, limiter } = one();
    const unchanged = await limited(`${server.url}/status?code=304`, { headers: { "if-none-match": "x" } });
    expect([unchanged.status, unchanged.body]).toEqual([304, null]);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
    const redirect = await limited(`${server.url}/redirect`, { redirect: "manual" });
    expect([redirect.status, redirect.headers.get("location")]).toEqual([302, "/text?id=null"]);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
    const empty = await limited(`${server.url}/echo`, { method: "POST" });
    expect([empty.status, empty.headers.get("content-length"), empty.body === null]).toEqual([
      200,
      "0",
      false,
    ]);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it("uses one connection for calls one after the other, and decodes what is compressed", async () => {
    const { limited } = one();
    const sockets = new Set<unknown>();
    const local = createServer((request, response) => {
      sockets.add(request.socket);
      response.setHeader("content-encoding", "gzip").end(gzipSync("compressed"));
    });
    await new Promise<void>((resolve) => local.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(local.address() as AddressInfo).port}`;
    const bodies = await Promise.all(Array.from({ length: 20 }, async () => (await limited(url)).text()));
    expect(bodies).toEqual(Array(20).fill("compressed"));
    expect(sockets.size).toBe(1);
    local.closeAllConnections();
    local.close();
  });

  it("a body that is left alone is not read: the server is held up by it, and goes on when it is read", async () => {
    const { limited, limiter } = one();
    let written = 0;
    const SIZE = 64 * 1024;
    const PIECES = 400;
    const local = createServer((_request, response) => {
      const write = () => {
        while (written < PIECES) {
          written += 1;
          if (!response.write(Buffer.alloc(SIZE))) {
            response.once("drain", write);
            return;
          }
        }
        response.end();
      };
      write();
    });
    await new Promise<void>((resolve) => local.listen(0, "127.0.0.1", resolve));
    const response = await limited(`http://127.0.0.1:${(local.address() as AddressInfo).port}`);
    let before = -1;
    while (written !== before) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    expect(written).toBeLessThan(PIECES);
    expect((await response.arrayBuffer()).byteLength).toBe(PIECES * SIZE);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
    local.closeAllConnections();
    local.close();
  });

  it("a process ends though a body was forgotten, but not while a call waits for its place", () => {
    const entry = (path: string) =>
      JSON.stringify(fileURLToPath(new URL(`../../../dist/${path}`, import.meta.url)));
    const run = (script: string) =>
      spawnSync(process.execPath, ["--input-type=module"], {
        encoding: "utf8",
        timeout: 30_000,
        input: `
          import { ConcurrencyLimiter } from ${entry("src/index.js")};
          import { withRateLimiter } from ${entry("adapters/fetch/index.js")};
          const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
          const make = (maxHoldMs) => withRateLimiter(async () => new Response("x"), limiter, { maxHoldMs });
          ${script}`,
      });
    const forgotten = run(`await make(3_600_000)("https://a.example"); console.log("end");`);
    expect([forgotten.status, forgotten.stdout]).toEqual([0, "end\n"]);
    const waiting = run(
      `const limited = make(300); await limited("https://a.example"); console.log(await (await limited("https://a.example")).text());`,
    );
    expect([waiting.status, waiting.stdout]).toEqual([0, "x\n"]);
  });
});
