import fc from "fast-check";
import { type ClientIdentityOptions, clientIp, ipKey, rateLimit } from "headgate/http";
import { describe, expect, it } from "vitest";
import { request, seen } from "./support.js";

const PROXIES: ClientIdentityOptions = { trustedProxies: ["10.0.0.0/8", "fd00::/8"] };

/** The key of the client that a request comes from, as a refusal tells it. */
async function keyOf(
  options: ClientIdentityOptions<Request>,
  from: string | undefined,
  headers: HeadersInit = {},
): Promise<string | undefined> {
  using admission = rateLimit<Request>({ limit: 1, windowMs: 60_000, ...options });
  const ask = () => admission.admit(request("/", { headers }), { remoteAddress: from });
  await ask();
  const second = await ask();
  if (second.admitted || second.gone) return undefined;
  return second.rejection.key;
}

const forwardedFor = (value: string) => ({ "x-forwarded-for": value });

describe("the client behind trusted proxies", () => {
  it.each([
    ["is the connection's end when that is no proxy", "198.51.100.7", "6.6.6.6", "v4:198.51.100.7"],
    ["is the rightmost entry that is no proxy", "10.0.0.1", "6.6.6.6, 203.0.113.9", "v4:203.0.113.9"],
    ["is found behind several proxies", "10.0.0.1", "203.0.113.9, 10.0.0.2", "v4:203.0.113.9"],
    [
      "is found when the proxy's address is written in IPv6",
      "::ffff:10.0.0.1",
      "203.0.113.9",
      "v4:203.0.113.9",
    ],
    ["is found behind an IPv6 proxy", "fd12::1", "203.0.113.9, fd00::77", "v4:203.0.113.9"],
    ["may come with a port", "10.0.0.1", "203.0.113.9:4711", "v4:203.0.113.9"],
    ["may come in brackets with a port", "10.0.0.1", "[2001:db8:1:2::5]:443", "v6:2001:db8:1:2::/64"],
    ["may come in brackets alone", "10.0.0.1", "[2001:db8:1:2::5]", "v6:2001:db8:1:2::/64"],
    ["is the last proxy when an entry is garbage", "10.0.0.1", "1.1.1.1, garbage, 10.0.0.2", "v4:10.0.0.2"],
    ["is the proxy when there is no entry", "10.0.0.1", "", "v4:10.0.0.1"],
    ["is the proxy when all entries are empty", "10.0.0.1", ", ,", "v4:10.0.0.1"],
    ["is found past empty entries", "10.0.0.1", "203.0.113.9,, ,10.0.0.2, ", "v4:203.0.113.9"],
    ["is the leftmost entry when all are proxies", "10.0.0.1", "10.0.0.3, 10.0.0.2", "v4:10.0.0.3"],
  ])("%s", async (_, from, header, key) => {
    expect(await keyOf(PROXIES, from, forwardedFor(header))).toBe(key);
  });

  it.each([
    "010.0.0.9",
    "127.1",
    "0x7f.1",
    "2130706433",
    "1.2.3.256",
    "1.2.3.4/8",
    "1.2.3",
    "1.2.3.4.5",
    "::ffff:010.1.1.1",
    "1.2.3.4:",
    "1.2.3.4:99999999",
    "[1.2.3.4]:5",
    "[::1",
    "::1]",
    "[::1]x",
    "fe80::1::2",
    "12345::",
    "unknown",
    "_hidden",
    "1.2.3.4 5.6.7.8",
  ])("is the proxy when the entry is %j, which is no address in strict form", async (entry) => {
    expect(await keyOf(PROXIES, "10.0.0.1", forwardedFor(entry))).toBe("v4:10.0.0.1");
  });

  it("cannot be chosen by rotating what stands left of it", async () => {
    using admission = rateLimit<Request>({ limit: 5, windowMs: 60_000, trustedProxies: ["10.0.0.0/8"] });
    let admitted = 0;
    for (let i = 0; i < 1000; i++) {
      const headers = forwardedFor(`6.6.${i >> 8}.${i & 255}, 203.0.113.9`);
      if ((await admission.admit(request("/", { headers }), { remoteAddress: "10.0.0.1" })).admitted)
        admitted += 1;
    }
    expect(admitted).toBe(5);
  });

  it("is read from the end of a header that is far too long, quickly", () => {
    const addressOf = clientIp({ trustedProxies: ["10.0.0.0/8"] });
    const long = `${Array.from({ length: 10_000 }, () => "203.0.113.77").join(", ")}, 203.0.113.9`;
    expect(addressOf(seen("10.0.0.1", forwardedFor(long)))).toBe("203.0.113.9");
    const proxies = `203.0.113.9, ${Array.from({ length: 10_000 }, () => "10.0.0.2").join(", ")}`;
    expect(addressOf(seen("10.0.0.1", forwardedFor(proxies)))).toBe("10.0.0.2");
    const start = performance.now();
    for (let i = 0; i < 100; i++) addressOf(seen("10.0.0.1", forwardedFor(proxies)));
    expect((performance.now() - start) / 100).toBeLessThan(10);
  });

  it("is never half of an entry that the bound on the length has cut", () => {
    const addressOf = clientIp({ trustedProxies: ["10.0.0.0/8"] });
    // Cut in the middle of the first entry, what is left of it would be another address.
    for (const length of [8190, 8191, 8192, 8193, 8194]) {
      const tail = "10.0.0.2".padStart(length - 5, " ");
      const header = `20.1.1.1,${tail}`;
      expect(["10.0.0.2", "20.1.1.1"]).toContain(addressOf(seen("10.0.0.1", forwardedFor(header))));
    }
    expect(addressOf(seen("10.0.0.1", forwardedFor("1".repeat(20_000))))).toBe("10.0.0.1");
  });

  it("is found when the header comes in two lines", async () => {
    const headers = new Headers([
      ["x-forwarded-for", "6.6.6.6"],
      ["x-forwarded-for", "203.0.113.9"],
    ]);
    expect(await keyOf(PROXIES, "10.0.0.1", headers)).toBe("v4:203.0.113.9");
  });

  it("is told by no other header than the one that is named", async () => {
    const headers = {
      forwarded: "for=1.1.1.1",
      "x-real-ip": "2.2.2.2",
      "cf-connecting-ip": "3.3.3.3",
      "x-forwarded-for": "203.0.113.9",
    };
    expect(await keyOf(PROXIES, "10.0.0.1", headers)).toBe("v4:203.0.113.9");
    const named = { ...PROXIES, forwardedHeader: "X-Real-IP" };
    expect(await keyOf(named, "10.0.0.1", headers)).toBe("v4:2.2.2.2");
    expect(await keyOf(named, "10.0.0.1", { "x-real-ip": "2.2.2.2, 4.4.4.4" })).toBe("v4:10.0.0.1");
    expect(await keyOf(named, "198.51.100.7", headers)).toBe("v4:198.51.100.7");
  });
});

