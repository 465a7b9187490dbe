/** A map that cannot be changed once it has been made. A `Map` otherwise, so that it compares as one. */
export function readOnlyMap<Key, Value>(entries: Iterable<readonly [Key, Value]>): ReadonlyMap<Key, Value> {
  return Object.defineProperties(new Map(entries), REFUSALS);
}

const refusal: PropertyDescriptor = {
  value: () => {
    throw new TypeError("This map is a snapshot and cannot be changed; copy it by new Map(map).");
  },
};
const REFUSALS = { set: refusal, delete: refusal, clear: refusal };
