import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { ConcurrencyLimiter } from "headgate";
import { createAdmission } from "headgate/http";
import { nodeListener } from "headgate/http/node";
import { trackLeases } from "headgate/testing";
import { describe, expect, it, vi } from "vitest";
import { flush, ManualClock } from "../../support.js";
import { type FakeRequest, FakeResponse, fakeRequest } from "./fakes.js";
import { randomFrom, request } from "./support.js";

const ON_NODE = 90_000;
const REQUESTS = 5_000;
const ON_SOCKETS = 5_000;

describe("100 000 requests that end in every possible way", () => {
  it("leave nothing held (90 000 of node:http, without sockets)", async () => {
    const random = randomFrom(5);
    const clock = new ManualClock();
    const slots = trackLeases(
      new ConcurrencyLimiter({ permitLimit: 9, queueLimit: 6, queueTimeoutMs: 50, clock }),
    );
    const inner = new ConcurrencyLimiter({ permitLimit: 7, queueLimit: 3, clock });
    const admission = createAdmission<FakeRequest>({
      policies: [
        {
          name: "slots",
          kind: "concurrency",
          limiter: slots,
          permits: ({ path }) => (path === "/2" ? 2 : 1),
        },
        {
          name: "keys",
          kind: "concurrency",
          limiter: () => new ConcurrencyLimiter({ permitLimit: 5, queueLimit: 1, clock }),
          scope: ({ path }) => {
            if (path === "/throw") throw new Error("no key");
            if (path === "/late") return Promise.resolve("late");
            return path === "/free" ? undefined : "key";
          },
        },
        { name: "inner", kind: "concurrency", limiter: inner },
      ],
      deadline: ({ path }) => (path === "/deadline" ? 20 : path === "/past" ? 0 : undefined),
      maxHoldMs: 500,
      clock,
    });
    const open: FakeResponse[] = [];
    let [handled, thrown] = [0, 0];
    const listener = nodeListener(admission, (_: FakeRequest, response: FakeResponse) => {
      handled += 1;
      const way = random();
      if (way < 0.2) response.end();
      else if (way < 0.25) response.writeHead(500).end();
      else if (way < 0.3) response.writeHead(503).end();
      else if (way < 0.4) response.leave();
      else open.push(response);
      if (way > 0.99) {
        thrown += 1;
        throw new Error("thrown");
      }
    });
    const paths = ["/", "/", "/", "/2", "/throw", "/late", "/free", "/deadline", "/past"];
    // A handler that throws when its turn has come is an uncaught exception, as it is without admission.
    const uncaught = process.rawListeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", () => {});
    for (let i = 0; i < ON_NODE; i++) {
      const response = new FakeResponse();
      const url = paths[Math.floor(random() * paths.length)] as string;
      try {
        listener({ ...fakeRequest("1.2.3.4"), url }, response);
      } catch {
        // The server sees it.
      }
      const fate = random();
      if (fate < 0.1) response.leave();
      else if (fate < 0.3) await Promise.resolve();
      if (open.length > 0 && random() < 0.7) {
        const [one] = open.splice(Math.floor(random() * open.length), 1);
        if (random() < 0.8) one?.end();
        else one?.leave();
      }
      if (random() < 0.1) clock.advance(random() * 60);
      if (i % 1000 === 999) clock.advance(501);
    }
    while (admission.getStatistics().active + admission.getStatistics().queued > 0) {
      clock.advance(501);
      await flush();
    }
    process.removeAllListeners("uncaughtException");
    for (const one of uncaught) process.on("uncaughtException", one as () => void);
    expect(slots.held).toEqual([]);
    expect(inner.getStatistics().currentAvailablePermits).toBe(7);
    const { admitted, completed, failed, aborted, holdExpired, shed, clientGone } = admission.getStatistics();
    expect({ ended: completed + failed + aborted + holdExpired, handled }).toEqual({
      ended: admitted,
      handled,
    });
    expect(handled).toBeLessThanOrEqual(admitted);
    for (const count of [completed, failed, aborted, holdExpired, shed, clientGone, thrown]) {
      expect(count).toBeGreaterThan(50);
    }
    console.log(
      `${ON_NODE} requests: ${admitted} admitted (${completed} completed, ${failed} failed, ${aborted} aborted, ` +
        `${holdExpired} held too long), ${shed} shed, ${clientGone} gone; 0 held`,
    );
  }, 300_000);

  it("leave nothing held (5000 of the Web standard)", async () => {
    const random = randomFrom(7);
    const clock = new ManualClock();
    const slots = trackLeases(
      new ConcurrencyLimiter({ permitLimit: 4, queueLimit: 4, queueTimeoutMs: 50, clock }),
    );
    const inner = trackLeases(new ConcurrencyLimiter({ permitLimit: 3, queueLimit: 2, clock }));
    const admission = createAdmission<Request>({
      policies: [
        {
          name: "slots",
          kind: "concurrency",
          limiter: slots,
          permits: ({ path }) => (path === "/2" ? 2 : 1),
        },
        {
          name: "keys",
          kind: "concurrency",
          limiter: () => new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 1, clock }),
          scope: ({ path }) => {
            if (path === "/throw") throw new Error("no key");
            if (path === "/late") return Promise.resolve("late");
            return path === "/free" ? undefined : "key";
          },
        },
        { name: "inner", kind: "concurrency", limiter: inner },
      ],
      deadline: ({ path }) => (path === "/deadline" ? 20 : path === "/past" ? 0 : undefined),
      maxHoldMs: 500,
      clock,
    });
    const ways = ["null", "text", "cancel", "throw", "reject", "fail", "unread", "status", "clone", "wait"];
    const paths = ["/", "/2", "/throw", "/late", "/free", "/deadline", "/past"];
    const serve = admission.wrap(async (_, way: string) => {
      if (way === "throw") throw new Error("thrown");
      if (way === "wait") await Promise.resolve().then(() => Promise.resolve());
      if (way === "reject") return Promise.reject(new Error("rejected"));
      if (way === "null") return new Response(null, { status: 204 });
      if (way === "status") return new Response("x", { status: 500 });
      if (way === "fail")
        return new Response(new ReadableStream({ pull: (c) => c.error(new Error("source")) }));
      return new Response("text");
    });
    const pick = (list: readonly string[]) => list[Math.floor(random() * list.length)] as string;
    const seen = new Map<string, number>();
    let running = 0;
    /** Lets time pass until all have been answered: who has not been read holds its slot until then. */
    const settle = async () => {
      while (running > 0) {
        clock.advance(501);
        await flush();
      }
    };
    const one = async (way: string, path: string, leaving: AbortController | undefined) => {
      running += 1;
      try {
        const answer = await serve(
          request(path, leaving === undefined ? {} : { signal: leaving.signal }),
          way,
        );
        seen.set(`${answer.status}`, (seen.get(`${answer.status}`) ?? 0) + 1);
        if (way === "cancel") await answer.body?.cancel();
        else if (way === "clone") await Promise.all([answer.clone().text(), answer.text()]);
        // What nobody reads is held until maxHoldMs.
        else if (way !== "unread") await answer.text();
      } catch {
        seen.set("error", (seen.get("error") ?? 0) + 1);
      } finally {
        running -= 1;
      }
    };
    for (let i = 0; i < REQUESTS; i++) {
      const leaving = random() < 0.3 ? new AbortController() : undefined;
      void one(pick(ways), pick(paths), leaving);
      if (leaving !== undefined && random() < 0.7) {
        if (random() < 0.5) await Promise.resolve();
        leaving.abort();
      }
      if (random() < 0.1) clock.advance(random() * 60);
      if (i % 20 === 19) await settle();
    }
    await settle();
    clock.advance(501);
    expect(slots.held).toEqual([]);
    expect(inner.held).toEqual([]);
    const { active, queued, admitted, completed, failed, aborted, holdExpired, shed, clientGone } =
      admission.getStatistics();
    expect({ active, queued, ended: completed + failed + aborted + holdExpired }).toEqual({
      active: 0,
      queued: 0,
      ended: admitted,
    });
    for (const count of [completed, failed, aborted, holdExpired, shed, clientGone])
      expect(count).toBeGreaterThan(50);
    expect([...seen.keys()].sort()).toEqual(["200", "204", "499", "500", "503", "error"]);
    console.log(
      `${REQUESTS} requests: ${admitted} admitted (${completed} completed, ${failed} failed, ${aborted} aborted, ` +
        `${holdExpired} held too long), ${shed} shed, ${clientGone} gone; 0 held`,
    );
  }, 300_000);

  it("leave nothing held (5000 on sockets)", async () => {
    const random = randomFrom(11);
    const limiter = trackLeases(new ConcurrencyLimiter({ permitLimit: 8, queueLimit: 8 }));
    const admission = createAdmission<http.IncomingMessage>({
      policies: [{ name: "slots", kind: "concurrency", limiter }],
    });
    const server = http.createServer(
      nodeListener(admission, (message: http.IncomingMessage, response: http.ServerResponse) => {
        switch (message.url) {
          case "/later":
            setImmediate(() => response.end("later"));
            break;
          case "/destroy":
            response.destroy();
            break;
          case "/half":
            response.write("half");
            setImmediate(() => response.destroy());
            break;
          case "/empty":
            response.writeHead(204).end();
            break;
          case "/never":
            break;
          default:
            response.end("now");
        }
      }),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo;
    const paths = ["/", "/", "/later", "/destroy", "/half", "/empty", "/never"];
    let sent = 0;
    const client = async () => {
      while (sent < ON_SOCKETS) {
        const socket = net.connect(port, "127.0.0.1");
        socket.on("error", () => {});
        let text = "";
        const count = 1 + Math.floor(random() * 6);
        for (let i = 0; i < count; i++) {
          const path = paths[Math.floor(random() * paths.length)];
          text += `${random() < 0.1 ? "HEAD" : "GET"} ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
        }
        sent += count;
        const closed = once(socket, "close");
        socket.write(text);
        // Some leave at once, some when they have heard a little.
        let heard = 0;
        socket.on("data", () => {
          heard += 1;
        });
        const wanted = Math.floor(random() * 4);
        const turns = wanted === 0 ? random() * 20 : 200;
        for (let i = 0; i < turns && heard <= wanted && !socket.destroyed; i++)
          await new Promise(setImmediate);
        if (random() < 0.5) socket.destroy();
        else socket.resetAndDestroy();
        await closed;
      }
    };
    await Promise.all(Array.from({ length: 20 }, client));
    await vi.waitFor(() => expect(limiter.held).toEqual([]), { timeout: 10_000 });
    const { active, queued, admitted, completed, failed, aborted, shed, clientGone } =
      admission.getStatistics();
    expect({ active, queued, failed, ended: completed + aborted }).toEqual({
      active: 0,
      queued: 0,
      failed: 0,
      ended: admitted,
    });
    for (const end of [completed, aborted, shed]) expect(end).toBeGreaterThan(50);
    console.log(
      `${sent} sent: ${completed} completed, ${aborted} aborted, ${shed} shed, ${clientGone} gone; 0 held`,
    );
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  }, 300_000);
});
