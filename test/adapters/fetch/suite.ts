import {
  ConcurrencyLimiter,
  PartitionedRateLimiter,
  RateLimitPartition,
  RateLimitRejectedError,
  TokenBucketRateLimiter,
} from "headgate";
import { type FetchLimiterOptions, forSdk, type RateLimitedFetch, withRateLimiter } from "headgate/fetch";
import type { Seen } from "./server.js";

// Runs against a real server in Node, Chromium, Deno, Bun and workerd alike: no test runner, no module of a host, and
// nothing that only newer engines parse.

/** One behaviour: its name, and what shows it. */
export type Behaviour = readonly [name: string, show: (server: string) => Promise<void>];

function same(actual: unknown, expected: unknown, what: string): void {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: expected ${b}, got ${a}`);
}

let count = 0;
/** A name under which the server keeps what it has seen. */
const newId = () => `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}-${count++}`;

const seenBy = async (server: string, id: string): Promise<Seen> =>
  (await (await fetch(`${server}/seen?id=${id}`)).json()) as Seen;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks until the answer is the one. */
async function until(what: string, ask: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 500; i++) {
    if (await ask()) return;
    await sleep(10);
  }
  throw new Error(`it never came: ${what}`);
}

/** A fetch that lets one call through at a time, and its limiter. */
function one(options: FetchLimiterOptions = {}, queueLimit = 10) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit });
  return { limiter, limited: withRateLimiter((input, init) => fetch(input, init), limiter, options) };
}

/** Nothing is held any more, and the next call goes through. */
async function free(
  server: string,
  limited: RateLimitedFetch<never>,
  limiter: ConcurrencyLimiter,
): Promise<void> {
  same(limiter.getStatistics().currentAvailablePermits, 1, "free permits");
  const { active, heldBodies, waiting } = limited.getStatistics();
  same([active, heldBodies, waiting], [0, 0, 0], "active, held, waiting");
  same(await (await limited(`${server}/text`)).text(), "hello", "the next call");
  same(limiter.getStatistics().currentAvailablePermits, 1, "free permits after the next call");
}

async function failure(
  promise: Promise<unknown>,
): Promise<{ name: string; message: string } & Record<string, unknown>> {
  try {
    await promise;
  } catch (error) {
    return error as { name: string; message: string } & Record<string, unknown>;
  }
  throw new Error("it did not fail");
}

/** A way of reading a body to its end. */
const readers: Record<string, (response: Response) => Promise<unknown>> = {
  text: (response) => response.text(),
  arrayBuffer: (response) => response.arrayBuffer(),
  blob: (response) => response.blob(),
  pipeTo: (response) => (response.body as ReadableStream).pipeTo(new WritableStream()),
  "new Response": (response) => new Response(response.body).text(),
  "for await": async (response) => {
    const body = response.body as ReadableStream<Uint8Array> & AsyncIterable<Uint8Array>;
    if (typeof body[Symbol.asyncIterator] !== "function") return response.text();
    for await (const piece of body) void piece;
    return undefined;
  },
};

export const behaviours: readonly Behaviour[] = [
  [
    "takes strings, URLs and Requests, with any this",
    async (server) => {
      const { limited, limiter } = one();
      same(await (await limited(`${server}/text`)).text(), "hello", "a string");
      same(await (await limited(new URL(`${server}/text`))).text(), "hello", "a URL");
      same(await (await limited(new Request(`${server}/text`))).text(), "hello", "a Request");
      same(await (await limited.call({ a: 1 } as never, `${server}/text`)).text(), "hello", "a this");
      const init = { method: "POST", body: "abc" };
      same(await (await limited(`${server}/echo`, init)).text(), "abc", "a body");
      same(await (await limited(new Request(`${server}/echo`, init))).text(), "abc", "a Request with a body");
      await free(server, limited, limiter);
    },
  ],
  [
    "lets as many calls through at the same time as the limiter allows",
    async (server) => {
      const id = newId();
      const limiter = new ConcurrencyLimiter({ permitLimit: 2, queueLimit: 10 });
      const limited = withRateLimiter(fetch, limiter);
      const responses = await Promise.all(
        Array.from({ length: 6 }, async () => (await limited(`${server}/slow?ms=20&id=${id}`)).text()),
      );
      same(responses, Array(6).fill("slow"), "answers");
      const { requests, peak } = await seenBy(server, id);
      same([requests, peak <= 2], [6, true], "requests, and no more than 2 at a time");
    },
  ],
  ...Object.entries(readers).map(
    ([name, read]): Behaviour => [
      `holds the lease until the body has been read: ${name}`,
      async (server) => {
        const { limited, limiter } = one();
        const response = await limited(`${server}/pieces`);
        same(limiter.getStatistics().currentAvailablePermits, 0, "free permits after the headers");
        same(limited.getStatistics().heldBodies, 1, "held bodies");
        const body = await read(response);
        if (typeof body === "string") same(body, "piece 0;piece 1;piece 2;", "the body");
        same(response.bodyUsed, true, "bodyUsed");
        await free(server, limited, limiter);
      },
    ],
  ),
  [
    "parses JSON and forms as ever",
    async (server) => {
      const { limited, limiter } = one();
      same(await (await limited(`${server}/json`)).json(), { hello: "world" }, "JSON");
      same((await (await limited(`${server}/form`)).formData()).get("b"), "2", "a form");
      const response = await limited(`${server}/text`);
      same((await failure(response.json())).name, "SyntaxError", "malformed JSON");
      await free(server, limited, limiter);
    },
  ],
  [
    "gives the lease back when the body is cancelled, and the server stops",
    async (server) => {
      const { limited, limiter } = one();
      const ways: ((response: Response) => Promise<unknown>)[] = [
        (response) => (response.body as ReadableStream).cancel("enough"),
        async (response) => {
          const reader = (response.body as ReadableStream).getReader();
          await reader.read();
          await reader.cancel("enough");
        },
        async (response) => {
          const sink = new WritableStream({
            write() {
              throw new Error("full");
            },
          });
          await failure((response.body as ReadableStream).pipeTo(sink));
        },
      ];
      for (const way of ways) {
        const id = newId();
        await way(await limited(`${server}/endless?id=${id}`));
        await until("the server sees that it is over", async () => (await seenBy(server, id)).cut === 1);
        await free(server, limited, limiter);
      }
    },
  ],
  [
    "answers without a body come as they are, and hold nothing",
    async (server) => {
      const { limited, limiter } = one();
      for (const [path, method] of [
        ["/text", "HEAD"],
        ["/status?code=204", "GET"],
      ] as const) {
        const response = await limited(`${server}${path}`, { method });
        same(limiter.getStatistics().currentAvailablePermits, 1, `free permits after ${method} ${path}`);
        same(await response.text(), "", "the body");
      }
      await free(server, limited, limiter);
    },
  ],
  [
    "shows where redirects have led, also on clones",
    async (server) => {
      const { limited, limiter } = one();
      const direct = await fetch(`${server}/redirect`);
      await direct.text();
      const response = await limited(`${server}/redirect`);
      const copy = response.clone();
      const copyOfCopy = copy.clone();
      for (const it of [response, copy, copyOfCopy]) {
        same(it instanceof Response, true, "instanceof Response");
        same([it.url, it.redirected, it.type], [direct.url, true, direct.type], "url, redirected, type");
        same([it.status, it.ok, it.statusText], [200, true, direct.statusText], "status, ok, statusText");
      }
      same(
        await Promise.all([response.text(), copy.text(), copyOfCopy.text()]),
        Array(3).fill("hello"),
        "bodies",
      );
      await free(server, limited, limiter);
    },
  ],
  [
    "a clone that is read to the end gives the lease back, one that is cancelled does not",
    async (server) => {
      const { limited, limiter } = one();
      const read = await limited(`${server}/pieces`);
      same(await read.clone().text(), "piece 0;piece 1;piece 2;", "the clone");
      same(limiter.getStatistics().currentAvailablePermits, 1, "free permits after the clone was read");
      same(await read.text(), "piece 0;piece 1;piece 2;", "the original");

      const response = await limited(`${server}/endless`);
      const copy = response.clone();
      const cancelled = (copy.body as ReadableStream).cancel();
      await sleep(20);
      same(limiter.getStatistics().currentAvailablePermits, 0, "free permits while the other one is there");
      await Promise.all([cancelled, (response.body as ReadableStream).cancel()]);
      await free(server, limited, limiter);
    },
  ],
  [
    "fills buffers of readers that bring their own, where the host does",
    async (server) => {
      const { limited, limiter } = one();
      const response = await limited(`${server}/pieces`);
      const direct = await fetch(`${server}/text`);
      try {
        await (direct.body as ReadableStream).getReader({ mode: "byob" }).cancel();
      } catch {
        await direct.text();
        same(await response.text(), "piece 0;piece 1;piece 2;", "the body");
        await free(server, limited, limiter);
        return;
      }
      const reader = (response.body as ReadableStream).getReader({ mode: "byob" });
      let text = "";
      for (;;) {
        const { done, value } = await reader.read(new Uint8Array(5));
        if (done) break;
        text += new TextDecoder().decode(value);
      }
      same(text, "piece 0;piece 1;piece 2;", "the body");
      await free(server, limited, limiter);
    },
  ],
  [
    "a body that breaks off gives the lease back, and its reader the error",
    async (server) => {
      const { limited, limiter } = one();
      const response = await limited(`${server}/cut`);
      await failure(response.text());
      await free(server, limited, limiter);
    },
  ],
  [
    "an abort ends a call at every stage, and nothing stays behind",
    async (server) => {
      const { limited, limiter } = one();
      const reason = new Error("not any more");
      // Before it starts.
      const before = newId();
      same(
        (await failure(limited(`${server}/text?id=${before}`, { signal: AbortSignal.abort(reason) }))) ===
          (reason as never),
        true,
        "the signal's reason itself",
      );
      same((await seenBy(server, before)).requests, 0, "requests");
      await free(server, limited, limiter);
      // While it waits.
      const waiting = newId();
      const first = limited(`${server}/slow?ms=50`);
      const controller = new AbortController();
      const second = failure(limited(`${server}/text?id=${waiting}`, { signal: controller.signal }));
      const third = limited(`${server}/text`);
      same(limited.getStatistics().waiting, 2, "waiting calls");
      controller.abort(reason);
      same((await second) === (reason as never), true, "the signal's reason itself");
      same(limited.getStatistics().waiting, 1, "waiting calls");
      await (await first).text();
      same(await (await third).text(), "hello", "the call behind it");
      same((await seenBy(server, waiting)).requests, 0, "requests");
      await free(server, limited, limiter);
      // Before the headers.
      const slow = new AbortController();
      const running = failure(limited(`${server}/slow?ms=5000`, { signal: slow.signal }));
      setTimeout(() => slow.abort(), 20);
      same((await running).name, "AbortError", "the error of an abort before the headers");
      await free(server, limited, limiter);
      // While the body is read.
      const body = new AbortController();
      const response = await limited(`${server}/endless`, { signal: body.signal });
      const reading = failure(response.text());
      setTimeout(() => body.abort(), 20);
      await reading;
      await free(server, limited, limiter);
      // While nobody reads the body.
      const unread = new AbortController();
      const left = await limited(`${server}/endless`, { signal: unread.signal });
      unread.abort();
      await free(server, limited, limiter);
      await failure(left.text());
      same(limited.getStatistics().totalAborted, 2, "calls that were aborted before they started");
    },
  ],
  [
    "hold: headers gives the lease back at the headers, and the response as it is",
    async (server) => {
      let original: Response | undefined;
      const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
      const limited = withRateLimiter(
        async (input, init) => {
          original = await fetch(input, init);
          return original;
        },
        limiter,
        { hold: "headers" },
      );
      const response = await limited(`${server}/pieces`);
      same(response === original, true, "the same response");
      same(limiter.getStatistics().currentAvailablePermits, 1, "free permits");
      same(await response.text(), "piece 0;piece 1;piece 2;", "the body");
      await free(server, limited, limiter);
    },
  ],
  [
    "a call may say that it needs no more than the headers, or no limit at all; the server does not see it",
    async (server) => {
      const { limited, limiter } = one({}, 0);
      const held = await limited(`${server}/text`);
      same(
        await (await limited(`${server}/text`, { headgate: { skip: true } })).text(),
        "hello",
        "without a limit",
      );
      await held.text();
      const response = await limited(`${server}/text`, { headgate: { hold: "headers" } });
      same(limiter.getStatistics().currentAvailablePermits, 1, "free permits");
      await response.text();
      await free(server, limited, limiter);
    },
  ],
  [
    "a request that was refused has not been touched, and can be made again",
    async (server) => {
      const id = newId();
      const { limited, limiter } = one({}, 0);
      const held = await limited(`${server}/pieces`);
      const request = new Request(`${server}/echo?id=${id}`, { method: "POST", body: "abc" });
      const error = await failure(limited(request));
      same([RateLimitRejectedError.is(error), error["reason"]], [true, "limit_reached"], "the error");
      same(/timed? ?out/i.test(String(error)), false, "looks like a time-out");
      same([request.bodyUsed, (await seenBy(server, id)).requests], [false, 0], "bodyUsed, requests");
      await held.text();
      same(await (await limited(request)).text(), "abc", "the same request again");
      same((await seenBy(server, id)).requests, 1, "requests");
      await free(server, limited, limiter);
    },
  ],
  [
    "forSdk answers in the server's place",
    async (server) => {
      const { limited, limiter } = one({ onRejected: forSdk() }, 0);
      const held = await limited(`${server}/pieces`);
      const response = await limited(`${server}/text#part`);
      same([response.status, response.ok, response.url], [429, false, `${server}/text`], "status, ok, url");
      const { headers } = response;
      same(
        ["x-should-retry", "stripe-should-retry", "headgate-rejected", "content-type"].map((name) =>
          headers.get(name),
        ),
        ["false", "false", "limit_reached", "application/json"],
        "headers",
      );
      const { message, error } = (await response.json()) as { message: string; error: { message: string } };
      same(
        [error.message === message, message.startsWith("The request was not sent:")],
        [true, true],
        "message",
      );
      await held.text();
      await free(server, limited, limiter);
    },
  ],
  [
    "a Retry-After of one call has all others wait, those in the queue too",
    async (server) => {
      const id = newId();
      const limiter = new TokenBucketRateLimiter({
        tokenLimit: 100,
        tokensPerPeriod: 100,
        replenishmentPeriodMs: 1000,
        queueLimit: 100,
      });
      const limited = withRateLimiter(fetch, limiter, { serverHints: { random: () => 0 } });
      await (await limited(`${server}/status?code=429&h=retry-after:1`)).text();
      const start = performance.now();
      const all = await Promise.all([1, 2, 3].map(() => limited(`${server}/text?id=${id}`)));
      const waitedMs = performance.now() - start;
      same(waitedMs > 900 && waitedMs < 30_000, true, `waited for about a second (${waitedMs} ms)`);
      await Promise.all(all.map((response) => response.text()));
      same(
        [(await seenBy(server, id)).requests, limited.getStatistics().totalPauses],
        [3, 1],
        "requests, pauses",
      );
    },
  ],
  [
    "reads Retry-After dates by the server's own clock, and RateLimit fields",
    async (server) => {
      const hints: unknown[] = [];
      const limited = withRateLimiter(fetch, new ConcurrencyLimiter({ permitLimit: 9 }), {
        serverHints: { random: () => 0, maxHintMs: 1 },
        onServerHint: ({ source, status, delayMs, pauseMs }) =>
          hints.push([source, status, delayMs, pauseMs]),
      });
      for (const query of [
        "code=503&h=date:Sun, 06 Nov 1994 08:49:37 GMT&h=retry-after:Sun, 06 Nov 1994 08:49:47 GMT",
        'code=200&h=ratelimit:"burst";r=5;t=1, "daily";r=0;t=30',
        "code=429&h=retry-after:-1",
        "code=429&h=retry-after:soon",
      ]) {
        await (await limited(`${server}/status?${query.replaceAll(" ", "%20")}`)).text();
        await sleep(5);
      }
      same(
        hints,
        [
          ["retry-after", 503, 10_000, 1],
          ["ratelimit", 200, 30_000, 1],
        ],
        "hints",
      );
    },
  ],
  [
    "limits each partition by itself",
    async (server) => {
      const limiter = PartitionedRateLimiter.create((tenant: string) =>
        RateLimitPartition.getConcurrencyLimiter(tenant, () => ({ permitLimit: 1 })),
      );
      const limited = withRateLimiter(fetch, limiter, {
        partition: (request) => request.headers.get("x-tenant") ?? undefined,
      });
      const as = (tenant: string) => limited(`${server}/pieces`, { headers: { "x-tenant": tenant } });
      const [a, b] = await Promise.all([as("a"), as("b")]);
      same((await failure(as("a")))["reason"], "limit_reached", "the second of a");
      same(await (await limited(`${server}/text`)).text(), "hello", "no tenant, no limit");
      await Promise.all([a.text(), b.text()]);
      await (await as("a")).text();

      const origins = PartitionedRateLimiter.create((origin: string) =>
        RateLimitPartition.getConcurrencyLimiter(origin, () => ({ permitLimit: 1 })),
      );
      const byOrigin = withRateLimiter(fetch, origins);
      await (await byOrigin(`${server}/text?secret=1`)).text();
      same(
        [...origins.entries()].map(({ key }) => key),
        [server],
        "partitions",
      );
      limiter.dispose();
      origins.dispose();
    },
  ],
  [
    "charges what a call turned out to cost",
    async (server) => {
      const limiter = new TokenBucketRateLimiter({
        tokenLimit: 1000,
        tokensPerPeriod: 1,
        replenishmentPeriodMs: 3_600_000,
      });
      const limited = withRateLimiter(fetch, limiter, {
        permits: 300,
        actualPermits: async (response) => ((await response.json()) as { used: number }).used,
      });
      const response = await limited(`${server}/echo`, { method: "POST", body: '{"used":40}' });
      same(await response.json(), { used: 40 }, "the body");
      await limited.drain();
      same(limiter.getStatistics().currentAvailablePermits, 960, "tokens left");
    },
  ],
  [
    "maxHoldMs takes the lease of a body that is left alone, and the body goes on",
    async (server) => {
      const { limited, limiter } = one({ maxHoldMs: 30 });
      const response = await limited(`${server}/pieces`);
      same(await (await limited(`${server}/text`)).text(), "hello", "the next call");
      same(limited.getStatistics().totalExpiredHolds, 1, "expired holds");
      same(await response.text(), "piece 0;piece 1;piece 2;", "the body");
      await free(server, limited, limiter);
    },
  ],
  [
    "dispose refuses who waits, and bodies go on; drain waits for all",
    async (server) => {
      const { limited, limiter } = one();
      const response = await limited(`${server}/pieces`);
      const waiting = failure(limited(`${server}/text`));
      limited.dispose();
      same((await waiting)["reason"], "limiter_disposed", "the one that waits");
      same((await failure(limited(`${server}/text`)))["reason"], "limiter_disposed", "the next one");
      same(await response.text(), "piece 0;piece 1;piece 2;", "the body");
      await limited.drain();
      same(limiter.getStatistics().currentAvailablePermits, 1, "free permits");
    },
  ],
  [
    "a server that cannot be reached gives the lease back",
    async (server) => {
      const { limited, limiter } = one();
      const error = await failure(limited("http://127.0.0.1:9/"));
      same(error instanceof Error, true, `an error: ${String(error)}`);
      await failure(limited("http://no port:x/"));
      await free(server, limited, limiter);
    },
  ],
];
