import type { CallContext, ContextChange } from "./shield-context.js";

/** What is disposed together with the registry or the partition that a shield belongs to. */
export interface Owned {
  /** What it is: one that several shields have is disposed once. */
  readonly identity: object;
  dispose(): void | PromiseLike<void>;
}

/** One link of a shield. Shields that are derived from one another share it, and with it its state. */
export abstract class Layer {
  /** The `name` option. */
  readonly name: string | undefined;

  constructor(name: string | undefined) {
    this.name = name;
  }

  /** What may be in a chain only once: the layer itself, and the limiter behind it. Empty for a layer without state. */
  abstract readonly unique: readonly object[];

  abstract readonly owned: readonly Owned[];

  /** What it is, for people. */
  abstract describe(): string;

  /** What it is, for `headgate/testing`; options only, so that it can be cloned. */
  abstract get descriptor(): LayerDescriptor;
}

/** A layer that runs what comes after it, as often as it likes. */
export abstract class WrappingLayer extends Layer {
  abstract run<T>(next: Next<T>, context: CallContext): T | PromiseLike<T>;
}

/** Runs the layers further in, with the context changed as the layer says. */
export type Next<T> = (change?: ContextChange) => Promise<T>;

/**
 * The options of one layer of a shield, as `getShieldDescriptor` of `headgate/testing` tells them: only values that can be
 * cloned, no callbacks and no limiters. `description` is for people and may change.
 *
 * @public
 */
export type LayerDescriptor =
  | {
      readonly kind: "concurrencyLimit";
      readonly name: string | undefined;
      readonly description: string;
      readonly maxConcurrency: number;
      readonly queueLimit: number;
      readonly queueTimeoutMs: number | undefined;
      readonly usePriorityQueue: boolean;
      readonly shadow: boolean;
      readonly hasNotification: boolean;
    }
  | {
      readonly kind: "adaptiveConcurrencyLimit";
      readonly name: string | undefined;
      readonly description: string;
      readonly algorithm: "aimd";
      readonly minLimit: number;
      readonly initialLimit: number;
      readonly maxLimit: number;
      readonly samplingWindowMs: number;
      readonly decreaseFactor: number;
      readonly latencyTolerance: number;
      readonly shadow: boolean;
      readonly hasNotification: boolean;
    }
  | {
      readonly kind: "rateLimit";
      readonly name: string | undefined;
      readonly description: string;
      readonly permits: number;
      readonly windowMs: number;
      readonly burst: number;
      readonly queueLimit: number;
      readonly queueTimeoutMs: number | undefined;
      readonly usePriorityQueue: boolean;
      readonly shadow: boolean;
      readonly hasNotification: boolean;
    }
  | {
      readonly kind: "rateLimiter";
      readonly name: string | undefined;
      readonly description: string;
      readonly source: "limiter" | "partitioned" | "delegate";
      readonly permitCount: number;
      readonly ownsLimiter: boolean;
      readonly shadow: boolean;
      readonly hasNotification: boolean;
    }
  | {
      readonly kind: "policy" | "custom";
      readonly name: string | undefined;
      readonly description: string;
    };
