import { ConcurrencyLimiter } from "headgate";
import { forSdk, withRateLimiter } from "headgate/fetch";

// What the wrapper adds, beside a `fetch` that answers at once: over a real connection, a call takes 50 to 1000 times as long.

const URL_A = "https://a.example/items";

async function callEach(n, fetch) {
  let done = 0;
  for (let i = 0; i < n; i++) if ((await fetch(URL_A)).status > 0) done += 1;
  return done;
}

async function readEach(n, fetch) {
  let done = 0;
  for (let i = 0; i < n; i++) if ((await (await fetch(URL_A)).text()).length > 0) done += 1;
  return done;
}

const empty = new Response(null);
const answerEmpty = async () => empty;
const answerText = async () => new Response("hello");
const limiter = () => new ConcurrencyLimiter({ permitLimit: 1 });
const full = () => {
  const it = limiter();
  it.attemptAcquire();
  return it;
};
/** What anybody's wrapper costs: a promise of its own. */
const around = (fetch) => async (input, init) => await fetch(input, init);

export const cases = [
  {
    name: "fetch, no body",
    n: 20_000,
    ours: { label: "withRateLimiter", prepare: () => withRateLimiter(answerEmpty, limiter()), run: callEach },
    peer: { label: "async function around it", prepare: () => around(answerEmpty), run: callEach },
  },
  {
    name: "fetch, body read, hold headers",
    n: 5000,
    ours: {
      label: "withRateLimiter",
      prepare: () => withRateLimiter(answerText, limiter(), { hold: "headers" }),
      run: readEach,
    },
    peer: { label: "async function around it", prepare: () => around(answerText), run: readEach },
  },
  {
    name: "fetch, body read, hold body",
    n: 5000,
    ours: { label: "withRateLimiter", prepare: () => withRateLimiter(answerText, limiter()), run: readEach },
    peer: { label: "async function around it", prepare: () => around(answerText), run: readEach },
    beside: [
      {
        label: "TransformStream around the body",
        prepare: () => async () => {
          const { body, status, statusText, headers } = await answerText();
          return new Response(body.pipeThrough(new TransformStream()), { status, statusText, headers });
        },
        run: readEach,
      },
    ],
  },
  {
    name: "fetch, refused, forSdk",
    n: 5000,
    ours: {
      label: "withRateLimiter",
      prepare: () => withRateLimiter(answerText, full(), { onRejected: forSdk() }),
      run: callEach,
    },
    peer: { label: "fetch that answers", prepare: () => around(answerText), run: callEach },
  },
];
