import {
  type Clock,
  type PartitionedRateLimiter,
  RateLimiter,
  type RateLimitLease,
  RateLimitRejectedError,
  type RejectionReason,
  type ShadowRejection,
  shadowed,
  systemClock,
} from "headgate";
import {
  checkChoice,
  checkNotAborted,
  checkNumber,
  checkPermitCount,
  type InsideLimiter,
  isLease,
  outcomeOfError,
  outcomeOfValue,
  requestWith,
  wrongType,
} from "../../src/internal.js";
import { Admission, type AdmissionOwner } from "./admission.js";
import { checkOptions, type Options } from "./check-options.js";
import type { FetchLike, FetchStatistics } from "./fetch-options.js";
import { HeldBodies } from "./held-bodies.js";
import { BodyCopy, canHold, holdResponse } from "./held-response.js";
import { clockOf, isPaused, type Pausable } from "./limiter-view.js";
import { CallView, type LimitedRequestInit } from "./outgoing-request.js";
import { answeredHere, rejection, rejectionError } from "./rejection.js";
import { HintReader } from "./server-hints.js";
import { Turn } from "./turn.js";

const NOT_COPIED =
  'The body has to be read from the first, before anything is awaited, and that of an error needs hold: "body".';

/** Nobody gets the response; its server need not send the rest. */
function cancelBody(response: Response | undefined, reason: unknown): void {
  try {
    response?.body?.cancel(reason).catch(() => {});
  } catch {
    // Some clients bring their own fetch, with bodies that are no web streams.
  }
}

/** What stands behind a wrapped `fetch`; `withRateLimiter` tells how it behaves. */
export class LimitedFetch<Resource> implements AdmissionOwner {
  readonly #fetch: FetchLike;
  readonly #limiter: RateLimiter | PartitionedRateLimiter<Resource>;
  readonly #options: Options<Resource>;
  readonly #clock: Clock;
  readonly #hints: HintReader | undefined;
  /** What a call asks in shadow, when there is one limiter for all. */
  readonly #shadow: RateLimiter | undefined;
  readonly #turns = new Set<Turn>();
  readonly #held: HeldBodies;
  #isDisposed = false;
  /** Calls that wait, or hold a lease. */
  #busy = 0;
  #active = 0;
  #started = 0;
  #rejected = 0;
  #aborted = 0;
  #pauses = 0;
  #wouldHaveRefused = 0;
  #wouldHaveWaited = 0;
  #onIdle: (() => void)[] = [];

  constructor(
    fetch: FetchLike,
    limiter: RateLimiter | PartitionedRateLimiter<Resource>,
    options: Options<Resource>,
  ) {
    checkOptions(options as Options<never>);
    const { serverHints = {}, shadow = false, maxHoldMs = Number.POSITIVE_INFINITY } = options;
    this.#fetch = fetch;
    this.#limiter = limiter;
    this.#options = { ...options };
    this.#hints = serverHints === false ? undefined : new HintReader(serverHints);
    if (limiter instanceof RateLimiter) {
      if (options.partition !== undefined) {
        throw new TypeError(
          "options.partition needs a PartitionedRateLimiter; this limiter has one limit for all.",
        );
      }
      if (this.#hints !== undefined && typeof (limiter as Pausable).pause !== "function") {
        throw new TypeError(
          `limiter must have a pause method, for the server's hints; this ${limiter.constructor.name} has none. Set options.serverHints to false to take no hints.`,
        );
      }
    }
    this.#clock = options.clock ?? clockOf(limiter) ?? systemClock;
    this.#held = new HeldBodies(this.#clock, maxHoldMs);
    this.#shadow = shadow && limiter instanceof RateLimiter ? this.#inShadow(limiter) : undefined;
  }

