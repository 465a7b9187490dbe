/// <reference lib="esnext.disposable" preserve="true" />
import { wrongType } from "../../src/internal.js";
import { hold, throwCollected } from "./ownership.js";
import { PartitionedShield } from "./partitioned-shield.js";
import { ownedBy, Shield } from "./shield.js";

/** Something under a name. */
interface Entry {
  get(): unknown;
  /** Disposes what it owns; gives what went wrong. */
  close(): Promise<unknown[]>;
}

/**
 * The shields of an application by name, and the end of what they own.
 *
 * Disposing it disposes, once each, the limiters that the layers of its shields have made, limiters that were given to
 * `useRateLimiter` with `ownsLimiter: true`, strategies that can be disposed, and its partitioned shields.
 *
 * @example
 * ```ts
 * import { Shield, ShieldRegistry } from "headgate/shield";
 *
 * await using shields = new ShieldRegistry()
 *   .add("search", Shield.concurrencyLimit(10, { queueLimit: 20 }))
 *   .add("payment", () => Shield.concurrencyLimit(5)); // made when first asked for
 * await shields.get("payment").execute(() => fetch("https://bank.example/"));
 * ```
 *
 * @public
 */
export class ShieldRegistry implements AsyncDisposable {
  readonly #entries = new Map<string, Entry>();
  #disposal: Promise<void> | undefined = undefined;

  /**
   * Registers a shield, a function that makes one when it is first asked for, or a partitioned shield.
   *
   * @param name - Case matters; may be empty.
   * @throws TypeError when an argument is not what it should be; Error when the name is taken, or the registry disposed.
   */
  add<A>(name: string, shield: Shield<A> | (() => Shield<A>)): this;
  /** Registers a partitioned shield. */
  add<Key, A>(name: string, shields: PartitionedShield<Key, A>): this;
  add(name: string, added: unknown): this {
    this.#checkUsable();
    if (typeof name !== "string") throw wrongType("name", "a string", name);
    if (this.#entries.has(name)) {
      throw new Error(
        `A shield named ${JSON.stringify(name)} has been registered already: choose another name.`,
      );
    }
    this.#entries.set(name, entryOf(added));
    return this;
  }

  /**
   * The shield of a name. What values its policies may return is the caller's word.
   *
   * @throws Error when there is none, or the registry has been disposed; and what the function throws that makes it, the same
   * each time.
   */
  get<A = never>(name: string): Shield<A> {
    const shield = this.tryGet<A>(name);
    if (shield !== undefined) return shield;
    throw this.has(name) ? wrongKind(name, "a partitioned shield", "partitioned") : this.#unknown(name);
  }

  /** The same, or undefined when there is none. */
  tryGet<A = never>(name: string): Shield<A> | undefined {
    this.#checkUsable();
    const found = this.#entries.get(name)?.get();
    return found instanceof Shield ? (found as Shield<A>) : undefined;
  }

  /**
   * The partitioned shield of a name. What its keys are is the caller's word.
   *
   * @throws Error when there is none, or the registry has been disposed.
   */
  partitioned<Key, A = never>(name: string): PartitionedShield<Key, A> {
    this.#checkUsable();
    const found = this.#entries.get(name)?.get();
    if (found instanceof PartitionedShield) return found as PartitionedShield<Key, A>;
    throw this.has(name) ? wrongKind(name, "a shield without partitions", "get") : this.#unknown(name);
  }

  /** Whether a name is taken. */
  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /** All names, in the order in which they were added. */
  get names(): readonly string[] {
    return [...this.#entries.keys()];
  }

  /**
   * Ends the registry and disposes what its shields own, the last first. Calls that run go on; calls that wait for a limit
   * are refused with `limiter_disposed`. Partitioned shields let all their calls end first, those that wait included; so do
   * not wait for this in one of these calls. One failure does not stop the rest. A second time does nothing more.
   *
   * @returns Rejects with what goes wrong: one error as it is, several as an `AggregateError`.
   */
  disposeAsync(): Promise<void> {
    this.#disposal ??= this.#dispose();
    return this.#disposal;
  }

  /** The same as `disposeAsync()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.disposeAsync();
  }

  async #dispose(): Promise<void> {
    const ends = [...this.#entries.values()].reverse().map((entry) => entry.close());
    throwCollected((await Promise.all(ends)).flat(), "Disposing the shields of a registry failed.");
  }

  #unknown(name: string): Error {
    const known = this.names.map((one) => JSON.stringify(one)).join(", ");
    return new Error(
      `There is no shield named ${JSON.stringify(name)}: register it by add(${JSON.stringify(name)}, …). Registered: ${known === "" ? "nothing" : known}.`,
    );
  }

  #checkUsable(): void {
    if (this.#disposal !== undefined) {
      throw new Error("The ShieldRegistry has been disposed: get shields before, or dispose it later.");
    }
  }
}

function wrongKind(name: string, kind: string, method: string): Error {
  const quoted = JSON.stringify(name);
  return new Error(`The shield named ${quoted} is ${kind}: get it by ${method}(${quoted}).`);
}

function entryOf(added: unknown): Entry {
  if (added instanceof Shield) return new RegisteredShield(() => added).made();
  if (added instanceof PartitionedShield) {
    return {
      get: () => added,
      close: () =>
        added.disposeAsync().then(
          () => [],
          (error: unknown) => [error],
        ),
    };
  }
  if (typeof added === "function") return new RegisteredShield(added as () => Shield);
  throw wrongType("shield", "a Shield, a function that makes one, or a PartitionedShield", added);
}

/** A shield that is made when it is first asked for. */
class RegisteredShield implements Entry {
  readonly #make: () => unknown;
  #shield: Shield<unknown> | undefined = undefined;
  #failure: { readonly error: unknown } | undefined = undefined;
  #isMaking = false;
  #giveUp: () => Promise<unknown[]> = async () => [];

  constructor(make: () => unknown) {
    this.#make = make;
  }

  made(): this {
    this.get();
    return this;
  }

  get(): Shield<unknown> {
    if (this.#failure !== undefined) throw this.#failure.error;
    if (this.#shield !== undefined) return this.#shield;
    if (this.#isMaking) {
      throw new Error("A function that makes a shield asked the registry for that very shield.");
    }
    this.#isMaking = true;
    try {
      const shield = this.#make();
      if (!(shield instanceof Shield)) throw wrongType("What the function returns", "a Shield", shield);
      this.#giveUp = hold(ownedBy(shield));
      this.#shield = shield;
      return shield;
    } catch (error) {
      this.#failure = { error };
      throw error;
    } finally {
      this.#isMaking = false;
    }
  }

  close(): Promise<unknown[]> {
    return this.#giveUp();
  }
}
