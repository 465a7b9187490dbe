import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
import {
  type AttemptRecord,
  type ClientModel,
  deterministic,
  type LimiterFactory,
  type ServiceModel,
  simulate,
  traceArrivals,
} from "headgate/simulator";
import { describe, expect, it } from "vitest";
import { ForeignSemaphore, trace } from "./support.js";
import { vectors } from "./vectors.js";

interface Config {
  readonly c: number;
  readonly disc?: "fifo" | "lifo" | "ps";
  readonly p?: number;
  readonly q?: number;
  readonly order?: "oldestFirst" | "newestFirst";
  readonly qTimeout?: number;
  readonly timeout?: number;
  readonly onTimeout?: "abandon" | "cancel";
  readonly retries?: number;
  readonly backoff?: number;
  readonly retryAfter?: number;
  readonly kappa?: number;
  readonly fw?: readonly [number, number];
}

interface Row {
  readonly id: number;
  readonly attempt: number;
  readonly at: number;
  readonly granted?: number | undefined;
  readonly start?: number | undefined;
  readonly end?: number | undefined;
  readonly timedOut?: number | undefined;
  readonly outcome: string;
  readonly reason?: string | undefined;
}

interface Vectors {
  readonly cases: readonly {
    readonly name: string;
    readonly config: Config;
    readonly trace: readonly { readonly at: number; readonly serviceMs: number }[];
    readonly rows: readonly Row[];
    readonly totals: Readonly<Record<string, number>>;
    readonly maxInService: number;
  }[];
  readonly essay: { readonly unlimited: { readonly completeAtMs: number } };
}

const { cases, essay } = vectors<Vectors>("scenarios");

/** The table has short names for some reasons. */
const REASONS: Readonly<Record<string, string | undefined>> = {
  limit: "limit_reached",
  "queue-full": "queue_full",
  "queue-timeout": "queue_timeout",
  evicted: "queue_evicted",
};

function limiterOf({ p, q = 0, order = "oldestFirst", fw, retryAfter }: Config): LimiterFactory | undefined {
  if (fw !== undefined) {
    const [permitLimit, windowMs] = fw;
    return ({ clock }) => new FixedWindowRateLimiter({ permitLimit, windowMs, clock });
  }
  if (p === undefined) return undefined;
  if (retryAfter !== undefined) return () => new ForeignSemaphore(p, q, retryAfter);
  return ({ clock }) =>
    new ConcurrencyLimiter({ permitLimit: p, queueLimit: q, queueProcessingOrder: order, clock });
}

function clientsOf({ timeout, onTimeout, retries, backoff = 0 }: Config): ClientModel {
  return {
    ...(timeout === undefined ? {} : { timeoutMs: timeout }),
    onTimeout: onTimeout === "cancel" ? "cancel-waiting" : "abandon",
    ...(retries === undefined ? {} : { retries: { max: retries, baseMs: backoff } }),
  };
}

function serviceOf({ c, disc = "fifo", kappa }: Config): ServiceModel {
  const service = { servers: c, time: deterministic(10), discipline: disc };
  return kappa === undefined ? service : { ...service, contention: kappa };
}

/** An attempt as the table writes it. */
function rowOf(record: AttemptRecord): Row {
  const { outcome } = record;
  return {
    id: record.id,
    attempt: record.attempt,
    at: record.atMs,
    granted: record.grantedMs,
    start: record.startedMs,
    end: outcome === "cancelled" ? undefined : record.endMs,
    timedOut: record.timedOutMs,
    outcome: outcome === "late" ? "wasted" : outcome,
    reason: record.reason,
  };
}

/** What the table says, with the reasons that the limiter gives: that of a user gives none. */
function expectedRow({ reason, ...row }: Row, { retryAfter }: Config): Row {
  const said: typeof REASONS = retryAfter === undefined ? REASONS : {};
  return { ...row, reason: reason === undefined ? undefined : (said[reason] ?? "other") };
}

function inOrder(rows: readonly Row[]): Row[] {
  return [...rows].sort((a, b) => a.at - b.at || a.id - b.id || a.attempt - b.attempt);
}

/** Times to a millionth of a millisecond: sharing a server divides. */
function rounded(rows: readonly Row[]): unknown {
  return JSON.parse(JSON.stringify(rows), (_key, value) =>
    typeof value === "number" ? Math.round(value * 1e6) / 1e6 : value,
  );
}

/** The most that were in the server at once; who leaves at an instant makes room for who comes then. */
function mostInService(attempts: readonly AttemptRecord[]): number {
  const changes = attempts
    .filter((attempt) => attempt.grantedMs !== undefined && attempt.endMs > attempt.grantedMs)
    .flatMap(
      ({ grantedMs = 0, endMs }) =>
        [
          [grantedMs, 1],
          [endMs, -1],
        ] as const,
    )
    .sort(([at, change], [otherAt, other]) => at - otherAt || change - other);
  let now = 0;
  let most = 0;
  for (const [, change] of changes) {
    now += change;
    most = Math.max(most, now);
  }
  return most;
}

describe("a small run has exactly the attempts that pen and paper give", () => {
  it.each(cases)("$name", async ({ config, maxInService, rows, totals, trace: arrivals }) => {
    const { disc, qTimeout } = config;
    const { attempts, result } = await trace({
      arrivals: traceArrivals(arrivals.map(({ at, serviceMs }) => ({ atMs: at, serviceMs }))),
      service: serviceOf(config),
      clients: clientsOf(config),
      limiter: limiterOf(config),
      ...(qTimeout === undefined ? {} : { acquire: { maxWaitMs: qTimeout } }),
      durationMs: 1000,
      drainMs: Number.POSITIVE_INFINITY,
    });
    const actual = inOrder(attempts.map(rowOf));
    const expected = inOrder(rows.map((row) => expectedRow(row, config)));
    if (disc === "ps") expect(rounded(actual)).toEqual(rounded(expected));
    else expect(actual).toEqual(expected);
    const { cancelled = 0, delivered = 0, rejected = 0, wasted = 0 } = totals;
    const counted = { delivered, late: wasted, rejected, cancelled };
    expect(result.counts).toMatchObject({ ...counted, errors: 0, unfinished: 0 });
    if (arrivals.every(({ serviceMs }) => serviceMs > 0)) expect(mostInService(attempts)).toBe(maxInService);
  });
});

describe("5000 requests at once, on 500 servers that get in each other's way", () => {
  const crowd = {
    arrivals: traceArrivals(Array.from({ length: 5000 }, () => ({ atMs: 0 }))),
    service: { servers: 500, time: deterministic(200), discipline: "ps", contention: 1.67 },
    clients: { timeoutMs: 5000 },
    durationMs: 1,
    drainMs: Number.POSITIVE_INFINITY,
  } as const;

  it("without a limit all of them finish, and all of them too late", async () => {
    const result = await simulate(crowd);
    expect(result.counts).toMatchObject({ delivered: 0, late: 5000, rejected: 0, gaveUp: 5000 });
    expect(result.endMs).toBeCloseTo(essay.unlimited.completeAtMs, 6);
  });

  it("with a limit of 500, 500 are answered as if they were alone, and the others at once", async () => {
    const limiter: LimiterFactory = ({ clock }) => new ConcurrencyLimiter({ permitLimit: 500, clock });
    const result = await simulate({ ...crowd, limiter });
    expect(result.counts).toMatchObject({ delivered: 500, late: 0, rejected: 4500 });
    expect(result.latency.delivered).toMatchObject({ min: 200, max: 200 });
    expect(result.latency.rejection).toMatchObject({ count: 4500, max: 0 });
  });
});
