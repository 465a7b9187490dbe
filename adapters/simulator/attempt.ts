import type { RateLimitLease } from "headgate";
import type { AcquireSink, AcquireTicket } from "../../src/internal.js";
import type { Arrival } from "./arrivals.js";
import type { TenantTally } from "./measures.js";
import type { AttemptOutcome, AttemptRecord, SimulatedRejection } from "./result.js";
import type { Job } from "./server.js";

/** Where an attempt is. */
const FREE = 0;
/** The client waits before it tries again. */
export const BACKING_OFF = 1;
export const ASKING = 2;
export const IN_SERVICE = 3;

export interface AttemptOwner {
  /** The moment has come at which the client makes this attempt. */
  begin(attempt: Attempt): void;
  /** Its completion has come. */
  complete(attempt: Attempt): void;
  answered(attempt: Attempt, lease: RateLimitLease): void;
  failed(attempt: Attempt, error: unknown): void;
}

/** The tenant of arrivals that do not have one. */
export const DEFAULT_TENANT = "default";

const NOBODY: Arrival = { atMs: 0 };

/**
 * One call on the limiter, and what becomes of it. These objects are used again and again: a run has as many of them as there
 * are attempts at the same time, at most.
 */
export class Attempt implements Job, AcquireSink {
  readonly #owner: AttemptOwner;
  stage: number = FREE;
  arrival: Arrival = NOBODY;
  /** The number of its arrival, and how many attempts came before it for the same one. */
  id = 0;
  number = 0;
  isMeasured = false;
  tenant: TenantTally | undefined = undefined;
  permits = 1;
  /** When the client made it, got its permits, and gave up; NaN while that has not been. */
  at = 0;
  grantedAt = 0;
  timedOutAt = 0;
  clientWaits = false;
  lease: RateLimitLease | undefined = undefined;
  /** Its place in the limiter's queue. */
  ticket: AcquireTicket | undefined = undefined;
  /** Whether it waits there. */
  isQueued = false;
  /** Whether its answer may come by a promise. */
  isUncertain = false;
  /** When the client gives up, and its neighbours among those who will. */
  deadline = 0;
  previousClient: Attempt | undefined = undefined;
  nextClient: Attempt | undefined = undefined;

  workMs = 0;
  remainingMs = 0;
  enqueuedAt = 0;
  startedAt = 0;
  usedMs = 0;
  completion = -1;
  previousJob: Job | undefined = undefined;
  nextJob: Job | undefined = undefined;

  constructor(owner: AttemptOwner) {
    this.#owner = owner;
    // Some engines keep a field that has held nothing but small integers in another form, and copy the object when that changes.
    this.at = Number.NaN;
    this.grantedAt = Number.NaN;
    this.timedOutAt = Number.NaN;
    this.deadline = Number.NaN;
    this.workMs = Number.NaN;
    this.remainingMs = Number.NaN;
    this.enqueuedAt = Number.NaN;
    this.startedAt = Number.NaN;
    this.usedMs = Number.NaN;
  }

  happen(): void {
    if (this.stage === BACKING_OFF) this.#owner.begin(this);
    else this.#owner.complete(this);
  }

  settled(lease: RateLimitLease): void {
    try {
      this.#owner.answered(this, lease);
    } catch (error) {
      // Nobody above would pass it on to the run.
      this.#owner.failed(this, error);
    }
  }

  failed(error: unknown): void {
    this.#owner.failed(this, error);
  }

  /** Lets go of everything that belongs to others. */
  release(): void {
    this.stage = FREE;
    this.arrival = NOBODY;
    this.lease = undefined;
    this.ticket = undefined;
    this.tenant = undefined;
  }
}

/** Attempts that are over are given out again. */
export class AttemptPool {
  readonly #owner: AttemptOwner;
  readonly #free: Attempt[] = [];
  /** All that there are, free or not. */
  readonly all: Attempt[] = [];

  constructor(owner: AttemptOwner) {
    this.#owner = owner;
  }

  /** How many are in use. */
  get inUse(): number {
    return this.all.length - this.#free.length;
  }

  take(): Attempt {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const attempt = new Attempt(this.#owner);
    this.all.push(attempt);
    return attempt;
  }

  give(attempt: Attempt): void {
    attempt.release();
    this.#free.push(attempt);
  }
}

/** What became of an attempt, for those who keep it. */
export function recordOf(
  attempt: Attempt,
  outcome: AttemptOutcome,
  reason: SimulatedRejection | undefined,
  now: number,
): AttemptRecord {
  return {
    id: attempt.id,
    attempt: attempt.number,
    tenant: attempt.arrival.tenant ?? DEFAULT_TENANT,
    outcome,
    reason,
    atMs: attempt.at,
    grantedMs: known(attempt.grantedAt),
    startedMs: known(attempt.startedAt),
    timedOutMs: known(attempt.timedOutAt),
    endMs: now,
  };
}

function known(time: number): number | undefined {
  return Number.isNaN(time) ? undefined : time;
}
