import { readFileSync } from "node:fs";
import { get } from "node:http";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import { AggregationTemporality } from "@opentelemetry/sdk-metrics";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  NoLimiter,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  RateLimitPartition,
  SlidingWindowRateLimiter,
  shadowed,
  TokenBucketRateLimiter,
} from "headgate";
import { AdaptiveConcurrencyLimiter, CodelFilter } from "headgate/adaptive";
import { type Instrumentable, instrumentRateLimiter } from "headgate/opentelemetry";
import { describe, expect, it } from "vitest";
import { INSTRUMENTS, SERIES } from "../../../adapters/opentelemetry/catalogue.js";
import { Random, SEED } from "../../property/support.js";
import { flush, ManualClock } from "../../support.js";
import { collect, MeterProvider, measured, TestReader, under } from "./support.js";

/** Requests of all kinds, at random: granted, refused, waiting, given up, reported, refunded. */
async function work(limiter: RateLimiter, clock: ManualClock, random: Random, steps: number): Promise<void> {
  const held: RateLimitLease[] = [];
  const keep = (lease: RateLimitLease): void => {
    if (lease.isAcquired) held.push(lease);
  };
  for (let i = 0; i < steps; i++) {
    const kind = random.below(6);
    const permits = random.below(3);
    if (kind === 0) keep(limiter.attemptAcquire(permits));
    if (kind === 1) limiter.acquire(permits).then(keep, () => {});
    if (kind === 2) limiter.acquire(permits, { maxWaitMs: random.below(20) - 3 }).then(keep, () => {});
    if (kind === 3) {
      const controller = new AbortController();
      limiter.acquire(permits, { signal: controller.signal }).then(keep, () => {});
      if (random.below(2) === 0) controller.abort();
    }
    if (kind === 4) clock.advance(random.below(5));
    if (kind === 5) {
      const lease = held.shift();
      if (random.below(2) === 0)
        lease?.report((["success", "failure", "dropped"] as const)[random.below(3)] ?? "success");
      if (random.below(5) === 0) lease?.refund();
      lease?.dispose();
    }
    await flush();
  }
}

const kinds = (clock: ManualClock): Record<string, RateLimiter> => ({
  concurrency: new ConcurrencyLimiter({ permitLimit: 3, queueLimit: 5, clock }),
  fixed_window: new FixedWindowRateLimiter({ permitLimit: 3, windowMs: 10, queueLimit: 5, clock }),
  sliding_window: new SlidingWindowRateLimiter({
    permitLimit: 3,
    windowMs: 10,
    segmentsPerWindow: 2,
    queueLimit: 5,
    clock,
  }),
  token_bucket: new TokenBucketRateLimiter({
    tokenLimit: 3,
    tokensPerPeriod: 1,
    replenishmentPeriodMs: 5,
    queueLimit: 5,
    clock,
  }),
  adaptive_concurrency: new AdaptiveConcurrencyLimiter({ initialLimit: 4, queueLimit: 5, clock }),
});

