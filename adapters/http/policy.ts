import {
  type AcquireOptions,
  type Clock,
  PartitionedRateLimiter,
  RateLimiter,
  type RateLimiterStatistics,
  type RateLimitLease,
  RateLimitPartition,
  type RejectionReason,
  shadowed,
} from "headgate";
import {
  type AcquireSink,
  type AcquireTicket,
  checkBoolean,
  checkChoice,
  checkDuration,
  checkFunction,
  checkInteger,
  checkNumber,
  checkOptionNames,
  type InsideLimiter,
  inside,
  type LimiterSnapshot,
  requestForWith,
  requestWith,
  wrongType,
} from "../../src/internal.js";
import type { AdmissionRequest } from "./admission-request.js";
import { type AdvertisedQuota, FieldPolicy } from "./rate-limit-fields.js";
import { checkRejectOptions, mergeRejectOptions, RefusalTemplate, type RejectOptions } from "./rejection.js";

/**
 * What a policy counts apart: everything together (`global`), each method and route (`route`), each client (`client`), or
 * whatever a function names. A function that returns undefined leaves its request unlimited by this policy; anything else but
 * a string that is not empty is an error.
 *
 * @public
 */
export type PolicyScope<Raw = unknown> =
  | "global"
  | "route"
  | "client"
  | ((request: AdmissionRequest<Raw>) => string | undefined | Promise<string | undefined>);

/**
 * One limit that requests have to pass.
 *
 * @public
 */
export interface Policy<Raw = unknown> {
  /** Its name in responses and statistics: printable ASCII, 1 to 64 characters, different from those of the other policies. */
  readonly name: string;
  /**
   * What decides. A limiter, for the scope `global`; it stays the caller's. A partitioned limiter of keys; it stays the
   * caller's, too. Or a function that makes the limiter of a key when there is none: the admission owns those, and drops
   * what has been idle.
   */
  readonly limiter: RateLimiter | PartitionedRateLimiter<string> | ((key: string) => RateLimiter);
  /** Whether it limits how much runs at the same time, or how much is started over time. */
  readonly kind: "concurrency" | "rate";
  /** What is counted apart; `global` by default. */
  readonly scope?: PolicyScope<Raw> | undefined;
  /** How many permits a request needs; 1 by default. */
  readonly permits?: number | ((request: AdmissionRequest<Raw>) => number) | undefined;
  /** Whether the policy applies to a request; it does by default. */
  readonly when?: ((request: AdmissionRequest<Raw>) => boolean) | undefined;
  /** How long a request may wait for this policy, in milliseconds; as long as the limiter lets it by default. */
  readonly queueTimeoutMs?: number | undefined;
  /**
   * How much of the limit each priority may fill, from above 0 to 1; all of it where nothing is said. A request whose priority
   * has its share filled is refused with `priority_shed`, and never waits unless its share is 1: the rest is kept free for what
   * matters more.
   */
  readonly priorityShares?: Readonly<Record<string, number>> | undefined;
  /** Whether and how clients are told of the limit; rates are by default, concurrency is not. */
  readonly advertise?: boolean | AdvertisedQuota | undefined;
  /**
   * The most keys with a limiter of their own at the same time, where the admission makes the limiters; 100 000 by default.
   * Strangers choose the keys of most scopes, so there is always a bound.
   */
  readonly maxPartitions?: number | undefined;
  /**
   * What a new key gets for which there is no room. `share`, the default: all of them share one limiter; an attacker with many
   * addresses slows newcomers down, honest ones too, but nobody who has a limiter already. `reject`: a refusal with
   * `partition_overflow`; an attacker can then shut newcomers out.
   */
  readonly overflow?: "share" | "reject" | undefined;
  /** Whether to let everything through and only count what would have been refused or made to wait; false by default. */
  readonly shadow?: boolean | undefined;
  /** What refusals of this policy look like, where they differ from the admission's `reject`. */
  readonly reject?: RejectOptions | undefined;
}

const POLICY_OPTION_NAMES = [
  "name",
  "limiter",
  "kind",
  "scope",
  "permits",
  "when",
  "queueTimeoutMs",
  "priorityShares",
  "advertise",
  "maxPartitions",
  "overflow",
  "shadow",
  "reject",
];
const MAX_PARTITIONS = 100_000;
const GLOBAL_KEY = "global";
/** Printable ASCII without a space at the ends. */
const NAME = /^[!-~](?:[ -~]{0,62}[!-~])?$/;

