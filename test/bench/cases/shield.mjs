import { bulkhead, wrap } from "cockatiel";
import { ConcurrencyLimiter, TokenBucketRateLimiter } from "headgate";
import { limiterPolicy } from "headgate/cockatiel";
import { Shield } from "headgate/shield";

const BUCKET = {
  tokenLimit: 1_000_000_000,
  tokensPerPeriod: 1_000_000_000,
  replenishmentPeriodMs: 1000,
  refill: "continuous",
};

const places = new ConcurrencyLimiter({ permitLimit: 10 });
const bucket = new TokenBucketRateLimiter(BUCKET);
const shield = Shield.concurrencyLimit(10).rateLimit({ permits: 1_000_000_000 });
const oneLimit = Shield.concurrencyLimit(10);
const theBulkhead = bulkhead(10);
const twoBulkheads = wrap(bulkhead(10), bulkhead(10));
const policy = limiterPolicy(new ConcurrencyLimiter({ permitLimit: 10 }));

// Calls that never end, and leases that are never given back, one of each kind: if a collection found none of a class alive,
// V8 would drop its hidden class and all optimized code that knows it, and every sample would begin with compiling.
const neverEnding = new Promise(() => {});
const never = () => neverEnding;
for (const one of [shield, oneLimit, theBulkhead, twoBulkheads, policy]) void one.execute(never);
const kept = [neverEnding, places.attemptAcquire(), bucket.attemptAcquire()];

let done = 0;
const work = async () => {
  done += 1;
};

/** What users write by hand around two limiters: the same outcome, the same guarantee that both leases go back. */
async function bare() {
  const place = places.attemptAcquire();
  try {
    if (!place.isAcquired) throw new Error("refused");
    const token = bucket.attemptAcquire();
    try {
      if (!token.isAcquired) throw new Error("refused");
      return await work();
    } finally {
      token.dispose();
    }
  } finally {
    place.dispose();
  }
}

/** The same by `acquire`, which may wait. */
async function bareAcquire() {
  const place = (await places.acquire()).orThrow();
  try {
    const token = (await bucket.acquire()).orThrow();
    try {
      return await work();
    } finally {
      token.dispose();
    }
  } finally {
    place.dispose();
  }
}

async function bareOne() {
  const place = places.attemptAcquire();
  try {
    if (!place.isAcquired) throw new Error("refused");
    return await work();
  } finally {
    place.dispose();
  }
}

/** Each side has a loop of its own, so that no call site has seen the others. */
const side = (label, run, more = {}) => ({ label, run, kept, ...more });

async function loopShield(n) {
  done = 0;
  for (let i = 0; i < n; i++) await shield.execute(work);
  return done;
}

async function loopBare(n) {
  done = 0;
  for (let i = 0; i < n; i++) await bare();
  return done;
}

async function loopBareAcquire(n) {
  done = 0;
  for (let i = 0; i < n; i++) await bareAcquire();
  return done;
}

async function loopOne(n) {
  done = 0;
  for (let i = 0; i < n; i++) await oneLimit.execute(work);
  return done;
}

async function loopBareOne(n) {
  done = 0;
  for (let i = 0; i < n; i++) await bareOne();
  return done;
}

async function loopBulkhead(n) {
  done = 0;
  for (let i = 0; i < n; i++) await theBulkhead.execute(work);
  return done;
}

async function loopTwoBulkheads(n) {
  done = 0;
  for (let i = 0; i < n; i++) await twoBulkheads.execute(work);
  return done;
}

async function loopPolicy(n) {
  done = 0;
  for (let i = 0; i < n; i++) await policy.execute(work);
  return done;
}

const full = new ConcurrencyLimiter({ permitLimit: 1 });
kept.push(full.attemptAcquire());
const fullShield = Shield.empty.useRateLimiter(full);
const fullBulkhead = bulkhead(1);
void fullBulkhead.execute(never);

async function loopRefused(n) {
  let refused = 0;
  const count = () => {
    refused += 1;
  };
  for (let i = 0; i < n; i++) await fullShield.execute(work).catch(count);
  return refused;
}

async function loopRefusedBulkhead(n) {
  let refused = 0;
  const count = () => {
    refused += 1;
  };
  for (let i = 0; i < n; i++) await fullBulkhead.execute(work).catch(count);
  return refused;
}

export const cases = [
  {
    name: "shield: a concurrency limit and a rate limit, nobody waits",
    n: 20_000,
    ours: side("Shield", loopShield),
    peer: side("both limiters by hand", loopBare),
    beside: [
      side("both by acquire", loopBareAcquire, { note: "what may wait" }),
      side("cockatiel bulkhead", loopBulkhead, { note: "one limit only" }),
      side("cockatiel wrap of two", loopTwoBulkheads, { note: "two bulkheads, no rate" }),
    ],
    target: { ratio: 3 },
  },
  {
    name: "shield: a concurrency limit, nobody waits",
    n: 20_000,
    ours: side("Shield", loopOne),
    peer: side("cockatiel bulkhead", loopBulkhead),
    beside: [side("the limiter by hand", loopBareOne), side("limiterPolicy", loopPolicy)],
  },
  {
    name: "shield: a refused call",
    n: 2000,
    ours: side("Shield", loopRefused),
    peer: side("cockatiel bulkhead", loopRefusedBulkhead),
  },
];
