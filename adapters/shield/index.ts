export type { AdaptiveConcurrencyLimitOptions } from "./adaptive-concurrency-limit.js";
export type {
  ConcurrencyLimitOptions,
  ConcurrencyLimitRejectedEvent,
} from "./concurrency-limit.js";
export {
  type CallbackErrorEvent,
  type CallbackErrorKind,
  type ShieldDiagnostics,
  shieldDiagnostics,
} from "./diagnostics.js";
export type { LayerDescriptor } from "./layer.js";
export type { RejectedEvent } from "./limit-layer.js";
export type { ShieldQueueOptions } from "./limit-options.js";
export type {
  LeaseAcquirer,
  RateLimiterAdapterOptions,
  RateLimiterRejectedEvent,
} from "./limiter-adapter.js";
export {
  type PartitionEvictionReason,
  PartitionedShield,
  type PartitionedShieldOptions,
} from "./partitioned-shield.js";
export type { AltOf, PolicyLike, ShieldStrategy, UseOptions } from "./policy-layer.js";
export type { RateLimitOptions, RateLimitRejectedEvent } from "./rate-limit.js";
export {
  ConcurrencyLimitExceededError,
  RateLimitExceededError,
  type ShieldRejection,
} from "./rejected-errors.js";
export { type ExecuteOptions, type Outcome, Shield } from "./shield.js";
export type { ContextChange, ShieldContext } from "./shield-context.js";
export { type AnyShieldKey, type ShieldEntry, ShieldKey, ShieldKeys } from "./shield-key.js";
export { ShieldRegistry } from "./shield-registry.js";
