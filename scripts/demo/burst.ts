import type { CallResult } from "./call.js";
import { StallWatch } from "./stall-watch.js";

/** How a burst of requests went, seen by its clients. */
export interface Burst {
  readonly results: readonly CallResult[];
  readonly wallMs: number;
  /** For how long the clients' process stood still at worst. */
  readonly stallMs: number;
}

/** Sends all requests in one turn of the event loop. */
export async function sendBurst(count: number, send: (index: number) => Promise<CallResult>): Promise<Burst> {
  using stalls = new StallWatch();
  const start = performance.now();
  const results = await Promise.all(Array.from({ length: count }, (_, index) => send(index)));
  return { results, wallMs: performance.now() - start, stallMs: stalls.longestMs };
}
