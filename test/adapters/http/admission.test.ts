import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  PartitionedRateLimiter,
  RateLimitPartition,
} from "headgate";
import {
  type AdmissionEvent,
  concurrencyLimit,
  createAdmission,
  deadlineFromHeader,
  type Policy,
  type Rejection,
  rateLimit,
} from "headgate/http";
import { trackLeases } from "headgate/testing";
import { describe, expect, it, vi } from "vitest";
import { CountingClock, flush, ManualClock, watch } from "../../support.js";
import { gated, request } from "./support.js";

const exact = { retryAfterJitter: false } as const;

function statusOf(answer: Promise<Response>): Promise<number> {
  return answer.then(({ status }) => status);
}

describe("concurrencyLimit", () => {
  it("lets as many through as it has slots, and refuses the rest at once", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 2, reject: exact });
    const serve = admission.wrap(handler);
    const answers = [serve(request("/1")), serve(request("/2")), serve(request("/3"))];
    const third = await (answers[2] as Promise<Response>);
    expect(third.status).toBe(503);
    expect(third.headers.get("retry-after")).toBe("1");
    finish();
    finish();
    expect(await Promise.all(answers.map(statusOf))).toEqual([200, 200, 503]);
    expect(admission.getStatistics()).toMatchObject({
      active: 0,
      queued: 0,
      admitted: 2,
      completed: 2,
      shed: 1,
    });
  });

  it("lets requests wait in the order in which they came, and refuses when the queue is full", async () => {
    const { handler, finish, running } = gated();
    const gate = { handler, finish };
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 2 });
    const serve = admission.wrap(gate.handler);
    const answers = ["/1", "/2", "/3", "/4"].map((path) => serve(request(path)));
    expect((await (answers[3] as Promise<Response>)).status).toBe(503);
    expect(admission.getStatistics()).toMatchObject({ active: 1, queued: 2 });
    gate.finish();
    expect(await statusOf(answers[0] as Promise<Response>)).toBe(200);
    gate.finish();
    expect(await statusOf(answers[1] as Promise<Response>)).toBe(200);
    gate.finish();
    expect(await statusOf(answers[2] as Promise<Response>)).toBe(200);
    expect(running).toEqual([]);
  });

  it("refuses a request that has waited for as long as it may", async () => {
    const clock = new ManualClock();
    const rejections: Rejection[] = [];
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      maxQueue: 5,
      queueTimeoutMs: 30,
      clock,
      onReject: (rejection) => rejections.push(rejection),
    });
    const serve = admission.wrap(handler);
    const first = serve(request("/1"));
    const second = watch(serve(request("/2")));
    clock.advance(29);
    await flush();
    expect(second.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(second.value.status).toBe(503);
    expect(rejections).toMatchObject([
      { reason: "queue_timeout", active: 1, queued: 0, waitedMs: 30, limit: 1 },
    ]);
    finish();
    expect(await statusOf(first)).toBe(200);
  });

  it("tells onReject once of a full queue, with the counts of that moment", async () => {
    const onReject = vi.fn<(rejection: Rejection) => void>();
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, onReject });
    const serve = admission.wrap(handler);
    const first = serve(request());
    await serve(request("/x", { method: "POST" }));
    expect(onReject.mock.calls).toEqual([
      [
        {
          policy: "concurrency",
          scope: "global",
          key: "global",
          reason: "queue_full",
          active: 1,
          queued: 0,
          limit: 1,
          waitedMs: 0,
          retryAfterMs: undefined,
          status: 503,
          priority: undefined,
          method: "POST",
          route: undefined,
        },
      ],
    ]);
    finish();
    await first;
  });

  it("counts each method and path apart with the scope route, without the query", async () => {
    const { handler, finish, running } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, scope: "route" });
    const serve = admission.wrap(handler);
    const answers = [serve(request("/a")), serve(request("/a", { method: "POST" })), serve(request("/b"))];
    await flush();
    expect(running).toHaveLength(0);
    expect(admission.getStatistics().active).toBe(3);
    expect(await statusOf(serve(request("/a?x=1")))).toBe(503);
    for (const _ of answers) finish();
    await Promise.all(answers);
  });

  it("does not limit requests whose scope function returns undefined", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, scope: () => undefined });
    const serve = admission.wrap(handler);
    const answers = Array.from({ length: 50 }, () => serve(request()));
    expect(admission.getStatistics().active).toBe(50);
    for (const _ of answers) finish();
    expect(new Set(await Promise.all(answers.map(statusOf)))).toEqual(new Set([200]));
  });

  it("counts by what a scope function returns, also asynchronously", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      scope: async ({ raw }) => raw.headers.get("x-tenant") ?? undefined,
    });
    const serve = admission.wrap(handler);
    const of = (tenant: string) => request("/", { headers: { "x-tenant": tenant } });
    const first = serve(of("a"));
    await flush();
    expect(await statusOf(serve(of("a")))).toBe(503);
    const other = serve(of("b"));
    await flush();
    finish();
    finish();
    expect([await statusOf(first), await statusOf(other)]).toEqual([200, 200]);
  });

  it.each([
    ["the empty string", () => ""],
    ["a number", () => 5 as unknown as string],
    ["null", () => null as unknown as string],
    [
      "an error",
      () => {
        throw new Error("boom");
      },
    ],
    ["a promise of a number", async () => 5 as unknown as string],
    ["a promise of an error", () => Promise.reject(new Error("boom"))],
  ])("passes on the error when the scope function gives %s, and holds nothing", async (_, scope) => {
    const events: AdmissionEvent[] = [];
    const handler = vi.fn(() => new Response());
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      scope,
      observe: (event) => events.push(event),
    });
    await expect(admission.wrap(handler)(request())).rejects.toThrow(/boom|scope returns/);
    expect(handler).not.toHaveBeenCalled();
    expect(events.map(({ type }) => type)).toEqual(["error"]);
    expect(admission.getStatistics()).toMatchObject({ active: 0, queued: 0, admitted: 0, shed: 0 });
  });

  it("spends one acquire, no timer and no clock reading on a request that finds a free slot", async () => {
    const clock = new CountingClock();
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      maxQueue: 1,
      queueTimeoutMs: 100,
      clock,
    });
    const serve = admission.wrap(() => new Response("x"));
    await (await serve(request())).text();
    const { reads, timersSet } = clock;
    await (await serve(request())).text();
    expect(clock.reads - reads).toBe(0);
    expect(clock.timersSet - timersSet).toBe(0);
    expect(clock.timerCount).toBe(0);
  });

  it.each([
    [{ maxConcurrent: 0 }, "options.maxConcurrent"],
    [{ maxConcurrent: -1 }, "options.maxConcurrent"],
    [{ maxConcurrent: 1.5 }, "options.maxConcurrent"],
    [{ maxConcurrent: Number.NaN }, "options.maxConcurrent"],
    [{}, "options.maxConcurrent"],
    [{ maxConcurrent: 1, maxQueue: -1 }, "options.maxQueue"],
    [{ maxConcurrent: 1, queueTimeoutMs: 0 }, "options.queueTimeoutMs"],
    [{ maxConcurrent: 1, retryAfterSeconds: -1 }, "retryAfterSeconds"],
    [{ maxConcurrent: 1, retryAfterSeconds: 1.5 }, "retryAfterSeconds"],
    [{ maxConcurrent: 1, message: 5 }, "message"],
    [{ maxConcurrent: 1, scope: "clients" }, "scope"],
    [{ maxConcurrent: 1, scope: "client" }, "told apart"],
    [{ maxConcurrent: 1, onReject: "log" }, "options.onReject"],
    [{ maxConcurent: 1 }, "did you mean options.maxConcurrent?"],
    [{ maxConcurrent: 1, name: "a\r\nb" }, "name"],
    [{ maxConcurrent: 1, name: "naïve" }, "name"],
    [{ maxConcurrent: 1, name: "" }, "name"],
    [{ maxConcurrent: 1, name: "n".repeat(65) }, "name"],
    [{ maxConcurrent: 1, maxPartitions: 5 }, "maxPartitions"],
    [{ maxConcurrent: 1, scope: "route", maxPartitions: 0 }, "maxPartitions"],
    [{ maxConcurrent: 1, scope: "route", overflow: "drop" }, "overflow"],
    [{ maxConcurrent: 1, shadow: "yes" }, "shadow"],
    [{ maxConcurrent: 1, reject: { status: 200 } }, "status"],
    [{ maxConcurrent: 1, reject: { body: "html" } }, "body"],
    [{ maxConcurrent: 1, reject: { retryAfterJitter: { ratio: -1 } } }, "ratio"],
    [{ maxConcurrent: 1, reject: { retryAfterJitter: { minSecond: 1 } } }, "minSeconds"],
  ])("refuses %j, and names the option", (options, name) => {
    expect(() => concurrencyLimit(options as never)).toThrow(name);
  });
});

