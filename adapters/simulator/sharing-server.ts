import type { Conditions } from "./degradations.js";
import { COMPLETION, type EventLoop, type Happening } from "./event-loop.js";
import { EventQueue } from "./event-queue.js";
import type { Job, Server, ServerListener, ServiceModel } from "./server.js";

/*
 * Processor sharing: everybody runs at once, and the more there are, the slower each of them.
 *
 * The question: when one job comes or goes, the speed of all others changes, and so does the end of each. The naive answer
 * looks at every job on every change: with 5 000 jobs in the server that is 5 000 steps for each arrival. But all jobs run
 * at the same speed, so the one that has the least left stays the one that has the least left. What changes is only how
 * fast a common gauge rises: the work that a job would have got that has been there from the beginning. A job that comes
 * in when the gauge shows V, with w of work, ends when the gauge shows V + w, whatever comes and goes meanwhile. So
 * a heap of these marks is enough, and a change costs one step in it.
 *
 * With n jobs on c servers the gauge rises by min(1, c / n) / (1 + contention × max(0, n − c) / c) a millisecond.
 *
 * Worked numbers: one server; a job of 10 ms comes at 0 and one more at 5. The gauge shows 5 then, and rises at 1/2 from
 * there. The marks are 10 and 15: the first ends at 5 + 5 / (1/2) = 15, the second 5 further on the gauge, alone, at 20.
 *
 * The surprise: with contention the server does less in all the more it is asked to do. 500 servers with 5 000 jobs of
 * 200 ms and a contention of 1.67 need 32 060 ms for what would take 2 000 ms in ten groups of 500. A limit of 500 in front
 * of it makes everybody faster.
 *
 * The gauge goes back to 0 whenever the server is empty, so that it stays exact in long runs.
 */

/** A server that all jobs in it share. */
export class SharingServer<Work extends Job> implements Server<Work> {
  readonly #loop: EventLoop;
  readonly #listener: ServerListener<Work>;
  readonly #contention: number;
  readonly #queueLimit: number;
  /** Jobs by the mark at which they end. */
  readonly #jobs = new EventQueue<Work>();
  readonly #nextEnd: Happening = { happen: () => this.#endDueJobs() };
  #nextEndTicket = -1;
  #servers: number;
  #speed = 1;
  /** The gauge, and how fast it rises since when. */
  #gauge = 0;
  #rate = 0;
  #since = 0;
  /** Milliseconds of server time that each job has used that has been there from the beginning. */
  #used = 0;
  failRate = 0;

  constructor(loop: EventLoop, model: ServiceModel, listener: ServerListener<Work>) {
    this.#loop = loop;
    this.#listener = listener;
    this.#contention = model.contention ?? 0;
    this.#queueLimit = model.queueLimit ?? Number.POSITIVE_INFINITY;
    this.#servers = model.servers;
  }

  get queued(): number {
    return Math.max(0, this.#jobs.size - this.#servers);
  }

  enter(job: Work): void {
    const now = this.#loop.now();
    job.enqueuedAt = now;
    job.startedAt = now;
    if (this.#jobs.size >= this.#servers + this.#queueLimit) {
      this.#listener.turnedAway(job, "server_queue");
      return;
    }
    this.#advance();
    // What is left is what the job has used up at its end, before the beginning is taken off.
    job.usedMs = this.#used;
    job.completion = this.#jobs.add(this.#gauge + job.workMs, 0, job);
    this.#speedChanged();
  }

  /** Jobs end together, by the gauge. */
  complete(): void {}

  remove(job: Work): void {
    this.#advance();
    this.#jobs.cancel(job.completion);
    this.#left(job);
    this.#speedChanged();
  }

  change({ speed, servers, failRate }: Conditions): void {
    this.#advance();
    this.failRate = failRate;
    this.#speed = speed;
    this.#servers = servers;
    this.#listener.serversChange(servers);
    this.#speedChanged();
  }

  #endDueJobs(): void {
    this.#nextEndTicket = -1;
    const mark = this.#jobs.nextTime;
    this.#advance();
    // The event was set for this very mark; rounding must not make it miss.
    this.#gauge = mark;
    const ended: Work[] = [];
    while (this.#jobs.nextTime <= this.#gauge) {
      const job = this.#jobs.take() as Work;
      this.#left(job);
      ended.push(job);
    }
    this.#speedChanged();
    for (const job of ended) this.#listener.finished(job);
  }

  #left(job: Work): void {
    job.completion = -1;
    job.usedMs = this.#used - job.usedMs;
  }

  /** Brings the gauges up to the present. */
  #advance(): void {
    const now = this.#loop.now();
    const elapsed = now - this.#since;
    this.#since = now;
    this.#gauge += elapsed * this.#rate;
    this.#used += elapsed * shareOf(this.#servers, this.#jobs.size);
  }

  /** Works out how fast the gauge rises from now on, and when the next job ends. */
  #speedChanged(): void {
    const jobs = this.#jobs.size;
    if (jobs === 0) {
      this.#gauge = 0;
      this.#used = 0;
    }
    const servers = this.#servers;
    this.#listener.busyChanges(Math.min(servers, jobs));
    const loss = jobs > servers && servers > 0 ? (this.#contention * (jobs - servers)) / servers : 0;
    this.#rate = (this.#speed * shareOf(servers, jobs)) / (1 + loss);
    if (this.#nextEndTicket !== -1) this.#loop.cancel(this.#nextEndTicket);
    this.#nextEndTicket = -1;
    if (jobs === 0 || this.#rate === 0) return;
    const left = Math.max(0, this.#jobs.nextTime - this.#gauge);
    this.#nextEndTicket = this.#loop.at(this.#loop.now() + left / this.#rate, COMPLETION, this.#nextEnd);
  }
}

/** The share of a server that each of the jobs gets. */
function shareOf(servers: number, jobs: number): number {
  return jobs <= servers ? 1 : servers / jobs;
}
