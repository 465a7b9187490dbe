import type { LeaseOutcome } from "../contract/outcome.js";

/**
 * Whether an algorithm is to look at a sample at all. Work that failed for a reason of its own says nothing about load, and a
 * duration below 0 or not a number says nothing at all.
 */
export function isSample(rtt: number, outcome: LeaseOutcome): boolean {
  return rtt >= 0 && (outcome === "success" || outcome === "dropped");
}

/**
 * Whether one can learn from the duration. 0 is common where timers are coarse, and is no measurement: it would be infinitely
 * good for ever after.
 */
export function isUsableRtt(rtt: number): boolean {
  return rtt > 0 && rtt < Number.POSITIVE_INFINITY;
}

/** By how much samples may come in the wrong order: a lease can be disposed long after its outcome was reported. */
const DISORDER_MS = 30_000;
/** How many samples in a row from the past mean that the clock was set back. */
const PROOFS = 10;

/**
 * The time of samples, for windows that close when a sample ends late enough.
 *
 * Such a window trusts the highest end that it has seen, so one sample from the far future would keep it open for ever. A few
 * samples in a row that lie far back prove that it is the clock that went back.
 */
export class SampleTime {
  latest: number = Number.NEGATIVE_INFINITY;
  #behind = 0;

  /** What to do with a sample that ended then: use it, skip it, or forget what came before and then use it. */
  take(end: number): "use" | "skip" | "restart" {
    // Such a number is no time, or one so far off that milliseconds are lost in it.
    if (!(Math.abs(end) <= Number.MAX_SAFE_INTEGER)) return "skip";
    if (this.latest - end > DISORDER_MS) {
      if (++this.#behind < PROOFS) return "skip";
      this.#behind = 0;
      this.latest = end;
      return "restart";
    }
    this.#behind = 0;
    if (end > this.latest) this.latest = end;
    return "use";
  }
}
