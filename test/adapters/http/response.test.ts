import { ConcurrencyLimiter, FixedWindowRateLimiter, RateLimiter, type RateLimitLease } from "headgate";
import {
  type AdmissionEvent,
  type AdmissionOptions,
  concurrencyLimit,
  createAdmission,
  type Rejection,
  rateLimit,
} from "headgate/http";
import { trackLeases } from "headgate/testing";
import { parseItem, parseList } from "structured-headers";
import { describe, expect, it, vi } from "vitest";
import { flush, ManualClock } from "../../support.js";
import { gated, request } from "./support.js";

const exact = { retryAfterJitter: false } as const;
const full = () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
  limiter.attemptAcquire();
  return limiter;
};

/** The refusal of a full limiter. */
function refusal(options: Partial<AdmissionOptions<Request>> = {}, init?: RequestInit): Promise<Response> {
  const policies = [{ name: "all", kind: "concurrency" as const, limiter: full() }];
  return createAdmission<Request>({ policies, ...options }).wrap(() => new Response("x"))(request("/", init));
}

/** Refuses, and says when to come back. */
class Refusing extends RateLimiter {
  readonly #retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super();
    this.#retryAfterMs = retryAfterMs;
  }

  override getStatistics(): undefined {}

  override get idleDurationMs(): undefined {
    return undefined;
  }

  protected override attemptAcquireCore(): RateLimitLease {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.attemptAcquire();
    const lease = limiter.attemptAcquire();
    Object.defineProperty(lease, "retryAfterMs", { value: this.#retryAfterMs });
    return lease;
  }

  protected override acquireCore(): RateLimitLease {
    return this.attemptAcquireCore();
  }
}

describe("the status of a refusal", () => {
  it.each([
    ["client", 429],
    ["function", 429],
    ["route", 503],
    ["global", 503],
  ] as const)("is, for a rate of the scope %s, %i", async (scope, status) => {
    using admission = rateLimit<Request>({
      limit: 1,
      windowMs: 1000,
      scope: scope === "function" ? () => "key" : scope,
      ...(scope === "client" ? { clientAddress: "socket" as const } : {}),
    });
    const serve = admission.wrap(() => new Response(null));
    expect((await serve(request())).status).toBe(200);
    expect((await serve(request())).status).toBe(status);
  });

  it("is 503 for concurrency of a client, and what the options say", async () => {
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      scope: "client",
      clientAddress: "socket",
    });
    const { handler } = gated();
    const serve = admission.wrap(handler);
    void serve(request());
    expect((await serve(request())).status).toBe(503);
    expect((await refusal({ reject: { status: 529 } })).status).toBe(529);
  });

  it("is 503 when a rate of a client refuses for another reason than its rate", async () => {
    using admission = rateLimit<Request>({
      limit: 5,
      windowMs: 1000,
      clientAddress: "socket",
      maxPartitions: 1,
      overflow: "reject",
    });
    await admission.admit(request(), { remoteAddress: "1.2.3.4" });
    const answer = await admission.admit(request(), { remoteAddress: "5.6.7.8" });
    expect(answer).toMatchObject({ rejection: { reason: "partition_overflow", status: 503 } });
    if (!answer.admitted && !answer.gone) {
      expect(await answer.response.json()).toMatchObject({ status: 503, detail: "Temporarily unavailable" });
    }
  });
});

