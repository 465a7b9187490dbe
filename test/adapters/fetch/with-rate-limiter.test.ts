import { getEventListeners } from "node:events";
import {
  ConcurrencyLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  RateLimitLease,
  RateLimitPartition,
  RateLimitRejectedError,
  shadowed,
  TokenBucketRateLimiter,
} from "headgate";
import { AdaptiveConcurrencyLimiter } from "headgate/adaptive";
import {
  type FetchLike,
  type FetchLimiterOptions,
  forSdk,
  type OutgoingRequest,
  type RateLimitedFetch,
  withRateLimiter,
} from "headgate/fetch";
import { ManualClock } from "headgate/testing";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { AcquireSink } from "../../../src/internal.js";
import { flush, watch } from "../../support.js";
import { pieces, stubFetch } from "./stub.js";

const URL_A = "https://a.example/";

let clock: ManualClock;
let stub: ReturnType<typeof stubFetch>;
beforeEach(() => {
  clock = new ManualClock();
  stub = stubFetch();
});

const concurrency = (permitLimit: number, queueLimit = 10) =>
  new ConcurrencyLimiter({ permitLimit, queueLimit, clock });

/** A limiter that asks another one, and notes what is reported to its leases. */
function reportingTo(outcomes: string[], limiter: RateLimiter): RateLimiter {
  class Noting extends NoLimiter {
    protected override acquireCore(permitCount: number): RateLimitLease {
      const lease = limiter.attemptAcquire(permitCount);
      vi.spyOn(lease, "report").mockImplementation((outcome) => void outcomes.push(outcome));
      return lease;
    }
    get [Symbol.for("headgate.inside.v1")]() {
      return undefined;
    }
  }
  return new Noting();
}

/** The answer of a call that the stub answers at once. */
async function answered(promise: Promise<Response>, body?: BodyInit, init?: ResponseInit): Promise<Response> {
  await flush();
  stub.sent.at(-1)?.answer(body, init);
  return promise;
}

function idle(limited: RateLimitedFetch<never>): void {
  expect(limited.getStatistics()).toMatchObject({ waiting: 0, active: 0, heldBodies: 0 });
}

describe("admission", () => {
  it("sends calls one after the other as permits come back, and each once", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(2));
    const calls = Array.from({ length: 5 }, () => watch(limited(URL_A)));
    await flush();
    expect(stub.sent).toHaveLength(2);
    expect(limited.getStatistics()).toMatchObject({ active: 2, waiting: 3, totalStarted: 2 });
    stub.sent[0]?.answer();
    await flush();
    expect(stub.sent).toHaveLength(3);
    for (let i = 1; i < 5; i++) {
      stub.sent[i]?.answer();
      await flush();
    }
    expect(calls.every((call) => call.state === "fulfilled")).toBe(true);
    expect(stub.sent).toHaveLength(5);
    idle(limited);
  });

  it("refuses at once when there is no room to wait", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1, 0));
    void limited(URL_A);
    const error: unknown = await limited(URL_A).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RateLimitRejectedError);
    expect(error).toMatchObject({ reason: "limit_reached", code: "ERR_RATE_LIMIT_REJECTED" });
    expect(String(error)).toBe(
      "RateLimitRejectedError: The request was not sent: the rate limit has been reached.",
    );
    expect(stub.sent).toHaveLength(1);
    expect(limited.getStatistics()).toMatchObject({ totalRejected: 1, totalAborted: 0 });
  });

  it("refuses when a call has waited for maxWaitMs", async () => {
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter, { maxWaitMs: 30 });
    void limited(URL_A);
    const second = watch(limited(URL_A));
    clock.advance(29);
    await flush();
    expect(second.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(second.reason).toMatchObject({ reason: "queue_timeout" });
    // The pattern by which openai and anthropic tell time-outs.
    expect(String(second.reason)).not.toMatch(/timed? ?out/i);
    expect(limiter.getStatistics().currentQueuedCount).toBe(0);
    expect(limited.getStatistics()).toMatchObject({ waiting: 0, totalRejected: 1 });
  });

  it("refuses at once when the wait would be longer than maxWaitMs", async () => {
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 1,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 10_000,
      queueLimit: 10,
      clock,
    });
    const limited = withRateLimiter(stub.fetch, limiter, { maxWaitMs: 2000 });
    void limited(URL_A);
    await expect(limited(URL_A)).rejects.toMatchObject({ reason: "deadline_unmet", retryAfterMs: 10_000 });
  });

  it("ends the wait at the deadline, and says that it was the deadline", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1), { deadline: () => 50, maxWaitMs: 200 });
    void limited(URL_A);
    const second = watch(limited(URL_A));
    clock.advance(50);
    await flush();
    expect(second.reason).toMatchObject({ reason: "deadline_expired" });
  });

  it("ends the wait at maxWaitMs when that comes first, and says so", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1), { maxWaitMs: 30 });
    void limited(URL_A);
    const second = watch(limited(URL_A, { headgate: { deadline: 50 } }));
    clock.advance(30);
    await flush();
    expect(second.reason).toMatchObject({ reason: "queue_timeout" });
  });

  it("does not ask the limiter when the deadline has passed", async () => {
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter, { deadline: () => 0 });
    await expect(limited(URL_A)).rejects.toMatchObject({ reason: "deadline_expired" });
    expect(limiter.getStatistics()).toMatchObject({ totalFailedLeases: 0, totalSuccessfulLeases: 0 });
    expect(stub.sent).toHaveLength(0);
  });

  it("serves the higher priority first, and within one whoever came first", async () => {
    const limiter = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 10,
      queueProcessingOrder: "highestPriorityFirst",
      clock,
    });
    const limited = withRateLimiter(stub.fetch, limiter, {
      priority: ({ headers }) => Number(headers.get("x-priority") ?? 0),
    });
    const make = (path: string, priority: number) =>
      void limited(URL_A + path, { headers: { "x-priority": String(priority) } });
    make("first", 0);
    make("low", 1);
    make("high", 5);
    make("high2", 5);
    void limited(`${URL_A}urgent`, { headgate: { priority: 9 } });
    for (let i = 0; i < 5; i++) {
      await flush();
      stub.sent[i]?.answer();
    }
    expect(stub.sent.map(({ input }) => String(input).slice(URL_A.length))).toEqual([
      "first",
      "urgent",
      "high",
      "high2",
      "low",
    ]);
  });

  it("takes as many permits as the call says, or the options", async () => {
    const limiter = concurrency(10);
    const limited = withRateLimiter(stub.fetch, limiter, {
      permits: ({ method }) => (method === "POST" ? 4 : 1),
    });
    void limited(URL_A, { method: "post" });
    expect(limiter.getStatistics().currentAvailablePermits).toBe(6);
    void limited(URL_A);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(5);
    void limited(URL_A, { headgate: { permits: 2 } });
    expect(limiter.getStatistics().currentAvailablePermits).toBe(3);
    void limited(URL_A, { headgate: { permits: 0 } });
    expect(limiter.getStatistics().currentAvailablePermits).toBe(3);
    expect(stub.sent).toHaveLength(4);
  });

  it.each([Number.NaN, -1, 1.5, "2", Number.POSITIVE_INFINITY])("rejects %s permits", async (permits) => {
    const limited = withRateLimiter(stub.fetch, concurrency(1), { permits: () => permits as number });
    await expect(limited(URL_A)).rejects.toThrow(/^permits must be an integer from 0/);
    await limited.drain();
    expect(stub.sent).toHaveLength(0);
  });

  it("asks each limiter once for a call, in the order of the wrappers", async () => {
    const [outerLimiter, innerLimiter] = [concurrency(2), concurrency(1, 0)];
    const limited = withRateLimiter(withRateLimiter(stub.fetch, innerLimiter), outerLimiter);
    void limited(URL_A);
    const refused = watch(limited(URL_A));
    await flush();
    expect(refused.state).toBe("rejected");
    const totals = [outerLimiter, innerLimiter].map((limiter) => limiter.getStatistics());
    expect(totals.map((total) => [total.totalSuccessfulLeases, total.totalFailedLeases])).toEqual([
      [2, 0],
      [1, 1],
    ]);
  });

  it.each(["settled", "failed"] as const)(
    "is told when the answer comes while it is asked for: %s",
    async (how) => {
      const error = new Error("limiter");
      const real = concurrency(1);
      class Early extends NoLimiter {
        get [Symbol.for("headgate.inside.v1")]() {
          return {
            acquireWith: (count: number, _options: object, sink: AcquireSink) => {
              if (how === "settled") sink.settled(real.attemptAcquire(count));
              else sink.failed(error);
              return { cancel: () => false };
            },
          };
        }
      }
      const limited = withRateLimiter(stub.fetch, new Early());
      const call = watch(limited(URL_A));
      await flush();
      expect(limited.getStatistics().waiting).toBe(0);
      if (how === "failed") {
        expect(call.reason).toBe(error);
        return;
      }
      expect(real.getStatistics().currentAvailablePermits).toBe(0);
      stub.sent[0]?.answer();
      await flush();
      expect(call.state).toBe("fulfilled");
      expect(real.getStatistics().currentAvailablePermits).toBe(1);
    },
  );

  it("an abort in the inner queue of two gives the outer lease back", async () => {
    const outerLimiter = concurrency(5);
    const innerLimiter = concurrency(1);
    const inner = withRateLimiter(stub.fetch, innerLimiter);
    const outer = withRateLimiter(inner, outerLimiter);
    void outer(URL_A);
    const controller = new AbortController();
    const second = watch(outer(URL_A, { signal: controller.signal }));
    await flush();
    expect(outerLimiter.getStatistics().currentAvailablePermits).toBe(3);
    controller.abort();
    await flush();
    expect(second.state).toBe("rejected");
    expect(outerLimiter.getStatistics().currentAvailablePermits).toBe(4);
    expect(innerLimiter.getStatistics().currentQueuedCount).toBe(0);
  });
});

