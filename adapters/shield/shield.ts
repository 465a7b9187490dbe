import { type Clock, type PartitionedRateLimiter, type RateLimiter, systemClock } from "headgate";
import {
  checkFunction,
  checkMethods,
  checkNotAborted,
  checkOptionNames,
  isSignal,
  wrongType,
} from "../../src/internal.js";
import {
  AdaptiveConcurrencyLimitLayer,
  type AdaptiveConcurrencyLimitOptions,
} from "./adaptive-concurrency-limit.js";
import {
  type ConcurrencyLimitArguments,
  ConcurrencyLimitLayer,
  type ConcurrencyLimitOptions,
  concurrencyLimitOptions,
} from "./concurrency-limit.js";
import { checkDiagnostics, type ShieldDiagnostics } from "./diagnostics.js";
import { type InsideLayer, insideShield } from "./inside.js";
import type { Layer, Owned } from "./layer.js";
import {
  type LeaseAcquirer,
  type LeaseSource,
  LimiterAdapterLayer,
  type RateLimiterAdapterOptions,
} from "./limiter-adapter.js";
import { Pass, type Work } from "./pass.js";
import {
  type AltOf,
  PolicyLayer,
  type PolicyLike,
  type ShieldStrategy,
  StrategyLayer,
  type UseOptions,
} from "./policy-layer.js";
import {
  type RateLimitArguments,
  RateLimitLayer,
  type RateLimitOptions,
  rateLimitOptions,
} from "./rate-limit.js";
import { CallContext, type CallScope, type ShieldContext } from "./shield-context.js";
import type { ShieldEntry } from "./shield-key.js";

/**
 * What goes with one call; for `Shield.execute`.
 *
 * @public
 */
export interface ExecuteOptions {
  /** Aborting it ends the call wherever it waits, and reaches the work as `context.signal`. */
  readonly signal?: AbortSignal | undefined;
  /** Values by key, or a function that stores them; it runs once, before the outermost layer. */
  readonly context?: readonly ShieldEntry[] | ((context: ShieldContext) => void) | undefined;
}

/**
 * How a call has ended, for code that does not want an exception.
 *
 * @public
 */
export type Outcome<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown };

/** What a shield has besides its layers; what is not set is taken over from a shield that is put into it. */
interface Settings {
  readonly name?: string | undefined;
  readonly clock?: Clock | undefined;
  readonly diagnostics?: ShieldDiagnostics | undefined;
  /** How the partition that it belongs to counts the calls that run. */
  readonly tenancy?: Tenancy | undefined;
}

/** Counts the calls that run in a partition. */
export interface Tenancy {
  enter(): void;
  leave(): void;
}

/** What a shield owns: the limiters that its own layers made, those that were given to it, and strategies that can be disposed. */
export let ownedBy: (shield: Shield<unknown>) => readonly Owned[];
/** The same shield, as part of a partition. */
export let housedIn: <A>(shield: Shield<A>, tenancy: Tenancy) => Shield<A>;
export let diagnosticsOf: (shield: Shield<unknown>) => ShieldDiagnostics | undefined;

/**
 * A chain of layers around the calls to one dependency: limits, and policies such as a retry or a time-out.
 *
 * The first layer is the outermost. A shield does not change: every method returns a new one, which shares the layers, and
 * with them their state: the places taken, the tokens left, the queues. So make it once for each dependency and use it
 * everywhere. What it does for one call, from the outside in:
 *
 * - A call whose signal is aborted already is not made.
 * - A limit asks for its lease. A refusal ends the call: `onRejected` is told and waited for, then `execute` rejects with a
 *   `RateLimitRejectedError` of its own kind. A caller who gives up while waiting gets the reason of the signal, and nobody is
 *   told.
 * - A policy runs what is further in as often as it likes.
 * - The work runs, in the same turn if nothing had to be waited for. When it has ended, all leases go back, each once, and
 *   with its outcome.
 *
 * Where a layer stands decides what it counts. A limit outside a retry holds its place for all attempts and the pauses between
 * them; inside the retry, each attempt takes its own. A time-out outside a limit counts the wait in the queue, inside it does
 * not.
 *
 * @example
 * ```ts
 * import { Shield } from "headgate/shield";
 *
 * const search = Shield.rateLimit(100, 1000)
 *   .concurrencyLimit(10, { queueLimit: 20, queueTimeoutMs: 250 })
 *   .withName("search");
 *
 * async function find(words: string, signal: AbortSignal): Promise<unknown> {
 *   return await search.execute(
 *     async ({ signal }) => (await fetch(`https://vendor.example/?q=${words}`, { signal })).json(),
 *     signal,
 *   );
 * }
 * console.log(search.describe()); // search: RateLimit(100/1s) → ConcurrencyLimit(10, queue 20/250ms)
 * ```
 *
 * @public
 */
