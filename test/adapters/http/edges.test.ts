import { ConcurrencyLimiter, FixedWindowRateLimiter, RateLimiter, RateLimitLease } from "headgate";
import { type AdmissionEvent, concurrencyLimit, createAdmission, rateLimit } from "headgate/http";
import { honoAdmission } from "headgate/http/hono";
import { nodeListener } from "headgate/http/node";
import { type Context, Hono } from "hono";
import { describe, expect, it } from "vitest";
import { flush, ManualClock } from "../../support.js";
import { type FakeRequest, FakeResponse, fakeRequest } from "./fakes.js";
import { request } from "./support.js";

describe("rateLimit", () => {
  it.each([
    ["tokenBucket", [500, 1]],
    ["fixedWindow", [999, 0]],
    ["slidingWindow", [1000, 2]],
  ] as const)(
    "with a %s lets two through at once, and after %j again",
    async (algorithm, [afterMs, more]) => {
      const clock = new ManualClock();
      using admission = rateLimit<Request>({ limit: 2, windowMs: 1000, scope: "global", algorithm, clock });
      const admitted = async () => {
        let count = 0;
        for (let i = 0; i < 4; i++) if ((await admission.admit(request())).admitted) count += 1;
        return count;
      };
      expect(await admitted()).toBe(2);
      clock.advance(afterMs);
      expect(await admitted()).toBe(more);
    },
  );

  it("lets requests wait for their turn", async () => {
    const clock = new ManualClock();
    using admission = rateLimit<Request>({ limit: 1, windowMs: 1000, scope: "global", maxQueue: 1, clock });
    await admission.admit(request());
    const waiting = admission.admit(request());
    expect(await admission.admit(request())).toMatchObject({
      rejection: { reason: "queue_full", status: 503 },
    });
    clock.advance(1000);
    expect((await waiting).admitted).toBe(true);
  });

  it.each([{ limit: 0 }, { windowMs: 0 }, { algorithm: "leaky" }, { windowms: 5 }])("refuses %j", (wrong) => {
    const name = Object.keys(wrong)[0] === "windowms" ? "windowMs" : (Object.keys(wrong)[0] as string);
    expect(() => rateLimit({ limit: 1, windowMs: 1000, scope: "global", ...wrong } as never)).toThrow(name);
  });
});

describe("fields on node:http", () => {
  const admission = () =>
    rateLimit({ limit: 9, windowMs: 60_000, clientAddress: "socket", algorithm: "fixedWindow" });

  it("stand beside a list of names and values, and beside what was set before", () => {
    const listener = nodeListener(admission(), (_: FakeRequest, response: FakeResponse) => {
      response.fields["ratelimit"] = '"mine";r=1';
      (response.writeHead as (status: number, fields: unknown) => unknown)(200, ["x-a", "1"]);
      response.end();
    });
    const response = new FakeResponse();
    listener(fakeRequest("1.2.3.4"), response);
    expect(response.fields["ratelimit-policy"]).toBe('"rate";q=9;w=60');
    const other = nodeListener(admission(), (_: FakeRequest, response: FakeResponse) => {
      response.fields["ratelimit"] = '"mine";r=1';
      response.writeHead(200, { "RateLimit-Policy": '"mine";q=2' });
      response.end();
    });
    const second = new FakeResponse();
    other(fakeRequest("1.2.3.4"), second);
    expect(second.fields["ratelimit"]).toBe('"mine";r=1, "rate";r=8;t=60');
    expect(second.fields["RateLimit-Policy"]).toBe('"mine";q=2, "rate";q=9;w=60');
  });

  it("leave what CORS has said before a refusal", () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.attemptAcquire();
    const full = createAdmission({
      exposeHeaders: true,
      policies: [{ name: "full", kind: "concurrency", limiter }],
    });
    const response = new FakeResponse();
    response.fields["access-control-expose-headers"] = "X-Mine";
    nodeListener(full, (_: FakeRequest, __: FakeResponse) => {})(fakeRequest("1.2.3.4"), response);
    expect(response.fields["access-control-expose-headers"]).toBe("X-Mine, Retry-After");
  });

  it("are not written to a response that has begun, or has gone, while the refusal was made", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    limiter.attemptAcquire();
    let make = (_: Response) => {};
    const full = createAdmission({
      policies: [{ name: "full", kind: "concurrency", limiter }],
      reject: {
        body: () =>
          new Promise<Response>((resolve) => {
            make = resolve;
          }),
      },
    });
    const listener = nodeListener(full, (_: FakeRequest, __: FakeResponse) => {});
    for (const spoil of [(one: FakeResponse) => one.writeHead(200), (one: FakeResponse) => one.leave()]) {
      const response = new FakeResponse();
      listener(fakeRequest("1.2.3.4"), response);
      spoil(response);
      make(new Response("busy", { status: 503 }));
      await flush();
      await new Promise(setImmediate);
      expect([response.statusCode, response.writableEnded]).toEqual([200, false]);
    }
  });

  it("and all else work on a request to which nothing can be added", () => {
    const slots = concurrencyLimit({ maxConcurrent: 1 });
    const listener = nodeListener(slots, (_: FakeRequest, response: FakeResponse) => response.end());
    const response = new FakeResponse();
    listener(Object.freeze(fakeRequest("1.2.3.4")), response);
    expect(response.statusCode).toBe(200);
    expect(slots.getStatistics()).toMatchObject({ active: 0, completed: 1 });
  });
});

