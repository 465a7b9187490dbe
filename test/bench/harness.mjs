// Measuring and statistics; knows nothing of limiters.
//
// A case compares two sides, `ours` and `peer`, and may name others to show `beside` them. A side is
//   { label, prepare?(n), run(n, state), finish?(state), n?, note? }
// `prepare` is not timed and returns the state (or a promise of it) that `run` gets; `run` does n operations, sync or
// async, and returns how many it did, so that neither the optimizer nor a slip can leave them out. `finish` is not timed
// either, and lets go of what would outlive the sample, such as timers.
//
// Rounds run all sides once each, in random order; the ratio is taken within a round, where both sides saw the same
// machine. What is reported is the geometric mean of those ratios and its 95 % interval. Cases with `target.overNs`
// compare by difference instead: ours less `target.ratio` (1 if left out) times the peer's. A target is missed when the
// whole interval is beyond it.
//
// The bytes of a case are those that its operations allocate, or with `keeps: true` those that are still there after them.
// `warmN` is for cases whose n is too large to warm up with.
import { PerformanceObserver } from "node:perf_hooks";

/** The quantile of Student's t that leaves 2.5 % on each side. */
function tQuantile(degrees) {
  const few = [12.706, 4.303, 3.182, 2.776, 2.571];
  if (degrees <= few.length) return few[degrees - 1];
  // Cornish-Fisher; exact to three decimals from 6 degrees on.
  const z = 1.959964;
  return (
    z +
    (z ** 3 + z) / (4 * degrees) +
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * degrees ** 2) +
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * degrees ** 3)
  );
}

/** Mean and 95 % interval. */
function interval(values) {
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  if (values.length < 2) return { mean, low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY };
  const variance = values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / (values.length - 1);
  const half = tQuantile(values.length - 1) * Math.sqrt(variance / values.length);
  return { mean, low: mean - half, high: mean + half };
}

/** Geometric mean of ratios, with its 95 % interval. */
export function ratioInterval(ratios) {
  const { mean, low, high } = interval(ratios.map(Math.log));
  return { mean: Math.exp(mean), low: Math.exp(low), high: Math.exp(high) };
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Mulberry32: the order of every run is the same, and no side profits from it. */
export function randomFrom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function shuffle(items, random) {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [items[i], items[j]] = [items[j], items[i]];
  }
  return items;
}

let kept;
const recent = [];

/**
 * An array whose content the optimizer has to believe in. A lease that is stored here is really allocated, as it is for
 * users, whose leases live across calls and awaits; without it, escape analysis makes short-lived ones free.
 *
 * The arrays of the last samples live on. If a collection found no lease of a class alive, V8 would drop the hidden class,
 * and with it all optimized code that knows of it; every sample would begin with compiling.
 */
export function visibleSlots() {
  kept = [undefined, undefined, undefined, undefined];
  recent.push(kept);
  if (recent.length > 32) recent.shift();
  return kept;
}

function checkDone(side, done, n) {
  if (done !== n) throw new Error(`${side.label} did ${done} of ${n} operations; last slots: ${kept}`);
}

/** Nanoseconds per operation, once; adds the bytes that each operation left behind to `kept`. */
async function sample(side, n, kept) {
  const state = await side.prepare?.(n);
  // Nobody pays for the garbage of the side before, and what `prepare` made is in old space, where long-lived
  // limiters are.
  gc();
  const before = kept && process.memoryUsage().heapUsed;
  const start = performance.now();
  const answer = side.run(n, state);
  const done = typeof answer === "number" ? answer : await answer;
  const elapsed = performance.now() - start;
  if (kept !== undefined) {
    gc();
    kept.push((process.memoryUsage().heapUsed - before) / n);
  }
  await side.finish?.(state);
  checkDone(side, done, n);
  return (elapsed * 1e6) / n;
}

