import { type Clock, type RateLimitLease, systemClock } from "headgate";
import type { InsideLimiter, LimiterSnapshot } from "../../src/internal.js";
import { inside } from "../../src/internal.js";
import {
  completionSeries,
  deadlineSeries,
  type Frame,
  leaseDurationSeries,
  levelSeries,
  OUTCOMES,
  type Outcome,
  otherSeries,
  REASONS,
  type Reason,
  rejectionSeries,
  requestSeries,
  WAIT_RESULTS,
  type WaitResult,
  waitDurationSeries,
  waitSeries,
  waitTimeSeries,
} from "./catalogue.js";
import { holdsPermits } from "./readers.js";
import { Samples } from "./samples.js";

/** The most samples of a histogram between two collections, for each of its series. */
const MOST_SAMPLES = 64;

const SECOND_MS = 1000;

function perKey<Key extends string, V>(keys: readonly Key[], make: () => V): Record<Key, V> {
  return Object.fromEntries(keys.map((key) => [key, make()])) as Record<Key, V>;
}

const zero = (): number => 0;
const samples = (): Samples => new Samples(MOST_SAMPLES);

/** What has been seen in front of a limiter; plain numbers, which are read when somebody collects. */
export class Counters {
  readonly clock: Clock;
  readonly #limiter: WeakRef<InsideLimiter>;
  readonly #refused: Record<Reason, number> = perKey(REASONS, zero);
  readonly #completed: Record<Outcome, number> = perKey(OUTCOMES, zero);
  readonly #waits: Record<WaitResult, number> = perKey(WAIT_RESULTS, zero);
  readonly #waitMs: Record<WaitResult, number> = perKey(WAIT_RESULTS, zero);
  readonly #waitSamples: Record<WaitResult, Samples> = perKey(WAIT_RESULTS, samples);
  readonly #leaseSamples: Record<Outcome, Samples> = perKey(OUTCOMES, samples);
  readonly #snapshot: LimiterSnapshot = {} as LimiterSnapshot;
  #granted = 0;
  #canceled = 0;
  /** Leases that are out. */
  active = 0;
  #leaseMs = 0;
  #met = 0;
  #missed = 0;
  #saturatedMs = 0;
  #saturatedSince: number | undefined = undefined;
  /** Whether its permits are held: those of others come back by themselves, and nobody is told when. */
  #canSaturate = false;

  constructor(limiter: InsideLimiter) {
    this.#limiter = new WeakRef(limiter);
    this.clock = limiter[inside]?.clock ?? systemClock;
  }

  answered(lease: RateLimitLease): void {
    if (lease.isAcquired) {
      this.#granted += 1;
      this.active += 1;
    } else {
      const { reason } = lease;
      this.#refused[reason !== undefined && Object.hasOwn(this.#refused, reason) ? reason : "other"] += 1;
    }
    this.#noteLevel();
  }

  canceled(): void {
    this.#canceled += 1;
    this.#noteLevel();
  }

  waited(result: WaitResult, ms: number): void {
    this.#waits[result] += 1;
    this.#waitMs[result] += ms;
    this.#waitSamples[result].add(ms / SECOND_MS);
  }

  /** A lease has ended, and its permits have come back. */
  completed(outcome: Outcome, heldMs: number, isDelivered: boolean | undefined): void {
    this.active -= 1;
    this.#completed[outcome] += 1;
    this.#leaseMs += heldMs;
    this.#leaseSamples[outcome].add(heldMs / SECOND_MS);
    if (isDelivered === true) this.#met += 1;
    if (isDelivered === false) this.#missed += 1;
    this.#noteLevel();
  }

  read(frame: Frame): void {
    this.#noteLevel();
    frame.add(requestSeries.acquired, this.#granted);
    frame.add(requestSeries.canceled, this.#canceled);
    let refused = 0;
    for (const reason of REASONS) {
      refused += this.#refused[reason];
      // One for each reason that there is would be too many: SDKs tell few series apart.
      if (this.#refused[reason] > 0) frame.add(rejectionSeries[reason], this.#refused[reason]);
    }
    frame.add(requestSeries.rejected, refused);
    for (const outcome of OUTCOMES) frame.add(completionSeries[outcome], this.#completed[outcome]);
    frame.add(levelSeries.active, this.active);
    frame.add(levelSeries.leaseTime, this.#leaseMs / SECOND_MS);
    for (const result of WAIT_RESULTS) {
      frame.add(waitSeries[result], this.#waits[result]);
      frame.add(waitTimeSeries[result], this.#waitMs[result] / SECOND_MS);
    }
    frame.add(deadlineSeries.met, this.#met);
    frame.add(deadlineSeries.missed, this.#missed);
    if (!this.#canSaturate) return;
    const since = this.#saturatedSince;
    const openMs = since === undefined ? 0 : Math.max(0, this.clock.now() - since);
    frame.add(otherSeries.saturation, (this.#saturatedMs + openMs) / SECOND_MS);
  }

  /** Hands the samples over; to be called while somebody collects. */
  flush(record: (series: number, seconds: number) => void): void {
    for (const result of WAIT_RESULTS) {
      this.#waitSamples[result].flush((seconds) => record(waitDurationSeries[result], seconds));
    }
    for (const outcome of OUTCOMES) {
      this.#leaseSamples[outcome].flush((seconds) => record(leaseDurationSeries[outcome], seconds));
    }
  }

  /** Notes when the limiter gets to its limit, and when it leaves it. */
  #noteLevel(): void {
    const snapshot = this.#snapshot;
    if (this.#limiter.deref()?.[inside]?.snapshot(snapshot) !== true) return;
    if (!holdsPermits(snapshot)) return;
    this.#canSaturate = true;
    const isSaturated = snapshot.available < 1 && !snapshot.isDisposed;
    if (isSaturated === (this.#saturatedSince !== undefined)) return;
    const now = this.clock.now();
    if (isSaturated) {
      this.#saturatedSince = now;
    } else {
      this.#saturatedMs += Math.max(0, now - (this.#saturatedSince as number));
      this.#saturatedSince = undefined;
    }
  }
}