describe("after work of all kinds, what a real SDK collects", () => {
  it("is what the limiters have counted themselves", async () => {
    const clock = new ManualClock();
    const { meter, read } = measured();
    const random = new Random(SEED);
    for (const [name, limiter] of Object.entries(kinds(clock))) {
      const handle = instrumentRateLimiter(limiter, { name, meter });
      expect(handle.limiter).toBe(limiter);
      await work(limiter, clock, random, 400);
      const statistics = limiter.getStatistics();
      const seen = under(await read(), `${name} limiter.`);
      expect(seen).toMatchObject({
        "requests acquired": statistics?.totalSuccessfulLeases,
        "requests rejected": statistics?.totalFailedLeases,
        "permit.available": statistics?.currentAvailablePermits,
        "queue.usage": statistics?.currentQueuedCount,
        "queue.limit": 5,
      });
      expect(Number(seen["requests canceled"])).toBeGreaterThan(10);
      expect(Number(seen["requests acquired"])).toBeGreaterThan(50);
      expect("permit.usage" in seen).toBe(name.includes("concurrency"));
      const reasons = Object.entries(seen).filter(([key]) => key.startsWith("rejections "));
      expect(reasons.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(seen["requests rejected"]);
      expect(reasons.map(([key]) => key)).toContain("rejections deadline_expired");
      expect(reasons.every(([, count]) => Number(count) > 0)).toBe(true);
    }
  });

  it("keeps shed, failed, given-up and delivered work apart, when it is counted in front", async () => {
    const clock = new ManualClock();
    const { meter, read } = measured();
    const random = new Random(SEED + 1);
    for (const [name, inner] of Object.entries(kinds(clock))) {
      const { limiter } = instrumentRateLimiter(inner, { name, meter, wrap: true });
      for (let round = 0; round < 5; round++) {
        await work(limiter, clock, random, 100);
        const statistics = inner.getStatistics();
        const seen = under(await read(), `${name} limiter.`);
        const sum = (start: string): number =>
          Object.entries(seen).reduce(
            (total, [key, value]) => (key.startsWith(start) ? total + Number(value) : total),
            0,
          );
        expect(seen).toMatchObject({
          "requests acquired": statistics?.totalSuccessfulLeases,
          "requests rejected": statistics?.totalFailedLeases,
        });
        expect(sum("rejections ")).toBe(seen["requests rejected"]);
        expect(sum("lease.completions ") + Number(seen["lease.active"])).toBe(seen["requests acquired"]);
        expect(Number(seen["rejections deadline_expired"])).toBeGreaterThan(0);
        // Permits of windows and buckets come back unseen, so nobody knows for how long there was none.
        expect("saturation.time" in seen).toBe(name.includes("concurrency"));
      }
    }
  });

  it("comes over HTTP from a Prometheus exporter, under names that are written down", async () => {
    const exporter = new PrometheusExporter({ port: 0, preventServerStart: true });
    await exporter.startServer();
    const { port } = (exporter as unknown as { _server: { address(): { port: number } } })._server.address();
    const meter = new MeterProvider({ readers: [exporter as never] }).getMeter("headgate");
    const limiter = new ConcurrencyLimiter({ permitLimit: 2 });
    for (let i = 0; i < 5; i++) limiter.attemptAcquire();
    using _plain = instrumentRateLimiter(limiter, { name: "db", meter });
    using _inFront = instrumentRateLimiter(new ConcurrencyLimiter({ permitLimit: 1 }), {
      name: "front",
      meter,
      wrap: true,
    });
    using _adaptive = instrumentRateLimiter(new AdaptiveConcurrencyLimiter(), { name: "adaptive", meter });
    const text = await new Promise<string>((resolve, reject) => {
      get({ port, path: "/metrics" }, (response) => {
        let body = "";
        response.on("data", (chunk) => {
          body += chunk;
        });
        response.on("end", () => resolve(body));
      }).on("error", reject);
    });
    await exporter.shutdown();
    const line = (start: string): string | undefined =>
      text.split("\n").find((l) => l.startsWith(start) && l.includes('"db"'));
    expect(line("headgate_limiter_requests_total{")).toContain('headgate_limiter_result="acquired"');
    expect(Number(line("headgate_limiter_requests_total{")?.split(" ").at(-1))).toBe(2);
    expect(text).toMatch(/headgate_limiter_requests_total\{.*"db".*result="rejected".*\} 3\n/);
    expect(text).toMatch(/headgate_limiter_permit_usage\{.*"db".*\} 2\n/);
    const names = [...text.matchAll(/^# TYPE (headgate_\S+) (\S+)$/gm)].map(
      ([, name, kind]) => `${name} ${kind}`,
    );
    expect(names).toMatchInlineSnapshot(`
      [
        "headgate_limiter_requests_total counter",
        "headgate_limiter_rejections_total counter",
        "headgate_limiter_lease_completions_total counter",
        "headgate_limiter_lease_active gauge",
        "headgate_limiter_lease_time_total counter",
        "headgate_limiter_permit_limit gauge",
        "headgate_limiter_permit_usage gauge",
        "headgate_limiter_permit_available gauge",
        "headgate_limiter_queue_length gauge",
        "headgate_limiter_queue_usage gauge",
        "headgate_limiter_queue_limit gauge",
        "headgate_limiter_queue_waits_total counter",
        "headgate_limiter_queue_wait_time_total counter",
        "headgate_limiter_saturation_time_total counter",
        "headgate_limiter_deadline_completions_total counter",
        "headgate_adaptive_windows_total counter",
      ]
    `);
  });

  it("adds up over two readers, of which one wants differences", async () => {
    const cumulative = new TestReader();
    const delta = new TestReader(AggregationTemporality.DELTA);
    const meter = new MeterProvider({ readers: [cumulative, delta] }).getMeter("headgate");
    const clock = new ManualClock();
    const { limiter } = instrumentRateLimiter(
      new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5, clock }),
      { name: "x", meter, wrap: true },
    );
    for (let round = 1; round <= 3; round++) {
      const held = limiter.attemptAcquire();
      const waiting = limiter.acquire();
      clock.advance(10);
      held.dispose();
      (await waiting).dispose();
      const [all, since] = [await collect(cumulative), await collect(delta)];
      expect(all.get("x limiter.requests acquired")).toBe(2 * round);
      expect(since.get("x limiter.requests acquired")).toBe(2);
      expect(all.get("x limiter.queue.wait.time acquired")).toBeCloseTo(0.01 * round);
      expect(all.get("x limiter.queue.wait.duration acquired")).toMatchObject({ count: round });
      expect(since.get("x limiter.queue.wait.duration acquired")).toMatchObject({ count: 1, max: 0.01 });
    }
  });
});

