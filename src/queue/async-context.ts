/** Runs a function in a context that was captured before. */
export type RunInContext = (action: () => void) => void;

interface ContextHost {
  /** The coming standard. */
  readonly AsyncContext?: { readonly Snapshot: new () => { run(action: () => void): void } };
  /** Node, and runtimes that stand in for it; asked for at run time, so that nothing of Node is imported. */
  readonly process?: {
    getBuiltinModule?(
      name: string,
    ): { readonly AsyncResource?: new (type: string) => AsyncResource } | undefined;
  };
}

interface AsyncResource {
  runInAsyncScope(action: () => void): void;
}

/**
 * Captures the async context of the caller (what `AsyncLocalStorage` holds), where the host has such a thing. Promises carry
 * theirs along by themselves; who is called back without one needs this.
 */
export function captureContext(): RunInContext {
  const host = globalThis as ContextHost;
  if (host.AsyncContext !== undefined) {
    const snapshot = new host.AsyncContext.Snapshot();
    return (action) => snapshot.run(action);
  }
  const Resource = host.process?.getBuiltinModule?.("node:async_hooks")?.AsyncResource;
  if (Resource === undefined) return (action) => action();
  const resource = new Resource("headgate.acquire");
  return (action) => resource.runInAsyncScope(action);
}
