import type { Admission, MountOptions } from "headgate/http";
import { checkMount } from "../admission.js";
import {
  decision,
  type NodeRequest,
  NodeRequestView,
  type NodeResponse,
  writeRefusal,
} from "../node-guard.js";

/**
 * What is asked of a context of Koa 3.
 *
 * @public
 */
export interface KoaContextLike {
  readonly req: object;
  readonly res: object;
  readonly originalUrl: string;
  respond?: boolean | undefined;
}

class KoaRequestView<Context extends KoaContextLike> extends NodeRequestView<Context> {
  override get route(): string | undefined {
    // @koa/router leaves the pattern here.
    const route = (this.raw as { readonly _matchedRoute?: unknown })._matchedRoute;
    return typeof route === "string" ? route : undefined;
  }

  protected override get target(): string {
    return this.raw.originalUrl;
  }
}

/**
 * Middleware for Koa 3: for the whole application, or mounted on a route.
 *
 * A refused request is answered, and nothing after this runs; it is no error, so `app.on("error")` is not told. What a function of the
 * admission's options throws is thrown.
 *
 * @example
 * ```ts no-check
 * import { concurrencyLimit } from "headgate/http";
 * import { koaAdmission } from "headgate/http/koa";
 * import Koa from "koa";
 *
 * const app = new Koa();
 * app.use(koaAdmission(concurrencyLimit({ maxConcurrent: 100, maxQueue: 50, queueTimeoutMs: 2000 })));
 * app.use((context) => {
 *   context.body = "hello";
 * });
 * ```
 *
 * @param admission - What decides.
 * @param options - How this mount applies it.
 * @throws TypeError when an option, or the name of a policy, is not known.
 *
 * @public
 */
export function koaAdmission<Context extends KoaContextLike>(
  admission: Admission<Context>,
  options: MountOptions = {},
): (context: Context, next: () => Promise<unknown>) => Promise<void> {
  checkMount(admission, options);
  return async (context, next) => {
    const response = context.res as NodeResponse;
    const view = new KoaRequestView(context, context.req as NodeRequest, response, options.policies);
    const decided = await decision(admission, view);
    if (decided === "gone" || "refusal" in decided) {
      // Koa would answer what has been answered, or nobody.
      context.respond = false;
      if (decided !== "gone") await writeRefusal(response, decided.refusal);
      return;
    }
    const work = next();
    decided.passage?.noteWork(work);
    await work;
  };
}
