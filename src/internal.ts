// The inside door: what our own adapters use beyond the public surface. Not exported by the package.
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
  checkFunction,
  checkInteger,
  checkMethods,
  checkNumber,
  checkOptionNames,
  wrongType,
} from "./contract/validation.js";
export { insideOf, requestForWith } from "./partitions/partitioned-rate-limiter.js";
export { captureContext, type RunInContext } from "./queue/async-context.js";
