import type { AcquireOptions, Clock } from "headgate";
import { checkNumber, isSignal, wrongType } from "../../src/internal.js";
import type { ShieldDiagnostics } from "./diagnostics.js";
import { type AnyShieldKey, maxWaitMs, type ShieldEntry, type ShieldKey, ShieldKeys } from "./shield-key.js";

/**
 * What goes with one call through a shield: its signal, and values by key.
 *
 * Each layer and each callback is handed a view of it. All views of a call share the values; the signal and the attempt are
 * those of the place where the view was handed out, so use the one that you are given. When the call and its hooks have ended,
 * reading and writing values throws: keep the values that you need, not the context.
 *
 * @public
 */
export interface ShieldContext {
  /** Aborted when the caller, or a layer further out such as a time-out, gives up. */
  readonly signal: AbortSignal;
  /** The name of the shield that runs the call; undefined when it has none. */
  readonly shieldName: string | undefined;
  /** Which attempt this is, from 0, as the nearest policy further out tells; 0 when none does. */
  readonly attempt: number;
  /** The shield's clock. */
  readonly clock: Clock;
  /** The value for a key; undefined when there is none. */
  get<T>(key: ShieldKey<T>): T | undefined;
  /** The value for a key, or the fallback when there is none. A stored undefined is a value. */
  get<T>(key: ShieldKey<T>, fallback: T): T;
  /** Whether there is a value for a key. */
  has(key: AnyShieldKey): boolean;
  /** Stores a value, for this call only. */
  set<T>(key: ShieldKey<T>, value: T): void;
  /** Removes a value; true when there was one. */
  delete(key: AnyShieldKey): boolean;
}

/**
 * What a layer may say to the next: another signal, or which attempt this is. What is left out stays as it is.
 *
 * @public
 */
export type ContextChange = Partial<Pick<ShieldContext, "signal" | "attempt">>;

/** What all views of one call have in common, besides the values. */
export interface CallScope {
  readonly name: string | undefined;
  readonly clock: Clock;
  readonly diagnostics: ShieldDiagnostics | undefined;
  /** Told of the end of each call. */
  readonly onEnd: (() => void) | undefined;
}

const NO_OPTIONS: AcquireOptions = Object.freeze({});

/** A view of a call; the first view holds what they all share. */
export class CallContext implements ShieldContext {
  readonly #first: CallContext;
  readonly #scope: CallScope;
  readonly attempt: number;
  /** The signal that this view was made with; undefined when nobody gave one. */
  readonly givenSignal: AbortSignal | undefined;
  #signal: AbortSignal | undefined;
  #values: Map<symbol, unknown> | undefined = undefined;
  #hasEnded = false;
  /** Hooks that have not ended yet, and may still read the values. */
  #hooks = 0;
  #options: AcquireOptions | undefined = undefined;

  constructor(scope: CallScope, signal: AbortSignal | undefined, first?: CallContext, attempt = 0) {
    this.#scope = scope;
    this.givenSignal = signal;
    this.#signal = signal;
    this.#first = first ?? this;
    this.attempt = attempt;
  }

  get signal(): AbortSignal {
    // One for each call and not one for all: listeners that nobody removes would pile up on that.
    this.#signal ??= new AbortController().signal;
    return this.#signal;
  }

  get shieldName(): string | undefined {
    return this.#scope.name;
  }

  get clock(): Clock {
    return this.#scope.clock;
  }

  get diagnostics(): ShieldDiagnostics | undefined {
    return this.#scope.diagnostics;
  }

  get<T>(key: ShieldKey<T>): T | undefined;
  get<T>(key: ShieldKey<T>, fallback: T): T;
  get<T>(key: ShieldKey<T>, fallback?: T): T | undefined {
    const values = this.#usableValues;
    const id = idOf(key);
    return values?.has(id) === true ? (values.get(id) as T) : fallback;
  }

  has(key: AnyShieldKey): boolean {
    const id = idOf(key);
    return this.#usableValues?.has(id) === true;
  }

  set<T>(key: ShieldKey<T>, value: T): void {
    this.#put(key, value);
  }

  delete(key: AnyShieldKey): boolean {
    const id = idOf(key);
    return this.#usableValues?.delete(id) === true;
  }

  /** Stores what the caller of `execute` gave, before the first layer. */
  initialize(initial: readonly ShieldEntry[] | ((context: ShieldContext) => void)): void {
    if (typeof initial === "function") initial(this);
    else for (const entry of initial) this.#put(entry?.key, entry?.value);
  }

  /** The view for the next layer; this one, when nothing changes. */
  changed(change: unknown): CallContext {
    if (change instanceof CallContext && change.#first === this.#first) return change;
    const { signal, attempt } = (change ?? {}) as Partial<Record<keyof ContextChange, unknown>>;
    const nextSignal = isSignal(signal) ? signal : this.givenSignal;
    const nextAttempt = typeof attempt === "number" ? attempt : this.attempt;
    return nextSignal === this.givenSignal && nextAttempt === this.attempt
      ? this
      : new CallContext(this.#scope, nextSignal, this.#first, nextAttempt);
  }

  /** How this call asks a limiter. Also answers when the call is over: a layer may let it go on all the same. */
  acquireOptions(): AcquireOptions {
    const values = this.#first.#values;
    const signal = this.givenSignal;
    if (values !== undefined && values.size > 0) {
      const priority = values.get(ShieldKeys.priority.id) as number | undefined;
      return { signal, priority, maxWaitMs: this.#maxWaitMs(values) };
    }
    if (signal === undefined) return NO_OPTIONS;
    this.#options ??= { signal };
    return this.#options;
  }

  /** Ends the call: its values cannot be reached any more, once the hooks that were called for it have ended, too. */
  end(): void {
    this.#first.#hasEnded = true;
    this.#scope.onEnd?.();
  }

  /** A hook is called with a view of this call. The call does not always wait for it. */
  enterHook(): void {
    this.#first.#hooks += 1;
  }

  leaveHook(): void {
    this.#first.#hooks -= 1;
  }

  #maxWaitMs(values: Map<symbol, unknown>): number | undefined {
    const given = values.get(maxWaitMs.id) as number | undefined;
    const deadline = values.get(ShieldKeys.deadline.id);
    if (deadline === undefined) return given;
    const allowed = "a number of milliseconds of the shield's clock";
    checkNumber("ShieldKeys.deadline", deadline, allowed, (n) => !Number.isNaN(n));
    const left = deadline - this.clock.now();
    return left === Number.POSITIVE_INFINITY ? given : left;
  }

  #put(key: AnyShieldKey, value: unknown): void {
    // Checks that the call is not over.
    const values = this.#usableValues ?? new Map<symbol, unknown>();
    this.#first.#values = values.set(idOf(key), value);
  }

  get #usableValues(): Map<symbol, unknown> | undefined {
    const first = this.#first;
    if (first.#hasEnded && first.#hooks === 0) {
      throw new Error(
        "The context was used after its call had ended: read what you need before, and keep that.",
      );
    }
    return first.#values;
  }
}

/** Keys may be anything to callers that are not TypeScript. */
function idOf(key: AnyShieldKey): symbol {
  const id: unknown = key?.id;
  if (typeof id !== "symbol") throw wrongType("key", "a ShieldKey", key);
  return id;
}
