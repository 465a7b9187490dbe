import { MetadataName, type RateLimitLease, type RejectionReason } from "headgate";
import type { AdmissionGate } from "./admission-gate.js";
import type { RequestView } from "./admission-request.js";
import type { PolicyGate } from "./policy.js";
import { rateLimitFields, type Standing } from "./rate-limit-fields.js";
import type { Refusal, RefusalTemplate, Rejection } from "./rejection.js";

type Field = readonly [string, string];

const EXPOSE = "access-control-expose-headers";

/** Who refuses what, and why. */
interface Grounds<Raw> {
  readonly gate: AdmissionGate<Raw>;
  readonly view: RequestView<Raw>;
  /** Undefined when no policy was asked. */
  readonly policy: PolicyGate<Raw> | undefined;
  readonly template: RefusalTemplate;
  readonly reason: RejectionReason;
  /** The limiter's answer, where there was one. */
  readonly lease: RateLimitLease | undefined;
  readonly key: string;
}

/** What is known of a refusal, at this moment. */
export function describeRefusal<Raw>(
  { gate, view, policy, template, reason, lease, key }: Grounds<Raw>,
  priority: string | undefined,
  waitedMs: number,
): Rejection {
  const limit = lease?.tryGetMetadata(MetadataName.limit);
  const seen = policy?.statistics(key);
  const isKnown = seen !== undefined && limit !== undefined;
  const scope = policy?.scope;
  return {
    policy: policy?.name,
    scope: typeof scope === "function" ? "function" : scope,
    key: policy === undefined ? undefined : key,
    reason,
    active: isKnown ? Math.max(0, limit - seen.currentAvailablePermits) : gate.active,
    queued: seen === undefined ? gate.queued : seen.currentQueuedCount,
    limit,
    waitedMs,
    retryAfterMs: lease?.retryAfterMs,
    status: template.status,
    priority,
    method: view.method,
    route: view.route,
  };
}

/**
 * Makes the refusal that the client gets.
 *
 * @param earlier - How the policies stood that have agreed before.
 * @param fallbackSeconds - When to come back where the limiter cannot tell; the template's own when left out.
 * @param rejection - For templates whose response a function makes.
 */
export function composeRefusal<Raw>(
  { gate, policy, template, lease }: Grounds<Raw>,
  earlier: readonly Standing[] | undefined,
  fallbackSeconds: number | undefined,
  rejection: Rejection | undefined,
): Refusal {
  const fields: Field[] = [...template.fields];
  // What the earlier policies had given has gone back.
  const standings = (earlier ?? []).map((one) => one.policy.standing(one.lease) ?? one);
  const own = lease === undefined ? undefined : policy?.fields?.standing(lease);
  if (own !== undefined) standings.push(own);
  if (standings.length > 0) fields.push(...fieldsOf(gate, standings, template.status, () => undefined));
  const seconds = template.retryAfter(lease?.retryAfterMs, gate.random, fallbackSeconds);
  if (seconds !== undefined) fields.push(["retry-after", String(seconds)]);
  if (gate.exposeHeaders && seconds !== undefined) exposeRetryAfter(fields);
  const { status, body, custom } = template;
  return {
    status,
    fields,
    body,
    custom:
      custom === undefined || rejection === undefined
        ? undefined
        : () => gate.customResponse(custom, rejection, fields),
  };
}

/** The fields that tell of the limits, to be added to a response. */
export function fieldsOf<Raw>(
  { headers, exposeHeaders }: AdmissionGate<Raw>,
  standings: readonly Standing[],
  status: number,
  existing: (name: string) => string | undefined,
): [string, string][] {
  const nowSeconds = () => Math.ceil(Date.now() / 1000);
  const fields = rateLimitFields(standings, headers, status, existing, nowSeconds);
  if (!exposeHeaders || fields.length === 0) return fields;
  // Lets pages of other origins read them.
  const there = (existing(EXPOSE) ?? "").toLowerCase().split(/\s*,\s*/);
  const names = fields.map(([name]) => name).filter((name) => !there.includes(name));
  if (names.length > 0) fields.push([EXPOSE, names.join(", ")]);
  return fields;
}

function exposeRetryAfter(fields: Field[]): void {
  const at = fields.findIndex(([name]) => name === EXPOSE);
  const names = at < 0 ? "Retry-After" : `Retry-After, ${(fields[at] as Field)[1]}`;
  if (at >= 0) fields.splice(at, 1);
  fields.push([EXPOSE, names]);
}
