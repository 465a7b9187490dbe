import { type AcquireOptions, checkNotAborted, checkPriority } from "../contract/acquire-options.js";
import type { Clock } from "../contract/clock.js";
import { LimiterDisposedError } from "../contract/errors.js";
import type { AcquireSink, AcquireTicket, Inside, LimiterSnapshot } from "../contract/inside.js";
import { MetadataName } from "../contract/metadata-name.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import type { RateLimiterStatistics } from "../contract/rate-limiter-statistics.js";
import type { RejectionReason } from "../contract/rejection-reason.js";
import { checkDuration, checkPermitCount, countAboveLimit } from "../contract/validation.js";
import { waitFor } from "../time/grid.js";
import { Backlog, type BacklogOwner } from "./backlog.js";
import { deliver } from "./delivery.js";
import type { PermitAlgorithm } from "./permit-algorithm.js";
import type { QueueSettings } from "./queue-settings.js";
import { RefusedLease, type Refuser } from "./refused-lease.js";
import type { SignalWatch } from "./signal-watch.js";
import { PromiseWaiter, SinkWaiter, type Waiter } from "./waiter.js";

/*
 * Permits, and those who wait for them. Every limiter of this library has one of these, and no limiter has waiting code
 * of its own: order, room, eviction, abort, deadlines, pause and dispose are here and nowhere else.
 *
 * The split: an algorithm (PermitAlgorithm) raises and lowers `available`; the queue hands permits out. One class for all
 * limiters also keeps the hot path fast: `take` and `giveBack` see objects of one shape only, and ask a single question,
 * whether anything at all is unusual (`state`), before they count.
 *
 * Hand-over is synchronous. Whoever gives permits back serves the first waiter in the same call, so no newcomer can
 * slip in between, and what has been granted cannot be lost to a caller who is leaving. The head blocks those behind
 * it, so that a large request is not starved by small ones: with 2 of 10 permits free, a waiter for 5 makes the one
 * for 1 behind it wait. The surprise: aborting that waiter lets the other through at once, without any release. (.NET
 * serves it at the next release.)
 */

/** Nothing unusual: permits can be taken and given back by counting. */
const OPEN = 0;
const DISPOSED = 1;
const PAUSED = 2;
/** Somebody waits. */
const WAITING = 4;

