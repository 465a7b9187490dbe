/// <reference lib="esnext.disposable" preserve="true" />
import {
  type AcquireOptions,
  type LeaseOutcome,
  LimiterDisposedError,
  type RateLimitLease,
  type RejectionReason,
} from "headgate";
import { type AcquireSink, type AcquireTicket, isLease, wrongType } from "../../src/internal.js";
import type { AdmissionGate } from "./admission-gate.js";
import type { RequestView } from "./admission-request.js";
import { boundedKey } from "./bounded-key.js";
import { CLIENT_UNKNOWN, isPromise } from "./client-identity.js";
import type { PolicyGate } from "./policy.js";
import type { Standing } from "./rate-limit-fields.js";
import { composeRefusal, describeRefusal, fieldsOf } from "./refusing.js";
import type { Refusal, RefusalTemplate, Rejection } from "./rejection.js";
import { type KnownPassage, latestPassage } from "./request-passages.js";

/**
 * What an admitted request holds until its response has ended.
 *
 * @public
 */
export interface AdmissionLease extends Disposable {
  /** `released` once the permits have gone back. */
  readonly state: "held" | "released";
  /**
   * Gives the permits back. Only the first call does anything.
   *
   * @param outcome - How the request went, for adaptive limiters and the statistics; `success` by default.
   */
  release(outcome?: LeaseOutcome): void;
  /**
   * Keeps the permits until this work has settled too, for work that goes on when the response has ended or the client has
   * left.
   */
  holdUntil(work: PromiseLike<unknown>): void;
}

/** Where a request is on its way; `exempt` is one that no policy is asked about. */
type PassageState = "asking" | "held" | "released" | "refused" | "failed" | "gone" | "exempt";

const NO_OPTIONS: AcquireOptions = Object.freeze({});

/*
 * One request: its way through the policies, and what it holds afterwards.
 *
 * Policies are asked in their order, and the next one not before the one before it has agreed. When one refuses, or the
 * client leaves, what the earlier ones gave goes back at once, the last first (a window that has moved on keeps its
 * charge). So narrow policies come first: a request that waits for its own client's limit holds nothing that others
 * need.
 *
 * While nobody has to wait, all of this happens in one turn, without a promise or a timer. One object is the request's
 * place in line, its sink and its lease.
 *
 * The surprise: "the client has left" and "permits are granted" cannot meet half-way. A grant goes on in the very turn in
 * which it is made, so whoever comes first wins; a grant that finds the client gone is given back.
 */
export class Passage<Raw> implements AdmissionLease, AcquireSink, KnownPassage {
  readonly #gate: AdmissionGate<Raw>;
  readonly view: RequestView<Raw>;
  readonly earlier: KnownPassage | undefined;
  readonly #isDescribed: boolean;
  #state: PassageState = "asking";
  refusal: Refusal | undefined;
  rejection: Rejection | undefined;
  /** What a function of the user has thrown. */
  error: unknown;
  #next = 0;
  readonly #leases: RateLimitLease[] = [];
  #standings: Standing[] | undefined;
  #policy: PolicyGate<Raw> | undefined;
  #key = "";
  #ticket: AcquireTicket | undefined;
  #controller: AbortController | undefined;
  #told = 0;
  #waitsSince = Number.NaN;
  #waitedMs = 0;
  /** When its deadline ends the wait; infinite when something else does so earlier. */
  #givesUpAt = Number.POSITIVE_INFINITY;
  #deadlineAt = Number.POSITIVE_INFINITY;
  #priority: string | undefined;
  #client: string | undefined | typeof CLIENT_UNKNOWN | Promise<string | undefined>;
  #clientError: { readonly error: unknown } | undefined;
  #whenSettled: (() => void) | undefined;
  #outcome: LeaseOutcome | undefined;
  #works = 0;
  #holdTimer: { cancel(): void } | undefined;
  /** Whether it has given back what it held; after `maxHoldMs` that is before it ends. */
  #isFree = false;