describe("what is handed on", () => {
  it("is what came in, by identity, and without a this", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(9));
    const init = { method: "POST", body: "x", dispatcher: {}, duplex: "half" };
    const request = new Request(URL_A);
    void limited.call({ a: 1 } as never, URL_A, init);
    void limited(request);
    void Reflect.apply(limited, null, [new URL(URL_A), {}]);
    await flush();
    expect(stub.sent[0]?.init).toBe(init);
    expect(stub.sent[1]?.input).toBe(request);
    expect(stub.sent[1]?.init).toBeUndefined();
    expect(stub.receiver()).toBeUndefined();
  });

  it("is a copy without headgate when a call has limits", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(9));
    const body = new ReadableStream();
    const dispatcher = {};
    const init = { method: "POST", body, dispatcher, duplex: "half", headgate: { permits: 2 } };
    void limited(URL_A, init);
    await flush();
    expect(stub.sent[0]?.init).toEqual({ method: "POST", body, dispatcher, duplex: "half" });
    expect(stub.sent[0]?.init?.body).toBe(body);
    expect(init.headgate).toEqual({ permits: 2 });
    void limited(URL_A, { method: "PUT", headgate: { skip: true } });
    expect(stub.sent[1]?.init).toEqual({ method: "PUT" });
  });

  it("has not been touched when the call waits, is refused or aborted", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1, 1));
    void limited(URL_A);
    const body = new ReadableStream();
    const controller = new AbortController();
    const request = new Request(URL_A, { method: "POST", body: "abc", signal: controller.signal });
    const waiting = watch(limited(request));
    const refused = watch(limited(URL_A, { method: "POST", body }));
    await flush();
    expect(refused.state).toBe("rejected");
    controller.abort();
    await flush();
    expect(waiting.state).toBe("rejected");
    expect(body.locked).toBe(false);
    expect(request.bodyUsed).toBe(false);
    expect(stub.sent).toHaveLength(1);
  });

  it("fails as the inner fetch does, and the lease goes back", async () => {
    const limiter = concurrency(1);
    const error = new Error("inner");
    const limited = withRateLimiter(() => {
      throw error;
    }, limiter);
    await expect(limited(URL_A)).rejects.toBe(error);
    const rejecting = withRateLimiter(() => Promise.reject(error), limiter);
    await expect(rejecting(URL_A)).rejects.toBe(error);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it("costs nothing when there is no request to be made", async () => {
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 2,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 1000,
      clock,
    });
    const limited = withRateLimiter(fetch, limiter);
    await expect(limited("http://")).rejects.toBeInstanceOf(TypeError);
    await expect(limited("/relative")).rejects.toBeInstanceOf(TypeError);
    for (const init of [{ body: "x" }, { method: "a b" }, { headers: { "a b": "1" } }]) {
      await expect(limited("http://127.0.0.1:1", init)).rejects.toBeInstanceOf(TypeError);
    }
    await expect(limited("http://user:secret@127.0.0.1:1")).rejects.toBeInstanceOf(TypeError);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(2);
  });

  it("costs what it costs when the connection fails, though the body of its Request is used", async () => {
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 2,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 1000,
      clock,
    });
    const error = new TypeError("Failed to fetch");
    const limited = withRateLimiter(async (input) => {
      await (input as Request).text();
      throw error;
    }, limiter);
    await expect(limited(new Request(URL_A, { method: "POST", body: "abc" }))).rejects.toBe(error);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it.each([undefined, null, "x"])("fails when the inner fetch answers with %s", async (answer) => {
    const limited = withRateLimiter((async () => answer) as unknown as FetchLike, concurrency(1));
    await expect(limited(URL_A)).rejects.toThrow("what fetch returns must be a Response");
    idle(limited);
  });

  it("does not hide the error of a function when the body is no web stream", async () => {
    const error = new Error("mine");
    const response = { status: 429, headers: new Headers({ "retry-after": "1" }), body: { on() {} } };
    const limited = withRateLimiter((async () => response) as unknown as FetchLike, concurrency(1), {
      onServerHint: () => {
        throw error;
      },
    });
    await expect(limited(URL_A)).rejects.toBe(error);
    idle(limited);
  });

  it("is limited too when only the inner fetch knows what a relative address means", async () => {
    const limiter = concurrency(1, 0);
    const limited = withRateLimiter(stub.fetch, limiter);
    void limited("/relative");
    await expect(limited("/relative")).rejects.toBeInstanceOf(RateLimitRejectedError);
  });
});

