import type { Admission, MountOptions } from "headgate/http";
import { checkMount, decided, gateOf, serve } from "../admission.js";
import { WebRequestView } from "../admission-request.js";
import { decision, type NodeRequest, NodeRequestView, type NodeResponse } from "../node-guard.js";
import { type Refusal, responseOf } from "../rejection.js";
import type { HonoContextLike, HonoRouteLike } from "./hono-like.js";

export type { HonoContextLike, HonoRouteLike };

/** The pattern of the handler; undefined when only middleware for everything has matched. */
function routeOf({ req }: HonoContextLike): string | undefined {
  const last = req.matchedRoutes?.at(-1);
  return last === undefined || (last.method === "ALL" && last.path.endsWith("*")) ? undefined : last.path;
}

class HonoNodeView<Context extends HonoContextLike> extends NodeRequestView<Context> {
  override get route(): string | undefined {
    return routeOf(this.raw);
  }
}

class HonoWebView<Context extends HonoContextLike> extends WebRequestView<Context> {
  override get route(): string | undefined {
    return routeOf(this.raw);
  }
}

/**
 * Middleware for Hono 4, on every host. On Node, by `@hono/node-server`, it watches the response of node:http; elsewhere the response's
 * body.
 *
 * A refused request is answered, and nothing after this runs. What a function of the admission's options throws goes to
 * `app.onError`.
 *
 * @example
 * ```ts
 * import { Hono } from "hono";
 * import { concurrencyLimit } from "headgate/http";
 * import { honoAdmission } from "headgate/http/hono";
 *
 * const app = new Hono();
 * app.use(honoAdmission(concurrencyLimit({ maxConcurrent: 100, maxQueue: 50, queueTimeoutMs: 2000 })));
 * app.get("/hello", (context) => context.text("hello"));
 * ```
 *
 * @param admission - What decides.
 * @param options - How this mount applies it.
 * @throws TypeError when an option, or the name of a policy, is not known.
 *
 * @public
 */
export function honoAdmission<Context extends HonoContextLike>(
  admission: Admission<Context>,
  options: MountOptions = {},
): (context: Context, next: () => Promise<void>) => Promise<Response | undefined> {
  checkMount(admission, options);
  const { policies } = options;
  return async (context, next) => {
    const request = context.req.raw;
    const node = context.env as
      | { readonly incoming?: NodeRequest; readonly outgoing?: NodeResponse }
      | undefined;
    if (node?.incoming !== undefined && typeof node.outgoing?.writableFinished === "boolean") {
      const view = new HonoNodeView(context, node.incoming, node.outgoing, policies);
      const answer = await decision(admission, view);
      if (answer === "gone") return new Response(null, { status: 499 });
      if ("refusal" in answer) return responseOf(answer.refusal, request.method);
      const work = next();
      answer.passage?.noteWork(work);
      await work;
      return undefined;
    }
    const passage = gateOf(admission).begin(new HonoWebView(context, request, { policies }));
    await decided(passage, request.signal);
    switch (passage.progress) {
      case "gone":
        return new Response(null, { status: 499 });
      case "failed":
        throw passage.error;
      case "refused":
        return responseOf(passage.refusal as Refusal, request.method);
      case "exempt":
        await next();
        return undefined;
    }
    const response = await serve(passage, request.signal, async () => {
      await next();
      return context.res;
    });
    if (response === context.res) return undefined;
    // Hono would put the headers of the old response over those of the new one.
    (context as { res: Response | undefined }).res = undefined;
    context.res = response;
    return undefined;
  };
}