  constructor(gate: AdmissionGate<Raw>, view: RequestView<Raw>, isDescribed: boolean) {
    this.#gate = gate;
    this.view = view;
    this.#isDescribed = isDescribed;
    const latest = latestPassage(view.identity);
    this.earlier = latest?.isOf(gate) === true ? latest.earlier : latest;
  }

  isOf(gate: object): boolean {
    return this.#gate === gate;
  }

  get progress(): PassageState {
    return this.#state;
  }

  get state(): "held" | "released" {
    return this.#state === "held" && !this.#isFree ? "held" : "released";
  }

  /** Whether the answer is still to come. */
  get isPending(): boolean {
    return this.#state === "asking";
  }

  /** Has somebody told when the answer comes, in that very turn. Only for a pending one. */
  whenSettled(callback: () => void): void {
    this.#whenSettled = callback;
  }

  /** Lets it go on without asking anybody. */
  exempt(): this {
    this.#state = "exempt";
    return this;
  }

  /** Goes as far as it can without waiting. */
  start(): this {
    const gate = this.#gate;
    const { view } = this;
    if (view.policies === false || gate.skips(view)) {
      this.exempt();
    } else if (view.isGone) {
      this.leave();
    } else if (gate.isDraining) {
      this.#refuseForAll("draining");
    } else if (gate.pressure?.isHigh === true) {
      this.#refuseForAll("pressure", 10);
    } else {
      this.#begin();
    }
    return this;
  }

  /** The client has left, or whoever stands for it does not want the answer any more. */
  leave(): void {
    if (this.#state !== "asking") {
      this.#end("ignored", true);
      return;
    }
    this.#state = "gone";
    this.#stopWaiting();
    this.#ticket?.cancel();
    this.#ticket = undefined;
    this.#controller?.abort();
    this.#giveBack();
    this.#gate.countGone(this.view);
    this.#settle();
  }

