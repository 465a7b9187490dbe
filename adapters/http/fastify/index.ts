import type { Admission } from "headgate/http";
import { gateOf } from "../admission.js";
import { checkPolicies } from "../admission-request.js";
import { guard, type NodeRequest, NodeRequestView, type NodeResponse } from "../node-guard.js";
import type { FastifyLike, FastifyReplyLike, FastifyRequestLike, FastifyRouteLike } from "./fastify-like.js";
import { sendRefusal } from "./send-refusal.js";

export type { FastifyRequestLike };

/**
 * Options of {@link fastifyAdmission}.
 *
 * @public
 */
export interface FastifyAdmissionOptions<Request extends FastifyRequestLike = FastifyRequestLike> {
  /** What decides. */
  readonly admission: Admission<Request>;
  /** When: `onRequest` by default, before the body is read; `preHandler` where keys need what other hooks find out. */
  readonly hook?: "onRequest" | "preHandler" | undefined;
}

class FastifyRequestView<Request extends FastifyRequestLike> extends NodeRequestView<Request> {
  override get route(): string | undefined {
    return this.raw.routeOptions.url;
  }

  protected override get target(): string {
    return this.raw.originalUrl;
  }
}

/**
 * A plugin for Fastify 5, for the instance that registers it. `config: { headgate: ["name"] }` of a route names the policies that
 * apply besides those of scope `global`; `config: { headgate: false }` leaves the route alone.
 *
 * @example
 * ```ts
 * import fastify from "fastify";
 * import { concurrencyLimit } from "headgate/http";
 * import { fastifyAdmission } from "headgate/http/fastify";
 *
 * const app = fastify();
 * const admission = concurrencyLimit({ maxConcurrent: 100, maxQueue: 50, queueTimeoutMs: 2000 });
 * await app.register(fastifyAdmission, { admission });
 * app.get("/hello", async () => "hello");
 * ```
 *
 * @public
 */
export function fastifyAdmission<Request extends FastifyRequestLike>(
  instance: object,
  options: FastifyAdmissionOptions<Request>,
  done: (error?: Error) => void,
): void {
  const { admission, hook = "onRequest" } = options;
  const fastify = instance as FastifyLike;
  fastify.addHook(hook, (request: Request, reply: FastifyReplyLike, next: (error?: Error) => void) => {
    const { headgate } = (request.routeOptions.config ?? {}) as { headgate?: false | readonly string[] };
    const raw = request.raw as NodeRequest;
    const view = new FastifyRequestView(request, raw, reply.raw as NodeResponse, headgate);
    guard(admission, view, {
      admitted: () => next(),
      failed: (error) => next(error as Error),
      refused: (refusal) => void sendRefusal(reply, refusal).catch(next),
    });
  });
  const gate = gateOf(admission);
  fastify.addHook("onRoute", (route: FastifyRouteLike) => {
    const { handler, config } = route;
    checkPolicies(config?.headgate, gate.policies, "config.headgate");
    if (!gate.holdsHandler) return;
    // The hook does not see how long a handler works; the handler itself does.
    route.handler = function (request, ...rest) {
      const work = handler.call(this, request, ...rest);
      gate.passageOf(request.raw)?.noteWork(work);
      return work;
    };
  });
  done();
}

// What fastify-plugin says, too: its hooks are for whoever registers it, and not for a child of its own.
Object.assign(fastifyAdmission, {
  [Symbol.for("skip-override")]: true,
  [Symbol.for("fastify.display-name")]: "headgate",
});
