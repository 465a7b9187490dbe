import { ConcurrencyLimiter } from "headgate";
import { limitConcurrency } from "headgate/rxjs";
import { mergeMap, NEVER, of, range } from "rxjs";

const SYNC = 1_000_000;
const ASYNC = 100_000;

/** Counts what a stream of n values with work for each emits. */
function runSync(operator) {
  return (n) => {
    let emitted = 0;
    range(0, n)
      .pipe(operator)
      .subscribe(() => {
        emitted += 1;
      });
    return emitted;
  };
}

function runAsync(operator) {
  return (n) =>
    new Promise((resolve, reject) => {
      let emitted = 0;
      range(0, n)
        .pipe(operator)
        .subscribe({
          next: () => {
            emitted += 1;
          },
          error: reject,
          complete: () => resolve(emitted),
        });
    });
}

const one = (value) => of(value);
const turn = (value) => Promise.resolve(value);
const buffer = { size: Number.POSITIVE_INFINITY };
const limiter = new ConcurrencyLimiter({ permitLimit: 10, queueLimit: 10 });

// Streams that live on while the samples come and go, as they do in a service. Without one, the collection before each
// sample would find no object of their classes alive, and all optimized code that knows of them would go with it.
const never = () => NEVER;
const busy = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
const operators = [limitConcurrency(1, never), limitConcurrency(busy, never), mergeMap(never, 1)];
/** @public */
export const alive = operators.map((operator) => range(0, 10).pipe(operator).subscribe());

export const cases = [
  {
    name: "stream: work that is done at once, 10 at a time",
    n: SYNC,
    warmN: 100_000,
    pairs: 30,
    besidePairs: 10,
    bytesN: 1000,
    ours: { label: "limitConcurrency(10)", run: runSync(limitConcurrency(10, one)) },
    peer: { label: "mergeMap(10)", run: runSync(mergeMap(one, 10)) },
    beside: [
      {
        label: "limitConcurrency(limiter)",
        note: "a shared limiter",
        run: runSync(limitConcurrency(limiter, one)),
      },
    ],
    target: { ratio: 1.3 },
  },
  {
    name: "stream: promises, 10 at a time, 100 000 values in the buffer",
    n: ASYNC,
    warmN: 10_000,
    pairs: 30,
    besidePairs: 10,
    bytesN: 1000,
    ours: { label: "limitConcurrency(10)", run: runAsync(limitConcurrency(10, turn, { buffer })) },
    peer: { label: "mergeMap(10)", run: runAsync(mergeMap(turn, 10)) },
    beside: [
      {
        label: "limitConcurrency(limiter)",
        note: "a shared limiter",
        run: runAsync(limitConcurrency(limiter, turn, { buffer })),
      },
    ],
    target: { ratio: 1.3 },
  },
  {
    name: "stream: promises, 10 at a time, 1 000 values in the buffer",
    n: 1000,
    pairs: 30,
    besidePairs: 10,
    bytesN: 100,
    ours: { label: "limitConcurrency(10)", run: runAsync(limitConcurrency(10, turn)) },
    peer: { label: "mergeMap(10)", run: runAsync(mergeMap(turn, 10)) },
    beside: [
      {
        label: "limitConcurrency(limiter)",
        note: "a shared limiter",
        run: runAsync(limitConcurrency(limiter, turn)),
      },
    ],
    target: { ratio: 1.3 },
  },
];
