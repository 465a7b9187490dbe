import { FixedWindowRateLimiter } from "headgate";
import { rateLimit } from "headgate/rxjs";
import { of } from "rxjs";
import { marbles } from "../marbles.mjs";

/** What becomes of values that a window without a queue refuses. */
export default function scenario() {
  return marbles(({ clock, cold }) => {
    const paced = (onRejected) => {
      const limiter = new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 10, clock });
      return cold("(abc|)").pipe(rateLimit(limiter, { onRejected }));
    };
    return [
      ["source", "(abc|)"],
      ['onRejected: "error"', paced("error")],
      ['onRejected: "drop"', paced("drop")],
      ["onRejected: { jitter: 0 }", paced({ jitter: 0 })],
      ["onRejected: replace by z", paced(() => ({ action: "replace", with: of("z") }))],
    ];
  });
}
