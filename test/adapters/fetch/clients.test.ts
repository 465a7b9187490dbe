import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import Anthropic from "@anthropic-ai/sdk";
import { Octokit } from "@octokit/core";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  type RateLimiter,
  RateLimitRejectedError,
  TokenBucketRateLimiter,
} from "headgate";
import { type FetchLike, type FetchLimiterOptions, forSdk, withRateLimiter } from "headgate/fetch";
import ky from "ky";
import OpenAI from "openai";
import createOpenapiClient from "openapi-fetch";
import Stripe from "stripe";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

/** How many requests the server handles at the same time, and how many in all. */
const AT_ONCE = 3;
let quota: number;

// Its types do not compile with exactOptionalPropertyTypes; this hides them.
const supabase: string = "@supabase/supabase-js";
const { createClient } = (await import(supabase)) as {
  createClient(
    url: string,
    key: string,
    options: object,
  ): { from(table: string): { select(): PromiseLike<{ data: unknown; error: Error | null }> } };
};

let server: Server;
let port: number;
let served: number;
let refused: number;
let running: number;
/** What the server answers to everything instead, with a body. */
let failWith: number | undefined;

function send(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { "content-type": "application/json", ...headers });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}

/** What the vendor of a client answers. */
function answerOf(path: string): unknown {
  if (path.includes("/chat/completions")) {
    return {
      id: "c",
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }],
      usage: { prompt_tokens: 10, completion_tokens: 30, total_tokens: 40 },
    };
  }
  if (path.includes("/messages")) {
    return {
      id: "m",
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: "hi" }],
      usage: { input_tokens: 10, output_tokens: 30 },
    };
  }
  if (path.includes("/customers")) return { id: "cus_1", object: "customer" };
  if (path.includes("/rest/v1/")) return [{ id: 1 }];
  return { id: 1 };
}

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url ?? "";
  let body = "";
  for await (const piece of request.setEncoding("utf8")) body += piece;
  if (failWith !== undefined) {
    send(response, failWith, { error: { message: "broken" } }, { "retry-after": "0" });
    return;
  }
  if (running >= AT_ONCE || served >= quota) {
    refused += 1;
    const headers = { "retry-after": "0", "x-should-retry": "false" };
    send(response, 429, { error: { message: "too many requests" } }, headers);
    return;
  }
  served += 1;
  if (!body.includes('"stream":true')) {
    running += 1;
    await new Promise((resolve) => setTimeout(resolve, 5));
    running -= 1;
    send(response, 200, answerOf(path));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  while (!response.destroyed) {
    response.write(
      `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta: { content: "more" } }] })}\n\n`,
    );
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

beforeAll(async () => {
  server = createServer(
    (request, response) => void handle(request, response).catch(() => response.destroy()),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  served = 0;
  refused = 0;
  running = 0;
  failWith = undefined;
  quota = Number.POSITIVE_INFINITY;
});

interface Client {
  readonly name: string;
  /** Makes the client, with its own settings for retries; returns its simplest call. */
  make(fetch: FetchLike): () => Promise<unknown>;
  /** What a user gets to see of a refusal, as an error or as a result. */
  readonly shownAs: (failure: unknown) => unknown;
  /** What `forSdk` needs to have this client call once. */
  readonly status?: number;
}

const url = () => `http://127.0.0.1:${port}`;
const message = (failure: unknown) => (failure as Error).message;

const clients: readonly Client[] = [
  {
    name: "openai",
    make(fetch) {
      const client = new OpenAI({ apiKey: "key", baseURL: `${url()}/v1`, fetch });
      return () =>
        client.chat.completions.create({ model: "m", messages: [{ role: "user", content: "hello" }] });
    },
    shownAs: (failure) => {
      expect(failure).toBeInstanceOf(OpenAI.RateLimitError);
      return message(failure);
    },
  },
  {
    name: "@anthropic-ai/sdk",
    make(fetch) {
      const client = new Anthropic({ apiKey: "key", baseURL: url(), fetch });
      return () =>
        client.messages.create({
          model: "m",
          max_tokens: 10,
          messages: [{ role: "user", content: "hello" }],
        });
    },
    shownAs: (failure) => {
      expect(failure).toBeInstanceOf(Anthropic.RateLimitError);
      return message(failure);
    },
  },
  {
    name: "stripe",
    make(fetch) {
      const client = new Stripe("sk_test_1", {
        httpClient: Stripe.createFetchHttpClient(fetch),
        host: "127.0.0.1",
        port,
        protocol: "http",
        telemetry: false,
      });
      return () => client.customers.retrieve("cus_1");
    },
    shownAs: (failure) => {
      expect(failure).toBeInstanceOf(Stripe.errors.StripeRateLimitError);
      return message(failure);
    },
  },
  {
    name: "@octokit/core",
    make(fetch) {
      const client = new Octokit({ baseUrl: url(), request: { fetch } });
      return () => client.request("GET /user");
    },
    shownAs: (failure) => {
      expect(failure).toMatchObject({ name: "HttpError", status: 429 });
      return message(failure);
    },
  },
  {
    name: "openapi-fetch",
    make(fetch) {
      const client = createOpenapiClient<{
        "/user": { get: { responses: { 200: { content: { "application/json": { id: number } } } } } };
      }>({ baseUrl: url(), fetch });
      return async () => {
        const { data, error, response } = await client.GET("/user");
        if (error !== undefined) throw Object.assign(new Error((error as Error).message), { response });
        return data;
      };
    },
    shownAs: (failure) => {
      expect(failure).toMatchObject({ response: { status: 429 } });
      return message(failure);
    },
  },
  {
    name: "ky",
    make(fetch) {
      const client = ky.create({ prefixUrl: url(), fetch });
      return () => client.get("user").json();
    },
    shownAs: message,
    status: 420,
  },
  {
    name: "@supabase/supabase-js",
    make(fetch) {
      // The transport is for its web sockets, which Node 20 has none of.
      const client = createClient(url(), "key", {
        global: { fetch },
        realtime: { transport: class {} },
        auth: { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false },
      });
      return async () => {
        const { data, error } = await client.from("items").select();
        if (error !== null) throw error;
        return data;
      };
    },
    shownAs: message,
  },
];

/** A wrapped fetch that counts how often it is called, and how often it calls the host's. */
function counting(limiter: RateLimiter, options?: FetchLimiterOptions) {
  const counts = { calls: 0, sent: 0 };
  const limited = withRateLimiter(
    (input, init) => {
      counts.sent += 1;
      return fetch(input, init);
    },
    limiter,
    options,
  );
  const gated: FetchLike = (input, init) => {
    counts.calls += 1;
    return limited(input, init);
  };
  return { counts, limited, gated };
}

describe.each(clients)("$name", ({ make, shownAs, status }) => {
  it("works, and its calls see no 429 when the limiter is set to the server's limit", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: AT_ONCE, queueLimit: 100 });
    const { counts, limited, gated } = counting(limiter, { onRejected: forSdk() });
    const call = make(gated);
    const results = await Promise.all(Array.from({ length: 30 }, call));
    expect(results).not.toContain(undefined);
    await limited.drain();
    expect({ served, refused, ...counts }).toEqual({ served: 30, refused: 0, calls: 30, sent: 30 });
  });

  it("leaves a quota that is used up to the limiter, which is set to the same", async () => {
    quota = 10;
    const limiter = new FixedWindowRateLimiter({ permitLimit: 10, windowMs: 3_600_000 });
    const { counts, gated } = counting(limiter, {
      onRejected: forSdk(status === undefined ? {} : { status }),
    });
    const call = make(gated);
    let failures = 0;
    for (let i = 0; i < 12; i++) await call().catch(() => (failures += 1));
    expect({ served, refused, failures, ...counts }).toEqual({
      served: 10,
      refused: 0,
      failures: 2,
      calls: 12,
      sent: 10,
    });
  });

  it.each([500, 429])("leaves no lease behind when the server answers %s", async (code) => {
    failWith = code;
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 });
    const { counts, limited, gated } = counting(limiter);
    const call = make(gated);
    await call().catch(() => {});
    expect(counts.sent).toBeGreaterThan(0);
    expect(limited.getStatistics()).toMatchObject({ active: 0, waiting: 0 });
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
    failWith = undefined;
    expect(await call()).toBeDefined();
    await limited.drain();
  });

  it("sees 429 answers without a limiter", async () => {
    const call = make(fetch);
    await Promise.all(Array.from({ length: 2 * AT_ONCE }, () => call().catch(() => {})));
    expect(refused).toBeGreaterThan(0);
  });

  it("calls once when it is shed with forSdk, and shows a message that says why", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    const { counts, gated, limited } = counting(limiter, {
      onRejected: forSdk(status === undefined ? {} : { status }),
    });
    const call = make(gated);
    using _held = limiter.attemptAcquire();
    const failure = await call().then(
      () => undefined,
      (error: unknown) => error,
    );
    expect(shownAs(failure)).toMatch(/the rate limit has been reached/);
    expect({ ...counts, served }).toEqual({ calls: 1, sent: 0, served: 0 });
    expect(limited.getStatistics()).toMatchObject({ totalRejected: 1, active: 0, waiting: 0 });
  });
});

