import type { LeaseOutcome, RejectionReason } from "headgate";
import { checkChoice, checkInteger, checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";

import { wasRefused } from "./request-passages.js";

/**
 * What is known of a refused request.
 *
 * @public
 */
export interface Rejection {
  /** The name of the policy that refused; undefined when none was asked (a deadline, pressure, draining). */
  readonly policy: string | undefined;
  /** `global`, `route`, `client` or `function`; undefined when no policy refused. */
  readonly scope: string | undefined;
  /** Whose limit it was: the client's key, the route, what the scope function returned. It may hold personal data. */
  readonly key: string | undefined;
  /** Why. A concurrency limit says `queue_full` also where its queue has no places at all. */
  readonly reason: RejectionReason;
  /** Permits held when it was refused, by that key; of all requests when no policy refused. */
  readonly active: number;
  /** Permits waited for then, without the refused request's. */
  readonly queued: number;
  /** The limit in permits; undefined when it is not known. */
  readonly limit: number | undefined;
  /** How long the request had waited, in milliseconds. */
  readonly waitedMs: number;
  /** When to come back, in milliseconds, as the limiter says; undefined when it cannot tell. */
  readonly retryAfterMs: number | undefined;
  /** The status of the response. */
  readonly status: number;
  /** The priority of the request; undefined when there are none. */
  readonly priority: string | undefined;
  /** The request's method. */
  readonly method: string;
  /** The matched route; undefined where the framework has not told it. */
  readonly route: string | undefined;
}

/**
 * What a refusal looks like.
 *
 * @public
 */
export interface RejectOptions {
  /**
   * `auto`, the default: 429 when a rate limit of one client (or one key of a function) is used up, else 503, because 429 tells a
   * client that it has sent too much itself. Or a number from 400 to 599.
   */
  readonly status?: "auto" | number | undefined;
  /** The `Retry-After` when the limiter does not know better, in whole seconds; 1 by default, 0 leaves the header out then. */
  readonly retryAfterSeconds?: number | undefined;
  /**
   * Spreads `Retry-After`, so that those refused together do not come back together: a random number of seconds from 0 to
   * `ratio` times the base (0.5 by default), at least `minSeconds` (1 by default), is added. Nothing is ever subtracted. False adds
   * nothing.
   */
  readonly retryAfterJitter?:
    | false
    | { readonly ratio?: number | undefined; readonly minSeconds?: number | undefined }
    | undefined;
  /**
   * `problem+json`, the default, is RFC 9457 problem details; `text` the message alone; `none` nothing. A function makes the whole
   * response; `Retry-After` and `Cache-Control: no-store` are added where it leaves them out.
   */
  readonly body?:
    | "problem+json"
    | "text"
    | "none"
    | ((rejection: Rejection) => Response | Promise<Response>)
    | undefined;
  /** The text for people; `Concurrency limit exceeded` or `Rate limit exceeded` by default. */
  readonly message?: string | undefined;
  /** The `type` of the problem details, a URI; that of the IETF's draft for quotas or for reduced capacity by default. */
  readonly problemType?: string | undefined;
}

const OPTION_NAMES = ["status", "retryAfterSeconds", "retryAfterJitter", "body", "message", "problemType"];
/** The greatest integer of structured fields. */
export const MAX_FIELD_INTEGER = 999_999_999_999_999;

export function checkRejectOptions(options: RejectOptions, name: string): void {
  checkOptionNames(options, OPTION_NAMES, name);
  const { status, retryAfterSeconds, retryAfterJitter, body, message, problemType } = options;
  if (status !== undefined && status !== "auto") checkInteger(`${name}.status`, status, 400, 599);
  if (retryAfterSeconds !== undefined) {
    checkInteger(`${name}.retryAfterSeconds`, retryAfterSeconds, 0, MAX_FIELD_INTEGER);
  }
  if (retryAfterJitter !== undefined && retryAfterJitter !== false) {
    const jitter = `${name}.retryAfterJitter`;
    checkOptionNames(retryAfterJitter, ["ratio", "minSeconds"], jitter);
    const { ratio, minSeconds } = retryAfterJitter;
    const fits = (n: number) => n >= 0 && n <= 10;
    if (ratio !== undefined) checkNumber(`${jitter}.ratio`, ratio, "a number from 0 to 10", fits);
    if (minSeconds !== undefined) checkInteger(`${jitter}.minSeconds`, minSeconds, 0, 86_400);
  }
  if (body !== undefined && typeof body !== "function") {
    checkChoice(`${name}.body`, body, ["problem+json", "text", "none"]);
  }
  for (const [option, value] of Object.entries({ message, problemType })) {
    if (value !== undefined && typeof value !== "string")
      throw wrongType(`${name}.${option}`, "a string", value);
  }
}

/** The later options, and the earlier ones where those say nothing. */
export function mergeRejectOptions(
  general: RejectOptions | undefined,
  special: RejectOptions | undefined,
): RejectOptions {
  const given = Object.entries(special ?? {}).filter(([, value]) => value !== undefined);
  return { ...general, ...Object.fromEntries(given) };
}

const PROBLEM_TYPES = "https://iana.org/assignments/http-problem-types#";

/**
 * All that a refusal says which does not differ from one to the next. Made once per policy: shedding must not spend what it
 * protects.
 */
export class RefusalTemplate {
  readonly status: number;
  readonly retryAfterSeconds: number;
  /** The text of the body; undefined for none. */
  readonly body: string | undefined;
  /** The fields that are always the same, as pairs of name and value. */
  readonly fields: readonly (readonly [string, string])[];
  /** Makes the whole response, if the user wants to. */
  readonly custom: ((rejection: Rejection) => Response | Promise<Response>) | undefined;
  readonly #jitter: RejectOptions["retryAfterJitter"];

  /** @param isQuota - Whether it refuses because one client has used up its quota, and not for want of capacity. */
  constructor(
    options: RejectOptions,
    { policy, isQuota, isRate }: { policy?: string; isQuota: boolean; isRate: boolean },
  ) {
    const { status = "auto", body = "problem+json" } = options;
    this.status = status === "auto" ? (isQuota ? 429 : 503) : status;
    this.retryAfterSeconds = options.retryAfterSeconds ?? 1;
    this.#jitter = options.retryAfterJitter ?? {};
    const message = options.message ?? (isRate ? "Rate limit exceeded" : "Concurrency limit exceeded");
    const fields: [string, string][] = [["cache-control", "no-store"]];
    if (body === "none" || typeof body === "function") {
      this.body = undefined;
      fields.push(["content-length", "0"]);
    } else {
      const isJson = body === "problem+json";
      this.body = isJson
        ? JSON.stringify({
            type:
              options.problemType ??
              PROBLEM_TYPES + (isRate ? "quota-exceeded" : "temporary-reduced-capacity"),
            title: isRate ? "Quota used up" : "Too busy at the moment",
            status: this.status,
            detail: message,
            "violated-policies": policy === undefined ? [] : [policy],
          })
        : message;
      fields.push(
        ["content-type", isJson ? "application/problem+json" : "text/plain; charset=utf-8"],
        ["content-length", String(new TextEncoder().encode(this.body).length)],
      );
    }
    this.fields = fields;
    this.custom = typeof body === "function" ? body : undefined;
  }

  /**
   * The value of `Retry-After` in seconds; undefined when the field is to be left out.
   *
   * @param knownMs - When to come back, as far as the limiter knows.
   */
  retryAfter(
    knownMs: number | undefined,
    random: () => number,
    fallbackSeconds: number = this.retryAfterSeconds,
  ): number | undefined {
    const isKnown = knownMs !== undefined && Number.isFinite(knownMs) && knownMs >= 0;
    if (!isKnown && fallbackSeconds === 0) return undefined;
    const known = isKnown ? Math.ceil(knownMs / 1000) : fallbackSeconds;
    const base = Math.max(1, known);
    return Math.min(MAX_FIELD_INTEGER, base + this.#spread(base, random));
  }

  #spread(base: number, random: () => number): number {
    if (this.#jitter === false || this.#jitter === undefined) return 0;
    const { ratio = 0.5, minSeconds = 1 } = this.#jitter;
    return Math.floor(random() * (Math.max(minSeconds, Math.round(base * ratio)) + 1));
  }
}

/** A refusal on its way to the client. */
export interface Refusal {
  readonly status: number;
  readonly fields: readonly (readonly [string, string])[];
  readonly body: string | undefined;
  /** In place of all of the above, if the user makes the response. */
  readonly custom: (() => Promise<Response>) | undefined;
}

/**
 * How a request went whose response has been sent. A refusal by an admission further in says nothing about how busy the handler is;
 * if it did, a client that runs into its own limit would make an adaptive limiter in front shrink for everybody.
 */
export function outcomeOfStatus({ identity }: { readonly identity: object }, status: number): LeaseOutcome {
  if (status < 429) return "success";
  if (status === 429 || status === 503) return wasRefused(identity) ? "ignored" : "dropped";
  return status < 500 ? "success" : "failure";
}

/** The refusal as a response of the Web standard. */
export function responseOf(refusal: Refusal, method: string): Response | Promise<Response> {
  if (refusal.custom !== undefined) return refusal.custom();
  const body = method === "HEAD" ? null : (refusal.body ?? null);
  return new Response(body, { status: refusal.status, headers: refusal.fields as [string, string][] });
}
