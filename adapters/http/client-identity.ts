import { checkChoice, checkFunction, checkInteger, checkOptionNames, wrongType } from "../../src/internal.js";
import {
  type Address,
  formatAddress,
  isInNetwork,
  keyOfAddress,
  type Network,
  parseAddress,
  parseNetwork,
} from "./address.js";
import type { AdmissionRequest } from "./admission-request.js";
import { parseForwarded } from "./forwarded.js";

/*
 * Who a request comes from, when a proxy stands between.
 *
 * The question: behind a proxy every connection comes from the proxy, and the client's address is in a header. Whose word
 * is that header? The naive answer takes its first entry, which whoever sent the request has written: an attacker rotates
 * it, and has a fresh limit for each request.
 *
 * Each proxy appends the address that it has seen itself, so the list is true from the right, as far as the proxies are
 * ours. It is read from the right: entries of known proxies are passed over, and the first that is none is the client.
 * What stands left of it is that client's own claim. And nothing is read at all unless the connection itself comes from a
 * known proxy; otherwise whoever reaches the server directly writes the whole list.
 *
 * Example, proxies in 10.0.0.0/8, connection from 10.0.0.1, header `6.6.6.6, 203.0.113.9, 10.0.0.2`: 10.0.0.2 is ours, so
 * 203.0.113.9 is the client, and 6.6.6.6 is what it claims. From 198.51.100.7 the same header is worth nothing: the client
 * is 198.51.100.7.
 *
 * The surprise: an entry that is no address ends the walk, and the client is the last one found so far, the proxy that sent
 * the garbage. Skipping it would let a client choose what stands to its left; making it a key of its own would let it make
 * as many as it likes.
 */

/**
 * How a request's client is told apart from others. At least one of `trustedProxies`, `trustedHops`, `trustProxyHeaders`,
 * `clientAddress` and `keyGenerator` has to be given where clients are limited: without it, all clients behind a proxy would be
 * one.
 *
 * @public
 */
export interface ClientIdentityOptions<Raw = unknown> {
  /**
   * Addresses and networks (`10.0.0.0/8`, `fd00::/8`) of the proxies whose word counts. Headers of other connections are not
   * read. The safest choice, and the only one where the server can be reached without a proxy.
   */
  readonly trustedProxies?: readonly string[] | undefined;
  /**
   * How many proxies append to the header: the client is that entry from the right. 1 to 64. The connection's own address is
   * not checked unless `trustedProxies` is given too, so use it alone only where nobody can go past the proxies.
   */
  readonly trustedHops?: number | undefined;
  /** True is the same as one trusted hop. */
  readonly trustProxyHeaders?: boolean | undefined;
  /**
   * The one header that is read: `x-forwarded-for` by default, `forwarded` (RFC 7239), or one that holds a single address, such as
   * `x-real-ip`. All others are ignored, whatever clients put in them.
   */
  readonly forwardedHeader?: string | undefined;
  /**
   * `socket`: the client is the other end of the connection, there is no proxy. A function: it knows the client's address, for
   * instance from what the host of an edge function tells; undefined when it does not.
   */
  readonly clientAddress?: "socket" | ((request: AdmissionRequest<Raw>) => string | undefined) | undefined;
  /**
   * Names the client by something else, such as an API key that has been checked, in place of all of the above. Undefined:
   * the request is not limited by client. The key is kept apart from addresses.
   */
  readonly keyGenerator?:
    | ((request: AdmissionRequest<Raw>) => string | undefined | Promise<string | undefined>)
    | undefined;
  /** How many bits of an IPv6 address make a client: 64 by default, 32 to 128; false is 128. */
  readonly ipv6Prefix?: number | false | undefined;
  /**
   * What becomes of a request without an address (a Unix socket, a host that tells none): `shared`, the default, puts all of
   * them under one limit, `reject` refuses them with `client_unknown`, `skip` does not limit them.
   */
  readonly missingAddress?: "shared" | "reject" | "skip" | undefined;
}

export const IDENTITY_OPTION_NAMES = [
  "trustedProxies",
  "trustedHops",
  "trustProxyHeaders",
  "forwardedHeader",
  "clientAddress",
  "keyGenerator",
  "ipv6Prefix",
  "missingAddress",
] as const;

