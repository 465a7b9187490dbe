/** How one request went, seen by its client. */
export interface CallResult {
  /** From the start of the fetch to the last byte, or to the failure. */
  readonly ms: number;
  /** Why there was no answer in time; undefined when there was one. */
  readonly failure?: string;
}

/** One real request by a client that waits no longer than its patience. */
export async function call(url: string, patienceMs: number): Promise<CallResult> {
  const start = performance.now();
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(patienceMs) });
    await response.text();
    const ms = performance.now() - start;
    if (!response.ok) return { ms, failure: `HTTP ${response.status}` };
    return ms <= patienceMs ? { ms } : { ms, failure: "late" };
  } catch (error) {
    return { ms: performance.now() - start, failure: describe(error) };
  }
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // "fetch failed" alone says nothing.
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.name;
}
