import type { Clock } from "./clock.js";
import type { RateLimiter } from "./rate-limiter.js";

/** Leads to what the library's own limiters tell one another. */
export const inside: unique symbol = Symbol.for("headgate.inside.v1") as never;

export interface Inside {
  /** The clock that the limiter lives by. */
  readonly clock: Clock | undefined;
  /** Whether a request of this size that cannot be granted now would wait, rather than be refused. */
  hasRoom(permitCount: number): boolean;
}

/** A limiter, maybe one of the library's own; limiters that users wrote have no inside. */
export interface InsideLimiter extends RateLimiter {
  readonly [inside]?: Inside | undefined;
}
