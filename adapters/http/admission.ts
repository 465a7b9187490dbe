/// <reference lib="esnext.disposable" preserve="true" />
import type { LeaseOutcome } from "headgate";
import { checkBoolean, checkFunction, checkOptionNames, outcomeOfError } from "../../src/internal.js";
import { AdmissionGate } from "./admission-gate.js";
import type { Admission, AdmissionOptions, AdmissionStatistics, AdmitResult } from "./admission-options.js";
import {
  type ConnectionInfo,
  checkPolicies,
  type MountOptions,
  WebRequestView,
} from "./admission-request.js";
import { isUntouchable, watchBody } from "./held-body.js";
import type { AdmissionLease, Passage } from "./passage.js";
import { outcomeOfStatus, responseOf } from "./rejection.js";

/** Leads from an admission to what the bindings use of it. */
export let gateOf: <Raw>(admission: Admission<Raw>) => AdmissionGate<Raw>;

/** Checks the options of a mount. */
export function checkMount<Raw>(admission: Admission<Raw>, options: MountOptions): void {
  checkOptionNames(options, ["policies"]);
  checkPolicies(options.policies, gateOf(admission).policies, "options.policies");
}

class DefaultAdmission<Raw> implements Admission<Raw> {
  static {
    gateOf = <Raw>(admission: Admission<Raw>) => (admission as DefaultAdmission<Raw>).#gate;
  }

  readonly #gate: AdmissionGate<Raw>;

  constructor(options: AdmissionOptions<Raw>) {
    this.#gate = new AdmissionGate(options);
  }

