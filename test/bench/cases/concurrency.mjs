import { Sema } from "async-sema";
import { BulkheadPolicy } from "cockatiel";
import { ConcurrencyLimiter } from "headgate";
import pLimit from "p-limit";
import { randomFrom, shuffle, visibleSlots } from "../harness.mjs";
import { kinds } from "../kinds.mjs";

const MANY = 100_000;
const FEW = 10_000;
const FEW_NOTE = "10 000 waiters, since it drains in quadratic time";

const sema = () => new Sema(10);
// One for all samples where nobody waits: a semaphore of async-sema is fastest as the only one of its process, since it
// calls a closure of its own; peers are shown at their best.
const theLimiter = new ConcurrencyLimiter({ permitLimit: 10 });
const theSema = sema();
const limiter = () => theLimiter;
const nothing = () => undefined;
const turn = () => Promise.resolve();

/** A promise for the n-th call of `count`. */
function countdown(n) {
  let left = n;
  let finish;
  const finished = new Promise((resolve) => {
    finish = resolve;
  });
  const count = () => {
    left -= 1;
    if (left === 0) finish(n);
  };
  return { count, finished };
}

// ---- nobody waits

function attemptOurs(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

function attemptSema(n, sema) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = sema.tryAcquire();
    const token = slots[i & 3];
    if (token !== undefined) granted += 1;
    sema.release(token);
  }
  return granted;
}

/** The same as `attemptOurs`; a function of its own, which all kinds of limiters go through. */
function attemptAnyKind(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

async function acquireOurs(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = await limiter.acquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

async function acquireSema(n, sema) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = await sema.acquire();
    const token = slots[i & 3];
    if (token !== undefined) granted += 1;
    sema.release(token);
  }
  return granted;
}

async function runOneByOne(n, run) {
  let done = 0;
  const work = () => {
    done += 1;
  };
  for (let i = 0; i < n; i++) await run(work);
  return done;
}

const pLimitRun = (permits) => pLimit(permits);
const cockatielRun = (permits) => {
  const policy = new BulkheadPolicy(permits, Number.MAX_SAFE_INTEGER);
  return (work) => policy.execute(work);
};

// ---- many tasks, few at a time

function tasksOurs(n, limiter) {
  const { count, finished } = countdown(n);
  const task = async () => {
    const lease = await limiter.acquire();
    await Promise.resolve();
    lease.dispose();
    count();
  };
  // biome-ignore lint/nursery/noFloatingPromises: the countdown waits for them
  for (let i = 0; i < n; i++) task();
  return finished;
}

function tasksSema(n, sema) {
  const { count, finished } = countdown(n);
  const task = async () => {
    const token = await sema.acquire();
    await Promise.resolve();
    sema.release(token);
    count();
  };
  // biome-ignore lint/nursery/noFloatingPromises: the countdown waits for them
  for (let i = 0; i < n; i++) task();
  return finished;
}

function tasksRun(n, run) {
  const { count, finished } = countdown(n);
  for (let i = 0; i < n; i++) run(turn).then(count);
  return finished;
}

// ---- a deep queue behind one holder

async function heldOurs(n) {
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: n });
  return { limiter, holder: await limiter.acquire() };
}

function deepOurs(n, { limiter, holder }) {
  const { count, finished } = countdown(n);
  const onLease = (lease) => {
    lease.dispose();
    count();
  };
  for (let i = 0; i < n; i++) limiter.acquire().then(onLease);
  holder.dispose();
  return finished;
}

async function heldSema() {
  const sema = new Sema(1);
  return { sema, holder: await sema.acquire() };
}

function deepSema(n, { sema, holder }) {
  const { count, finished } = countdown(n);
  const onToken = (token) => {
    sema.release(token);
    count();
  };
  for (let i = 0; i < n; i++) sema.acquire().then(onToken);
  sema.release(holder);
  return finished;
}

function deepRun(n, run) {
  const { count, finished } = countdown(n);
  const holder = run(turn);
  for (let i = 0; i < n; i++) run(nothing).then(count);
  return holder.then(() => finished);
}

// ---- waiters that are aborted one by one

function shuffledControllers(n) {
  const controllers = Array.from({ length: n }, () => new AbortController());
  return { controllers, order: shuffle([...controllers], randomFrom(n)) };
}

async function abortableOurs(n) {
  const { controllers, order } = shuffledControllers(n);
  const { count, finished } = countdown(n);
  const { limiter, holder } = await heldOurs(n);
  for (const { signal } of controllers) limiter.acquire({ signal }).then(nothing, count);
  return { order, finished, holder };
}

async function abortOurs(_n, { order, finished, holder }) {
  for (const controller of order) controller.abort();
  const aborted = await finished;
  holder.dispose();
  return aborted;
}

function abortableBare(n) {
  const { controllers, order } = shuffledControllers(n);
  const { count, finished } = countdown(n);
  for (const { signal } of controllers) signal.addEventListener("abort", count, { once: true });
  return { order, finished };
}

function abortBare(_n, { order, finished }) {
  for (const controller of order) controller.abort();
  return finished;
}

