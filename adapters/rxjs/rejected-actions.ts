import { checkNumber, wrongType } from "../../src/internal.js";
import type { OnRejected, RejectedAction, Rejection } from "./options.js";

const ACTIONS = ["error", "drop", "retry", "replace"];
const LIMITER_IS_DISPOSED = "limiter_disposed";

/** What to do with a refused value. A stream must not spin on a limiter that has been disposed, nor try without end. */
export function actionFor<T, R>(
  onRejected: OnRejected<T, R>,
  rejection: Rejection<T>,
  maxAttempts: number,
): RejectedAction<R> {
  const action = wantedAction(onRejected, rejection);
  const isOver = rejection.reason === LIMITER_IS_DISPOSED && action.action !== "replace";
  const isLast = action.action === "retry" && rejection.attempt >= maxAttempts;
  return action.action !== "error" && (isOver || isLast) ? { action: "error" } : action;
}

function wantedAction<T, R>(onRejected: OnRejected<T, R>, rejection: Rejection<T>): RejectedAction<R> {
  if (typeof onRejected === "function") return checkAction(onRejected(rejection));
  return { action: onRejected === "error" || onRejected === "drop" ? onRejected : "retry" };
}

function checkAction<R>(action: RejectedAction<R>): RejectedAction<R> {
  const name = "options.onRejected()";
  if (typeof action !== "object" || action === null || !ACTIONS.includes(action.action)) {
    throw wrongType(name, `an object with an action of ${ACTIONS.map((a) => `"${a}"`).join(" or ")}`, action);
  }
  if (action.action === "retry" && action.delayMs !== undefined) {
    checkNumber(`${name}.delayMs`, action.delayMs, "a number of at least 0", (ms) => ms >= 0);
  }
  return action;
}
