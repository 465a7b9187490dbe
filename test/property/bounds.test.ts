import {
  FixedWindowRateLimiter,
  type RateLimitLease,
  type ReplenishingRateLimiter,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
} from "headgate";
import { describe, expect, test } from "vitest";
import { EFFORT, ManualClock, Random, SEED, settle } from "./support.js";

/*
 * An adversary that looks for arrivals that get more through than a limiter promises: it starts with random programs
 * and climbs, by mutation, towards those that come closest to the bound (or pass it).
 *
 * Time is counted as the limiter has seen it: the highest reading at any of its calls so far, since a clock that goes back
 * must add nothing.
 */

/** A permit count that was charged (above 0) or given back (below 0), in the order in which it happened. */
interface Charge {
  readonly at: number;
  permits: number;
  readonly isGrant: boolean;
}

/** What a lease was granted, and what of it still counts by the rules of windows. */
interface Grant {
  readonly at: number;
  /** Never more than was granted: what a caller charges on top is not the limiter's doing. */
  counted: number;
  held: number;
  readonly granted: number;
  readonly lease: RateLimitLease;
}

interface Run {
  readonly charges: readonly Charge[];
  readonly grants: readonly Grant[];
}

interface Promised {
  readonly name: string;
  /** Whether the clock goes back now and then. */
  readonly goesBack: boolean;
  /** The most found, as a share of what is promised; 1 is right at the bound. */
  measure(run: Run): number;
}

interface Subject {
  readonly name: string;
  readonly limit: number;
  /** An interesting length of time, in ms. */
  readonly unit: number;
  make(clock: ManualClock): ReplenishingRateLimiter & { pause(ms: number): void };
  /** Whether what was granted then may still be given back now. */
  stillCounts(grantedAt: number, now: number): boolean;
  readonly promises: readonly Promised[];
}

type Op = readonly [kind: number, a: number, b: number];
type Program = readonly Op[];

const KINDS = 10;
const LENGTH = 22;
const OP_NAMES = [
  "take",
  "take",
  "take all",
  "wait",
  "wait to unit - 1",
  "wait to unit",
  "acquire",
  "adjust",
  "back",
  "pause",
];

function randomOp(random: Random): Op {
  return [random.below(KINDS), random.below(1000), random.below(1000)];
}

async function run(subject: Subject, program: Program, goesBack: boolean): Promise<Run> {
  const clock = new ManualClock();
  const limiter = subject.make(clock);
  const charges: Charge[] = [];
  const grants: Grant[] = [];
  let latest = 0;
  let waiting = 0;
  /** For calls that make the limiter look at the clock. */
  const look = (): void => {
    latest = Math.max(latest, clock.now());
  };
  const granted = (lease: RateLimitLease, permits: number): void => {
    charges.push({ at: latest, permits, isGrant: true });
    grants.push({ at: latest, counted: permits, held: permits, granted: permits, lease });
  };
  const wait = async (ms: number): Promise<void> => {
    if (waiting === 0) clock.advance(ms);
    // One at a time, so that a waiter's grant is seen when it happens.
    else
      for (let i = 0; i < ms; i++) {
        clock.advance(1);
        limiter.getStatistics();
        look();
        await settle();
      }
  };
  const take = (permits: number): void => {
    look();
    const lease = limiter.attemptAcquire(permits);
    if (lease.isAcquired) granted(lease, permits);
  };
  for (const [kind, a, b] of program) {
    switch (kind) {
      case 0:
      case 1:
        take(1 + (a % subject.limit));
        break;
      case 2:
        take(Math.max(1, limiter.getStatistics()?.currentAvailablePermits ?? 1));
        break;
      case 3:
        await wait(1 + (a % (2 * subject.unit)));
        break;
      case 4:
      case 5: {
        // To just before one of the next boundaries, or right at it.
        const boundary = Math.floor(clock.now() / subject.unit + 1 + (a % 3)) * subject.unit;
        const target = boundary - (kind === 4 ? 1 : 0);
        if (target > clock.now()) await wait(target - clock.now());
        break;
      }
      case 6: {
        const permits = 1 + (a % subject.limit);
        waiting += 1;
        look();
        const maxWaitMs = b % 2 === 0 ? undefined : 1 + (b % (3 * subject.unit));
        void limiter.acquire(permits, { maxWaitMs }).then((lease) => {
          waiting -= 1;
          if (lease.isAcquired) granted(lease, permits);
        });
        await settle();
        break;
      }
      case 7: {
        const grant = grants[grants.length - 1 - (a % 4)];
        if (grant === undefined) break;
        const actual = b % 3 === 0 ? 0 : b % (grant.granted + 3);
        const more = actual - grant.held;
        grant.held = actual;
        if (more === 0) break;
        look();
        charges.push({ at: latest, permits: more, isGrant: false });
        if (more < 0 && subject.stillCounts(grant.at, latest))
          grant.counted = Math.min(grant.counted, actual);
        grant.lease.adjust(actual);
        await settle();
        break;
      }
      case 8:
        if (goesBack) clock.set(Math.max(0, clock.now() - 1 - (a % subject.unit)));
        break;
      default:
        if (a % 3 !== 0) break;
        look();
        limiter.pause(1 + (b % subject.unit));
    }
  }
  limiter.dispose();
  await settle();
  return { charges, grants };
}

