import type { RateLimiter, ShadowedRateLimiter } from "headgate";
import type { LayerDescriptor } from "./layer.js";

/** Leads to the layers of a shield, for `headgate/testing`, which does not load the shield itself. */
export const insideShield: unique symbol = Symbol.for("headgate.shield.inside.v1") as never;

export type ShadowCounts = Pick<ShadowedRateLimiter, "wouldHaveRefused" | "wouldHaveWaited">;

/** A layer, as far as others may look at it. */
export interface InsideLayer {
  readonly name: string | undefined;
  readonly descriptor: LayerDescriptor;
  /** The limiter of a limit; undefined where there is not one limiter, and for all other layers. */
  readonly limiter?: RateLimiter | undefined;
  /** What a limit in shadow would not have let through; undefined where there is no shadow. */
  readonly shadow?: ShadowCounts | undefined;
}

/** A shield, maybe of another copy of this library. */
export interface InsideShield {
  readonly name: string | undefined;
  readonly [insideShield]: readonly InsideLayer[];
}