describe("several policies", () => {
  const limiter = (permitLimit: number, queueLimit = 0) =>
    new ConcurrencyLimiter({ permitLimit, queueLimit });
  const client = { keyGenerator: ({ raw }: { raw: Request }) => raw.headers.get("x-client") ?? undefined };
  const from = (name: string) => request("/", { headers: { "x-client": name } });

  it("let one who waits for its own limit hold nothing that others need", async () => {
    const { handler, finish } = gated();
    using admission = createAdmission<Request>({
      client,
      policies: [
        { name: "client", kind: "concurrency", scope: "client", limiter: () => limiter(1, 5) },
        { name: "all", kind: "concurrency", limiter: limiter(2) },
      ],
    });
    const serve = admission.wrap(handler);
    const ofA = [serve(from("a")), serve(from("a")), serve(from("a"))];
    await flush();
    expect(admission.getStatistics()).toMatchObject({ active: 1, queued: 2 });
    const ofB = serve(from("b"));
    await flush();
    expect(admission.getStatistics().active).toBe(2);
    for (let i = 0; i < 4; i++) {
      finish();
      await flush();
    }
    expect(await Promise.all([...ofA, ofB].map(statusOf))).toEqual([200, 200, 200, 200]);
  });

  it("give back what the earlier ones granted when a later one refuses, a rate too", async () => {
    const clock = new ManualClock();
    using rate = new FixedWindowRateLimiter({ permitLimit: 5, windowMs: 60_000, clock });
    using all = trackLeases(limiter(1));
    using admission = createAdmission<Request>({
      policies: [
        { name: "rate", kind: "rate", limiter: rate },
        { name: "all", kind: "concurrency", limiter: all },
      ],
      clock,
    });
    const { handler, finish } = gated();
    const serve = admission.wrap(handler);
    const first = serve(request());
    for (let i = 0; i < 20; i++) expect(await statusOf(serve(request()))).toBe(503);
    expect(rate.getStatistics().currentAvailablePermits).toBe(4);
    finish();
    await first;
    expect(all.held).toEqual([]);
  });

  it("are all named in the order in which they are asked when their names are the same", () => {
    const policy: Policy = { name: "x", kind: "concurrency", limiter: limiter(1) };
    expect(() => createAdmission({ policies: [policy, policy] })).toThrow('two policies named "x"');
  });

  it("can be passed over one by one", async () => {
    using admission = createAdmission<Request>({
      policies: [
        { name: "writes", kind: "concurrency", limiter: limiter(1), when: ({ method }) => method === "POST" },
      ],
    });
    const { handler, finish } = gated();
    const serve = admission.wrap(handler);
    const answers = [serve(request()), serve(request()), serve(request("/", { method: "POST" }))];
    expect(await statusOf(serve(request("/", { method: "POST" })))).toBe(503);
    for (const _ of answers) finish();
    expect(await Promise.all(answers.map(statusOf))).toEqual([200, 200, 200]);
  });

  it("can be chosen for a route; those for all stay unless none is to apply", async () => {
    const policies: Policy<Request>[] = [
      { name: "all", kind: "concurrency", limiter: limiter(1) },
      { name: "search", kind: "concurrency", scope: "route", limiter: () => limiter(1) },
      { name: "reports", kind: "concurrency", scope: "route", limiter: () => limiter(1) },
    ];
    using admission = createAdmission<Request>({ policies });
    const ask = (chosen: false | string[] | undefined) => admission.admit(request(), { policies: chosen });
    const held = await ask(["reports"]);
    expect(held.admitted).toBe(true);
    expect(await ask(["search"])).toMatchObject({ rejection: { policy: "all" } });
    expect((await ask(false)).admitted).toBe(true);
    if (held.admitted) held.lease.release();
    const again = await ask(["search"]);
    if (again.admitted) again.lease.release();
    expect(admission.getStatistics()).toMatchObject({ admitted: 2, shed: 1, active: 0 });
  });

  it("take a partitioned limiter of the caller, and leave it to them", async () => {
    using tenants = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1 })),
    );
    const admission = createAdmission<Request>({
      policies: [
        {
          name: "tenants",
          kind: "concurrency",
          scope: ({ raw }) => raw.headers.get("x-client") ?? undefined,
          limiter: tenants,
        },
      ],
    });
    const first = await admission.admit(from("a"));
    expect(await admission.admit(from("a"))).toMatchObject({
      rejection: { key: "a", scope: "function", active: 1 },
    });
    expect((await admission.admit(from("b"))).admitted).toBe(true);
    admission.dispose();
    if (first.admitted) first.lease.release();
    expect(tenants.attemptAcquire("a").isAcquired).toBe(true);
  });

  it.each([
    [{ policies: [] }, "options.policies"],
    [{ policies: {} }, "options.policies"],
    [{ policies: [{ name: "a", kind: "speed", limiter: limiter(1) }] }, "options.policies[0].kind"],
    [{ policies: [{ name: "a", kind: "rate", limiter: 5 }] }, "options.policies[0].limiter"],
    [{ policies: [{ name: "a", kind: "rate", scope: "route", limiter: limiter(1) }] }, "each route"],
    [{ policies: [{ name: "a", kind: "rate", scope: () => "x", limiter: limiter(1) }] }, "keys apart"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), permits: -1 }] }, "permits"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), when: true }] }, "when"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), queueTimeoutMs: 0 }] }, "queueTimeoutMs"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), advertise: { quotas: 1 } }] }, "quota"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), advertise: { unit: "x" } }] }, "unit"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), priorityShares: { low: 0 } }] }, "low"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), priorityShares: { lo: 1 } }] }, "low"],
    [{ policies: [{ name: "a", kind: "rate", limiter: limiter(1), maxPartitions: 5 }] }, "maxPartitions"],
  ])("refuse options that are wrong: %#", (options, message) => {
    expect(() => createAdmission(options as never)).toThrow(message);
  });

  it.each([
    { priorities: [] },
    { priorities: ["a", "a"] },
    { priorities: [""] },
    { priority: "high" },
    { minRemainingMs: -1 },
    { hold: "body" },
    { maxHoldMs: 0 },
    { maxHoldMs: 2 ** 31 },
    { headers: "x" },
    { exposeHeaders: 1 },
    { skipPreflight: "no" },
    { onError: "ignore" },
    { clock: {} },
    { random: 0.5 },
    { pressure: { maxEventLoopDelayMs: -1 } },
    { pressure: { sampleIntervalMs: 99 } },
    { pressure: { maxEventLoopUtilization: 1.1 } },
    { pressure: { maxHeapUsedBytes: 0 } },
    { pressure: { check: true } },
    { polices: [] },
  ])("refuse %j", (options) => {
    const policies = [{ name: "a", kind: "concurrency", limiter: limiter(1) }];
    const name = Object.keys(options)[0] as string;
    expect(() => createAdmission({ policies, ...options } as never)).toThrow(name);
  });
});

