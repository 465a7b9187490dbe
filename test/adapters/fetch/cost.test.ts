import { createHook } from "node:async_hooks";
import { getEventListeners } from "node:events";
import { ConcurrencyLimiter, RateLimitRejectedError } from "headgate";
import { forSdk, type LimitedRequestInit, withRateLimiter } from "headgate/fetch";
import { trackLeases } from "headgate/testing";
import { describe, expect, it, vi } from "vitest";
import { CountingClock } from "../../support.js";

const URL_A = "https://a.example/";

/** How many promises are made while the work runs. */
async function promisesOf(work: () => Promise<unknown>): Promise<number> {
  let promises = 0;
  const hook = createHook({
    init(_id, type) {
      if (type === "PROMISE") promises += 1;
    },
  });
  hook.enable();
  try {
    await work();
  } finally {
    hook.disable();
  }
  return promises;
}

describe("what the wrapper costs when a permit is free", () => {
  const response = new Response(null);
  const inner = async () => response;
  // What any function around fetch costs: its own promise, and the wait for the inner one.
  const bare = async (input: string, init?: RequestInit) => {
    void input;
    void init;
    return await inner();
  };

  it("no promise beyond that of an async function", async () => {
    const limited = withRateLimiter(inner, new ConcurrencyLimiter({ permitLimit: 1 }));
    const init = { signal: new AbortController().signal };
    await limited(URL_A, init);
    const without = await promisesOf(() => bare(URL_A, init));
    expect(await promisesOf(() => limited(URL_A, init))).toBe(without);
    expect(await promisesOf(() => limited(URL_A, { headgate: { permits: 1, priority: 1 } }))).toBe(without);
  });

  it("one request to the limiter, no timer, no listener, no view of the address or the headers", async () => {
    const clock = new CountingClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, clock });
    const { signal } = new AbortController();
    const addEventListener = vi.spyOn(signal, "addEventListener");
    const makeUrl = vi.spyOn(globalThis, "URL");
    const makeHeaders = vi.spyOn(globalThis, "Headers");
    const makeResponse = vi.spyOn(globalThis, "Response");
    const limited = withRateLimiter(inner, limiter);
    expect(await limited(URL_A, { signal })).toBe(response);
    // The one reading is the limiter's.
    expect([clock.reads, clock.timersSet]).toEqual([1, 0]);
    expect(limiter.getStatistics()).toMatchObject({ totalSuccessfulLeases: 1, totalFailedLeases: 0 });
    for (const spy of [addEventListener, makeUrl, makeHeaders, makeResponse])
      expect(spy).not.toHaveBeenCalled();
  });

  it("with a body: one response around it, one more reading of the clock, one listener, no timer", async () => {
    const clock = new CountingClock();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, clock });
    const { signal } = new AbortController();
    const addEventListener = vi.spyOn(signal, "addEventListener");
    const original = new Response("hello");
    const limited = withRateLimiter(async () => original, limiter);
    let responses = 0;
    const makeHeaders = vi.spyOn(globalThis, "Headers");
    vi.stubGlobal(
      "Response",
      class extends Response {
        constructor(body: BodyInit, init: ResponseInit) {
          super(body, init);
          responses += 1;
          // The very headers of the original, for the host to read from.
          expect(init.headers).toBe(original.headers);
        }
      },
    );
    const held = await limited(URL_A, { signal });
    expect(responses).toBe(1);
    expect(makeHeaders).not.toHaveBeenCalled();
    expect(await held.text()).toBe("hello");
    expect([clock.reads, clock.timersSet, addEventListener.mock.calls.length]).toEqual([2, 0, 1]);
  });

  it("a refusal is one request to the limiter, and no promise but the caller's and that of what answers", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const limited = withRateLimiter(inner, limiter, { onRejected: forSdk() });
    using _held = limiter.attemptAcquire();
    const refused = await limited(URL_A);
    expect(refused.status).toBe(429);
    expect(limiter.getStatistics().totalFailedLeases).toBe(1);
  });
});

