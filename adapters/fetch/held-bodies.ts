import type { Clock } from "headgate";
import type { Admission } from "./admission.js";

/** The longest delay that hosts take. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/**
 * The bodies that hold a lease, oldest first, and the one timer that ends the holds that last too long. All may last equally
 * long, so the oldest is always the next.
 */
export class HeldBodies {
  readonly #clock: Clock;
  readonly #maxHoldMs: number;
  readonly #held = new Set<Admission>();
  #timer: { cancel(): void } | undefined;
  #isAwaited = false;
  expired = 0;

  constructor(clock: Clock, maxHoldMs: number) {
    this.#clock = clock;
    this.#maxHoldMs = maxHoldMs;
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
    if (this.#timer === undefined && this.#maxHoldMs < Number.POSITIVE_INFINITY) this.#arm(admission);
  }

  delete(admission: Admission): void {
    if (this.#held.delete(admission) && this.#held.size === 0) {
      this.#timer?.cancel();
      this.#timer = undefined;
    }
  }

  /** Whether a call waits for its turn. A body that was forgotten is no reason for a process to go on; a call is. */
  setAwaited(isAwaited: boolean): void {
    if (this.#isAwaited === isAwaited) return;
    this.#isAwaited = isAwaited;
    if (this.#timer === undefined) return;
    this.#timer.cancel();
    this.#arm(this.#oldest as Admission);
  }

  /** Ends all holds; the bodies go on. */
  endAll(): void {
    for (const admission of [...this.#held]) admission.expire();
  }

  get #oldest(): Admission | undefined {
    for (const admission of this.#held) return admission;
    return undefined;
  }

  #arm(oldest: Admission): void {
    const leftMs = Math.ceil(oldest.heldSince + this.#maxHoldMs - this.#clock.now());
    const delayMs = Math.min(Math.max(leftMs, 1), LONGEST_DELAY_MS);
    this.#timer = this.#clock.setTimer(this.#onTimer, delayMs, this.#isAwaited);
  }

  readonly #onTimer = (): void => {
    this.#timer = undefined;
    const now = this.#clock.now();
    let oldest = this.#oldest;
    while (oldest !== undefined && now - oldest.heldSince >= this.#maxHoldMs) {
      this.expired += 1;
      this.#held.delete(oldest);
      oldest.expire();
      oldest = this.#oldest;
    }
    if (oldest !== undefined && this.#timer === undefined) this.#arm(oldest);
  };
}
