import { sendBurst } from "./burst.js";
import { call } from "./call.js";
import type { OverloadRun } from "./overload-run.js";
import type { Capacity, ServerReport } from "./server.js";
import { ServerProcess } from "./server-process.js";

/** A burst that hits the server all at once. */
export async function withoutLimiter(
  capacity: Capacity,
  requests: number,
  patienceMs: number,
): Promise<OverloadRun> {
  using server = await ServerProcess.start<ServerReport>("server.js", capacity);
  const burst = await sendBurst(requests, () => call(server.url, patienceMs));
  const { peakInFlight, inFlight, stallMs } = await server.report();
  return {
    ...burst,
    name: "no limiter",
    peakInFlight,
    leftOver: inFlight,
    stallMs: Math.max(burst.stallMs, stallMs),
  };
}
