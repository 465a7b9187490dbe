export {
  AdaptiveConcurrencyLimiter,
  type AdaptiveConcurrencyStatistics,
  type AdaptiveShareStatistics,
} from "./adaptive-concurrency-limiter.js";
export type { AdaptiveConcurrencyLimiterOptions, AdaptiveShareOptions } from "./adaptive-options.js";
export { AimdLimit, type AimdLimitOptions } from "./aimd-limit.js";
export { AnchoredGradientLimit, type AnchoredGradientLimitOptions } from "./anchored-gradient-limit.js";
export { CodelFilter, type CodelFilterDescription, type CodelFilterOptions } from "./codel-filter.js";
export { FixedLimit } from "./fixed-limit.js";
export { GradientLimit, type GradientLimitOptions } from "./gradient-limit.js";
export { Gradient2Limit, type Gradient2LimitOptions } from "./gradient2-limit.js";
export type { AdaptiveDiagnostic, Limit, LimitDescription } from "./limit.js";
export type { ObservableLimit, ObservableLimitOptions } from "./observable-limit.js";
export { SettableLimit } from "./settable-limit.js";
export { VegasLimit, type VegasLimitOptions } from "./vegas-limit.js";
export { WindowedAimdLimit, type WindowedAimdLimitOptions } from "./windowed-aimd-limit.js";
export { WindowedLimit, type WindowedLimitOptions } from "./windowed-limit.js";