export class PermitQueue<Limiter, Settings extends QueueSettings<Limiter> = QueueSettings<Limiter>>
  implements Inside, BacklogOwner, Refuser
{
  readonly limiter: Limiter;
  readonly settings: Settings;
  /** Permits that can be taken now. Below 0: a debt, from a lowered limit or a cost that turned out higher. */
  available: number;
  /**
   * Since when all permits have been there; NaN when nobody has looked since. While none is there: when the next one comes,
   * which is later than now, once somebody has been told so. (One field, since a limiter of many is to be small.)
   */
  fullSince: number;
  #state = OPEN;
  #succeeded = 0;
  #failed = 0;
  /** How many of those were refused for anything but that nothing was free; made with the first. */
  #refusedFor: Map<RejectionReason, number> | undefined = undefined;
  #backlog: Backlog | undefined = undefined;
  #refusal: RateLimitLease | undefined = undefined;

  constructor(limiter: Limiter, settings: Settings, available: number) {
    this.limiter = limiter;
    this.settings = settings;
    this.available = available;
    this.fullSince = settings.clock.now();
  }

  get algorithm(): PermitAlgorithm<Limiter> {
    return this.settings.algorithm;
  }

  get clock(): Clock {
    return this.settings.clock;
  }

  /** Brings the permits up to the present, which it returns; undefined where time changes nothing. */
  advance(): number | undefined {
    const { algorithm, clock } = this.settings;
    if (algorithm.advance === undefined) return undefined;
    const now = clock.now();
    algorithm.advance(this.limiter, now);
    return now;
  }

  /** Makes the lease for permits that have just been taken. */
  lend(permits: number): RateLimitLease {
    return this.settings.algorithm.lend(this.limiter, permits);
  }

  get usesPriority(): boolean {
    return this.settings.queueProcessingOrder === "highestPriorityFirst";
  }

  get metadataNames(): readonly string[] {
    return this.algorithm.metadataNames;
  }

  /**
   * Takes permits if that needs no thought: nobody waits, nothing is paused, and the count is an ordinary one. False
   * means that `attempt` or `acquire` has to look closer.
   */
  take(permits: number): boolean {
    // The type is checked too, since callers are not all TypeScript, and `"1" <= 2`.
    if (typeof permits !== "number" || this.#state !== OPEN) return false;
    if (permits > this.available || permits <= 0 || (permits | 0) !== permits) return false;
    this.available -= permits;
    this.#succeeded += 1;
    return true;
  }

  /** Puts permits back (or, with a negative number, takes them, into debt if need be) and serves who waits. */
  giveBack(permits: number): void {
    if (this.#state === OPEN) {
      this.available += permits;
    } else if ((this.#state & DISPOSED) === 0) {
      this.available += permits;
      this.drain();
    }
  }

  /** Serves who waits, when `available` has been changed from outside. Nobody is told yet; the caller sees to that. */
  offer(): void {
    if (this.#state !== OPEN && (this.#state & DISPOSED) === 0) this.#serve();
  }

  /** Who is served next. */
  get firstWaiter(): Waiter | undefined {
    return this.#backlog?.order.first;
  }

  /**
   * Answers an attempt for which `take` had nothing, where only a release brings permits. The refusal of one permit is kept,
   * since nothing in it differs from one to the next: shedding must not spend what it protects.
   */
  attemptHeld(permits: number): RateLimitLease {
    if (permits !== 1) return this.attempt(permits);
    if (this.#refusal !== undefined && this.available <= 0 && (this.#state & ~WAITING) === 0) {
      this.#failed += 1;
      return this.#refusal;
    }
    const lease = this.attempt(1);
    if (!lease.isAcquired && lease.reason === this.#noneFree) this.#refusal = lease;
    return lease;
  }

  /**
   * Answers an attempt of any count. The limiter has brought itself up to the present; `now` is that present, where the
   * limiter has read the clock for it.
   */
  attempt(permits: number, now?: number): RateLimitLease {
    checkPermitCount(permits);
    this.#checkRequest(permits);
    this.#endPause(now);
    const lease = this.#canGrant(permits, 0)
      ? this.#grant(permits)
      : this.#refuseFor(this.#noneFree, permits, 0, now);
    deliver();
    return lease;
  }

  /**
   * Refuses one permit as before, if none can be there yet: what the last refusal was told still holds. Undefined: look
   * closer. Shedding must not spend what it protects.
   */
  refuseAsBefore(permits: number, now: number): RateLimitLease | undefined {
    if (this.available > 0 || permits !== 1 || this.#state !== OPEN || !(now < this.fullSince))
      return undefined;
    this.#failed += 1;
    return new RefusedLease(this, "limit_reached", waitFor(this.fullSince, now));
  }

  /** Charges what a lease turned out to cost, or with a negative number gives back what it did not. */
  charge(permits: number, now: number): void {
    if (permits < 0) {
      this.fullSince = now;
      this.giveBack(-permits);
    } else if (permits > 0 && (this.#state & DISPOSED) === 0) {
      // Serves nobody, so nobody is told anything while the lease is half-way through its own change.
      this.available -= permits;
      this.fullSince = Number.NaN;
      if (this.#state !== OPEN) this.#setAlarm(this.#backlog as Backlog);
    }
  }

  /** Adds permits that have come with time, and serves who waits. If all are there then, they have been since `at`. */
  replenish(permits: number, at: number): void {
    if ((this.#state & DISPOSED) !== 0) return;
    this.available += permits;
    this.fullSince = this.available < this.settings.algorithm.permitLimit(this.limiter) ? Number.NaN : at;
    if (this.#state !== OPEN) this.drain();
  }

  /** Answers a request that may wait: a lease, or a promise when it does wait. `now` is as for `attempt`. */
  acquire(permits: number, options: AcquireOptions, now?: number): RateLimitLease | Promise<RateLimitLease> {
    const answer = this.#answer(permits, options, now);
    if (answer !== undefined) {
      deliver();
      return answer;
    }
    const waiter = new PromiseWaiter(permits, this.#priorityOf(options));
    this.#enqueue(waiter, options);
    return waiter.promise;
  }

  /** The same with a sink in place of a promise: a lease, or a ticket when the sink will be told. */
  acquireWith(permits: number, options: AcquireOptions, sink: AcquireSink): RateLimitLease | AcquireTicket {
    checkPermitCount(permits);
    const now = this.advance();
    const answer = this.#answer(permits, options, now);
    if (answer !== undefined) {
      deliver();
      return answer;
    }
    const waiter = new SinkWaiter(permits, this.#priorityOf(options), sink);
    this.#enqueue(waiter, options);
    return { cancel: () => this.#cancel(waiter) };
  }

  hasRoom(permits: number): boolean {
    return this.#fits(permits) || this.#canMakeRoom(permits, 0);
  }

  /** The answer to a request, where it is known at once; undefined when the request has to wait, and there is room. */
  #answer(permits: number, options: AcquireOptions, now: number | undefined): RateLimitLease | undefined {
    // Whoever was served while the limiter brought itself up to the present may have aborted it.
    checkNotAborted(options.signal);
    const { maxWaitMs } = options;
    const priority = this.#priorityOf(options);
    this.#checkRequest(permits);
    if (maxWaitMs !== undefined && maxWaitMs < 0) return this.#refuse("deadline_expired");
    this.#endPause(now);
    if (this.#canGrant(permits, priority)) return this.#grant(permits);
    if (maxWaitMs === 0) return this.#refuseFor(this.#noneFree, permits, priority, now);
    if (maxWaitMs !== undefined) {
      const expectedMs = this.#expectedWaitMs(permits, priority, now ?? this.clock.now());
      if (expectedMs !== undefined && expectedMs > maxWaitMs)
        return this.#refuse("deadline_unmet", expectedMs);
    }
    if (this.#makeRoom(permits, priority)) return undefined;
    const reason = this.settings.queueLimit === 0 ? this.#noneFree : "queue_full";
    return this.#refuseFor(reason, permits, priority, now, true);
  }

  /** Grants nothing for a while. An earlier pause that lasts longer stays. */
  pause(durationMs: number): void {
    checkDuration("durationMs", durationMs);
    this.hold(durationMs);
    deliver();
  }

  /** The same; nobody is told yet of what comes of it. */
  hold(durationMs: number): void {
    if ((this.#state & DISPOSED) !== 0) return;
    const now = this.settings.clock.now();
    this.#endPause(now);
    this.#backlog ??= new Backlog(this);
    const until = now + durationMs;
    if ((this.#state & PAUSED) === 0 || until > this.#backlog.pausedUntil) this.#backlog.pausedUntil = until;
    this.#state |= PAUSED;
    this.#setAlarm(this.#backlog);
  }

  /** Ends a pause that is over, and serves who can go then. */
  refresh(now?: number): void {
    this.#endPause(now);
    deliver();
  }

  #endPause(now: number | undefined): void {
    if (!this.resume(now)) return;
    const { algorithm } = this;
    if (algorithm.serveAfterPause === undefined) this.#serve();
    else algorithm.serveAfterPause(this.limiter);
  }

  /** Whether there was a pause, and it is over now. */
  resume(now: number | undefined): boolean {
    if ((this.#state & PAUSED) === 0) return false;
    const backlog = this.#backlog as Backlog;
    backlog.pauseLeftMs = waitFor(backlog.pausedUntil, now ?? this.settings.clock.now());
    if (backlog.pauseLeftMs > 0) return false;
    this.#state &= ~PAUSED;
    return true;
  }

  /** Serves who can go now, and tells them. */
  drain(): void {
    this.#serve();
    deliver();
  }

  /** Serves waiters in order, until one does not fit. Nobody is told yet: a caller may be half-way through its own request. */
  #serve(): void {
    const backlog = this.#backlog;
    if (backlog === undefined || backlog.isDraining) return;
    // With nothing free there is nobody to serve. Once one waiter is served, those for 0 permits right behind it go
    // along, although it may have taken the last permit: "at least one was free" has been true for them.
    if (this.#hasAnything(backlog) && (this.#state & (DISPOSED | PAUSED)) === 0) {
      backlog.isDraining = true;
      const { availableAt } = this.algorithm;
      const { codel } = backlog;
      const now = codel === undefined ? 0 : this.clock.now();
      let served = 0;
      for (let waiter = backlog.order.first; waiter !== undefined; waiter = backlog.order.first) {
        // Its caller has left, although the signal has not got round to telling us.
        if (waiter.watch?.signal.aborted === true) {
          this.#abandon(backlog, waiter.watch);
          continue;
        }
        if (waiter.permits > this.available && !this.#mayOverdraw(waiter.permits, true)) break;
        const waitedMs = codel === undefined ? 0 : now - backlog.waitingSince(waiter, now);
        this.#leave(backlog, waiter);
        if (codel?.shouldShed(waitedMs, now, this.#servedInstead(backlog)) === true) {
          waiter.settle(this.#refuse("codel"));
          continue;
        }
        served += waiter.permits;
        waiter.settle(this.#grant(waiter.permits));
      }
      backlog.isDraining = false;
      // Where time does not tell when permits come, the pace at which they came does.
      if (served > 0 && availableAt === undefined) backlog.noteServed(served, this.clock.now());
    }
    this.#setAlarm(backlog);
  }

  /** Whether anybody who waits can get anything. */
  #hasAnything({ order }: Backlog): boolean {
    if (this.available > 0) return true;
    return order.first !== undefined && this.#mayOverdraw(order.first.permits, true);
  }

  /**
   * How many wait who would be served in place of somebody who is shed: none if all of them can be served anyway, or if the
   * first of them wants more than is there.
   */
  #servedInstead({ order }: Backlog): number {
    const { first } = order;
    const isServed = first !== undefined && first.permits <= this.available;
    return isServed && order.permits >= this.available ? order.count : 0;
  }

  /** The limit has changed: permits come or go, whoever waits for more than it is refused at once, and others are served. */
  changeLimit(limit: number, more: number): void {
    if ((this.#state & DISPOSED) !== 0) return;
    this.available += more;
    const backlog = this.#backlog;
    if (backlog === undefined) return;
    for (const waiter of backlog.order.toArray()) {
      if (waiter.permits <= limit) continue;
      this.#leave(backlog, waiter);
      waiter.settle(this.#refuse("limit_reached"));
    }
    this.drain();
  }

  /** The alarm's time has come: a pause ends, permits arrive, or somebody has waited long enough. */
  wake(): void {
    const backlog = this.#backlog;
    if (backlog === undefined) return;
    this.advance();
    const now = this.settings.clock.now();
    this.#endPause(now);
    this.#serve();
    let waiter = backlog.nextToExpire;
    while (waiter !== undefined && waiter.deadline <= now) {
      this.#leave(backlog, waiter);
      waiter.settle(this.#refuse("queue_timeout"));
      waiter = backlog.nextToExpire;
    }
    this.drain();
  }

  /** A signal was aborted: its waiters leave, and those whom they blocked go. */
  abort(watch: SignalWatch): void {
    this.advance();
    this.#abandon(this.#backlog as Backlog, watch);
    this.drain();
  }

  dispose(): void {
    this.close();
    deliver();
  }

  /** Refuses those who wait, and all who come; nobody is told yet. */
  close(): void {
    const backlog = this.#backlog;
    this.#state = DISPOSED;
    if (backlog === undefined) return;
    backlog.alarm.clear();
    for (let waiter = backlog.order.first; waiter !== undefined; waiter = backlog.order.first) {
      this.#leave(backlog, waiter);
      backlog.refusedByDispose += 1;
      waiter.settle(new RefusedLease(this, "limiter_disposed"));
    }
  }

  getStatistics(): RateLimiterStatistics {
    this.#checkUsable();
    this.refresh();
    return Object.freeze({
      currentAvailablePermits: Math.max(0, this.available),
      currentQueuedCount: this.#queuedPermits,
      totalFailedLeases: this.#failed,
      totalSuccessfulLeases: this.#succeeded,
    });
  }

  /** How long everything has been there and nobody has wanted anything; undefined while that is not so. */
  idleDurationMs(now: number = this.clock.now()): number | undefined {
    this.refresh(now);
    if (this.#state !== OPEN && this.#state !== DISPOSED) return undefined;
    const { algorithm, limiter } = this;
    const isIdle = algorithm.isIdle?.(limiter) ?? this.available >= algorithm.permitLimit(limiter);
    if (!isIdle) return undefined;
    if (Number.isNaN(this.fullSince)) this.fullSince = now;
    return Math.max(0, now - this.fullSince);
  }

  /** How long a request would wait, if nobody left the queue and nobody took permits out of turn; undefined when unknown. */
  estimateWaitMs(permits: number, now: number = this.clock.now()): number | undefined {
    checkPermitCount(permits);
    this.#checkRequest(permits);
    this.refresh(now);
    return this.#canGrant(permits, 0) ? 0 : this.#expectedWaitMs(permits, 0, now);
  }

  snapshot(into: LimiterSnapshot): boolean {
    if ((this.#state & DISPOSED) === 0) this.refresh(this.advance());
    const backlog = this.#backlog;
    into.kind = this.algorithm.limiterName;
    into.permitLimit = this.algorithm.permitLimit(this.limiter);
    into.available = this.available;
    into.queueLimit = this.settings.queueLimit;
    into.queuedPermits = backlog === undefined ? 0 : backlog.order.permits;
    into.queuedRequests = backlog === undefined ? 0 : backlog.order.count;
    into.granted = this.#succeeded;
    into.refused = this.#failed + (backlog === undefined ? 0 : backlog.refusedByDispose);
    into.aborted = backlog === undefined ? 0 : backlog.aborted;
    into.isPaused = (this.#state & PAUSED) !== 0;
    into.isDisposed = (this.#state & DISPOSED) !== 0;
    return true;
  }

  forEachRefusal(visit: (reason: RejectionReason, count: number) => void): void {
    let rest = this.#failed;
    for (const [reason, count] of this.#refusedFor ?? []) {
      visit(reason, count);
      rest -= count;
    }
    if (rest > 0) visit(this.#noneFree, rest);
    const byDispose = this.#backlog?.refusedByDispose ?? 0;
    if (byDispose > 0) visit("limiter_disposed", byDispose);
  }

  queuedByPriority(): Map<number, number> {
    const permits = new Map<number, number>();
    if (this.#backlog === undefined) return permits;
    for (const waiter of this.#backlog.order.toArray()) {
      permits.set(waiter.priority, (permits.get(waiter.priority) ?? 0) + waiter.permits);
    }
    return permits;
  }

  /** Metadata that say how the limiter stands now. */
  standing(name: string): unknown {
    const limit = this.algorithm.permitLimit(this.limiter);
    if (name === MetadataName.limit.name) return limit;
    if (name !== MetadataName.remaining.name && name !== MetadataName.resetAfter.name) return undefined;
    this.advance();
    if (name === MetadataName.remaining.name) return Math.max(0, this.available);
    const fullAt = this.algorithm.availableAt?.(this.limiter, limit);
    if (fullAt === undefined) return undefined;
    return this.available >= limit ? 0 : waitFor(fullAt, this.clock.now());
  }

  get #noneFree(): RejectionReason {
    return this.algorithm.refusalReason ?? "limit_reached";
  }

  #mayOverdraw(permits: number, isWaiting: boolean): boolean {
    return this.algorithm.mayOverdraw?.(this.limiter, permits, isWaiting) === true;
  }

  get #queuedPermits(): number {
    return this.#backlog === undefined ? 0 : this.#backlog.order.permits;
  }

  #checkUsable(): void {
    if ((this.#state & DISPOSED) !== 0) throw new LimiterDisposedError(this.algorithm.limiterName);
  }

  #checkRequest(permits: number): void {
    const { algorithm, limiter } = this;
    const limit = algorithm.mostPermits?.(limiter) ?? algorithm.permitLimit(limiter);
    if (permits > limit) throw countAboveLimit(permits, limit);
    this.#checkUsable();
  }

  /** Checked only where it is used: elsewhere a priority means nothing. */
  #priorityOf(options: AcquireOptions): number {
    if (!this.usesPriority) return 0;
    const { priority = 0 } = options;
    checkPriority(priority);
    return priority;
  }

  #canGrant(permits: number, priority: number): boolean {
    if ((this.#state & PAUSED) !== 0) return false;
    if (permits === 0) return this.available > 0;
    return (
      (permits <= this.available || this.#mayOverdraw(permits, false)) &&
      (this.#backlog === undefined || this.#backlog.order.goesFirst(priority))
    );
  }

  #permitsAhead(priority: number): number {
    return this.#backlog === undefined ? 0 : this.#backlog.order.permitsAhead(priority);
  }

  #expectedWaitMs(permits: number, priority: number, now: number): number | undefined {
    const wanted = Math.max(1, permits) + this.#permitsAhead(priority);
    const pauseMs = (this.#state & PAUSED) === 0 ? 0 : (this.#backlog as Backlog).pauseLeftMs;
    if (wanted <= this.available) return pauseMs;
    const availableAt = this.algorithm.availableAt?.(this.limiter, wanted);
    const waitMs =
      availableAt === undefined ? this.#backlog?.msToServe(wanted, now) : waitFor(availableAt, now);
    if (waitMs === undefined) return pauseMs > 0 ? pauseMs : undefined;
    return Math.max(pauseMs, waitMs);
  }

  #grant(permits: number): RateLimitLease {
    this.available -= permits;
    this.#succeeded += 1;
    return this.lend(permits);
  }

  /** A refusal that says when to come back, where somebody can tell. */
  #refuseFor(
    reason: RejectionReason,
    permits: number,
    priority: number,
    now: number | undefined,
    foundNoRoom = false,
  ): RateLimitLease {
    if ((this.#state & PAUSED) !== 0) {
      this.#countRefusal("server_pause");
      return new RefusedLease(this, "server_pause", (this.#backlog as Backlog).pauseLeftMs, foundNoRoom);
    }
    this.#countRefusal(reason);
    if (now !== undefined) {
      const { algorithm } = this;
      const ahead = algorithm.retryCountsQueue === true ? this.#permitsAhead(priority) : 0;
      const at = algorithm.availableAt?.(this.limiter, Math.max(1, permits) + ahead) ?? now;
      // The moments of a manual limiter move with its calls of tryReplenish.
      const isNext = permits === 1 && this.#state === OPEN && this.available <= 0 && this.settings.isAuto;
      if (isNext) this.fullSince = at;
      return new RefusedLease(this, reason, waitFor(at, now), foundNoRoom);
    }
    return new RefusedLease(this, reason, undefined, foundNoRoom);
  }

  #countRefusal(reason: RejectionReason): void {
    this.#failed += 1;
    if (reason === this.#noneFree) return;
    this.#refusedFor ??= new Map();
    this.#refusedFor.set(reason, (this.#refusedFor.get(reason) ?? 0) + 1);
  }

  #refuse(reason: RejectionReason, retryAfterMs?: number): RateLimitLease {
    this.#countRefusal(reason);
    return new RefusedLease(this, reason, retryAfterMs);
  }

  /** Whether there is room for so many permits, without anybody leaving. */
  #fits(permits: number): boolean {
    return permits <= this.settings.queueLimit - this.#queuedPermits;
  }

  /** Whether there would be room if those left who have to yield to the newcomer. */
  #canMakeRoom(permits: number, priority: number): boolean {
    const { queueLimit } = this.settings;
    const order = this.#backlog?.order;
    if (order?.nextToYield(priority) === undefined || permits > queueLimit) return false;
    return order.permits - order.permitsThatYield(priority) + permits <= queueLimit;
  }

  /** Makes others leave so that the newcomer fits, if they have to yield to it; false when it does not fit. */
  #makeRoom(permits: number, priority: number): boolean {
    if (this.#fits(permits)) return true;
    if (!this.#canMakeRoom(permits, priority)) return false;
    const backlog = this.#backlog as Backlog;
    while (!this.#fits(permits)) {
      const loser = backlog.order.nextToYield(priority) as Waiter;
      this.#leave(backlog, loser);
      loser.settle(this.#refuse("queue_evicted"));
    }
    return true;
  }

  #enqueue(waiter: Waiter, { signal, maxWaitMs = Number.POSITIVE_INFINITY }: AcquireOptions): void {
    this.#backlog ??= new Backlog(this);
    const backlog = this.#backlog;
    if (this.algorithm.availableAt === undefined) {
      // Only a release brings permits: how long that takes is learned, and with CoDel watched, from those who wait.
      const { codel } = backlog;
      const isFirst = backlog.order.isEmpty;
      if (isFirst || codel !== undefined) {
        const now = this.clock.now();
        if (isFirst) backlog.noteFirst(now);
        if (isFirst) codel?.noteEmpty(now);
        backlog.noteWaiting(waiter, now);
      }
    }
    backlog.add(waiter, signal, Math.min(maxWaitMs, this.settings.queueTimeoutMs));
    this.#state |= WAITING;
    if (backlog.order.first === waiter && this.#mayOverdraw(waiter.permits, true)) this.#serve();
    else if (backlog.order.first === waiter || backlog.nextToExpire === waiter) this.#setAlarm(backlog);
    deliver();
  }

  #cancel(waiter: SinkWaiter): boolean {
    const backlog = this.#backlog;
    if (!waiter.isWaiting || backlog === undefined) return false;
    waiter.isWaiting = false;
    backlog.aborted += 1;
    this.#leave(backlog, waiter);
    this.advance();
    this.drain();
    return true;
  }

  #leave(backlog: Backlog, waiter: Waiter): void {
    backlog.remove(waiter);
    if (backlog.order.isEmpty) this.#state &= ~WAITING;
  }

  #abandon(backlog: Backlog, watch: SignalWatch): void {
    const leaving: Waiter[] = [];
    for (let waiter = watch.first; waiter !== undefined; waiter = watch.first) {
      this.#leave(backlog, waiter);
      leaving.push(waiter);
    }
    backlog.aborted += leaving.length;
    for (const waiter of leaving) waiter.abort(watch.signal.reason);
  }

  /** Sets the alarm for the next thing that time alone brings; none while nobody waits. */
  #setAlarm(backlog: Backlog): void {
    const { nextToExpire } = backlog;
    const { first } = backlog.order;
    if (first === undefined) {
      backlog.alarm.clear();
      return;
    }
    let dueAt = Number.POSITIVE_INFINITY;
    if ((this.#state & PAUSED) !== 0) dueAt = backlog.pausedUntil;
    else if (this.settings.isAuto) {
      dueAt = this.algorithm.availableAt?.(this.limiter, Math.max(1, first.permits)) ?? dueAt;
    }
    if (nextToExpire !== undefined) dueAt = Math.min(dueAt, nextToExpire.deadline);
    if (dueAt === Number.POSITIVE_INFINITY) backlog.alarm.clear();
    else backlog.alarm.set(dueAt);
  }
}