/** A policy, checked, and ready to be asked. */
export class PolicyGate<Raw> {
  readonly name: string;
  readonly isRate: boolean;
  readonly scope: PolicyScope<Raw>;
  readonly when: Policy<Raw>["when"];
  readonly permits: number | ((request: AdmissionRequest<Raw>) => number);
  readonly maxWaitMs: number | undefined;
  readonly isShadow: boolean;
  readonly shares: ReadonlyMap<string, number> | undefined;
  readonly fields: FieldPolicy | undefined;
  /** For want of permits. */
  readonly #refusal: RefusalTemplate;
  /** For another reason, which says nothing about how much the client has used. */
  readonly #unavailable: RefusalTemplate;
  /** Whether a wait can be given up only through a signal. */
  needsSignal: boolean;
  readonly #single: RateLimiter | undefined;
  readonly #keyed: PartitionedRateLimiter<string> | undefined;
  readonly #owned: (RateLimiter | PartitionedRateLimiter<string>) | undefined;
  readonly #seen = {} as LimiterSnapshot;
  wouldHaveShed = 0;
  wouldHaveWaited = 0;

  /** @param label - What to call the policy in complaints. */
  constructor(
    policy: Policy<Raw>,
    label: string,
    defaults: { reject: RejectOptions | undefined; clock: Clock; priorities: readonly string[] },
  ) {
    checkPolicy(policy, label, defaults.priorities);
    const { name, kind, scope = GLOBAL_KEY, limiter, advertise = kind === "rate", priorityShares } = policy;
    this.name = name;
    this.isRate = kind === "rate";
    this.scope = scope;
    this.when = policy.when;
    this.permits = policy.permits ?? 1;
    this.maxWaitMs = policy.queueTimeoutMs;
    this.isShadow = policy.shadow === true;
    this.shares = priorityShares === undefined ? undefined : new Map(Object.entries(priorityShares));
    this.fields =
      advertise === false
        ? undefined
        : new FieldPolicy(name, advertise === true ? {} : advertise, this.isRate);
    const reject = mergeRejectOptions(defaults.reject, policy.reject);
    const isQuota = this.isRate && (scope === "client" || typeof scope === "function");
    this.#refusal = new RefusalTemplate(reject, { policy: name, isRate: this.isRate, isQuota });
    this.#unavailable = this.isRate
      ? new RefusalTemplate(mergeRejectOptions({ message: "Temporarily unavailable" }, reject), {
          policy: name,
          isRate: false,
          isQuota: false,
        })
      : this.#refusal;
    const seesShadow = {
      onRejected: ({ wouldHaveWaited }: { wouldHaveWaited: boolean }) => this.#note(wouldHaveWaited),
    };
    const shadow = (one: RateLimiter) => (this.isShadow ? shadowed(one, seesShadow) : one);
    // What limiters of keys are like is not known before one is there, or at all.
    this.needsSignal = true;
    if (limiter instanceof RateLimiter) {
      this.#single = shadow(limiter);
    } else if (limiter instanceof PartitionedRateLimiter) {
      this.#keyed = limiter;
    } else if (scope === GLOBAL_KEY) {
      this.#single = shadow(limiter(GLOBAL_KEY));
      this.#owned = this.#single;
    } else {
      const { maxPartitions = MAX_PARTITIONS, overflow = "share" } = policy;
      let isForeign = false;
      const make = (key: string) => {
        const one: InsideLimiter = shadow(limiter(key));
        isForeign ||= one[inside] === undefined;
        this.needsSignal = isForeign;
        return one;
      };
      this.#keyed = PartitionedRateLimiter.create((key: string) => RateLimitPartition.get(key, make), {
        maxPartitions,
        overflow,
        clock: defaults.clock,
      });
      this.#owned = this.#keyed;
    }
    const single: InsideLimiter | undefined = this.#single;
    if (single !== undefined) this.needsSignal = single[inside] === undefined;
  }

  /** What a refusal for this reason looks like. */
  refusalFor(reason: RejectionReason): RefusalTemplate {
    return reason === "limit_reached" || reason.startsWith("queue_") ? this.#refusal : this.#unavailable;
  }

  /** Asks for permits: a lease when the answer is known, else a ticket, and the sink is told. */
  ask(
    key: string,
    permits: number,
    options: AcquireOptions,
    sink: AcquireSink,
  ): RateLimitLease | AcquireTicket {
    if (this.#single !== undefined) return requestWith(this.#single, permits, options, sink);
    const keyed = this.#keyed as PartitionedRateLimiter<string>;
    if (!this.isShadow || this.#owned !== undefined)
      return requestForWith(keyed, key, permits, options, sink);
    const one = shadowed(keyed.forResource(key), {
      onRejected: ({ wouldHaveWaited }) => this.#note(wouldHaveWaited),
    });
    return requestWith(one, permits, options, sink);
  }

  /** Counts a refusal that a shadow does not pass on: for a key without room, a full share, or a count above the limit. */
  noteShadow(): void {
    this.#note(false);
  }

  #note(wouldHaveWaited: boolean): void {
    if (wouldHaveWaited) this.wouldHaveWaited += 1;
    else this.wouldHaveShed += 1;
  }

  /** Whether so much of the limit is in use that this share of it is filled. */
  isFilled(key: string, share: number): boolean {
    const limiter: InsideLimiter =
      this.#single ?? (this.#keyed as PartitionedRateLimiter<string>).forResource(key);
    const seen = this.#seen;
    if (limiter[inside]?.snapshot(seen) !== true) return false;
    return seen.permitLimit - seen.available >= Math.max(1, Math.floor(share * seen.permitLimit));
  }

  /** How the limiter of a key stands; undefined when it does not tell. */
  statistics(key: string): RateLimiterStatistics | undefined {
    try {
      if (this.#single !== undefined) return this.#single.getStatistics();
      const keyed = this.#keyed as PartitionedRateLimiter<string> & {
        peekStatistics?(key: string): RateLimiterStatistics | undefined;
      };
      return keyed.peekStatistics === undefined ? keyed.getStatistics(key) : keyed.peekStatistics(key);
    } catch {
      // It is told of a refusal, which a broken limiter must not stop.
      return undefined;
    }
  }

  dispose(): void {
    this.#owned?.dispose();
  }
}