describe("what each kind of limiter tells", () => {
  it("of an adaptive one: its limit, how work went, and what its algorithm goes by", async () => {
    const clock = new ManualClock();
    const { meter, read } = measured();
    const limiter = new AdaptiveConcurrencyLimiter({ initialLimit: 10, clock });
    using _handle = instrumentRateLimiter(limiter, { name: "a", meter });
    for (let i = 0; i < 100; i++) {
      const leases = Array.from({ length: 5 }, () => limiter.attemptAcquire());
      clock.advance(10 + (i % 3));
      for (const [j, lease] of leases.entries()) {
        lease.report(j === 0 ? "dropped" : "success");
        lease.dispose();
      }
    }
    limiter.forBypass().attemptAcquire();
    const seen = under(await read(), "a ");
    const signals: Readonly<Record<string, unknown>> = limiter.limit.describe?.() ?? {};
    expect(seen).toMatchObject({
      "limiter.permit.limit": limiter.permitLimit,
      "limiter.permit.usage": 0,
      "limiter.requests bypassed": 1,
      "limiter.lease.completions success": 400,
      "limiter.lease.completions dropped": 100,
      "adaptive.rtt.window": Number(signals["windowRttMs"]) / 1000,
      "adaptive.rtt.baseline": Number(signals["baselineRttMs"]) / 1000,
      "adaptive.gradient": signals["gradient"],
      "adaptive.windows used": signals["windowsUsed"],
    });
    expect(Number(signals["windowsUsed"])).toBeGreaterThan(0);
  });

  it("of refusals: why, those by its end included, and of the limiter of a resource too", async () => {
    const { meter, read } = measured();
    const clock = new ManualClock();
    const keyed = PartitionedRateLimiter.create((key: string) =>
      RateLimitPartition.get(key, () => new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock })),
    );
    const limiter = keyed.forResource("a");
    using _handle = instrumentRateLimiter(limiter, { name: "r", meter });
    limiter.attemptAcquire();
    limiter.attemptAcquire();
    const waiting = limiter.acquire();
    expect([(await limiter.acquire()).reason, (await limiter.acquire({ maxWaitMs: -1 })).reason]).toEqual([
      "queue_full",
      "deadline_expired",
    ]);
    expect(under(await read(), "r limiter.re")).toEqual({
      "quests acquired": 1,
      "quests rejected": 3,
      "quests canceled": 0,
      "jections limit_reached": 1,
      "jections queue_full": 1,
      "jections deadline_expired": 1,
    });
    const alone = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1, clock });
    using _other = instrumentRateLimiter(alone, { name: "alone", meter });
    alone.attemptAcquire();
    void alone.acquire();
    alone.dispose();
    expect(under(await read(), "alone limiter.")).toMatchObject({
      "requests rejected": 1,
      "rejections limiter_disposed": 1,
    });
    keyed.dispose();
    expect((await waiting).reason).toBe("limiter_disposed");
  });

  it("of one in shadow: what it would have done, and that nobody was refused", async () => {
    const { meter, read } = measured();
    const limiter = shadowed(new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 }));
    using _handle = instrumentRateLimiter(limiter, { name: "s", meter });
    limiter.attemptAcquire();
    limiter.attemptAcquire();
    await limiter.acquire();
    expect(under(await read(), "s limiter.")).toMatchObject({
      "requests acquired": 1,
      "requests rejected": 0,
      "requests bypassed": 2,
      "shadow.requests would_refuse": 1,
      "shadow.requests would_wait": 1,
    });
  });

  it("of a chain, a limiter that users wrote, one that tells nothing, and a filter", async () => {
    const { meter, read } = measured();
    const chain = RateLimiter.createChained(
      new ConcurrencyLimiter({ permitLimit: 5 }),
      new ConcurrencyLimiter({ permitLimit: 1 }),
    );
    for (let i = 0; i < 3; i++) chain.attemptAcquire();
    const statistics = {
      currentAvailablePermits: 4,
      currentQueuedCount: 3,
      totalFailedLeases: 2,
      totalSuccessfulLeases: 1,
    };
    const filter = new CodelFilter({
      targetMs: 5,
      intervalMs: 10,
      clock: { now: () => 0, setTimer: () => ({ cancel: () => {} }) } as never,
    });
    const described = { describe: () => ({ droppedCount: 3, isDropping: true }) };
    for (const [name, target] of Object.entries({
      chain,
      own: { getStatistics: () => statistics },
      nothing: { getStatistics: () => undefined },
      filter,
      described,
    })) {
      instrumentRateLimiter(target, { name, meter });
    }
    const seen = await read();
    expect(under(seen, "chain ")).toEqual({
      "limiter.requests acquired": 1,
      "limiter.requests rejected": 2,
      "limiter.permit.available": 0,
      "limiter.queue.usage": 0,
    });
    expect(under(seen, "own ")).toEqual({
      "limiter.requests acquired": 1,
      "limiter.requests rejected": 2,
      "limiter.permit.available": 4,
      "limiter.queue.usage": 3,
    });
    expect(under(seen, "nothing ")).toEqual({});
    expect(under(seen, "filter ")).toEqual({ "codel.drops": 0, "codel.dropping": 0 });
    expect(under(seen, "described ")).toEqual({ "codel.drops": 3, "codel.dropping": 1 });
  });

  it("of waits, time at the limit and callers who have left, counted in front", async () => {
    const clock = new ManualClock();
    const { meter, read } = measured();
    const { limiter } = instrumentRateLimiter(
      new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5, clock }),
      { name: "w", meter, wrap: true },
    );
    const caller = new AbortController();
    const held = await limiter.acquire({ signal: caller.signal });
    clock.advance(1000);
    const waiting = limiter.acquire();
    const late = limiter.acquire({ maxWaitMs: 500 });
    const leaving = limiter.acquire({ signal: caller.signal }).catch(() => "left");
    clock.advance(1000);
    expect(under(await read(), "w limiter.")).toMatchObject({
      "saturation.time": 2,
      "queue.length": 2,
      "queue.waits rejected": 1,
    });
    caller.abort();
    expect([(await late).reason, await leaving]).toEqual(["queue_timeout", "left"]);
    held.report("success");
    clock.advance(1000);
    held.dispose();
    const lease = await waiting;
    clock.advance(1000);
    lease.report("failure");
    lease.dispose();
    limiter.attemptAcquire().refund();
    clock.advance(1000);
    expect(under(await read(), "w limiter.")).toMatchObject({
      "requests acquired": 3,
      "requests canceled": 1,
      "requests rejected": 1,
      "rejections queue_timeout": 1,
      "lease.completions success": 1,
      "lease.completions failure": 1,
      "lease.completions ignored": 1,
      "lease.active": 0,
      "saturation.time": 4,
      "queue.waits acquired": 1,
      "queue.waits rejected": 1,
      "queue.waits canceled": 1,
      "queue.wait.time acquired": 2,
      "queue.wait.time rejected": 0.5,
      "deadline.completions false": 1,
      "deadline.completions true": 0,
    });
  });

  it("has its kind as an attribute", async () => {
    const { meter, reader } = measured();
    const clock = new ManualClock();
    const targets: Record<string, Instrumentable> = {
      ...kinds(clock),
      noop: new NoLimiter(),
      composite: RateLimiter.createChained(new NoLimiter()),
      partitioned: PartitionedRateLimiter.create((key: string) => RateLimitPartition.getNoLimiter(key)),
      codel_filter: new CodelFilter(),
      custom: { getStatistics: () => new NoLimiter().getStatistics() },
    };
    for (const [name, target] of Object.entries(targets)) instrumentRateLimiter(target, { name, meter });
    const { resourceMetrics } = await reader.collect();
    const types = new Map<unknown, unknown>();
    for (const { dataPoints } of resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics)) {
      for (const { attributes } of dataPoints)
        types.set(attributes["headgate.limiter.name"], attributes["headgate.limiter.type"]);
    }
    expect(Object.fromEntries(types)).toEqual(
      Object.fromEntries(Object.keys(targets).map((name) => [name, name])),
    );
  });
});