  settled(lease: RateLimitLease): void {
    this.#told += 1;
    this.#ticket = undefined;
    this.#stopWaiting();
    if (this.#state !== "asking") {
      lease.refund();
      return;
    }
    if (this.view.isGone) {
      // The client's other requests have been told first, and have given back what this one gets.
      lease.refund();
      this.leave();
      return;
    }
    if (this.#take(this.#policy as PolicyGate<Raw>, lease)) this.#proceed();
  }

  failed(error: unknown): void {
    this.#told += 1;
    this.#ticket = undefined;
    this.#stopWaiting();
    if (this.#state !== "asking") return;
    if (this.#limiterFailed(error)) this.#proceed();
  }

  release(outcome: LeaseOutcome = "success"): void {
    this.#end(outcome, false);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  holdUntil(work: PromiseLike<unknown>): void {
    if (this.#state !== "held") return;
    this.#works += 1;
    const done = () => {
      this.#works -= 1;
      if (this.#works === 0 && this.#outcome !== undefined) this.#letGo();
    };
    // It may be no promise at all, or one whose `then` throws.
    Promise.resolve(work).then(done, done);
  }

  /** Holds on until what a handler returned has settled, where that is wanted and it is a promise; true when it does. */
  noteWork(work: unknown): work is PromiseLike<unknown> {
    if (!this.#gate.holdsHandler || !isPromise(work)) return false;
    this.holdUntil(work);
    return true;
  }

  /** The fields that tell of the limits, for an admitted request's response. */
  fieldsFor(status: number, existing: (name: string) => string | undefined): [string, string][] {
    return this.#standings === undefined ? [] : fieldsOf(this.#gate, this.#standings, status, existing);
  }

  /** Whether there is anything to tell of limits. */
  get hasFields(): boolean {
    return this.#standings !== undefined;
  }

  #begin(): void {
    const gate = this.#gate;
    try {
      const remainingMs = gate.deadline?.(this.view);
      if (remainingMs !== undefined && Number.isFinite(remainingMs)) {
        if (remainingMs <= gate.minRemainingMs) {
          this.#refuseForAll("deadline_expired");
          return;
        }
        this.#deadlineAt = gate.clock.now() + remainingMs;
      }
      this.#priority = gate.priorityOf(this.view);
    } catch (error) {
      this.#fail(error);
      return;
    }
    if (gate.identity !== undefined) this.#identify(gate.identity);
    this.#proceed();
  }

  /** Finds out who the client is, now: the address may be gone from the socket later. */
  #identify(identity: NonNullable<AdmissionGate<Raw>["identity"]>): void {
    try {
      this.#client = identity.keyOf(this.view);
      // Whoever needs it will see the error; nobody may need it.
      if (isPromise(this.#client)) this.#client.catch(() => {});
    } catch (error) {
      this.#clientError = { error };
    }
  }

  /** Asks one policy after another, until one has to be waited for, or all have agreed. */
  #proceed(): void {
    const { policies } = this.#gate;
    while (this.#next < policies.length) {
      const policy = policies[this.#next] as PolicyGate<Raw>;
      this.#policy = policy;
      let key: string | undefined | typeof CLIENT_UNKNOWN | Promise<string | undefined>;
      try {
        key = this.#applies(policy) ? this.#keyFor(policy) : undefined;
      } catch (error) {
        if (!this.#keyFailed(error)) return;
        continue;
      }
      if (isPromise(key)) {
        this.#proceedWith(key);
        return;
      }
      if (!this.#ask(policy, key)) return;
    }
    this.#admit();
  }

  /** Goes on when the key of the policy is known. */
  #proceedWith(promise: Promise<string | undefined>): void {
    this.#startWaiting();
    promise.then(
      (key) => {
        this.#stopWaiting();
        if (this.#state === "asking" && this.#ask(this.#policy as PolicyGate<Raw>, key)) this.#proceed();
      },
      (error: unknown) => {
        this.#stopWaiting();
        if (this.#state === "asking" && this.#keyFailed(error)) this.#proceed();
      },
    );
  }

  #applies(policy: PolicyGate<Raw>): boolean {
    const { policies } = this.view;
    // False is seen to at the start.
    if (
      policies !== undefined &&
      policies !== false &&
      policy.scope !== "global" &&
      !policies.includes(policy.name)
    ) {
      return false;
    }
    return policy.when === undefined || policy.when(this.view) === true;
  }

  #keyFor({
    scope,
  }: PolicyGate<Raw>): string | undefined | typeof CLIENT_UNKNOWN | Promise<string | undefined> {
    if (scope === "global") return "global";
    if (scope === "route") return `${this.view.method} ${this.view.route ?? this.view.path}`;
    if (scope === "client") {
      if (this.#clientError !== undefined) throw this.#clientError.error;
      return this.#client;
    }
    const key = scope(this.view);
    return isPromise(key) ? Promise.resolve(key).then(checkedKey) : checkedKey(key);
  }

  /** Asks a policy; true when the next one is to be asked at once. */
  #ask(policy: PolicyGate<Raw>, key: string | undefined | typeof CLIENT_UNKNOWN): boolean {
    if (key === undefined) {
      this.#next += 1;
      return true;
    }
    if (key === CLIENT_UNKNOWN) {
      this.#key = "unknown";
      this.#refuse(policy, policy.refusalFor("client_unknown"), "client_unknown");
      return false;
    }
    this.#key = key.length > 256 ? boundedKey(key) : key;
    let permits: number;
    try {
      permits =
        typeof policy.permits === "number" ? policy.permits : checkedPermits(policy.permits(this.view));
    } catch (error) {
      return this.#keyFailed(error);
    }
    const share = this.#shareIn(policy);
    try {
      if (share < 1 && policy.isFilled(this.#key, share)) {
        if (policy.isShadow) return this.#passShadow(policy);
        this.#refuse(policy, policy.refusalFor("priority_shed"), "priority_shed");
        return false;
      }
      const told = this.#told;
      const answer = policy.ask(this.#key, permits, this.#optionsFor(policy, share), this);
      if (isLease(answer)) return this.#take(policy, answer);
      if (told === this.#told) {
        this.#ticket = answer;
        this.#startWaiting();
      }
      return false;
    } catch (error) {
      return this.#limiterFailed(error);
    }
  }

  /** How much of a policy's limit the request's priority may fill. */
  #shareIn(policy: PolicyGate<Raw>): number {
    return policy.shares?.get(this.#priority ?? "") ?? 1;
  }

  #optionsFor(policy: PolicyGate<Raw>, share: number): AcquireOptions {
    const { maxWaitMs } = policy;
    const hasDeadline = this.#deadlineAt !== Number.POSITIVE_INFINITY;
    this.#givesUpAt = Number.POSITIVE_INFINITY;
    if (maxWaitMs === undefined && !hasDeadline && this.#priority === undefined && !policy.needsSignal) {
      return NO_OPTIONS;
    }
    let wait = share < 1 ? 0 : maxWaitMs;
    if (hasDeadline) {
      const now = this.#gate.clock.now();
      const left = this.#deadlineAt - now - this.#gate.minRemainingMs;
      if (wait === undefined || left < wait) {
        this.#givesUpAt = now + left;
        wait = left <= 0 ? -1 : left;
      }
    }
    if (policy.needsSignal) this.#controller = new AbortController();
    return {
      priority: this.#gate.rankOf(this.#priority),
      maxWaitMs: wait,
      signal: policy.needsSignal ? this.#controller?.signal : undefined,
    };
  }

  /** Deals with a policy's answer; true when it has agreed. */
  #take(policy: PolicyGate<Raw>, lease: RateLimitLease): boolean {
    if (!lease.isAcquired) {
      if (policy.isShadow) return this.#passShadow(policy);
      const reason = this.#reasonOf(policy, lease);
      this.#refuse(policy, policy.refusalFor(reason), reason, lease);
      return false;
    }
    this.#next += 1;
    this.#leases.push(lease);
    if (policy.fields !== undefined) this.#note(policy.fields.standing(lease));
    return true;
  }

  /** Goes on although a shadow would have refused, and has that counted. */
  #passShadow(policy: PolicyGate<Raw>): true {
    policy.noteShadow();
    this.#next += 1;
    return true;
  }

  #note(standing: Standing | undefined): void {
    if (standing === undefined) return;
    if (this.#standings === undefined) this.#standings = [standing];
    else this.#standings.push(standing);
  }

  #reasonOf(policy: PolicyGate<Raw>, lease: RateLimitLease): RejectionReason {
    const reason = lease.reason ?? "limit_reached";
    // The limiter may have a time-out of its own.
    if (reason === "queue_timeout" && this.#gate.clock.now() >= this.#givesUpAt) return "deadline_expired";
    if (reason !== "limit_reached") return reason;
    if (this.#shareIn(policy) < 1) return "priority_shed";
    return policy.isRate ? reason : "queue_full";
  }

  #admit(): void {
    const gate = this.#gate;
    this.#state = "held";
    gate.countAdmitted(this.view, this.#waitedMs);
    if (gate.maxHoldMs !== undefined) {
      this.#holdTimer = gate.clock.setTimer(() => this.#expire(), Math.max(1, gate.maxHoldMs), false);
    }
    this.#settle();
  }

  #expire(): void {
    this.#holdTimer = undefined;
    if (this.#state !== "held") return;
    this.#gate.countHoldExpired(this.view);
    this.#letGo();
  }

  /** Refuses without asking any policy. */
  #refuseForAll(reason: RejectionReason, fallbackSeconds?: number): void {
    this.#refuse(undefined, this.#gate.refusal, reason, undefined, fallbackSeconds);
  }

  #refuse(
    policy: PolicyGate<Raw> | undefined,
    template: RefusalTemplate,
    reason: RejectionReason,
    lease?: RateLimitLease,
    fallbackSeconds?: number,
  ): void {
    const gate = this.#gate;
    this.#giveBack();
    this.#state = "refused";
    const grounds = { gate, view: this.view, policy, template, reason, lease, key: this.#key };
    if (this.#isDescribed || template.custom !== undefined) {
      this.rejection = describeRefusal(grounds, this.#priority, this.#waitedMs);
    }
    gate.countShed(this.rejection, policy?.name, reason, this.#priority);
    this.refusal = composeRefusal(grounds, this.#standings, fallbackSeconds, this.rejection);
    this.#settle();
  }

  /** A function that names keys or counts permits has failed; true when the policy is passed over. */
  #keyFailed(error: unknown): boolean {
    this.#gate.noteError(error, this.view);
    if (this.#gate.isOpenOnError) {
      this.#next += 1;
      return true;
    }
    this.#fail(error);
    return false;
  }

  /** A limiter has failed; true when the policy is passed over. */
  #limiterFailed(error: unknown): boolean {
    const policy = this.#policy as PolicyGate<Raw>;
    if (error instanceof RangeError && typeof policy.permits === "function") {
      // The request itself is too big, and will be whenever it comes back; nothing is broken that could be passed over.
      this.#gate.noteError(error, this.view);
      if (policy.isShadow) return this.#passShadow(policy);
      this.#refuse(policy, policy.refusalFor("limit_reached"), "limit_reached", undefined, 0);
      return false;
    }
    this.#gate.countLimiterError(error, this.view);
    if (this.#gate.isOpenOnError || policy.isShadow) {
      this.#next += 1;
      return true;
    }
    const reason = error instanceof LimiterDisposedError ? "limiter_disposed" : "store_unavailable";
    this.#refuse(policy, policy.refusalFor(reason), reason);
    return false;
  }

  #fail(error: unknown): void {
    this.#giveBack();
    this.#state = "failed";
    this.error = error;
    this.#settle();
  }

  #settle(): void {
    const callback = this.#whenSettled;
    this.#whenSettled = undefined;
    callback?.();
    this.#gate.noteQuiet();
  }

  #startWaiting(): void {
    this.#waitsSince = this.#gate.clock.now();
    this.#gate.queued += 1;
  }

  #stopWaiting(): void {
    if (Number.isNaN(this.#waitsSince)) return;
    this.#waitedMs += this.#gate.clock.now() - this.#waitsSince;
    this.#waitsSince = Number.NaN;
    this.#gate.queued -= 1;
  }

  /** Undoes what has been granted, the last first. */
  #giveBack(): void {
    for (let lease = this.#leases.pop(); lease !== undefined; lease = this.#leases.pop()) {
      const one = lease;
      this.#attempt(() => one.report("ignored"));
      this.#attempt(() => one.refund());
    }
  }

  /** Does something to a lease, which may be other people's code: what it throws must stop nothing. */
  #attempt(action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#gate.noteError(error, this.view);
    }
  }

  #end(outcome: LeaseOutcome, isAborted: boolean): void {
    if (this.#state !== "held" || this.#outcome !== undefined) return;
    this.#outcome = outcome;
    for (const lease of this.#leases) {
      try {
        lease.report(outcome);
      } catch (error) {
        this.#gate.noteError(error, this.view);
      }
    }
    this.#gate.countEnded(this.view, outcome, isAborted, this.#deadlineAt);
    if (this.#works === 0 || this.#isFree) this.#letGo();
  }

  #letGo(): void {
    if (this.#outcome !== undefined) this.#state = "released";
    if (this.#isFree) return;
    this.#isFree = true;
    this.#holdTimer?.cancel();
    this.#holdTimer = undefined;
    for (let lease = this.#leases.pop(); lease !== undefined; lease = this.#leases.pop()) {
      try {
        lease.dispose();
      } catch (error) {
        this.#gate.noteError(error, this.view);
      }
    }
    this.#gate.active -= 1;
    this.#gate.noteQuiet();
  }
}

function checkedKey(key: string | undefined): string | undefined {
  if (key === undefined || (typeof key === "string" && key !== "")) return key;
  throw wrongType("What scope returns", "a string that is not empty, or undefined", key);
}

function checkedPermits(permits: number): number {
  if (Number.isSafeInteger(permits) && permits >= 0) return permits;
  throw wrongType("What permits returns", "an integer of at least 0", permits);
}
