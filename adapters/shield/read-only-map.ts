/** A map that cannot be changed once it has been made. */
export class ReadOnlyMap<Key, Value> extends Map<Key, Value> {
  static {
    // To whoever compares maps it is one like any other.
    Object.defineProperty(ReadOnlyMap.prototype, "constructor", { value: Map });
  }

  constructor(entries: Iterable<readonly [Key, Value]>) {
    super();
    for (const [key, value] of entries) super.set(key, value);
  }

  override set(): never {
    return refuse();
  }

  override delete(): never {
    return refuse();
  }

  override clear(): never {
    return refuse();
  }
}

function refuse(): never {
  throw new TypeError("This map is a snapshot and cannot be changed; copy it by new Map(map).");
}
