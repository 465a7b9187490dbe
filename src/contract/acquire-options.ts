import { checkOptionNames, wrongType } from "./validation.js";

/**
 * What a caller may say about one `acquire`.
 *
 * @public
 */
export interface AcquireOptions {
  /**
   * Aborting it takes the request out of the queue; the promise then rejects with the signal's reason. A lease that
   * has been granted is not taken back.
   */
  readonly signal?: AbortSignal | undefined;
  /** Which requests go first, higher before lower; for limiters that order their queue by it. 0 by default. */
  readonly priority?: number | undefined;
  /**
   * How long this request may wait, in milliseconds; unbounded by default. 0 asks for a permit now or not at all. A
   * negative number says that the caller's deadline has passed: the request is then refused with
   * `deadline_expired`, even if a permit is free.
   */
  readonly maxWaitMs?: number | undefined;
}

const KNOWN = ["signal", "priority", "maxWaitMs"] as const;

/** Stands for options that were not given. */
export const NO_OPTIONS: AcquireOptions = Object.freeze({});

/** Checks the shape of the options. A priority is looked at only by limiters that use it. */
export function checkAcquireOptions(options: unknown): asserts options is AcquireOptions {
  checkOptionNames(options, KNOWN);
  const { signal, maxWaitMs } = options as AcquireOptions;
  if (signal !== undefined && typeof (signal as AbortSignal | null)?.addEventListener !== "function") {
    throw wrongType("options.signal", "an AbortSignal", signal);
  }
  if (maxWaitMs !== undefined && !Number.isFinite(maxWaitMs)) {
    const allowed = "a finite number of milliseconds (leave it out to wait as long as it takes)";
    if (typeof maxWaitMs !== "number") throw wrongType("options.maxWaitMs", allowed, maxWaitMs);
    throw new RangeError(`options.maxWaitMs must be ${allowed}; got ${maxWaitMs}.`);
  }
}
