/** What hosts have for running something after everything that is ready now. */
interface Host {
  readonly setImmediate?: (callback: () => void) => unknown;
  readonly MessageChannel?: new () => Channel;
}

interface Channel {
  readonly port1: { onmessage: (() => void) | null; close(): void };
  readonly port2: { postMessage(message: unknown): void };
}

/** How many turns of the host may pass without news before all that was to come is taken to have come. */
const QUIET_TURNS = 4;

/** Lets the host do what is ready: promise reactions, its own events. Reads no clock and sets no timer. */
export function turnOfHost(): Promise<void> {
  const { setImmediate, MessageChannel } = globalThis as Host;
  if (setImmediate !== undefined) return new Promise((resolve) => void setImmediate(resolve));
  if (MessageChannel === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}

/**
 * Lets promises that hang on what has just happened come to their end before virtual time moves on.
 *
 * @param isDone - Whether nothing is waited for any more.
 * @param news - A number that changes whenever something that was waited for has come.
 */
export async function letPromisesSettle(isDone: () => boolean, news: () => number): Promise<void> {
  let before = news();
  for (let quiet = 0; quiet < QUIET_TURNS && !isDone(); quiet++) {
    await turnOfHost();
    if (news() !== before) {
      before = news();
      quiet = -1;
    }
  }
}