describe("the client in a Forwarded header", () => {
  const options = { ...PROXIES, forwardedHeader: "forwarded" };

  it.each([
    ['for=192.0.2.60;proto=http, for="[2001:db8:1:2::5]:4711"', "v6:2001:db8:1:2::/64"],
    ["for=203.0.113.9", "v4:203.0.113.9"],
    ["FOR=203.0.113.9;by=10.0.0.1", "v4:203.0.113.9"],
    ['proto=https;for="203.0.113.9:80" ; host=x', "v4:203.0.113.9"],
    ["for=6.6.6.6, for=203.0.113.9, for=10.0.0.2", "v4:203.0.113.9"],
    [", for=203.0.113.9,, ", "v4:203.0.113.9"],
    ['for="203.0.113.\\9"', "v4:203.0.113.9"],
    ["for=1.1.1.1;for=203.0.113.9", "v4:203.0.113.9"],
  ])("%s", async (forwarded, key) => {
    expect(await keyOf(options, "10.0.0.1", { forwarded })).toBe(key);
  });

  it.each([
    "for=unknown",
    "for=_hid",
    'for="1.2.3.4',
    "for=[2001:db8::5]",
    'for="x, for="[2001:db8:1:2::5]:4711"',
    "for 1.2.3.4",
    "for=1.2.3.4;",
    "for=1.1.1.1, for=1.2.3.4;",
    "for=1.2.3.4 for=5.6.7.8",
    "proto=http",
    "",
    "=1.2.3.4",
    "for=",
    'for="1.2.3.4"x',
    "for=1.2.3.4, garbage",
  ])("is the proxy for %j", async (forwarded) => {
    expect(await keyOf(options, "10.0.0.1", { forwarded })).toBe("v4:10.0.0.1");
  });

  it("is never what the client has claimed, whatever it puts before what the proxy adds", () => {
    const addressOf = clientIp({ trustedProxies: ["10.0.0.0/8"], forwardedHeader: "forwarded" });
    const bits = fc.constantFrom(
      '"',
      "\\",
      ",",
      ";",
      "=",
      " ",
      "for=",
      "for=6.6.6.6",
      "[",
      "]",
      ":",
      "é",
      "x",
    );
    fc.assert(
      fc.property(fc.array(bits, { maxLength: 12 }), (parts) => {
        const forwarded = `${parts.join("")}, for="203.0.113.9:1"`;
        expect(["203.0.113.9", "10.0.0.1"]).toContain(addressOf(seen("10.0.0.1", { forwarded })));
      }),
      { numRuns: 3000 },
    );
  });
});

