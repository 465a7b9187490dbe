// The inside door: what our own adapters use beyond the public surface. Not exported by the package.
export { checkNotAborted, isSignal } from "./contract/acquire-options.js";
export {
  type AcquireSink,
  type AcquireTicket,
  type Inside,
  type InsideLimiter,
  inside,
  isLease,
  type LimiterSnapshot,
} from "./contract/inside.js";
export { outcomeOfError, outcomeOfValue } from "./contract/outcome.js";
export { promiseOf, request, requestWith } from "./contract/rate-limiter.js";
export {
  checkBoolean,
  checkChoice,
  checkDuration,
  checkFunction,
  checkInteger,
  checkMethods,
  checkNumber,
  checkOptionNames,
  checkPermitCount,
  wrongType,
} from "./contract/validation.js";
export { insidePartitions } from "./partitions/inside-partitions.js";
export { insideOf, requestFor, requestForWith } from "./partitions/partitioned-rate-limiter.js";
export { captureContext, type RunInContext } from "./queue/async-context.js";
export { Alarm } from "./time/alarm.js";
