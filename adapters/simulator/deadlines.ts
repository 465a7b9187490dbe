import type { Attempt } from "./attempt.js";
import { CLIENT_TIMEOUT, type EventLoop, type Happening } from "./event-loop.js";

/**
 * When clients give up. All of them are equally patient, so they do so in the order in which they made their attempts: a list
 * is enough, and one event for the first in it.
 */
export class Deadlines implements Happening {
  readonly #loop: EventLoop;
  readonly #timeoutMs: number;
  readonly #timedOut: (attempt: Attempt) => void;
  #first: Attempt | undefined = undefined;
  #last: Attempt | undefined = undefined;
  #isScheduled = false;

  /** @param timeoutMs - Infinite for clients that never give up. */
  constructor(loop: EventLoop, timeoutMs: number, timedOut: (attempt: Attempt) => void) {
    this.#loop = loop;
    this.#timeoutMs = timeoutMs;
    this.#timedOut = timedOut;
  }

  add(attempt: Attempt): void {
    if (this.#timeoutMs === Number.POSITIVE_INFINITY) return;
    attempt.deadline = this.#loop.now() + this.#timeoutMs;
    attempt.previousClient = this.#last;
    attempt.nextClient = undefined;
    if (this.#last === undefined) this.#first = attempt;
    else this.#last.nextClient = attempt;
    this.#last = attempt;
    if (!this.#isScheduled) this.#schedule(attempt.deadline);
  }

  remove(attempt: Attempt): void {
    if (this.#timeoutMs === Number.POSITIVE_INFINITY) return;
    const { previousClient, nextClient } = attempt;
    if (previousClient === undefined) this.#first = nextClient;
    else previousClient.nextClient = nextClient;
    if (nextClient === undefined) this.#last = previousClient;
    else nextClient.previousClient = previousClient;
    attempt.previousClient = undefined;
    attempt.nextClient = undefined;
  }

  /** One client gives up, if it is still waiting; the others at this instant have events of their own. */
  happen(): void {
    this.#isScheduled = false;
    const first = this.#first;
    if (first === undefined) return;
    if (first.deadline > this.#loop.now()) {
      this.#schedule(first.deadline);
      return;
    }
    this.remove(first);
    if (this.#first !== undefined) this.#schedule(this.#first.deadline);
    this.#timedOut(first);
  }

  #schedule(deadline: number): void {
    this.#isScheduled = true;
    this.#loop.at(deadline, CLIENT_TIMEOUT, this);
  }
}
