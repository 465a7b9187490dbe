import { RateLimitLease } from "headgate";
import { wrongType } from "../../src/internal.js";
import type { Layer } from "./layer.js";

/** What a shield does with a lease; those of another copy of this library do it as well. */
const METHODS = ["dispose", "report", "adjust", "refund", "getAllMetadata"] as const;

/** Whether an answer is a lease; fails when it is neither that nor a promise. Limiters and functions may be anybody's. */
export function isLeaseNow(
  answer: RateLimitLease | PromiseLike<RateLimitLease>,
  layer: Layer,
): answer is RateLimitLease {
  if (answer instanceof RateLimitLease) return true;
  const { then } = ((answer as unknown) ?? {}) as { readonly then?: unknown };
  if (typeof then === "function") return false;
  checkLease(answer, layer);
  return true;
}

/** Fails when what was answered is no lease. */
export function checkLease(answer: unknown, layer: Layer): asserts answer is RateLimitLease {
  if (answer instanceof RateLimitLease) return;
  const lease = (answer ?? {}) as Record<string, unknown>;
  const isObject = typeof lease === "object" && "isAcquired" in lease;
  const missing = METHODS.find((method) => typeof lease[method] !== "function");
  if (isObject && missing === undefined) return;
  const lack = isObject ? `, with ${missing}() and all else` : "";
  throw wrongType(`What ${layer.describe()} answers with`, `a RateLimitLease${lack}`, answer);
}