it("most clients try a thrown refusal again", async () => {
  const tries = await Promise.all(
    clients.map(async ({ name, make }) => {
      const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
      using _held = limiter.attemptAcquire();
      const { counts, gated } = counting(limiter);
      await expect(make(gated)()).rejects.toBeDefined();
      expect(counts.sent).toBe(0);
      return [name, counts.calls];
    }),
  );
  // docs/fetch.md shows these numbers.
  expect(Object.fromEntries(tries)).toEqual({
    openai: 3,
    "@anthropic-ai/sdk": 3,
    stripe: 3,
    "@octokit/core": 1,
    "openapi-fetch": 1,
    ky: 3,
    "@supabase/supabase-js": 4,
  });
});

it("openai tries a thrown refusal again, and does not take it for a time-out", async () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
  const { counts, gated } = counting(limiter);
  const client = new OpenAI({ apiKey: "key", baseURL: `${url()}/v1`, fetch: gated });
  using _held = limiter.attemptAcquire();
  const failure: unknown = await client.models.list().then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(failure).toBeInstanceOf(OpenAI.APIConnectionError);
  expect(failure).not.toBeInstanceOf(OpenAI.APIConnectionTimeoutError);
  expect((failure as Error).cause).toSatisfy(RateLimitRejectedError.is);
  expect(counts).toEqual({ calls: 3, sent: 0 });
});

