import { type RateLimitLease, RateLimitRejectedError, type RejectionReason } from "headgate";

/**
 * A call that was not sent, since the limiter refused it.
 *
 * @public
 */
export interface FetchRejection {
  /** Why; undefined when the limiter did not say. */
  readonly reason: RejectionReason | undefined;
  /** Milliseconds to wait before trying again; undefined when unknown. It has fractions: round up. */
  readonly retryAfterMs: number | undefined;
  /** A sentence for people. It holds no address and no key. */
  readonly message: string;
  /** The metadata of the refused lease, by raw name. */
  readonly metadata: ReadonlyMap<string, unknown>;
}

// SDKs look for the word "timeout" in what they catch, to tell their own time-outs; so it must not be in here.
const WHY: Partial<Record<RejectionReason, string>> = {
  limit_reached: "the rate limit has been reached",
  queue_full: "too many requests are waiting already",
  queue_timeout: "it has waited for too long",
  queue_evicted: "it had to make room for another request",
  deadline_unmet: "its turn would have come too late",
  deadline_expired: "its deadline has passed",
  limiter_disposed: "the rate limiter has been shut down",
  codel: "requests have been waiting for too long",
  partition_overflow: "too many different clients are active",
  share_exceeded: "its share of the limit is used up",
  server_pause: "the server asked to be left alone for a while",
  store_unavailable: "the rate limiter's store did not answer",
};

/** Why a call was refused, in words. */
export function why(reason: RejectionReason | undefined): string {
  return (reason === undefined ? undefined : WHY[reason]) ?? "the rate limiter refused it";
}

/** Answers that no server made. Only this process knows them; a header could be anybody's. */
export const answeredHere: WeakSet<Response> = new WeakSet();

const NO_METADATA: ReadonlyMap<string, unknown> = new Map();

/** What is told of a refusal. */
export function rejection(
  reason: RejectionReason | undefined,
  lease: RateLimitLease | undefined,
): FetchRejection {
  const retryAfterMs = lease?.retryAfterMs;
  const when = retryAfterMs === undefined ? "" : `; retry after ${Math.ceil(retryAfterMs)} ms`;
  return {
    reason,
    retryAfterMs,
    message: `The request was not sent: ${why(reason)}${when}.`,
    metadata: lease === undefined ? NO_METADATA : new Map(lease.getAllMetadata()),
  };
}

/** The same as an error. */
export function rejectionError(refusal: FetchRejection): RateLimitRejectedError {
  return new RateLimitRejectedError(refusal, { message: refusal.message });
}
