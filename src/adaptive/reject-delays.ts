import type { AcquireSink, AcquireTicket } from "../contract/inside.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import { Backlog, type BacklogOwner } from "../queue/backlog.js";
import { deliver } from "../queue/delivery.js";
import type { QueueSettings } from "../queue/queue-settings.js";
import type { SignalWatch } from "../queue/signal-watch.js";
import { SinkWaiter, type Waiter } from "../queue/waiter.js";

/**
 * Refusals that are held back for a while. Those who wait for one are in a backlog as those who wait for permits are, with the
 * delay as their deadline; only that nobody ever serves them.
 */
export class RejectDelays implements BacklogOwner {
  readonly settings: QueueSettings<never>;
  readonly #most: number;
  /** Made with the first. */
  #backlog: Backlog | undefined = undefined;
  readonly #refusals = new Map<Waiter, RateLimitLease>();

  constructor(settings: QueueSettings<never>, most: number) {
    this.settings = settings;
    this.#most = most;
  }

  /** How many are held back now. */
  get count(): number {
    return this.#refusals.size;
  }

  /** Holds a refusal back, unless there are too many. */
  hold(
    refusal: RateLimitLease,
    delayMs: number,
    signal: AbortSignal | undefined,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    if (this.#refusals.size >= this.#most) return refusal;
    this.#backlog ??= new Backlog(this);
    const waiter = new SinkWaiter(0, 0, sink);
    this.#refusals.set(waiter, refusal);
    this.#backlog.add(waiter, signal, delayMs);
    this.#setAlarm();
    return { cancel: () => this.#cancel(waiter) };
  }

  wake(): void {
    const now = this.settings.clock.now();
    let waiter = this.#backlog?.nextToExpire;
    while (waiter !== undefined && waiter.deadline <= now) {
      this.#end(waiter);
      waiter = this.#backlog?.nextToExpire;
    }
    this.#setAlarm();
    deliver();
  }

  abort(watch: SignalWatch): void {
    for (let waiter = watch.first; waiter !== undefined; waiter = watch.first) {
      this.#remove(waiter);
      waiter.abort(watch.signal.reason);
    }
    this.#setAlarm();
    deliver();
  }

  /** Ends all of them; nobody is told yet. */
  close(): void {
    for (const waiter of [...this.#refusals.keys()]) this.#end(waiter);
    this.#setAlarm();
  }

  #end(waiter: Waiter): void {
    const refusal = this.#refusals.get(waiter);
    this.#remove(waiter);
    if (refusal !== undefined) waiter.settle(refusal);
  }

  #cancel(waiter: SinkWaiter): boolean {
    if (!waiter.isWaiting) return false;
    waiter.isWaiting = false;
    this.#remove(waiter);
    this.#setAlarm();
    return true;
  }

  #remove(waiter: Waiter): void {
    this.#refusals.delete(waiter);
    this.#backlog?.remove(waiter);
  }

  #setAlarm(): void {
    if (this.#backlog === undefined) return;
    const { alarm, nextToExpire } = this.#backlog;
    if (nextToExpire === undefined) alarm.clear();
    else alarm.set(nextToExpire.deadline);
  }
}