describe("priorities", () => {
  const priority = ({ raw }: { raw: Request }) => raw.headers.get("x-priority") ?? undefined;
  const of = (name: string) => request(`/${name}`, { headers: { "x-priority": name } });

  it("may fill only their shares of the limit", async () => {
    using admission = createAdmission<Request>({
      priority,
      policies: [
        {
          name: "all",
          kind: "concurrency",
          limiter: new ConcurrencyLimiter({
            permitLimit: 10,
            queueLimit: 5,
            queueProcessingOrder: "highestPriorityFirst",
          }),
          priorityShares: { low: 0.5, normal: 0.9 },
        },
      ],
    });
    const ask = (name: string) => admission.admit(of(name));
    for (let i = 0; i < 5; i++) expect((await ask("critical")).admitted).toBe(true);
    expect(await ask("low")).toMatchObject({
      rejection: { reason: "priority_shed", priority: "low", status: 503 },
    });
    for (let i = 5; i < 9; i++) expect((await ask("normal")).admitted).toBe(true);
    expect(await ask("no such")).toMatchObject({
      rejection: { reason: "priority_shed", priority: "normal" },
    });
    expect((await ask("critical")).admitted).toBe(true);
    const waiting = watch(ask("critical"));
    await flush();
    expect(waiting.state).toBe("pending");
    expect(admission.getStatistics().shedBy).toEqual([
      { policy: "all", reason: "priority_shed", priority: "low", count: 1 },
      { policy: "all", reason: "priority_shed", priority: "normal", count: 1 },
    ]);
  });

  it("do not wait behind others unless their share is all of the limit", async () => {
    using admission = createAdmission<Request>({
      priority,
      policies: [
        {
          name: "all",
          kind: "concurrency",
          limiter: new ConcurrencyLimiter({
            permitLimit: 10,
            queueLimit: 20,
            queueProcessingOrder: "highestPriorityFirst",
          }),
          permits: ({ path }) => (path === "/critical" ? 7 : 1),
          priorityShares: { low: 0.8 },
        },
      ],
    });
    expect((await admission.admit(of("critical"))).admitted).toBe(true);
    const waiting = watch(admission.admit(of("critical")));
    expect(await admission.admit(of("low"))).toMatchObject({
      rejection: { reason: "priority_shed", waitedMs: 0 },
    });
    await flush();
    expect(waiting.state).toBe("pending");
    expect(admission.getStatistics().queued).toBe(1);
  });

  it("fill shares of each key's limit", async () => {
    using admission = createAdmission<Request>({
      priority,
      policies: [
        {
          name: "route",
          kind: "concurrency",
          scope: "route",
          limiter: () => new ConcurrencyLimiter({ permitLimit: 2 }),
          priorityShares: { low: 0.1 },
        },
      ],
    });
    expect((await admission.admit(of("low"))).admitted).toBe(true);
    expect(await admission.admit(of("low"))).toMatchObject({ rejection: { reason: "priority_shed" } });
    expect((await admission.admit(of("high"))).admitted).toBe(true);
  });

  it("push the newest of the lowest out of a full queue, and go first", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 2, priority });
    const order: string[] = [];
    const serve = admission.wrap((one) => {
      order.push(new URL(one.url).pathname);
      return handler(one);
    });
    const first = serve(of("normal"));
    const lows = [watch(serve(of("low"))), watch(serve(of("low")))];
    const critical = serve(of("critical"));
    await flush();
    expect(lows.map(({ state }) => state)).toEqual(["pending", "fulfilled"]);
    expect(lows[1]?.value.status).toBe(503);
    expect(admission.getStatistics().shedBy).toEqual([
      { policy: "concurrency", reason: "queue_evicted", priority: "low", count: 1 },
    ]);
    for (let i = 0; i < 3; i++) {
      finish();
      await flush();
    }
    expect(order).toEqual(["/normal", "/critical", "/low"]);
    await Promise.all([first, critical]);
  });
});