describe("aborts", () => {
  it("end the wait with the signal's reason itself, and the next one moves up", async () => {
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter);
    void limited(URL_A);
    const controller = new AbortController();
    const reason = new Error("x");
    const second = watch(limited(URL_A, { signal: controller.signal }));
    const third = watch(limited(`${URL_A}third`));
    controller.abort(reason);
    await flush();
    expect(second.reason).toBe(reason);
    expect(limited.getStatistics()).toMatchObject({ waiting: 1, totalAborted: 1, totalRejected: 0 });
    stub.sent[0]?.answer();
    await flush();
    expect(third.state).toBe("pending");
    expect(stub.sent.map(({ input }) => input)).toEqual([URL_A, `${URL_A}third`]);
  });

  it("of a Request count, unless init says that there is no signal", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(9));
    const request = new Request(URL_A, { signal: AbortSignal.abort() });
    await expect(limited(request)).rejects.toHaveProperty("name", "AbortError");
    await expect(limited(request, {})).rejects.toHaveProperty("name", "AbortError");
    void limited(request, { signal: null });
    await flush();
    expect(stub.sent).toHaveLength(1);
  });

  it("in the turn of the grant win: the permit goes back and nothing is sent", async () => {
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter);
    const held = limiter.attemptAcquire();
    const controller = new AbortController();
    const reason = new Error("x");
    const call = watch(limited(URL_A, { signal: controller.signal }));
    held.dispose();
    controller.abort(reason);
    await flush();
    expect(call.reason).toBe(reason);
    expect(stub.sent).toHaveLength(0);
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
    expect(limited.getStatistics()).toMatchObject({ totalAborted: 1, totalStarted: 0 });
  });

  it("of the wrapper's signal end all waits, and later calls", async () => {
    const controller = new AbortController();
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter, { signal: controller.signal });
    const first = watch(limited(URL_A));
    const second = watch(limited(URL_A));
    const third = watch(limited(URL_A, { signal: new AbortController().signal }));
    await flush();
    const reason = new Error("x");
    controller.abort(reason);
    await flush();
    expect([second.reason, third.reason]).toEqual([reason, reason]);
    await expect(limited(URL_A)).rejects.toBe(reason);
    expect(first.state).toBe("pending");
    stub.answerAll();
    await limited.drain();
    idle(limited);
  });

  it("of the wrapper's signal: one listener while calls wait, none later, and no signal made for a call", async () => {
    const { signal } = new AbortController();
    const any = vi.spyOn(AbortSignal, "any");
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter, { signal });
    const busy = limiter.attemptAcquire();
    const calls = Array.from({ length: 5 }, () => limited(URL_A, { signal: new AbortController().signal }));
    await flush();
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    busy.dispose();
    for (const call of calls) await answered(call);
    await limited.drain();
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    expect(any).not.toHaveBeenCalled();
  });

  it("of the wrapper's signal in the turn of the grant win: nothing is sent", async () => {
    const controller = new AbortController();
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter, { signal: controller.signal });
    const held = limiter.attemptAcquire();
    const call = watch(limited(URL_A));
    held.dispose();
    const reason = new Error("x");
    controller.abort(reason);
    await flush();
    expect(call.reason).toBe(reason);
    expect(stub.sent).toHaveLength(0);
    expect(limiter.getStatistics()).toMatchObject({ currentAvailablePermits: 1, currentQueuedCount: 0 });
  });

  it("leave no listener on a signal that is shared by 10 000 calls", async () => {
    const { signal } = new AbortController();
    const limiter = concurrency(1);
    const limited = withRateLimiter(async () => new Response("x"), limiter);
    const busy = limiter.attemptAcquire();
    const waiting = Promise.all(
      Array.from({ length: 10 }, async () => (await limited(URL_A, { signal })).text()),
    );
    busy.dispose();
    await waiting;
    for (let i = 0; i < 10_000; i++) await (await limited(URL_A, { signal })).text();
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
    expect(limited.getStatistics().totalStarted).toBe(10_010);
    idle(limited);
  });
});

