import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
import { concurrencyLimit, createAdmission } from "headgate/http";
import { describe, expect, it, vi } from "vitest";
import { flush, ManualClock } from "../../support.js";
import { request } from "./support.js";

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
