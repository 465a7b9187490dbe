import type { LeaseOutcome, RateLimitLease } from "headgate";

/** Tells a lease how the work went, and gives it back. */
export function settle(lease: RateLimitLease, outcome: LeaseOutcome): void {
  try {
    lease.report(outcome);
  } finally {
    lease.dispose();
  }
}

/**
 * The same for work that has not started: what can be undone is undone. Not by `refund`, after which limiters learn nothing:
 * that a layer further in has refused is congestion to an adaptive one.
 */
export function undo(lease: RateLimitLease, outcome: LeaseOutcome): void {
  try {
    lease.report(outcome);
    lease.adjust(0);
  } finally {
    lease.dispose();
  }
}

/** Gives a lease back whose work never started; returns the error that its caller is to see. */
export function giveUp(lease: RateLimitLease, error: unknown): unknown {
  try {
    lease.refund();
  } catch (second) {
    return bothErrors(error, second);
  }
  return error;
}

/** A failure, and that of giving back a lease after it. */
export function bothErrors(first: unknown, second: unknown): AggregateError {
  return new AggregateError([first, second], "A call failed, and giving back its lease failed too.");
}
