import { ConcurrencyLimiter, systemClock } from "headgate";
import { AdaptiveConcurrencyLimiter, FixedLimit } from "headgate/adaptive";
import { visibleSlots } from "../harness.mjs";

const N = 500_000;

// The algorithms learn from each lease; a limit that stays as it is shows what the limiter itself costs.
const fixed = () => new AdaptiveConcurrencyLimiter({ limit: new FixedLimit(10) });
const learning = () => new AdaptiveConcurrencyLimiter({ initialLimit: 10 });
const shared = () =>
  new AdaptiveConcurrencyLimiter({ limit: new FixedLimit(10), shares: { live: 0.7, batch: 0.3 } }).forShare(
    "live",
  );

function admit(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.report("success");
    lease.dispose();
  }
  return granted;
}

/** Copies, so that each call site sees one kind. */
function admitLearning(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.report("success");
    lease.dispose();
  }
  return granted;
}

function admitShared(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < n; i++) {
    slots[i & 3] = limiter.attemptAcquire();
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.report("success");
    lease.dispose();
  }
  return granted;
}

/** Three leases of a plain limiter for each two rounds, and two clock reads in each. */
function plainAndReads(n, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  let latest = 0;
  for (let i = 0; i < n; i++) {
    for (let j = i & 1; j < 2; j++) {
      slots[i & 3] = limiter.attemptAcquire();
      const lease = slots[i & 3];
      if (lease.isAcquired) granted += 1;
      lease.dispose();
    }
    latest = Math.max(latest, systemClock.now(), systemClock.now());
  }
  return granted > 0 && latest > 0 ? n : 0;
}

function full(limiter) {
  while (limiter.attemptAcquire().isAcquired);
  return limiter;
}

function refuse(n, limiter) {
  let refused = 0;
  for (let i = 0; i < n; i++) if (!limiter.attemptAcquire().isAcquired) refused += 1;
  return refused;
}

function refusePlain(n, limiter) {
  let refused = 0;
  for (let i = 0; i < n; i++) if (!limiter.attemptAcquire().isAcquired) refused += 1;
  return refused;
}

export const cases = [
  {
    name: "adaptive: attempt + report + dispose",
    target: { ratio: 1 },
    n: N,
    pairs: 60,
    ours: { label: "headgate, fixed limit", prepare: fixed, run: admit },
    peer: {
      label: "1.5 x ConcurrencyLimiter + two clock reads",
      prepare: () => new ConcurrencyLimiter({ permitLimit: 10 }),
      run: plainAndReads,
    },
    beside: [
      { label: "headgate, default algorithm", prepare: learning, run: admitLearning },
      { label: "headgate, share of two", prepare: shared, run: admitShared },
    ],
  },
  {
    name: "adaptive: refused attempt",
    target: { ratio: 1.5 },
    n: 1_000_000,
    pairs: 60,
    ours: { label: "headgate", prepare: () => full(fixed()), run: refuse },
    peer: {
      label: "ConcurrencyLimiter",
      prepare: () => full(new ConcurrencyLimiter({ permitLimit: 10 })),
      run: refusePlain,
    },
  },
];
