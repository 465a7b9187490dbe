import { MOST_TENANTS } from "./measures.js";
import type { SimulationCounts } from "./result.js";
import type { SimulationSettings } from "./simulation-options.js";
import { capacityOf, meanWorkMs, measuredSeconds, type Run } from "./write-result.js";

const FEW_DELIVERED = 100;
const WIDE_INTERVAL = 0.05;

/** What to know before the numbers of a run are believed. */
export function warningsOf(run: Run, counts: SimulationCounts): string[] {
  const { settings, measures } = run;
  const warnings: string[] = [];
  if (run.ranOutOfEvents) {
    warnings.push(`The run was ended after ${settings.maxEvents} events, at ${run.endMs} ms.`);
  }
  const overload = overloadWithoutLimit(run, counts);
  if (overload !== undefined) warnings.push(overload);
  if (run.tooLateMs !== undefined) {
    warnings.push(
      `Nobody came: the first arrival is at ${run.tooLateMs} ms of virtual time, which begins at 0, and arrivals end at ${settings.durationMs} ms.`,
    );
  }
  if (settings.service.time?.variance === Number.POSITIVE_INFINITY) {
    warnings.push(
      "The service time has an infinite variance: means of waiting times differ from run to run, however long.",
    );
  }
  if (settings.arrivals.isClosed === true) {
    warnings.push(
      "Arrivals are a closed loop: it offers less when the server is slow, and so hides overload. What is shown as offered is what it came to.",
    );
  }
  if (counts.delivered < FEW_DELIVERED) {
    warnings.push(`Only ${counts.delivered} were delivered: percentiles say little.`);
  }
  const uncertainty = measures.uncertainty;
  if (uncertainty !== undefined && uncertainty > WIDE_INTERVAL) {
    const percent = Math.round(uncertainty * 100);
    warnings.push(`The mean response time is known to ±${percent} % only: run longer, or with more seeds.`);
  }
  if (run.waiting > 0)
    warnings.push(`${run.waiting} attempts were still waiting for the limiter at the end.`);
  const { inUse, lost } = run.missing;
  if (inUse > 0) warnings.push(`${inUse} permits were still in use when everything had been given back.`);
  if (lost > 0) {
    warnings.push(
      `${lost} permits that could be taken at the start could not at the end, when everything had been given back.`,
    );
  }
  if (measures.tenantsLeftOut) warnings.push(`Only the first ${MOST_TENANTS} tenants are told apart.`);
  return warnings;
}

/** In a fluid model, whoever comes at t finds (offered - capacity) × t in front of it, and waits until that is done. */
function overloadWithoutLimit(run: Run, counts: SimulationCounts): string | undefined {
  const { limiterKind, settings } = run;
  const capacity = capacityOf(run);
  const { timeoutMs } = settings;
  const offered = counts.arrivals / measuredSeconds(run);
  if (limiterKind !== null || !(offered > capacity && capacity > 0) || !waitsInLine(settings))
    return undefined;
  const lastUseful = ((timeoutMs - meanWorkMs(run)) * capacity) / (offered - capacity);
  const until = Math.max(0, lastUseful + timeoutMs);
  const load = Math.round((offered / capacity) * 100) / 100;
  return `The load is ${load} times the capacity and nothing limits it: goodput goes to zero after about ${Math.round(until / 100) / 10} s.`;
}

/** Whether everybody is served in the end, in the order of coming, and so comes too late if the server cannot keep up. */
function waitsInLine({ clients, service, timeoutMs }: SimulationSettings): boolean {
  const { discipline, queueLimit = Number.POSITIVE_INFINITY, dequeueFilter, degradations = [] } = service;
  return (
    timeoutMs < Number.POSITIVE_INFINITY &&
    clients.onTimeout !== "cancel-all" &&
    discipline !== "lifo" &&
    queueLimit === Number.POSITIVE_INFINITY &&
    dequeueFilter === undefined &&
    degradations.length === 0
  );
}
