import type { Clock, LeaseOutcome, RateLimitLease } from "headgate";
import { checkNumber } from "../../src/internal.js";
import { ArrivalFeed } from "./arrival-feed.js";
import type { Arrival } from "./arrivals.js";
import {
  ASKING,
  type Attempt,
  type AttemptOwner,
  AttemptPool,
  BACKING_OFF,
  IN_SERVICE,
  recordOf,
} from "./attempt.js";
import { Retries, type RetryCause } from "./clients.js";
import { Deadlines } from "./deadlines.js";
import { scheduleDegradations } from "./degradations.js";
import { ARRIVAL, type EventLoop } from "./event-loop.js";
import { Gate } from "./gate.js";
import { Measures, type Tally } from "./measures.js";
import { createRandom, type RandomSource } from "./random.js";
import { type AttemptOutcome, reasonOf, type SimulatedRejection } from "./result.js";
import { Series } from "./series.js";
import { createServer, type Server, type ServerListener } from "./server.js";
import type { SimulationSettings } from "./simulation-options.js";

/** Who arrives, what limits them and who serves them: moves each attempt from its beginning to its end. */
export class Model implements AttemptOwner, ServerListener<Attempt> {
  readonly measures: Measures;
  readonly series: Series;
  readonly gate: Gate;
  readonly feed: ArrivalFeed;
  readonly #settings: SimulationSettings;
  readonly #loop: EventLoop;
  readonly #server: Server<Attempt>;
  readonly #deadlines: Deadlines;
  readonly #retries: Retries | undefined;
  readonly #pool: AttemptPool = new AttemptPool(this);
  readonly #failureRandom: RandomSource;
  readonly #leavesQueue: boolean;
  readonly #leavesServer: boolean;
  #arrivals = 0;
  #isOver = false;
  /** Whose attempt something happened to last; undefined when it was nobody's. */
  currentId: number | undefined = undefined;
  /** What went wrong where nobody could be told. */
  failure: { readonly error: unknown } | undefined = undefined;

  constructor(settings: SimulationSettings, loop: EventLoop) {
    this.#settings = settings;
    this.#loop = loop;
    const { clients, durationMs, seed, service, stepMs, warmupMs } = settings;
    const { onTimeout = "abandon", retries } = clients;
    this.#leavesServer = onTimeout === "cancel-all";
    this.#leavesQueue = onTimeout !== "abandon";
    this.#failureRandom = createRandom(seed, "failure");
    this.measures = new Measures(warmupMs, durationMs, service.servers);
    this.#retries = retries === undefined ? undefined : new Retries(retries, createRandom(seed, "retry"));
    this.#deadlines = new Deadlines(loop, settings.timeoutMs, (attempt) => this.#timedOut(attempt));
    const server = createServer(loop, service, this);
    this.#server = server;
    scheduleDegradations(loop, service, (conditions) => server.change(conditions));
    this.gate = this.#createGate();
    this.series = new Series(loop, stepMs, durationMs, () => ({
      permitsInUse: this.measures.permitsInUse.value,
      limiterQueue: this.measures.limiterQueue.value,
      serverQueue: server.queued,
      limit: this.measures.limit.value,
    }));
    this.feed = new ArrivalFeed(loop, settings, (arrival, workMs, permitCount) =>
      this.#arrive(arrival, workMs, permitCount),
    );
  }

