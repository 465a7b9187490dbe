import { RateLimitRejectedError } from "./errors.js";

/**
 * How the work that a lease covered went; adaptive limiters learn from it.
 *
 * - `success`: it was done. Its duration tells how loaded the resource is.
 * - `failure`: it failed for a reason of its own, such as bad input.
 * - `dropped`: the resource was overloaded: a time-out, a 429 or 503, a refusal further down.
 * - `ignored`: it tells nothing, for instance because the caller gave up.
 *
 * @public
 */
export type LeaseOutcome = "success" | "failure" | "dropped" | "ignored";

/** Error codes of Node, undici and common clients that mean "no answer in time". */
const TIMEOUT_CODE = /TIMEDOUT|TIMEOUT|ECONNABORTED/;
const TIMEOUT_NAME = "TimeoutError";

function isOverloadStatus(status: unknown): boolean {
  return status === 429 || status === 503;
}

function saysOverload(error: unknown): boolean {
  if (typeof error !== "object" || error === null) return false;
  const { name, code, status, statusCode, response, isTaskCancelledError } = error as Record<string, unknown>;
  return (
    RateLimitRejectedError.is(error) ||
    name === TIMEOUT_NAME ||
    // What the time-out of cockatiel throws: its name is that of any error, and its class depends on the copy.
    isTaskCancelledError === true ||
    (typeof code === "string" && TIMEOUT_CODE.test(code)) ||
    isOverloadStatus(status) ||
    isOverloadStatus(statusCode) ||
    isOverloadStatus((response as { status?: unknown } | null | undefined)?.status)
  );
}

/**
 * The outcome of work that fulfilled with `value`: `success`, unless the value is a `fetch` response (of any realm
 * or polyfill) that says 429 or 503, since `fetch` does not turn those into errors. Never throws, whatever the value.
 */
export function outcomeOfValue(value: unknown): LeaseOutcome {
  try {
    const isResponse = typeof value === "object" && value !== null && Symbol.toStringTag in value;
    if (!isResponse || value[Symbol.toStringTag] !== "Response") return "success";
    return isOverloadStatus((value as { status?: unknown }).status) ? "dropped" : "success";
  } catch {
    return "success";
  }
}

/**
 * The outcome of work that threw or rejected. The caller's own abort comes first: what it cuts short says nothing
 * about the resource. Any other `AbortError` is a `failure`: it does not tell whether time was up, or nobody wanted it.
 * Wrapped errors are looked into, since `fetch` hides the reason in `cause`. Never throws: an error that cannot be looked at
 * is a `failure`.
 */
export function outcomeOfError(error: unknown, callerSignal: AbortSignal | undefined): LeaseOutcome {
  if (callerSignal?.aborted === true) return "ignored";
  try {
    let current = error;
    for (let depth = 0; depth < 5 && typeof current === "object" && current !== null; depth++) {
      if (saysOverload(current)) return "dropped";
      current = (current as { cause?: unknown }).cause;
    }
  } catch {
    // One of its getters has thrown; what the work threw matters more.
  }
  return "failure";
}
