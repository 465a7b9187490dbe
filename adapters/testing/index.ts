export type { ContractLimiterOptions, ContractSubject, TestFramework } from "./contract/subject.js";
export { describeRateLimiterContract } from "./describe-contract.js";
export type { HeldLease } from "./lease-ledger.js";
export { getLimiterState, type LimiterState } from "./limiter-state.js";
export { ManualClock, type ManualClockOptions } from "./manual-clock.js";
export {
  type ConcurrencyLimitState,
  getShieldDescriptor,
  getShieldState,
  type RateLimiterState,
  type RateLimitState,
  type ShadowState,
  type ShieldDescriptor,
  type ShieldState,
} from "./shield-state.js";
export { type TrackedRateLimiter, type TrackLeasesOptions, trackLeases } from "./track-leases.js";