describe("Retry-After", () => {
  const secondsOf = async (retryAfterSeconds: number, random: number, ratio?: number) => {
    const reject = { retryAfterSeconds, ...(ratio === undefined ? {} : { retryAfterJitter: { ratio } }) };
    return (await refusal({ reject, random: () => random })).headers.get("retry-after");
  };

  it("is left out for 0 seconds when the limiter does not know", async () => {
    expect(await secondsOf(0, 0)).toBeNull();
  });

  it.each([
    [10, 0, "10"],
    [10, 0.5, "13"],
    [10, 0.999, "15"],
    [1, 0, "1"],
    [1, 0.999, "2"],
    [100, 0.999, "150"],
  ])("of %i seconds is, for the random number %d, %s", async (seconds, random, value) => {
    expect(await secondsOf(seconds, random)).toBe(value);
  });

  it("is spread as the ratio says, and never subtracted from", async () => {
    expect(await secondsOf(10, 0.999, 1)).toBe("20");
    expect(await secondsOf(10, 0.999, 0)).toBe("11");
    const reject = { retryAfterSeconds: 10, retryAfterJitter: { ratio: 0, minSeconds: 0 } };
    expect((await refusal({ reject, random: () => 0.999 })).headers.get("retry-after")).toBe("10");
  });

  it.each([
    [2100, "3"],
    [2000, "2"],
    [1, "1"],
    [0, "1"],
    [Number.POSITIVE_INFINITY, "7"],
    [Number.NaN, "7"],
    [-5000, "7"],
    [1e23, "999999999999999"],
  ])("for a limiter that says %d ms is %s", async (retryAfterMs, value) => {
    const policies = [{ name: "all", kind: "concurrency" as const, limiter: new Refusing(retryAfterMs) }];
    const answer = await refusal({ policies, reject: { ...exact, retryAfterSeconds: 7 } });
    expect(answer.headers.get("retry-after")).toBe(value);
  });

  it("is not earlier than what the RateLimit field says", async () => {
    const clock = new ManualClock();
    using admission = rateLimit<Request>({
      limit: 1,
      windowMs: 60_000,
      algorithm: "fixedWindow",
      clientAddress: "socket",
      reject: exact,
      clock,
    });
    const serve = admission.wrap(() => new Response(null));
    await serve(request());
    clock.advance(1500);
    const answer = await serve(request());
    expect(answer.headers.get("ratelimit")).toBe('"rate";r=0;t=59');
    expect(answer.headers.get("retry-after")).toBe("59");
  });
});

describe("the body of a refusal", () => {
  it("is problem details, without the client's address or key", async () => {
    const init = { headers: { "x-forwarded-for": "203.0.113.9", authorization: "secret-key" } };
    using admission = rateLimit<Request>({
      limit: 1,
      windowMs: 1000,
      keyGenerator: ({ raw }) => raw.headers.get("authorization") ?? undefined,
      message: "Slow down, s'il vous plaît",
    });
    const serve = admission.wrap(() => new Response(null));
    await serve(request("/private", init));
    const answer = await serve(request("/private", init));
    const text = await answer.text();
    expect(JSON.parse(text)).toEqual({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Quota used up",
      status: 429,
      detail: "Slow down, s'il vous plaît",
      "violated-policies": ["rate"],
    });
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
    expect(answer.headers.get("content-length")).toBe(String(Buffer.byteLength(text)));
    expect(answer.headers.get("cache-control")).toBe("no-store");
    const all = text + JSON.stringify([...answer.headers]);
    for (const secret of ["203.0.113.9", "secret-key", "/private"]) expect(all).not.toContain(secret);
  });

  it("says that capacity is short when no rate is used up", async () => {
    expect(await (await refusal()).json()).toMatchObject({
      type: "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
      detail: "Concurrency limit exceeded",
    });
  });

  it("is text, nothing, or of a type of one's own when told so", async () => {
    const text = await refusal({ reject: { body: "text", message: "busy" } });
    expect([await text.text(), text.headers.get("content-type")]).toEqual([
      "busy",
      "text/plain; charset=utf-8",
    ]);
    const none = await refusal({ reject: { body: "none" } });
    expect([await none.text(), none.headers.get("content-type")]).toEqual(["", null]);
    const typed = await refusal({ reject: { problemType: "https://example.com/busy" } });
    expect(await typed.json()).toMatchObject({ type: "https://example.com/busy" });
  });

  it("is left out for HEAD, with the same headers", async () => {
    const head = await refusal({ reject: exact }, { method: "HEAD" });
    const get = await refusal({ reject: exact });
    expect(await head.text()).toBe("");
    expect([...head.headers]).toEqual([...get.headers]);
  });

  it("may be made by a function, and keeps Retry-After and no-store", async () => {
    const seen: Rejection[] = [];
    const body = async (rejection: Rejection) => {
      seen.push(rejection);
      return new Response("<h1>Busy</h1>", {
        status: 502,
        headers: { "content-type": "text/html", "cache-control": "private, no-store" },
      });
    };
    const answer = await refusal({ reject: { body, retryAfterSeconds: 3, ...exact } });
    expect([answer.status, await answer.text()]).toEqual([502, "<h1>Busy</h1>"]);
    expect(Object.fromEntries(answer.headers)).toEqual({
      "content-type": "text/html",
      "cache-control": "private, no-store",
      "retry-after": "3",
    });
    expect(seen).toMatchObject([{ policy: "all", reason: "queue_full", active: 1 }]);
    expect(await (await refusal({ reject: { body } }, { method: "HEAD" })).text()).toBe("");
  });

  it("is empty when that function fails, and observe is told", async () => {
    const events: AdmissionEvent[] = [];
    const body = () => {
      throw new Error("boom");
    };
    const answer = await refusal({ reject: { body }, observe: (event) => events.push(event) });
    expect([answer.status, answer.headers.get("retry-after") !== null, await answer.text()]).toEqual([
      503,
      true,
      "",
    ]);
    expect(events.map(({ type }) => type)).toEqual(["shed", "error"]);
  });

  it("of a policy may differ from that of the others", async () => {
    const policies = [
      {
        name: "all",
        kind: "concurrency" as const,
        limiter: full(),
        reject: { message: "special", status: 502 },
      },
    ];
    const answer = await refusal({
      policies,
      reject: { message: "general", retryAfterSeconds: 9, ...exact },
    });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([502, "9"]);
    expect(await answer.json()).toMatchObject({ detail: "special" });
  });
});

