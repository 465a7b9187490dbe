import { MetadataName, type RateLimitLease } from "headgate";
import { parseList, serializeItem } from "structured-headers";
import { MAX_FIELD_INTEGER } from "./rejection.js";

/**
 * What a policy tells clients about its limit, in `RateLimit-Policy` and `RateLimit`.
 *
 * @public
 */
export interface AdvertisedQuota {
  /** The quota; the limiter's own limit by default. */
  readonly quota?: number | undefined;
  /** The time that the quota is for, in whole seconds; not told by default. */
  readonly windowSeconds?: number | undefined;
  /** What is counted; `requests` by default for a rate, `concurrent-requests` for concurrency. */
  readonly unit?: "requests" | "content-bytes" | "concurrent-requests" | undefined;
}

/** How one policy stands, as its lease tells it in the turn in which it was granted or refused. */
export interface Standing {
  readonly policy: FieldPolicy;
  readonly lease: RateLimitLease;
  readonly quota: number | undefined;
  readonly remaining: number;
  /** When more will be there, in seconds; undefined when unknown. */
  readonly seconds: number | undefined;
}

function fieldInteger(value: number): number {
  return Math.min(MAX_FIELD_INTEGER, Math.max(0, Math.floor(value)));
}

/** How a policy looks in the fields. */
export class FieldPolicy {
  /** The name as a string of structured fields, with its quotes. */
  readonly item: string;
  readonly name: string;
  readonly #quota: number | undefined;
  readonly #suffix: string;

  constructor(name: string, advertised: AdvertisedQuota, isRate: boolean) {
    this.name = name;
    this.item = serializeItem(name);
    this.#quota = advertised.quota;
    const { windowSeconds, unit = isRate ? "requests" : "concurrent-requests" } = advertised;
    const window = windowSeconds === undefined ? "" : `;w=${fieldInteger(windowSeconds)}`;
    // Requests are what is meant where nothing is said.
    this.#suffix = `${window}${unit === "requests" ? "" : `;qu=${serializeItem(unit)}`}`;
  }

  /** How the policy stands, for a lease that has just been granted or refused; undefined when the limiter does not tell. */
  standing(lease: RateLimitLease): Standing | undefined {
    const remaining = lease.tryGetMetadata(MetadataName.remaining);
    if (remaining === undefined || !Number.isFinite(remaining)) return undefined;
    const afterMs = lease.isAcquired ? lease.tryGetMetadata(MetadataName.resetAfter) : lease.retryAfterMs;
    return {
      policy: this,
      lease,
      quota: this.#quota ?? lease.tryGetMetadata(MetadataName.limit),
      remaining: lease.isAcquired ? fieldInteger(remaining) : 0,
      seconds:
        afterMs === undefined || !Number.isFinite(afterMs)
          ? undefined
          : fieldInteger(Math.ceil(afterMs / 1000)),
    };
  }

  static policyMember({ policy, quota }: Standing): string | undefined {
    return quota === undefined || !Number.isFinite(quota)
      ? undefined
      : `${policy.item};q=${fieldInteger(quota)}${policy.#suffix}`;
  }

  static stateMember({ policy, remaining, seconds }: Standing): string {
    return `${policy.item};r=${remaining}${seconds === undefined ? "" : `;t=${seconds}`}`;
  }
}

/** Which fields tell of the limits. */
export type FieldStyle = "ratelimit" | "x-ratelimit" | "both" | "none";

/** The names in a field that somebody else has set; none when it cannot be read. */
function namesIn(field: string): Set<unknown> {
  try {
    return new Set(parseList(field).map(([item]) => item));
  } catch {
    return new Set();
  }
}

/**
 * The fields for a response, as pairs of name and value, to be added to what is there.
 *
 * @param existing - What the response says already, by the name of the field.
 */
export function rateLimitFields(
  standings: readonly Standing[],
  style: FieldStyle,
  status: number,
  existing: (name: string) => string | undefined,
  nowSeconds: () => number,
): [string, string][] {
  const fields: [string, string][] = [];
  if (style === "none" || standings.length === 0) return fields;
  if (style !== "x-ratelimit") {
    // A redirect is followed at once: a client that obeyed r=0 would stop half-way.
    const isRedirect = status >= 300 && status < 400;
    const shown = isRedirect ? standings.filter(({ remaining }) => remaining > 0) : standings;
    addList(fields, "ratelimit-policy", existing, shown, FieldPolicy.policyMember);
    addList(fields, "ratelimit", existing, shown, FieldPolicy.stateMember);
  }
  if (style !== "ratelimit" && existing("x-ratelimit-limit") === undefined) {
    const worst = standings.reduce((a, b) => (share(b) < share(a) ? b : a));
    if (worst.quota !== undefined) fields.push(["x-ratelimit-limit", String(fieldInteger(worst.quota))]);
    fields.push(["x-ratelimit-remaining", String(worst.remaining)]);
    if (worst.seconds !== undefined) fields.push(["x-ratelimit-reset", String(nowSeconds() + worst.seconds)]);
  }
  return fields;
}

function share({ remaining, quota }: Standing): number {
  return quota === undefined || quota === 0 ? remaining : remaining / quota;
}

function addList(
  fields: [string, string][],
  name: string,
  existing: (name: string) => string | undefined,
  standings: readonly Standing[],
  member: (standing: Standing) => string | undefined,
): void {
  const there = existing(name);
  const taken = there === undefined ? undefined : namesIn(there);
  let members = "";
  for (const standing of standings) {
    const text = taken?.has(standing.policy.name) === true ? undefined : member(standing);
    if (text !== undefined) members += members === "" ? text : `, ${text}`;
  }
  if (members !== "") fields.push([name, members]);
}
