import type { Waiter } from "./waiter.js";

/** Called when a signal is aborted, before its waiters are told. */
export type OnAbort = (watch: SignalWatch) => void;

/**
 * The one abort listener of a queue on a signal, however many of its waiters share that signal: hosts warn of, and
 * slow down with, many listeners on one signal. It leaves the signal together with its last waiter.
 */
export class SignalWatch {
  readonly signal: AbortSignal;
  readonly #onAbort: OnAbort;
  first: Waiter | undefined = undefined;
  #last: Waiter | undefined = undefined;

  constructor(signal: AbortSignal, onAbort: OnAbort) {
    this.signal = signal;
    this.#onAbort = onAbort;
    signal.addEventListener("abort", this);
  }

  /** Called by the signal. */
  handleEvent(): void {
    this.#onAbort(this);
  }

  add(waiter: Waiter): void {
    waiter.watch = this;
    waiter.previousOnSignal = this.#last;
    if (this.#last === undefined) this.first = waiter;
    else this.#last.nextOnSignal = waiter;
    this.#last = waiter;
  }

  /** Takes a waiter off; true when it was the last, and the listener is gone. */
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
    this.signal.removeEventListener("abort", this);
    return true;
  }
}
