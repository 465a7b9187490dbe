import { wrongType } from "../../src/internal.js";

/**
 * The name of something that travels with a call through a shield, together with the type of its value; see
 * `ShieldContext`.
 *
 * @example
 * ```ts
 * import { Shield, ShieldKey } from "headgate/shield";
 *
 * const tenant = new ShieldKey<string>("tenant");
 * await Shield.empty.execute((context) => console.log(context.get(tenant)), { context: [tenant.of("acme")] });
 * ```
 *
 * @public
 */
export class ShieldKey<T> {
  /** For people; two keys may have the same. */
  readonly name: string;
  /** What values are kept under: two keys with the same `id` are the same key. */
  readonly id: symbol;
  /** Exists for type inference only; never has a value. Takes and gives a T, so that a key fits its own type only. */
  declare protected readonly valueType?: (value: T) => T;

  /**
   * Makes a key that is like no other, whatever its name.
   *
   * @throws TypeError when `name` is not a string.
   */
  constructor(name: string, id: symbol = Symbol(name)) {
    if (typeof name !== "string") throw wrongType("name", "a string", name);
    this.name = name;
    this.id = id;
  }

  /**
   * The key that everybody gets who asks by this name, also in another copy of this library: as `Symbol.for`. `priority` and
   * `deadline` are those of {@link ShieldKeys}, so choose other names, such as `billing.deadline`.
   *
   * @throws TypeError when `name` is not a string.
   */
  static for<T>(name: string): ShieldKey<T> {
    return new ShieldKey<T>(name, Symbol.for(`headgate.shield.${name}`));
  }

  /** This key and a value for it, for `ExecuteOptions.context`. */
  of(value: T): ShieldEntry {
    return { key: this, value };
  }

  /** The name. */
  toString(): string {
    return this.name;
  }
}

/**
 * A key of any type.
 *
 * @public
 */
export type AnyShieldKey = Pick<ShieldKey<unknown>, "id" | "name">;

/**
 * A key and its value, made by {@link ShieldKey.of}.
 *
 * @public
 */
export interface ShieldEntry {
  /** The key. */
  readonly key: AnyShieldKey;
  /** Its value. */
  readonly value: unknown;
}

/**
 * The keys that the layers of a shield look at.
 *
 * - `priority`: a whole number; who waits in a priority queue with a higher one goes first. 0 when absent.
 * - `deadline`: the moment, in milliseconds of the shield's clock, by which a limiter has to have let the call through.
 *   What is left of it bounds the wait in each limiter. When it has passed, limiters refuse with `deadline_expired`.
 *
 * @example
 * ```ts
 * import { Shield, ShieldKeys } from "headgate/shield";
 *
 * const shield = Shield.concurrencyLimit({ maxConcurrency: 10, queueLimit: 20, usePriorityQueue: true });
 * await shield.execute(() => fetch("https://vendor.example/"), {
 *   context: (context) => {
 *     context.set(ShieldKeys.priority, 5);
 *     context.set(ShieldKeys.deadline, context.clock.now() + 500);
 *   },
 * });
 * ```
 *
 * @public
 */
export const ShieldKeys: {
  readonly priority: ShieldKey<number>;
  readonly deadline: ShieldKey<number>;
} = Object.freeze({
  priority: ShieldKey.for<number>("priority"),
  deadline: ShieldKey.for<number>("deadline"),
});

/** How long a call may wait in each limiter, in milliseconds. For adapters, which are given it as such. */
export const maxWaitMs: ShieldKey<number> = new ShieldKey("maxWaitMs");
