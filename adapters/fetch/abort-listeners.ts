/** Who is to be told of a signal's abort. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Tells all, each once. */
function onAbort(this: AbortSignal): void {
  const told = listeners.get(this);
  listeners.delete(this);
  for (const listener of told ?? []) listener();
}

/**
 * Has a listener told of an abort. Many bodies may hang on one signal; hosts warn of more than ten listeners on it, so there is
 * one for all.
 */
export function listen(signal: AbortSignal, listener: () => void): void {
  const known = listeners.get(signal);
  if (known !== undefined) {
    known.add(listener);
    return;
  }
  listeners.set(signal, new Set([listener]));
  signal.addEventListener("abort", onAbort, { once: true });
}

/** Takes it back. The last one leaves nothing on the signal. */
export function unlisten(signal: AbortSignal, listener: () => void): void {
  const known = listeners.get(signal);
  if (known?.delete(listener) !== true || known.size > 0) return;
  listeners.delete(signal);
  signal.removeEventListener("abort", onAbort);
}
