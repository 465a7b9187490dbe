import { FixedWindowRateLimiter, TokenBucketRateLimiter } from "headgate";
import { rateLimit } from "headgate/rxjs";
import { marbles } from "../marbles.mjs";

/** Five values at once, through a window of two in 10 ms and through a bucket of two that gains one in 5 ms. */
export default function scenario() {
  return marbles(({ clock, cold }) => {
    const window = new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 10, queueLimit: 1, clock });
    const bucket = new TokenBucketRateLimiter({
      tokenLimit: 2,
      tokensPerPeriod: 1,
      replenishmentPeriodMs: 5,
      queueLimit: 1,
      clock,
    });
    return [
      ["source", "(abcde|)"],
      ["a window of 2 in 10 ms", cold("(abcde|)").pipe(rateLimit(window))],
      ["a bucket of 2, 1 in 5 ms", cold("(abcde|)").pipe(rateLimit(bucket))],
    ];
  });
}
