export type { AcquireOptions } from "./contract/acquire-options.js";
export type { Clock } from "./contract/clock.js";
export { LimiterDisposedError, RateLimitRejectedError } from "./contract/errors.js";
export { MetadataName } from "./contract/metadata-name.js";
export type { LeaseOutcome } from "./contract/outcome.js";
export { RateLimitLease } from "./contract/rate-limit-lease.js";
export { type ChainedRateLimiter, RateLimiter, ReplenishingRateLimiter } from "./contract/rate-limiter.js";
export type { RateLimiterStatistics } from "./contract/rate-limiter-statistics.js";
export type { RejectionReason } from "./contract/rejection-reason.js";
export { systemClock } from "./contract/system-clock.js";
export { ConcurrencyLimiter, type ConcurrencyLimiterOptions } from "./limiters/concurrency-limiter.js";
export {
  FixedWindowRateLimiter,
  type FixedWindowRateLimiterOptions,
} from "./limiters/fixed-window-rate-limiter.js";
export { NoLimiter, type NoLimiterOptions } from "./limiters/no-limiter.js";
export type { ReplenishingOptions } from "./limiters/replenishing-options.js";
export {
  type ShadowedRateLimiter,
  type ShadowOptions,
  type ShadowRejection,
  shadowed,
} from "./limiters/shadowed.js";
export {
  SlidingWindowRateLimiter,
  type SlidingWindowRateLimiterOptions,
} from "./limiters/sliding-window-rate-limiter.js";
export {
  TokenBucketRateLimiter,
  type TokenBucketRateLimiterOptions,
} from "./limiters/token-bucket-rate-limiter.js";
export { type WithLeaseOptions, withLease } from "./limiters/with-lease.js";
export type {
  KeyedRateLimiter,
  PartitionedRateLimiterOptions,
  PartitionInfo,
} from "./partitions/keyed-rate-limiter.js";
export { PartitionedRateLimiter } from "./partitions/partitioned-rate-limiter.js";
export { RateLimitPartition } from "./partitions/rate-limit-partition.js";
export type { ResourceRateLimiter } from "./partitions/resource-rate-limiter.js";
export type { CodelOptions } from "./queue/codel.js";
export type { QueueOptions, QueueProcessingOrder } from "./queue/queue-settings.js";