  #createGate(): Gate {
    const { limiter, maxWaitMs, seed, waits } = this.#settings;
    const random = createRandom(seed, "limiter");
    const made = limiter?.({ clock: this.#loop.clock, random: () => random.uniform() });
    const isShownBy = (clock: Clock) => this.#loop.isShownBy(clock);
    return new Gate(made, { waits, maxWaitMs, canLeave: this.#leavesQueue, isShownBy });
  }

  /** Whether nobody is there and nobody comes. */
  get isIdle(): boolean {
    return this.#pool.inUse === 0 && this.feed.isEmpty;
  }

  /** Whether nothing is to come that could get anybody any further, so that the series alone would go on. */
  get isStuck(): boolean {
    const { warmup, measured } = this.measures;
    const loop = this.#loop;
    // The limiter's own timers are of use only to those who wait for it.
    const timers = warmup.waiting + measured.waiting === 0 ? loop.pendingTimers : 0;
    return loop.pendingEvents === timers + (this.series.isPending ? 1 : 0);
  }

  /** Who is waiting for the limiter or in the server. */
  get live(): Attempt[] {
    return this.#pool.all.filter((attempt) => attempt.stage === ASKING || attempt.stage === IN_SERVICE);
  }

  /** Notes what the limiter looks like now. */
  look(): void {
    const { gate } = this;
    if (!gate.hasLimiter) return;
    gate.look();
    const now = this.#loop.now();
    const { atLimit, limit } = this.measures;
    atLimit.set(gate.atLimit, now);
    limit.set(gate.limit, now);
  }

  /**
   * Ends it, unless it is over: what is waited for is taken back, and what is held is given back. Goes on past errors; throws
   * the first.
   */
  cutOff(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const errors: unknown[] = [];
    const attempt = (action: () => void) => {
      try {
        action();
      } catch (error) {
        errors.push(error);
      }
    };
    const { live } = this;
    for (const one of live) if (one.stage === ASKING) attempt(() => void this.gate.leave(one));
    for (const { lease } of live) {
      attempt(() => lease?.report("ignored"));
      attempt(() => lease?.dispose());
    }
    if (errors.length > 0) throw errors[0];
  }

  #arrive(arrival: Arrival, workMs: number, permitCount: number): void {
    const attempt = this.#pool.take();
    attempt.arrival = arrival;
    attempt.id = this.#arrivals;
    attempt.number = 0;
    attempt.workMs = workMs;
    attempt.permits = permitCount;
    attempt.isMeasured = arrival.atMs >= this.#settings.warmupMs;
    this.#arrivals += 1;
    this.series.offered += 1;
    this.measures.of(attempt).arrivals += 1;
    if (attempt.isMeasured) this.measures.workMs += workMs;
    if (attempt.isMeasured && arrival.tenant !== undefined) {
      attempt.tenant = this.measures.tenant(arrival.tenant);
      if (attempt.tenant !== undefined) attempt.tenant.arrivals += 1;
    }
    this.begin(attempt);
  }

  // From the attempt to its permits

  begin(attempt: Attempt): void {
    this.currentId = attempt.id;
    const now = this.#loop.now();
    attempt.stage = ASKING;
    attempt.at = now;
    attempt.grantedAt = Number.NaN;
    attempt.startedAt = Number.NaN;
    attempt.timedOutAt = Number.NaN;
    attempt.clientWaits = true;
    this.#deadlines.add(attempt);
    this.series.attempts += 1;
    this.measures.begins(attempt, now);
    if (!this.gate.hasLimiter) {
      this.#admit(attempt, this.measures.of(attempt));
      return;
    }
    const lease = this.gate.ask(attempt);
    if (lease !== undefined) this.answered(attempt, lease);
    // It may have been told before its request has returned.
    else if (attempt.stage === ASKING) this.#queues(attempt);
  }

  answered(attempt: Attempt, lease: RateLimitLease): void {
    this.gate.hasEnded(attempt);
    if (this.#isOver) {
      lease.dispose();
      return;
    }
    this.currentId = attempt.id;
    if (attempt.isQueued) this.#queuesNoMore(attempt);
    const tally = this.measures.of(attempt);
    if (lease.isAcquired) {
      attempt.lease = lease;
      this.#admit(attempt, tally);
      return;
    }
    tally.waiting -= 1;
    tally.refusedByLimiter += 1;
    const { reason, retryAfterMs } = lease;
    lease.dispose();
    // Limiters that users wrote may say anything.
    if (retryAfterMs !== undefined && !(typeof retryAfterMs === "number" && retryAfterMs >= 0)) {
      const allowed = "a number of milliseconds of at least 0";
      checkNumber("The retryAfterMs of a refused lease", retryAfterMs, allowed, (n) => n >= 0);
    }
    this.#refused(attempt, reasonOf(reason), retryAfterMs);
  }

  #queues(attempt: Attempt): void {
    attempt.isQueued = true;
    this.measures.limiterQueue.add(1, this.#loop.now());
  }

  #queuesNoMore(attempt: Attempt): void {
    attempt.isQueued = false;
    this.measures.limiterQueue.add(-1, this.#loop.now());
  }

  failed(attempt: Attempt, error: unknown): void {
    this.currentId = attempt.id;
    this.failure ??= { error };
  }

  #admit(attempt: Attempt, tally: Tally): void {
    const now = this.#loop.now();
    tally.waiting -= 1;
    tally.admitted += 1;
    tally.inService += 1;
    attempt.stage = IN_SERVICE;
    attempt.grantedAt = now;
    const measures = this.measures;
    measures.permitsInUse.add(attempt.permits, now);
    measures.entersService(now);
    if (attempt.isMeasured) measures.limiterWait.record(now - attempt.at);
    this.#server.enter(attempt);
  }

  #refused(attempt: Attempt, reason: SimulatedRejection, retryAfterMs: number | undefined): void {
    this.series.rejected += 1;
    this.measures.refused(attempt, reason, this.#loop.now());
    this.trace(attempt, "rejected", reason);
    this.#endAttempt(attempt, "rejected", retryAfterMs);
  }

  // In the server

  complete(attempt: Attempt): void {
    this.#server.complete(attempt);
  }

  busyChanges(busy: number): void {
    this.measures.busyServers.set(busy, this.#loop.now());
  }

  serversChange(servers: number): void {
    this.measures.servers.set(servers, this.#loop.now());
  }

  turnedAway(attempt: Attempt, reason: "server_queue" | "dequeue"): void {
    this.measures.of(attempt).refusedByServer += 1;
    this.#leaveService(attempt, "dropped");
    this.#refused(attempt, reason, undefined);
  }

  finished(attempt: Attempt): void {
    const { failRate } = this.#server;
    const hasFailed = failRate > 0 && this.#failureRandom.uniform() < failRate;
    const now = this.#loop.now();
    const inTime = hasFailed ? "error" : "delivered";
    const outcome = attempt.clientWaits ? inTime : "late";
    this.measures.finished(attempt, outcome, now);
    if (outcome === "delivered") this.series.delivered(now - attempt.at);
    else if (outcome === "late") this.series.late += 1;
    const inTimeVerdict = hasFailed ? "dropped" : "success";
    this.#leaveService(attempt, attempt.clientWaits ? inTimeVerdict : this.#settings.lateVerdict);
    this.trace(attempt, outcome, undefined);
    this.#endAttempt(attempt, outcome === "error" ? "error" : undefined, undefined);
  }

  #leaveService(attempt: Attempt, verdict: LeaseOutcome): void {
    this.currentId = attempt.id;
    const now = this.#loop.now();
    const measures = this.measures;
    measures.of(attempt).inService -= 1;
    measures.leavesService(attempt, now);
    measures.permitsInUse.add(-attempt.permits, now);
    const { lease } = attempt;
    if (lease === undefined) return;
    attempt.lease = undefined;
    this.gate.touched = true;
    lease.report(verdict);
    lease.dispose();
  }

  // What the client does

  #timedOut(attempt: Attempt): void {
    this.currentId = attempt.id;
    attempt.clientWaits = false;
    attempt.timedOutAt = this.#loop.now();
    if (attempt.stage === ASKING && this.#leavesQueue && this.gate.leave(attempt)) {
      const tally = this.measures.of(attempt);
      tally.waiting -= 1;
      tally.leftLimiter += 1;
      this.#queuesNoMore(attempt);
    } else if (attempt.stage === IN_SERVICE && this.#leavesServer) {
      this.#server.remove(attempt);
      this.measures.of(attempt).leftServer += 1;
      this.#leaveService(attempt, "ignored");
    } else {
      // Nobody else notices.
      this.#react(attempt, "timeout", undefined);
      return;
    }
    this.trace(attempt, "cancelled", undefined);
    this.#react(attempt, "timeout", undefined);
    this.#pool.give(attempt);
  }

  /** The attempt is over; its client, if there is still one, hears of it. */
  #endAttempt(attempt: Attempt, cause: RetryCause | undefined, retryAfterMs: number | undefined): void {
    if (attempt.clientWaits) {
      this.#deadlines.remove(attempt);
      this.#react(attempt, cause, retryAfterMs);
    }
    this.#pool.give(attempt);
  }