export class Shield<A = never> {
  static {
    ownedBy = (shield) => shield.#layers.flatMap((layer) => layer.owned);
    housedIn = (shield, tenancy) => new Shield(shield.#layers, { ...shield.#settings, tenancy });
    diagnosticsOf = (shield) => shield.#settings.diagnostics;
  }

  /** A shield without layers: it runs the work as it is. */
  // Not `new Shield`: in what TypeScript makes of that, the name has no value until the class is complete.
  static readonly empty: Shield = new this([], {});

  readonly #layers: readonly Layer[];
  readonly #settings: Settings;
  readonly #scope: CallScope;

  private constructor(layers: readonly Layer[], settings: Settings) {
    this.#layers = layers;
    this.#settings = settings;
    const { name, clock = systemClock, diagnostics, tenancy } = settings;
    this.#scope = { name, clock, diagnostics, onEnd: tenancy && (() => tenancy.leave()) };
    Object.freeze(this);
  }

  /**
   * Makes one shield of several, the first being the outermost: `Shield.compose(a, b, c)` is `a.use(b).use(c)`.
   *
   * @throws TypeError when one is not a shield; Error when a layer would be in it twice.
   */
  static compose<A = never>(...shields: readonly Shield<A>[]): Shield<A> {
    let all: Shield<A> = Shield.empty;
    for (const [i, shield] of shields.entries()) {
      if (!(shield instanceof Shield)) throw wrongType(`shields[${i}]`, "a Shield", shield);
      all = all.use(shield);
    }
    return all;
  }

  /** `Shield.empty.concurrencyLimit(…)`. */
  static concurrencyLimit(
    maxConcurrency: number,
    options?: Omit<ConcurrencyLimitOptions, "maxConcurrency">,
  ): Shield;
  /** `Shield.empty.concurrencyLimit(…)`. */
  static concurrencyLimit(options: ConcurrencyLimitOptions): Shield;
  /** `Shield.empty.concurrencyLimit(…)`. */
  static concurrencyLimit(options: AdaptiveConcurrencyLimitOptions): Shield;
  static concurrencyLimit(...given: ConcurrencyLimitArguments): Shield {
    return Shield.empty.#withConcurrencyLimit(given);
  }

  /** `Shield.empty.rateLimit(…)`. */
  static rateLimit(
    permits: number,
    windowMs: number,
    options?: Omit<RateLimitOptions, "permits" | "windowMs">,
  ): Shield;
  /** `Shield.empty.rateLimit(…)`. */
  static rateLimit(options: RateLimitOptions): Shield;
  static rateLimit(...given: RateLimitArguments): Shield {
    return Shield.empty.#withRateLimit(given);
  }

  /** The name, for errors, events and `describe`; undefined when it has none. */
  get name(): string | undefined {
    return this.#settings.name;
  }

  /**
   * The same shield under a name.
   *
   * @throws TypeError when it is not a string.
   */
  withName(name: string): Shield<A> {
    if (typeof name !== "string") throw wrongType("name", "a string", name);
    return this.#with({ name });
  }

  /**
   * The same shield with another clock, by which the limits made after it measure. Comes before the first layer. Limiters that
   * are given to `useRateLimiter` keep their own.
   *
   * @throws TypeError when it is not a clock, or the shield has layers already.
   */
  withClock(clock: Clock): Shield<A> {
    checkMethods("clock", clock, ["now", "setTimer"]);
    if (this.#layers.length > 0) {
      throw new TypeError(
        `The clock must be set before the first layer; this shield has ${this.#layers.length}: begin with Shield.empty.withClock(clock).`,
      );
    }
    return this.#with({ clock });
  }

  /**
   * The same shield, with somebody who is told of failing callbacks.
   *
   * @throws TypeError when the diagnostics are not what they should be.
   */
  withDiagnostics(diagnostics: ShieldDiagnostics): Shield<A> {
    return this.#with({ diagnostics: checkDiagnostics(diagnostics) });
  }

  /**
   * Adds a limiter of yours: any `RateLimiter`, or a partitioned one, whose partitioner is given the call's context.
   *
   * Each call acquires one lease, holds it until it has ended, and disposes it. A refused call rejects with a
   * `RateLimitRejectedError` that carries all metadata of the lease.
   *
   * @example
   * ```ts
   * import { PartitionedRateLimiter, RateLimitPartition } from "headgate";
   * import { Shield, type ShieldContext, ShieldKey } from "headgate/shield";
   *
   * const tenant = new ShieldKey<string>("tenant");
   * using perTenant = PartitionedRateLimiter.create(
   *   (context: ShieldContext) =>
   *     RateLimitPartition.getConcurrencyLimiter(context.get(tenant, "default"), () => ({ permitLimit: 10 })),
   *   { maxPartitions: 10_000 },
   * );
   * const shield = Shield.empty.useRateLimiter(perTenant);
   * await shield.execute(() => fetch("https://vendor.example/"), { context: [tenant.of("acme")] });
   * ```
   *
   * @throws TypeError or RangeError when an argument or option is not what it should be; Error when the limiter is in the chain
   * already.
   */
  useRateLimiter(
    limiter: RateLimiter | PartitionedRateLimiter<ShieldContext>,
    options?: RateLimiterAdapterOptions,
  ): Shield<A>;
  /** Adds a limiter that is kept behind something else, by a function; or whatever of the three it is. */
  useRateLimiter(
    source: LeaseAcquirer | RateLimiter | PartitionedRateLimiter<ShieldContext>,
    options?: Omit<RateLimiterAdapterOptions, "ownsLimiter" | "shadow">,
  ): Shield<A>;
  useRateLimiter(source: LeaseSource, options: RateLimiterAdapterOptions = {}): Shield<A> {
    return this.#add(new LimiterAdapterLayer(source, options));
  }

  /**
   * Adds a limit to how many calls run at the same time, and how many may wait for that; also known as a bulkhead.
   *
   * @example
   * ```ts
   * import { Shield } from "headgate/shield";
   *
   * const shield = Shield.concurrencyLimit(10, { queueLimit: 20, queueTimeoutMs: 250 });
   * ```
   *
   * @throws TypeError or RangeError when an option is not what it should be.
   */
  concurrencyLimit(
    maxConcurrency: number,
    options?: Omit<ConcurrencyLimitOptions, "maxConcurrency">,
  ): Shield<A>;
  /** The same with all options in one object. */
  concurrencyLimit(options: ConcurrencyLimitOptions): Shield<A>;
  /** Adds a limit that finds its own number, between two bounds. */
  concurrencyLimit(options: AdaptiveConcurrencyLimitOptions): Shield<A>;
  concurrencyLimit(...given: ConcurrencyLimitArguments): Shield<A> {
    return this.#withConcurrencyLimit(given);
  }

  /**
   * Adds a limit to how many calls start in a window, with bursts: a token bucket that is refilled continuously.
   *
   * @example
   * ```ts
   * import { Shield } from "headgate/shield";
   *
   * const shield = Shield.rateLimit(100, 1000, { burst: 200, queueLimit: 20 });
   * ```
   *
   * @throws TypeError or RangeError when an option is not what it should be.
   */
  rateLimit(
    permits: number,
    windowMs: number,
    options?: Omit<RateLimitOptions, "permits" | "windowMs">,
  ): Shield<A>;
  /** The same with all options in one object. */
  rateLimit(options: RateLimitOptions): Shield<A>;
  rateLimit(...given: RateLimitArguments): Shield<A> {
    return this.#withRateLimit(given);
  }

  /**
   * Adds all layers of another shield, which go on sharing their state with it. Name, clock and diagnostics are this
   * shield's, or the other's where this one has none.
   *
   * @throws TypeError when it is none of the three; Error when a layer or limiter would be in the chain twice.
   */
  use<B>(inner: Shield<B>): Shield<A | B>;
  /** Adds a layer of your own. */
  use(strategy: ShieldStrategy): Shield<A>;
  /** Adds a policy, such as one of cockatiel. */
  use<Policy extends PolicyLike>(policy: Policy, options?: UseOptions): Shield<A | AltOf<Policy>>;
  use(added: unknown, options?: UseOptions): Shield<unknown> {
    if (added instanceof Shield) {
      checkNoOptions(options, "name a shield by withName()");
      const tenancy = both(this.#settings.tenancy, added.#settings.tenancy);
      return this.#append(added.#layers, { ...added.#settings, ...this.#settings, tenancy });
    }
    const { run, execute } = (added ?? {}) as { readonly run?: unknown; readonly execute?: unknown };
    if (typeof run === "function") {
      checkNoOptions(options, "give a strategy a method describe()");
      return this.#add(new StrategyLayer(added as ShieldStrategy));
    }
    if (typeof execute === "function") return this.#add(new PolicyLayer(added as PolicyLike, options));
    const isLimiter =
      typeof (added as { readonly acquire?: unknown } | null | undefined)?.acquire === "function";
    throw wrongType(
      "What is given to use",
      `a Shield, a strategy with run(), or a policy with execute()${isLimiter ? " (a limiter is added by useRateLimiter)" : ""}`,
      added,
    );
  }

  /**
   * Runs work inside all layers.
   *
   * @param work - Called with the context of the call; may return a promise. Use the signal of that context.
   * @param options - A signal, or an object with a signal and values.
   * @returns What the work, or a policy in its place, returns. Rejects with what the work throws, the same object; with a
   * `RateLimitRejectedError` when a limit refuses; with the signal's reason when it is aborted before the work has started;
   * with a `LimiterDisposedError` when a limiter has been disposed.
   */
  execute<T>(
    work: (context: ShieldContext) => T | PromiseLike<T>,
    options?: AbortSignal | ExecuteOptions,
  ): Promise<T | A> {
    try {
      return Promise.resolve(this.#start(work, options));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** The same without an exception: the promise always fulfills. */
  async executeOutcome<T>(
    work: (context: ShieldContext) => T | PromiseLike<T>,
    options?: AbortSignal | ExecuteOptions,
  ): Promise<Outcome<T | A>> {
    try {
      return { ok: true, value: await this.execute(work, options) };
    } catch (error) {
      return { ok: false, error };
    }
  }

  /** What the shield is made of, for people, the outermost layer first. */
  describe(): string {
    const { name } = this;
    const layers = this.#layers.map((layer) => layer.describe());
    return `${name === undefined ? "" : `${name}: `}${layers.length === 0 ? "(empty)" : layers.join(" → ")}`;
  }

  /** The same as `describe()`. */
  toString(): string {
    return this.describe();
  }

  /** @internal */
  get [insideShield](): readonly InsideLayer[] {
    return this.#layers;
  }

  #start<T>(work: Work<T>, options: AbortSignal | ExecuteOptions | undefined): T | Promise<T> {
    checkFunction("work", work);
    if (options === undefined) return this.#enter(work, undefined, undefined);
    if (isSignal(options)) return this.#enter(work, options, undefined);
    checkOptionNames(options, ["signal", "context"]);
    const { signal, context } = options;
    if (signal !== undefined && !isSignal(signal))
      throw wrongType("options.signal", "an AbortSignal", signal);
    if (context !== undefined && typeof context !== "function" && !Array.isArray(context)) {
      throw wrongType("options.context", "a function, or an array of what key.of(value) makes", context);
    }
    return this.#enter(work, signal, context);
  }

  #enter<T>(
    work: Work<T>,
    signal: AbortSignal | undefined,
    initial: ExecuteOptions["context"],
  ): T | Promise<T> {
    checkNotAborted(signal);
    const context = new CallContext(this.#scope, signal);
    this.#settings.tenancy?.enter();
    try {
      if (initial !== undefined) context.initialize(initial);
    } catch (error) {
      context.end();
      throw error;
    }
    return new Pass(this.#layers, context, work).run();
  }

  #with(settings: Settings): Shield<A> {
    return new Shield(this.#layers, { ...this.#settings, ...settings });
  }

  #withConcurrencyLimit(given: ConcurrencyLimitArguments): Shield<A> {
    const options = concurrencyLimitOptions(given);
    const { clock } = this.#scope;
    return this.#add(
      options?.algorithm === undefined
        ? new ConcurrencyLimitLayer(options, clock)
        : new AdaptiveConcurrencyLimitLayer(options, clock),
    );
  }

  #withRateLimit(given: RateLimitArguments): Shield<A> {
    return this.#add(new RateLimitLayer(rateLimitOptions(given), this.#scope.clock));
  }

  #add(layer: Layer): Shield<A> {
    return this.#append([layer], this.#settings);
  }

  #append<B>(layers: readonly Layer[], settings: Settings): Shield<A | B> {
    const all = [...this.#layers, ...layers];
    checkUnique(all);
    return new Shield<A | B>(all, settings);
  }
}

/** Refuses options that would be left out without a word. */
function checkNoOptions(options: unknown, instead: string): void {
  if (options !== undefined) throw new TypeError(`Options of use are for policies: ${instead}.`);
}

/** Counts in both partitions, when there are two. */
function both(outer: Tenancy | undefined, inner: Tenancy | undefined): Tenancy | undefined {
  if (outer === undefined || inner === undefined) return outer ?? inner;
  return {
    enter: () => {
      outer.enter();
      inner.enter();
    },
    leave: () => {
      inner.leave();
      outer.leave();
    },
  };
}

/** A chain that needs a limiter twice for one call could wait for itself for ever. */
function checkUnique(layers: readonly Layer[]): void {
  const places = new Map<object, number>();
  for (const [place, layer] of layers.entries()) {
    for (const one of layer.unique) {
      const first = places.get(one) ?? place;
      if (first !== place) {
        throw new Error(
          `${layer.describe()} is in the chain twice, at positions ${first} and ${place}: one call would need it twice, and could wait for itself for ever or be counted twice. Leave one out, or make another limit.`,
        );
      }
      places.set(one, place);
    }
  }
}
