export { instrumentRateLimiter } from "./instrument-rate-limiter.js";
export type {
  Instrumentable,
  InstrumentOptions,
  LimiterInstrumentation,
  PartitionSeriesOptions,
  TracingOptions,
} from "./options.js";
