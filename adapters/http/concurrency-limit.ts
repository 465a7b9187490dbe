import { type Clock, ConcurrencyLimiter } from "headgate";
import { checkInteger, checkOptionNames } from "../../src/internal.js";
import { createAdmission } from "./admission.js";
import type { Admission, AdmissionOptions } from "./admission-options.js";
import { type ClientIdentityOptions, hasIdentity, IDENTITY_OPTION_NAMES } from "./client-identity.js";
import type { Policy, PolicyScope } from "./policy.js";
import type { RejectOptions } from "./rejection.js";

/**
 * The options that `concurrencyLimit` and `rateLimit` have in common: those of {@link createAdmission} that concern one policy, on
 * one level.
 *
 * @public
 */
export interface LimitOptions<Raw = unknown>
  extends ClientIdentityOptions<Raw>,
    Pick<
      AdmissionOptions<Raw>,
      "onReject" | "observe" | "priority" | "priorities" | "deadline" | "hold" | "clock" | "random"
    >,
    Pick<Policy<Raw>, "maxPartitions" | "overflow" | "shadow"> {
  /** How many requests may wait for their turn; 0 by default: they are refused at once. */
  readonly maxQueue?: number | undefined;
  /** How long a request may wait, in milliseconds, above 0; unbounded by default. */
  readonly queueTimeoutMs?: number | undefined;
  /** The name of the policy in responses and statistics. */
  readonly name?: string | undefined;
  /** The `Retry-After` when the limiter does not know better, in seconds; 1 by default, 0 leaves the header out then. */
  readonly retryAfterSeconds?: number | undefined;
  /** The text of a refusal, for people. */
  readonly message?: string | undefined;
  /** What else a refusal looks like. */
  readonly reject?: RejectOptions | undefined;
}

export const LIMIT_OPTION_NAMES: readonly string[] = [
  ...IDENTITY_OPTION_NAMES,
  "onReject",
  "observe",
  "priority",
  "priorities",
  "deadline",
  "hold",
  "clock",
  "random",
  "maxPartitions",
  "overflow",
  "shadow",
  "maxQueue",
  "queueTimeoutMs",
  "name",
  "retryAfterSeconds",
  "message",
  "reject",
];

/**
 * Options of {@link concurrencyLimit}.
 *
 * @public
 */
export interface ConcurrencyLimitOptions<Raw = unknown> extends LimitOptions<Raw> {
  /** How many requests may be in progress at the same time, for each key of the scope. Required. */
  readonly maxConcurrent: number;
  /** What is counted apart; `global` by default. */
  readonly scope?: PolicyScope<Raw> | undefined;
}

/** Makes an admission of one policy from options on one level. */
export function admissionOf<Raw>(
  options: LimitOptions<Raw>,
  policy: Omit<Policy<Raw>, "maxPartitions" | "overflow" | "shadow" | "reject">,
): Admission<Raw> {
  const { onReject, observe, priority, priorities, deadline, hold, clock, random } = options;
  const { maxPartitions, overflow, shadow, retryAfterSeconds, message, reject } = options;
  const identity = Object.fromEntries(
    IDENTITY_OPTION_NAMES.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  );
  return createAdmission<Raw>({
    client: hasIdentity(identity) || Object.keys(identity).length > 0 ? identity : undefined,
    policies: [
      {
        ...policy,
        maxPartitions,
        overflow,
        shadow,
        reject: { ...reject, ...defined({ retryAfterSeconds, message }) },
      },
    ],
    ...{ onReject, observe, priority, priorities, deadline, hold, clock, random },
  });
}

function defined<Value extends object>(options: Value): Partial<Value> {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as Partial<Value>;
}

/** What a limiter is told about its queue. */
export function queueOptions(options: LimitOptions<never>): {
  queueLimit: number;
  queueTimeoutMs: number | undefined;
  queueProcessingOrder: "oldestFirst" | "highestPriorityFirst";
  clock: Clock | undefined;
} {
  const { maxQueue = 0, queueTimeoutMs, priority, clock } = options;
  checkInteger("options.maxQueue", maxQueue, 0);
  const queueProcessingOrder = priority === undefined ? "oldestFirst" : "highestPriorityFirst";
  return { queueLimit: maxQueue, queueTimeoutMs, queueProcessingOrder, clock };
}

/**
 * Limits how many requests are in progress at the same time, all together or for each route, client, or key of a function.
 *
 * A request that finds all slots busy waits, first come first served (or by `priority`), if `maxQueue` has room, for at most
 * `queueTimeoutMs`; otherwise it is refused at once with 503 and `Retry-After`. A slot is free again when the response has ended,
 * whichever way.
 *
 * @example
 * ```ts
 * import { concurrencyLimit } from "headgate/http";
 *
 * const admission = concurrencyLimit({
 *   maxConcurrent: 100,
 *   maxQueue: 50,
 *   queueTimeoutMs: 2000,
 *   scope: "route",
 *   onReject: ({ key, reason, active, queued }) => console.log("shed", { key, reason, active, queued }),
 * });
 * ```
 *
 * @throws TypeError or RangeError when an option is not what it should be.
 *
 * @public
 */
export function concurrencyLimit<Raw = unknown>(options: ConcurrencyLimitOptions<Raw>): Admission<Raw> {
  checkOptionNames(options, ["maxConcurrent", "scope", ...LIMIT_OPTION_NAMES]);
  const { maxConcurrent, scope = "global", name = "concurrency" } = options;
  checkInteger("options.maxConcurrent", maxConcurrent, 1);
  // One object for the limiters of all keys, which then share what they have read from it.
  const settings = { permitLimit: maxConcurrent, ...queueOptions(options) };
  // Complains now, and not when the first key comes.
  new ConcurrencyLimiter(settings).dispose();
  return admissionOf(options, {
    name,
    kind: "concurrency",
    scope,
    limiter: () => new ConcurrencyLimiter(settings),
  });
}