/** The most that was granted in any half-open span of a certain length, as a share of the bound. */
function inAnySpan(name: string, spanMs: number, bound: number, isClosed = false): Promised {
  return {
    name,
    goesBack: true,
    measure({ grants }) {
      let most = 0;
      for (let i = 0; i < grants.length; i++) {
        const from = (grants[i] as Grant).at;
        let sum = 0;
        for (const { at, counted } of grants) {
          if (at >= from && (isClosed ? at <= from + spanMs : at < from + spanMs)) sum += counted;
        }
        most = Math.max(most, sum);
      }
      return most / bound;
    },
  };
}

/** The most in any cell of the grid. */
function inAnyCell(name: string, cellMs: number, bound: number): Promised {
  return {
    name,
    goesBack: true,
    measure({ grants }) {
      const sums = new Map<number, number>();
      for (const { at, counted } of grants) {
        const cell = Math.floor(at / cellMs);
        sums.set(cell, (sums.get(cell) ?? 0) + counted);
      }
      return Math.max(0, ...sums.values()) / bound;
    },
  };
}

/** What a bucket charged, net, from any charge to any later grant, as a share of `bound(from, to)`. */
function netOfBucket(name: string, goesBack: boolean, bound: (from: number, to: number) => number): Promised {
  return {
    name,
    goesBack,
    measure({ charges }) {
      let worst = 0;
      for (let i = 0; i < charges.length; i++) {
        const from = (charges[i] as Charge).at;
        let net = 0;
        for (let j = i; j < charges.length; j++) {
          const { at, permits, isGrant } = charges[j] as Charge;
          net += permits;
          if (isGrant) worst = Math.max(worst, net / bound(from, at));
        }
      }
      return worst;
    },
  };
}

function fixedWindow(limit: number, windowMs: number, order: "oldestFirst" | "newestFirst"): Subject {
  return {
    name: `fixed window, ${limit} per ${windowMs} ms, ${order}`,
    limit,
    unit: windowMs,
    make: (clock) =>
      new FixedWindowRateLimiter({
        permitLimit: limit,
        windowMs,
        queueLimit: 2 * limit,
        queueProcessingOrder: order,
        clock,
      }),
    stillCounts: (grantedAt, now) => Math.floor(grantedAt / windowMs) === Math.floor(now / windowMs),
    promises: [
      inAnyCell("limit in a window of the grid", windowMs, limit),
      inAnySpan("2 x limit in a window-long span", windowMs, 2 * limit),
    ],
  };
}

function slidingWindow(
  limit: number,
  segments: number,
  segmentMs: number,
  order: "oldestFirst" | "newestFirst",
): Subject {
  const windowMs = segments * segmentMs;
  return {
    name: `sliding window, ${limit} per ${windowMs} ms in ${segments}, ${order}`,
    limit,
    unit: segmentMs,
    make: (clock) =>
      new SlidingWindowRateLimiter({
        permitLimit: limit,
        windowMs,
        segmentsPerWindow: segments,
        queueLimit: 2 * limit,
        queueProcessingOrder: order,
        clock,
      }),
    stillCounts: (grantedAt, now) =>
      Math.floor(now / segmentMs) - Math.floor(grantedAt / segmentMs) < segments,
    promises: [
      // Tight: the closed span touches S segments at most.
      inAnySpan("limit in a closed span of S - 1 segments", (segments - 1) * segmentMs, limit, true),
      // Tight for every S: at the end of one segment, and at the beginning of the S-th after it.
      inAnySpan("2 x limit in a window-long span", windowMs, 2 * limit),
      inAnySpan("3 x limit in a span of two windows", 2 * windowMs, 3 * limit),
    ],
  };
}

