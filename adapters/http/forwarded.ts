const TOKEN = "[!#$%&'*+.^_`|~\\w-]+";
/** One parameter of RFC 7239, and what ends it: the next parameter, the next element, or the end. */
const PARAMETER = new RegExp(`[ \\t]*(${TOKEN})=(?:(${TOKEN})|"((?:[^"\\\\]|\\\\.)*)")[ \\t]*([;,]|$)`, "y");
const EMPTY_ELEMENTS = /[ \t,]*/y;

/**
 * The `for` of each element of a `Forwarded` field, in order; undefined for an element without one. The whole answer is
 * undefined when the field is malformed anywhere: a quote that a client leaves open must not swallow what the proxy adds.
 */
export function parseForwarded(field: string): (string | undefined)[] | undefined {
  const clients: (string | undefined)[] = [];
  let client: string | undefined;
  let isNew = true;
  let at = 0;
  while (at < field.length) {
    if (isNew) {
      EMPTY_ELEMENTS.lastIndex = at;
      EMPTY_ELEMENTS.test(field);
      at = EMPTY_ELEMENTS.lastIndex;
      if (at >= field.length) break;
    }
    PARAMETER.lastIndex = at;
    const match = PARAMETER.exec(field);
    if (match === null) return undefined;
    const [, name = "", token, quoted = "", end] = match;
    if (name.toLowerCase() === "for") client = token ?? quoted.replaceAll(/\\(.)/g, "$1");
    isNew = end !== ";";
    if (isNew) {
      clients.push(client);
      client = undefined;
    }
    at = PARAMETER.lastIndex;
  }
  return isNew ? clients : undefined;
}
