import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fastify from "fastify";
import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
import {
  type ConnectionInfo,
  clientIp,
  concurrencyLimit,
  createAdmission,
  type MountOptions,
} from "headgate/http";
import { expressAdmission } from "headgate/http/express";
import { fastifyAdmission } from "headgate/http/fastify";
import { honoAdmission } from "headgate/http/hono";
import { koaAdmission } from "headgate/http/koa";
import { describe, expect, it, vi } from "vitest";
import { flush, ManualClock } from "../../support.js";
import { request, seen } from "./support.js";

const slots = (permitLimit = 1, queueLimit = 0) => new ConcurrencyLimiter({ permitLimit, queueLimit });

describe("the answer to HEAD", () => {
  it("holds nothing, though its body is never read, which is cancelled", async () => {
    const cancel = vi.fn();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1 });
    const body = () => new ReadableStream({ cancel });
    const serve = admission.wrap(() => new Response(body(), { headers: { "content-type": "text/x" } }));
    const answer = await serve(request("/", { method: "HEAD" }));
    expect([answer.body, answer.headers.get("content-type")]).toEqual([null, "text/x"]);
    expect(admission.getStatistics()).toMatchObject({ active: 0, completed: 1, aborted: 0 });
    expect(cancel).toHaveBeenCalledOnce();
  });
});

describe("a request that is offered again", () => {
  it("is asked again when it has been refused, and when it is over", async () => {
    using admission = createAdmission<Request>({
      policies: [{ name: "all", kind: "concurrency", limiter: slots() }],
    });
    const first = await admission.admit(request());
    const again = request();
    for (let i = 0; i < 3; i++) expect((await admission.admit(again)).admitted).toBe(false);
    expect(admission.leaseOf(again)).toBeUndefined();
    if (first.admitted) first.lease.release();
    const second = await admission.admit(again);
    expect(second.admitted && admission.leaseOf(again)?.state).toBe("held");
    expect((await admission.admit(request())).admitted).toBe(false);
    if (second.admitted) second.lease.release();
    expect((await admission.admit(request())).admitted).toBe(true);
    expect((await admission.admit(again)).admitted).toBe(false);
  });

  it("waits only once while it waits", async () => {
    using admission = createAdmission<Request>({
      policies: [{ name: "all", kind: "concurrency", limiter: slots(1, 5) }],
    });
    await admission.admit(request());
    const waiting = request();
    void admission.admit(waiting);
    expect((await admission.admit(waiting)).admitted).toBe(true);
    expect(admission.getStatistics()).toMatchObject({ admitted: 1, queued: 1 });
  });
});

describe("the reason of a refusal", () => {
  it.each([
    [30, 10_000, "queue_timeout", 0],
    [10_000, 30, "deadline_expired", 1],
  ])(
    "after a time-out of %i ms and a deadline of %i ms is %s",
    async (queueTimeoutMs, deadline, reason, count) => {
      const clock = new ManualClock();
      using admission = concurrencyLimit<Request>({
        maxConcurrent: 1,
        maxQueue: 5,
        queueTimeoutMs,
        deadline: () => deadline,
        clock,
      });
      await admission.admit(request());
      const refused = admission.admit(request());
      await flush();
      clock.advance(30);
      expect(await refused).toMatchObject({ rejection: { reason } });
      expect(admission.getStatistics().deadlineExpired).toBe(count);
    },
  );

  it("is the limit's own for a priority whose share is all of it, or that has none", async () => {
    for (const priority of ["normal", "high"]) {
      using admission = createAdmission<Request>({
        client: { clientAddress: "socket" },
        priority: () => priority,
        policies: [
          {
            name: "rate",
            kind: "rate",
            scope: "client",
            priorityShares: { low: 0.5, normal: 1 },
            limiter: () => new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 60_000 }),
          },
        ],
      });
      await admission.admit(request());
      const refused = await admission.admit(request());
      expect(refused).toMatchObject({ rejection: { reason: "limit_reached", status: 429 } });
    }
  });
});

describe("a body of one's own", () => {
  it("that fails while it is read makes an empty refusal, and observe is told", async () => {
    const errors: unknown[] = [];
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      observe: (event) => event.type === "error" && errors.push((event.error as Error).message),
      reject: {
        body: () =>
          new Response(new ReadableStream({ pull: (c) => c.error(new Error("boom")) }), { status: 418 }),
      },
    });
    await admission.admit(request());
    const refused = await admission.admit(request());
    expect(refused.admitted || refused.gone || refused.response.status).toBe(503);
    expect(errors).toEqual(["boom"]);
  });
});

describe("a shadow", () => {
  it("counts a request that wants more than there can be, and lets it through", async () => {
    using admission = createAdmission<Request>({
      policies: [{ name: "all", kind: "concurrency", limiter: slots(), permits: () => 5, shadow: true }],
    });
    expect((await admission.admit(request())).admitted).toBe(true);
    expect(admission.getStatistics().shadows).toEqual([
      { policy: "all", wouldHaveShed: 1, wouldHaveWaited: 0 },
    ]);
  });
});

