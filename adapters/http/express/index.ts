import type { Admission, MountOptions } from "headgate/http";
import { checkMount } from "../admission.js";
import { guard, type NodeRequest, NodeRequestView, type NodeResponse } from "../node-guard.js";
import { patternOfBase } from "./mount-pattern.js";

/**
 * What is asked of a request of Express 4 or 5.
 *
 * @public
 */
export interface ExpressRequestLike {
  readonly method: string;
  readonly originalUrl: string;
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly socket: object;
  /** What the parameters of the route stand for. */
  readonly params?: unknown;
  /** The route, where the middleware is mounted on one. */
  readonly route?: unknown;
}

/**
 * What is asked of a response of Express 4 or 5.
 *
 * @public
 */
export interface ExpressResponseLike {
  readonly headersSent: boolean;
  on(event: "close" | "finish", listener: () => void): unknown;
}

class ExpressRequestView<Request extends ExpressRequestLike> extends NodeRequestView<Request> {
  override get route(): string | undefined {
    const { baseUrl, params, route } = this.raw;
    const { path } = (route ?? {}) as { readonly path?: unknown };
    return path === undefined ? undefined : patternOfBase(baseUrl, params, String(path)) + String(path);
  }

  protected override get target(): string {
    return this.raw.originalUrl;
  }
}

/**
 * Middleware for Express 4 and 5: for the whole application, a router, or one route, whose pattern is then known to the scope `route`.
 *
 * A refused request is answered, and nothing after this runs. What a function of the admission's options throws goes to the error
 * handlers. Where the response has begun already, it does nothing.
 *
 * @example
 * ```ts
 * import express from "express";
 * import { concurrencyLimit } from "headgate/http";
 * import { expressAdmission } from "headgate/http/express";
 *
 * const app = express();
 * const reports = concurrencyLimit({ maxConcurrent: 4, maxQueue: 20, queueTimeoutMs: 5000 });
 * app.get("/reports/:id", expressAdmission(reports), (request, response) => {
 *   response.send(`report ${request.params["id"]}`);
 * });
 * ```
 *
 * @param admission - What decides.
 * @param options - How this mount applies it.
 * @throws TypeError when an option, or the name of a policy, is not known.
 *
 * @public
 */
export function expressAdmission<Request extends ExpressRequestLike>(
  admission: Admission<Request>,
  options: MountOptions = {},
): (request: Request, response: ExpressResponseLike, next: (error?: unknown) => void) => void {
  checkMount(admission, options);
  return (request, response, next) => {
    if (response.headersSent) {
      next();
      return;
    }
    const view = new ExpressRequestView(
      request,
      request as NodeRequest,
      response as NodeResponse,
      options.policies,
    );
    guard(admission, view, { admitted: () => next(), failed: next });
  };
}
