/// <reference lib="esnext.disposable" preserve="true" />

import { type AcquireSink, type AcquireTicket, isLease } from "./inside.js";
import type { LeaseOutcome } from "./outcome.js";
import { RateLimitLease } from "./rate-limit-lease.js";
import { checkPermitCount } from "./validation.js";

/*
 * Asking several limiters in turn, so that work goes ahead only when all of them agree.
 *
 * The question: a request needs a permit of the client's limiter and one of the whole service's. What if the first
 * says yes and the second no? The naive answer keeps what the first gave: a window limiter is then charged for work
 * that never ran, and a service that refuses much empties the windows of clients that got nothing.
 *
 * So a chain takes one permit after another, in the given order, never asks the next before the one before it has
 * agreed (waiting included), and gives everything back, last taken first, when one refuses, throws, or the caller
 * leaves. Last first, because giving back an outer permit may admit somebody who asks for the inner one next: it
 * must be free again by then.
 *
 * Example: a window of 10 with 4 taken, then a concurrency limiter that is full. An attempt takes the fifth from the
 * window, is refused, refunds it: the window stands at 4 again, and the caller gets the second limiter's answer.
 *
 * Two surprises. Whoever waits for a later limiter holds what the earlier ones gave: a crowd that waits for one slow host
 * behind a limiter for all hosts takes the permits of everybody else. So limiters where callers wait long come first. And
 * a permit that goes back after its window has moved on is lost all the same; the window it belonged to is over.
 *
 * As long as nobody has to wait, all of this happens in one turn, without a promise.
 */

/** Asks each member without waiting. */
export function attemptInTurn<Member>(
  members: readonly Member[],
  attempt: (member: Member) => RateLimitLease,
): RateLimitLease {
  const leases: RateLimitLease[] = [];
  for (const member of members) {
    let lease: RateLimitLease;
    let isAcquired: boolean;
    try {
      lease = attempt(member);
      isAcquired = lease.isAcquired;
    } catch (error) {
      throw undo(leases, error);
    }
    if (!isAcquired) return refuse(leases, lease);
    leases.push(lease);
  }
  return new ChainedLease(leases);
}

/** Asks a member; what is not known at once is told to the sink. */
type Start<Member> = (member: Member, sink: AcquireSink) => RateLimitLease | AcquireTicket;

/** Asks each member, waiting where one has to: a lease when nobody had to, else a ticket, and the sink is told. */
export function acquireInTurn<Member>(
  members: readonly Member[],
  start: Start<Member>,
  sink: AcquireSink,
): RateLimitLease | AcquireTicket {
  const request = new ChainRequest(members, start, sink);
  return request.proceed() ?? request;
}

/** A request on its way through a chain. */
class ChainRequest<Member> implements AcquireSink, AcquireTicket {
  readonly #members: readonly Member[];
  readonly #start: Start<Member>;
  readonly #sink: AcquireSink;
  readonly #leases: RateLimitLease[] = [];
  /** The place in the queue of the member that it waits for. */
  #place: AcquireTicket | undefined;
  /** How many answers it has been told. */
  #told = 0;

  constructor(members: readonly Member[], start: Start<Member>, sink: AcquireSink) {
    this.#members = members;
    this.#start = start;
    this.#sink = sink;
  }

