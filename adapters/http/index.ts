export { createAdmission } from "./admission.js";
export type {
  Admission,
  AdmissionEvent,
  AdmissionOptions,
  AdmissionStatistics,
  AdmitResult,
} from "./admission-options.js";
export type { AdmissionRequest, ConnectionInfo, MountOptions } from "./admission-request.js";
export { type ClientIdentityOptions, clientIp, ipKey } from "./client-identity.js";
export { type ConcurrencyLimitOptions, concurrencyLimit, type LimitOptions } from "./concurrency-limit.js";
export { deadlineFromHeader } from "./deadline-header.js";
export type { AdmissionLease } from "./passage.js";
export type { Policy, PolicyScope } from "./policy.js";
export type { PressureOptions } from "./pressure.js";
export { type RateLimitOptions, rateLimit } from "./rate-limit.js";
export type { AdvertisedQuota } from "./rate-limit-fields.js";
export type { Rejection, RejectOptions } from "./rejection.js";