/** Bytes that n operations allocate, garbage included; NaN when a collection came in between. */
async function heapGrowth(side, n) {
  const state = await side.prepare?.(n);
  const collections = [];
  const observer = new PerformanceObserver((list) => collections.push(...list.getEntries()));
  observer.observe({ entryTypes: ["gc"] });
  gc();
  const start = performance.now();
  const before = process.memoryUsage().heapUsed;
  const answer = side.run(n, state);
  const done = typeof answer === "number" ? answer : await answer;
  const growth = process.memoryUsage().heapUsed - before;
  const end = performance.now();
  checkDone(side, done, n);
  // Collections are reported in a later turn.
  while (collections.length === 0) await new Promise(setImmediate);
  observer.disconnect();
  await side.finish?.(state);
  const disturbed = collections.some(({ startTime }) => startTime > start && startTime < end);
  return disturbed ? Number.NaN : growth;
}

/**
 * Bytes per operation. From two sizes, so that what measuring itself allocates cancels out; the median, since the
 * compiler allocates now and then. NaN when n operations do not fit into the new space.
 */
async function bytesPerOp(side, n) {
  const slopes = [];
  for (let i = 0; i < 15; i++) {
    const small = await heapGrowth(side, n);
    const slope = ((await heapGrowth(side, 2 * n)) - small) / n;
    if (!Number.isNaN(slope)) slopes.push(slope);
  }
  return slopes.length === 0 ? Number.NaN : median(slopes);
}

/** Runs a side until it is optimized. */
async function warmSide(side, n) {
  const until = performance.now() + 150;
  for (let i = 0; i === 0 || (i < 20 && performance.now() < until); i++) await sample(side, n);
}

/** Measures one case. */
export async function measure(testCase, pairs, random) {
  const { ours, peer, beside = [], target, bytesN = 1000, keeps = false, warmN } = testCase;
  const sides = [ours, peer, ...beside];
  const besidePairs = Math.min(testCase.besidePairs ?? 7, pairs);
  const times = new Map(sides.map((side) => [side, []]));
  const size = (side) => side.n ?? testCase.n;
  const kept = new Map(sides.map((side) => [side, keeps ? [] : undefined]));
  for (const side of sides) await warmSide(side, warmN ?? size(side));
  for (let round = 0; round < pairs; round++) {
    const playing = round < besidePairs ? [...sides] : [ours, peer];
    for (const side of shuffle(playing, random)) {
      times.get(side).push(await sample(side, size(side), kept.get(side)));
    }
  }
  const bytes = new Map();
  for (const side of sides)
    bytes.set(side, keeps ? median(kept.get(side)) : await bytesPerOp(side, side.bytesN ?? bytesN));
  const against = (side) => {
    const theirs = times.get(side);
    const mine = times.get(ours).slice(0, theirs.length);
    return {
      label: side.label,
      note: side.note,
      ns: median(theirs),
      bytes: bytes.get(side),
      pairs: theirs.length,
      ratio: ratioInterval(mine.map((t, i) => t / theirs[i])),
      over: interval(mine.map((t, i) => t - (target?.ratio ?? 1) * theirs[i])),
    };
  };
  const versus = against(peer);
  return {
    name: testCase.name,
    target,
    ns: median(times.get(ours)),
    bytes: bytes.get(ours),
    peer: versus,
    beside: beside.map(against),
    verdict: verdict(target, versus, bytes.get(ours)),
  };
}

/** `met?` says that the interval holds the target: not missed, not sure either. */
function verdict(target, versus, bytes) {
  if (target === undefined) return "";
  const [bound, { low, high }] =
    target.overNs === undefined ? [target.ratio, versus.ratio] : [target.overNs, versus.over];
  // Half a byte is rounding, not an allocation.
  if (low > bound || bytes > (target.bytes ?? Number.POSITIVE_INFINITY) + 0.5) return "MISSED";
  return high <= bound ? "met" : "met?";
}

/** Measures an object of known size the way the cases are measured; the counts below it are worth as much. */
export async function checkBytes() {
  const side = {
    label: "a known object",
    run(n) {
      const slots = visibleSlots();
      let done = 0;
      for (let i = 0; i < n; i++) {
        slots[i & 3] = { a: i, b: i, c: i };
        done += 1;
      }
      return done;
    },
  };
  await warmSide(side, 100_000);
  return bytesPerOp(side, 400);
}
