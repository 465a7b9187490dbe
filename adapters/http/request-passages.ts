/** A passage, as far as others look at it; of whatever kind of request. */
export interface KnownPassage {
  readonly progress: string;
  /** The passage of the same request through the admission before this one. */
  readonly earlier: KnownPassage | undefined;
  /** Whether it leads through this admission. */
  isOf(gate: object): boolean;
}

/** Where a request keeps its passages, the latest first. A property costs the garbage collector less than a `WeakMap`. */
const passages: unique symbol = Symbol("headgate.passages");

/** An object of somebody else that stands for a request. */
interface Marked {
  [passages]?: KnownPassage | undefined;
}

/** The latest of a request's passages; the others are behind it. */
export function latestPassage(identity: object): KnownPassage | undefined {
  return (identity as Marked)[passages];
}

/** Has a request keep one more passage. A request that nothing can be added to is looked at anew each time. */
export function keepPassage(identity: object, passage: KnownPassage): void {
  if (Object.isExtensible(identity)) (identity as Marked)[passages] = passage;
}

/** Whether an admission has refused the request. */
export function wasRefused(identity: object): boolean {
  for (let one = latestPassage(identity); one !== undefined; one = one.earlier) {
    if (one.progress === "refused") return true;
  }
  return false;
}