describe("the lease and the body", () => {
  it("nothing is read before it is asked for, and then one piece at a time", async () => {
    const { state, stream } = pieces("a", "b", "c");
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const response = await answered(limited(URL_A), stream);
    await flush();
    expect(state.pulled).toBe(0);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("a");
    await flush();
    expect(state.pulled).toBe(1);
    await reader.cancel("why");
    expect(state.cancelled).toBe("why");
    idle(limited);
  });

  it("pieces and headers are handed on, not copied", async () => {
    const piece = new Uint8Array(1000).fill(7);
    const memory = piece.buffer;
    const original = new Response("", { headers: { a: "1" } });
    const makeHeaders = vi.spyOn(globalThis, "Headers");
    const stream = new ReadableStream({
      type: "bytes",
      pull(controller: ReadableByteStreamController) {
        controller.enqueue(piece);
        controller.close();
      },
    });
    Object.defineProperty(original, "body", { value: stream });
    const limited = withRateLimiter(async () => original, concurrency(1), { serverHints: false });
    const response = await limited(URL_A);
    expect(makeHeaders).not.toHaveBeenCalled();
    const { value } = await (response.body as ReadableStream<Uint8Array>).getReader().read();
    expect(value).toHaveLength(1000);
    // Handed over: the sender's view is gone, instead of there being two.
    expect([memory.byteLength, value?.buffer.byteLength]).toEqual([0, 1000]);
  });

  it("pieces of a stream that is none of bytes stay their owner's: two views of one buffer, or one buffer twice", async () => {
    const all = new TextEncoder().encode("hello world");
    const streamOf = (...views: Uint8Array[]) =>
      new ReadableStream({
        start(controller) {
          for (const view of views) controller.enqueue(view);
          controller.close();
        },
      });
    const limited = withRateLimiter(
      async () => new Response(streamOf(all.subarray(0, 5), all.subarray(5))),
      concurrency(1),
    );
    for (let i = 0; i < 2; i++) expect(await (await limited(URL_A)).text()).toBe("hello world");
    expect(all).toHaveLength(11);
    const pooled = Buffer.from("from the pool of the process");
    const neighbour = Buffer.from("neighbour");
    const ofPool = withRateLimiter(async () => new Response(streamOf(pooled)), concurrency(1));
    expect(await (await ofPool(URL_A)).text()).toBe("from the pool of the process");
    expect(String(neighbour)).toBe("neighbour");
    idle(limited);
  });

  it("a reader with a buffer of its own is served where the original serves one", async () => {
    const original = () =>
      new ReadableStream({
        type: "bytes",
        pull(controller: ReadableByteStreamController) {
          controller.enqueue(new TextEncoder().encode("abc"));
          controller.close();
        },
      });
    const limited = withRateLimiter(async () => new Response(original()), concurrency(1));
    const reader = ((await limited(URL_A)).body as ReadableStream).getReader({ mode: "byob" });
    const { value } = await reader.read(new Uint8Array(9));
    expect(new TextDecoder().decode(value)).toBe("abc");
    expect((await reader.read(new Uint8Array(9))).done).toBe(true);
    idle(limited);
  });

  it.each(["不是", "Não encontrado", "ok\u007f"])(
    "has the reason that the server gave: %s",
    async (statusText) => {
      const { state, stream } = pieces("a");
      const limited = withRateLimiter(stub.fetch, concurrency(1), { actualPermits: () => 1 });
      const promise = limited(URL_A);
      await flush();
      stub.sent[0]?.respond(Object.defineProperty(new Response(stream), "statusText", { value: statusText }));
      const response = await promise;
      expect([response.statusText, response.clone().statusText]).toEqual([statusText, statusText]);
      expect(await response.text()).toBe("a");
      expect(state.pulled).toBe(2);
      idle(limited);
    },
  );

  it("a response that cannot be handed on is cancelled", async () => {
    const { state, stream } = pieces("a");
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const promise = limited(URL_A);
    await flush();
    const original = new Response(stream);
    const error = new Error("no responses here");
    vi.stubGlobal(
      "Response",
      class {
        constructor() {
          throw error;
        }
      },
    );
    stub.sent[0]?.respond(original);
    await expect(promise).rejects.toBe(error);
    expect(state.cancelled).toBe(error);
    idle(limited);
  });

  it("a cancel that is never over gives the lease back", async () => {
    const stream = new ReadableStream({ cancel: () => new Promise(() => {}) });
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const response = await answered(limited(URL_A), stream);
    void response.body?.cancel();
    await flush();
    idle(limited);
  });

  it("an empty piece ends nothing", async () => {
    const { stream } = pieces("a", "", "b");
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const response = await answered(limited(URL_A), stream);
    expect(await response.text()).toBe("ab");
    idle(limited);
  });

  it("an error of the body reaches the reader as it is", async () => {
    const error = new Error("broken");
    const stream = new ReadableStream({
      pull() {
        throw error;
      },
    });
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const response = await answered(limited(URL_A), stream);
    await expect(response.text()).rejects.toBe(error);
    idle(limited);
  });

  it("a cancel that fails gives the lease back, and is told", async () => {
    const error = new Error("no");
    const stream = new ReadableStream({
      cancel() {
        throw error;
      },
    });
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const response = await answered(limited(URL_A), stream);
    await expect(response.body?.cancel()).rejects.toBe(error);
    idle(limited);
  });

  it("a body of anything but bytes fails as it would have, and is cancelled", async () => {
    const { state } = pieces();
    const stream = new ReadableStream({
      pull: (controller) => controller.enqueue("text"),
      cancel: (reason) => {
        state.cancelled = reason;
      },
    });
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const response = await answered(limited(URL_A), stream);
    await expect(response.text()).rejects.toBeInstanceOf(TypeError);
    expect(state.cancelled).toBeInstanceOf(TypeError);
    idle(limited);
  });

  it("works where the host has no streams of bytes", async () => {
    const Native = ReadableStream as new (
      source: UnderlyingSource,
      strategy?: QueuingStrategy,
    ) => ReadableStream;
    const { stream } = pieces("a", "b");
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    const promise = limited(URL_A);
    const original = new Response(stream);
    await flush();
    vi.stubGlobal(
      "ReadableStream",
      class extends Native {
        constructor(source: UnderlyingSource, strategy?: QueuingStrategy) {
          if (source.type === "bytes") throw new RangeError("no streams of bytes");
          super(source, strategy);
        }
      },
    );
    stub.sent[0]?.respond(original);
    const response = await promise;
    expect(await response.text()).toBe("ab");
    idle(limited);
  });

  const untouched: [string, () => Response][] = [
    ["no body", () => new Response(null)],
    ["status 304", () => new Response(null, { status: 304 })],
    ["an error", () => Response.error()],
    [
      "a body that is locked",
      () => {
        const response = new Response("x");
        response.body?.getReader();
        return response;
      },
    ],
    ["a body that is no web stream", () => Object.defineProperty(new Response("x"), "body", { value: {} })],
    ["a body with status 204", () => Object.defineProperty(new Response("x"), "status", { value: 204 })],
    ["an empty body", () => new Response("", { headers: { "content-length": "0" } })],
    ["a redirect to follow by hand", () => new Response("see there", { status: 302 })],
    ["an opaque response", () => Object.defineProperty(new Response("x"), "type", { value: "opaque" })],
    ["an upgrade", () => Object.defineProperty(new Response("x"), "status", { value: 101 })],
  ];
  it.each(untouched)("%s: the response comes as it is, and nothing is held", async (_what, make) => {
    const limited = withRateLimiter(stub.fetch, concurrency(1), { hold: "body" });
    const promise = limited(URL_A);
    await flush();
    const original = make();
    stub.sent[0]?.respond(original);
    expect(await promise).toBe(original);
    idle(limited);
  });

  it("a body that HEAD has in some hosts holds nothing", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    await answered(limited(URL_A, { method: "head" }), "");
    idle(limited);
    await answered(limited(new Request(URL_A, { method: "HEAD" })), "");
    idle(limited);
  });

  it("maxHoldMs ends a hold to the millisecond, and the body goes on", async () => {
    const { stream } = pieces("a", "b");
    const limiter = concurrency(2);
    const limited = withRateLimiter(stub.fetch, limiter, { maxHoldMs: 500 });
    const response = await answered(limited(URL_A), stream);
    clock.advance(100);
    await answered(limited(URL_A), "x");
    clock.advance(399);
    expect(limited.getStatistics()).toMatchObject({ active: 2, oldestHeldBodyMs: 499, totalExpiredHolds: 0 });
    clock.advance(1);
    expect(limited.getStatistics()).toMatchObject({ active: 1, oldestHeldBodyMs: 400, totalExpiredHolds: 1 });
    clock.advance(100);
    expect(limited.getStatistics()).toMatchObject({
      active: 0,
      oldestHeldBodyMs: undefined,
      totalExpiredHolds: 2,
    });
    expect(await response.text()).toBe("ab");
    expect(limiter.getStatistics().currentAvailablePermits).toBe(2);
    expect(clock.timerCount).toBe(0);
  });

  it("a hold of more than a host timer can be long ends in time too", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1), { maxHoldMs: 2 ** 32 });
    await answered(limited(URL_A), "x");
    clock.advance(2 ** 32 - 1);
    expect(limited.getStatistics().active).toBe(1);
    clock.advance(1);
    expect(limited.getStatistics().active).toBe(0);
  });

  it("the timer of a forgotten body keeps a process alive only while a call waits", async () => {
    const alive: (boolean | undefined)[] = [];
    const setTimer = vi.spyOn(clock, "setTimer");
    setTimer.mockImplementation((_callback, _delayMs, keepAlive) => {
      alive.push(keepAlive);
      return { cancel: () => {} };
    });
    const limited = withRateLimiter(stub.fetch, concurrency(1), { maxHoldMs: 500 });
    const response = await answered(limited(URL_A), "x");
    expect(alive).toEqual([false]);
    void limited(URL_A);
    expect(alive).toEqual([false, true]);
    await response.text();
    await flush();
    expect(stub.sent).toHaveLength(2);
  });

  it.each([400, 429, 500, 503])(
    "by default the body of a %s holds nothing; with hold: body it does",
    async (status) => {
      const limiter = concurrency(2);
      const byDefault = withRateLimiter(stub.fetch, limiter);
      const response = await answered(byDefault(URL_A), "oops", { status });
      idle(byDefault);
      expect(await response.text()).toBe("oops");
      const always = withRateLimiter(stub.fetch, limiter, { hold: "body" });
      const held = await answered(always(URL_A), "oops", { status });
      expect(always.getStatistics().active).toBe(1);
      await held.text();
      idle(always);
      const thisOne = await answered(byDefault(URL_A, { headgate: { hold: "body" } }), "oops", { status });
      expect(byDefault.getStatistics().active).toBe(1);
      await thisOne.text();
      idle(byDefault);
    },
  );

  it("hold may be a function; what it throws is the caller's error, and the body is cancelled", async () => {
    const { state, stream } = pieces("a");
    const limiter = concurrency(2);
    const error = new Error("hold");
    const limited = withRateLimiter(stub.fetch, limiter, {
      hold: ({ headers }) => {
        if (headers.get("x-hold") === null) throw error;
        return "headers";
      },
    });
    await expect(answered(limited(URL_A), stream)).rejects.toBe(error);
    expect(state.cancelled).toBe(error);
    await answered(limited(URL_A), "x", { headers: { "x-hold": "no" } });
    idle(limited);
    const wrong = withRateLimiter(stub.fetch, limiter, { hold: () => "never" as "body" });
    await expect(answered(wrong(URL_A), "x")).rejects.toThrow(
      'hold must be "headers" or "body"; got "never".',
    );
    idle(wrong);
  });

  it("bodies that hang on one signal put one listener on it, and all are told", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const limiter = concurrency(50);
    const limited = withRateLimiter(async () => new Response("x"), limiter);
    const responses: Response[] = [];
    for (let i = 0; i < 50; i++) responses.push(await limited(URL_A, { signal }));
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    await responses[0]?.text();
    expect(getEventListeners(signal, "abort")).toHaveLength(1);
    expect(limited.getStatistics().active).toBe(49);
    controller.abort();
    idle(limited);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("an abort gives the lease back though nobody reads, also one that came with the headers", async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const limited = withRateLimiter(stub.fetch, concurrency(2));
    await answered(limited(URL_A, { signal }), "x");
    const late = limited(URL_A, { signal });
    await flush();
    expect(limited.getStatistics().active).toBe(2);
    controller.abort();
    expect(limited.getStatistics().active).toBe(1);
    stub.sent.at(-1)?.answer("y");
    expect(await (await late).text()).toBe("y");
    idle(limited);
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
});

