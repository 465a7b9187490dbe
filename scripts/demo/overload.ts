import { failuresOf } from "./call-results.js";
import type { OverloadRun } from "./overload-run.js";
import { describeOverload } from "./overload-text.js";
import type { Section } from "./section.js";
import { undisturbed } from "./undisturbed.js";
import { withChain } from "./with-chain.js";
import { withLimiter } from "./with-limiter.js";
import { withoutLimiter } from "./without-limiter.js";

// A patience of a second, so that a busy machine is not taken for a busy server.
const patienceMs = 1000;
const requests = 300;
const large = { workers: 10, serviceMs: 80 };
const small = { workers: 4, serviceMs: 100 };
const globalLimit = 12;
const hosts = [
  { name: "large host", capacity: large },
  { name: "small host", capacity: small },
] as const;

/** A burst far above what a server can do: without a limiter, with one, and with a chain of them over two hosts. */
export async function overload(): Promise<Section> {
  const bare = await withoutLimiter(large, requests, patienceMs);
  const [limited] = await undisturbed(
    async () => [await withLimiter(large, requests, patienceMs)] as const,
    lost,
  );
  const chained = await undisturbed(() => withChain(hosts, globalLimit, requests, patienceMs), lost);
  return {
    text: describeOverload({ requests, patienceMs, capacity: large }, bare, limited, chained),
    problems: [...unconvincing(bare), ...[limited, ...chained].flatMap(broken)],
  };
}

/** What was lost while a process stood still, if anything. */
function lost(runs: readonly OverloadRun[]): string | undefined {
  const disturbed = runs.find((one) => failuresOf(one.results).length > 0 && one.stallMs > patienceMs / 4);
  if (disturbed === undefined) return undefined;
  const { name, results, stallMs } = disturbed;
  const count = failuresOf(results).length;
  return `${name}: ${count} requests were lost while this machine stood still for ${stallMs.toFixed(0)} ms`;
}

/** The server can answer two fifths of the burst while its clients wait; if more were answered, something is wrong. */
function unconvincing({ name, results }: OverloadRun): string[] {
  const failed = failuresOf(results).length;
  if (failed >= requests / 2) return [];
  return [`${name}: only ${failed} of ${requests} requests failed, so the burst was no overload.`];
}

function broken({ name, results, peakInFlight, limit = Number.POSITIVE_INFINITY }: OverloadRun): string[] {
  const problems: string[] = [];
  const failures = failuresOf(results);
  if (failures.length > 0) {
    problems.push(`${name.trim()}: lost ${failures.length} requests (${[...new Set(failures)].join(", ")}).`);
  }
  if (peakInFlight > limit) problems.push(`${name.trim()}: ${peakInFlight} were in flight, over the limit.`);
  return problems;
}
