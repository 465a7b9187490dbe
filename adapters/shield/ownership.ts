import type { Owned } from "./layer.js";

/*
 * Who disposes what is shared.
 *
 * A limiter may be reached through many shields: two names in a registry, a derived shield, forty partitions. Each registry and
 * each partition holds what its shields own, and gives it up when it ends; the last to give it up disposes it, once.
 */

const holders = new WeakMap<object, number>();
const disposed = new WeakSet<object>();

/** The ownership of a limiter. */
export function limiterOwner(limiter: { disposeAsync(): Promise<void> }): Owned {
  return { identity: limiter, dispose: () => limiter.disposeAsync() };
}

/** Holds all that is given, each thing once; returns how to give it up, which gives the errors of disposing. */
export function hold(owned: Iterable<Owned>): () => Promise<unknown[]> {
  const held = new Map([...owned].map((one) => [one.identity, one]));
  for (const identity of held.keys()) holders.set(identity, (holders.get(identity) ?? 0) + 1);
  return async () => {
    // The last that was made may need those before it. Nobody waits for anybody, so that one that hangs keeps nobody else.
    const ends = [...held.values()].reverse().map(giveUp);
    held.clear();
    const results = await Promise.allSettled(ends);
    return results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  };
}

async function giveUp({ identity, dispose }: Owned): Promise<void> {
  const left = (holders.get(identity) as number) - 1;
  holders.set(identity, left);
  if (left > 0 || disposed.has(identity)) return;
  disposed.add(identity);
  await dispose();
}

/** Throws what went wrong, if anything did: one error as it is, several together. */
export function throwCollected(errors: readonly unknown[], message: string): void {
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, message);
}
