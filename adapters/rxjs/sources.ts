import { config } from "rxjs";
import { wrongType } from "../../src/internal.js";

/** Who is told what a source answers, maybe before `next` has returned. */
export interface Reader<T> {
  fetched(value: T): void;
  ended(): void;
  broke(error: unknown): void;
}

/** A source that is asked for one value at a time. */
export interface PullSource<T> {
  next(reader: Reader<T>): void;
  /** Lets it know that nobody reads any more, unless it has ended by itself. */
  cancel(): void;
}

/** An error that there is nobody left to hear: RxJS's hook has it, or the host. */
function report(error: unknown): void {
  const { onUnhandledError } = config;
  if (onUnhandledError === null) void Promise.reject(error);
  else queueMicrotask(() => onUnhandledError(error));
}

class IterableSource<T> implements PullSource<T> {
  readonly #iterator: Iterator<T>;
  #isAsking = false;
  #isOver = false;
  #isCancelled = false;

  constructor(source: Iterable<T>) {
    this.#iterator = source[Symbol.iterator]();
  }

  next(reader: Reader<T>): void {
    let result: IteratorResult<T>;
    this.#isAsking = true;
    try {
      result = this.#iterator.next();
    } catch (error) {
      this.#isOver = true;
      reader.broke(error);
      return;
    } finally {
      this.#isAsking = false;
    }
    if (result.done === true) this.#isOver = true;
    if (this.#isCancelled) this.#return();
    else if (result.done === true) reader.ended();
    else reader.fetched(result.value);
  }

  cancel(): void {
    // A generator cannot be ended while it runs.
    if (this.#isAsking) this.#isCancelled = true;
    else this.#return();
  }

  #return(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    try {
      this.#iterator.return?.();
    } catch (error) {
      report(error);
    }
  }
}

class AsyncIterableSource<T> implements PullSource<T> {
  readonly #iterator: AsyncIterator<T>;
  #isOver = false;

  constructor(source: AsyncIterable<T>) {
    this.#iterator = source[Symbol.asyncIterator]();
  }

  next(reader: Reader<T>): void {
    const failed = (error: unknown): void => {
      this.#isOver = true;
      reader.broke(error);
    };
    const answered = (result: IteratorResult<T>): void => {
      let isDone: boolean;
      let value: T | undefined;
      try {
        if (Object(result) !== result)
          throw wrongType("next() of the source", "a promise of an object", result);
        isDone = Boolean(result.done);
        if (!isDone) value = result.value;
      } catch (error) {
        failed(error);
        return;
      }
      if (!isDone) {
        reader.fetched(value as T);
        return;
      }
      this.#isOver = true;
      reader.ended();
    };
    try {
      // What answers without a promise is taken as `for await` takes it.
      Promise.resolve(this.#iterator.next()).then(answered, failed);
    } catch (error) {
      failed(error);
    }
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    try {
      Promise.resolve(this.#iterator.return?.()).then(undefined, report);
    } catch (error) {
      report(error);
    }
  }
}

class StreamSource<T> implements PullSource<T> {
  readonly #reader: ReadableStreamDefaultReader<T>;
  #isOver = false;

  constructor(source: ReadableStream<T>) {
    this.#reader = source.getReader();
  }

  next(reader: Reader<T>): void {
    const answered = (result: ReadableStreamReadResult<T>): void => {
      if (result.done) {
        this.#end();
        reader.ended();
      } else {
        reader.fetched(result.value);
      }
    };
    const failed = (error: unknown): void => {
      this.#end();
      reader.broke(error);
    };
    this.#reader.read().then(answered, failed);
  }

  cancel(): void {
    if (this.#isOver) return;
    this.#reader.cancel().then(undefined, report);
    this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#reader.releaseLock();
  }
}

/** How to begin reading a source; each subscription does. */
export function openSource<T>(
  source: Iterable<T> | AsyncIterable<T> | ReadableStream<T>,
): () => PullSource<T> {
  const candidate = (source ?? {}) as Partial<Iterable<T> & AsyncIterable<T> & ReadableStream<T>>;
  if (typeof candidate.getReader === "function") return () => new StreamSource(source as ReadableStream<T>);
  if (typeof candidate[Symbol.asyncIterator] === "function")
    return () => new AsyncIterableSource(source as AsyncIterable<T>);
  if (typeof candidate[Symbol.iterator] === "function")
    return () => new IterableSource(source as Iterable<T>);
  throw wrongType("source", "an iterable, an async iterable or a ReadableStream", source);
}