  /** The client has what it wanted, or tries again, or gives up. */
  #react(attempt: Attempt, cause: RetryCause | undefined, retryAfterMs: number | undefined): void {
    if (cause !== undefined) {
      const delay = this.#retries?.delay(cause, attempt.number, retryAfterMs, this.#arrivals);
      if (delay !== undefined) {
        this.#scheduleRetry(attempt, delay);
        return;
      }
      this.measures.of(attempt).gaveUp += 1;
    }
    this.feed.settled(attempt.arrival);
  }

  #scheduleRetry(attempt: Attempt, delayMs: number): void {
    const retry = this.#pool.take();
    retry.arrival = attempt.arrival;
    retry.id = attempt.id;
    retry.number = attempt.number + 1;
    retry.workMs = attempt.workMs;
    retry.permits = attempt.permits;
    retry.isMeasured = attempt.isMeasured;
    retry.tenant = attempt.tenant;
    retry.stage = BACKING_OFF;
    const now = this.#loop.now();
    if (now + delayMs === now) this.#loop.countReturnWithoutTime(this.#pool.inUse);
    this.#loop.at(now + delayMs, ARRIVAL, retry);
  }

  /** Tells whoever listens what became of an attempt. */
  trace(attempt: Attempt, outcome: AttemptOutcome, reason: SimulatedRejection | undefined): void {
    this.#settings.onAttempt?.(recordOf(attempt, outcome, reason, this.#loop.now()));
  }
}
