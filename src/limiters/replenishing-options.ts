import { MetadataName } from "../contract/metadata-name.js";
import { QUEUE_OPTION_NAMES, type QueueOptions } from "../queue/queue-settings.js";

/**
 * The options that all limiters whose permits come back with time have in common.
 *
 * @public
 */
export interface ReplenishingOptions extends QueueOptions {
  /**
   * Whether permits come back by themselves, as time passes; true by default. If not, they come back only when
   * `tryReplenish` is called.
   */
  readonly autoReplenishment?: boolean | undefined;
}

export const REPLENISHING_OPTION_NAMES: readonly string[] = ["autoReplenishment", ...QUEUE_OPTION_NAMES];

/** What the leases of these limiters may carry. */
export const REPLENISHING_METADATA: readonly string[] = [
  MetadataName.retryAfter.name,
  MetadataName.rejectionReason.name,
  MetadataName.limit.name,
  MetadataName.remaining.name,
  MetadataName.resetAfter.name,
];
