import { createNoopMeter, type Meter, metrics } from "@opentelemetry/api";
import { systemClock } from "headgate";
import type { Entry } from "./measured.js";
import { type Registry, registryOf } from "./registry.js";

/** When a meter is looked for again, in milliseconds after the first who found none, and never after that. */
const TRIES_AT_MS = [1, 1000, 5000, 30_000];

/** Those that have found no meter that does something. */
const pending = new Set<Attachment>();
let hasTimers = false;

function tryPending(): void {
  for (const attachment of pending) attachment.retry();
}

/** The same if it is of use: each new limiter asks, and there may be many. */
function tryPendingOnce(): void {
  if (pending.size > 0 && metrics.getMeter("headgate") !== createNoopMeter()) tryPending();
}

/** A limiter that is measured, and the meter that does it, once there is one. */
export class Attachment {
  readonly #entry: Entry;
  #registry: Registry | undefined = undefined;
  #isOver = false;

  constructor(entry: Entry, meter: Meter | undefined) {
    this.#entry = entry;
    tryPendingOnce();
    if (this.attach(meter)) return;
    pending.add(this);
    if (hasTimers) return;
    hasTimers = true;
    // They keep no process alive.
    for (const delayMs of TRIES_AT_MS) systemClock.setTimer(tryPending, delayMs, false);
  }

  get isAttached(): boolean {
    return this.#registry !== undefined;
  }

  /** A meter that was fetched before there was an SDK does nothing for ever, so it is fetched anew each time. */
  attach(meter: Meter = metrics.getMeter("headgate")): boolean {
    if (this.#isOver || meter === createNoopMeter()) return this.isAttached;
    pending.delete(this);
    const registry = registryOf(meter);
    if (registry === this.#registry) return true;
    this.#registry?.remove(this.#entry);
    this.#registry = registry;
    registry.add(this.#entry);
    return true;
  }

  retry(): void {
    if (this.#entry.target.deref() === undefined) this.end();
    else this.attach();
  }

  end(): void {
    this.#isOver = true;
    pending.delete(this);
    this.#registry?.remove(this.#entry);
    this.#registry = undefined;
  }
}
