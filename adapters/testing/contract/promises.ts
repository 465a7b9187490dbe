import { systemClock } from "headgate";
import { show } from "./show.js";

/** What a promise has come to so far. */
export interface Watched<T> {
  readonly state: "pending" | "fulfilled" | "rejected";
  /** The value of a fulfilled promise; throws for any other. */
  readonly value: T;
  /** What a rejected promise rejected with. */
  readonly reason: unknown;
}

/** Looks over a promise's shoulder; a rejection is then handled. */
export function watch<T>(promise: Promise<T>): Watched<T> {
  let state: Watched<T>["state"] = "pending";
  let settled: unknown;
  promise.then(
    (value) => {
      state = "fulfilled";
      settled = value;
    },
    (reason: unknown) => {
      state = "rejected";
      settled = reason;
    },
  );
  return {
    get state() {
      return state;
    },
    get value() {
      if (state === "fulfilled") return settled as T;
      const how = state === "rejected" ? `rejected with ${show(settled)}` : "still pending";
      throw new Error(`A promise should have been fulfilled by now, but it is ${how}.`);
    },
    get reason() {
      return settled;
    },
  };
}

/** Lets all promise reactions that are ready run, however many hang on one another. */
export async function flush(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

/** How long an answer that needs no permit to come back may take, in real time: a limiter may ask a server. */
const PATIENCE_MS = 2000;

/** The answer that a promise brings. A promise that stays pending fails the test rather than hanging it. */
export function answerOf<T>(what: string, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new Error(`${what}: expected an answer, but the promise is still pending.`));
    const timer = systemClock.setTimer(late, PATIENCE_MS);
    promise.then(resolve, reject).finally(() => timer.cancel());
  });
}
