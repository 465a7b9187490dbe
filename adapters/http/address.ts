import { Address6 } from "ip-address";

/*
 * Addresses as keys of clients.
 *
 * The question: which texts name the same client? The naive answer, the text itself, gives a client as many limits as it
 * has spellings (`::1` and `0:0::1`), and an IPv6 client as many as it has addresses, which are 2^64 in the smallest
 * network that providers hand out. So a key is made from the bits: the whole IPv4 address, or the network of an IPv6 one.
 *
 * The order matters. On a server that listens on both, IPv4 clients come as `::ffff:203.0.113.9`. Cutting that to 64 bits
 * leaves `::/64`, the same for every IPv4 client there is, and one of them would use up everybody's limit. So embedded IPv4
 * addresses are taken out first, on bits, whatever the spelling: `::ffff:cb00:7109` is 203.0.113.9 too, and so is what a
 * NAT64 gateway makes of it, `64:ff9b::cb00:7109`. The surprise: `::203.0.113.9` is not. That form was given up long ago,
 * and is an ordinary IPv6 address here.
 */

/** An address by its bits. */
export interface Address {
  /** 4 or 16 of them. */
  readonly bytes: readonly number[];
}

const BYTE = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
const V4_TEXT = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`);
const V6_TEXT = /^[\da-f:]+(?:\d{1,3}(?:\.\d{1,3}){3})?$/i;
const MAPPED: readonly number[] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
const NAT64: readonly number[] = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];
/** The longest address, and a zone. */
const MAX_LENGTH = 45 + 32;

function startsWith(bytes: readonly number[], prefix: readonly number[]): boolean {
  return prefix.every((byte, i) => bytes[i] === byte);
}

/** Reads an address in strict form; undefined when it is none. No port, no brackets, no short or octal IPv4. */
export function parseAddress(text: string): Address | undefined {
  if (text.length > MAX_LENGTH) return undefined;
  if (V4_TEXT.test(text)) return { bytes: text.split(".").map(Number) };
  // The zone says which of this host's links it is, and nothing about the client.
  const zone = text.indexOf("%");
  const plain = zone < 0 ? text : text.slice(0, zone);
  if (!plain.includes(":") || !V6_TEXT.test(plain)) return undefined;
  let bytes: number[];
  try {
    bytes = new Address6(plain).toUnsignedByteArray();
  } catch {
    return undefined;
  }
  return startsWith(bytes, MAPPED) || startsWith(bytes, NAT64) ? { bytes: bytes.slice(12) } : { bytes };
}

/** The first bits of an address, and zeros. */
function masked(bytes: readonly number[], bits: number): number[] {
  return bytes.map((byte, i) => byte & (0xff00 >> Math.min(8, Math.max(0, bits - 8 * i))) & 0xff);
}

/** The address as text, always the same for the same bits: RFC 5952's form for IPv6. */
export function formatAddress({ bytes }: Address): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups: number[] = [];
  for (let i = 0; i < 16; i += 2) groups.push(((bytes[i] as number) << 8) | (bytes[i + 1] as number));
  // The first of the longest runs of zeros, of two at least, becomes "::".
  let [start, length] = [0, 1];
  for (let i = 0, run = 0; i < 8; i++) {
    run = groups[i] === 0 ? run + 1 : 0;
    if (run > length) [start, length] = [i - run + 1, run];
  }
  const text = groups.map((group) => group.toString(16));
  if (length < 2) return text.join(":");
  return `${text.slice(0, start).join(":")}::${text.slice(start + length).join(":")}`;
}

/** The key of the client that has the address. */
export function keyOfAddress(address: Address, ipv6Prefix: number): string {
  const { bytes } = address;
  return bytes.length === 4
    ? `v4:${formatAddress(address)}`
    : `v6:${formatAddress({ bytes: masked(bytes, ipv6Prefix) })}/${ipv6Prefix}`;
}

/** Addresses that begin with the same bits. */
export interface Network extends Address {
  readonly bits: number;
}

/** Reads an address or a network in CIDR form; undefined when it is none. */
export function parseNetwork(text: string): Network | undefined {
  const slash = text.indexOf("/");
  const address = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (address === undefined || (slash >= 0 && text.slice(0, slash).includes("%"))) return undefined;
  const most = address.bytes.length * 8;
  if (slash < 0) return { bytes: address.bytes, bits: most };
  const suffix = text.slice(slash + 1);
  if (!/^\d{1,3}$/.test(suffix)) return undefined;
  // An IPv4 network may be written in IPv6, too: `::ffff:10.0.0.0/104`.
  const isEmbedded = most === 32 && text.includes(":");
  const bits = Number(suffix) - (isEmbedded ? 96 : 0);
  // A network of all addresses would trust the client's own claim.
  if (bits < 1 || bits > most) return undefined;
  return { bytes: masked(address.bytes, bits), bits };
}

export function isInNetwork({ bytes }: Address, network: Network): boolean {
  return (
    bytes.length === network.bytes.length &&
    masked(bytes, network.bits).every((byte, i) => byte === network.bytes[i])
  );
}
