import {
  checkBoolean,
  checkChoice,
  checkDuration,
  checkFunction,
  checkInteger,
  checkMethods,
  checkNumber,
  checkOptionNames,
  checkPermitCount,
  isSignal,
  wrongType,
} from "../../src/internal.js";
import type { FetchLimiterOptions, PartitionedFetchLimiterOptions } from "./fetch-options.js";

/** The options of a wrapped `fetch`, with or without partitions. */
export type Options<Resource> = FetchLimiterOptions & Partial<PartitionedFetchLimiterOptions<Resource>>;

const OPTION_NAMES = [
  "partition",
  "permits",
  "actualPermits",
  "maxActualPermits",
  "hold",
  "maxHoldMs",
  "maxWaitMs",
  "deadline",
  "priority",
  "signal",
  "onRejected",
  "serverHints",
  "onServerHint",
  "shadow",
  "ownsLimiter",
  "clock",
];

/** Checks what can be checked without the limiter; the hints are checked where they are read. */
export function checkOptions(options: Options<never>): void {
  checkOptionNames(options, OPTION_NAMES);
  const { permits, maxActualPermits, hold, maxHoldMs, maxWaitMs, signal, clock } = options;
  if (permits !== undefined && typeof permits !== "function") checkPermitCount(permits, "options.permits");
  if (maxActualPermits !== undefined)
    checkInteger("options.maxActualPermits", maxActualPermits, 0, Number.MAX_SAFE_INTEGER);
  if (hold !== undefined && typeof hold !== "function")
    checkChoice("options.hold", hold, ["headers", "body"]);
  if (maxHoldMs !== undefined) checkDuration("options.maxHoldMs", maxHoldMs);
  if (maxWaitMs !== undefined) {
    const allowed = "a finite number of milliseconds of at least 0, or left out to wait without end";
    checkNumber("options.maxWaitMs", maxWaitMs, allowed, (n) => n >= 0 && Number.isFinite(n));
  }
  for (const name of [
    "partition",
    "actualPermits",
    "deadline",
    "priority",
    "onRejected",
    "onServerHint",
  ] as const) {
    if (options[name] !== undefined) checkFunction(`options.${name}`, options[name]);
  }
  for (const name of ["shadow", "ownsLimiter"] as const) {
    if (options[name] !== undefined) checkBoolean(`options.${name}`, options[name]);
  }
  if (signal !== undefined && !isSignal(signal)) throw wrongType("options.signal", "an AbortSignal", signal);
  if (clock !== undefined) checkMethods("options.clock", clock, ["now", "setTimer"]);
}