/** How much of a header is looked at, from the right: no honest chain of proxies is longer. */
const MAX_ENTRIES = 64;
const MAX_HEADER_LENGTH = 8192;
/** How many addresses are remembered, in each of two generations, with what is known of them; parsing one costs microseconds. */
const MAX_KNOWN = 2048;
const FIELD_NAME = /^[!#$%&'*+.^_`|~\w-]+$/;
/** The key of all clients without an address. */
const UNKNOWN = "unknown";
/** Says that the request is to be refused, since nobody knows who sent it. */
export const CLIENT_UNKNOWN: unique symbol = Symbol("client unknown");

interface KnownAddress {
  readonly address: Address;
  readonly key: string;
  readonly isProxy: boolean;
}

/** Options of {@link ClientIdentityOptions}, checked, and what they come to. */
export class ClientIdentity<Raw> {
  readonly #networks: readonly Network[];
  readonly #hops: number;
  readonly #header: string;
  readonly #clientAddress: ClientIdentityOptions<Raw>["clientAddress"];
  readonly #keyGenerator: ClientIdentityOptions<Raw>["keyGenerator"];
  readonly #ipv6Prefix: number;
  readonly #missingAddress: "shared" | "reject" | "skip";
  #known = new Map<string, KnownAddress>();
  #knownBefore = new Map<string, KnownAddress>();

  /** @param name - What to call the options in complaints. */
  constructor(options: ClientIdentityOptions<Raw>, name: string) {
    checkOptionNames(options, IDENTITY_OPTION_NAMES, name);
    checkIdentityOptions(options, name);
    const { trustedProxies = [], trustedHops, trustProxyHeaders, ipv6Prefix = 64 } = options;
    this.#networks = trustedProxies.map((text) => parseNetwork(text) as Network);
    this.#hops = trustedHops ?? (trustProxyHeaders === true ? 1 : 0);
    this.#header = (options.forwardedHeader ?? "x-forwarded-for").toLowerCase();
    this.#clientAddress = options.clientAddress;
    this.#keyGenerator = options.keyGenerator;
    this.#ipv6Prefix = ipv6Prefix === false ? 128 : ipv6Prefix;
    this.#missingAddress = options.missingAddress ?? "shared";
  }

  /** The key of the client; undefined when it is not limited. */
  keyOf(
    request: AdmissionRequest<Raw>,
  ): string | undefined | typeof CLIENT_UNKNOWN | Promise<string | undefined> {
    if (this.#keyGenerator !== undefined) {
      const key = this.#keyGenerator(request);
      return isPromise(key) ? Promise.resolve(key).then(checkedKey) : checkedKey(key);
    }
    const client = this.#find(request);
    if (client !== undefined) return client.key;
    switch (this.#missingAddress) {
      case "shared":
        return UNKNOWN;
      case "skip":
        return undefined;
      default:
        return CLIENT_UNKNOWN;
    }
  }

  /** The address of the client; undefined when it is not known. */
  addressOf(request: AdmissionRequest<Raw>): string | undefined {
    const client = this.#find(request);
    return client === undefined ? undefined : formatAddress(client.address);
  }

  #find(request: AdmissionRequest<Raw>): KnownAddress | undefined {
    if (typeof this.#clientAddress === "function") return this.#lookUp(this.#clientAddress(request));
    const peer = this.#lookUp(request.remoteAddress);
    const checksPeer = this.#networks.length > 0;
    if (checksPeer ? peer?.isProxy !== true : this.#hops === 0) return peer;
    const field = request.header(this.#header);
    if (field === undefined) return peer;
    const claims = this.#claims(field);
    return this.#hops > 0 ? this.#hop(claims, peer) : this.#walk(claims, peer);
  }

  /** The addresses of a header, the last first; undefined stands for what is none. */
  #claims(field: string): (KnownAddress | undefined)[] {
    const isCut = field.length > MAX_HEADER_LENGTH;
    // What the cut has left of an entry goes too: half an address may be another one.
    const start = isCut ? field.indexOf(",", field.length - MAX_HEADER_LENGTH) + 1 : 0;
    const text = isCut && start === 0 ? "" : field.slice(start);
    if (this.#header === "forwarded") {
      const clients = parseForwarded(text) ?? [];
      return clients
        .slice(-MAX_ENTRIES)
        .reverse()
        .map((client) => this.#claim(client ?? ""));
    }
    if (this.#header !== "x-forwarded-for") return [this.#claim(text.trim())];
    const claims: (KnownAddress | undefined)[] = [];
    for (let end = text.length; end >= 0 && claims.length < MAX_ENTRIES; ) {
      const comma = end === 0 ? -1 : text.lastIndexOf(",", end - 1);
      const entry = text.slice(comma + 1, end).trim();
      if (entry !== "") claims.push(this.#claim(entry));
      end = comma;
    }
    return claims;
  }

  /** The last address that a chain of known proxies vouches for. */
  #walk(
    claims: readonly (KnownAddress | undefined)[],
    peer: KnownAddress | undefined,
  ): KnownAddress | undefined {
    let client = peer;
    for (const claim of claims) {
      if (claim === undefined) break;
      client = claim;
      if (!claim.isProxy) break;
    }
    return client;
  }

  /** The address that so many proxies vouch for; the connection's own when the header is too short for that. */
  #hop(
    claims: readonly (KnownAddress | undefined)[],
    peer: KnownAddress | undefined,
  ): KnownAddress | undefined {
    if (claims.length < this.#hops) return peer;
    const vouched = claims.slice(0, this.#hops);
    const bad = vouched.indexOf(undefined);
    return bad < 0 ? vouched[this.#hops - 1] : bad === 0 ? peer : vouched[bad - 1];
  }

  /** Reads one entry: an address, maybe with a port, which is dropped. */
  #claim(entry: string): KnownAddress | undefined {
    if (entry.startsWith("[")) {
      const match = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(entry);
      const inner = match?.[1];
      return inner?.includes(":") === true ? this.#lookUp(inner) : undefined;
    }
    const colon = entry.indexOf(":");
    const hasPort = colon >= 0 && entry.includes(".") && entry.indexOf(":", colon + 1) < 0;
    if (hasPort && !/^\d{1,5}$/.test(entry.slice(colon + 1))) return undefined;
    return this.#lookUp(hasPort ? entry.slice(0, colon) : entry);
  }

  #lookUp(text: string | undefined): KnownAddress | undefined {
    if (text === undefined) return undefined;
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    const made = this.#knownBefore.get(text) ?? this.#parse(text);
    if (made === undefined) return undefined;
    // Dropping all at once, when as many others have come, costs nothing for each.
    if (this.#known.size >= MAX_KNOWN) {
      this.#knownBefore = this.#known;
      this.#known = new Map();
    }
    // An entry may be a slice, which keeps the whole header that it was cut from; this copies it.
    this.#known.set(` ${text}`.slice(1), made);
    return made;
  }

  #parse(text: string): KnownAddress | undefined {
    const address = parseAddress(text);
    if (address === undefined) return undefined;
    return {
      address,
      key: keyOfAddress(address, this.#ipv6Prefix),
      isProxy: this.#networks.some((network) => isInNetwork(address, network)),
    };
  }
}

/** Whether a value is still to come. */
export function isPromise<Value>(value: Value | Promise<Value>): value is Promise<Value> {
  return typeof (value as Promise<Value> | undefined)?.then === "function";
}

function checkedKey(key: string | undefined): string | undefined {
  if (key === undefined) return undefined;
  if (typeof key !== "string" || key === "") {
    throw wrongType("What keyGenerator returns", "a string that is not empty, or undefined", key);
  }
  return `key:${key}`;
}

/** Whether the options say how to tell clients apart. */
export function hasIdentity(options: ClientIdentityOptions<never>): boolean {
  const { trustedProxies, trustedHops, trustProxyHeaders, clientAddress, keyGenerator } = options;
  return (
    [trustedProxies, trustedHops, clientAddress, keyGenerator].some((option) => option !== undefined) ||
    trustProxyHeaders === true
  );
}

function checkIdentityOptions(options: ClientIdentityOptions<never>, name: string): void {
  const { trustedProxies, trustedHops, trustProxyHeaders, forwardedHeader, clientAddress } = options;
  if (trustedProxies !== undefined) {
    if (!Array.isArray(trustedProxies) || trustedProxies.length === 0) {
      throw wrongType(`${name}.trustedProxies`, "a list of at least one address or network", trustedProxies);
    }
    for (const [i, text] of trustedProxies.entries()) {
      if (typeof text !== "string" || parseNetwork(text) === undefined) {
        throw wrongType(`${name}.trustedProxies[${i}]`, "an address, or a network such as 10.0.0.0/8", text);
      }
    }
  }
  if (trustedHops !== undefined) checkInteger(`${name}.trustedHops`, trustedHops, 1, 64);
  if (trustProxyHeaders !== undefined && typeof trustProxyHeaders !== "boolean") {
    throw wrongType(`${name}.trustProxyHeaders`, "true or false", trustProxyHeaders);
  }
  if (
    forwardedHeader !== undefined &&
    !(typeof forwardedHeader === "string" && FIELD_NAME.test(forwardedHeader))
  ) {
    throw wrongType(`${name}.forwardedHeader`, "the name of one header", forwardedHeader);
  }
  if (clientAddress !== undefined && clientAddress !== "socket" && typeof clientAddress !== "function") {
    throw wrongType(`${name}.clientAddress`, '"socket" or a function', clientAddress);
  }
  if (options.keyGenerator !== undefined) checkFunction(`${name}.keyGenerator`, options.keyGenerator);
  const { ipv6Prefix, missingAddress } = options;
  if (ipv6Prefix !== undefined && ipv6Prefix !== false)
    checkInteger(`${name}.ipv6Prefix`, ipv6Prefix, 32, 128);
  if (missingAddress !== undefined) {
    checkChoice(`${name}.missingAddress`, missingAddress, ["shared", "reject", "skip"]);
  }
  const readsHeader = trustedProxies !== undefined || trustedHops !== undefined || trustProxyHeaders === true;
  if (trustProxyHeaders === false && readsHeader) {
    throw new TypeError(
      `${name}.trustProxyHeaders is false, but trustedProxies or trustedHops say whom to trust.`,
    );
  }
  if (clientAddress !== undefined && (readsHeader || forwardedHeader !== undefined)) {
    throw new TypeError(`${name}.clientAddress says where the address is; no header is read then.`);
  }
  if (forwardedHeader !== undefined && !readsHeader) {
    throw new TypeError(
      `${name}.forwardedHeader is read only from proxies; say which by trustedProxies or trustedHops.`,
    );
  }
}

/**
 * Finds the address of a request's client, as the scope `client` does, for a `keyGenerator` or `scope` of your own.
 *
 * @example
 * ```ts
 * import { clientIp, concurrencyLimit, ipKey } from "headgate/http";
 *
 * const addressOf = clientIp({ trustedProxies: ["10.0.0.0/8"] });
 * const admission = concurrencyLimit({
 *   maxConcurrent: 5,
 *   scope: (request) => {
 *     const address = addressOf(request);
 *     return address === undefined ? "unknown" : `${ipKey(address)} ${request.method}`;
 *   },
 * });
 * ```
 *
 * @param options - Which proxies to trust, and which header to read.
 * @returns A function that gives the address, in one spelling for each address; undefined when it is not known.
 * @throws TypeError or RangeError when an option is not what it should be, or none says where the address is.
 *
 * @public
 */
export function clientIp<Raw = unknown>(
  options: Omit<ClientIdentityOptions<Raw>, "keyGenerator" | "ipv6Prefix" | "missingAddress">,
): (request: AdmissionRequest<Raw>) => string | undefined {
  const names = IDENTITY_OPTION_NAMES.filter(
    (name) => !["keyGenerator", "ipv6Prefix", "missingAddress"].includes(name),
  );
  checkOptionNames(options, names);
  const identity = new ClientIdentity<Raw>(options, "options");
  if (!hasIdentity(options)) throw missingIdentity("options");
  return (request) => identity.addressOf(request);
}

/** The complaint about a limit for each client that cannot tell clients apart. */
export function missingIdentity(name: string): TypeError {
  return new TypeError(
    `${name} must say how clients are told apart: by trustedProxies, trustedHops, trustProxyHeaders, clientAddress (` +
      '"socket" where there is no proxy) or keyGenerator. Otherwise all clients behind a proxy would be one.',
  );
}

/**
 * The key of an address: the whole of an IPv4 one (`v4:203.0.113.9`), also where it is embedded in an IPv6 one, and the network
 * of any other IPv6 one (`v6:2001:db8:1:2::/64`).
 *
 * @param ipv6Prefix - How many bits make a client; 64 by default, 32 to 128.
 * @throws TypeError when it is not an address; RangeError when the prefix is out of range.
 *
 * @public
 */
export function ipKey(address: string, ipv6Prefix = 64): string {
  checkInteger("ipv6Prefix", ipv6Prefix, 32, 128);
  const parsed = typeof address === "string" ? parseAddress(address) : undefined;
  if (parsed === undefined) throw wrongType("address", "an IPv4 or IPv6 address", address);
  return keyOfAddress(parsed, ipv6Prefix);
}
