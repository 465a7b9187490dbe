import { checkInteger, checkOptionNames } from "../../src/internal.js";
import type { OutgoingRequest } from "./outgoing-request.js";
import { answeredHere, type FetchRejection, why } from "./rejection.js";

/**
 * Options of {@link forSdk}.
 *
 * @public
 */
export interface ForSdkOptions {
  /**
   * The status of the answer, from 400 to 599; 429 by default. For clients that make every 429 again whatever it says, such
   * as ky: take one that they leave alone, such as 420.
   */
  readonly status?: number | undefined;
}

/**
 * Answers calls that the limiter refused in the place of the server, in a way that SDKs take for a refusal and leave at that:
 * for the option `onRejected` of `withRateLimiter`.
 *
 * An error thrown by `fetch` looks like a broken connection to an SDK, so it tries again, and asks the limiter again. This
 * answer says 429, and tells the clients of OpenAI, Anthropic and Stripe in their own headers not to try again. Its JSON body
 * has the message where they and others look for it: `error.message`, and `message`. `Retry-After` is there when it is
 * known, in whole seconds. The header `headgate-rejected` has the reason, and tells it from an answer of the server.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { forSdk, withRateLimiter } from "headgate/fetch";
 *
 * const limiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 100 });
 * const limitedFetch = withRateLimiter(fetch, limiter, { onRejected: forSdk() });
 * ```
 *
 * @param options - The status.
 * @returns A function for `onRejected`.
 * @throws TypeError or RangeError when an option is not what it should be.
 *
 * @public
 */
export function forSdk(
  options: ForSdkOptions = {},
): (rejection: FetchRejection, request: OutgoingRequest) => Response {
  checkOptionNames(options, ["status"]);
  const { status = 429 } = options;
  checkInteger("options.status", status, 400, 599);
  return ({ reason, retryAfterMs, message }, request) => {
    const headers = new Headers({
      // Not application/problem+json, which the client of GitHub does not read as JSON.
      "content-type": "application/json",
      "cache-control": "no-store",
      "x-should-retry": "false",
      "stripe-should-retry": "false",
      "headgate-rejected": reason ?? "unknown",
    });
    if (retryAfterMs !== undefined) {
      headers.set("retry-after", String(Math.max(1, Math.ceil(retryAfterMs / 1000))));
    }
    const error = { message, type: "rate_limit_error", code: "headgate_rejected", reason };
    const body = request.method === "HEAD" ? null : JSON.stringify({ status, message, error });
    // Clients that show nothing of the body, such as ky, show the status text.
    const response = new Response(body, { status, statusText: `Not sent: ${why(reason)}`, headers });
    Object.defineProperty(response, "url", { value: urlOf(request), configurable: true });
    answeredHere.add(response);
    return response;
  };
}

function urlOf(request: OutgoingRequest): string {
  try {
    const { url } = request;
    // As `fetch` would show it; it takes no addresses with a name and a password.
    url.hash = "";
    url.username = "";
    url.password = "";
    return url.href;
  } catch {
    return "";
  }
}