describe("the client behind a number of hops", () => {
  it.each([
    [2, "a, 203.0.113.9, 10.0.0.5", "v4:203.0.113.9"],
    [2, "203.0.113.9", "v4:192.0.2.1"],
    [1, "6.6.6.6, 203.0.113.9", "v4:203.0.113.9"],
    [1, "203.0.113.9, garbage", "v4:192.0.2.1"],
    [2, "garbage, 203.0.113.9", "v4:203.0.113.9"],
    [3, "6.6.6.6, 7.7.7.7, 8.8.8.8, 9.9.9.9", "v4:7.7.7.7"],
  ])("with %i hops of %j", async (trustedHops, header, key) => {
    expect(await keyOf({ trustedHops }, "192.0.2.1", forwardedFor(header))).toBe(key);
  });

  it("is one hop with trustProxyHeaders", async () => {
    expect(await keyOf({ trustProxyHeaders: true }, "192.0.2.1", forwardedFor("6.6.6.6, 203.0.113.9"))).toBe(
      "v4:203.0.113.9",
    );
  });

  it("is the connection's end when that is not one of the proxies that are named too", async () => {
    const options = { trustedHops: 2, trustedProxies: ["10.0.0.0/8"] };
    const headers = forwardedFor("203.0.113.9, 203.0.113.8");
    expect(await keyOf(options, "198.51.100.7", headers)).toBe("v4:198.51.100.7");
    expect(await keyOf(options, "10.0.0.1", headers)).toBe("v4:203.0.113.9");
  });

  it("is read without an address of the connection, as behind a Unix socket", async () => {
    expect(await keyOf({ trustedHops: 1 }, undefined, forwardedFor("203.0.113.9"))).toBe("v4:203.0.113.9");
    expect(await keyOf(PROXIES, undefined, forwardedFor("203.0.113.9"))).toBe("unknown");
  });
});

