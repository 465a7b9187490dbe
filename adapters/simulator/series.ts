import { type EventLoop, type Happening, SAMPLE } from "./event-loop.js";
import type { SimulationSeries } from "./result.js";
import { SummaryRecorder } from "./summary.js";

/** The most buckets that a series has; what comes after is left out. */
export const MOST_BUCKETS = 100_000;

/** What stands at the end of a bucket. */
interface Levels {
  permitsInUse: number;
  limiterQueue: number;
  serverQueue: number;
  /** NaN where there is none. */
  limit: number;
}

/** Collects what happens in buckets of time. */
export class Series implements Happening {
  readonly #loop: EventLoop;
  readonly #stepMs: number;
  readonly #durationMs: number;
  readonly #levels: () => Levels;
  readonly #latency = new SummaryRecorder();
  readonly #series = {
    offered: [] as number[],
    attempts: [] as number[],
    goodput: [] as number[],
    late: [] as number[],
    rejected: [] as number[],
    permitsInUse: [] as number[],
    limiterQueue: [] as number[],
    serverQueue: [] as number[],
    limit: [] as (number | null)[],
    p50: [] as (number | null)[],
    p99: [] as (number | null)[],
  };
  #buckets = 0;
  /** Whether the end of a bucket is to come. */
  isPending = false;
  /** What has happened in the present bucket. */
  offered = 0;
  attempts = 0;
  late = 0;
  rejected = 0;

  constructor(loop: EventLoop, stepMs: number, durationMs: number, levels: () => Levels) {
    this.#loop = loop;
    this.#stepMs = stepMs;
    this.#durationMs = durationMs;
    this.#levels = levels;
    this.#schedule();
  }

  delivered(latencyMs: number): void {
    this.#latency.record(latencyMs);
  }

  /** A bucket ends. */
  happen(): void {
    this.isPending = false;
    this.#close(this.#stepMs);
    if (this.#buckets < MOST_BUCKETS) this.#schedule();
  }

  /** The series so far, with the present bucket if anything is in it. */
  finish(): SimulationSeries {
    const startMs = this.#buckets * this.#stepMs;
    const lengthMs = this.#loop.now() - startMs;
    // A bucket after the last arrival is whole: nothing more would happen in it.
    const isCut = startMs < this.#durationMs;
    if (lengthMs > 0 && this.#buckets < MOST_BUCKETS) this.#close(isCut ? lengthMs : this.#stepMs);
    return { stepMs: this.#stepMs, startMs: 0, ...this.#series };
  }

  #schedule(): void {
    this.isPending = true;
    this.#loop.at((this.#buckets + 1) * this.#stepMs, SAMPLE, this);
  }

  #close(lengthMs: number): void {
    const series = this.#series;
    const perSecond = 1000 / lengthMs;
    series.offered.push(this.offered * perSecond);
    series.attempts.push(this.attempts * perSecond);
    series.goodput.push(this.#latency.count * perSecond);
    series.late.push(this.late * perSecond);
    series.rejected.push(this.rejected * perSecond);
    const { permitsInUse, limiterQueue, serverQueue, limit } = this.#levels();
    series.permitsInUse.push(permitsInUse);
    series.limiterQueue.push(limiterQueue);
    series.serverQueue.push(serverQueue);
    series.limit.push(Number.isNaN(limit) ? null : limit);
    const { p50, p99 } = this.#latency.summarize();
    series.p50.push(p50);
    series.p99.push(p99);
    this.#latency.clear();
    this.offered = 0;
    this.attempts = 0;
    this.late = 0;
    this.rejected = 0;
    this.#buckets += 1;
  }
}
