import type { Measures, Tally } from "./measures.js";
import type { SimulationCounts, SimulationResult, SimulationSeries, TenantResult } from "./result.js";
import type { SimulationSettings } from "./simulation-options.js";
import { fairnessOf } from "./summary.js";
import { warningsOf } from "./warnings.js";

/** What is known when a run is over. */
export interface Run {
  readonly settings: SimulationSettings;
  readonly measures: Measures;
  readonly series: SimulationSeries;
  readonly limiterKind: string | null;
  readonly limitEnd: number;
  readonly endMs: number;
  readonly events: number;
  /** Attempts that were still waiting for the limiter. */
  readonly waiting: number;
  /** Permits that did not come back. */
  readonly missing: { readonly inUse: number; readonly lost: number };
  /** When the first arrival was to come, if that was too late. */
  readonly tooLateMs: number | undefined;
  readonly ranOutOfEvents: boolean;
}

/** How long the work of those who came takes on average, in milliseconds; NaN when nobody came. */
export function meanWorkMs({ measures: { measured, workMs } }: Run): number {
  return workMs / measured.arrivals;
}

/** How much of it the server finishes in a second at most; infinite when that has no bound, NaN when nobody came. */
export function capacityOf(run: Run): number {
  return (run.settings.service.servers * 1000) / meanWorkMs(run);
}

/** How long the measured period was; shorter than planned when the run ran out of events. */
export function measuredSeconds({ endMs, measures: { durationMs, warmupMs } }: Run): number {
  return Math.max(0, Math.min(endMs, durationMs) - warmupMs) / 1000;
}

export function writeResult(run: Run): SimulationResult {
  const { settings, measures } = run;
  const { measured, period } = measures;
  const counts = countsOf(measured);
  const seconds = measuredSeconds(run);
  const rate = (count: number) => (seconds === 0 ? 0 : count / seconds);
  const goodput = rate(period.delivered);
  const capacity = capacityOf(run);
  const { servers } = settings.service;
  const busy = (measures.busyServers.mean ?? Number.NaN) / (measures.servers.mean ?? Number.NaN);
  const { permitsInUse, limit, limiterQueue, atLimit } = measures;
  return {
    format: "headgate-simulation/1",
    seed: String(settings.seed),
    setup: {
      arrivals: settings.arrivals.description,
      service: settings.service.time?.description ?? "as arrivals say",
      servers: finite(servers),
      discipline: settings.service.discipline ?? "fifo",
      limiter: run.limiterKind,
      timeoutMs: finite(settings.timeoutMs),
      retries: settings.clients.retries?.max ?? 0,
      durationMs: settings.durationMs,
      drainMs: finite(settings.drainMs),
      warmupMs: settings.warmupMs,
    },
    counts,
    rejections: measures.rejections,
    perSecond: {
      offered: rate(counts.arrivals),
      attempts: rate(period.attempts),
      completed: rate(period.completed),
      goodput,
      late: rate(period.late),
      rejected: rate(period.refused),
    },
    ratios: {
      goodputOfCapacity: capacity > 0 && capacity < Number.POSITIVE_INFINITY ? goodput / capacity : null,
      rejectedOfAttempts: shareOf(counts.rejected, counts.attempts),
      wastedOfCompleted: shareOf(counts.late, counts.completed),
      deliveredOfArrivals: shareOf(counts.delivered, counts.arrivals),
    },
    latency: {
      delivered: measures.delivered.summarize(),
      completed: measures.completed.summarize(),
      limiterWait: measures.limiterWait.summarize(),
      serverWait: measures.serverWait.summarize(),
      rejection: measures.rejection.summarize(),
    },
    utilization: {
      servers: servers < Number.POSITIVE_INFINITY ? finite(busy) : null,
      wasted: shareOf(measures.wastedMs, measures.usedMs),
    },
    limiter: {
      timeAtLimit: atLimit.mean ?? null,
      limitMean: limit.mean ?? null,
      limitMin: limit.min ?? null,
      limitMax: limit.max ?? null,
      limitEnd: finite(run.limitEnd),
      permitsInUseMean: permitsInUse.mean ?? null,
      permitsInUseMax: permitsInUse.max ?? null,
      queueMean: limiterQueue.mean ?? null,
    },
    fairness: fairnessOfTenants(measures),
    series: run.series,
    endMs: run.endMs,
    events: run.events,
    warnings: warningsOf(run, counts),
  };
}

function countsOf(tally: Tally): SimulationCounts {
  const { arrivals, attempts, retries, admitted, completed, delivered, late, errors, gaveUp } = tally;
  return {
    arrivals,
    attempts,
    retries,
    admitted,
    rejected: tally.refusedByLimiter + tally.refusedByServer,
    cancelled: tally.leftLimiter + tally.leftServer,
    completed,
    delivered,
    late,
    errors,
    gaveUp,
    unfinished: arrivals - delivered - gaveUp,
  };
}

function fairnessOfTenants({ tenants }: Measures): SimulationResult["fairness"] {
  const tallies = [...tenants.values()];
  // No prototype: a tenant may have any name.
  const results: Record<string, TenantResult> = Object.create(null);
  for (const [name, { arrivals, delivered, rejected, late, latency }] of tenants) {
    results[name] = { arrivals, delivered, rejected, late, p99: latency.percentile(990) };
  }
  return {
    jainGoodput: fairnessOf(tallies.map((tally) => tally.delivered)),
    jainSuccessRatio: fairnessOf(tallies.map((tally) => tally.delivered / tally.arrivals)),
    tenants: results,
  };
}

function shareOf(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