describe("keys of addresses", () => {
  const socket = { clientAddress: "socket" } as const;

  it.each([
    "1.2.3.4",
    "::ffff:1.2.3.4",
    "::ffff:102:304",
    "::FFFF:0102:0304",
    "0:0:0:0:0:ffff:1.2.3.4",
    "64:ff9b::1.2.3.4",
    "64:ff9b::102:304",
  ])("are the IPv4 address for %s", async (from) => {
    expect(await keyOf(socket, from)).toBe("v4:1.2.3.4");
  });

  it("are two for two IPv4 clients of a server that listens on IPv6 (CVE-2026-30827)", () => {
    expect(ipKey("::ffff:1.2.3.4")).not.toBe(ipKey("::ffff:5.6.7.8"));
  });

  it.each([
    ["::1.2.3.4", "v6:::/64"],
    ["2001:db8::1.2.3.4", "v6:2001:db8::/64"],
    ["::ffff:0:1.2.3.4", "v6:::/64"],
    ["fe80::1%eth0", "v6:fe80::/64"],
    ["fe80::1%eth1", "v6:fe80::/64"],
    ["2001:DB8:0:0:1::5", "v6:2001:db8::/64"],
    ["2001:db8:1:2:ffff:ffff:ffff:ffff", "v6:2001:db8:1:2::/64"],
  ])("are the network for %s", async (from, key) => {
    expect(await keyOf(socket, from)).toBe(key);
  });

  it.each([
    [32, "v6:2001:db8::/32"],
    [56, "v6:2001:db8:1:f200::/56"],
    [60, "v6:2001:db8:1:f2f0::/60"],
    [128, "v6:2001:db8:1:f2f3:5::9/128"],
    [false, "v6:2001:db8:1:f2f3:5::9/128"],
  ] as const)("take %s bits of an IPv6 address when told so", async (ipv6Prefix, key) => {
    expect(await keyOf({ ...socket, ipv6Prefix }, "2001:db8:1:f2f3:5::9")).toBe(key);
  });

  it("are one for all 65 536 addresses at the end of a network", async () => {
    const keys = new Set<string>();
    for (let i = 0; i < 65_536; i++) keys.add(ipKey(`2001:db8:1:2::${i.toString(16)}`));
    expect([...keys]).toEqual(["v6:2001:db8:1:2::/64"]);
    using admission = rateLimit<Request>({ limit: 10, windowMs: 60_000, ...socket });
    let admitted = 0;
    for (let i = 0; i < 1000; i++) {
      const remoteAddress = `2001:db8:1:2:${i.toString(16)}::1`;
      if ((await admission.admit(request(), { remoteAddress })).admitted) admitted += 1;
    }
    expect(admitted).toBe(10);
  });

  it("are the same for all spellings of an address", () => {
    fc.assert(
      fc.property(fc.ipV6(), (address) => {
        const key = ipKey(address, 128);
        expect(ipKey(address.toUpperCase(), 128)).toBe(key);
        if (key.startsWith("v6:")) expect(ipKey(key.slice(3, key.indexOf("/")), 128)).toBe(key);
      }),
    );
  });

  it.each(["", "x", "1.2.3", "10.0.0.1/8", "[::1]", "1.2.3.4:80", undefined as unknown as string])(
    "are refused for %j",
    (address) => {
      expect(() => ipKey(address)).toThrow(TypeError);
    },
  );

  it("are refused with a prefix out of range", () => {
    expect(() => ipKey("::1", 31)).toThrow(RangeError);
    expect(() => ipKey("::1", 129)).toThrow(RangeError);
  });
});

describe("a client without an address", () => {
  it("shares one limit, is refused, or is not limited", async () => {
    expect(await keyOf({ clientAddress: "socket" }, undefined)).toBe("unknown");
    expect(await keyOf({ clientAddress: "socket", missingAddress: "skip" }, undefined)).toBeUndefined();
    using admission = rateLimit<Request>({
      limit: 5,
      windowMs: 1000,
      clientAddress: "socket",
      missingAddress: "reject",
    });
    const answer = await admission.admit(request());
    expect(answer).toMatchObject({ admitted: false, rejection: { reason: "client_unknown", status: 503 } });
  });

  it("is one whose function knows nothing, or no address", async () => {
    expect(await keyOf({ clientAddress: () => undefined }, "1.2.3.4")).toBe("unknown");
    expect(await keyOf({ clientAddress: () => "host.example" }, "1.2.3.4")).toBe("unknown");
    expect(await keyOf({ clientAddress: () => "5.6.7.8" }, "1.2.3.4")).toBe("v4:5.6.7.8");
  });
});

describe("a key of one's own", () => {
  it("is kept apart from addresses", async () => {
    expect(await keyOf({ keyGenerator: () => "203.0.113.9" }, "1.2.3.4")).toBe("key:203.0.113.9");
    expect(await keyOf({ keyGenerator: async () => "abc" }, "1.2.3.4")).toBe("key:abc");
  });

  it("leaves the client unlimited when there is none", async () => {
    expect(await keyOf({ keyGenerator: () => undefined }, "1.2.3.4")).toBeUndefined();
    expect(await keyOf({ keyGenerator: async () => undefined }, "1.2.3.4")).toBeUndefined();
  });

  it("is shortened without making one of two that begin alike", async () => {
    const long = "k".repeat(5000);
    const a = await keyOf({ keyGenerator: () => `${long}a` }, undefined);
    const b = await keyOf({ keyGenerator: () => `${long}b` }, undefined);
    expect(a).not.toBe(b);
    expect(a?.length).toBe(256);
    expect(await keyOf({ keyGenerator: () => `${long}a` }, undefined)).toBe(a);
  });
});

