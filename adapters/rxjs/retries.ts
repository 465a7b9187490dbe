import type { Clock } from "headgate";
import { captureContext } from "../../src/internal.js";
import type { Lane, WaitingValue } from "./lanes.js";
import type { RetryPlan } from "./rules.js";

/** What hosts take. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Lanes whose first value was refused and will ask again. */
export class Retries<T> {
  readonly #plan: RetryPlan;
  readonly #clock: Clock;
  readonly #wake: (lane: Lane<T>) => void;
  /** Those whose limiter did not say when to come back: what their own stream gives back may be what they need. */
  readonly #hopeful = new Set<Lane<T>>();

  /** @param wake - Called when a lane's time has come. */
  constructor(plan: RetryPlan, clock: Clock, wake: (lane: Lane<T>) => void) {
    this.#plan = plan;
    this.#clock = clock;
    this.#wake = wake;
  }

  /** Has the first value of a lane ask again: after `delayMs`, or else when the limiter said, or else after a while. */
  later(waiting: WaitingValue<T>, delayMs: number | undefined, retryAfterMs: number | undefined): void {
    const { lane } = waiting;
    const { fallbackDelayMs, maxDelayMs, jitter, random } = this.#plan;
    const wantedMs = retryAfterMs ?? fallbackDelayMs * 2 ** lane.refusals;
    const waitMs = delayMs ?? Math.min(wantedMs, maxDelayMs) * (1 + jitter * random());
    waiting.runInContext ??= captureContext();
    lane.refusals += 1;
    if (delayMs === undefined && retryAfterMs === undefined) this.#hopeful.add(lane);
    lane.timer = this.#clock.setTimer(
      () => {
        lane.timer = undefined;
        this.#hopeful.delete(lane);
        this.#wake(lane);
      },
      Math.min(Math.max(1, waitMs), LONGEST_TIMER_MS),
    );
  }

  /** The lane that hopes the longest. */
  get oldestHopeful(): Lane<T> | undefined {
    if (this.#hopeful.size === 0) return undefined;
    const [oldest] = this.#hopeful;
    return oldest;
  }

  /** Ends a lane's wait, since something has come back that may be what it needs; true if it hoped for that. */
  hurry(lane: Lane<T>): boolean {
    if (!this.#hopeful.delete(lane)) return false;
    lane.timer?.cancel();
    lane.timer = undefined;
    return true;
  }

  forget(lane: Lane<T>): void {
    this.#hopeful.delete(lane);
  }
}
