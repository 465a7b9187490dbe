import { checkNumber, checkOptionNames, wrongType } from "./validation.js";

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

export const ACQUIRE_OPTION_NAMES = ["signal", "priority", "maxWaitMs"] as const;

/** Stands for options that were not given. */
export const NO_OPTIONS: AcquireOptions = Object.freeze({});

/** Whether nothing but a priority could stand between these options and a permit that is free. */
export function takesAnyPermit({ signal, maxWaitMs }: AcquireOptions): boolean {
  return maxWaitMs === undefined && signal?.aborted !== true;
}

/** An `AbortSignal` of any realm or polyfill. */
export function isSignal(value: unknown): value is AbortSignal {
  const { aborted, addEventListener, removeEventListener } = (value ?? {}) as Partial<AbortSignal>;
  return (
    typeof aborted === "boolean" &&
    typeof addEventListener === "function" &&
    typeof removeEventListener === "function"
  );
}

/** Throws the signal's reason when it is aborted. Not every polyfill has `throwIfAborted`. */
export function checkNotAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted === true) throw signal.reason;
}

/** Checks that the options are an object with known names. */
export function checkAcquireOptionNames(options: unknown, names: readonly string[]): void {
  if (isSignal(options)) throw wrongType("options", "an object such as { signal }", options);
  checkOptionNames(options, names);
}

/** Checks the shape of the options. A priority is looked at only by limiters that use it. */
export function checkAcquireOptions(options: unknown): asserts options is AcquireOptions {
  checkAcquireOptionNames(options, ACQUIRE_OPTION_NAMES);
  const { signal, maxWaitMs } = options as AcquireOptions;
  if (signal !== undefined && !isSignal(signal)) throw wrongType("options.signal", "an AbortSignal", signal);
  if (maxWaitMs !== undefined) {
    const allowed = "a finite number of milliseconds, or left out to wait without end";
    checkNumber("options.maxWaitMs", maxWaitMs, allowed, Number.isFinite);
  }
}

/** Checks a priority, for limiters that use it. */
export function checkPriority(priority: unknown): asserts priority is number {
  checkNumber("options.priority", priority, "a safe integer", Number.isSafeInteger);
}
