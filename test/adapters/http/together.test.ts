import { AsyncLocalStorage } from "node:async_hooks";
import { ConcurrencyLimiter } from "headgate";
import { AdaptiveConcurrencyLimiter, AimdLimit } from "headgate/adaptive";
import { concurrencyLimit, createAdmission } from "headgate/http";
import { nodeListener } from "headgate/http/node";
import { describe, expect, it } from "vitest";
import { CountingClock, flush, ManualClock } from "../../support.js";
import { type FakeRequest, FakeResponse, fakeRequest } from "./fakes.js";
import { gated, request } from "./support.js";

describe("an adaptive limiter in front of a server", () => {
  function start() {
    const clock = new ManualClock();
    const limiter = new AdaptiveConcurrencyLimiter({
      limit: new AimdLimit({ initialLimit: 20, minLimit: 1, maxLimit: 100, timeoutMs: 1000 }),
      clock,
    });
    const admission = createAdmission<Request>({
      policies: [{ name: "adaptive", kind: "concurrency", limiter }],
      clock,
    });
    return { clock, limiter, admission };
  }

  it("lowers its limit when the handler answers 503, and when it takes too long", async () => {
    const { clock, limiter, admission } = start();
    await admission.wrap(() => new Response(null, { status: 503 }))(request());
    const afterDrop = limiter.permitLimit;
    expect(afterDrop).toBeLessThan(20);
    const { handler, finish } = gated();
    const slow = admission.wrap(handler)(request());
    clock.advance(5000);
    finish();
    await slow;
    expect(limiter.permitLimit).toBeLessThan(afterDrop);
  });

  it("keeps its limit when clients leave, and when an admission further in refuses", async () => {
    const { limiter, admission } = start();
    const leaving = new AbortController();
    await admission.wrap(() => new Response("x"))(request("/", { signal: leaving.signal }));
    leaving.abort();
    const full = new ConcurrencyLimiter({ permitLimit: 1 });
    full.attemptAcquire();
    const inner = createAdmission<Request>({ policies: [{ name: "own", kind: "rate", limiter: full }] });
    for (let i = 0; i < 50; i++) {
      const answer = await admission.wrap(inner.wrap(() => new Response()))(request());
      await answer.text();
    }
    expect(inner.getStatistics().shed).toBe(50);
    expect(limiter.permitLimit).toBe(20);
    expect(admission.getStatistics()).toMatchObject({ aborted: 1, completed: 50, active: 0 });
  });
});

describe("a request that waits on node:http", () => {
  it("is handled in its own async context, in a turn of its own", async () => {
    const storage = new AsyncLocalStorage<string>();
    const admission = concurrencyLimit({ maxConcurrent: 1, maxQueue: 5 });
    const seen: (string | undefined)[] = [];
    const open: FakeResponse[] = [];
    const listener = nodeListener(admission, (_: FakeRequest, response: FakeResponse) => {
      seen.push(storage.getStore());
      open.push(response);
    });
    for (const name of ["a", "b", "c"])
      storage.run(name, () => listener(fakeRequest("1.2.3.4"), new FakeResponse()));
    expect(seen).toEqual(["a"]);
    storage.run("somebody else", () => open[0]?.end());
    expect(seen).toEqual(["a"]);
    await flush();
    expect(seen).toEqual(["a", "b"]);
    open[1]?.end();
    await flush();
    expect(seen).toEqual(["a", "b", "c"]);
  });
});

describe("what an uncontended request costs on node:http", () => {
  it("is one acquire, two listeners, no timer and no clock reading", () => {
    const clock = new CountingClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 5, queueLimit: 5, queueTimeoutMs: 1000, clock });
    const admission = createAdmission({ policies: [{ name: "a", kind: "concurrency", limiter }], clock });
    let listeners = 0;
    const listener = nodeListener(admission, (_: FakeRequest, response: FakeResponse) => {
      listeners += response.listenerCount("finish") + response.listenerCount("close");
      response.end();
    });
    const { reads, timersSet } = clock;
    for (let i = 0; i < 10; i++) listener(fakeRequest("1.2.3.4"), new FakeResponse());
    expect({
      acquires: limiter.getStatistics().totalSuccessfulLeases,
      listeners,
      reads: clock.reads - reads,
      timers: clock.timersSet - timersSet,
    }).toEqual({ acquires: 10, listeners: 20, reads: 0, timers: 0 });
  });

  it("is no listener at all for one that is refused", () => {
    const admission = concurrencyLimit({ maxConcurrent: 1 });
    const listener = nodeListener(admission, (_: FakeRequest, __: FakeResponse) => {});
    listener(fakeRequest("1.2.3.4"), new FakeResponse());
    const refused = new FakeResponse();
    let added = 0;
    refused.on = function (this: FakeResponse) {
      added += 1;
      return this;
    } as typeof refused.on;
    listener(fakeRequest("1.2.3.4"), refused);
    expect([refused.statusCode, added]).toEqual([503, 0]);
  });
});
