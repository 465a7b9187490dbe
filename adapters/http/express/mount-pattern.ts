/**
 * The pattern of what a router is mounted on. Express tells what the client has sent, in whatever case, and with what parameters
 * stand for; those that it also tells are put back. Otherwise a client would get a key of its own for each spelling.
 */
export function patternOfBase(baseUrl: string, params: unknown, path: string): string {
  let base = baseUrl.toLowerCase();
  try {
    base = decodeURIComponent(base);
  } catch {
    // It stays as it was sent.
  }
  const own = [...path.matchAll(/[:*]"?([\w$]+)/g)].map((match) => match[1]);
  for (const [name, value] of Object.entries(params ?? {})) {
    const sent = `/${[value].flat().join("/").toLowerCase()}`;
    const at = `${base}/`.lastIndexOf(`${sent}/`);
    if (at < 0 || sent === "/" || own.includes(name)) continue;
    base = `${base.slice(0, at)}/:${name}${base.slice(at + sent.length)}`;
  }
  return base;
}
