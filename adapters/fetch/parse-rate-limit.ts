import { type BareItem, type List, parseDictionary, parseList, Token } from "structured-headers";
import { checkChoice } from "../../src/internal.js";
import { dateOf, trim } from "./parse-retry-after.js";

/**
 * One quota, as a server tells of it.
 *
 * @public
 */
export interface ServerQuota {
  /** What the server calls it; empty in the forms that have no names. */
  readonly name: string;
  /** How many requests, or whatever the server counts, are left. */
  readonly remaining: number;
  /** Milliseconds until there are more again; undefined when the server does not say. */
  readonly resetMs: number | undefined;
  /** How many there are in a window; undefined when the server does not say. */
  readonly quota: number | undefined;
  /** How long a window is, in milliseconds; undefined when the server does not say. */
  readonly windowMs: number | undefined;
}

/**
 * How a server writes what is left.
 *
 * - `ratelimit`: the list of the IETF draft since its version 8: `RateLimit: "default";r=50;t=30`, with
 *   `RateLimit-Policy: "default";q=100;w=60`. The names `a` and `w`, which are proposed for `r` and `t`, are read too.
 * - `ratelimit-draft6`: what the draft had before: `RateLimit: limit=100, remaining=50, reset=30`, or three headers
 *   `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`.
 * - `x-ratelimit`: `X-RateLimit-Remaining` and `X-RateLimit-Reset`. The reset is a number of seconds, a moment in seconds
 *   since 1970, or one in milliseconds: no time of day is as small as a span, so the size tells.
 *
 * @public
 */
export type RateLimitFormat = "ratelimit" | "ratelimit-draft6" | "x-ratelimit";

/** A number of a structured field that may be a count: they have up to 15 digits. */
function count(value: BareItem | undefined): number | undefined {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}

/** A header that is digits only, and no more than a structured field allows. */
function digits(value: string | null): number | undefined {
  const text = trim(value ?? "");
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

function toMs(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.min(seconds * 1000, Number.MAX_SAFE_INTEGER);
}

/** A member's parameters by name, or undefined when one that is there is not a count. */
function counts(parameters: ReadonlyMap<string, BareItem>, names: readonly string[]): number[] | undefined {
  const found = names.filter((name) => parameters.has(name)).map((name) => count(parameters.get(name)));
  return found.includes(undefined) ? undefined : (found as number[]);
}

/** The members of a list that are items with a name; nothing when the field is not a proper list. */
function members(field: string | null): [name: string, parameters: ReadonlyMap<string, BareItem>][] {
  if (field === null) return [];
  let list: List;
  try {
    list = parseList(field);
  } catch {
    return [];
  }
  return list.flatMap(([item, parameters]) =>
    typeof item === "string" || item instanceof Token ? [[item.toString(), parameters] as const] : [],
  ) as [string, ReadonlyMap<string, BareItem>][];
}

function fromList(headers: Pick<Headers, "get">): ServerQuota[] {
  const quotas = members(headers.get("ratelimit"));
  if (quotas.length === 0) return [];
  const policies = new Map(members(headers.get("ratelimit-policy")));
  return quotas.flatMap(([name, parameters]) => {
    const remaining = counts(parameters, ["r", "a"]);
    const reset = counts(parameters, ["t", "w"]);
    if (remaining === undefined || remaining[0] === undefined || reset === undefined) return [];
    const policy = policies.get(name);
    return [
      {
        name,
        remaining: remaining[0],
        resetMs: toMs(reset[0]),
        quota: count(policy?.get("q")),
        windowMs: toMs(count(policy?.get("w"))),
      },
    ];
  });
}

/** A quota without a name. */
function unnamed(
  remaining: number | undefined,
  resetMs: number | undefined,
  quota: number | undefined,
): ServerQuota[] {
  return remaining === undefined ? [] : [{ name: "", remaining, resetMs, quota, windowMs: undefined }];
}

function fromDraft6(headers: Pick<Headers, "get">): ServerQuota[] {
  const field = headers.get("ratelimit");
  if (field !== null) {
    try {
      const dictionary = parseDictionary(field);
      const value = (name: string) => count(dictionary.get(name)?.[0] as BareItem | undefined);
      return unnamed(value("remaining"), toMs(value("reset")), value("limit"));
    } catch {
      return [];
    }
  }
  const [quota, remaining, reset] = ["limit", "remaining", "reset"].map((name) =>
    digits(headers.get(`ratelimit-${name}`)),
  );
  return unnamed(remaining, toMs(reset), quota);
}

/** A span below this many seconds (31 years); a moment in seconds up to the next (the year 5138); else in milliseconds. */
const FIRST_MOMENT_S = 1e9;
const FIRST_MOMENT_MS = 1e11;

function fromX(headers: Pick<Headers, "get">, now: number): ServerQuota[] {
  const [quota, remaining, reset] = ["limit", "remaining", "reset"].map((name) =>
    digits(headers.get(`x-ratelimit-${name}`)),
  );
  let resetMs = toMs(reset);
  if (reset !== undefined && reset >= FIRST_MOMENT_S) {
    const moment = reset >= FIRST_MOMENT_MS ? reset : reset * 1000;
    resetMs = Math.max(moment - dateOf(headers.get("date"), now), 0);
  }
  return unnamed(remaining, resetMs, quota);
}

/**
 * Reads what a server says is left. What is malformed is left out, and is never 0.
 *
 * @example
 * ```ts
 * import { parseRateLimit } from "headgate/fetch";
 *
 * const response = await fetch("https://vendor.example/items");
 * for (const { name, remaining, resetMs } of parseRateLimit(response.headers)) {
 *   console.log(`${name}: ${remaining} left, more in ${resetMs} ms`);
 * }
 * ```
 *
 * @param headers - The headers of a response, or anything that has them by name.
 * @param format - How this server writes it; `ratelimit` by default.
 * @returns The quotas in the server's order; empty when it says nothing that can be read.
 * @throws TypeError when `format` is not one of the three.
 *
 * @public
 */
export function parseRateLimit(
  headers: Pick<Headers, "get">,
  format: RateLimitFormat = "ratelimit",
): readonly ServerQuota[] {
  checkChoice("format", format, ["ratelimit", "ratelimit-draft6", "x-ratelimit"]);
  if (format === "ratelimit") return fromList(headers);
  return format === "ratelimit-draft6" ? fromDraft6(headers) : fromX(headers, Date.now());
}