function checkPolicy<Raw>(policy: Policy<Raw>, label: string, priorities: readonly string[]): void {
  checkOptionNames(policy, POLICY_OPTION_NAMES, label);
  const { name, limiter, kind, scope = GLOBAL_KEY, permits, when, queueTimeoutMs, priorityShares } = policy;
  if (typeof name !== "string" || !NAME.test(name)) {
    throw wrongType(`${label}.name`, "1 to 64 printable ASCII characters", name);
  }
  checkChoice(`${label}.kind`, kind, ["concurrency", "rate"]);
  if (typeof scope !== "function" && !["global", "route", "client"].includes(scope)) {
    throw wrongType(`${label}.scope`, '"global", "route", "client" or a function', scope);
  }
  const isSingle = limiter instanceof RateLimiter;
  if (!isSingle && !(limiter instanceof PartitionedRateLimiter)) {
    const allowed = "a RateLimiter, a PartitionedRateLimiter or a function that makes the limiter of a key";
    if (typeof limiter !== "function") throw wrongType(`${label}.limiter`, allowed, limiter);
  }
  if (isSingle && scope !== GLOBAL_KEY) {
    throw new TypeError(
      `${label}.limiter is one limiter, which cannot count ${typeof scope === "function" ? "keys" : `each ${scope}`} ` +
        "apart: pass a function that makes the limiter of a key, or a PartitionedRateLimiter.",
    );
  }
  if (permits !== undefined && typeof permits !== "function") checkInteger(`${label}.permits`, permits, 0);
  if (when !== undefined) checkFunction(`${label}.when`, when);
  if (queueTimeoutMs !== undefined) checkDuration(`${label}.queueTimeoutMs`, queueTimeoutMs);
  if (priorityShares !== undefined)
    checkShares(limiter, priorityShares, `${label}.priorityShares`, priorities);
  const { advertise, maxPartitions, overflow, shadow, reject } = policy;
  if (advertise !== undefined && typeof advertise !== "boolean")
    checkAdvertised(advertise, `${label}.advertise`);
  const makesPartitions = typeof limiter === "function" && scope !== GLOBAL_KEY;
  for (const [option, value] of Object.entries({ maxPartitions, overflow })) {
    if (value === undefined || makesPartitions) continue;
    throw new TypeError(`${label}.${option} is for scopes with keys whose limiters are made by a function.`);
  }
  if (maxPartitions !== undefined) checkInteger(`${label}.maxPartitions`, maxPartitions, 1);
  if (overflow !== undefined) checkChoice(`${label}.overflow`, overflow, ["share", "reject"]);
  if (shadow !== undefined) checkBoolean(`${label}.shadow`, shadow);
  if (reject !== undefined) checkRejectOptions(reject, `${label}.reject`);
}

function checkShares(
  limiter: unknown,
  shares: Readonly<Record<string, number>>,
  label: string,
  priorities: readonly string[],
): void {
  checkOptionNames(shares, priorities, label);
  const fits = (share: number) => share > 0 && share <= 1;
  for (const [priority, share] of Object.entries(shares)) {
    checkNumber(`${label}.${priority}`, share, "a number above 0, up to 1", fits);
  }
  if (limiter instanceof RateLimiter && (limiter as InsideLimiter)[inside] === undefined) {
    throw new TypeError(`${label} needs a limiter of this library, which tells how much of it is in use.`);
  }
}

function checkAdvertised(advertised: AdvertisedQuota, label: string): void {
  checkOptionNames(advertised, ["quota", "windowSeconds", "unit"], label);
  const { quota, windowSeconds, unit } = advertised;
  if (quota !== undefined) checkInteger(`${label}.quota`, quota, 0);
  if (windowSeconds !== undefined) checkInteger(`${label}.windowSeconds`, windowSeconds, 0);
  if (unit !== undefined)
    checkChoice(`${label}.unit`, unit, ["requests", "content-bytes", "concurrent-requests"]);
}
