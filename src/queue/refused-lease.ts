import { MetadataName } from "../contract/metadata-name.js";
import { RateLimitLease } from "../contract/rate-limit-lease.js";
import type { RejectionReason } from "../contract/rejection-reason.js";

/** The text that .NET gives for a request that found no place in the queue. */
const QUEUE_LIMIT_REACHED = "Queue limit reached";

/** Who refuses, as far as its refusals tell of it. */
export interface Refuser {
  /** The metadata that its leases may carry. */
  readonly metadataNames: readonly string[];
  /** Metadata that say how it stands now. */
  standing(name: string): unknown;
}

/** A "no". Holds nothing, so one object may serve many callers. */
export class RefusedLease extends RateLimitLease {
  readonly #refuser: Refuser;
  readonly #reason: RejectionReason;
  readonly #retryAfterMs: number | undefined;
  readonly #foundNoRoom: boolean;

  constructor(refuser: Refuser, reason: RejectionReason, retryAfterMs?: number, foundNoRoom = false) {
    super();
    this.#refuser = refuser;
    this.#reason = reason;
    this.#retryAfterMs = retryAfterMs;
    this.#foundNoRoom = foundNoRoom;
  }

  override get isAcquired(): boolean {
    return false;
  }

  override get reason(): RejectionReason {
    return this.#reason;
  }

  override get retryAfterMs(): number | undefined {
    return this.#retryAfterMs;
  }

  override get metadataNames(): Iterable<string> {
    return this.#refuser.metadataNames;
  }

  protected override tryGetMetadataCore(name: string): unknown {
    switch (name) {
      case MetadataName.rejectionReason.name:
        return this.#reason;
      case MetadataName.retryAfter.name:
        return this.#retryAfterMs;
      case MetadataName.reasonPhrase.name:
        return this.#foundNoRoom && this.#refuser.metadataNames.includes(name)
          ? QUEUE_LIMIT_REACHED
          : undefined;
      default:
        return this.#refuser.standing(name);
    }
  }

  override dispose(): void {}
}