describe("partitions", () => {
  const arrange = (partitions?: Parameters<typeof instrumentRateLimiter>[1]["partitions"]) => {
    const clock = new ManualClock();
    const measuredBy = measured();
    const limiter = PartitionedRateLimiter.create(
      (key: string) =>
        RateLimitPartition.get(key, () => new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 5, clock })),
      { clock, idleLimitMs: 10 },
    );
    const handle = instrumentRateLimiter(limiter, { name: "p", meter: measuredBy.meter, partitions });
    const use = (key: string): void => limiter.attemptAcquire(key).dispose();
    return { ...measuredBy, clock, limiter, handle, use };
  };

  it("are added up, and no key is told by default", async () => {
    const { use, limiter, read } = arrange();
    for (const key of ["a", "b", "b"]) use(key);
    void limiter.acquire("a", 2);
    void limiter.acquire("a");
    expect(under(await read(), "p ")).toEqual({
      "limiter.requests acquired": 4,
      "limiter.requests rejected": 0,
      "limiter.permit.available": 2,
      "limiter.queue.usage": 1,
      "partition.count": 2,
    });
  });

  it("are told apart where asked for, and all others are one, so that the sum is the total", async () => {
    const { use, read } = arrange({ keys: ["acme", "zeta"], max: 1 });
    for (const key of ["x", "zeta", "acme", "acme"]) use(key);
    const seen = under(await read(), "p ");
    expect(seen["limiter.requests acquired,zeta"]).toBe(1);
    expect(seen["limiter.requests acquired,_other"]).toBe(3);
    expect("limiter.requests acquired" in seen).toBe(false);
  });

  it("never go down, also when they are dropped, come back, or are many", async () => {
    const { use, limiter, clock, read } = arrange({
      keys: (key) => (String(key).startsWith("k") ? `plan ${String(key).at(-1)}` : undefined),
      max: 3,
    });
    const random = new Random(SEED + 2);
    let last: Record<string, unknown> = {};
    for (let round = 0; round < 60; round++) {
      for (let i = 0; i < 20; i++) use(`${random.below(2) === 0 ? "k" : "other"}${random.below(12)}`);
      clock.advance(random.below(3) === 0 ? 100 : 1);
      const seen = under(await read(), "p limiter.requests acquired");
      for (const [label, value] of Object.entries(last))
        expect([label, Number(seen[label]) >= Number(value)]).toEqual([label, true]);
      const sum = Object.values(seen).reduce<number>((total, value) => total + Number(value), 0);
      expect(sum).toBe(limiter.getTotals().totalSuccessfulLeases);
      last = seen;
    }
    expect(Object.keys(last).length).toBe(4);
    expect(limiter.size).toBeLessThan(24);
  });

  it("keep the name that they got first, or none, while they are there", async () => {
    const names = new Map<string, string | undefined>();
    const { use, read } = arrange({
      keys: (key) => {
        if (key === "bad") throw new Error("no name");
        return names.get(String(key));
      },
    });
    names.set("b", "B");
    for (const key of ["a", "b", "bad"]) use(key);
    await read();
    names.set("a", "A").set("b", undefined);
    for (const key of ["a", "b", "bad"]) use(key);
    expect(under(await read(), "p limiter.requests acquired,")).toEqual({ B: 2, _other: 4 });
  });

  it("are known by the text of their keys, when these are listed", async () => {
    const { meter, read } = measured();
    const keyed = PartitionedRateLimiter.create((key: number) =>
      RateLimitPartition.get(key, () => new ConcurrencyLimiter({ permitLimit: 1 })),
    );
    instrumentRateLimiter(keyed, { name: "n", meter, partitions: { keys: ["1"] } });
    keyed.attemptAcquire(1);
    keyed.attemptAcquire(2);
    expect(under(await read(), "n limiter.requests acquired,")).toEqual({ 1: 1, _other: 1 });
  });

  it("have names without control characters, and not too long", async () => {
    const { use, read } = arrange({ keys: (key) => String(key) });
    use("a\nb");
    use("x".repeat(100));
    const seen = under(await read(), "p limiter.requests acquired,");
    expect(Object.keys(seen).sort()).toEqual(["_other", "a_b", "x".repeat(64)]);
    expect(seen).toMatchObject({ a_b: 1, ["x".repeat(64)]: 1 });
  });

  it("end with their limiter", async () => {
    const { use, limiter, read } = arrange({ keys: ["a"] });
    use("a");
    await read();
    limiter.dispose();
    expect(under(await read(), "p ")).toMatchObject({
      "limiter.permit.available a": 0,
      "limiter.requests acquired,a": 1,
      "partition.count": 0,
    });
  });
});

