import { MemoryStore } from "express-rate-limit";
import { PartitionedRateLimiter, RateLimitPartition } from "headgate";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { randomFrom, shuffle, visibleSlots } from "../harness.mjs";

const MANY = 1_000_000;
/** For warming up, and small enough to do it several times. */
const WARM = 20_000;
/** A sample takes seconds, so there are few. */
const PAIRS = 7;
const BESIDE_PAIRS = 3;
/** So long that no partition is dropped, and no timer fires, within a sample. */
const HOUR = 3_600_000;
const LIMIT = 1_000_000_000;

/** All sides get the same strings, hashed before; what keys cost is no difference between them. */
const keys = Array.from({ length: MANY }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`);
new Set(keys).clear();

const hitsOf = new Map();

/** So many hits on so many keys, by Zipf's law with exponent 1; the popular keys are anywhere among the others. */
function zipfHits(n) {
  const known = hitsOf.get(n);
  if (known !== undefined) return known;
  const random = randomFrom(n);
  const sums = new Float64Array(n);
  for (let rank = 0, sum = 0; rank < n; rank++) {
    sum += 1 / (rank + 1);
    sums[rank] = sum;
  }
  const byRank = shuffle(keys.slice(0, n), random);
  const hits = Array.from({ length: n }, () => {
    const wanted = random() * sums[n - 1];
    let [low, high] = [0, n - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return byRank[low];
  });
  hitsOf.set(n, hits);
  return hits;
}

// ---- headgate: the options shared, as its documentation says

const fixedWindow = { permitLimit: LIMIT, windowMs: HOUR };
const tokenBucket = { tokenLimit: LIMIT, tokensPerPeriod: 1, replenishmentPeriodMs: HOUR };
const concurrency = { permitLimit: 10 };

const partitioned = (partitioner, options) => () => PartitionedRateLimiter.create(partitioner, options);
const windows = partitioned((key) => RateLimitPartition.getFixedWindowLimiter(key, () => fixedWindow));
const buckets = partitioned((key) => RateLimitPartition.getTokenBucketLimiter(key, () => tokenBucket));
// Those are idle at once, and on a busy machine a sample may take longer than the ten seconds that they are kept then.
const bulkheads = partitioned((key) => RateLimitPartition.getConcurrencyLimiter(key, () => concurrency), {
  idleLimitMs: HOUR,
});

function attemptEach(keys, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < keys.length; i++) {
    slots[i & 3] = limiter.attemptAcquire(keys[i]);
    const lease = slots[i & 3];
    if (lease.isAcquired) granted += 1;
    lease.dispose();
  }
  return granted;
}

// ---- what one would write by hand: windows of each key's own, and no timer

class TwoMaps {
  #current = new Map();
  #previous = new Map();
  #turnAt = 0;

  hit(key) {
    const now = performance.now();
    if (now >= this.#turnAt) this.#turn(now);
    let client = this.#current.get(key);
    if (client === undefined) {
      client = this.#previous.get(key) ?? { hits: 0, endsAt: now + HOUR };
      this.#current.set(key, client);
    }
    if (now >= client.endsAt) {
      client.hits = 0;
      client.endsAt = now + HOUR;
    }
    if (client.hits >= LIMIT) return false;
    client.hits += 1;
    return true;
  }

  /** Whoever has not come since the last turn is forgotten. */
  #turn(now) {
    this.#previous = this.#current;
    this.#current = new Map();
    this.#turnAt = now + HOUR;
  }
}

function hitEach(keys, maps) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < keys.length; i++) {
    slots[i & 3] = maps.hit(keys[i]);
    if (slots[i & 3]) granted += 1;
  }
  return granted;
}

// ---- peers

function expressStore() {
  const store = new MemoryStore();
  store.init({ windowMs: HOUR });
  return store;
}

async function incrementEach(keys, store) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < keys.length; i++) {
    slots[i & 3] = await store.increment(keys[i]);
    if (slots[i & 3].totalHits <= LIMIT) granted += 1;
  }
  return granted;
}

/** Without a prefix, which would make another string of each key. */
const flexible = () => new RateLimiterMemory({ points: LIMIT, duration: HOUR / 1000, keyPrefix: "" });

async function consumeEach(keys, limiter) {
  const slots = visibleSlots();
  let granted = 0;
  for (let i = 0; i < keys.length; i++) {
    slots[i & 3] = await limiter.consume(keys[i]);
    if (slots[i & 3].remainingPoints >= 0) granted += 1;
  }
  return granted;
}

async function forgetEach(keys, limiter) {
  for (const key of keys) await limiter.delete(key);
}

// ---- sides

const hit = (label, make, each, close, note) => ({ label, make, each, close, note });
const dispose = (_keys, limiter) => limiter.dispose();
const oursByWindow = hit("headgate, fixed window", windows, attemptEach, dispose);
const oursByBucket = hit("headgate, token bucket", buckets, attemptEach, dispose);
const oursByConcurrency = hit("headgate, concurrency", bulkheads, attemptEach, dispose);
const floor = hit(
  "two maps, by hand",
  () => new TwoMaps(),
  hitEach,
  () => undefined,
);
const express = hit("express-rate-limit store, await", expressStore, incrementEach, (_keys, store) =>
  store.shutdown(),
);
const flexibleMemory = hit(
  "rate-limiter-flexible, await",
  flexible,
  consumeEach,
  forgetEach,
  "and a native timer per key, not in the bytes",
);

/** A key that nobody has seen. */
const first = ({ label, make, each, close, note }) => ({
  label,
  note,
  prepare: (n) => ({ limiter: make(), keys: keys.slice(0, n) }),
  run: (_n, { limiter, keys }) => each(keys, limiter),
  finish: ({ limiter, keys }) => close(keys, limiter),
});

/** A key that is there; n of them are. */
const again = ({ label, make, each, close }) => ({
  label,
  async prepare(n) {
    const limiter = make();
    const known = keys.slice(0, n);
    await each(known, limiter);
    return { limiter, known, hits: zipfHits(n) };
  },
  run: (_n, { limiter, hits }) => each(hits, limiter),
  finish: ({ limiter, known }) => close(known, limiter),
});

const firstHitRow = (name, ours, beside) => ({
  name: `first hit of 1 000 000 keys, ${name}; bytes kept per key`,
  target: { ratio: 1, bytes: 220 },
  n: MANY,
  warmN: WARM,
  pairs: PAIRS,
  besidePairs: BESIDE_PAIRS,
  keeps: true,
  ours: first(ours),
  peer: first(express),
  beside: beside.map(first),
});

export const cases = [
  firstHitRow("token bucket", oursByBucket, [flexibleMemory, floor]),
  firstHitRow("fixed window", oursByWindow, []),
  firstHitRow("concurrency", oursByConcurrency, []),
  {
    name: "1 000 000 Zipf hits on 1 000 000 keys, fixed window",
    target: { ratio: 1.3 },
    n: MANY,
    warmN: WARM,
    pairs: PAIRS,
    besidePairs: BESIDE_PAIRS,
    ours: again(oursByWindow),
    peer: again(floor),
    beside: [express, flexibleMemory].map(again),
  },
];