describe("functions that look on", () => {
  it("change nothing when they throw", async () => {
    const boom = vi.fn(() => {
      throw new Error("boom");
    });
    const policies = [{ name: "all", kind: "concurrency" as const, limiter: full() }];
    using admission = createAdmission<Request>({ policies, onReject: boom, observe: boom });
    expect((await admission.wrap(() => new Response())(request())).status).toBe(503);
    expect(boom).toHaveBeenCalledTimes(3);
  });

  it("are told of everything that happens to a request", async () => {
    const types: string[] = [];
    const clock = new ManualClock();
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      maxQueue: 1,
      clock,
      observe: (event) =>
        types.push(event.type === "admitted" ? `admitted after ${event.waitedMs}` : event.type),
    });
    const { handler, finish } = gated();
    const serve = admission.wrap(handler);
    const answers = [serve(request()), serve(request()), serve(request())];
    clock.advance(5);
    finish();
    await flush();
    finish(new Error("boom"));
    await Promise.allSettled(answers);
    expect(types).toEqual(["admitted after 0", "shed", "ended", "admitted after 5", "ended"]);
  });
});

describe("the RateLimit fields", () => {
  const clock = new ManualClock();
  const two = (style?: AdmissionOptions["headers"], more: Partial<AdmissionOptions<Request>> = {}) => {
    const burst = new FixedWindowRateLimiter({ permitLimit: 100, windowMs: 10_000, clock });
    const daily = new FixedWindowRateLimiter({ permitLimit: 1000, windowMs: 86_400_000, clock });
    burst.attemptAcquire(59);
    daily.attemptAcquire(9);
    return createAdmission<Request>({
      policies: [
        { name: "burst", kind: "rate", limiter: burst, advertise: { windowSeconds: 10 } },
        { name: "daily", kind: "rate", limiter: daily, advertise: { quota: 5000, windowSeconds: 86_400 } },
        { name: "slots", kind: "concurrency", limiter: new ConcurrencyLimiter({ permitLimit: 7 }) },
        {
          name: "seats",
          kind: "concurrency",
          limiter: new ConcurrencyLimiter({ permitLimit: 3 }),
          advertise: true,
        },
      ],
      clock,
      headers: style,
      ...more,
    });
  };
  const answer = async (admission: ReturnType<typeof two>, response = () => new Response("x")) =>
    Object.fromEntries((await admission.wrap(response)(request())).headers);

  it("tell of all advertised policies in their order, on admitted responses", async () => {
    clock.advance(7000);
    using admission = two();
    const headers = await answer(admission);
    expect(headers["ratelimit-policy"]).toBe(
      '"burst";q=100;w=10, "daily";q=5000;w=86400, "seats";q=3;qu="concurrent-requests"',
    );
    expect(headers["ratelimit"]).toBe('"burst";r=40;t=10, "daily";r=990;t=86400, "seats";r=2');
    expect(parseList(headers["ratelimit"] as string)[0]).toEqual([
      "burst",
      new Map([
        ["r", 40],
        ["t", 10],
      ]),
    ]);
    expect(headers["x-ratelimit-limit"]).toBeUndefined();
  });

  it("have an older form, of the policy that is nearest to its end", async () => {
    vi.spyOn(Date, "now").mockReturnValue(1_700_000_000_500);
    using admission = two("x-ratelimit");
    const headers = await answer(admission);
    expect(headers).toMatchObject({
      "x-ratelimit-limit": "5000",
      "x-ratelimit-remaining": "990",
      "x-ratelimit-reset": String(1_700_000_001 + 86_400),
    });
    expect(headers["ratelimit"]).toBeUndefined();
    using both = two("both");
    expect(Object.keys(await answer(both)).filter((name) => name.includes("ratelimit"))).toHaveLength(5);
    using none = two("none");
    expect(Object.keys(await answer(none)).filter((name) => name.includes("ratelimit"))).toEqual([]);
  });

  it("stand after those of the handler, and leave out a name that is there already", async () => {
    using admission = two();
    const headers = await answer(
      admission,
      () =>
        new Response("x", {
          headers: { ratelimit: '"upstream";r=1;t=1, "burst";r=77', "ratelimit-policy": "broken(" },
        }),
    );
    expect(headers["ratelimit"]).toBe('"upstream";r=1;t=1, "burst";r=77, "daily";r=990;t=86400, "seats";r=2');
    expect(headers["ratelimit-policy"]).toMatch(/^broken\(, "burst";q=100/);
  });

  it("leave out a policy that is used up on a redirect", async () => {
    using admission = rateLimit<Request>({ limit: 1, windowMs: 60_000, clientAddress: "socket" });
    const serve = admission.wrap(() => Response.redirect("http://localhost/next"));
    const answer = await serve(request());
    expect(answer.status).toBe(302);
    expect(answer.headers.get("location")).toBe("http://localhost/next");
    expect(answer.headers.has("ratelimit")).toBe(false);
  });

  it("stand on a refusal, of the policies that were asked", async () => {
    using admission = two(undefined, { reject: exact });
    const leases = [];
    for (let i = 0; i < 3; i++) leases.push(await admission.admit(request()));
    const refused = await admission.admit(request());
    if (refused.admitted || refused.gone) throw new Error("admitted");
    expect(refused.rejection.policy).toBe("seats");
    // What the first two gave to this request has gone back, and only what the three others hold is missing.
    const spent = leases.length;
    expect(refused.response.headers.get("ratelimit")).toMatch(
      new RegExp(`^"burst";r=${41 - spent};t=\\d+, "daily";r=${991 - spent};t=\\d+, "seats";r=0$`),
    );
  });

  it("are read by the parser of structured fields, whatever printable name a policy has", async () => {
    for (const name of ['a"b\\c', "per client", "x;r=5", "a,b", "~"]) {
      using admission = rateLimit<Request>({ limit: 5, windowMs: 1000, clientAddress: "socket", name });
      const headers = (await admission.wrap(() => new Response())(request())).headers;
      expect(parseItem(headers.get("ratelimit") as string)[0]).toBe(name);
    }
  });

  it("may be read by pages of other origins when told so", async () => {
    using admission = two(undefined, { exposeHeaders: true });
    const headers = await answer(
      admission,
      () => new Response("x", { headers: { "access-control-expose-headers": "X-Mine, RateLimit" } }),
    );
    expect(headers["access-control-expose-headers"]).toBe("X-Mine, RateLimit, ratelimit-policy");
    const refused = await refusal({ exposeHeaders: true });
    expect(refused.headers.get("access-control-expose-headers")).toBe("Retry-After");
    using rate = createAdmission<Request>({
      exposeHeaders: true,
      policies: [{ name: "r", kind: "rate", limiter: full() }],
    });
    expect(
      (await rate.wrap(() => new Response())(request())).headers.get("access-control-expose-headers"),
    ).toBe("Retry-After, ratelimit-policy, ratelimit");
  });

  it("hold nothing that a client has sent", async () => {
    using admission = rateLimit<Request>({
      limit: 1,
      windowMs: 1000,
      scope: ({ raw }) => decodeURIComponent(new URL(raw.url).pathname),
      onReject: () => {},
    });
    const serve = admission.wrap(() => new Response(null));
    for (const path of ["/a%0D%0AX-Evil:%201", "/%22%00", "/%F0%9F%92%A9"]) {
      await serve(request(path));
      const answer = await serve(request(path));
      expect(answer.status).toBe(429);
      expect(answer.headers.has("x-evil")).toBe(false);
      expect(JSON.stringify([...answer.headers])).not.toMatch(/evil|💩|\\u0000/i);
    }
  });
});

describe("the counts", () => {
  it("keep shed requests apart from failed ones", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 1 });
    const serve = admission.wrap(handler);
    for (let i = 0; i < 10; i++) {
      const answer = serve(request());
      finish();
      await answer;
    }
    const broken = serve(request());
    const leaving = new AbortController();
    const waiting = serve(request("/", { signal: leaving.signal }));
    for (let i = 0; i < 3; i++) await serve(request());
    leaving.abort();
    await waiting;
    finish(new Response(null, { status: 500 }));
    await broken;
    expect(admission.getStatistics()).toEqual({
      active: 0,
      queued: 0,
      admitted: 11,
      completed: 10,
      failed: 1,
      aborted: 0,
      shed: 3,
      shedBy: [{ policy: "concurrency", reason: "queue_full", priority: undefined, count: 3 }],
      deadlineExpired: 0,
      deliveredInTime: 0,
      clientGone: 1,
      holdExpired: 0,
      limiterErrors: 0,
      shadows: [],
    });
  });
});

