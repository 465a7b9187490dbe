import { Observable, type OperatorFunction, Subscriber } from "rxjs";
import type { Admissions } from "./admissions.js";
import type { Door, OpenDoor } from "./doors.js";
import type { Rules } from "./rules.js";

/** Hands what a source emits on; a subscriber, so that a source which emits in a loop sees when that is over. */
class SourceSubscriber<T> extends Subscriber<T> {
  readonly #admissions: Admissions<T, unknown>;

  constructor(admissions: Admissions<T, unknown>) {
    super();
    this.#admissions = admissions;
  }

  protected override _next(value: T): void {
    this.#admissions.arrive(value);
  }

  protected override _error(error: unknown): void {
    this.#admissions.fail(error);
  }

  protected override _complete(): void {
    // Its teardowns run now, and not when the last work ends.
    try {
      this.#admissions.sourceDone();
    } finally {
      this.unsubscribe();
    }
  }
}

/** Makes the admissions of a new subscription; undefined when it has failed already. */
export function admit<T, R, A extends Admissions<T, R>>(
  destination: Subscriber<R>,
  rules: Rules<T, R>,
  open: OpenDoor,
  make: (destination: Subscriber<R>, door: Door) => A,
): A | undefined {
  if (rules.signal?.aborted === true) {
    destination.error(rules.signal.reason);
    return undefined;
  }
  let admissions: A;
  try {
    admissions = make(destination, open());
  } catch (error) {
    destination.error(error);
    return undefined;
  }
  // A consumer who has left already has it closed at once.
  destination.add(() => admissions.close());
  return admissions;
}

/** An operator: each subscription opens the door to its limiter, and has what the source emits admitted. */
export function operate<T, R>(
  rules: Rules<T, R>,
  open: OpenDoor,
  make: (destination: Subscriber<R>, door: Door) => Admissions<T, R>,
): OperatorFunction<T, R> {
  return (source) =>
    new Observable<R>((destination) => {
      const admissions = admit(destination, rules, open, make);
      if (admissions === undefined) return;
      const subscriber = new SourceSubscriber<T>(admissions as Admissions<T, unknown>);
      admissions.setSource(subscriber);
      source.subscribe(subscriber);
    });
}