describe("a client that leaves", () => {
  it("in the turn of its grant is gone for admit, too, and the slot is free", async () => {
    using admission = createAdmission<Request>({
      policies: [{ name: "all", kind: "concurrency", limiter: slots(1, 5) }],
    });
    const first = await admission.admit(request());
    const leaving = new AbortController();
    const second = admission.admit(request("/", { signal: leaving.signal }));
    await flush();
    if (first.admitted) first.lease.release();
    leaving.abort();
    expect(await second).toEqual({ admitted: false, gone: true });
    expect(admission.getStatistics()).toMatchObject({ active: 0, admitted: 2, completed: 1, aborted: 1 });
  });
});

describe("a request that holds for too long", () => {
  it.each([
    ["failure", { failed: 1, completed: 0 }],
    ["success", { failed: 0, completed: 1 }],
  ] as const)("is counted once when it ends at last: %s", async (outcome, counts) => {
    const clock = new ManualClock();
    const outcomes: string[] = [];
    using admission = createAdmission<Request>({
      policies: [{ name: "all", kind: "concurrency", limiter: slots() }],
      maxHoldMs: 100,
      clock,
      observe: (event) => event.type === "ended" && outcomes.push(event.outcome),
    });
    const first = await admission.admit(request());
    clock.advance(100);
    expect(admission.getStatistics()).toMatchObject({ active: 0, failed: 0, completed: 0, holdExpired: 1 });
    for (let i = 0; i < 2; i++) if (first.admitted) first.lease.release(outcome);
    expect(admission.getStatistics()).toMatchObject({ active: 0, admitted: 1, ...counts });
    expect(outcomes).toEqual([outcome]);
  });
});

describe("holdUntil", () => {
  it.each([
    [
      "a thenable that throws",
      {
        // biome-ignore lint/suspicious/noThenProperty: it is what is to be borne.
        then() {
          throw new Error("no promise");
        },
      },
    ],
    ["nothing", undefined],
    ["a number", 5],
  ])("holds no longer for %s", async (_, work) => {
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1 });
    const first = await admission.admit(request());
    if (!first.admitted) throw new Error("refused");
    first.lease.holdUntil(work as PromiseLike<unknown>);
    first.lease.release();
    await flush();
    expect(admission.getStatistics().active).toBe(0);
  });
});

describe("policies of a mount", () => {
  const admission = <Raw>() =>
    createAdmission<Raw>({ policies: [{ name: "all", kind: "concurrency", limiter: slots() }] });
  const mounts = [
    (options: MountOptions) => expressAdmission(admission(), options),
    (options: MountOptions) => koaAdmission(admission(), options),
    (options: MountOptions) => honoAdmission(admission(), options),
  ];

  it.each([{ policies: ["al"] }, { policies: "all" }, { policies: [5] }, { policy: ["all"] }])(
    "are refused when they are not known: %j",
    async (wrong) => {
      for (const mount of mounts) {
        expect(() => mount(wrong as never)).toThrow(/policies \(all\)|policy/);
      }
      if (!("policies" in wrong)) return;
      const serve = admission<Request>();
      const connection = wrong as ConnectionInfo;
      await expect(serve.admit(request(), connection)).rejects.toThrow("connection.policies");
      await expect(
        serve.wrap(
          () => new Response(),
          () => connection,
        )(request()),
      ).rejects.toThrow("connection.policies");
    },
  );

  it("are taken when they are", () => {
    for (const mount of mounts) {
      for (const policies of [["all"], [], false as const, undefined]) mount({ policies });
    }
  });

  it("are refused for a route of Fastify, too", async () => {
    const app = fastify();
    await app.register(fastifyAdmission, { admission: admission() });
    expect(() => app.get("/a", { config: { headgate: ["al"] } }, () => "")).toThrow("config.headgate");
    app.get("/b", { config: { headgate: ["all"] } }, () => "");
    await app.close();
  });
});

describe("a shadow with shares", () => {
  it("counts what a full share would have refused", async () => {
    using admission = createAdmission<Request>({
      priority: () => "low",
      policies: [
        { name: "all", kind: "concurrency", limiter: slots(4), shadow: true, priorityShares: { low: 0.5 } },
      ],
    });
    for (let i = 0; i < 4; i++) expect((await admission.admit(request())).admitted).toBe(true);
    expect(admission.getStatistics().shadows).toEqual([
      { policy: "all", wouldHaveShed: 2, wouldHaveWaited: 0 },
    ]);
  });
});

describe("addresses that are remembered", () => {
  it("do not keep the headers alive that they were cut from", () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const addressOf = clientIp({ trustedHops: 1 });
    const used = () => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const before = used();
    for (let i = 0; i < 2000; i++) {
      const header = `${Buffer.alloc(8000, "x").toString("latin1")}, 2001:db8:${i.toString(16)}:1:1:1:1:1`;
      addressOf({ ...seen("10.0.0.1"), header: () => header });
    }
    // The headers have 16 MB.
    expect(used() - before).toBeLessThan(6_000_000);
    addressOf(seen("10.0.0.1"));
  });
});