describe("deadlines", () => {
  it.each([
    ["0", 503],
    ["abc", 200],
    ["-5", 200],
    ["12345678901234567890", 200],
    ["1.5", 200],
    ["", 200],
    ["5", 200],
  ])("in a header of %j give %i", async (value, status) => {
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      deadline: deadlineFromHeader("x-deadline"),
    });
    const serve = admission.wrap(() => new Response(null));
    expect((await serve(request("/", { headers: { "x-deadline": value } }))).status).toBe(status);
    expect(admission.getStatistics().deadlineExpired).toBe(status === 503 ? 1 : 0);
  });

  it("can be counted in seconds, or be gRPC's", () => {
    const read = (value: string, unit: "s" | "grpc") =>
      deadlineFromHeader("t", unit)({ header: () => value } as never);
    expect(read("5", "s")).toBe(5000);
    expect(
      ["1H", "2M", "3S", "4m", "5000u", "6000000n", "123456789m", "5", "m", "5x"].map((v) => read(v, "grpc")),
    ).toEqual([3_600_000, 120_000, 3000, 4, 5, 6, undefined, undefined, undefined, undefined]);
    expect(() => deadlineFromHeader("")).toThrow("name");
    expect(() => deadlineFromHeader("t", "h" as "s")).toThrow("unit");
  });

  it("end the wait, and the handler does not run", async () => {
    const clock = new ManualClock();
    const { handler, finish } = gated();
    const handled = vi.fn(handler);
    using admission = createAdmission<Request>({
      policies: [
        {
          name: "all",
          kind: "concurrency",
          limiter: new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5, clock }),
        },
      ],
      deadline: ({ path }) => (path === "/late" ? 40 : undefined),
      clock,
    });
    const serve = admission.wrap(handled);
    const first = serve(request("/first"));
    const late = watch(serve(request("/late")));
    clock.advance(39);
    await flush();
    expect(late.state).toBe("pending");
    clock.advance(1);
    await flush();
    expect(late.value.status).toBe(503);
    expect(admission.getStatistics().shedBy).toMatchObject([{ reason: "deadline_expired", count: 1 }]);
    finish();
    await first;
    expect(handled).toHaveBeenCalledTimes(1);
  });

  it("must leave more than minRemainingMs when the handler starts", async () => {
    const clock = new ManualClock();
    using admission = createAdmission<Request>({
      policies: [
        {
          name: "all",
          kind: "concurrency",
          limiter: new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5, clock }),
        },
      ],
      deadline: () => 50,
      minRemainingMs: 20,
      clock,
    });
    const held = await admission.admit(request());
    expect(held.admitted).toBe(true);
    const waiting = watch(admission.admit(request()));
    clock.advance(30);
    await flush();
    expect(waiting.value).toMatchObject({ rejection: { reason: "deadline_expired", waitedMs: 30 } });
  });

  it("bound the wait in all policies together, and are counted when they are kept", async () => {
    const clock = new ManualClock();
    const limiter = () => new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5, clock });
    const [a, b] = [limiter(), limiter()];
    using admission = createAdmission<Request>({
      policies: [
        { name: "a", kind: "concurrency", limiter: a },
        { name: "b", kind: "concurrency", limiter: b },
      ],
      deadline: () => 100,
      clock,
    });
    const [heldA, heldB] = [a.attemptAcquire(), b.attemptAcquire()];
    const waiting = watch(admission.admit(request()));
    clock.advance(60);
    heldA.dispose();
    await flush();
    expect(waiting.state).toBe("pending");
    clock.advance(39);
    heldB.dispose();
    await flush();
    if (!waiting.value.admitted) throw new Error("refused");
    clock.advance(1);
    waiting.value.lease.release();
    const next = await admission.admit(request());
    clock.advance(101);
    if (next.admitted) next.lease.release();
    expect(admission.getStatistics()).toMatchObject({ completed: 2, deliveredInTime: 1 });
  });

  it("and priorities whose functions throw are errors", async () => {
    const boom = () => {
      throw new Error("boom");
    };
    for (const option of ["deadline", "priority"]) {
      using admission = concurrencyLimit<Request>({ maxConcurrent: 1, [option]: boom });
      await expect(admission.admit(request())).rejects.toThrow("boom");
      expect(admission.getStatistics()).toMatchObject({ active: 0, shed: 0 });
    }
  });
});

