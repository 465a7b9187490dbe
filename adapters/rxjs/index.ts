export { BufferOverflowError } from "./buffer-overflow-error.js";
export { leased } from "./leased.js";
export { limitConcurrency, limitConcurrencyBy } from "./limit-concurrency.js";
export { limitedFrom } from "./limited-from.js";
export type {
  AskOptions,
  BufferOptions,
  BufferStanding,
  LaneOptions,
  LeasedOptions,
  LimitConcurrencyByOptions,
  LimitConcurrencyOptions,
  LimitedFromOptions,
  LimiterSource,
  OnRejected,
  Overflow,
  OverflowChoice,
  PartitionedLimiterSource,
  Project,
  RateLimitByOptions,
  RateLimitOptions,
  RejectedAction,
  Rejection,
  RetryOptions,
} from "./options.js";
export { rateLimit, rateLimitBy } from "./rate-limit.js";
export { schedulerClock } from "./scheduler-clock.js";
