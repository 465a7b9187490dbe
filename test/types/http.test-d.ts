import type { RequestListener } from "node:http";
import type express from "express";
import type { FastifyPluginCallback } from "fastify";
import {
  type Admission,
  type AdmitResult,
  concurrencyLimit,
  createAdmission,
  type Rejection,
  rateLimit,
} from "headgate/http";
import { expressAdmission } from "headgate/http/express";
import { type FastifyAdmissionOptions, fastifyAdmission } from "headgate/http/fastify";
import { honoAdmission } from "headgate/http/hono";
import { nodeListener } from "headgate/http/node";
import type { Context, MiddlewareHandler } from "hono";
import { describe, expectTypeOf, it } from "vitest";

describe("types of headgate/http", () => {
  it("tell scope functions what the framework calls the request", () => {
    const admission = concurrencyLimit<express.Request>({
      maxConcurrent: 1,
      scope: ({ raw }) => {
        expectTypeOf(raw).toEqualTypeOf<express.Request>();
        return raw.get("x-tenant");
      },
    });
    expectTypeOf(admission).toEqualTypeOf<Admission<express.Request>>();
    // @ts-expect-error Express's requests are not those of the Web standard.
    admission.wrap(() => new Response());
    // @ts-expect-error nor Hono's contexts.
    honoAdmission<Context>(admission);
  });

  it("fit the frameworks", () => {
    const any = concurrencyLimit({ maxConcurrent: 1 });
    expectTypeOf(expressAdmission<express.Request>(any)).toExtend<express.RequestHandler>();
    expectTypeOf(honoAdmission<Context>(any)).toExtend<MiddlewareHandler>();
    expectTypeOf(fastifyAdmission).toExtend<FastifyPluginCallback<FastifyAdmissionOptions>>();
    expectTypeOf(nodeListener(any, (_, response) => response.end("x"))).toExtend<RequestListener>();
  });

  it("tell what an admission decides", async () => {
    const admission = createAdmission<Request>({ policies: [] });
    const answer = await admission.admit(new Request("http://localhost"));
    expectTypeOf(answer).toEqualTypeOf<AdmitResult>();
    if (answer.admitted) expectTypeOf(answer.headers).toEqualTypeOf<Headers>();
    else if (!answer.gone) expectTypeOf(answer.rejection).toEqualTypeOf<Rejection>();
  });

  it("keep wrapped handlers' other arguments", () => {
    const handler = concurrencyLimit<Request>({ maxConcurrent: 1 }).wrap(
      (request: Request, env: { name: string }) => new Response(request.url + env.name),
      (_, env) => ({ route: env.name }),
    );
    expectTypeOf(handler).parameters.toEqualTypeOf<[request: Request, env: { name: string }]>();
  });

  it("know the options", () => {
    // @ts-expect-error maxConcurrent is required
    concurrencyLimit({});
    // @ts-expect-error so is the window
    rateLimit({ limit: 5 });
    // @ts-expect-error no such scope
    concurrencyLimit({ maxConcurrent: 1, scope: "clients" });
  });
});