describe("a client that leaves", () => {
  it("gives up its place, and the handler never runs", async () => {
    const onReject = vi.fn();
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 5, onReject });
    const paths: string[] = [];
    const serve = admission.wrap((one) => {
      paths.push(new URL(one.url).pathname);
      return handler(one);
    });
    const first = serve(request("/1"));
    const leaving = new AbortController();
    const second = serve(request("/2", { signal: leaving.signal }));
    const third = serve(request("/3"));
    await flush();
    leaving.abort();
    expect((await second).status).toBe(499);
    expect(admission.getStatistics()).toMatchObject({ queued: 1, clientGone: 1, shed: 0, failed: 0 });
    finish();
    await first;
    await flush();
    finish();
    await third;
    expect(paths).toEqual(["/1", "/3"]);
    expect(onReject).not.toHaveBeenCalled();
  });

  it("before it is looked at takes nothing", async () => {
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1 });
    const gone = await admission.admit(request("/", { signal: AbortSignal.abort() }));
    expect(gone).toEqual({ admitted: false, gone: true });
    expect(admission.getStatistics()).toMatchObject({ active: 0, admitted: 0, clientGone: 1 });
  });

  it("while its key is looked up takes nothing", async () => {
    let tell = (_: string) => {};
    const handler = vi.fn(() => new Response());
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      scope: () =>
        new Promise<string>((resolve) => {
          tell = resolve;
        }),
    });
    const leaving = new AbortController();
    const answer = admission.wrap(handler)(request("/", { signal: leaving.signal }));
    leaving.abort();
    tell("a");
    expect((await answer).status).toBe(499);
    expect(handler).not.toHaveBeenCalled();
    expect(admission.getStatistics()).toMatchObject({ active: 0, queued: 0, clientGone: 1 });
  });

  it("in the turn of its grant leaves the slot free", async () => {
    using limiter = trackLeases(new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 }));
    using admission = createAdmission<Request>({ policies: [{ name: "all", kind: "concurrency", limiter }] });
    const handler = vi.fn(() => new Response());
    const held = limiter.attemptAcquire();
    const leaving = new AbortController();
    const answer = admission.wrap(handler)(request("/", { signal: leaving.signal }));
    held.dispose();
    leaving.abort();
    await answer;
    await flush();
    expect(handler).not.toHaveBeenCalled();
    expect(limiter.held).toEqual([]);
    expect(admission.getStatistics().active).toBe(0);
  });

  it("leaves no listener on the signal", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 5 });
    const serve = admission.wrap(handler);
    const listeners: number[] = [];
    const signal = new AbortController().signal;
    let live = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      live += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      live -= 1;
      remove(...args);
    };
    const connect = () => ({ signal });
    const watched = admission.wrap(handler, connect);
    const first = serve(request());
    const second = watched(request());
    await flush();
    listeners.push(live);
    finish();
    await first;
    await flush();
    listeners.push(live);
    finish();
    await second;
    listeners.push(live);
    expect(listeners).toEqual([1, 1, 0]);
  });

  it.each(["one", "made for a key", "of the caller's partitions"])(
    "in a foreign limiter's queue has its wait aborted: %s",
    async (how) => {
      class Foreign extends ConcurrencyLimiter {
        // A limiter of another library has no inside door.
      }
      Object.defineProperty(Foreign.prototype, Symbol.for("headgate.inside.v1"), { value: undefined });
      using limiter = new Foreign({ permitLimit: 1, queueLimit: 5 });
      const makes = () => limiter;
      using partitions = PartitionedRateLimiter.create((key: string) => RateLimitPartition.get(key, makes));
      const given = how === "one" ? limiter : how === "made for a key" ? makes : partitions;
      const scope = how === "one" ? "global" : "route";
      using admission = createAdmission<Request>({
        policies: [{ name: "all", kind: "concurrency", scope, limiter: given }],
      });
      const held = limiter.attemptAcquire();
      const leaving = new AbortController();
      const answer = admission.admit(request("/", { signal: leaving.signal }));
      await flush();
      expect(limiter.getStatistics().currentQueuedCount).toBe(1);
      leaving.abort();
      expect(await answer).toEqual({ admitted: false, gone: true });
      await flush();
      expect(limiter.getStatistics().currentQueuedCount).toBe(0);
      held.dispose();
      expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
    },
  );
});

