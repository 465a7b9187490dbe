/*
 * A vendor with a published rate limit: so many requests of one account in any span of so many milliseconds, judged by
 * the moments at which they arrive here, by this clock. What is above it gets a 429 and a Retry-After in whole seconds, as
 * HTTP has it. Runs in a process of its own, as server.ts does.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { ServerMessage } from "./server-process.js";
import { StallWatch } from "./stall-watch.js";

export interface PublishedLimit {
  readonly requests: number;
  readonly windowMs: number;
}

export interface VendorReport {
  /** The most requests of each account that arrived in any window, refused ones included. */
  readonly peaks: Readonly<Record<string, number>>;
  readonly stallMs: number;
}

const limit = JSON.parse(process.argv[2] ?? "") as PublishedLimit;
const stalls = new StallWatch();

/** The moments of the last window, the hard way: every one of them. */
class Log {
  readonly #times: number[] = [];

  count(now: number): number {
    while (this.#times[0] !== undefined && this.#times[0] <= now - limit.windowMs) this.#times.shift();
    return this.#times.length;
  }

  add(now: number): void {
    this.#times.push(now);
  }

  get oldest(): number {
    return this.#times[0] ?? 0;
  }
}

class Account {
  readonly #accepted = new Log();
  readonly #arrived = new Log();
  peak = 0;

  /** Accepts a request, or says in how many milliseconds it would. */
  judge(now: number): number | undefined {
    this.#arrived.add(now);
    this.peak = Math.max(this.peak, this.#arrived.count(now));
    if (this.#accepted.count(now) >= limit.requests) return this.#accepted.oldest + limit.windowMs - now;
    this.#accepted.add(now);
    return undefined;
  }
}

const accounts = new Map<string, Account>();

function accountOf(name: string): Account {
  const account = accounts.get(name) ?? new Account();
  accounts.set(name, account);
  return account;
}

function send(message: ServerMessage<VendorReport>): void {
  process.send?.(message);
}

const server = createServer((request, response) => {
  const retryAfterMs = accountOf(request.headers.authorization ?? "").judge(performance.now());
  if (retryAfterMs !== undefined) {
    response.statusCode = 429;
    response.setHeader("retry-after", Math.ceil(retryAfterMs / 1000));
  }
  response.end();
});
server.listen(0, "127.0.0.1", () => send({ port: (server.address() as AddressInfo).port }));

process.on("message", () => {
  const peaks = Object.fromEntries([...accounts].map(([name, { peak }]) => [name, peak]));
  send({ report: { peaks, stallMs: stalls.longestMs } });
});
// The parent is gone, however it went.
process.on("disconnect", () => process.exit());