  async admit(
    this: DefaultAdmission<Request>,
    request: Request,
    connection: ConnectionInfo = {},
  ): Promise<AdmitResult> {
    checkPolicies(connection.policies, this.#gate.policies, "connection.policies");
    const passage = this.#gate.begin(new WebRequestView(request, request, connection), true);
    await decided(passage, connection.signal ?? request.signal);
    const { refusal, rejection } = passage;
    switch (passage.progress) {
      case "gone":
      // The client has left in the very turn of the grant, which has gone back.
      case "released":
        return { admitted: false, gone: true };
      case "failed":
        throw passage.error;
      case "refused":
        if (refusal === undefined || rejection === undefined) break;
        return {
          admitted: false,
          gone: false,
          rejection,
          response: await responseOf(refusal, request.method),
        };
    }
    return { admitted: true, lease: passage, headers: new Headers(passage.fieldsFor(200, () => undefined)) };
  }

  wrap<Rest extends unknown[]>(
    this: DefaultAdmission<Request>,
    handler: (request: Request, ...rest: Rest) => Response | Promise<Response>,
    connection: (request: Request, ...rest: Rest) => ConnectionInfo = () => ({}),
  ): (request: Request, ...rest: Rest) => Promise<Response> {
    checkFunction("handler", handler);
    checkFunction("connection", connection);
    const gate = this.#gate;
    return async (request, ...rest) => {
      const known = connection(request, ...rest);
      checkPolicies(known.policies, gate.policies, "connection.policies");
      const view = new WebRequestView(request, request, known);
      const passage = gate.begin(view);
      if (passage.isPending) await decided(passage, view.signal);
      switch (passage.progress) {
        case "exempt":
          return handler(request, ...rest);
        case "held":
          return serve(passage, view.signal, () => handler(request, ...rest));
        case "failed":
          throw passage.error;
        case "refused":
          return responseOf(passage.refusal as NonNullable<typeof passage.refusal>, request.method);
        default:
          // Nobody is there to read it.
          return new Response(null, { status: 499 });
      }
    };
  }

  leaseOf(request: object): AdmissionLease | undefined {
    const passage = this.#gate.passageOf(request);
    return passage === undefined || !["held", "released"].includes(passage.progress) ? undefined : passage;
  }

  getStatistics(): AdmissionStatistics {
    return this.#gate.statistics();
  }

  drain(options: { readonly reject?: boolean | undefined } = {}): Promise<void> {
    checkOptionNames(options, ["reject"]);
    if (options.reject !== undefined) checkBoolean("options.reject", options.reject);
    if (options.reject === true) this.#gate.isDraining = true;
    return this.#gate.whenQuiet();
  }

  dispose(): void {
    this.#gate.dispose();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain({ reject: true });
    this.dispose();
  }
}

/** Waits for the decision, or for the client to leave. */
export async function decided<Raw>(passage: Passage<Raw>, signal: AbortSignal): Promise<void> {
  if (!passage.isPending) return;
  const leave = () => passage.leave();
  signal.addEventListener("abort", leave, { once: true });
  try {
    await new Promise<void>((resolve) => passage.whenSettled(resolve));
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

/** Runs the handler, and gives the permits back when its response is over. */
export async function serve<Raw>(
  passage: Passage<Raw>,
  signal: AbortSignal,
  handler: () => Response | Promise<Response>,
): Promise<Response> {
  const leave = () => passage.leave();
  signal.addEventListener("abort", leave, { once: true });
  const end = (outcome: LeaseOutcome) => {
    signal.removeEventListener("abort", leave);
    passage.release(outcome);
  };
  let response: Response;
  try {
    const work = Promise.resolve(handler());
    passage.noteWork(work);
    response = await work;
  } catch (error) {
    end(outcomeOfError(error, signal));
    throw error;
  }
  const outcome = outcomeOfStatus(passage.view, response.status);
  const { body, status, statusText } = response;
  if (isUntouchable(response) || (body === null && !passage.hasFields)) {
    end(outcome);
    return response;
  }
  const headers = new Headers(response.headers);
  for (const [name, value] of passage.fieldsFor(status, (name) => headers.get(name) ?? undefined)) {
    headers.append(name, value);
  }
  // Hosts and frameworks drop the body of an answer to HEAD unread, and it would never end.
  if (body === null || passage.view.method === "HEAD") {
    end(outcome);
    body?.cancel().catch(() => {});
    return new Response(null, { status, statusText, headers });
  }
  const watched = watchBody(body, (how) => {
    if (how === "cancelled") passage.leave();
    end(how === "failed" ? "failure" : outcome);
  });
  return new Response(watched, { status, statusText, headers });
}

/**
 * Makes what stands between a server and its handlers: each request is let in, made to wait, or refused, by one policy after
 * another.
 *
 * A refusal is a complete response: 503, or 429 when one client has used up its rate, with a `Retry-After` that is spread at random, `no-store`,
 * and RFC 9457 problem details. What an admitted request holds goes back when its response has ended, in whichever way: sent, failed, cut
 * off by the client. A client that leaves while its request waits takes it out of the queue, and the handler never runs.
 *
 * An admission works on requests of the Web standard (`wrap`, `admit`); `headgate/http/node`, `/express`, `/fastify`, `/hono` and `/koa`
 * bind it to servers. The same admission, mounted twice, counts a request once; the `policies` of the mount that it meets first hold.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter, FixedWindowRateLimiter } from "headgate";
 * import { createAdmission } from "headgate/http";
 *
 * const perClient = { permitLimit: 100, windowMs: 60_000 };
 * const admission = createAdmission<Request>({
 *   client: { trustedProxies: ["10.0.0.0/8"] },
 *   policies: [
 *     { name: "per-client", kind: "rate", scope: "client", limiter: () => new FixedWindowRateLimiter(perClient) },
 *     { name: "all", kind: "concurrency", limiter: new ConcurrencyLimiter({ permitLimit: 200, queueLimit: 100 }) },
 *   ],
 * });
 *
 * export default { fetch: admission.wrap(async (request) => new Response(`hello ${request.url}`)) };
 * ```
 *
 * @param options - The policies, and what is said once for all of them.
 * @throws TypeError or RangeError when an option is not what it should be; it names the option, and what is allowed.
 *
 * @public
 */
export function createAdmission<Raw = unknown>(options: AdmissionOptions<Raw>): Admission<Raw> {
  return new DefaultAdmission<Raw>(options);
}