describe("the cost that only the answer tells", () => {
  const bucket = () =>
    new TokenBucketRateLimiter({
      tokenLimit: 1000,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 1_000_000,
      queueLimit: 1000,
      clock,
    });
  const left = (limiter: RateLimiter) => limiter.getStatistics()?.currentAvailablePermits;

  it("from the headers is charged at once, and gives back what was too much", async () => {
    const limiter = bucket();
    const limited = withRateLimiter(stub.fetch, limiter, {
      permits: 800,
      actualPermits: ({ headers }) => Number(headers.get("x-used") ?? Number.NaN),
    });
    const waiting = watch(limited(URL_A));
    const next = watch(limited(URL_A));
    expect(left(limiter)).toBe(200);
    await answered(waiting.promise, "x", { headers: { "x-used": "100" } });
    expect(left(limiter)).toBe(100);
    await answered(next.promise, "x");
    expect(left(limiter)).toBe(100);
  });

  it("from the body is charged when it is known; the lease is kept until then", async () => {
    const limiter = bucket();
    let settle: (permits: number) => void = () => {};
    const limited = withRateLimiter(stub.fetch, limiter, {
      permits: 500,
      hold: "headers",
      actualPermits: () => new Promise<number>((resolve) => (settle = resolve)),
    });
    await answered(limited(URL_A), "x");
    expect(limited.getStatistics().active).toBe(1);
    settle(700);
    await flush();
    idle(limited);
    expect(left(limiter)).toBe(300);
  });

  it.each([Number.NaN, -5, 1.5, Number.POSITIVE_INFINITY, undefined, null, "9"])(
    "%s leaves what was acquired charged, whether now or later",
    async (value) => {
      for (const actualPermits of [() => value, async () => value, () => Promise.reject(new Error("no"))]) {
        const limiter = bucket();
        const limited = withRateLimiter(stub.fetch, limiter, {
          permits: 500,
          actualPermits: actualPermits as () => number,
        });
        await (await answered(limited(URL_A), "x")).text();
        await limited.drain();
        expect(left(limiter)).toBe(500);
      }
    },
  );

  /** A wrapped fetch that charges a token for each character of the body. */
  const byLength = (limiter: RateLimiter, options: FetchLimiterOptions = {}) =>
    withRateLimiter(stub.fetch, limiter, {
      permits: 500,
      actualPermits: async (response) => (await response.text()).length,
      ...options,
    });

  it.each(["body", "headers"] as const)(
    "is read from a copy, which comes as the caller reads; hold: %s",
    async (hold) => {
      const { state, stream } = pieces("ab", "cd", "e");
      const limiter = bucket();
      const limited = byLength(limiter, { hold });
      const response = await answered(limited(URL_A), stream, { status: 201, headers: { a: "1" } });
      await flush();
      expect(state.pulled).toBe(0);
      expect([response.status, response.headers.get("a")]).toEqual([201, "1"]);
      expect(limited.getStatistics()).toMatchObject({ active: 1, heldBodies: 1 });
      expect(await response.text()).toBe("abcde");
      await limited.drain();
      expect(left(limiter)).toBe(995);
    },
  );

  it("is the estimate when the caller leaves the body, and nobody else reads it", async () => {
    const { state, stream } = pieces("ab", "cd");
    const limiter = bucket();
    const limited = byLength(limiter);
    const response = await answered(limited(URL_A), stream);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await reader.cancel("enough");
    expect(state).toEqual({ pulled: 1, cancelled: "enough" });
    await limited.drain();
    expect(left(limiter)).toBe(500);
  });

  it("is the estimate when the call is aborted, the body fails or is left alone for too long", async () => {
    const limiter = bucket();
    const limited = byLength(limiter, { permits: 100, maxHoldMs: 50 });
    const controller = new AbortController();
    await answered(limited(URL_A, { signal: controller.signal }), "abc");
    controller.abort();
    await limited.drain();
    const broken = new ReadableStream({
      pull() {
        throw new Error("broken");
      },
    });
    await expect((await answered(limited(URL_A), broken)).text()).rejects.toThrow("broken");
    await limited.drain();
    const response = await answered(limited(URL_A), "abc");
    clock.advance(50);
    await limited.drain();
    expect(limited.getStatistics().totalExpiredHolds).toBe(1);
    expect(await response.text()).toBe("abc");
    expect(left(limiter)).toBe(700);
  });

  it.each([
    ["body", "unread"],
    ["body", "read"],
    ["headers", "read"],
  ] as const)("that never comes is waited for no longer than maxHoldMs; hold: %s, %s", async (hold, what) => {
    const limited = withRateLimiter(stub.fetch, bucket(), {
      actualPermits: () => new Promise<never>(() => {}),
      maxHoldMs: 50,
      hold,
    });
    const response = await answered(limited(URL_A), "abc");
    if (what === "read") await response.text();
    clock.advance(49);
    expect(limited.getStatistics()).toMatchObject({ active: 1, heldBodies: 1 });
    clock.advance(1);
    idle(limited);
    if (what === "unread") expect(await response.text()).toBe("abc");
    idle(limited);
    await answered(limited(URL_A), "abc");
    limited.dispose();
    idle(limited);
    await limited.drain();
  });

  it("is the estimate for who begins to read too late, and the caller gets the body all the same", async () => {
    const limiter = bucket();
    const limited = byLength(limiter, {
      actualPermits: async (response) => {
        await flush();
        return (await response.text()).length;
      },
    });
    const response = await answered(limited(URL_A), "abc");
    expect(await response.text()).toBe("abc");
    await limited.drain();
    expect(left(limiter)).toBe(500);
  });

  it("may be known before the end", async () => {
    const { stream } = pieces("ab", "cd");
    const limiter = bucket();
    const limited = byLength(limiter, {
      actualPermits: async (response) => {
        for await (const piece of response.body ?? []) return piece.byteLength;
        return undefined;
      },
    });
    const response = await answered(limited(URL_A), stream);
    expect(await response.text()).toBe("abcd");
    await limited.drain();
    expect(left(limiter)).toBe(998);
  });

  it.each(["headers", undefined] as const)(
    "of an error whose body is left alone is the estimate; hold: %s",
    async (hold) => {
      const limiter = bucket();
      const limited = byLength(limiter, { hold });
      const response = await answered(limited(URL_A), "oops", { status: 500 });
      await limited.drain();
      expect(left(limiter)).toBe(500);
      expect(await response.text()).toBe("oops");
    },
  );

  it("of an error is read with hold: body", async () => {
    const limiter = bucket();
    const limited = byLength(limiter, { hold: "body" });
    await (await answered(limited(URL_A), "oops", { status: 500 })).text();
    await limited.drain();
    expect(left(limiter)).toBe(996);
  });

  it("is at most maxActualPermits, whatever the server says", async () => {
    for (const [maxActualPermits, debt] of [
      [undefined, 1_000_000],
      [2000, 2000],
      [0, 0],
    ] as const) {
      for (const cost of [Number.MAX_SAFE_INTEGER, Promise.resolve(Number.MAX_SAFE_INTEGER)]) {
        const limiter = bucket();
        const limited = withRateLimiter(stub.fetch, limiter, {
          maxActualPermits,
          actualPermits: () => cost,
        });
        await answered(limited(URL_A));
        await limited.drain();
        // 1000 tokens, 1 in 1 000 000 ms.
        const waitMs = debt === 0 ? undefined : (debt - 1000 + 1) * 1_000_000;
        expect(limiter.attemptAcquire().retryAfterMs).toBe(waitMs);
      }
    }
    for (const maxActualPermits of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, "1"]) {
      expect(() =>
        withRateLimiter(fetch, bucket(), { maxActualPermits: maxActualPermits as number }),
      ).toThrow(/^options.maxActualPermits must be /);
    }
  });

  it.each([
    ["is known", {}],
    ["is waited for no longer", { maxHoldMs: 50 }],
  ] as const)("ends the copy when it %s: nothing piles up for nobody", async (what, options) => {
    const { stream } = pieces("ab", "cd", "ef");
    let copied: ReadableStreamDefaultReader<Uint8Array> | undefined;
    const limited = withRateLimiter(stub.fetch, bucket(), {
      ...options,
      actualPermits: async ({ body }) => {
        copied = body?.getReader();
        await copied?.read();
        if (what === "is waited for no longer") await new Promise(() => {});
        return 2;
      },
    });
    const response = await answered(limited(URL_A), stream);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    clock.advance(50);
    await flush();
    await reader.read();
    await expect(copied?.read()).rejects.toThrow("The body has not been read to its end.");
    await reader.read();
    await reader.read();
    idle(limited);
  });

  it("that throws after it has begun to read does not leave its own reading open", async () => {
    let reading: Promise<unknown> | undefined;
    const limited = withRateLimiter(stub.fetch, concurrency(1), {
      actualPermits: (response) => {
        reading = response.text().catch((error: unknown) => error);
        throw new Error("cost");
      },
    });
    await expect(answered(limited(URL_A), "x")).rejects.toThrow("cost");
    expect(await reading).toMatchObject({ message: "cost" });
    idle(limited);
  });

  it("that a foreign limiter cannot take later is nobody's unhandled error, and the lease goes back", async () => {
    let disposed = 0;
    class Failing extends RateLimitLease {
      readonly isAcquired = true;
      readonly metadataNames = [];
      override adjust(): void {
        throw new Error("store down");
      }
      override dispose(): void {
        disposed += 1;
      }
      protected override tryGetMetadataCore(): undefined {}
    }
    class Foreign extends NoLimiter {
      protected override acquireCore(): RateLimitLease {
        return new Failing();
      }
      get [Symbol.for("headgate.inside.v1")]() {
        return undefined;
      }
    }
    const limited = withRateLimiter(stub.fetch, new Foreign(), { actualPermits: async () => 5 });
    await answered(limited(URL_A));
    await limited.drain();
    expect(disposed).toBe(1);
    const inner = withRateLimiter(stub.fetch, concurrency(1, 0));
    void inner(URL_A);
    await expect(withRateLimiter(inner, new Foreign())(URL_A)).rejects.toThrow("store down");
    expect(disposed).toBe(2);
  });

  it("that throws is the caller's error, and the lease goes back", async () => {
    const error = new Error("cost");
    const limited = withRateLimiter(stub.fetch, concurrency(1), {
      actualPermits: () => {
        throw error;
      },
    });
    await expect(answered(limited(URL_A), "x")).rejects.toBe(error);
    idle(limited);
  });
});