  async call(
    input: string | URL | Request,
    init: LimitedRequestInit<Resource> | undefined,
  ): Promise<Response> {
    const call = new CallView(input, init);
    const fetch = this.#fetch;
    const limiter = call.limits?.skip === true ? undefined : this.#limiterOf(call);
    if (limiter === undefined) return await fetch(input, call.init);

    const { signal } = call;
    this.#busy += 1;
    let lease: RateLimitLease | undefined;
    try {
      const answer = this.#acquire(call, limiter, signal);
      lease = answer instanceof Promise ? await this.#wait(answer, signal) : answer;
    } catch (error) {
      if (signal?.aborted === true || this.#options.signal?.aborted === true) this.#aborted += 1;
      this.#leave();
      throw error;
    }
    if (lease === undefined || !lease.isAcquired) return await this.#reject(call, limiter, lease);

    this.#started += 1;
    this.#active += 1;
    const { maxActualPermits = 1_000_000 } = this.#options;
    const admission = new Admission(this, lease, maxActualPermits);
    let response: Response;
    try {
      response = await fetch(input, call.init);
    } catch (error) {
      const outcome = outcomeOfError(error, signal);
      // A wrapper further in has refused it, or it is none that could be sent: it has not reached any server.
      if (RateLimitRejectedError.is(error) || call.hasBeenUnsendable(error)) admission.undo(outcome);
      else {
        admission.report(outcome);
        admission.end();
      }
      throw error;
    }
    return this.#receive(call, limiter, admission, response, signal);
  }

  getStatistics(): FetchStatistics {
    return {
      waiting: this.#turns.size,
      active: this.#active,
      heldBodies: this.#held.size,
      oldestHeldBodyMs: this.#held.oldestMs,
      totalStarted: this.#started,
      totalRejected: this.#rejected,
      totalAborted: this.#aborted,
      totalPauses: this.#pauses,
      totalExpiredHolds: this.#held.expired,
      wouldHaveRefused: this.#wouldHaveRefused,
      wouldHaveWaited: this.#wouldHaveWaited,
    };
  }

  async drain(): Promise<void> {
    while (this.#busy > 0) {
      await new Promise<void>((resolve) => this.#onIdle.push(resolve));
    }
  }

  dispose(): void {
    this.#close();
    if (this.#options.ownsLimiter === true) this.#limiter.dispose();
  }

  async disposeAsync(): Promise<void> {
    this.#close();
    if (this.#options.ownsLimiter === true) await this.#limiter.disposeAsync();
  }

  ended(admission: Admission): void {
    this.#active -= 1;
    this.#held.delete(admission);
    this.#leave();
  }

  #close(): void {
    this.#isDisposed = true;
    this.#leaveAll();
    this.#held.endAll();
  }

  /** Takes all who wait out of their queues. */
  readonly #leaveAll = (): void => {
    for (const turn of [...this.#turns]) turn.leave();
  };

  /** A call is over, as far as the limiter goes. */
  #leave(): void {
    this.#busy -= 1;
    if (this.#busy > 0) return;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  /** The limiter of a call; undefined for a call that is not limited. */
  #limiterOf(call: CallView<Resource>): Pausable | undefined {
    if (this.#limiter instanceof RateLimiter) {
      if (call.limits?.partition === undefined) return this.#limiter;
      throw new TypeError("init.headgate.partition needs a PartitionedRateLimiter.");
    }
    const { partition } = this.#options;
    const resource =
      call.limits?.partition ?? (partition === undefined ? (call.origin as Resource) : partition(call));
    return resource === undefined ? undefined : this.#limiter.forResource(resource);
  }

  /** The limiter of the server that has answered, where a redirect led to another one than was asked. */
  #limiterOfAnswer(call: CallView<Resource>, { redirected, url }: Response): Pausable | undefined {
    if (this.#limiter instanceof RateLimiter || redirected !== true) return undefined;
    if (call.limits?.partition !== undefined || this.#options.partition !== undefined) return undefined;
    return this.#limiter.forResource(new CallView<Resource>(url, undefined).origin as Resource);
  }

  /** A limiter that lets everything through, and has it counted here. */
  #inShadow(limiter: RateLimiter): RateLimiter {
    const onRejected = ({ wouldHaveWaited }: ShadowRejection) => {
      if (wouldHaveWaited) this.#wouldHaveWaited += 1;
      else this.#wouldHaveRefused += 1;
    };
    return shadowed(limiter, { onRejected });
  }

  /** Asks for a lease, once: the lease, a promise of it, or undefined when the call is refused without asking. */
  #acquire(
    call: CallView<Resource>,
    limiter: RateLimiter,
    signal: AbortSignal | undefined,
  ): RateLimitLease | Promise<RateLimitLease | undefined> | undefined {
    const { permits = 1, priority, deadline, shadow = false } = this.#options;
    checkNotAborted(signal);
    checkNotAborted(this.#options.signal);
    if (this.#isDisposed) return undefined;
    const { limits } = call;
    const permitCount = limits?.permits ?? (typeof permits === "function" ? permits(call) : permits);
    checkPermitCount(permitCount, "permits");
    const rank = limits?.priority ?? priority?.(call);
    if (rank !== undefined) checkNumber("priority", rank, "a safe integer", Number.isSafeInteger);
    call.deadline = limits?.deadline ?? deadline?.(call);
    const maxWaitMs = this.#maxWaitMs(call.deadline);
    if (maxWaitMs !== undefined && maxWaitMs < 0 && !shadow) return undefined;
    const asked = shadow ? (this.#shadow ?? this.#inShadow(limiter)) : limiter;
    const turn = new Turn(this.#turns);
    // The common signal has a listener of its own; `AbortSignal.any` would leave something on it for every call in Node 20.
    const options = { signal, priority: rank, maxWaitMs };
    const answer = requestWith(asked, permitCount, options, turn);
    return isLease(answer) ? answer : turn.wait(answer);
  }

  /** Waits for the turn of a call. Between the grant and this turn its caller may have left. */
  async #wait(
    turn: Promise<RateLimitLease | undefined>,
    signal: AbortSignal | undefined,
  ): Promise<RateLimitLease | undefined> {
    const { signal: common } = this.#options;
    this.#held.setAwaited(true);
    common?.addEventListener("abort", this.#leaveAll);
    let lease: RateLimitLease | undefined;
    try {
      lease = await turn;
      checkNotAborted(signal);
      checkNotAborted(common);
    } catch (error) {
      lease?.refund();
      throw error;
    } finally {
      if (this.#turns.size === 0) {
        this.#held.setAwaited(false);
        common?.removeEventListener("abort", this.#leaveAll);
      }
    }
    if (!this.#isDisposed) return lease;
    lease?.refund();
    return undefined;
  }

  /** How long a call may wait, in milliseconds; negative when its deadline has passed. */
  #maxWaitMs(deadline: number | undefined): number | undefined {
    const { maxWaitMs } = this.#options;
    if (deadline === undefined) return maxWaitMs;
    checkNumber("deadline", deadline, "a finite number of milliseconds", Number.isFinite);
    const leftMs = deadline - this.#clock.now();
    if (leftMs <= 0) return -1;
    return maxWaitMs === undefined ? leftMs : Math.min(maxWaitMs, leftMs);
  }

  /** What a call gets that was refused. */
  async #reject(
    call: CallView<Resource>,
    limiter: InsideLimiter,
    lease: RateLimitLease | undefined,
  ): Promise<Response> {
    this.#rejected += 1;
    this.#leave();
    const refusal = rejection(this.#reasonOf(call, limiter, lease), lease);
    lease?.dispose();
    const { onRejected } = this.#options;
    if (onRejected === undefined) throw rejectionError(refusal);
    const response = await onRejected(refusal, call);
    if (typeof response !== "object" || response === null)
      throw wrongType("what onRejected returns", "a Response", response);
    // Where it has an address, it comes from a server: the call was answered from somewhere else.
    if (!response.url) answeredHere.add(response);
    return response;
  }

  #reasonOf(
    call: CallView<Resource>,
    limiter: InsideLimiter,
    lease: RateLimitLease | undefined,
  ): RejectionReason | undefined {
    if (lease === undefined) return this.#isDisposed ? "limiter_disposed" : "deadline_expired";
    const { reason } = lease;
    // What came first is known here only: the limiter is told the shorter of the two.
    const { deadline } = call;
    if (reason === "queue_timeout" && deadline !== undefined && deadline - this.#clock.now() < 1)
      return "deadline_expired";
    if (reason === "deadline_unmet" && isPaused(limiter)) return "server_pause";
    return reason;
  }

  /** The headers are there: what the server hints, what the call cost, and who holds the lease from here on. */
  #receive(
    call: CallView<Resource>,
    limiter: Pausable,
    admission: Admission,
    response: Response,
    signal: AbortSignal | undefined,
  ): Response {
    let received = response;
    let copy: BodyCopy | undefined;
    try {
      if (typeof response !== "object" || response === null)
        throw wrongType("what fetch returns", "a Response", response);
      if (answeredHere.has(response)) {
        admission.undo("dropped");
        return response;
      }
      admission.report(outcomeOfValue(response));
      this.#takeHint(call, limiter, response);
      const isSuccess = response.status >= 200 && response.status <= 299;
      const { hold = isSuccess ? "body" : "headers", actualPermits } = this.#options;
      const until = call.limits?.hold ?? (typeof hold === "function" ? hold(response, call) : hold);
      checkChoice("hold", until, ["headers", "body"]);
      const mayHold = canHold(response, call);
      if (actualPermits !== undefined) {
        if (mayHold) copy = new BodyCopy(response);
        admission.charge(actualPermits(copy?.response ?? response, call));
      }
      // Whoever gets an error often leaves its body alone, and the copy would wait for it.
      const isRead = copy?.isRead === true && admission.isCostPending && (isSuccess || until === "body");
      if (isRead) admission.copy = copy;
      else copy?.fail(new TypeError(NOT_COPIED));
      if (mayHold && (until === "body" || isRead) && !this.#isDisposed) {
        received = holdResponse(response, admission.end, admission.copy);
        this.#held.add(admission);
        admission.watch(signal);
      } else {
        if (admission.isCostPending) this.#held.add(admission);
        admission.end();
      }
      return received;
    } catch (error) {
      copy?.fail(error);
      admission.end();
      cancelBody(received, error);
      throw error;
    }
  }

  #takeHint(call: CallView<Resource>, limiter: Pausable, response: Response): void {
    const hint = this.#hints?.apply(response, (durationMs) => {
      const told = this.#limiterOfAnswer(call, response) ?? limiter;
      if (told.pause === undefined) throw new TypeError("The limiter has no pause method.");
      told.pause(durationMs);
      this.#pauses += 1;
    });
    if (hint !== undefined) this.#options.onServerHint?.(hint, call);
  }
}
