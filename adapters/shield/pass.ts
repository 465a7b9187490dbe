import type { RateLimitLease } from "headgate";
import { checkNotAborted, outcomeOfError, outcomeOfValue } from "../../src/internal.js";
import type { Layer, WrappingLayer } from "./layer.js";
import { checkLease, isLeaseNow } from "./lease-answer.js";
import { bothErrors, giveUp, settle, undo } from "./lease-end.js";
import { LimitLayer } from "./limit-layer.js";
import type { CallContext, ContextChange, ShieldContext } from "./shield-context.js";

/*
 * One way through the layers of a shield.
 *
 * The question: a shield is a list of layers, each around the next. The naive answer nests one asynchronous function in the
 * next; ten layers are ten promises for each call, and a call that nobody holds up starts several microtasks late: whoever
 * came later, but not through a shield, goes first.
 *
 * Most layers are limits, and a limit does nothing while the work runs. So a pass goes through limits in a loop, as far as
 * they grant at once, collects their leases, and starts the work in the very turn of the call. It waits once, for the work,
 * and then gives the leases back from the inside out. Where a limit makes the call wait, the loop goes on when the lease
 * comes. Only a layer that really wraps (a retry, a time-out) takes a pass of its own for what is inside it, each time that
 * it runs it.
 *
 * Example: a rate limit, a retry, a concurrency limit. The call takes one token; the retry runs what is inside it three
 * times, that is three passes with a place each; the token's lease comes back after the third.
 *
 * What never comes to the work costs nothing: when a layer further in refuses, or the caller leaves in a queue there, the
 * leases that are held already are given back as if they had never been granted. A rate limit outside a concurrency limit
 * would otherwise spend its tokens on calls that are not made.
 *
 * The surprise: a lease that fails to be disposed is an error of the work as far as the layers further out can see, as if
 * each had been an asynchronous function around the next. Their leases are given back all the same, and each once.
 */

/** The work that a shield protects. */
export type Work<T> = (context: ShieldContext) => T | PromiseLike<T>;

export class Pass<T> {
  readonly #layers: readonly Layer[];
  readonly #context: CallContext;
  readonly #work: Work<T>;
  /** Room for as many as there can be: an array that grows by itself makes room for 17. */
  readonly #leases: (RateLimitLease | undefined)[];
  /** How many of them are held; the others are not there yet, or have gone back. */
  #held = 0;
  /** The layer to go through next. */
  #index: number;
  /** The pass whose layer wraps this one; undefined when this is the whole call. */
  readonly #outer: Pass<T> | undefined;
  /** Whether the work has been started, here or by a pass further in. */
  #hasStarted = false;

  constructor(layers: readonly Layer[], context: CallContext, work: Work<T>, index = 0, outer?: Pass<T>) {
    this.#layers = layers;
    this.#context = context;
    this.#work = work;
    this.#leases = new Array(layers.length - index);
    this.#index = index;
    this.#outer = outer;
  }

  /** The result, or a promise when it takes longer than this turn; throws what fails in this turn. */
  run(): T | Promise<T> {
    let result: T | PromiseLike<T>;
    let takesLonger: boolean;
    try {
      result = this.#proceed();
      takesLonger = isThenable(result);
    } catch (error) {
      throw this.#failed(error);
    }
    return takesLonger ? this.#finish(result as PromiseLike<T>) : this.#succeeded(result as T);
  }

  async #finish(result: PromiseLike<T>): Promise<T> {
    let value: T;
    try {
      value = await result;
    } catch (error) {
      throw this.#failed(error);
    }
    return this.#succeeded(value);
  }

  /** Goes through the layers from where it is, and starts the work. */
  #proceed(): T | PromiseLike<T> {
    const context = this.#context;
    for (; this.#index < this.#layers.length; this.#index++) {
      const layer = this.#layers[this.#index] as Layer;
      if (!(layer instanceof LimitLayer)) return this.#wrap(layer as WrappingLayer);
      checkNotAborted(context.givenSignal);
      const answer = this.#acquire(layer);
      if (!isLeaseNow(answer, layer)) return this.#wait(layer, answer);
      if (!this.#admit(answer)) return layer.reject(answer, context, this.#index);
    }
    this.#markStarted();
    return this.#work(context);
  }

  #markStarted(): void {
    this.#hasStarted = true;
    const outer = this.#outer;
    if (outer !== undefined) outer.#markStarted();
  }

  #wrap(layer: WrappingLayer): T | PromiseLike<T> {
    const inner = this.#index + 1;
    const start = async (change?: ContextChange): Promise<T> =>
      new Pass(this.#layers, this.#context.changed(change), this.#work, inner, this).run();
    return layer.run((change?: ContextChange) => {
      const running = start(change);
      // A layer may lose interest, as a time-out does; what comes of it then is nobody's unhandled rejection.
      running.catch(() => {});
      return running;
    }, this.#context);
  }

  #acquire(layer: LimitLayer): RateLimitLease | PromiseLike<RateLimitLease> {
    try {
      return layer.acquire(this.#context, this.#index);
    } catch (error) {
      throw this.#reasonFor(error);
    }
  }

  async #wait(layer: LimitLayer, answer: PromiseLike<RateLimitLease>): Promise<T> {
    let lease: RateLimitLease;
    try {
      lease = await answer;
      checkLease(lease, layer);
    } catch (error) {
      throw this.#reasonFor(error);
    }
    if (!this.#admit(lease)) return layer.reject(lease, this.#context, this.#index);
    this.#index += 1;
    return this.#proceed();
  }

  /** Whether the lease lets the call through; then it is held. A caller who has left meanwhile comes before either answer. */
  #admit(lease: RateLimitLease): boolean {
    try {
      checkNotAborted(this.#context.givenSignal);
      if (!lease.isAcquired) return false;
    } catch (error) {
      throw giveUp(lease, error);
    }
    this.#leases[this.#held++] = lease;
    return true;
  }

  /** What a limiter throws to a caller who has left does not matter any more. */
  #reasonFor(error: unknown): unknown {
    const signal = this.#context.givenSignal;
    return signal?.aborted === true ? signal.reason : error;
  }

  #succeeded(value: T): T {
    const outcome = outcomeOfValue(value);
    while (this.#held > 0) {
      try {
        settle(this.#next(), outcome);
      } catch (error) {
        throw this.#failed(error);
      }
    }
    this.#end();
    return value;
  }

  /** Gives everything back; returns the error that the caller is to see. */
  #failed(error: unknown): unknown {
    // A lease that fails to go back does not change how the work went.
    const outcome = outcomeOfError(error, this.#context.givenSignal);
    let seen = error;
    while (this.#held > 0) {
      try {
        if (this.#hasStarted) settle(this.#next(), outcome);
        else undo(this.#next(), outcome);
      } catch (second) {
        seen = bothErrors(seen, second);
      }
    }
    this.#end();
    return seen;
  }

  /** The innermost lease that is still held, to give it back. */
  #next(): RateLimitLease {
    this.#held -= 1;
    return this.#leases[this.#held] as RateLimitLease;
  }

  #end(): void {
    if (this.#outer === undefined) this.#context.end();
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    value !== null &&
    (typeof value === "object" || typeof value === "function") &&
    typeof (value as { readonly then?: unknown }).then === "function"
  );
}