describe("failures of limiters", () => {
  it("refuse with 503, or let the request through when told so", async () => {
    const broken = () => {
      const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
      limiter.dispose();
      return limiter;
    };
    const errors: unknown[] = [];
    const observe = (event: AdmissionEvent<Request>) => {
      if (event.type === "error") errors.push(event.error);
    };
    const policies = () => [{ name: "all", kind: "concurrency" as const, limiter: broken() }];
    using closed = createAdmission<Request>({ policies: policies(), observe });
    expect(await closed.admit(request())).toMatchObject({
      rejection: { reason: "limiter_disposed", status: 503 },
    });
    using open = createAdmission<Request>({ policies: policies(), observe, onError: "open" });
    expect((await open.admit(request())).admitted).toBe(true);
    expect(closed.getStatistics().limiterErrors + open.getStatistics().limiterErrors).toBe(2);
    expect(errors).toHaveLength(2);
  });

  it.each(["open", "closed"] as const)(
    "are none when a request wants more than there can be: %s",
    async (onError) => {
      let permits = 11;
      using admission = createAdmission<Request>({
        onError,
        policies: [
          {
            name: "all",
            kind: "concurrency",
            limiter: new ConcurrencyLimiter({ permitLimit: 10 }),
            permits: () => permits,
          },
        ],
      });
      const refused = await admission.admit(request());
      expect(refused).toMatchObject({ rejection: { reason: "limit_reached", status: 503 } });
      expect("response" in refused && refused.response.headers.has("retry-after")).toBe(false);
      expect(admission.getStatistics()).toMatchObject({ admitted: 0, limiterErrors: 0 });
      permits = Number.NaN;
      if (onError === "closed") await expect(admission.admit(request())).rejects.toThrow("permits returns");
      permits = 10;
      expect((await admission.admit(request())).admitted).toBe(true);
    },
  );

  it("pass a policy over when its key function fails and errors are let through", async () => {
    using admission = createAdmission<Request>({
      onError: "open",
      client: {
        keyGenerator: () => {
          throw new Error("boom");
        },
      },
      policies: [
        {
          name: "a",
          kind: "concurrency",
          scope: "client",
          limiter: () => new ConcurrencyLimiter({ permitLimit: 1 }),
        },
        {
          name: "b",
          kind: "concurrency",
          scope: () => Promise.reject(new Error("boom")),
          limiter: () => new ConcurrencyLimiter({ permitLimit: 1 }),
        },
        { name: "c", kind: "concurrency", limiter: new ConcurrencyLimiter({ permitLimit: 1 }) },
      ],
    });
    expect((await admission.admit(request())).admitted).toBe(true);
    expect(await admission.admit(request())).toMatchObject({ rejection: { policy: "c" } });
  });
});