describe("options of identity", () => {
  const rate = (options: object) => () => rateLimit({ limit: 1, windowMs: 1000, ...options });

  it.each([
    [{}, /trustedProxies.*trustedHops.*clientAddress/s],
    [{ trustProxyHeaders: false }, /told apart/],
    [{ missingAddress: "shared" }, /told apart/],
    [{ trustedHops: 0 }, /trustedHops/],
    [{ trustedHops: 65 }, /trustedHops/],
    [{ trustedHops: 1.5 }, /trustedHops/],
    [{ trustedHops: "1" }, /trustedHops/],
    [{ trustedProxies: [] }, /trustedProxies/],
    [{ trustedProxies: "10.0.0.0/8" }, /trustedProxies/],
    [{ trustedProxies: ["10.0.0.0/8", "10.0.0.0/33"] }, /trustedProxies\[1\]/],
    [{ trustedProxies: ["x"] }, /trustedProxies\[0\]/],
    [{ trustedProxies: ["::/129"] }, /trustedProxies\[0\]/],
    [{ trustedProxies: ["0.0.0.0/0"] }, /trustedProxies\[0\]/],
    [{ trustedProxies: ["::/0"] }, /trustedProxies\[0\]/],
    [{ trustedProxies: ["10.0.0.0/08 "] }, /trustedProxies\[0\]/],
    [{ trustedProxies: ["fe80::%1/64"] }, /trustedProxies\[0\]/],
    [{ trustedProxies: [7] }, /trustedProxies\[0\]/],
    [{ trustProxyHeaders: false, trustedHops: 1 }, /trustProxyHeaders/],
    [{ trustProxyHeaders: 1, trustedHops: 1 }, /trustProxyHeaders/],
    [{ trustProxyHeaders: true, clientAddress: "socket" }, /clientAddress/],
    [{ clientAddress: "socket", forwardedHeader: "x-real-ip" }, /clientAddress/],
    [{ clientAddress: "peer" }, /clientAddress/],
    [{ keyGenerator: "x" }, /keyGenerator/],
    [{ keyGenerator: () => "x", forwardedHeader: "forwarded" }, /forwardedHeader/],
    [{ trustedHops: 1, forwardedHeader: "x real" }, /forwardedHeader/],
    [{ trustedHops: 1, forwardedHeader: 5 }, /forwardedHeader/],
    [{ trustedHops: 1, ipv6Prefix: 31 }, /ipv6Prefix/],
    [{ trustedHops: 1, ipv6Prefix: true }, /ipv6Prefix/],
    [{ trustedHops: 1, missingAddress: "drop" }, /missingAddress/],
    [{ trustedHop: 1 }, /trustedHops/],
  ])("%j is refused, and the option named", (options, message) => {
    expect(rate(options)).toThrow(message);
  });

  it("read an IPv4 network that is written in IPv6", async () => {
    const options = { trustedProxies: ["::ffff:10.0.0.0/104", "192.0.2.1"] };
    expect(await keyOf(options, "10.9.9.9", forwardedFor("203.0.113.9"))).toBe("v4:203.0.113.9");
    expect(await keyOf(options, "11.0.0.1", forwardedFor("203.0.113.9"))).toBe("v4:11.0.0.1");
    expect(await keyOf(options, "192.0.2.1", forwardedFor("203.0.113.9"))).toBe("v4:203.0.113.9");
    expect(await keyOf(options, "192.0.2.2", forwardedFor("203.0.113.9"))).toBe("v4:192.0.2.2");
  });

  it("are needed by clientIp too", () => {
    expect(() => clientIp({})).toThrow(/told apart/);
    expect(() => clientIp({ keyGenerator: () => "x" } as object)).toThrow(/keyGenerator/);
  });
});
