import { ConcurrencyLimiter, RateLimiter } from "headgate";
import { sendBurst } from "./burst.js";
import { type CallResult, call } from "./call.js";
import type { OverloadRun } from "./overload-run.js";
import type { Capacity, ServerReport } from "./server.js";
import { ServerProcess } from "./server-process.js";

export interface Host {
  readonly name: string;
  readonly capacity: Capacity;
}

/** The same burst to two hosts; each has its limit, and all calls together have one that is below the sum. */
export async function withChain(
  [large, small]: readonly [large: Host, small: Host],
  globalLimit: number,
  requests: number,
  patienceMs: number,
): Promise<OverloadRun[]> {
  using largeServer = await ServerProcess.start<ServerReport>("server.js", large.capacity);
  using smallServer = await ServerProcess.start<ServerReport>("server.js", small.capacity);
  using global = new ConcurrencyLimiter({
    permitLimit: globalLimit,
    queueLimit: large.capacity.workers + small.capacity.workers,
  });
  const targets = [
    new Target(large, largeServer, global, requests),
    new Target(small, smallServer, global, requests),
  ] as const;

  // No server sees both hosts, so the calls count this peak themselves.
  let inFlight = 0;
  let peakInFlight = 0;

  async function limitedCall({ chain, server, results }: Target): Promise<CallResult> {
    using lease = await chain.acquire();
    if (!lease.isAcquired) return { ms: 0, failure: `refused: ${lease.reason}` };
    peakInFlight = Math.max(peakInFlight, ++inFlight);
    const result = await call(server.url, patienceMs);
    inFlight--;
    results.push(result);
    return result;
  }

  // Every fifth, about the small host's share of the capacity.
  const burst = await sendBurst(requests, (index) => limitedCall(targets[index % 5 === 4 ? 1 : 0]));
  const hosts = [await targets[0].report(), await targets[1].report()];
  const total = {
    ...burst,
    name: `chain: limit ${globalLimit} in all`,
    peakInFlight,
    limit: globalLimit,
    leftOver: hosts.reduce((sum, host) => sum + host.leftOver, 0),
    stallMs: Math.max(burst.stallMs, ...hosts.map((host) => host.stallMs)),
  };
  return [total, ...hosts];
}

/** A host as its callers see it: where it is, whom they ask first, and how it went. */
class Target {
  readonly #host: Host;
  readonly server: ServerProcess<ServerReport>;
  readonly chain: RateLimiter;
  readonly results: CallResult[] = [];

  constructor(
    host: Host,
    server: ServerProcess<ServerReport>,
    global: ConcurrencyLimiter,
    queueLimit: number,
  ) {
    this.#host = host;
    this.server = server;
    const ofHost = new ConcurrencyLimiter({ permitLimit: host.capacity.workers, queueLimit });
    // The host first: requests wait there, and what waits for a host should not hold a permit of all.
    this.chain = RateLimiter.createChained(ofHost, global);
  }

  async report(): Promise<OverloadRun> {
    const { peakInFlight, inFlight, stallMs } = await this.server.report();
    const limit = this.#host.capacity.workers;
    const name = `  ${this.#host.name}: limit ${limit}`;
    return { name, results: this.results, peakInFlight, limit, leftOver: inFlight, stallMs };
  }
}