describe("pressure", () => {
  const concurrency = { name: "all", kind: "concurrency" as const };

  it.each([
    [1001, 503],
    [1000, 200],
  ])("of a timer that is %i ms late gives %i", async (timerSkewMs, status) => {
    const clock = new ManualClock({ timerSkewMs });
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    using admission = createAdmission<Request>({
      policies: [{ ...concurrency, limiter }],
      pressure: { maxEventLoopUtilization: 0 },
      reject: exact,
      clock,
    });
    const serve = admission.wrap(() => new Response(null));
    expect((await serve(request())).status).toBe(200);
    clock.advance(1000 + timerSkewMs);
    const answer = await serve(request());
    expect(answer.status).toBe(status);
    expect(answer.headers.get("retry-after")).toBe(status === 503 ? "10" : null);
    expect(limiter.getStatistics().totalSuccessfulLeases).toBe(status === 503 ? 1 : 2);
    expect(clock.keepAliveTimerCount).toBe(0);
    admission.dispose();
    expect(clock.timerCount).toBe(0);
  });

  it("is over when the next sample says so", async () => {
    let late = 5000;
    const clock = new ManualClock({ timerSkewMs: () => late });
    using admission = createAdmission<Request>({
      policies: [{ ...concurrency, limiter: new ConcurrencyLimiter({ permitLimit: 1 }) }],
      pressure: { maxEventLoopUtilization: 0 },
      clock,
    });
    const serve = admission.wrap(() => new Response(null));
    late = 0;
    clock.advance(6000);
    expect((await serve(request())).status).toBe(503);
    clock.advance(1000);
    expect((await serve(request())).status).toBe(200);
  });

  it("is what a function says; when it throws, there is pressure", async () => {
    let check = () => false;
    using admission = createAdmission<Request>({
      policies: [{ ...concurrency, limiter: new ConcurrencyLimiter({ permitLimit: 1 }) }],
      pressure: { maxEventLoopUtilization: 0, maxEventLoopDelayMs: 0, check: () => check() },
      clock: new ManualClock(),
    });
    const serve = admission.wrap(() => new Response(null));
    expect((await serve(request())).status).toBe(200);
    check = () => true;
    expect((await serve(request())).status).toBe(503);
    check = () => {
      throw new Error("boom");
    };
    expect((await serve(request())).status).toBe(503);
    expect(admission.getStatistics().shedBy).toEqual([
      { policy: undefined, reason: "pressure", priority: undefined, count: 2 },
    ]);
  });

  it("of memory is looked at when there is a bound", async () => {
    const clock = new ManualClock();
    const pressureOf = (pressure: object) =>
      createAdmission<Request>({
        policies: [{ ...concurrency, limiter: new ConcurrencyLimiter({ permitLimit: 9 }) }],
        pressure: { maxEventLoopUtilization: 0, ...pressure },
        clock,
      });
    using heap = pressureOf({ maxHeapUsedBytes: 1 });
    using rss = pressureOf({ maxRssBytes: 1 });
    using enough = pressureOf({ maxRssBytes: 2 ** 50, maxHeapUsedBytes: 2 ** 50 });
    clock.advance(1000);
    const statuses = [heap, rss, enough].map((one) => one.wrap(() => new Response(null))(request()));
    expect((await Promise.all(statuses)).map(({ status }) => status)).toEqual([503, 503, 200]);
  });

  it("of the event loop is measured between samples, where the host tells", async () => {
    const clock = new ManualClock();
    let utilization = 0.99;
    vi.stubGlobal("performance", { now: () => 0, eventLoopUtilization: () => ({ utilization }) });
    using admission = createAdmission<Request>({
      policies: [{ ...concurrency, limiter: new ConcurrencyLimiter({ permitLimit: 9, clock }) }],
      pressure: {},
      clock,
    });
    const serve = admission.wrap(() => new Response(null));
    clock.advance(1000);
    expect((await serve(request())).status).toBe(503);
    utilization = 0.98;
    clock.advance(1000);
    expect((await serve(request())).status).toBe(200);
    vi.stubGlobal("performance", { now: () => 0 });
    clock.advance(1000);
    expect((await serve(request())).status).toBe(200);
  });
});

describe("a shadow", () => {
  it("lets everything through, and counts what would have been refused or waited", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 1, shadow: true });
    const serve = admission.wrap(handler);
    const answers = [serve(request()), serve(request()), serve(request())];
    expect(admission.getStatistics()).toMatchObject({ active: 3, shed: 0 });
    for (const _ of answers) finish();
    expect(await Promise.all(answers.map(statusOf))).toEqual([200, 200, 200]);
    expect(admission.getStatistics().shadows).toEqual([
      { policy: "concurrency", wouldHaveShed: 0, wouldHaveWaited: 2 },
    ]);
  });

  it("lets keys through for which there is no room", async () => {
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      scope: "route",
      maxPartitions: 1,
      overflow: "reject",
      shadow: true,
    });
    expect((await admission.admit(request("/a"))).admitted).toBe(true);
    expect((await admission.admit(request("/b"))).admitted).toBe(true);
    expect(admission.getStatistics().shadows).toMatchObject([{ wouldHaveShed: 1 }]);
  });

  it("can stand before the caller's partitions, and before a broken limiter", async () => {
    using keyed = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.getConcurrencyLimiter(key, () => ({ permitLimit: 1 })),
    );
    using admission = createAdmission<Request>({
      policies: [{ name: "keyed", kind: "concurrency", scope: "route", limiter: keyed, shadow: true }],
    });
    for (let i = 0; i < 3; i++) expect((await admission.admit(request("/a"))).admitted).toBe(true);
    keyed.dispose();
    expect((await admission.admit(request("/a"))).admitted).toBe(true);
    expect(admission.getStatistics().shadows).toEqual([
      { policy: "keyed", wouldHaveShed: 3, wouldHaveWaited: 0 },
    ]);
  });
});

