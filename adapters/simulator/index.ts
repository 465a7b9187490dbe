export {
  type Arrival,
  type ArrivalProcess,
  type ArrivalSource,
  type PoissonArrivalsOptions,
  poissonArrivals,
  type UniformArrivalsOptions,
  uniformArrivals,
} from "./arrivals.js";
export type { ClientModel, RetryCause, RetryModel } from "./clients.js";
export { type ClosedLoopArrivalsOptions, closedLoopArrivals } from "./closed-loop-arrivals.js";
export {
  type Comparison,
  compare,
  type RunsOverSeeds,
  type SeedOptions,
  type Spread,
  type SweepPoint,
  sweep,
} from "./compare.js";
export type { Degradation } from "./degradations.js";
export {
  type BimodalOptions,
  bimodal,
  type Distribution,
  deterministic,
  empirical,
  exponential,
  type LognormalOptions,
  lognormal,
  type ParetoOptions,
  pareto,
} from "./distributions.js";
export type { SimulatedLimiter, SimulatedRequest } from "./gate.js";
export { mergeArrivals } from "./merged-arrivals.js";
export {
  erlangB,
  erlangC,
  type LittlesLawOptions,
  littlesLaw,
  type MmckOptions,
  type MmckResult,
  mmck,
} from "./queueing-theory.js";
export { createRandom, type RandomSource } from "./random.js";
export type {
  AttemptOutcome,
  AttemptRecord,
  SimulatedRejection,
  SimulationCounts,
  SimulationRates,
  SimulationResult,
  SimulationSeries,
  SimulationSetup,
  TenantResult,
} from "./result.js";
export type { ServiceModel } from "./server.js";
export { simulate } from "./simulate.js";
export { SimulationError } from "./simulation-error.js";
export type { LimiterContext, LimiterFactory, SimulationOptions } from "./simulation-options.js";
export type { Summary } from "./summary.js";
export { traceArrivals } from "./trace-arrivals.js";
export {
  type OnOffArrivalsOptions,
  onOffArrivals,
  type RatePoint,
  type ScheduledArrivalsOptions,
  scheduledArrivals,
} from "./varying-arrivals.js";
export { VirtualClock } from "./virtual-clock.js";
