/*
 * A server as most are: a few workers, an unbounded queue in front of them, and no idea whether a client that waits in
 * it is still there. Runs in a process of its own; server-process.ts starts it and asks it for its report.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ServerMessage } from "./server-process.js";
import { StallWatch } from "./stall-watch.js";

export interface Capacity {
  readonly workers: number;
  readonly serviceMs: number;
}

export interface ServerReport {
  readonly inFlight: number;
  readonly peakInFlight: number;
  readonly stallMs: number;
}

const { workers, serviceMs } = JSON.parse(process.argv[2] ?? "") as Capacity;
const waiting: ServerResponse[] = [];
const stalls = new StallWatch();
let busy = 0;
let inFlight = 0;
let peakInFlight = 0;

function work(): void {
  for (let next = waiting[0]; busy < workers && next !== undefined; next = waiting[0]) {
    waiting.shift();
    busy++;
    setTimeout(finish, serviceMs, next);
  }
}

function finish(response: ServerResponse): void {
  busy--;
  // Before the answer leaves: the client's next request may be here before any event says that the answer is out.
  inFlight--;
  response.end("done");
  work();
}

function send(message: ServerMessage<ServerReport>): void {
  process.send?.(message);
}

const server = createServer((_request, response) => {
  peakInFlight = Math.max(peakInFlight, ++inFlight);
  waiting.push(response);
  work();
});
server.listen(0, "127.0.0.1", () => send({ port: (server.address() as AddressInfo).port }));

process.on("message", () => send({ report: { inFlight, peakInFlight, stallMs: stalls.longestMs } }));
// The parent is gone, however it went.
process.on("disconnect", () => process.exit());
