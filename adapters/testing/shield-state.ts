import type { RateLimiter, RateLimiterStatistics } from "headgate";
import type { LayerDescriptor, Shield } from "headgate/shield";
import { wrongType } from "../../src/internal.js";
import { type InsideLayer, type InsideShield, insideShield } from "../shield/inside.js";
import { ReadOnlyMap } from "../shield/read-only-map.js";
import { getLimiterState } from "./limiter-state.js";

/**
 * What a limit in shadow has let through that it would not have.
 *
 * @public
 */
export interface ShadowState {
  /** Calls that it would have refused. */
  readonly wouldHaveRefused: number;
  /** Calls that would have waited in its queue. */
  readonly wouldHaveWaited: number;
}

/**
 * What a concurrency limit of a shield looked like at one moment.
 *
 * @public
 */
export interface ConcurrencyLimitState {
  readonly kind: "concurrencyLimit";
  /** The position of the layer, from 0, the outermost. */
  readonly strategyIndex: number;
  /** The layer's `name` option. */
  readonly name: string | undefined;
  /** The limit; of an adaptive one, as it is now. */
  readonly currentLimit: number;
  /** Places that are free; 0 while more calls run than an adaptive limit lets in by now. */
  readonly availablePermits: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  /** How many wait by priority, the highest first; empty for a queue that does not go by priority. Cannot be changed. */
  readonly queuedByPriority: ReadonlyMap<number, number>;
  /** What its shadow has counted; undefined for a limit that is not in shadow. */
  readonly shadow: ShadowState | undefined;
}

/**
 * What a rate limit of a shield looked like at one moment.
 *
 * @public
 */
export interface RateLimitState {
  readonly kind: "rateLimit";
  /** The position of the layer, from 0, the outermost. */
  readonly strategyIndex: number;
  /** The layer's `name` option. */
  readonly name: string | undefined;
  /** Calls that can start now; 0 while anybody waits. */
  readonly availablePermits: number;
  readonly queuedExecutions: number;
  /** How many wait by priority, the highest first; empty for a queue that does not go by priority. Cannot be changed. */
  readonly queuedByPriority: ReadonlyMap<number, number>;
  /** What its shadow has counted; undefined for a limit that is not in shadow. */
  readonly shadow: ShadowState | undefined;
}

/**
 * What a limiter in a shield says of itself.
 *
 * @public
 */
export interface RateLimiterState {
  readonly kind: "rateLimiter";
  /** The position of the layer, from 0, the outermost. */
  readonly strategyIndex: number;
  /** The layer's `name` option. */
  readonly name: string | undefined;
  /** The limiter's own statistics; undefined for a partitioned limiter, a function, and a disposed limiter. */
  readonly statistics: RateLimiterStatistics | undefined;
  /** What its shadow has counted; undefined for a limit that is not in shadow. */
  readonly shadow: ShadowState | undefined;
}

/**
 * What a shield looked like at one moment: its limits, the outermost first. Policies and layers of your own are left out, and
 * keep their positions all the same.
 *
 * @public
 */
export interface ShieldState {
  readonly strategies: readonly (ConcurrencyLimitState | RateLimitState | RateLimiterState)[];
}

/**
 * Looks at the limits of a shield, for tests. Changes nothing, and shows the same for shields that share their layers.
 *
 * @example
 * ```ts
 * import { Shield } from "headgate/shield";
 * import { getShieldState } from "headgate/testing";
 *
 * const shield = Shield.concurrencyLimit(2).rateLimit(100, 1000);
 * console.log(getShieldState(shield).strategies[0]); // { kind: "concurrencyLimit", currentLimit: 2, availablePermits: 2, … }
 * ```
 *
 * @returns A frozen object, which holds nothing of the shield.
 * @throws TypeError when it is not a shield.
 *
 * @public
 */
export function getShieldState(shield: Shield<unknown>): ShieldState {
  const strategies = layersIn(shield).flatMap((layer, strategyIndex) => {
    const { kind } = layer.descriptor;
    return kind === "policy" || kind === "custom" ? [] : [Object.freeze(stateOf(layer, strategyIndex))];
  });
  return Object.freeze({ strategies: Object.freeze(strategies) });
}

/**
 * What a shield is made of, for tests: options only, which can be cloned and compared.
 *
 * @public
 */
export interface ShieldDescriptor {
  /** The name of the shield. */
  readonly name: string | undefined;
  /** Its layers, the outermost first. */
  readonly strategies: readonly LayerDescriptor[];
}

/**
 * Tells the options of a shield's layers.
 *
 * @example
 * ```ts
 * import { Shield } from "headgate/shield";
 * import { getShieldDescriptor } from "headgate/testing";
 *
 * const [limit] = getShieldDescriptor(Shield.concurrencyLimit(10, { usePriorityQueue: true })).strategies;
 * if (limit?.kind === "concurrencyLimit") console.log(limit.usePriorityQueue); // true
 * ```
 *
 * @returns A frozen object.
 * @throws TypeError when it is not a shield.
 *
 * @public
 */
export function getShieldDescriptor(shield: Shield<unknown>): ShieldDescriptor {
  const strategies = layersIn(shield).map((layer) => Object.freeze(layer.descriptor));
  return Object.freeze({ name: shield.name, strategies: Object.freeze(strategies) });
}

/** Asks by the door and not by the class: this is not to load the shields of those who have none. */
function layersIn(shield: unknown): readonly InsideLayer[] {
  if (typeof shield === "object" && shield !== null && insideShield in shield) {
    return (shield as InsideShield)[insideShield];
  }
  throw wrongType("shield", "a Shield", shield);
}

function stateOf(
  layer: InsideLayer,
  strategyIndex: number,
): ConcurrencyLimitState | RateLimitState | RateLimiterState {
  const { descriptor, limiter, name } = layer;
  const place = { strategyIndex, name, shadow: shadowOf(layer) };
  if (limiter === undefined || descriptor.kind === "rateLimiter") {
    return { kind: "rateLimiter", ...place, statistics: statisticsOf(limiter) };
  }
  const usesPriority = "usePriorityQueue" in descriptor && descriptor.usePriorityQueue;
  const state = getLimiterState(limiter);
  const { permitLimit = 0, availablePermits = 0, queuedRequests = 0, queuedByPriority = [] } = state;
  const queue = {
    queuedExecutions: queuedRequests,
    queuedByPriority: new ReadOnlyMap(usesPriority ? queuedByPriority : []),
  };
  if (descriptor.kind === "rateLimit") {
    return { kind: "rateLimit", ...place, availablePermits: Math.max(0, availablePermits), ...queue };
  }
  return {
    kind: "concurrencyLimit",
    ...place,
    currentLimit: permitLimit,
    availablePermits: Math.max(0, availablePermits),
    runningExecutions: permitLimit - availablePermits,
    ...queue,
  };
}

function shadowOf({ shadow }: InsideLayer): ShadowState | undefined {
  if (shadow === undefined) return undefined;
  const { wouldHaveRefused, wouldHaveWaited } = shadow;
  return Object.freeze({ wouldHaveRefused, wouldHaveWaited });
}

function statisticsOf(limiter: RateLimiter | undefined): RateLimiterStatistics | undefined {
  return limiter === undefined || getLimiterState(limiter).isDisposed ? undefined : limiter.getStatistics();
}
