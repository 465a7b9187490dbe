import { table } from "./table.js";
import type { PublishedLimit } from "./vendor.js";
import type { VendorRun } from "./vendor-run.js";

export interface PublishedLimitRuns {
  readonly bare: VendorRun;
  readonly limited: readonly VendorRun[];
  /** With a limiter that is set too high: each caller backs off alone, or all do. */
  readonly alone: VendorRun;
  readonly shared: VendorRun;
  /** For how long the clients' process or the vendor's stood still at worst. */
  readonly stallMs: number;
}

/** What the reader sees. */
export function describePublishedLimit(
  settings: { readonly published: PublishedLimit; readonly marginMs: number; readonly segmentMs: number },
  { bare, limited, alone, shared }: PublishedLimitRuns,
): string {
  const { published, marginMs, segmentMs } = settings;
  const { requests, windowMs } = published;
  const safeMs = windowMs + marginMs;
  const idealMs = (Math.ceil(bare.calls / requests) - 1) * windowMs;
  const mostIn = `most in ${windowMs} ms`;
  return `${bare.calls} requests to a vendor that accepts ${requests} in any ${windowMs} ms, by its own clock, and answers 429 above that:

${table([
  ["run", "requests", "200", "429", mostIn, "wall time", "rate"],
  [...rowOf(bare), peakOf(bare, published), seconds(bare.wallMs), ""],
  ...limited.map((run) => [
    ...rowOf(run),
    peakOf(run, published),
    seconds(run.wallMs),
    `${((100 * idealMs) / run.wallMs).toFixed(0)} %`,
  ]),
])}

The rate is against the published one, at which ${bare.calls} take ${seconds(idealMs)} at best. What is missing is the price of certainty: two
requests that leave ${windowMs} ms apart arrive closer together when the first is held up. Each limiter is set so that it sends no
more than ${requests} in any ${safeMs} ms, a margin of ${marginMs} ms:
- the fixed window to half of ${requests}, since around the boundary of two windows the permits of both may be used at once;
- the sliding window to ${requests} per ${safeMs + segmentMs} ms, one of its segments of ${segmentMs} ms more, since what was used at the end of a segment comes
  back with the whole segment;
- the bucket so that what it holds and what flows into it in ${safeMs} ms are ${requests} together.

${alone.calls} calls through a limiter that is set four times too high, each made again after a 429, which says when to come back:

${table([
  ["after a 429", "calls", "requests", "200", "429", "wall time"],
  ...[alone, shared].map((run) => [
    run.name,
    `${run.calls}`,
    `${run.answered + run.refused}`,
    `${run.answered}`,
    `${run.refused}`,
    seconds(run.wallMs),
  ]),
])}

With limiter.pause() the first caller that is told to wait makes all others wait too, before they ask.
`;
}

function rowOf({ name, answered, refused }: VendorRun): string[] {
  return [name, `${answered + refused}`, `${answered}`, `${refused}`];
}

function peakOf({ peak }: VendorRun, { requests }: PublishedLimit): string {
  return `${peak} of ${requests}`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}
