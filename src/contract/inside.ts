import type { Clock } from "./clock.js";
import type { RateLimiter } from "./rate-limiter.js";

export const insideClock: unique symbol = Symbol.for("headgate.clock.v1") as never;
export const insideHasRoom: unique symbol = Symbol.for("headgate.hasRoom.v1") as never;

/** A limiter, with what the library's own limiters tell one another; limiters that users wrote have none of it. */
export interface InsideLimiter extends RateLimiter {
  /** The clock that the limiter lives by. */
  readonly [insideClock]?: Clock | undefined;
  /** Whether a request of this size that cannot be granted now would wait, rather than be refused. */
  [insideHasRoom]?(permitCount: number): boolean;
}
