import { ConcurrencyLimiter } from "headgate";
import { randomFrom, shuffle } from "../harness.mjs";

const MANY = 100_000;
const LEVELS = 1000;
const nothing = () => undefined;

/** How the n-th caller waits: with a priority, all of which are equally frequent and in no order, and a signal. */
function requests(n, signalOf) {
  const priorities = shuffle(
    Array.from({ length: n }, (_, i) => i % LEVELS),
    randomFrom(n),
  );
  return priorities.map((priority) => ({ priority, signal: signalOf() }));
}

function held(n, queueProcessingOrder) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: n, queueProcessingOrder });
  return { limiter, holder: limiter.attemptAcquire() };
}

const withOneSignal = (order) => (n) => {
  const controller = new AbortController();
  return { ...held(n, order), requests: requests(n, () => controller.signal), aborting: [controller] };
};

const withOwnSignals = (order) => (n) => {
  const controllers = [];
  const own = () => {
    const controller = new AbortController();
    controllers.push(controller);
    return controller.signal;
  };
  const state = { ...held(n, order), requests: requests(n, own) };
  return { ...state, aborting: shuffle(controllers, randomFrom(n + 1)) };
};

/** All come, all are aborted, all have been told. */
async function comeAndLeave(_n, { limiter, requests, aborting }) {
  let aborted = 0;
  const onAbort = () => {
    aborted += 1;
  };
  const waits = requests.map((options) => limiter.acquire(options).then(nothing, onAbort));
  for (const controller of aborting) controller.abort();
  await Promise.all(waits);
  return aborted;
}

const row = (name, prepare) => ({
  name: `100 000 waiters of 1 000 priorities come, and are aborted ${name}`,
  n: MANY,
  pairs: 7,
  ours: {
    label: "headgate, highestPriorityFirst",
    prepare: prepare("highestPriorityFirst"),
    run: comeAndLeave,
  },
  peer: { label: "headgate, oldestFirst", prepare: prepare("oldestFirst"), run: comeAndLeave },
});

export const cases = [row("by one signal", withOneSignal), row("one by one", withOwnSignals)];