describe("limiters of others that fail half-way", () => {
  class ThrowingLease extends RateLimitLease {
    override get isAcquired(): boolean {
      return true;
    }
    override get metadataNames(): string[] {
      return [];
    }
    protected override tryGetMetadataCore(): undefined {
      return undefined;
    }
    override report(): void {
      throw new Error("report");
    }
    override dispose(): void {
      throw new Error("dispose");
    }
  }

  class Foreign extends RateLimiter {
    readonly #answer: () => RateLimitLease | Promise<RateLimitLease>;

    constructor(answer: () => RateLimitLease | Promise<RateLimitLease>) {
      super();
      this.#answer = answer;
    }
    override getStatistics(): undefined {
      throw new Error("statistics");
    }
    override get idleDurationMs(): undefined {
      return undefined;
    }
    protected override attemptAcquireCore(): RateLimitLease {
      throw new Error("unused");
    }
    protected override acquireCore(): RateLimitLease | Promise<RateLimitLease> {
      return this.#answer();
    }
  }

  it("are told of, and leave nothing held", async () => {
    const errors: string[] = [];
    const observe = (event: AdmissionEvent<Request>) => {
      if (event.type === "error") errors.push((event.error as Error).message);
    };
    const full = new ConcurrencyLimiter({ permitLimit: 1 });
    const policies = [
      { name: "foreign", kind: "concurrency" as const, limiter: new Foreign(() => new ThrowingLease()) },
      { name: "last", kind: "concurrency" as const, limiter: full },
    ];
    using admission = createAdmission<Request>({ policies, observe });
    const answer = await admission.admit(request());
    if (!answer.admitted) throw new Error("refused");
    answer.lease.release();
    expect(errors).toEqual(["report", "dispose"]);
    full.attemptAcquire();
    expect(await admission.admit(request())).toMatchObject({ rejection: { policy: "last" } });
    expect(errors).toEqual(["report", "dispose", "report", "dispose"]);
    expect(admission.getStatistics()).toMatchObject({ active: 0, queued: 0 });
  });

  it("are answered with 503 when they reject later, or passed over when told so", async () => {
    const policies = [
      {
        name: "foreign",
        kind: "concurrency" as const,
        limiter: new Foreign(async () => Promise.reject(new Error("gone"))),
      },
    ];
    using closed = createAdmission<Request>({ policies });
    expect(await closed.admit(request())).toMatchObject({
      rejection: { reason: "store_unavailable", active: 0, queued: 0 },
    });
    using open = createAdmission<Request>({ policies, onError: "open" });
    expect((await open.admit(request())).admitted).toBe(true);
    expect(open.getStatistics()).toMatchObject({ active: 1, limiterErrors: 1 });
  });

  it("are given back what they grant to a client that has left", async () => {
    let grant = (_: RateLimitLease) => {};
    const limiter = new Foreign(
      () =>
        new Promise<RateLimitLease>((resolve) => {
          grant = resolve;
        }),
    );
    using admission = createAdmission<Request>({
      policies: [{ name: "foreign", kind: "concurrency", limiter }],
    });
    const leaving = new AbortController();
    const answer = admission.admit(request("/", { signal: leaving.signal }));
    await flush();
    leaving.abort();
    expect(await answer).toEqual({ admitted: false, gone: true });
    const one = new ConcurrencyLimiter({ permitLimit: 1 });
    grant(one.attemptAcquire());
    await flush();
    expect(one.getStatistics().currentAvailablePermits).toBe(1);
  });
});

describe("the middleware of Hono", () => {
  it("counts once when it is mounted twice", async () => {
    const admission = concurrencyLimit<Context>({ maxConcurrent: 1 });
    const app = new Hono();
    app.use(honoAdmission(admission));
    app.use(honoAdmission(admission));
    app.get("/", (context) => context.text("hello"));
    expect(await (await app.request("/")).text()).toBe("hello");
    expect(admission.getStatistics()).toMatchObject({ admitted: 1, active: 0 });
  });

  it("applies the policies that a mount names", async () => {
    const window = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 60_000 });
    const admission = createAdmission<Context>({
      policies: [
        { name: "writes", kind: "rate", scope: "route", limiter: () => window },
        {
          name: "reads",
          kind: "rate",
          scope: "route",
          limiter: () => new ConcurrencyLimiter({ permitLimit: 9 }),
        },
      ],
    });
    const app = new Hono();
    app.use("/free/*", honoAdmission(admission, { policies: false }));
    app.use("/other/*", honoAdmission(admission, { policies: ["reads"] }));
    app.use("/writes/*", honoAdmission(admission, { policies: ["writes"] }));
    app.get("*", (context) => context.text("hello"));
    const statuses: number[] = [];
    for (const path of ["/free/1", "/other/1", "/writes/1", "/writes/1"]) {
      const answer = await app.request(path);
      await answer.text();
      statuses.push(answer.status);
    }
    expect(statuses).toEqual([200, 200, 200, 503]);
  });
});