  /** Asks one member after another; undefined when one has to be waited for. */
  proceed(): RateLimitLease | undefined {
    while (this.#leases.length < this.#members.length) {
      let answer: RateLimitLease | AcquireTicket;
      let isAcquired: boolean;
      try {
        const told = this.#told;
        answer = this.#start(this.#members[this.#leases.length] as Member, this);
        if (!isLease(answer)) {
          // The answer may have come before the request for it returned; this has gone on from there, then.
          if (told === this.#told) this.#place = answer;
          return undefined;
        }
        isAcquired = answer.isAcquired;
      } catch (error) {
        throw undo(this.#leases, error);
      }
      if (!isAcquired) return refuse(this.#leases, answer);
      this.#leases.push(answer);
    }
    return new ChainedLease(this.#leases);
  }

  settled(lease: RateLimitLease): void {
    this.#told += 1;
    this.#place = undefined;
    let answer: RateLimitLease | undefined;
    try {
      answer = this.#take(lease);
    } catch (error) {
      this.#sink.failed(error);
      return;
    }
    if (answer !== undefined) this.#sink.settled(answer);
  }

  failed(error: unknown): void {
    this.#told += 1;
    this.#place = undefined;
    this.#sink.failed(undo(this.#leases, error));
  }

  cancel(): boolean {
    if (this.#place?.cancel() !== true) return false;
    this.#place = undefined;
    throwAny(giveBack(this.#leases), "Giving back the permits of a cancelled chain failed.");
    return true;
  }

  #take(lease: RateLimitLease): RateLimitLease | undefined {
    let isAcquired: boolean;
    try {
      isAcquired = lease.isAcquired;
    } catch (error) {
      throw undo(this.#leases, error);
    }
    if (!isAcquired) return refuse(this.#leases, lease);
    this.#leases.push(lease);
    return this.proceed();
  }
}

/** Does something to each, all of them whatever happens; returns what was thrown. */
export function forEach<One>(all: Iterable<One>, ...actions: ((one: One) => void)[]): unknown[] {
  const errors: unknown[] = [];
  for (const one of all) {
    for (const action of actions) {
      try {
        action(one);
      } catch (error) {
        errors.push(error);
      }
    }
  }
  return errors;
}

function giveBack(leases: readonly RateLimitLease[]): unknown[] {
  return forEach(
    [...leases].reverse(),
    (lease) => lease.report("ignored"),
    (lease) => lease.refund(),
  );
}

/** Gives back what was taken, for an error; returns the error to throw. */
function undo(leases: readonly RateLimitLease[], error: unknown): unknown {
  const errors = giveBack(leases);
  return errors.length === 0
    ? error
    : new AggregateError([...errors, error], "A chain failed, and giving back too.");
}

/** Gives back what was taken, for a refusal; returns the refusal. */
function refuse(leases: readonly RateLimitLease[], refusal: RateLimitLease): RateLimitLease {
  throwAny(giveBack(leases), "Giving back the permits of a refused chain failed.");
  return refusal;
}

/** Throws what a loop that went on past errors has collected, if anything. */
export function throwAny(errors: readonly unknown[], message: string): void {
  if (errors.length > 0) throw new AggregateError(errors, message);
}

/** All leases of a chain as one. */
class ChainedLease extends RateLimitLease {
  #leases: readonly RateLimitLease[];

  constructor(leases: readonly RateLimitLease[]) {
    super();
    this.#leases = leases;
  }

  override get isAcquired(): boolean {
    return true;
  }

  override get metadataNames(): Iterable<string> {
    return new Set(this.#leases.flatMap((lease) => [...lease.metadataNames]));
  }

  protected override tryGetMetadataCore(name: string): unknown {
    for (const lease of this.#leases) {
      const value = lease.tryGetMetadata(name);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  override report(outcome: LeaseOutcome): void {
    throwAny(
      forEach(this.#leases, (lease) => lease.report(outcome)),
      "Reporting to a chain failed.",
    );
  }

  override adjust(actualPermits: number): void {
    checkPermitCount(actualPermits, "actualPermits");
    throwAny(
      forEach(this.#leases, (lease) => lease.adjust(actualPermits)),
      "Adjusting a chain failed.",
    );
  }

  override refund(): void {
    this.#end((lease) => lease.refund());
  }

  override dispose(): void {
    this.#end((lease) => lease.dispose());
  }

  #end(action: (lease: RateLimitLease) => void): void {
    const leases = this.#leases;
    this.#leases = [];
    throwAny(forEach([...leases].reverse(), action), "Disposing the leases of a chain failed.");
  }
}
