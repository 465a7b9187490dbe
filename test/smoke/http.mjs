// What the Web-standard core of headgate/http has to do on every host; throws when it does not.

import { FixedWindowRateLimiter } from "headgate";
import { concurrencyLimit, createAdmission, ipKey, rateLimit } from "headgate/http";

function equal(actual, expected, what) {
  const [a, b] = [actual, expected].map((value) => JSON.stringify(value));
  if (a !== b) throw new Error(`${what}: ${a} and not ${b}`);
}

const request = (path, init) => new Request(`http://localhost${path}`, init);

export async function smokeHttp() {
  // A slot is held until the body has been read, a waiter gets it then, and what is beyond the queue is refused.
  const slots = concurrencyLimit({ maxConcurrent: 1, maxQueue: 1, queueTimeoutMs: 5000, scope: "route" });
  const handle = slots.wrap(async ({ url }) => new Response(new URL(url).pathname));
  const first = await handle(request("/a"));
  const second = handle(request("/a?x"));
  const third = await handle(request("/a"));
  equal(
    [third.status, (await third.json()).status, third.headers.has("retry-after")],
    [503, 503, true],
    "shed",
  );
  equal(await first.text(), "/a", "first");
  equal(await (await second).text(), "/a", "second");

  // A client that leaves gives its place up, in the queue and in the middle of a body.
  const leaving = new AbortController();
  const long = await handle(request("/a", { signal: leaving.signal }));
  const queued = new AbortController();
  const waiting = handle(request("/a", { signal: queued.signal }));
  queued.abort();
  equal((await waiting).status, 499, "left while queued");
  leaving.abort();
  equal((await handle(request("/a"))).status, 200, "after the client left");
  await long.body?.cancel();
  const cancelled = await handle(request("/b"));
  await cancelled.body.cancel();
  equal(slots.getStatistics().clientGone, 1, "gone");

  // Keys that are too long to be kept are told apart all the same.
  let key = `${"k".repeat(1000)}a`;
  const keyed = concurrencyLimit({ maxConcurrent: 1, scope: () => key });
  const admitted = [(await keyed.admit(request("/"))).admitted, (await keyed.admit(request("/"))).admitted];
  key = `${"k".repeat(1000)}b`;
  equal([...admitted, (await keyed.admit(request("/"))).admitted], [true, false, true], "long keys");

  // Clients behind a proxy, and what responses tell of their limits.
  const rate = rateLimit({
    limit: 1,
    windowMs: 60_000,
    trustedProxies: ["10.0.0.0/8"],
    algorithm: "fixedWindow",
  });
  const ask = async (forwardedFor) => {
    const headers = { "x-forwarded-for": forwardedFor };
    return rate.admit(request("/", { headers }), { remoteAddress: "::ffff:10.0.0.1" });
  };
  const granted = await ask("6.6.6.6, 2001:db8:1:2::5");
  equal([granted.admitted, granted.headers.get("ratelimit")], [true, '"rate";r=0;t=60'], "granted");
  equal((await ask("7.7.7.7, [2001:db8:1:2::77]:443")).response.status, 429, "the same client");
  equal((await ask("garbage, 203.0.113.9")).admitted, true, "another client");
  equal(ipKey("64:ff9b::1.2.3.4"), "v4:1.2.3.4", "key");

  const both = createAdmission({
    policies: [
      {
        name: "burst",
        kind: "rate",
        limiter: new FixedWindowRateLimiter({ permitLimit: 2, windowMs: 60_000 }),
      },
    ],
    pressure: {},
  });
  const served = await both.wrap(() => new Response(null, { status: 204 }))(request("/"));
  equal([served.status, served.headers.get("ratelimit-policy")], [204, '"burst";q=2'], "fields");
  both.dispose();
}