describe("draining", () => {
  it("refuses new requests, serves those that wait, and is over when the last has gone", async () => {
    const { handler, finish } = gated();
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 1 });
    const serve = admission.wrap(handler);
    const answers = [serve(request("/1")), serve(request("/2"))];
    const drained = watch(admission.drain({ reject: true }));
    const late = await serve(request("/3"));
    expect(late.status).toBe(503);
    expect(late.headers.has("retry-after")).toBe(true);
    expect(admission.getStatistics().shedBy).toMatchObject([{ reason: "draining" }]);
    finish();
    await flush();
    expect(drained.state).toBe("pending");
    finish();
    await flush();
    expect(drained.state).toBe("fulfilled");
    expect(await Promise.all(answers.map(statusOf))).toEqual([200, 200]);
  });

  it("is not over while the key of a request is looked up, or its handler has yet to start", async () => {
    let tell = (_: string) => {};
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      scope: () =>
        new Promise<string>((resolve) => {
          tell = resolve;
        }),
    });
    const { handler, finish } = gated();
    const answer = admission.wrap(handler)(request());
    const drained = watch(admission.drain({ reject: true }));
    expect(admission.getStatistics().queued).toBe(1);
    tell("a");
    await flush();
    expect(drained.state).toBe("pending");
    finish();
    expect((await answer).status).toBe(200);
    await flush();
    expect(drained.state).toBe("fulfilled");
  });

  it("goes on serving when it is not told to refuse, and is over at once when nobody is there", async () => {
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1 });
    await admission.drain();
    expect((await admission.wrap(() => new Response(null))(request())).status).toBe(200);
    expect(() => admission.drain({ rejects: true } as object)).toThrow("reject");
  });

  it("comes before an asynchronous dispose; dispose alone refuses those who wait", async () => {
    const { handler, finish } = gated();
    const admission = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 1 });
    const serve = admission.wrap(handler);
    const first = serve(request());
    const disposed = watch(Promise.resolve(admission[Symbol.asyncDispose]()));
    await flush();
    expect(disposed.state).toBe("pending");
    finish();
    await first;
    await disposed.promise;
    const other = concurrencyLimit<Request>({ maxConcurrent: 1, maxQueue: 1 });
    const serveOther = other.wrap(handler);
    const held = serveOther(request());
    const waiting = serveOther(request());
    other.dispose();
    expect((await waiting).status).toBe(503);
    expect(other.getStatistics().shedBy).toMatchObject([{ reason: "limiter_disposed" }]);
    finish();
    await held;
  });
});

describe("the same request, seen twice", () => {
  it("counts once for one admission, and once for each of several", async () => {
    using admission = concurrencyLimit<Request>({ maxConcurrent: 1 });
    using other = concurrencyLimit<Request>({ maxConcurrent: 1 });
    const serve = admission.wrap(admission.wrap(other.wrap(() => new Response("x"))));
    const answer = await serve(request());
    expect(answer.status).toBe(200);
    expect([admission, other].map((one) => one.getStatistics().active)).toEqual([1, 1]);
    await answer.text();
    expect([admission, other].map((one) => one.getStatistics())).toMatchObject([
      { admitted: 1, active: 0 },
      { admitted: 1, active: 0 },
    ]);
  });
});

describe("a preflight", () => {
  const preflight = () =>
    request("/", { method: "OPTIONS", headers: { "access-control-request-method": "PUT" } });

  it("is let through when told so", async () => {
    const policies = [
      { name: "all", kind: "concurrency" as const, limiter: new ConcurrencyLimiter({ permitLimit: 1 }) },
    ];
    using admission = createAdmission<Request>({ policies, skipPreflight: true });
    await admission.admit(request());
    expect((await admission.admit(preflight())).admitted).toBe(true);
    expect(await admission.admit(request("/", { method: "OPTIONS" }))).toMatchObject({ admitted: false });
  });
});

describe("strangers who choose the keys", () => {
  async function flood(
    overflow: "share" | "reject",
    clients: number,
  ): Promise<{ honest: number; old: boolean }> {
    using admission = rateLimit<Request>({
      limit: 5,
      windowMs: 60_000,
      clientAddress: "socket",
      maxPartitions: 100,
      overflow,
      clock: new ManualClock(),
    });
    const ask = async (remoteAddress: string) =>
      (await admission.admit(request(), { remoteAddress })).admitted;
    for (let i = 0; i < 5; i++) await ask("203.0.113.1");
    for (let i = 0; i < clients; i++)
      await ask(`2001:db8:${(i >> 16).toString(16)}:${(i & 0xffff).toString(16)}::1`);
    let honest = 0;
    for (let i = 0; i < 5; i++) if (await ask("203.0.113.2")) honest += 1;
    return { honest, old: await ask("203.0.113.1") };
  }

  it("do not get a spent client a new limit, and newcomers share one limit", async () => {
    expect(await flood("share", 2000)).toEqual({ honest: 0, old: false });
  });

  it("shut newcomers out when those are refused", async () => {
    expect(await flood("reject", 2000)).toEqual({ honest: 0, old: false });
  });

  it("leave nothing of a limit on concurrency when they have gone", async () => {
    const clock = new ManualClock();
    using admission = concurrencyLimit<Request>({
      maxConcurrent: 1,
      scope: "client",
      clientAddress: "socket",
      maxPartitions: 50,
      clock,
    });
    for (let i = 0; i < 500; i++) {
      const answer = await admission.admit(request(), { remoteAddress: `10.1.${i >> 8}.${i & 255}` });
      if (!answer.admitted) throw new Error("refused");
      answer.lease.release();
    }
    clock.advance(60_000);
    expect(clock.timerCount).toBe(0);
  });
});
