import type { CallResult } from "./call.js";

/** One line of the table. */
export interface OverloadRun {
  readonly name: string;
  readonly results: readonly CallResult[];
  /** Undefined for a host's part of a run. */
  readonly wallMs?: number;
  readonly peakInFlight: number;
  /** What the peak must not exceed; undefined for a run without a limiter. */
  readonly limit?: number;
  /** How many requests the server still worked on or had in its queue when no client was left. */
  readonly leftOver: number;
  /** For how long the clients' process or the server's stood still at worst. */
  readonly stallMs: number;
}
