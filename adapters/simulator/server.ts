import type { Clock } from "headgate";
import type { Conditions, Degradation } from "./degradations.js";
import type { Distribution } from "./distributions.js";
import type { EventLoop, Happening } from "./event-loop.js";
import { QueueingServer } from "./queueing-server.js";
import { SharingServer } from "./sharing-server.js";

/**
 * What stands behind the limiter: how many can be served at once, how long one takes alone, and what happens when
 * there are more.
 *
 * @example
 * ```ts
 * import { exponential, type ServiceModel } from "headgate/simulator";
 *
 * // 50 workers of 200 ms, so 250 requests a second; 10 minutes in, a neighbour takes half of the machine.
 * const service: ServiceModel = {
 *   servers: 50,
 *   time: exponential(200),
 *   degradations: [{ fromMs: 600_000, toMs: 900_000, slowdown: 2 }],
 * };
 * ```
 *
 * @public
 */
export interface ServiceModel {
  /** How many are served at full speed at the same time: an integer of at least 0; infinite for a mere delay. */
  readonly servers: number;
  /**
   * How long one request takes when it is alone, in milliseconds. May be left out when every arrival brings a `serviceMs` of
   * its own.
   */
  readonly time?: Distribution | undefined;
  /**
   * What happens to more requests than servers. `fifo`, the default: they wait in the server's own queue, and whoever came first
   * goes first. `lifo`: whoever came last goes first. `ps` (processor sharing): all run at once, each slower; like threads
   * on cores, or queries on a database.
   */
  readonly discipline?: "fifo" | "lifo" | "ps";
  /**
   * How much capacity is lost to the sharing itself, with `ps` only; 0 by default. With n requests on c servers each runs at
   * min(1, c / n) / (1 + contention × (n − c) / c): at 1, twice as many requests as servers get half of the capacity.
   */
  readonly contention?: number;
  /**
   * How many may be in the server beyond its servers: an integer of at least 0; unbounded by default. Who comes then is turned
   * away (`server_queue`).
   */
  readonly queueLimit?: number;
  /**
   * Looks at each request that is about to be served (not with `ps`), such as CoDel does: true turns it away (`dequeue`).
   * Called once for a run, so that the filter may have a memory.
   */
  readonly dequeueFilter?: (context: {
    readonly clock: Clock;
  }) => (enqueuedAtMs: number, nowMs: number) => boolean;
  /** Times in which the server is slow, small, stopped or failing. */
  readonly degradations?: readonly Degradation[];
}

/** Work in a server. The fields are the server's own. */
export interface Job extends Happening {
  /** Milliseconds of work. */
  workMs: number;
  /** What is left of it, as of the last change of speed. */
  remainingMs: number;
  enqueuedAt: number;
  /** When it was first worked on; NaN while it was not. */
  startedAt: number;
  /** Milliseconds for which it has used a server, once it has left. */
  usedMs: number;
  /** Its completion, while it runs; else -1. */
  completion: number;
  /** Its neighbours in the server's queue. */
  previousJob: Job | undefined;
  nextJob: Job | undefined;
}

/** Who is told what becomes of the work. */
export interface ServerListener<Work extends Job> {
  finished(job: Work): void;
  turnedAway(job: Work, reason: "server_queue" | "dequeue"): void;
  /** Told before the number of working servers changes. */
  busyChanges(busy: number): void;
  /** Told how many servers there are from now on: those that are busy, if these are more. */
  serversChange(servers: number): void;
}

export interface Server<Work extends Job> {
  /** How many are waiting in the server's own queue, or share it beyond its servers. */
  readonly queued: number;
  readonly failRate: number;
  enter(job: Work): void;
  /** The job's time has come. */
  complete(job: Work): void;
  /** Takes out work that is in the server, waiting or running. */
  remove(job: Work): void;
  change(conditions: Conditions): void;
}

export function createServer<Work extends Job>(
  loop: EventLoop,
  model: ServiceModel,
  listener: ServerListener<Work>,
): Server<Work> {
  return model.discipline === "ps"
    ? new SharingServer(loop, model, listener)
    : new QueueingServer(loop, model, listener);
}
