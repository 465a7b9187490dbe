/** A controller whose signal counts its abort listeners. */
export class CountedController extends AbortController {
  readonly #listeners = new Set<unknown>();

  constructor() {
    super();
    const { signal } = this;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      this.#listeners.add(args[1]);
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      this.#listeners.delete(args[1]);
      remove(...args);
    };
  }

  /** How many listeners the signal has. */
  get listeners(): number {
    return this.#listeners.size;
  }
}
