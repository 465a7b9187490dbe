import type { Admission, MountOptions } from "headgate/http";
import { guard, type NodeRequest, NodeRequestView, type NodeResponse } from "../node-guard.js";

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

/**
 * The pattern of what a router is mounted on. Express tells what the client has sent, in whatever case, and with what parameters
 * stand for; those that it also tells are put back. Otherwise a client would get a key of its own for each spelling.
 */
function patternOfBase(baseUrl: string, params: unknown, path: string): string {
  let base = baseUrl.toLowerCase();
  try {
    base = decodeURIComponent(base);
  } catch {
    // It stays as it was sent.
  }
  const own = [...path.matchAll(/[:*]"?([\w$]+)/g)].map((match) => match[1]);
  for (const [name, value] of Object.entries(params ?? {})) {
    const sent = `/${[value].flat().join("/").toLowerCase()}`;
    const at = `${base}/`.lastIndexOf(`${sent}/`);
    if (at < 0 || sent === "/" || own.includes(name)) continue;
    base = `${base.slice(0, at)}/:${name}${base.slice(at + sent.length)}`;
  }
  return base;
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
 *
 * @public
 */
export function expressAdmission<Request extends ExpressRequestLike>(
  admission: Admission<Request>,
  options: MountOptions = {},
): (request: Request, response: ExpressResponseLike, next: (error?: unknown) => void) => void {
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
