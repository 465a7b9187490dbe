import { MetadataName } from "../contract/metadata-name.js";
import type { RateLimitLease } from "../contract/rate-limit-lease.js";
import type { PermitAlgorithm } from "../queue/permit-algorithm.js";
import { PermitQueue } from "../queue/permit-queue.js";
import type { QueueSettings } from "../queue/queue-settings.js";
import { AdaptiveLease } from "./adaptive-lease.js";
import type { InFlight } from "./in-flight.js";

/** The kind of limiter that a share is part of. */
export const LIMITER_NAME = "AdaptiveConcurrencyLimiter";

/** How an adaptive limiter answers the questions of its queue. Nobody has a share of their own. */
export const WHOLE_ALGORITHM: PermitAlgorithm<Share> = {
  limiterName: LIMITER_NAME,
  metadataNames: [
    MetadataName.reasonPhrase.name,
    MetadataName.rejectionReason.name,
    MetadataName.retryAfter.name,
    MetadataName.limit.name,
    MetadataName.remaining.name,
  ],
  permitLimit: (share) => share.inFlight.permitLimit,
  mostPermits: (share) => share.inFlight.mostPermits,
  lend: (share, permits) => share.lend(permits),
  mayOverdraw: (share, permits, isWaiting) => share.inFlight.mayOverdraw(share, permits, isWaiting),
  isIdle: (share) => share.held === 0,
};

/** The same, with shares. */
export const SHARE_ALGORITHM: PermitAlgorithm<Share> = {
  ...WHOLE_ALGORITHM,
  refusalReason: "share_exceeded",
  serveAfterPause: (share) => share.inFlight.serveAfterPause(),
};

/** One kind of work in an adaptive limiter: what it may count on, what it holds, and who waits. */
export class Share {
  readonly name: string;
  readonly inFlight: InFlight;
  /** The part of the limit that it may count on, from 0 to 1. */
  readonly fraction: number;
  readonly rejectDelayMs: number;
  readonly queue: PermitQueue<Share>;
  /** Permits that it may count on. */
  permitLimit = 0;
  /** Permits that it holds. */
  held = 0;

  constructor(
    name: string,
    inFlight: InFlight,
    settings: QueueSettings<Share>,
    fraction: number,
    rejectDelayMs: number,
  ) {
    this.name = name;
    this.inFlight = inFlight;
    this.fraction = fraction;
    this.rejectDelayMs = rejectDelayMs;
    this.queue = new PermitQueue(this, settings, inFlight.permitLimit);
  }

  /** Makes the lease for permits that have just been taken. */
  lend(permits: number): RateLimitLease {
    const { inFlight, queue } = this;
    // Work that holds nothing is not in flight, and tells the algorithm nothing.
    if (permits === 0) return new AdaptiveLease(this, 0, 0, 0);
    queue.fullSince = Number.NaN;
    inFlight.take(this, permits);
    return new AdaptiveLease(this, permits, queue.clock.now(), inFlight.permits);
  }
}
