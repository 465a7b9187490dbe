import type { Waiter } from "./waiter.js";

/** Called when a signal is aborted, before its waiters are told. */
export type OnAbort = (watch: SignalWatch) => void;

/** Those signals that somebody waits with. */
const hubs = new WeakMap<AbortSignal, SignalHub>();

/**
 * The one abort listener on a signal, however many limiters have somebody who waits with it: hosts warn of, and slow down
 * with, many listeners on one signal. It leaves the signal together with its last watch.
 */
class SignalHub {
  readonly #signal: AbortSignal;
  #first: SignalWatch | undefined = undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    hubs.set(signal, this);
    signal.addEventListener("abort", this);
  }

  /** Called by the signal. A watch leaves when its waiters have, which they do when it is told. */
  handleEvent(): void {
    for (let watch = this.#first; watch !== undefined; watch = this.#first) watch.tell();
  }

  add(watch: SignalWatch): void {
    watch.next = this.#first;
    if (this.#first !== undefined) this.#first.previous = watch;
    this.#first = watch;
  }

  remove(watch: SignalWatch): void {
    const { next, previous } = watch;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next !== undefined) next.previous = previous;
    if (this.#first !== undefined) return;
    hubs.delete(this.#signal);
    this.#signal.removeEventListener("abort", this);
  }
}

/** Those of one queue who wait with the same signal. */
export class SignalWatch {
  readonly signal: AbortSignal;
  readonly #hub: SignalHub;
  readonly #onAbort: OnAbort;
  first: Waiter | undefined = undefined;
  #last: Waiter | undefined = undefined;
  /** The watches of other queues on the same signal. */
  next: SignalWatch | undefined = undefined;
  previous: SignalWatch | undefined = undefined;

  constructor(signal: AbortSignal, onAbort: OnAbort) {
    this.signal = signal;
    this.#onAbort = onAbort;
    this.#hub = hubs.get(signal) ?? new SignalHub(signal);
    this.#hub.add(this);
  }

  tell(): void {
    this.#onAbort(this);
  }

  add(waiter: Waiter): void {
    waiter.watch = this;
    waiter.previousOnSignal = this.#last;
    if (this.#last === undefined) this.first = waiter;
    else this.#last.nextOnSignal = waiter;
    this.#last = waiter;
  }

  /** Takes a waiter off; true when it was the last, and the watch is over. */
  remove(waiter: Waiter): boolean {
    const { nextOnSignal: next, previousOnSignal: previous } = waiter;
    if (previous === undefined) this.first = next;
    else previous.nextOnSignal = next;
    if (next === undefined) this.#last = previous;
    else next.previousOnSignal = previous;
    waiter.watch = undefined;
    waiter.nextOnSignal = undefined;
    waiter.previousOnSignal = undefined;
    if (this.first !== undefined) return false;
    this.#hub.remove(this);
    return true;
  }
}
