export type {
  FetchLike,
  FetchLimiterOptions,
  FetchStatistics,
  PartitionedFetchLimiterOptions,
} from "./fetch-options.js";
export { type ForSdkOptions, forSdk } from "./for-sdk.js";
export type { LimitedRequestInit, OutgoingRequest, RequestLimits } from "./outgoing-request.js";
export { parseRateLimit, type RateLimitFormat, type ServerQuota } from "./parse-rate-limit.js";
export { type ParseRetryAfterOptions, parseRetryAfter } from "./parse-retry-after.js";
export type { FetchRejection } from "./rejection.js";
export type { ServerHint, ServerHintOptions, ServerHintSource } from "./server-hints.js";
export { type FetchExtras, type RateLimitedFetch, withRateLimiter } from "./with-rate-limiter.js";
