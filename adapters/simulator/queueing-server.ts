import type { Conditions } from "./degradations.js";
import { COMPLETION, type EventLoop } from "./event-loop.js";
import type { Job, Server, ServerListener, ServiceModel } from "./server.js";

/** Serves as many as it has servers, one job each, and lets the rest wait in line. */
export class QueueingServer<Work extends Job> implements Server<Work> {
  readonly #loop: EventLoop;
  readonly #listener: ServerListener<Work>;
  readonly #isLifo: boolean;
  readonly #queueLimit: number;
  readonly #drops: ((enqueuedAtMs: number, nowMs: number) => boolean) | undefined;
  /** Who is being served, in order of their start; kept only where the speed may change. */
  readonly #served: Set<Work> | undefined;
  #servers: number;
  #speed = 1;
  #speedSince = 0;
  #running = 0;
  #first: Job | undefined = undefined;
  #last: Job | undefined = undefined;
  queued = 0;
  failRate = 0;

  constructor(loop: EventLoop, model: ServiceModel, listener: ServerListener<Work>) {
    this.#loop = loop;
    this.#listener = listener;
    this.#isLifo = model.discipline === "lifo";
    this.#queueLimit = model.queueLimit ?? Number.POSITIVE_INFINITY;
    this.#drops = model.dequeueFilter?.({ clock: loop.clock });
    this.#served = (model.degradations ?? []).length > 0 ? new Set() : undefined;
    this.#servers = model.servers;
  }

  enter(job: Work): void {
    job.enqueuedAt = this.#loop.now();
    job.startedAt = Number.NaN;
    job.remainingMs = job.workMs;
    if (this.#running < this.#servers && this.queued === 0) this.#start(job);
    else if (this.queued < this.#queueLimit) this.#enqueue(job);
    else this.#listener.turnedAway(job, "server_queue");
  }

  complete(job: Work): void {
    job.completion = -1;
    this.#stop(job);
    this.#startNext();
    this.#listener.finished(job);
  }

  remove(job: Work): void {
    if (Number.isNaN(job.startedAt)) {
      this.#dequeue(job);
      return;
    }
    if (job.completion !== -1) this.#loop.cancel(job.completion);
    job.completion = -1;
    this.#stop(job);
    this.#startNext();
  }

  change({ speed, servers, failRate }: Conditions): void {
    this.failRate = failRate;
    this.#servers = servers;
    this.#listener.serversChange(Math.max(this.#running, servers));
    if (speed !== this.#speed) this.#changeSpeed(speed);
    this.#startNext();
  }

  #changeSpeed(speed: number): void {
    const now = this.#loop.now();
    const jobs = this.#served ?? [];
    for (const job of jobs) {
      const since = Math.max(job.startedAt, this.#speedSince);
      job.remainingMs = Math.max(0, job.remainingMs - (now - since) * this.#speed);
    }
    this.#speed = speed;
    this.#speedSince = now;
    for (const job of jobs) {
      if (job.completion !== -1) {
        // Its completion comes at this very instant, but for a rounding.
        if (job.remainingMs === 0) continue;
        this.#loop.cancel(job.completion);
      }
      this.#schedule(job);
    }
  }

  #schedule(job: Work): void {
    const dueAt = this.#loop.now() + job.remainingMs / this.#speed;
    // Without speed nothing comes to its end, not even what has nothing left to do.
    const comes = this.#speed > 0 && dueAt < Number.POSITIVE_INFINITY;
    job.completion = comes ? this.#loop.at(dueAt, COMPLETION, job) : -1;
  }

  #start(job: Work): void {
    const now = this.#loop.now();
    if (this.#drops?.(job.enqueuedAt, now) === true) {
      this.#listener.turnedAway(job, "dequeue");
      return;
    }
    job.startedAt = now;
    this.#listener.busyChanges(this.#running + 1);
    this.#running += 1;
    this.#served?.add(job);
    this.#schedule(job);
  }

  #stop(job: Work): void {
    this.#listener.busyChanges(this.#running - 1);
    this.#running -= 1;
    if (this.#running >= this.#servers) this.#listener.serversChange(this.#running);
    this.#served?.delete(job);
    job.usedMs = this.#loop.now() - job.startedAt;
  }

  #startNext(): void {
    while (this.#running < this.#servers) {
      const job = this.#isLifo ? this.#last : this.#first;
      if (job === undefined) return;
      this.#dequeue(job as Work);
      this.#start(job as Work);
    }
  }

  #enqueue(job: Work): void {
    this.queued += 1;
    job.previousJob = this.#last;
    job.nextJob = undefined;
    if (this.#last === undefined) this.#first = job;
    else this.#last.nextJob = job;
    this.#last = job;
  }

  #dequeue(job: Work): void {
    this.queued -= 1;
    const { previousJob, nextJob } = job;
    if (previousJob === undefined) this.#first = nextJob;
    else previousJob.nextJob = nextJob;
    if (nextJob === undefined) this.#last = previousJob;
    else nextJob.previousJob = previousJob;
    job.previousJob = undefined;
    job.nextJob = undefined;
  }
}