describe("100 000 calls that end in every possible way", () => {
  const ENDS = [
    "read",
    "cancelled",
    "reader cancelled",
    "left early",
    "failed body",
    "clone read",
    "clones cancelled",
    "no body",
    "headers only",
    "thrown",
    "rejected",
    "aborted before",
    "aborted while waiting",
    "aborted after headers",
    "refused",
    "deadline",
    "cost later",
    "onRejected throws",
    "hold throws",
    "bad permits",
  ] as const;
  type End = (typeof ENDS)[number];

  const failing = () =>
    new ReadableStream({
      pull() {
        throw new Error("broken");
      },
    });

  it("leave nothing in flight, no lease, no listener and no timer", { timeout: 300_000 }, async () => {
    const clock = new CountingClock();
    using limiter = trackLeases(new ConcurrencyLimiter({ permitLimit: 40, queueLimit: 20, clock }));
    const shared = new AbortController();
    const ended = new Map<End, number>();
    const kinds = new Map<string, End>();
    const limited = withRateLimiter(
      async (input) => {
        const end = kinds.get(String(input)) as End;
        // Some answers come later than others, so that calls wait for one another.
        if (end.length % 2 === 0) await new Promise((resolve) => setImmediate(resolve));
        if (end === "rejected") throw new Error("no connection");
        if (end === "no body") return new Response(null, { status: 204 });
        return new Response(end === "failed body" ? failing() : "some text");
      },
      limiter,
      {
        serverHints: false,
        maxHoldMs: 1000,
        hold: (_response, { input }) => {
          const end = kinds.get(String(input));
          if (end === "hold throws") throw new Error("hold");
          return end === "headers only" ? "headers" : "body";
        },
        actualPermits: (_response, { input }) =>
          kinds.get(String(input)) === "cost later" ? Promise.resolve(1) : 1,
        permits: ({ input }) => (kinds.get(String(input)) === "bad permits" ? -1 : 1),
        onRejected: ({ reason }, { input }) => {
          if (kinds.get(String(input)) === "onRejected throws") throw new Error("mine");
          throw new RateLimitRejectedError({ reason });
        },
      },
    );

    async function make(end: End, number: number): Promise<void> {
      const url = `${URL_A}${number}`;
      kinds.set(url, end);
      const controller = new AbortController();
      const init: LimitedRequestInit<never> = {
        signal: number % 3 === 0 ? shared.signal : controller.signal,
        headgate: { deadline: end === "deadline" ? -1 : 1e9, permits: undefined },
      };
      try {
        if (end === "aborted before") controller.abort();
        const promise = limited(url, end.startsWith("aborted") ? { signal: controller.signal } : init);
        if (end === "aborted while waiting") controller.abort();
        const response = await promise;
        if (end === "aborted after headers") controller.abort();
        else if (end === "cancelled") await response.body?.cancel();
        else if (end === "reader cancelled") await response.body?.getReader().cancel("enough");
        else if (end === "left early") for await (const _piece of response.body ?? []) break;
        else if (end === "clone read") await response.clone().text();
        else if (end === "clones cancelled") {
          const copy = response.clone();
          await Promise.all([copy.body?.cancel(), response.body?.cancel()]);
        } else await response.text();
      } catch {
        // How it ended is counted below; that it left nothing behind is what this is about.
      } finally {
        kinds.delete(url);
        ended.set(end, (ended.get(end) ?? 0) + 1);
      }
    }

    const ROUND = 100;
    for (let number = 0; number < 100_000; number += ROUND) {
      const calls: Promise<void>[] = [];
      for (let i = 0; i < ROUND; i++)
        calls.push(make(ENDS[(number + i * 7) % ENDS.length] as End, number + i));
      await Promise.all(calls);
    }
    await limited.drain();

    expect([...ended.values()]).toEqual(ENDS.map(() => 100_000 / ENDS.length));
    const { totalStarted, totalRejected, totalAborted, ...now } = limited.getStatistics();
    expect(now).toMatchObject({ waiting: 0, active: 0, heldBodies: 0, oldestHeldBodyMs: undefined });
    expect(Math.min(totalStarted, totalRejected, totalAborted)).toBeGreaterThan(1000);
    expect(limiter.held).toHaveLength(0);
    expect(limiter.getStatistics()).toMatchObject({ currentAvailablePermits: 40, currentQueuedCount: 0 });
    expect(getEventListeners(shared.signal, "abort")).toHaveLength(0);
    expect(clock.timerCount).toBe(0);
    console.log(
      `100000 calls: ${totalStarted} started, ${totalRejected} refused, ${totalAborted} aborted before they started; 0 in flight`,
    );
  });
});