describe("the guide", () => {
  const page = readFileSync("docs/observability.md", "utf8");

  it("has all instruments, with their kinds and units", () => {
    const rows = [
      ...page.matchAll(/^\| `((?:limiter|adaptive|codel|partition)\.[^`]+)` +\| (\w+) +\| `([^`]+)`/gm),
    ];
    const shown = rows.map(
      ([, name, kind, unit]) => `headgate.${name} ${kind?.replace("updowncounter", "updown")} ${unit}`,
    );
    expect(shown.sort()).toEqual(INSTRUMENTS.map(({ name, kind, unit }) => `${name} ${kind} ${unit}`).sort());
  });

  it("asks Prometheus only for what there is", () => {
    const suffixes = { counter: "_total", histogram: "_bucket", updown: "", gauge: "" };
    const names = new Set(
      INSTRUMENTS.map(({ name, kind }) => `${name.replaceAll(".", "_")}${suffixes[kind]}`),
    );
    const labels = new Set(SERIES.flatMap(({ attributes }) => Object.keys(attributes)));
    for (const extra of ["headgate.limiter.name", "headgate.limiter.type"]) labels.add(extra);
    for (const label of labels) names.add(label.replaceAll(".", "_"));
    const asked = [...page.matchAll(/^```promql\n([\s\S]*?)^```$/gm)].flatMap(
      ([, query = ""]) => query.match(/headgate_\w+/g) ?? [],
    );
    expect(asked.length).toBeGreaterThan(40);
    expect(asked.filter((name) => !names.has(name))).toEqual([]);
  });
});

describe("the catalogue", () => {
  it("follows the conventions for names and units", () => {
    const names = INSTRUMENTS.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    for (const { name, unit, kind, description } of INSTRUMENTS) {
      expect(name).toMatch(/^headgate(\.[a-z]+(_[a-z]+)*)+$/);
      expect(name).not.toMatch(/total|\.count\.|_seconds/);
      expect(unit).toMatch(/^(s|1|\{[a-z]+\})$/);
      expect(description).toMatch(/^[A-Z].*\.$/);
      // No name is the namespace of another.
      expect([name, names.filter((other) => other.startsWith(`${name}.`))]).toEqual([name, []]);
      if (kind === "counter" && unit !== "s") expect(name).toMatch(/s$/);
    }
    for (const { attributes } of SERIES) {
      for (const [key, value] of Object.entries(attributes)) {
        expect(key).toMatch(/^headgate\.[a-z]+\.[a-z]+$/);
        expect(String(value)).toMatch(/^[a-z]+(_[a-z]+)*$/);
      }
    }
  });
});
