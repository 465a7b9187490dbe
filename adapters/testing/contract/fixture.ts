import type { QueueProcessingOrder, RateLimiter } from "headgate";
import { ManualClock } from "../manual-clock.js";
import { equal } from "./assertions.js";
import type { ContractSubject, TestFramework } from "./subject.js";

/** Declares a test, or leaves it out when it does not apply to the subject. */
export type Declare = (sentence: string, body: () => void | Promise<void>) => void;

/** Permits available and queued, requests refused and granted. */
export type Numbers = readonly [available: number, queued: number, refused: number, granted: number];

const shownNumbers = ([available, queued, refused, granted]: Numbers): string =>
  `${available} available, ${queued} queued, ${refused} refused, ${granted} granted`;

/** What every test of the contract works with. */
export class Fixture {
  readonly subject: ContractSubject;
  /** Whether the subject makes anybody wait. */
  readonly queues: boolean;
  readonly #it: TestFramework["it"];

  constructor(subject: ContractSubject, it: TestFramework["it"]) {
    this.subject = subject;
    this.#it = it;
    this.queues = (subject.isLimited ?? true) && (subject.queues ?? true);
  }

  readonly it: Declare = (sentence, body) => {
    this.#it(sentence, async () => body());
  };

  /** What does not apply to a kind of limiter is left out, not skipped. */
  itIf(applies: boolean | undefined): Declare {
    return applies === false ? () => {} : this.it;
  }

  make(
    permitLimit = 2,
    queueLimit = 4,
    queueProcessingOrder?: QueueProcessingOrder,
  ): { readonly clock: ManualClock; readonly limiter: RateLimiter } {
    const clock = new ManualClock();
    const order = queueProcessingOrder === undefined ? {} : { queueProcessingOrder };
    return { clock, limiter: this.subject.create({ permitLimit, queueLimit, clock, ...order }) };
  }

  /** The statistics; undefined of a limiter that keeps none. */
  numbers(limiter: RateLimiter): Numbers | undefined {
    if (this.subject.keepsStatistics === false) return undefined;
    const s = limiter.getStatistics();
    if (s === undefined) throw new Error("getStatistics: expected statistics, got undefined.");
    return [s.currentAvailablePermits, s.currentQueuedCount, s.totalFailedLeases, s.totalSuccessfulLeases];
  }

  /** Checks the statistics of a limiter that keeps some. */
  expectNumbers(when: string, limiter: RateLimiter, expected: Numbers | undefined): void {
    const actual = this.numbers(limiter);
    if (actual === undefined || expected === undefined) return;
    equal(`statistics ${when}`, shownNumbers(actual), shownNumbers(expected));
  }
}
