import { failuresOf, quantile } from "./call-results.js";
import type { OverloadRun } from "./overload-run.js";
import type { Capacity } from "./server.js";
import { table } from "./table.js";

const header = [
  "run",
  "requests",
  "in time",
  "failed or late",
  "p50 ms",
  "p99 ms",
  "peak in flight",
  "wall time",
];

/** What the reader sees. */
export function describeOverload(
  load: { readonly requests: number; readonly patienceMs: number; readonly capacity: Capacity },
  bare: OverloadRun,
  limited: OverloadRun,
  chained: readonly OverloadRun[],
): string {
  const { requests, patienceMs, capacity } = load;
  return `${requests} requests at once, each by a client that waits ${patienceMs} ms for its answer, to a server that
works on ${capacity.workers} at a time, ${capacity.serviceMs} ms each:

${table([header, ...[bare, limited, ...chained].map(row)])}

Without a limiter ${failuresOf(bare.results).length} of ${requests} clients gave up; when the last one did, the server had ${bare.leftOver} requests left
to work on, all for nobody. With a limiter the burst waits in the client, for up to ${seconds(limited.wallMs)}, the server gets
no more than it can do at once, and ${limited.results.length - failuresOf(limited.results).length} of ${requests} are answered in time.
`;
}

function row({ name, results, wallMs, peakInFlight, limit }: OverloadRun): string[] {
  const failed = failuresOf(results).length;
  return [
    name,
    `${results.length}`,
    `${results.length - failed}`,
    `${failed}`,
    quantile(results, 0.5)?.toFixed(0) ?? "",
    quantile(results, 0.99)?.toFixed(0) ?? "",
    limit === undefined ? `${peakInFlight}` : `${peakInFlight} of ${limit}`,
    seconds(wallMs),
  ];
}

function seconds(ms: number | undefined): string {
  return ms === undefined ? "" : `${(ms / 1000).toFixed(1)} s`;
}
