import type { Clock } from "headgate";
import { checkFunction, checkInteger, checkNumber, checkOptionNames } from "../../src/internal.js";

/**
 * When the process itself has too much to do; requests are then refused with `pressure` before any policy is asked. A number
 * has to be exceeded, not only reached.
 *
 * @public
 */
export interface PressureOptions {
  /** How late a timer may be, in milliseconds: 1000 by default, 0 for not looking. */
  readonly maxEventLoopDelayMs?: number | undefined;
  /** How busy the event loop may be between two samples, from 0 to 1: 0.98 by default, 0 for not looking. Node only. */
  readonly maxEventLoopUtilization?: number | undefined;
  /** How much of the heap may be used, in bytes; unbounded by default. Needs a host with `process.memoryUsage`. */
  readonly maxHeapUsedBytes?: number | undefined;
  /** How much memory the process may have, in bytes; unbounded by default. Needs a host with `process.memoryUsage`. */
  readonly maxRssBytes?: number | undefined;
  /** How often to look, in milliseconds: 1000 by default, at least 100. */
  readonly sampleIntervalMs?: number | undefined;
  /** Says whether there is pressure of another kind; asked for every request. Throwing is a yes. */
  readonly check?: (() => boolean) | undefined;
}

const OPTION_NAMES = [
  "maxEventLoopDelayMs",
  "maxEventLoopUtilization",
  "maxHeapUsedBytes",
  "maxRssBytes",
  "sampleIntervalMs",
  "check",
];

interface LoopUse {
  readonly utilization: number;
}

/** What hosts may have, and this library asks for without importing it. */
interface Host {
  readonly performance?: { eventLoopUtilization?(now?: LoopUse, before?: LoopUse): LoopUse };
  readonly process?: { memoryUsage?(): { readonly heapUsed: number; readonly rss: number } };
}

/** Samples the process, by one timer that keeps nothing alive. */
export class PressureGauge {
  readonly #options: Required<{ [Key in keyof PressureOptions]: Exclude<PressureOptions[Key], undefined> }>;
  readonly #clock: Clock;
  #timer: { cancel(): void } | undefined;
  #lastUse: LoopUse | undefined;
  #isHigh = false;

  /** @param name - What to call the options in complaints. */
  constructor(options: PressureOptions, clock: Clock, name: string) {
    checkOptionNames(options, OPTION_NAMES, name);
    const unbounded = Number.POSITIVE_INFINITY;
    const {
      maxEventLoopDelayMs = 1000,
      maxEventLoopUtilization = 0.98,
      maxHeapUsedBytes = unbounded,
      maxRssBytes = unbounded,
      sampleIntervalMs = 1000,
      check = () => false,
    } = options;
    const notBelow0 = (n: number) => n >= 0;
    checkNumber(`${name}.maxEventLoopDelayMs`, maxEventLoopDelayMs, "a number of at least 0", notBelow0);
    const share = (n: number) => n >= 0 && n <= 1;
    checkNumber(`${name}.maxEventLoopUtilization`, maxEventLoopUtilization, "a number from 0 to 1", share);
    for (const [option, bytes] of Object.entries({ maxHeapUsedBytes, maxRssBytes })) {
      checkNumber(`${name}.${option}`, bytes, "a number above 0", (n) => n > 0);
    }
    checkInteger(`${name}.sampleIntervalMs`, sampleIntervalMs, 100, 2 ** 31 - 1);
    checkFunction(`${name}.check`, check);
    this.#options = {
      maxEventLoopDelayMs: maxEventLoopDelayMs === 0 ? unbounded : maxEventLoopDelayMs,
      maxEventLoopUtilization: maxEventLoopUtilization === 0 ? unbounded : maxEventLoopUtilization,
      maxHeapUsedBytes,
      maxRssBytes,
      sampleIntervalMs,
      check,
    };
    this.#clock = clock;
    this.#lastUse = (globalThis as Host).performance?.eventLoopUtilization?.();
    this.#setTimer();
  }

  get isHigh(): boolean {
    if (this.#isHigh) return true;
    try {
      return this.#options.check();
    } catch {
      return true;
    }
  }

  dispose(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #setTimer(): void {
    const { sampleIntervalMs } = this.#options;
    const dueAt = this.#clock.now() + sampleIntervalMs;
    this.#timer = this.#clock.setTimer(() => this.#sample(dueAt), sampleIntervalMs, false);
  }

  #sample(dueAt: number): void {
    const { maxEventLoopDelayMs, maxEventLoopUtilization, maxHeapUsedBytes, maxRssBytes } = this.#options;
    const host = globalThis as Host;
    const use = host.performance?.eventLoopUtilization?.();
    const utilization =
      use === undefined ? 0 : (host.performance?.eventLoopUtilization?.(use, this.#lastUse).utilization ?? 0);
    this.#lastUse = use;
    const looksAtMemory = Math.min(maxHeapUsedBytes, maxRssBytes) < Number.POSITIVE_INFINITY;
    const memory = looksAtMemory ? host.process?.memoryUsage?.() : undefined;
    this.#isHigh =
      this.#clock.now() - dueAt > maxEventLoopDelayMs ||
      utilization > maxEventLoopUtilization ||
      (memory !== undefined && (memory.heapUsed > maxHeapUsedBytes || memory.rss > maxRssBytes));
    this.#setTimer();
  }
}