describe("what a lease is told", () => {
  const outcomes: string[] = [];
  const reporting = () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 5 });
    const attempt = limiter.attemptAcquire.bind(limiter);
    Object.defineProperty(limiter, Symbol.for("headgate.inside.v1"), { value: undefined });
    (limiter as unknown as { acquireCore: () => RateLimitLease }).acquireCore = () => {
      const lease = attempt();
      lease.report = (outcome) => outcomes.push(outcome);
      return lease;
    };
    return limiter;
  };

  it.each([
    ["success", () => new Response(null)],
    ["success", () => new Response(null, { status: 404 })],
    ["dropped", () => new Response(null, { status: 429 })],
    ["dropped", () => new Response(null, { status: 503 })],
    ["failure", () => new Response(null, { status: 500 })],
    ["failure", () => Promise.reject(new Error("boom"))],
    ["dropped", () => Promise.reject(Object.assign(new Error("slow"), { name: "TimeoutError" }))],
  ])("is %s, by the response: %#", async (outcome, handler) => {
    outcomes.length = 0;
    using admission = createAdmission<Request>({
      policies: [{ name: "a", kind: "concurrency", limiter: reporting() }],
    });
    await admission
      .wrap(handler)(request())
      .catch(() => {});
    expect(outcomes).toEqual([outcome]);
  });

  it("is nothing when an admission further in has refused: one client's limit is no overload", async () => {
    outcomes.length = 0;
    using outer = createAdmission<Request>({
      policies: [{ name: "a", kind: "concurrency", limiter: reporting() }],
    });
    using inner = createAdmission<Request>({ policies: [{ name: "b", kind: "rate", limiter: full() }] });
    const answer = await outer.wrap(inner.wrap(() => new Response()))(request());
    await answer.text();
    expect(outcomes).toEqual(["ignored"]);
    expect(outer.getStatistics()).toMatchObject({ failed: 0, completed: 1 });
  });

  it("is that the client has left, when it has", async () => {
    outcomes.length = 0;
    using admission = createAdmission<Request>({
      policies: [{ name: "a", kind: "concurrency", limiter: reporting() }],
    });
    const leaving = new AbortController();
    const answer = await admission.wrap(() => new Response("x"))(request("/", { signal: leaving.signal }));
    leaving.abort();
    expect(outcomes).toEqual(["ignored"]);
    await answer.text();
    expect(outcomes).toEqual(["ignored"]);
    expect(admission.getStatistics()).toMatchObject({ aborted: 1, completed: 0, active: 0 });
  });
});

