import { monitorEventLoopDelay } from "node:perf_hooks";

/** Tells for how long this process stood still at worst, since the watch began. */
export class StallWatch {
  readonly #delays = monitorEventLoopDelay({ resolution: 10 });

  constructor() {
    this.#delays.enable();
  }

  get longestMs(): number {
    return this.#delays.max / 1e6;
  }

  [Symbol.dispose](): void {
    this.#delays.disable();
  }
}
