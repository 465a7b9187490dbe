import { type Admission, concurrencyLimit, rateLimit } from "headgate/http";
import { describe, expect, it } from "vitest";
import { flush } from "../../support.js";
import { honoApp, Script, scopeOf } from "./servers.js";

/** Hono without a server, as on hosts that speak the Web standard. */
function start(admission: Admission) {
  const script = new Script();
  const app = honoApp(admission, script);
  return { app, script };
}

describe("Hono off Node", () => {
  it("holds a slot until the body has been read, and refuses the rest", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const { app } = start(admission);
    const first = await app.request("/ok");
    const refused = await app.request("/ok");
    expect([refused.status, (await refused.json()).status]).toEqual([503, 503]);
    expect(await first.text()).toBe("ok");
    expect(first.headers.get("content-type")).toMatch(/^text\/plain/);
    expect(admission.getStatistics()).toMatchObject({ active: 0, completed: 1, shed: 1 });
  });

  it.each(["/empty", "/redirect", "/missing", "/throw", "/items/7"])(
    "gives the slot back after %s",
    async (path) => {
      const admission = concurrencyLimit({ maxConcurrent: 1 });
      const { app } = start(admission);
      const answer = await app.request(path);
      expect(answer.status).not.toBe(503);
      await answer.text();
      expect(admission.getStatistics()).toMatchObject({ active: 0, failed: path === "/throw" ? 1 : 0 });
    },
  );

  it("gives the slot back when a stream is cancelled or fails", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const { app } = start(admission);
    app.get(
      "/failing",
      () => new Response(new ReadableStream({ pull: (c) => c.error(new Error("failed")) })),
    );
    const stream = await app.request("/stream");
    expect(admission.getStatistics().active).toBe(1);
    await stream.body?.cancel();
    expect(admission.getStatistics()).toMatchObject({ active: 0, aborted: 1 });
    await expect((await app.request("/failing")).text()).rejects.toThrow("failed");
    expect(admission.getStatistics()).toMatchObject({ active: 0, failed: 1 });
  });

  it("takes a client out of the queue that leaves", async () => {
    const admission = concurrencyLimit({ maxConcurrent: 1, maxQueue: 1 });
    const { app, script } = start(admission);
    const first = app.request("/wait");
    await flush();
    const leaving = new AbortController();
    const second = app.request("/ok", { signal: leaving.signal });
    await flush();
    expect(admission.getStatistics().queued).toBe(1);
    leaving.abort();
    expect((await second).status).toBe(499);
    script.go();
    await (await first).text();
    expect(script.started).toEqual(["/wait"]);
    expect(admission.getStatistics()).toMatchObject({ active: 0, clientGone: 1 });
  });

  it("puts the limits after what the handler says, and passes errors of key functions on", async () => {
    const admission = rateLimit({ limit: 5, windowMs: 60_000, scope: scopeOf, algorithm: "fixedWindow" });
    const { app } = start(admission);
    const headers = { "x-scope": "a" };
    const own = await app.request("/own-fields", { headers });
    expect(own.headers.get("ratelimit")).toBe('"upstream";r=1, "rate";r=4;t=60');
    expect((await app.request("/ok", { headers: { "x-scope": "throw" } })).status).toBe(500);
    const unlimited = await app.request("/ok");
    expect([unlimited.status, unlimited.headers.get("ratelimit")]).toEqual([200, null]);
  });

  it("counts by the pattern of the route", async () => {
    const keys: (string | undefined)[] = [];
    const admission = concurrencyLimit({
      maxConcurrent: 1,
      scope: "route",
      onReject: ({ key }) => keys.push(key),
    });
    const { app } = start(admission);
    await app.request("/items/1");
    await app.request("/items/2");
    await app.request("/missing/1");
    await app.request("/missing/2");
    expect(keys).toEqual(["GET /items/:id"]);
  });
});
