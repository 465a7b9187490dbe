import type { Clock } from "headgate";
import { Alarm } from "../../src/internal.js";
import type { Admission } from "./admission.js";

/**
 * The bodies that hold a lease, oldest first, and the one timer that ends the holds that last too long. All may last equally
 * long, so the oldest is always the next.
 */
export class HeldBodies {
  readonly #clock: Clock;
  readonly #maxHoldMs: number;
  readonly #held = new Set<Admission>();
  /** A body that was forgotten is no reason for a process to go on. */
  readonly #alarm: Alarm;
  expired = 0;

  constructor(clock: Clock, maxHoldMs: number) {
    this.#clock = clock;
    this.#maxHoldMs = maxHoldMs;
    this.#alarm = new Alarm(clock, () => this.#expire(), false);
  }

  get size(): number {
    return this.#held.size;
  }

  /** How long the oldest has been held, in milliseconds; undefined when there is none. */
  get oldestMs(): number | undefined {
    const oldest = this.#oldest;
    return oldest === undefined ? undefined : Math.max(0, this.#clock.now() - oldest.heldSince);
  }

  add(admission: Admission): void {
    admission.heldSince = this.#clock.now();
    this.#held.add(admission);
    if (this.#held.size === 1) this.#setAlarm(admission);
  }

  delete(admission: Admission): void {
    if (this.#held.delete(admission) && this.#held.size === 0) this.#alarm.clear();
  }

  /** Whether a call waits for its turn. A body that was forgotten is no reason for a process to go on; a call is. */
  setAwaited(isAwaited: boolean): void {
    this.#alarm.setKeepsAlive(isAwaited);
  }

  /** Ends all holds; the bodies go on. */
  endAll(): void {
    for (const admission of [...this.#held]) admission.expire();
  }

  get #oldest(): Admission | undefined {
    for (const admission of this.#held) return admission;
    return undefined;
  }

  #setAlarm(oldest: Admission): void {
    if (this.#maxHoldMs < Number.POSITIVE_INFINITY) this.#alarm.set(oldest.heldSince + this.#maxHoldMs);
  }

  #expire(): void {
    const now = this.#clock.now();
    let oldest = this.#oldest;
    while (oldest !== undefined && now - oldest.heldSince >= this.#maxHoldMs) {
      this.expired += 1;
      this.#held.delete(oldest);
      oldest.expire();
      oldest = this.#oldest;
    }
    if (oldest !== undefined) this.#setAlarm(oldest);
  }
}
