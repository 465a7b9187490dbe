import {
  checkChoice,
  checkFunction,
  checkInteger,
  checkNumber,
  checkOptionNames,
  wrongType,
} from "../../src/internal.js";
import { parseRateLimit, type RateLimitFormat } from "./parse-rate-limit.js";
import { parseRetryAfter, trim } from "./parse-retry-after.js";

/**
 * Where a wrapped `fetch` looks for how long a server wants to be left alone.
 *
 * - `retry-after`: seconds, or a date; see `parseRetryAfter`. Only with the statuses of `retryAfterStatuses`.
 * - `retry-after-ms`: milliseconds, a header that some vendors send besides. Only with the same statuses.
 * - `ratelimit`, `ratelimit-draft6`, `x-ratelimit`: see `RateLimitFormat`. With any status: when one of the quotas has nothing
 *   left, until that one is reset. Not from caches (`Age` above 0).
 * - A function: gets the headers, the status and the present in milliseconds since 1970, and returns milliseconds to wait, or
 *   undefined. For what vendors invent, such as `x-ratelimit-reset-tokens: 6m0s`.
 *
 * @public
 */
export type ServerHintSource =
  | "retry-after"
  | "retry-after-ms"
  | RateLimitFormat
  | ((headers: Headers, status: number, now: number) => number | undefined);

/**
 * How a wrapped `fetch` takes a server's hints.
 *
 * @public
 */
export interface ServerHintOptions {
  /** Where to look; the first that says something counts. `["retry-after", "ratelimit"]` by default. */
  readonly sources?: readonly ServerHintSource[] | undefined;
  /** The statuses with which `Retry-After` counts; 413, 429 and 503 by default. */
  readonly retryAfterStatuses?: readonly number[] | undefined;
  /** The longest pause, in milliseconds, before the jitter; 3 600 000 by default. Servers send nonsense too. */
  readonly maxHintMs?: number | undefined;
  /**
   * How much longer than it was told the pause may be, as a share of it; 0.1 by default. Each process takes a random part of
   * that, so that not all come back in the same instant. Never shorter than the server said.
   */
  readonly jitterRatio?: number | undefined;
  /** The longest jitter, in milliseconds; 30 000 by default. */
  readonly maxJitterMs?: number | undefined;
  /** Where the jitter comes from: a number from 0 to below 1; `Math.random` by default. */
  readonly random?: (() => number) | undefined;
}

/**
 * What a wrapped `fetch` made of a server's hint.
 *
 * @public
 */
export interface ServerHint {
  /** Where it was found; `custom` for a function. */
  readonly source: "retry-after" | "retry-after-ms" | RateLimitFormat | "custom";
  /** The status of the response. */
  readonly status: number;
  /** What the server asked for, in milliseconds. */
  readonly delayMs: number;
  /** For how long the limiter was paused, in milliseconds, jitter included; 0 when it was not. */
  readonly pauseMs: number;
  /** What was thrown when the limiter could not be paused; undefined when it could, and when there was nothing to do. */
  readonly error: unknown;
}

const SOURCES = ["retry-after", "retry-after-ms", "ratelimit", "ratelimit-draft6", "x-ratelimit"];
const OPTION_NAMES = ["sources", "retryAfterStatuses", "maxHintMs", "jitterRatio", "maxJitterMs", "random"];

function checkList(name: string, value: unknown, checkMember: (name: string, member: unknown) => void): void {
  if (!Array.isArray(value)) throw wrongType(name, "an array", value);
  for (const [i, member] of value.entries()) checkMember(`${name}[${i}]`, member);
}

/** A pause in milliseconds that is a proper number; what a function or a server made up may be anything. */
function proper(delayMs: unknown): number | undefined {
  if (typeof delayMs !== "number" || !(delayMs >= 0)) return undefined;
  return Math.min(delayMs, Number.MAX_SAFE_INTEGER);
}

/** Reads hints as the options say. */
export class HintReader {
  readonly #sources: readonly ServerHintSource[];
  readonly #statuses: ReadonlySet<number>;
  readonly #maxHintMs: number;
  readonly #jitterRatio: number;
  readonly #maxJitterMs: number;
  readonly #random: () => number;

  constructor(options: ServerHintOptions) {
    checkOptionNames(options, OPTION_NAMES, "options.serverHints");
    const {
      sources = ["retry-after", "ratelimit"],
      retryAfterStatuses = [413, 429, 503],
      maxHintMs = 3_600_000,
      jitterRatio = 0.1,
      maxJitterMs = 30_000,
      random = Math.random,
    } = options;
    const prefix = "options.serverHints";
    checkList(`${prefix}.sources`, sources, (name, source) => {
      if (typeof source !== "function") checkChoice(name, source, SOURCES);
    });
    checkList(`${prefix}.retryAfterStatuses`, retryAfterStatuses, (name, status) =>
      checkInteger(name, status, 100, 599),
    );
    const atLeast0 = (n: number) => n >= 0 && Number.isFinite(n);
    const span = "a finite number of milliseconds of at least 0";
    checkNumber(`${prefix}.maxHintMs`, maxHintMs, span, atLeast0);
    checkNumber(`${prefix}.jitterRatio`, jitterRatio, "a finite number of at least 0", atLeast0);
    checkNumber(`${prefix}.maxJitterMs`, maxJitterMs, span, atLeast0);
    checkFunction(`${prefix}.random`, random);
    this.#sources = [...sources];
    this.#statuses = new Set(retryAfterStatuses);
    this.#maxHintMs = maxHintMs;
    this.#jitterRatio = jitterRatio;
    this.#maxJitterMs = maxJitterMs;
    this.#random = random;
  }

  /** Looks for a hint; when there is one, has the limiter paused for as long as it asks for. */
  apply({ headers, status }: Response, pause: (durationMs: number) => void): ServerHint | undefined {
    for (const source of this.#sources) {
      const delayMs = this.#read(source, headers, status);
      if (delayMs === undefined) continue;
      const name = typeof source === "function" ? "custom" : source;
      const pauseMs = this.#lengthen(Math.min(delayMs, this.#maxHintMs));
      if (pauseMs === 0) return { source: name, status, delayMs, pauseMs, error: undefined };
      try {
        pause(pauseMs);
      } catch (error) {
        return { source: name, status, delayMs, pauseMs: 0, error };
      }
      return { source: name, status, delayMs, pauseMs, error: undefined };
    }
    return undefined;
  }

  #read(source: ServerHintSource, headers: Headers, status: number): number | undefined {
    if (typeof source === "function") return proper(source(headers, status, Date.now()));
    if (source === "retry-after" || source === "retry-after-ms") {
      const value = this.#statuses.has(status) ? headers.get(source) : null;
      if (value === null) return undefined;
      if (source === "retry-after") return parseRetryAfter(value, { date: headers.get("date") });
      return /^\d+(\.\d+)?$/.test(trim(value)) ? proper(Number(trim(value))) : undefined;
    }
    let longest: number | undefined;
    for (const { remaining, resetMs } of parseRateLimit(headers, source)) {
      if (remaining === 0 && resetMs !== undefined) longest = Math.max(longest ?? 0, resetMs);
    }
    // What a cache kept was true when the answer was made.
    return longest !== undefined && Number(headers.get("age") ?? 0) > 0 ? undefined : longest;
  }

  #lengthen(pauseMs: number): number {
    const share = Math.min(Math.max(this.#random(), 0), 1);
    const jitterMs = share * Math.min(pauseMs * this.#jitterRatio, this.#maxJitterMs);
    return pauseMs + (Number.isFinite(jitterMs) ? jitterMs : 0);
  }
}
