const MAX_KEY_LENGTH = 256;

/**
 * Nobody outside knows it, so nobody can choose two keys that come to the same. Made when it is needed: some hosts give no random
 * numbers while a module is loaded.
 */
let seeds: readonly number[] | undefined;

/** Mixes a text into 32 bits; twice with seeds of their own, these name a text well enough that is too long to be kept. */
function mix(text: string, seed: number): string {
  let hash = seed;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}

/**
 * The key, or what stands for it when it is longer than 256 characters: keys are kept, and strangers choose them. Cutting off
 * the end would make one of those that begin alike.
 */
export function boundedKey(key: string): string {
  if (key.length <= MAX_KEY_LENGTH) return key;
  seeds ??= [...crypto.getRandomValues(new Uint32Array(4))];
  const digest = seeds.map((seed) => mix(key, seed)).join("");
  return `${key.slice(0, MAX_KEY_LENGTH - digest.length - 1)}#${digest}`;
}
