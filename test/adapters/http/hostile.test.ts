import { FixedWindowRateLimiter, PartitionedRateLimiter, RateLimitPartition } from "headgate";
import { concurrencyLimit, createAdmission } from "headgate/http";
import { nodeListener } from "headgate/http/node";
import { ManualClock } from "headgate/testing";
import { describe, expect, it } from "vitest";
import { type FakeRequest, FakeResponse, fakeRequest } from "./fakes.js";

function network(i: number): string {
  return `2001:db8:${(i >>> 16).toString(16)}:${(i & 0xffff).toString(16)}::1`;
}

/** A limit of 5 a minute for each client, and at most 1000 clients with a limit of their own. */
function start(overflow: "share" | "reject") {
  const clock = new ManualClock();
  const settings = { permitLimit: 5, windowMs: 60_000, clock };
  let made = 0;
  let disposed = 0;
  const partitions = PartitionedRateLimiter.create(
    (key: string) =>
      RateLimitPartition.get(key, () => {
        made += 1;
        const limiter = new FixedWindowRateLimiter(settings);
        const { dispose } = limiter;
        limiter.dispose = () => {
          disposed += 1;
          dispose.call(limiter);
        };
        return limiter;
      }),
    { maxPartitions: 1000, overflow, clock },
  );
  const admission = createAdmission({
    client: { clientAddress: "socket" },
    policies: [{ name: "client", kind: "rate", scope: "client", limiter: partitions }],
    clock,
  });
  const listener = nodeListener(admission, (_: FakeRequest, response: FakeResponse) => {
    response.end();
  });
  return {
    clock,
    admission,
    get live() {
      return made - disposed;
    },
    get size() {
      return partitions.size;
    },
    ask(address: string): number {
      const response = new FakeResponse();
      listener(fakeRequest(address), response);
      return response.statusCode;
    },
  };
}

describe("clients who rotate through a million addresses", () => {
  it("fill a bounded number of partitions, and get nobody a second limit, with a shared overflow", () => {
    const server = start("share");
    const spent = "203.0.113.1";
    for (let i = 0; i < 5; i++) expect(server.ask(spent)).toBe(200);
    let admitted = 0;
    for (let i = 0; i < 1_000_000; i++) if (server.ask(network(i)) === 200) admitted += 1;
    expect(server.size).toBe(1000);
    expect(server.live).toBeLessThanOrEqual(1001);
    // 999 have a limit of their own, all others one between them.
    expect(admitted).toBe(999 + 5);
    expect(server.ask(spent)).toBe(429);
    // What honest clients get meanwhile: old ones what they had, newcomers a part of the one limit that is shared.
    expect(server.ask(network(1))).toBe(200);
    expect(server.ask("198.51.100.1")).toBe(429);
    server.clock.advance(60_000);
    expect(server.ask(spent)).toBe(200);
    // Those who are idle make room for newcomers at once.
    for (let i = 0; i < 5; i++) expect(server.ask("198.51.100.1")).toBe(200);
    expect(server.ask("198.51.100.1")).toBe(429);
    expect(server.admission.getStatistics()).toMatchObject({ active: 0, queued: 0 });
  }, 300_000);

  it("shut newcomers out for as long as they keep coming, with an overflow that refuses", () => {
    const server = start("reject");
    const spent = "203.0.113.1";
    for (let i = 0; i < 5; i++) expect(server.ask(spent)).toBe(200);
    let admitted = 0;
    for (let i = 0; i < 200_000; i++) if (server.ask(network(i)) === 200) admitted += 1;
    expect(admitted).toBe(999);
    expect(server.live).toBe(1000);
    expect(server.ask(spent)).toBe(429);
    expect(server.ask(network(1))).toBe(200);
    // That is no statement about this client's rate.
    expect(server.ask("198.51.100.1")).toBe(503);
    server.clock.advance(60_000);
    expect(server.ask("198.51.100.1")).toBe(200);
  }, 300_000);

  it("leave nothing of a limit on concurrency, and no timer", () => {
    const clock = new ManualClock();
    const admission = concurrencyLimit({
      maxConcurrent: 1,
      scope: "client",
      clientAddress: "socket",
      maxPartitions: 1000,
      clock,
    });
    const listener = nodeListener(admission, (_: FakeRequest, response: FakeResponse) => {
      response.end();
    });
    for (let i = 0; i < 100_000; i++) {
      const response = new FakeResponse();
      listener(fakeRequest(network(i)), response);
      expect(response.statusCode).toBe(200);
    }
    clock.advance(60_000);
    expect(clock.timerCount).toBe(0);
  }, 300_000);
});

describe("paths that nobody has a route for", () => {
  it("share one limit when there are too many, and are shortened when they are too long", async () => {
    const keys = new Set<string | undefined>();
    const admission = concurrencyLimit({
      maxConcurrent: 1,
      scope: "route",
      maxPartitions: 10,
      clock: new ManualClock(),
      onReject: ({ key }) => keys.add(key),
    });
    let refused = 0;
    const listener = nodeListener(admission, (_: FakeRequest, __: FakeResponse) => {});
    for (let i = 0; i < 500; i++) {
      const response = new FakeResponse();
      const request = { ...fakeRequest("1.2.3.4"), url: `/${i}/${"x".repeat(5000)}?${i}` };
      listener(request, response);
      if (response.statusCode === 503) refused += 1;
    }
    expect(refused).toBe(500 - 11);
    expect(Math.max(...[...keys].map((key) => key?.length ?? 0))).toBe(256);
  });
});
