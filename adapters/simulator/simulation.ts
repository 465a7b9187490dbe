import { type Attempt, IN_SERVICE } from "./attempt.js";
import { letPromisesSettle, turnOfHost } from "./barrier.js";
import { EventLoop } from "./event-loop.js";
import { Model } from "./model.js";
import type { SimulationResult } from "./result.js";
import { SimulationError } from "./simulation-error.js";
import type { SimulationSettings } from "./simulation-options.js";
import { writeResult } from "./write-result.js";

/** How many events may pass before the host has a turn, when somebody wants to see progress or to end the run. */
const EVENTS_PER_TURN = 2048;

const DONE = 0;
const PROMISES = 1;
const HOST = 2;

/** One run: has the model live through its events, and lets the host have its turns where it must. */
export class Simulation {
  readonly #settings: SimulationSettings;
  readonly #loop = new EventLoop();
  readonly #model: Model;
  #events = 0;
  #ranOutOfEvents = false;

  constructor(settings: SimulationSettings) {
    this.#settings = settings;
    this.#model = this.#guard(() => new Model(settings, this.#loop));
  }

  async run(): Promise<SimulationResult> {
    // Nobody may be half-way through telling others, since the limiter's answers would then wait for that.
    await Promise.resolve();
    throwIfAborted(this.#settings.signal);
    this.#guard(() => {
      this.#model.feed.scheduleNext();
      this.#look();
    });
    for (let pause = this.#runOn(); pause !== DONE; pause = this.#runOn()) {
      if (pause === PROMISES) await this.#letPromisesSettle();
      else await this.#letHostHaveItsTurn();
    }
    return await this.#end();
  }

  /** Goes on until it is over, or something has to happen outside of virtual time. */
  #runOn(): number {
    const { onProgress, signal } = this.#settings;
    const isWatched = onProgress !== undefined || signal !== undefined;
    const pausesAt = isWatched ? this.#events + EVENTS_PER_TURN : Number.POSITIVE_INFINITY;
    return this.#guard(() => this.#runUntil(pausesAt));
  }

  #runUntil(pausesAt: number): number {
    const loop = this.#loop;
    const model = this.#model;
    const { gate } = model;
    const { drainMs, durationMs, maxEvents } = this.#settings;
    const endsAt = durationMs + drainMs;
    for (;;) {
      if (model.failure !== undefined) throw model.failure;
      if (gate.touched || loop.timerFired) {
        if (gate.uncertain > 0) return PROMISES;
        this.#look();
      }
      const next = loop.nextTime;
      if (next > endsAt || next === Number.POSITIVE_INFINITY) return DONE;
      if (next > durationMs && model.isIdle) return DONE;
      if (this.#events >= maxEvents) {
        this.#ranOutOfEvents = true;
        return DONE;
      }
      if (this.#events >= pausesAt) return HOST;
      this.#events += 1;
      model.currentId = undefined;
      loop.happenAt(next);
    }
  }

  #guard<T>(action: () => T): T {
    try {
      return action();
    } catch (error) {
      if (error instanceof SimulationError) throw error;
      const what = error instanceof Error ? error.message : String(error);
      const id = this.#model?.currentId;
      throw new SimulationError(`the simulation failed: ${what}`, this.#loop.now(), id, error);
    }
  }

  #look(): void {
    this.#model.gate.touched = false;
    this.#loop.timerFired = false;
    this.#model.look();
  }

  async #letPromisesSettle(): Promise<void> {
    const { gate } = this.#model;
    gate.touched = false;
    this.#loop.timerFired = false;
    await letPromisesSettle(
      () => gate.uncertain === 0,
      () => gate.news,
    );
    this.#guard(() => this.#model.look());
  }

  async #letHostHaveItsTurn(): Promise<void> {
    const { durationMs, onProgress, signal } = this.#settings;
    onProgress?.(durationMs === 0 ? 1 : Math.min(1, this.#loop.now() / durationMs));
    await turnOfHost();
    throwIfAborted(signal);
  }

  async #end(): Promise<SimulationResult> {
    const loop = this.#loop;
    const model = this.#model;
    const { measures } = model;
    const { durationMs, drainMs } = this.#settings;
    if (!this.#ranOutOfEvents) {
      // Nothing more happens, or what does comes too late.
      const isDone = model.isIdle || loop.nextTime === Number.POSITIVE_INFINITY;
      loop.moveTo(isDone ? durationMs : durationMs + drainMs);
    }
    const { live } = model;
    const inService = live.filter((attempt) => attempt.stage === IN_SERVICE);
    measures.check(loop.now(), inService);
    measures.advance(loop.now());
    const series = model.series.finish();
    const limitEnd = measures.limit.value;
    this.#guard(() => {
      for (const attempt of live) model.trace(attempt, "unfinished", undefined);
    });
    return writeResult({
      settings: this.#settings,
      measures,
      series,
      limiterKind: model.gate.kind,
      limitEnd,
      endMs: loop.now(),
      events: this.#events,
      waiting: live.length - inService.length,
      permitsLeft: await this.#cutOff(live),
      ranOutOfEvents: this.#ranOutOfEvents,
    });
  }

  /** Gives everything back; returns how many permits the limiter misses all the same. */
  async #cutOff(live: readonly Attempt[]): Promise<number> {
    const { gate } = this.#model;
    const isUncertain = gate.uncertain > 0;
    this.#guard(() => this.#model.cutOff(live));
    if (isUncertain) {
      await letPromisesSettle(
        () => false,
        () => 0,
      );
    }
    this.#guard(() => gate.look());
    const left = gate.limit - gate.available;
    return Number.isNaN(left) ? 0 : Math.max(0, left);
  }
}

/** Not every polyfill has `throwIfAborted`. */
function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw signal.reason;
}