it("octokit shows a thrown refusal as the cause", async () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
  const { counts, gated } = counting(limiter);
  using _held = limiter.attemptAcquire();
  const failure: unknown = await new Octokit({ baseUrl: url(), request: { fetch: gated } })
    .request("GET /user")
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  expect(failure).toMatchObject({ status: 500 });
  expect((failure as Error).cause).toSatisfy(RateLimitRejectedError.is);
  expect(counts).toEqual({ calls: 1, sent: 0 });
});

it("leaving a stream of openai frees its place for the next one", async () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
  const { gated, limited } = counting(limiter);
  const client = new OpenAI({ apiKey: "key", baseURL: `${url()}/v1`, fetch: gated });
  for (let i = 0; i < 2; i++) {
    const stream = await client.chat.completions.create({
      model: "m",
      messages: [{ role: "user", content: "hello" }],
      stream: true,
    });
    expect(limiter.getStatistics().currentAvailablePermits).toBe(0);
    for await (const event of stream) {
      expect(event.choices[0]?.delta.content).toBe("more");
      break;
    }
    await limited.drain();
    expect(limiter.getStatistics().currentAvailablePermits).toBe(1);
  }
});

it("openai's own time-out takes its call out of the queue", async () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
  const { counts, gated, limited } = counting(limiter);
  const client = new OpenAI({
    apiKey: "key",
    baseURL: `${url()}/v1`,
    fetch: gated,
    timeout: 50,
    maxRetries: 0,
  });
  const held = limiter.attemptAcquire();
  await expect(client.models.list()).rejects.toBeInstanceOf(OpenAI.APIConnectionTimeoutError);
  expect(limited.getStatistics()).toMatchObject({ waiting: 0, totalAborted: 1 });
  held.dispose();
  expect(counts).toEqual({ calls: 1, sent: 0 });
});

it("tokens that openai reports are what a call costs", async () => {
  const limiter = new TokenBucketRateLimiter({
    tokenLimit: 1000,
    tokensPerPeriod: 1,
    replenishmentPeriodMs: 3_600_000,
  });
  const limited = withRateLimiter(fetch, limiter, {
    permits: ({ init }) => Math.ceil(String(init?.body).length / 4) + 300,
    actualPermits: async (response) =>
      ((await response.json()) as { usage?: { total_tokens?: number } }).usage?.total_tokens,
  });
  const client = new OpenAI({ apiKey: "key", baseURL: `${url()}/v1`, fetch: limited });
  await client.chat.completions.create({ model: "m", messages: [{ role: "user", content: "hello" }] });
  await limited.drain();
  expect(limiter.getStatistics().currentAvailablePermits).toBe(960);
});

it("a stream that is left keeps its estimate charged, and holds nothing", async () => {
  const limiter = new TokenBucketRateLimiter({
    tokenLimit: 1000,
    tokensPerPeriod: 1,
    replenishmentPeriodMs: 3_600_000,
  });
  const limited = withRateLimiter(fetch, limiter, {
    permits: 300,
    actualPermits: async (response) => (await response.text()).length,
  });
  const client = new OpenAI({ apiKey: "key", baseURL: `${url()}/v1`, fetch: limited });
  const stream = await client.chat.completions.create({
    model: "m",
    messages: [{ role: "user", content: "hello" }],
    stream: true,
  });
  for await (const _event of stream) break;
  await limited.drain();
  expect(limiter.getStatistics().currentAvailablePermits).toBe(700);
});

it("openai and anthropic hand the limits of a single call on", async () => {
  const limiter = new ConcurrencyLimiter({ permitLimit: 3 });
  const limited = withRateLimiter(fetch, limiter);
  const clients = [
    new OpenAI({ apiKey: "key", baseURL: url(), fetch: limited }),
    new Anthropic({ apiKey: "key", baseURL: url(), fetch: limited }),
  ];
  // Its type has no such member.
  const fetchOptions: object = { headgate: { permits: 3 } };
  for (const client of clients) {
    const response = await client.get("/v1/models", { fetchOptions }).asResponse();
    expect(limiter.getStatistics().currentAvailablePermits).toBe(0);
    await response.text();
    expect(limiter.getStatistics().currentAvailablePermits).toBe(3);
  }
});
