import { IN_SERVICE } from "./attempt.js";
import { letPromisesSettle, turnOfHost } from "./barrier.js";
import { EventLoop } from "./event-loop.js";
import { Model } from "./model.js";
import type { SimulationResult } from "./result.js";
import { SimulationError } from "./simulation-error.js";
import type { SimulationSettings } from "./simulation-options.js";
import { type Run, writeResult } from "./write-result.js";

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
  /** How many events there may be before the host has its next turn. */
  #pausesAt: number;
  #share = 0;
  #ranOutOfEvents = false;

  constructor(settings: SimulationSettings) {
    this.#settings = settings;
    const isWatched = settings.onProgress !== undefined || settings.signal !== undefined;
    this.#pausesAt = isWatched ? EVENTS_PER_TURN : Number.POSITIVE_INFINITY;
    this.#model = this.#guard(() => new Model(settings, this.#loop));
  }

  async run(): Promise<SimulationResult> {
    // Nobody may be half-way through telling others, since the limiter's answers would then wait for that.
    await Promise.resolve();
    throwIfAborted(this.#settings.signal);
    try {
      return await this.#live();
    } catch (error) {
      this.#giveBack();
      throw error;
    }
  }

  async #live(): Promise<SimulationResult> {
    this.#guard(() => {
      this.#model.feed.scheduleNext();
      this.#look();
    });
    for (let pause = this.#runOn(); pause !== DONE; pause = this.#runOn()) {
      if (pause === PROMISES) await this.#letPromisesSettle();
      else await this.#letHostHaveItsTurn();
      throwIfAborted(this.#settings.signal);
    }
    return await this.#end();
  }

  /** Goes on until it is over, or something has to happen outside of virtual time. */
  #runOn(): number {
    return this.#guard(() => this.#runUntil(this.#pausesAt));
  }

  #runUntil(pausesAt: number): number {
    const loop = this.#loop;
    const model = this.#model;
    const { gate } = model;
    const { drainMs, durationMs, maxEvents } = this.#settings;
    const endsAt = durationMs + drainMs;
    for (;;) {
      if (model.failure !== undefined) throw model.failure.error;
      if (gate.touched || loop.timerFired) {
        if (gate.uncertain > 0) return PROMISES;
        this.#look();
      }
      const next = loop.nextTime;
      if (next > endsAt || next === Number.POSITIVE_INFINITY) return DONE;
      if (next > durationMs && (model.isIdle || model.isStuck)) return DONE;
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
    const { durationMs } = this.#settings;
    this.#pausesAt = this.#events + EVENTS_PER_TURN;
    this.#report(durationMs === 0 ? 1 : Math.min(1, this.#loop.now() / durationMs));
    await turnOfHost();
  }

  #report(share: number): void {
    // What is left after the last arrival is no progress.
    if (share <= this.#share) return;
    this.#share = share;
    this.#guard(() => this.#settings.onProgress?.(share));
  }

  /** Gives back what is held, for a run that has failed. Why it has failed is more important than what fails now. */
  #giveBack(): void {
    try {
      this.#model.cutOff();
    } catch {}
  }

  async #end(): Promise<SimulationResult> {
    const loop = this.#loop;
    const model = this.#model;
    const { measures } = model;
    const { durationMs, drainMs } = this.#settings;
    if (!this.#ranOutOfEvents) {
      // Nothing more happens, or what does comes too late.
      const isDone = model.isIdle || model.isStuck || loop.nextTime === Number.POSITIVE_INFINITY;
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
    const missing = await this.#cutOff();
    this.#report(1);
    return writeResult({
      settings: this.#settings,
      measures,
      series,
      limiterKind: model.gate.kind,
      limitEnd,
      endMs: loop.now(),
      events: this.#events,
      waiting: live.length - inService.length,
      missing,
      tooLateMs: model.feed.tooLateMs,
      ranOutOfEvents: this.#ranOutOfEvents,
    });
  }

  /** Gives everything back; returns how many permits the limiter misses all the same. */
  async #cutOff(): Promise<Run["missing"]> {
    const { gate } = this.#model;
    const isUncertain = gate.uncertain > 0;
    this.#guard(() => this.#model.cutOff());
    if (isUncertain) {
      await letPromisesSettle(
        () => false,
        () => 0,
      );
    }
    return this.#guard(() => gate.findMissing());
  }
}

/** Not every polyfill has `throwIfAborted`. */
function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw signal.reason;
}