function bucket(
  limit: number,
  perPeriod: number,
  periodMs: number,
  refill: "stepped" | "continuous",
  order: "oldestFirst" | "newestFirst",
): Subject {
  return {
    name: `token bucket, ${limit}, ${perPeriod} per ${periodMs} ms, ${refill}, ${order}`,
    limit,
    unit: periodMs,
    make: (clock) =>
      new TokenBucketRateLimiter({
        tokenLimit: limit,
        tokensPerPeriod: perPeriod,
        replenishmentPeriodMs: periodMs,
        refill,
        queueLimit: 2 * limit,
        queueProcessingOrder: order,
        clock,
      }),
    stillCounts: () => true,
    promises:
      refill === "stepped"
        ? [
            netOfBucket(
              "burst + steps in the span",
              true,
              (from, to) => limit + perPeriod * (Math.floor(to / periodMs) - Math.floor(from / periodMs)),
            ),
          ]
        : [
            netOfBucket(
              "burst + rate x time, rounded down",
              false,
              (from, to) => limit + Math.floor(((to - from) * perPeriod) / periodMs),
            ),
            // The part of a token that had come by the highest reading may come once more: never a whole one.
            netOfBucket(
              "burst + rate x time, rounded up, with a clock that goes back",
              true,
              (from, to) => limit + Math.ceil(((to - from) * perPeriod) / periodMs),
            ),
          ],
  };
}

const SUBJECTS: readonly Subject[] = (["oldestFirst", "newestFirst"] as const).flatMap((order) => [
  fixedWindow(5, 10, order),
  slidingWindow(5, 1, 10, order),
  slidingWindow(5, 2, 6, order),
  slidingWindow(7, 5, 4, order),
  bucket(5, 2, 10, "stepped", order),
  bucket(3, 7, 10, "stepped", order),
  bucket(5, 2, 10, "continuous", order),
  bucket(2, 3, 17, "continuous", order),
]);

function show(program: Program): string {
  return program.map(([kind, a, b]) => `${OP_NAMES[kind]} ${a} ${b}`).join("; ");
}

/** Leaves out what is not needed to pass the bound. */
async function shrink(subject: Subject, promised: Promised, program: Program): Promise<Program> {
  let shortest = program;
  for (let i = 0; i < shortest.length; ) {
    const shorter = shortest.filter((_, at) => at !== i);
    if (promised.measure(await run(subject, shorter, promised.goesBack)) > 1) shortest = shorter;
    else i += 1;
  }
  return shortest;
}

async function hunt(
  subject: Subject,
  promised: Promised,
  random: Random,
): Promise<{ worst: number; program: Program; runs: number }> {
  let worst = 0;
  let program: Program = [];
  let runs = 0;
  for (let climb = 0; climb < 10 * EFFORT && worst <= 1; climb++) {
    let best: Program = Array.from({ length: LENGTH }, () => randomOp(random));
    let bestScore = promised.measure(await run(subject, best, promised.goesBack));
    for (let step = 0; step < 150 && worst <= 1; step++, runs++) {
      const mutant = [...best];
      for (let changes = 1 + random.below(3); changes > 0; changes--) {
        const at = random.below(mutant.length);
        if (random.chance(0.3)) mutant.splice(at, 1, ...[]);
        if (random.chance(0.4) && mutant.length < 2 * LENGTH) mutant.splice(at, 0, randomOp(random));
        else mutant[Math.min(at, mutant.length)] = randomOp(random);
      }
      const score = promised.measure(await run(subject, mutant, promised.goesBack));
      if (score >= bestScore) {
        best = mutant;
        bestScore = score;
      }
      if (score > worst) {
        worst = score;
        program = mutant;
      }
    }
  }
  return { worst, program, runs };
}

describe("no arrivals get more through than a limiter promises", { timeout: 600_000 }, () => {
  test.each(SUBJECTS.map((subject) => [subject.name, subject] as const))("%s", async (_, subject) => {
    const random = new Random(SEED);
    for (const promised of subject.promises) {
      const { worst, program, runs } = await hunt(subject, promised, random);
      console.log(`${subject.name}: ${promised.name}: worst ratio ${worst.toFixed(3)} in ${runs} programs`);
      if (worst > 1) {
        const shortest = await shrink(subject, promised, program);
        const { charges } = await run(subject, shortest, promised.goesBack);
        expect.fail(`${promised.name}: ${worst}\n${show(shortest)}\n${JSON.stringify(charges)}`);
      }
      // The adversary is worth its name: it gets to the bound.
      expect(worst).toBeGreaterThan(0.75);
    }
  });
});
