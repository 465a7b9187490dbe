import type { Clock } from "./clock.js";

/**
 * The host's monotonic clock: `performance.now()` and `setTimeout`. It is not moved by changes of the wall clock.
 *
 * @public
 */
export const systemClock: Clock = Object.freeze({
  now: () => performance.now(),
  setTimer(callback: () => void, delayMs: number, keepAlive = true) {
    const handle: unknown = setTimeout(callback, delayMs);
    if (!keepAlive) (handle as { unref?(): void }).unref?.();
    return { cancel: () => clearTimeout(handle as number) };
  },
});