describe("partitions", () => {
  const byKey = () =>
    PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1, queueLimit: 1, clock })),
    );

  it("by origin: without path, query, user and default port, in lower case", async () => {
    const limiter = byKey();
    const limited = withRateLimiter(stub.fetch, limiter);
    void limited("https://A.example:443/x?k=1");
    void limited(new URL("https://user:secret@a.example/y"));
    void limited(new Request("http://a.example/y"));
    void limited("data:text/plain,x");
    void limited("not an address");
    await flush();
    expect([...limiter.entries()].map(({ key }) => key)).toEqual([
      "https://a.example",
      "http://a.example",
      "null",
    ]);
    expect(stub.sent).toHaveLength(3);
    expect(limited.getStatistics()).toMatchObject({ active: 3, waiting: 2 });
  });

  it("by what the function says: undefined is no limit, and what it throws is the caller's error", async () => {
    const limiter = byKey();
    const error = new Error("who?");
    const limited = withRateLimiter(stub.fetch, limiter, {
      partition: ({ url }) => {
        if (url.pathname === "/throw") throw error;
        return url.searchParams.get("tenant") ?? undefined;
      },
    });
    for (let i = 0; i < 3; i++) void limited(URL_A);
    await flush();
    expect(stub.sent).toHaveLength(3);
    expect(limited.getStatistics()).toMatchObject({ active: 0, totalStarted: 0 });
    await expect(limited(`${URL_A}throw`)).rejects.toBe(error);
    await expect(limited("not an address")).rejects.toBeInstanceOf(TypeError);
    void limited(`${URL_A}?tenant=1`);
    void limited(`${URL_A}?tenant=2`, { headgate: { partition: "1" } });
    await flush();
    expect(limited.getStatistics()).toMatchObject({ active: 1, waiting: 1 });
    expect(stub.sent).toHaveLength(4);
  });

  it("a hint after a redirect is that of the origin that answered; with a function it is the call's", async () => {
    const redirected = () =>
      Object.defineProperties(new Response(null, { status: 429, headers: { "retry-after": "60" } }), {
        redirected: { value: true },
        url: { value: "https://b.example/there" },
      });
    const reasonOf = (limiter: ReturnType<typeof byKey>, key: string) => limiter.attemptAcquire(key).reason;
    const limiter = byKey();
    const byOrigin = withRateLimiter(async () => redirected(), limiter);
    await byOrigin(URL_A);
    expect(reasonOf(limiter, "https://a.example")).toBeUndefined();
    expect(reasonOf(limiter, "https://b.example")).toBe("server_pause");
    expect(byOrigin.getStatistics().totalPauses).toBe(1);
    const other = byKey();
    const byFunction = withRateLimiter(async () => redirected(), other, { partition: () => "mine" });
    await byFunction(URL_A);
    expect(reasonOf(other, "mine")).toBe("server_pause");
    const third = byKey();
    await withRateLimiter(async () => redirected(), third)(URL_A, { headgate: { partition: "mine" } });
    expect(reasonOf(third, "mine")).toBe("server_pause");
  });

  it("may get the whole view of the request", async () => {
    const limiter = PartitionedRateLimiter.create((request: OutgoingRequest) =>
      RateLimitPartition.getConcurrencyLimiter(`${request.method} ${request.url.host}`, () => ({
        permitLimit: 1,
      })),
    );
    const limited = withRateLimiter(stub.fetch, limiter, { partition: (request) => request });
    void limited(URL_A, { method: "put" });
    void limited(new Request(URL_A));
    expect([...limiter.entries()].map(({ key }) => key)).toEqual(["PUT a.example", "GET a.example"]);
    limiter.dispose();
  });
});

