export { type LimiterPolicyOptions, limiterPolicy } from "./limiter-policy.js";
export type { PolicyContext, PolicyEvent, PolicyFailure, PolicySuccess } from "./policy-events.js";
export {
  type BackoffContext,
  type BackoffFactoryLike,
  type BackoffLike,
  type RetryAfterBackoffOptions,
  retryAfterBackoff,
} from "./retry-after-backoff.js";
export { type ShieldPolicy, shieldPolicy } from "./shield-policy.js";
