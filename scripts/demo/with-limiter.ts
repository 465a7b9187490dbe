import { ConcurrencyLimiter, type RateLimiter } from "headgate";
import { sendBurst } from "./burst.js";
import { type CallResult, call } from "./call.js";
import type { OverloadRun } from "./overload-run.js";
import type { Capacity, ServerReport } from "./server.js";
import { ServerProcess } from "./server-process.js";

/** The same burst through a limiter that knows how much the server can do at once. */
export async function withLimiter(
  capacity: Capacity,
  requests: number,
  patienceMs: number,
): Promise<OverloadRun> {
  const limit = capacity.workers;
  using server = await ServerProcess.start<ServerReport>("server.js", capacity);
  using limiter = new ConcurrencyLimiter({ permitLimit: limit, queueLimit: requests });
  const burst = await sendBurst(requests, () => limitedCall(limiter, server.url, patienceMs));
  const { peakInFlight, inFlight, stallMs } = await server.report();
  return {
    ...burst,
    name: `limit ${limit}`,
    peakInFlight,
    limit,
    leftOver: inFlight,
    stallMs: Math.max(burst.stallMs, stallMs),
  };
}

async function limitedCall(limiter: RateLimiter, url: string, patienceMs: number): Promise<CallResult> {
  using lease = await limiter.acquire();
  if (!lease.isAcquired) return { ms: 0, failure: `refused: ${lease.reason}` };
  return await call(url, patienceMs);
}