describe("the end of a Web-standard response", () => {
  const held = () => {
    const limiter = trackLeases(new ConcurrencyLimiter({ permitLimit: 5 }));
    const admission = createAdmission<Request>({ policies: [{ name: "a", kind: "concurrency", limiter }] });
    return { limiter, admission, active: () => limiter.held.length };
  };
  const chunks = (n: number, fail?: Error) =>
    new ReadableStream<Uint8Array>({
      start(controller) {
        for (let i = 0; i < n; i++) controller.enqueue(new TextEncoder().encode(`${i}`));
        if (fail === undefined) controller.close();
        else controller.error(fail);
      },
    });

  it("is when its body has been read", async () => {
    const { admission, active } = held();
    const answer = await admission.wrap(() => new Response("hello", { headers: { "x-mine": "1" } }))(
      request(),
    );
    expect(active()).toBe(1);
    expect(answer.headers.get("x-mine")).toBe("1");
    expect(await answer.text()).toBe("hello");
    expect(active()).toBe(0);
  });

  it("is at once when there is no body, and such a response is passed on as it is", async () => {
    const { admission, active } = held();
    for (const response of [
      new Response(null),
      new Response(null, { status: 204 }),
      new Response(null, { status: 304 }),
      Response.redirect("http://localhost/x"),
    ]) {
      expect(await admission.wrap(() => response)(request())).toBe(response);
      expect(active()).toBe(0);
    }
  });

  it("is at once for responses that cannot be touched", async () => {
    const { admission, active } = held();
    const locked = new Response("x");
    locked.body?.getReader();
    const upgrade = Object.assign(new Response(null), { webSocket: {} });
    for (const response of [locked, upgrade, Response.error()]) {
      expect(await admission.wrap(() => response)(request())).toBe(response);
      expect(active()).toBe(0);
    }
  });

  it("is when its body is cancelled, and the handler's body is cancelled for the same reason", async () => {
    const { admission, active } = held();
    const cancel = vi.fn();
    const answer = await admission.wrap(() => new Response(new ReadableStream({ cancel })))(request());
    await answer.body?.cancel("why");
    expect(cancel).toHaveBeenCalledWith("why");
    expect(active()).toBe(0);
    expect(admission.getStatistics()).toMatchObject({ aborted: 1, completed: 0 });
  });

  it("is when its body fails, with the same error", async () => {
    const { admission, active } = held();
    const answer = await admission.wrap(() => new Response(chunks(0, new Error("boom"))))(request());
    await expect(answer.text()).rejects.toThrow("boom");
    expect(active()).toBe(0);
    expect(admission.getStatistics()).toMatchObject({ failed: 1 });
  });

  it("is when the client has left, though nobody reads the body", async () => {
    const { admission, active } = held();
    const leaving = new AbortController();
    await admission.wrap(() => new Response("x"))(request("/", { signal: leaving.signal }));
    expect(active()).toBe(1);
    leaving.abort();
    expect(active()).toBe(0);
  });

  it("is when the handler throws, now or later, with that error", async () => {
    const { admission, active } = held();
    const error = new Error("boom");
    const now = admission.wrap(() => {
      throw error;
    });
    await expect(now(request())).rejects.toBe(error);
    await expect(admission.wrap(() => Promise.reject(error))(request())).rejects.toBe(error);
    expect(active()).toBe(0);
  });

  it("comes after the last of the chunks, which are asked for one at a time", async () => {
    const { admission, active } = held();
    let pulled = 0;
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled += 1;
          if (pulled === 2) controller.enqueue(new Uint8Array(0));
          else if (pulled > 4) controller.close();
          else controller.enqueue(new Uint8Array([pulled]));
        },
      },
      { highWaterMark: 0 },
    );
    const answer = await admission.wrap(() => new Response(body))(request());
    await flush();
    expect(pulled).toBe(0);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const bytes: number[] = [];
    for (let chunk = await reader.read(); !chunk.done; chunk = await reader.read()) {
      expect(active()).toBe(1);
      bytes.push(...chunk.value);
    }
    expect(bytes).toEqual([1, 3, 4]);
    expect(active()).toBe(0);
  });

  it("can be read with a buffer of one's own", async () => {
    const { admission, active } = held();
    const answer = await admission.wrap(() => new Response(chunks(3)))(request());
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader({ mode: "byob" });
    const bytes: number[] = [];
    for (;;) {
      const { done, value } = await reader.read(new Uint8Array(2));
      if (done) break;
      bytes.push(...value);
    }
    expect(new TextDecoder().decode(new Uint8Array(bytes))).toBe("012");
    expect(active()).toBe(0);
  });

  it("can be that of the handler, too, when told so", async () => {
    let finish = () => {};
    const work = new Promise<void>((resolve) => {
      finish = resolve;
    });
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, hold: "handler" });
    const leaving = new AbortController();
    const answer = admission.wrap(async () => {
      await work;
      return new Response(null);
    })(request("/", { signal: leaving.signal }));
    await flush();
    leaving.abort();
    await flush();
    expect(admission.getStatistics()).toMatchObject({ active: 1, aborted: 1 });
    finish();
    await answer;
    await flush();
    expect(admission.getStatistics().active).toBe(0);
  });

  it("can be put off until other work is done", async () => {
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1 });
    let finish = (_: Error) => {};
    const work = new Promise<void>((_, reject) => {
      finish = reject;
    });
    const one = request();
    expect(admission.leaseOf(one)).toBeUndefined();
    const serve = admission.wrap(() => {
      admission.leaseOf(one)?.holdUntil(work);
      return new Response(null);
    });
    await serve(one);
    expect(admission.leaseOf(one)?.state).toBe("held");
    finish(new Error("boom"));
    await flush();
    expect(admission.leaseOf(one)?.state).toBe("released");
    admission.leaseOf(one)?.holdUntil(Promise.resolve());
    expect(admission.getStatistics()).toMatchObject({ active: 0, completed: 1 });
  });

  it("is put forward by maxHoldMs, once, and the response goes on", async () => {
    const clock = new ManualClock();
    const { handler, finish } = gated();
    const events: string[] = [];
    using admission = createAdmission<Request>({
      policies: [
        { name: "a", kind: "concurrency", limiter: new ConcurrencyLimiter({ permitLimit: 1, clock }) },
      ],
      maxHoldMs: 100,
      clock,
      observe: ({ type }) => events.push(type),
    });
    const answer = admission.wrap(handler)(request());
    clock.advance(99);
    expect(admission.getStatistics().active).toBe(1);
    clock.advance(1);
    expect(admission.getStatistics()).toMatchObject({ active: 0, holdExpired: 1 });
    expect((await admission.admit(request())).admitted).toBe(true);
    finish(new Response("late"));
    expect(await (await answer).text()).toBe("late");
    expect(admission.getStatistics()).toMatchObject({ active: 1, holdExpired: 1, completed: 1, aborted: 0 });
    expect(events).toEqual(["admitted", "hold_expired", "admitted", "ended"]);
    expect(clock.keepAliveTimerCount).toBe(0);
  });

  it("ends only once, whatever comes first", async () => {
    using admission = concurrencyLimit<Request>({ maxConcurrent: 2 });
    const answer = await admission.admit(request());
    if (!answer.admitted) throw new Error("refused");
    {
      using lease = answer.lease;
      lease.release("failure");
      lease.release();
    }
    expect(answer.lease.state).toBe("released");
    expect(admission.getStatistics()).toMatchObject({ active: 0, failed: 1, completed: 0 });
  });
});
