import { ManualClock } from "headgate/testing";

export { ManualClock };

/** What a promise has come to so far. */
export interface Watched<T> {
  readonly promise: Promise<T>;
  readonly state: "pending" | "fulfilled" | "rejected";
  /** The value of a fulfilled promise; throws for any other, so that a test cannot read it by mistake. */
  readonly value: T;
  readonly reason: unknown;
}

/** Looks over a promise's shoulder; a rejection is then handled. */
export function watch<T>(promise: Promise<T>): Watched<T> {
  let state: Watched<T>["state"] = "pending";
  let value: T | undefined;
  let reason: unknown;
  promise.then(
    (fulfilled) => {
      state = "fulfilled";
      value = fulfilled;
    },
    (rejected: unknown) => {
      state = "rejected";
      reason = rejected;
    },
  );
  return {
    promise,
    get state() {
      return state;
    },
    get value() {
      if (state !== "fulfilled") throw new Error(`the promise is ${state}, not fulfilled`);
      return value as T;
    },
    get reason() {
      return reason;
    },
  };
}

/** Lets all promise reactions that are ready run, however many hang on one another. */
export async function flush(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

/** A clock that counts how it is used. */
export class CountingClock extends ManualClock {
  reads = 0;
  timersSet = 0;

  override now(): number {
    this.reads += 1;
    return super.now();
  }

  override setTimer(callback: () => void, delayMs: number, keepAlive?: boolean): { cancel(): void } {
    this.timersSet += 1;
    return super.setTimer(callback, delayMs, keepAlive);
  }
}

/** A signal that counts its abort listeners. */
export class CountingController extends AbortController {
  listeners = 0;
  added = 0;

  constructor() {
    super();
    const { signal } = this;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    const live = new Set<unknown>();
    signal.addEventListener = (type: string, listener: EventListenerOrEventListenerObject) => {
      live.add(listener);
      this.added += 1;
      this.listeners = live.size;
      add(type, listener);
    };
    signal.removeEventListener = (type: string, listener: EventListenerOrEventListenerObject) => {
      live.delete(listener);
      this.listeners = live.size;
      remove(type, listener);
    };
  }
}