describe("refusals", () => {
  it("onRejected answers, once for each, with what is known and nothing that is secret", async () => {
    const limiter = new TokenBucketRateLimiter({
      tokenLimit: 1,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 1500,
      clock,
    });
    const onRejected = vi.fn(() => new Response("mine", { status: 418 }));
    const limited = withRateLimiter(stub.fetch, limiter, { onRejected });
    void limited(URL_A);
    const response = await limited(`${URL_A}?key=secret`);
    expect([response.status, await response.text()]).toEqual([418, "mine"]);
    expect(onRejected).toHaveBeenCalledTimes(1);
    const [refusal, request] = onRejected.mock.calls[0] as unknown as [object, OutgoingRequest];
    expect(refusal).toMatchObject({ reason: "limit_reached", retryAfterMs: 1500 });
    expect(JSON.stringify(refusal)).not.toContain("secret");
    expect(request.url.href).toBe(`${URL_A}?key=secret`);
  });

  it("what onRejected throws is the caller's error", async () => {
    const error = new Error("mine");
    const limited = withRateLimiter(stub.fetch, concurrency(1, 0), {
      onRejected: () => {
        throw error;
      },
    });
    void limited(URL_A);
    await expect(limited(URL_A)).rejects.toBe(error);
  });

  it("what onRejected returns has to be a response", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1, 0), { onRejected: (() => {}) as never });
    void limited(URL_A);
    await expect(limited(URL_A)).rejects.toThrow(
      "what onRejected returns must be a Response; got undefined.",
    );
  });

  it("forSdk says when to come back in whole seconds, at least one", async () => {
    for (const [period, seconds] of [
      [1500, "2"],
      [10, "1"],
    ] as const) {
      const limiter = new TokenBucketRateLimiter({
        tokenLimit: 1,
        tokensPerPeriod: 1,
        replenishmentPeriodMs: period,
        clock,
      });
      const limited = withRateLimiter(stub.fetch, limiter, { onRejected: forSdk() });
      void limited(URL_A);
      const response = await limited(URL_A);
      expect(response.headers.get("retry-after")).toBe(seconds);
      expect(response.statusText).toBe("Not sent: the rate limit has been reached");
    }
  });

  it("forSdk has no body for HEAD, takes a status, and makes a new answer for each", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1, 0), { onRejected: forSdk({ status: 503 }) });
    void limited(URL_A);
    const head = await limited("not an address", { method: "HEAD" });
    expect([head.status, head.body, head.url]).toEqual([503, null, ""]);
    const [a, b] = [await limited(URL_A), await limited(URL_A)];
    expect(await a.text()).toBe(await b.text());
    expect(() => forSdk({ status: 200 })).toThrow(RangeError);
    expect(() => forSdk({ state: 1 } as never)).toThrow(TypeError);
  });

  it.each([
    ["throws", {}],
    ["answers", { onRejected: forSdk() }],
    ["answers with a success", { onRejected: () => new Response("kept") }],
  ] as const)(
    "a refusal further in that %s costs nothing further out, and has it learn",
    async (_what, options) => {
      const window = new TokenBucketRateLimiter({
        tokenLimit: 10,
        tokensPerPeriod: 1,
        replenishmentPeriodMs: 1000,
        clock,
      });
      const inner = withRateLimiter(stub.fetch, concurrency(1, 0), options);
      void inner(URL_A);
      const outcomes: string[] = [];
      const outer = withRateLimiter(inner, reportingTo(outcomes, window));
      for (let i = 0; i < 3; i++) await outer(URL_A).catch(() => {});
      expect(window.getStatistics().currentAvailablePermits).toBe(10);
      expect(outcomes).toEqual(["dropped", "dropped", "dropped"]);
      idle(outer);
    },
  );

  it("an answer that onRejected had from another server is that server's: its hints count", async () => {
    const hints: unknown[] = [];
    const inner = withRateLimiter(stub.fetch, concurrency(1, 0), {
      onRejected: () =>
        Object.defineProperty(new Response("x", { status: 429, headers: { "retry-after": "5" } }), "url", {
          value: "https://other.example/",
        }),
    });
    void inner(URL_A);
    const outer = withRateLimiter(inner, concurrency(9), { onServerHint: (hint) => hints.push(hint) });
    await (await outer(URL_A)).text();
    expect(hints).toHaveLength(1);
  });

  it("an answer of forSdk shows no name and no password", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1, 0), { onRejected: forSdk() });
    void limited(URL_A);
    expect((await limited("https://user:secret@a.example/x#y")).url).toBe("https://a.example/x");
  });

  it("an answer of forSdk pauses nothing further out, a forged one is an answer like any other", async () => {
    const outerLimiter = concurrency(9);
    const inner = withRateLimiter(stub.fetch, concurrency(1, 0), { onRejected: forSdk() });
    const hints: unknown[] = [];
    const outer = withRateLimiter(inner, outerLimiter, {
      serverHints: { sources: [() => 1000] },
      onServerHint: (hint) => hints.push(hint),
    });
    const first = watch(outer(URL_A));
    const refused = await outer(URL_A);
    expect(refused.status).toBe(429);
    expect(hints).toHaveLength(0);
    expect(outerLimiter.getStatistics().currentAvailablePermits).toBe(8);
    stub.sent[0]?.answer("x", { status: 429, headers: { "headgate-rejected": "queue_full" } });
    await flush();
    expect(first.state).toBe("fulfilled");
    expect(hints).toHaveLength(1);
  });
});

describe("shadow", () => {
  it("lets all through, and counts", async () => {
    const limiter = concurrency(1, 1);
    const limited = withRateLimiter(stub.fetch, limiter, { shadow: true });
    for (let i = 0; i < 3; i++) void limited(URL_A);
    void limited(URL_A, { headgate: { deadline: -1 } });
    await flush();
    expect(stub.sent).toHaveLength(4);
    expect(limited.getStatistics()).toMatchObject({
      wouldHaveWaited: 2,
      wouldHaveRefused: 1,
      totalRejected: 0,
    });
    stub.answerAll();
    await limited.drain();
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  });

  it("of partitions too, and hints reach the limiter in it", async () => {
    const partitioned = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1, clock })),
    );
    const limited = withRateLimiter(stub.fetch, partitioned, { shadow: true });
    void limited(URL_A);
    await answered(limited(URL_A), "x", { status: 429, headers: { "retry-after": "5" } });
    void limited(URL_A);
    expect(limited.getStatistics()).toMatchObject({ wouldHaveRefused: 2, totalPauses: 1 });
    expect(partitioned.forResource("https://a.example").attemptAcquire().reason).toBe("server_pause");
  });
});

describe("disposal", () => {
  it("refuses all that wait and later calls, and leaves the limiter and the bodies", async () => {
    const limiter = concurrency(1, 100);
    const limited = withRateLimiter(stub.fetch, limiter);
    const { stream } = pieces("a", "b");
    const response = await answered(limited(URL_A), stream);
    const calls = Array.from({ length: 100 }, () => watch(limited(URL_A)));
    limited.dispose();
    limited.dispose();
    await flush();
    expect(calls.map((call) => (call.reason as RateLimitRejectedError).reason)).toEqual(
      Array(100).fill("limiter_disposed"),
    );
    await expect(limited(URL_A)).rejects.toMatchObject({ reason: "limiter_disposed" });
    expect(limited.getStatistics()).toMatchObject({ active: 0, waiting: 0, totalRejected: 101 });
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
    expect(await response.text()).toBe("ab");
  });

  it("in the turn of a grant gives the permit back", async () => {
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter);
    const held = limiter.attemptAcquire();
    const call = watch(limited(URL_A));
    held.dispose();
    limited.dispose();
    await flush();
    expect(call.reason).toMatchObject({ reason: "limiter_disposed" });
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
    expect(stub.sent).toHaveLength(0);
  });

  it("while a call is on its way lets it come in, and holds nothing for its body", async () => {
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter);
    const call = limited(URL_A);
    limited.dispose();
    const response = await answered(call, "x");
    idle(limited);
    expect(await response.text()).toBe("x");
  });

  it("disposes the limiter when it owns it", async () => {
    const own = () => {
      const limiter = concurrency(1);
      return { limiter, limited: withRateLimiter(stub.fetch, limiter, { ownsLimiter: true }) };
    };
    const first = own();
    first.limited[Symbol.dispose]();
    expect(() => first.limiter.attemptAcquire()).toThrow();
    const second = own();
    await second.limited.disposeAsync();
    expect(() => second.limiter.attemptAcquire()).toThrow();
    const third = own();
    await third.limited[Symbol.asyncDispose]();
    expect(() => third.limiter.attemptAcquire()).toThrow();
  });

  it("of the limiter refuses those that wait, and is an error for later ones", async () => {
    const limiter = concurrency(1);
    const limited = withRateLimiter(stub.fetch, limiter);
    void limited(URL_A);
    const waiting = watch(limited(URL_A));
    limiter.dispose();
    await flush();
    expect(waiting.reason).toMatchObject({ reason: "limiter_disposed" });
    await expect(limited(URL_A)).rejects.toHaveProperty("code", "ERR_LIMITER_DISPOSED");
  });

  it("drain waits for calls that wait, are on their way, or hold a body", async () => {
    const limited = withRateLimiter(stub.fetch, concurrency(1));
    await limited.drain();
    const first = limited(URL_A);
    const second = limited(URL_A);
    const drained = watch(limited.drain());
    const response = await answered(first, "x");
    await flush();
    expect(drained.state).toBe("pending");
    await response.text();
    await flush();
    expect(drained.state).toBe("pending");
    await (await answered(second, "x")).text();
    await flush();
    expect(drained.state).toBe("fulfilled");
  });
});

