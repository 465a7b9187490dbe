import { checkFunction, checkOptionNames, wrongType } from "../../src/internal.js";
import { type LayerDescriptor, type Next, type Owned, WrappingLayer } from "./layer.js";
import type { CallContext, ContextChange, ShieldContext } from "./shield-context.js";

/**
 * Whatever runs a function under a policy of its own, such as the policies of cockatiel: a retry, a time-out, a circuit breaker.
 *
 * It calls the function as often as it likes. If it hands it an object with a `signal`, or the number of the `attempt`, the
 * layers further in see those.
 *
 * @public
 */
export interface PolicyLike {
  execute<T>(work: (context: unknown) => PromiseLike<T> | T, signal?: AbortSignal): Promise<unknown>;
}

/**
 * What a policy may return in place of the work's own result, such as the value of a fallback.
 *
 * @public
 */
export type AltOf<Policy> = Policy extends { readonly _altReturn: infer Value } ? Value : never;

/**
 * Options of `Shield.use` for a policy.
 *
 * @public
 */
export interface UseOptions {
  /** What `describe` says of the policy; by default the name of its class without `Policy`, which minifiers change. */
  readonly describe?: string | undefined;
}

/**
 * A layer of your own.
 *
 * @example
 * ```ts
 * import { Shield, type ShieldStrategy } from "headgate/shield";
 *
 * const timed: ShieldStrategy = {
 *   async run(next, context) {
 *     const start = context.clock.now();
 *     try {
 *       return await next();
 *     } finally {
 *       console.log(context.shieldName, context.clock.now() - start, "ms");
 *     }
 *   },
 *   describe: () => "Timed",
 * };
 * const shield = Shield.empty.use(timed).concurrencyLimit(10);
 * ```
 *
 * @public
 */
export interface ShieldStrategy {
  /**
   * Runs what is further in.
   *
   * @param next - Runs it, once for each call, with another `signal` or `attempt` if those are given.
   * @param context - The call's context, for as long as the call lasts.
   */
  run<T>(next: (change?: ContextChange) => Promise<T>, context: ShieldContext): T | PromiseLike<T>;
  /** What it is, for people; `Custom` by default. */
  describe?(): string;
  /** Whether it keeps state, so that it may be in a chain only once; false by default. */
  readonly stateful?: boolean | undefined;
  /** Called, once, when the registry or partition that the shield belongs to is disposed. */
  dispose?(): void | PromiseLike<void>;
}

/** A policy of somebody else's, such as one of cockatiel. */
export class PolicyLayer extends WrappingLayer {
  override readonly unique: readonly object[] = [];
  override readonly owned: readonly Owned[] = [];
  readonly #policy: PolicyLike;
  readonly #description: string;

  constructor(policy: PolicyLike, options: UseOptions = {}) {
    checkOptionNames(options, ["describe"], "UseOptions");
    const { describe = className(policy) } = options;
    if (typeof describe !== "string") throw wrongType("UseOptions.describe", "a string", describe);
    super(undefined);
    this.#policy = policy;
    this.#description = describe;
  }

  override run<T>(next: Next<T>, context: CallContext): Promise<T> {
    // What a policy hands over besides a signal and the attempt is its own affair.
    const work = (change: unknown) => next(changeOf(change));
    return this.#policy.execute(work, context.givenSignal) as Promise<T>;
  }

  override describe(): string {
    return this.#description;
  }

  override get descriptor(): LayerDescriptor {
    return { kind: "policy", name: undefined, description: this.#description };
  }
}

function changeOf(change: unknown): ContextChange {
  return typeof change === "object" && change !== null ? change : {};
}

function className(policy: object): string {
  const name: unknown = policy.constructor?.name;
  const short = typeof name === "string" && name !== "Object" ? name.replace(/Policy$/, "") : "";
  return short === "" ? "Policy" : short;
}

/** A layer of the user's own. */
export class StrategyLayer extends WrappingLayer {
  override readonly unique: readonly object[];
  override readonly owned: readonly Owned[];
  readonly #strategy: ShieldStrategy;

  constructor(strategy: ShieldStrategy) {
    super(undefined);
    if (strategy.describe !== undefined) checkFunction("strategy.describe", strategy.describe);
    if (strategy.dispose !== undefined) checkFunction("strategy.dispose", strategy.dispose);
    this.#strategy = strategy;
    this.unique = strategy.stateful === true ? [strategy] : [];
    this.owned =
      strategy.dispose === undefined ? [] : [{ identity: strategy, dispose: () => strategy.dispose?.() }];
  }

  override run<T>(next: Next<T>, context: CallContext): T | PromiseLike<T> {
    return this.#strategy.run(next, context);
  }

  override describe(): string {
    return this.#strategy.describe?.() ?? "Custom";
  }

  override get descriptor(): LayerDescriptor {
    return { kind: "custom", name: undefined, description: this.describe() };
  }
}
