import { MetadataName } from "../contract/metadata-name.js";
import { RateLimitLease } from "../contract/rate-limit-lease.js";
import type { RejectionReason } from "../contract/rejection-reason.js";
import type { PermitQueue } from "./permit-queue.js";

/** The text that .NET gives for a request that found no place in the queue. */
const QUEUE_LIMIT_REACHED = "Queue limit reached";

/** A "no". Holds nothing, so one object may serve many callers. */
export class RefusedLease extends RateLimitLease {
  readonly #queue: PermitQueue<unknown>;
  readonly #reason: RejectionReason;
  readonly #retryAfterMs: number | undefined;
  readonly #foundNoRoom: boolean;

  constructor(
    queue: PermitQueue<unknown>,
    reason: RejectionReason,
    retryAfterMs: number | undefined,
    foundNoRoom: boolean,
  ) {
    super();
    this.#queue = queue;
    this.#reason = reason;
    this.#retryAfterMs = retryAfterMs;
    this.#foundNoRoom = foundNoRoom;
  }

  override get isAcquired(): boolean {
    return false;
  }

  override get metadataNames(): Iterable<string> {
    return this.#queue.algorithm.metadataNames;
  }

  protected override tryGetMetadataCore(name: string): unknown {
    switch (name) {
      case MetadataName.rejectionReason.name:
        return this.#reason;
      case MetadataName.retryAfter.name:
        return this.#retryAfterMs;
      case MetadataName.reasonPhrase.name:
        return this.#foundNoRoom && this.#queue.algorithm.metadataNames.includes(name)
          ? QUEUE_LIMIT_REACHED
          : undefined;
      default:
        return this.#queue.standing(name);
    }
  }

  override dispose(): void {}
}