describe("outcomes", () => {
  class ReportingLease extends RateLimitLease {
    readonly #outcomes: string[];
    readonly isAcquired = true;
    readonly metadataNames = [];
    #isReported = false;
    constructor(outcomes: string[]) {
      super();
      this.#outcomes = outcomes;
    }
    override report(outcome: string): void {
      if (!this.#isReported) this.#outcomes.push(outcome);
      this.#isReported = true;
    }
    override dispose(): void {}
    protected override tryGetMetadataCore(): undefined {}
  }

  class Reporting extends RateLimiter {
    readonly outcomes: string[] = [];
    override getStatistics(): RateLimiterStatistics | undefined {
      return undefined;
    }
    override get idleDurationMs(): undefined {
      return undefined;
    }
    protected override attemptAcquireCore(): RateLimitLease {
      return new ReportingLease(this.outcomes);
    }
    protected override acquireCore(): RateLimitLease {
      return this.attemptAcquireCore();
    }
  }

  it("are reported at the headers: 429, 503 and time-outs are dropped, the caller's abort tells nothing", async () => {
    const limiter = new Reporting();
    const limited = withRateLimiter(stub.fetch, limiter, { serverHints: false });
    for (const status of [200, 404, 429, 503]) await answered(limited(URL_A), "x", { status });
    const failing = async (error: unknown, signal?: AbortSignal) => {
      const promise = limited(URL_A, signal === undefined ? {} : { signal });
      await flush();
      return { promise, fail: () => stub.sent.at(-1)?.fail(error) };
    };
    for (const error of [new DOMException("late", "TimeoutError"), new TypeError("ECONNREFUSED")]) {
      const { promise, fail } = await failing(error);
      fail();
      await expect(promise).rejects.toBe(error);
    }
    const controller = new AbortController();
    const { promise, fail } = await failing(new DOMException("x", "AbortError"), controller.signal);
    controller.abort();
    fail();
    await expect(promise).rejects.toHaveProperty("name", "AbortError");
    expect(limiter.outcomes).toEqual([
      "success",
      "success",
      "dropped",
      "dropped",
      "dropped",
      "failure",
      "ignored",
    ]);
  });
});

describe("an adaptive limiter", () => {
  it("learns how long the server took to the headers: no wait before, and no body after", async () => {
    const samples: unknown[] = [];
    const limit = {
      limit: 1,
      onSample: (startTime: number, rtt: number, _inFlight: number, outcome: string) =>
        samples.push([startTime, rtt, outcome]),
      onChange: () => () => {},
    };
    const limiter = new AdaptiveConcurrencyLimiter({ limit, queueLimit: 5, clock });
    const limited = withRateLimiter(stub.fetch, limiter);
    const first = limited(URL_A);
    const second = limited(URL_A);
    clock.advance(40);
    await (await answered(first, "x")).text();
    await flush();
    clock.advance(15);
    const response = await answered(second, "x");
    clock.advance(1000);
    expect(samples).toHaveLength(1);
    await response.text();
    const third = limited(URL_A);
    clock.advance(5);
    await (await answered(third, "x", { status: 429, headers: { "retry-after": "3" } })).text();
    expect(samples).toEqual([
      [0, 40, "success"],
      [40, 15, "success"],
      [1055, 5, "dropped"],
    ]);
    expect(limiter.attemptAcquire().reason).toBe("server_pause");
  });
});

describe("what is wrong with the arguments is said at once", () => {
  const limiter = () => concurrency(1);
  const wrong: [string, () => unknown, string][] = [
    ["fetch", () => withRateLimiter("x" as never, limiter()), 'fetch must be a function; got "x".'],
    [
      "limiter",
      () => withRateLimiter(stub.fetch, {} as never),
      "limiter must be a RateLimiter or a PartitionedRateLimiter; got an object.",
    ],
    [
      "no pause",
      () => withRateLimiter(stub.fetch, shadowed(limiter())),
      "limiter must have a pause method, for the server's hints; this ShadowLimiter has none. Set options.serverHints to false to take no hints.",
    ],
    [
      "partition of one",
      () => withRateLimiter(stub.fetch, limiter(), { partition: () => "x" } as never),
      "options.partition needs a PartitionedRateLimiter; this limiter has one limit for all.",
    ],
    [
      "unknown",
      () => withRateLimiter(stub.fetch, limiter(), { maxwaitMs: 1 } as never),
      "options.maxwaitMs is not an option; did you mean options.maxWaitMs?",
    ],
    [
      "permits",
      () => withRateLimiter(stub.fetch, limiter(), { permits: 1.5 }),
      "options.permits must be an integer",
    ],
    ["hold", () => withRateLimiter(stub.fetch, limiter(), { hold: "x" as never }), "options.hold must be"],
    [
      "maxHoldMs",
      () => withRateLimiter(stub.fetch, limiter(), { maxHoldMs: 0 }),
      "options.maxHoldMs must be",
    ],
    [
      "maxWaitMs",
      () => withRateLimiter(stub.fetch, limiter(), { maxWaitMs: -1 }),
      "options.maxWaitMs must be",
    ],
    [
      "deadline",
      () => withRateLimiter(stub.fetch, limiter(), { deadline: 5 as never }),
      "options.deadline must be",
    ],
    [
      "shadow",
      () => withRateLimiter(stub.fetch, limiter(), { shadow: 1 as never }),
      "options.shadow must be",
    ],
    [
      "signal",
      () => withRateLimiter(stub.fetch, limiter(), { signal: {} as never }),
      "options.signal must be",
    ],
    ["clock", () => withRateLimiter(stub.fetch, limiter(), { clock: {} as never }), "options.clock must be"],
    [
      "serverHints",
      () => withRateLimiter(stub.fetch, limiter(), { serverHints: true as never }),
      "options.serverHints must be an object; got true.",
    ],
  ];
  it.each(wrong)("%s", (_what, make, message) => {
    expect(make).toThrow(message);
  });

  it("and of a call, as a rejection that leaves nothing behind", async () => {
    const limited = withRateLimiter(stub.fetch, limiter());
    const withLimits = (headgate: object) => limited(URL_A, { headgate });
    await expect(withLimits({ permit: 1 })).rejects.toThrow(
      "init.headgate.permit is not an option; did you mean init.headgate.permits?",
    );
    await expect(withLimits({ priority: 1.5 })).rejects.toThrow("priority must be a safe integer; got 1.5.");
    await expect(withLimits({ deadline: Number.NaN })).rejects.toThrow("deadline must be a finite number");
    await expect(withLimits({ permits: 2 })).rejects.toThrow(RangeError);
    await expect(withLimits({ partition: "x" })).rejects.toThrow(
      "init.headgate.partition needs a PartitionedRateLimiter.",
    );
    await limited.drain();
    idle(limited);
    expect(stub.sent).toHaveLength(0);
  });
});

/** Keeps the type of the argument: what is made can be given to everything that takes a fetch. */
const takesFetch = (given: typeof globalThis.fetch): FetchLike => given;

it("is a fetch by its type", () => {
  const limited = withRateLimiter(fetch, concurrency(1));
  expect(takesFetch(limited)).toBe(limited);
});

it("has what a host's fetch has besides, such as preconnect of Bun", () => {
  const preconnected: unknown[] = [];
  const ofHost = Object.assign(async () => new Response(null), {
    preconnect(this: unknown, url: string): void {
      preconnected.push([this, url]);
    },
  });
  const limited = withRateLimiter(ofHost, concurrency(1));
  limited.preconnect(URL_A);
  expect(preconnected).toEqual([[ofHost, URL_A]]);
  expect("preconnect" in withRateLimiter(fetch, concurrency(1))).toBe(false);
});