function abortableCockatiel(n) {
  const { controllers, order } = shuffledControllers(n);
  const { count, finished } = countdown(n);
  const policy = new BulkheadPolicy(1, n);
  let letGo;
  const held = policy.execute(() => new Promise((resolve) => (letGo = resolve)));
  for (const { signal } of controllers) policy.execute(nothing, signal).then(nothing, count);
  return { order, finished, holder: { dispose: () => letGo() }, held };
}

async function abortCockatiel(_n, { order, finished, holder, held }) {
  for (const controller of order) controller.abort();
  holder.dispose();
  await held;
  return finished;
}

// ---- refusals

function fullOurs() {
  const full = new ConcurrencyLimiter({ permitLimit: 1 });
  visibleSlots()[0] = full.attemptAcquire();
  return full;
}

function refuseOurs(n, limiter) {
  let refused = 0;
  for (let i = 0; i < n; i++) if (!limiter.attemptAcquire().isAcquired) refused += 1;
  return refused;
}

function emptyLoop(n) {
  let done = 0;
  for (let i = 0; i < n; i++) done += 1;
  return done;
}

function fullSema() {
  const full = new Sema(1);
  full.tryAcquire();
  return full;
}

function refuseSema(n, sema) {
  let refused = 0;
  for (let i = 0; i < n; i++) if (sema.tryAcquire() === undefined) refused += 1;
  return refused;
}

async function fullCockatiel() {
  const full = new BulkheadPolicy(1, 0);
  full.execute(() => new Promise(nothing)).catch(nothing);
  return full;
}

async function refuseCockatiel(n, policy) {
  let refused = 0;
  for (let i = 0; i < n; i++) {
    try {
      await policy.execute(nothing);
    } catch {
      refused += 1;
    }
  }
  return refused;
}

export const cases = [
  {
    name: "sync attempt + dispose",
    target: { ratio: 1, bytes: 64 },
    n: 1_000_000,
    pairs: 60,
    bytesN: 4000,
    ours: { label: "headgate", prepare: limiter, run: attemptOurs },
    peer: { label: "async-sema", prepare: () => theSema, run: attemptSema },
    beside: [
      {
        label: "headgate, call site of all kinds",
        prepare: () => {
          for (const make of kinds) attemptAnyKind(1000, make());
          return limiter();
        },
        run: attemptAnyKind,
      },
    ],
  },
  {
    name: "await acquire() + dispose, uncontended",
    target: { ratio: 1.05 },
    n: MANY,
    pairs: 60,
    ours: { label: "headgate", prepare: limiter, run: acquireOurs },
    peer: { label: "async-sema", prepare: () => theSema, run: acquireSema },
    beside: [
      { label: "p-limit, run(fn)", prepare: () => pLimitRun(10), run: runOneByOne },
      { label: "cockatiel, run(fn)", prepare: () => cockatielRun(10), run: runOneByOne },
    ],
  },
  {
    name: "100 000 tasks through concurrency 10",
    target: { ratio: 1.1 },
    n: MANY,
    ours: {
      label: "headgate",
      prepare: (n) => new ConcurrencyLimiter({ permitLimit: 10, queueLimit: n }),
      run: tasksOurs,
    },
    peer: { label: "async-sema", prepare: sema, run: tasksSema },
    beside: [
      { label: "p-limit, run(fn)", prepare: () => pLimitRun(10), run: tasksRun },
      { label: "cockatiel, run(fn)", prepare: () => cockatielRun(10), run: tasksRun, n: FEW, note: FEW_NOTE },
    ],
  },
  {
    name: "enqueue 100 000 waiters, then drain",
    target: { ratio: 1.2 },
    n: MANY,
    ours: { label: "headgate", prepare: heldOurs, run: deepOurs },
    peer: { label: "async-sema", prepare: heldSema, run: deepSema },
    beside: [
      { label: "p-limit, run(fn)", prepare: () => pLimitRun(1), run: deepRun },
      { label: "cockatiel, run(fn)", prepare: () => cockatielRun(1), run: deepRun, n: FEW, note: FEW_NOTE },
    ],
  },
  {
    name: "abort 100 000 waiters one by one, random order",
    target: { ratio: 2 },
    n: MANY,
    ours: { label: "headgate", prepare: abortableOurs, run: abortOurs },
    peer: { label: "bare once listener", prepare: abortableBare, run: abortBare },
    beside: [
      {
        label: "cockatiel, run(fn)",
        prepare: abortableCockatiel,
        run: abortCockatiel,
        n: FEW,
        note: `${FEW_NOTE}; they leave only when the holder does`,
      },
    ],
  },
  {
    name: "refused attempt",
    target: { overNs: 15 },
    n: 1_000_000,
    pairs: 60,
    ours: { label: "headgate", prepare: fullOurs, run: refuseOurs },
    peer: { label: "empty loop", run: emptyLoop },
    beside: [
      { label: "async-sema", prepare: fullSema, run: refuseSema },
      { label: "cockatiel, run(fn)", prepare: fullCockatiel, run: refuseCockatiel, n: FEW },
    ],
  },
];
