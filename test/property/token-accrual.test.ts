import { type RateLimitLease, TokenBucketRateLimiter } from "headgate";
import { describe, expect, test } from "vitest";
import { TokenRate } from "../../src/limiters/token-rate.js";
import { ManualClock, Random, SEED } from "./support.js";

/** All steps together, a third for each part. By hand: HEADGATE_STEPS=10000000. */
const STEPS = Number(process.env["HEADGATE_STEPS"] ?? 1_000_000);
const STEPS_PER_RATE = 500;
const MAX = Number.MAX_SAFE_INTEGER;

/** A bucket's worth of a rate: what the limiter does with it, and nothing else. */
class TokenAccrual {
  readonly #rate: TokenRate;
  #tick = 0;
  #part = 0;
  fullTick = 0;

  constructor(tokensPerPeriod: number, periodMs: number) {
    this.#rate = new TokenRate(tokensPerPeriod, periodMs);
  }

  rest(tick: number): void {
    this.#tick = Math.max(this.#tick, tick);
    this.#part = 0;
  }

  earn(tick: number, missing: number): number {
    const elapsed = tick - this.#tick;
    const tokens = this.#rate.tokensIn(elapsed, this.#part);
    if (tokens <= 0) return 0;
    if (tokens >= missing) {
      this.fullTick = this.tickFor(missing);
      this.rest(tick);
      return missing;
    }
    this.#part = this.#rate.partAfter(elapsed, this.#part);
    this.#tick = tick;
    return tokens;
  }

  tickFor(tokens: number): number {
    return this.#rate.tickFor(tokens, this.#tick, this.#part);
  }
}

function ceilQuotient(a: bigint, b: bigint): bigint {
  return (a + b - 1n) / b;
}

function floorQuotient(a: bigint, b: bigint): bigint {
  return a >= 0n ? a / b : -ceilQuotient(-a, b);
}

/** What differs is shown with all that is needed to see it again. */
class Differences {
  count = 0;
  readonly #first: string[] = [];

  add(...what: readonly unknown[]): void {
    this.count += 1;
    if (this.#first.length < 5) this.#first.push(what.map(String).join(" "));
  }

  check(): void {
    expect(this.count, this.#first.join("\n")).toBe(0);
  }
}

/** Whole ticks, as odd as they come: prime-like and round, below a millisecond and years long. */
function randomPeriodTicks(random: Random): number {
  switch (random.below(5)) {
    case 0:
      return 1 + random.below(999);
    case 1:
      return 1000 * (1 + random.below(3_600_000));
    case 2:
      return 1000 * 86_400_000 * (1 + random.below(3650));
    case 3:
      return random.magnitude(1, 2 ** 31);
    default:
      return random.magnitude(1, 2 ** 48);
  }
}

function randomStep(random: Random, periodTicks: number, left: number): number {
  let step: number;
  switch (random.below(6)) {
    case 0:
      return 0;
    case 1:
      step = 1;
      break;
    case 2:
      step = random.below(1000);
      break;
    case 3:
      step = random.below(periodTicks + 1);
      break;
    case 4:
      step = Math.floor(periodTicks * random.fraction() * 8);
      break;
    default:
      step = random.chance(0.1) ? random.magnitude(1, 2 ** 46) : random.magnitude(1, 2 ** 30);
  }
  return Math.min(step, left);
}

describe("tokens accrue without an error", { timeout: 600_000 }, () => {
  test("in the arithmetic itself: every amount, the tick of the brim, and the tick of any token", () => {
    const random = new Random(SEED);
    const differences = new Differences();
    let done = 0;
    while (done < STEPS / 3) {
      const periodTicks = randomPeriodTicks(random);
      const rate = random.chance(0.3) ? 1 + random.below(1000) : random.magnitude(1, MAX);
      const limit = random.magnitude(1, MAX);
      const accrual = new TokenAccrual(rate, periodTicks / 1000);
      const n = BigInt(rate);
      const d = BigInt(periodTicks);
      // What has accrued since `origin` is (tick - origin) × n / d; `handedOut` of it are gone.
      let origin = 0n;
      let handedOut = 0n;
      let counted = 0;
      let tick = 0;
      for (let i = 0; i < STEPS_PER_RATE; i++, done++) {
        tick += randomStep(random, periodTicks, 2 ** 52 - tick);
        const seen = random.chance(0.05) ? Math.max(0, tick - random.below(2000)) : tick;
        if (random.chance(0.03)) {
          accrual.rest(seen);
          counted = Math.max(counted, seen);
          origin = BigInt(counted);
          handedOut = 0n;
          continue;
        }
        const missing = random.chance(0.5) ? limit : random.magnitude(1, limit);
        const there = ((BigInt(seen) - origin) * n) / d - handedOut;
        const got = accrual.earn(seen, missing);
        if (there >= BigInt(missing)) {
          const fullTick = origin + ceilQuotient((handedOut + BigInt(missing)) * d, n);
          if (got !== missing) differences.add("full", got, missing, rate, periodTicks, seen);
          if (BigInt(accrual.fullTick) !== fullTick)
            differences.add(
              "fullTick",
              accrual.fullTick,
              fullTick,
              "rate",
              rate,
              periodTicks,
              "missing",
              missing,
            );
          counted = seen;
          origin = BigInt(seen);
          handedOut = 0n;
        } else {
          const expected = there > 0n ? there : 0n;
          if (BigInt(got) !== expected) differences.add("earn", got, expected, rate, periodTicks, seen);
          if (got > 0) counted = seen;
          handedOut += expected;
        }
        if ((i & 3) === 0) {
          const tokens = random.magnitude(1, limit);
          const at = origin + ceilQuotient((handedOut + BigInt(tokens)) * d, n);
          const said = accrual.tickFor(tokens);
          // Beyond 2^53 ticks (285 years) it may be rounded; see below.
          const isRight =
            at <= BigInt(MAX) ? BigInt(said) === at : Math.abs(said / Number(at) - 1) <= 2 ** -52;
          if (!isRight)
            differences.add(
              "tickFor",
              tokens,
              "said",
              said,
              "is",
              at,
              "rate",
              rate,
              periodTicks,
              "origin",
              origin,
              "out",
              handedOut,
            );
        }
      }
    }
    console.log(`token accrual: ${done} steps, ${differences.count} differences`);
    differences.check();
  });

  test("in a bucket that fills continuously or by hand: grants, refusals, debts, refunds and retry-after", () => {
    const random = new Random(SEED + 1);
    const differences = new Differences();
    const clock = new ManualClock();
    let done = 0;
    while (done < STEPS / 3) {
      const periodTicks = Math.min(randomPeriodTicks(random), 2 ** 41);
      const tokensPerPeriod = random.chance(0.5) ? 1 + random.below(1000) : random.magnitude(1, MAX);
      const tokenLimit = random.chance(0.5) ? 1 + random.below(100) : random.magnitude(1, 2 ** 51);
      const isAuto = random.chance(0.6);
      clock.set(0);
      const limiter = new TokenBucketRateLimiter({
        tokenLimit,
        tokensPerPeriod,
        replenishmentPeriodMs: periodTicks / 1000,
        refill: "continuous",
        autoReplenishment: isAuto,
        clock,
      });
      // The content in parts of a token, d to one; a tick adds n of them.
      const n = BigInt(tokensPerPeriod);
      const d = BigInt(periodTicks);
      const brim = BigInt(tokenLimit) * d;
      let level = brim;
      let countedTo = 0;
      const pour = (tick: number): void => {
        level += BigInt(tick - countedTo) * n;
        if (level > brim) level = brim;
        countedTo = tick;
      };
      const look = (tick: number): void => {
        if (isAuto) pour(tick);
        else if (floorQuotient(level, d) >= BigInt(tokenLimit)) countedTo = tick;
      };
      let tick = 0;
      let lease: RateLimitLease | undefined;
      let leased = 0;
      const show = (): string =>
        `limit ${tokenLimit}, ${tokensPerPeriod} per ${periodTicks} ticks, auto ${isAuto}, tick ${tick}`;
      for (let i = 0; i < STEPS_PER_RATE; i++, done++) {
        // Up to 2^42 ticks (50 days) a tick has an exact place among binary milliseconds.
        tick += randomStep(random, periodTicks, 2 ** 42 - tick);
        clock.set(tick / 1000);
        if (!isAuto && random.chance(0.5)) {
          look(tick);
          if (level < brim) pour(tick);
          limiter.tryReplenish();
        }
        look(tick);
        const there = Number(floorQuotient(level, d));
        const action = random.below(16);
        if (action === 0 && lease !== undefined) {
          // Into debt, or back; never so far that a sum passes 2^53.
          const actual = random.chance(0.5)
            ? random.below(leased + 1)
            : leased + random.magnitude(1, tokenLimit);
          if (actual <= 2 ** 51 && there - (actual - leased) > -(2 ** 51)) {
            const back = BigInt(leased - actual) * d;
            level = back > 0n && level + back > brim ? brim : level + back;
            lease.adjust(actual);
            leased = actual;
          }
          continue;
        }
        if (action === 1) {
          const { currentAvailablePermits } = limiter.getStatistics();
          if (currentAvailablePermits !== Math.max(0, there))
            differences.add("available", currentAvailablePermits, there, show());
          continue;
        }
        const wanted =
          action === 2
            ? 0
            : random.chance(0.5)
              ? random.magnitude(1, tokenLimit)
              : Math.max(1, Math.min(tokenLimit, there + random.below(3) - 1));
        const answer = limiter.attemptAcquire(wanted);
        const expected = wanted === 0 ? there >= 1 : there >= wanted;
        if (answer.isAcquired !== expected) differences.add("grant", wanted, there, show());
        if (answer.isAcquired) {
          level -= BigInt(wanted) * d;
          lease = answer;
          leased = wanted;
          continue;
        }
        if ((i & 1) === 0) continue;
        const at = BigInt(countedTo) + ceilQuotient(BigInt(Math.max(1, wanted)) * d - level, n);
        if (at >= 2n ** 42n) continue;
        const retryAfterMs = answer.retryAfterMs as number;
        const isPast = !isAuto && at <= BigInt(tick);
        const said = Math.round((tick / 1000 + retryAfterMs) * 1000);
        if (isPast ? retryAfterMs !== 0 : BigInt(said) !== at)
          differences.add("retry-after", retryAfterMs, "said", said, "is", at, "wanted", wanted, show());
        if (isAuto && random.chance(0.2)) {
          // Whoever waits as long as told finds them there, and not a tick earlier.
          tick = Number(at) - 1;
          clock.set(tick / 1000);
          if (limiter.attemptAcquire(wanted).isAcquired) differences.add("early", wanted, show());
          tick += 1;
          clock.set(tick / 1000);
          look(tick);
          if (!limiter.attemptAcquire(wanted).isAcquired) differences.add("late", wanted, show());
          level -= BigInt(wanted) * d;
          done += 2;
        }
      }
    }
    console.log(`token bucket, continuous and manual: ${done} steps, ${differences.count} differences`);
    differences.check();
  });

  test("in a bucket that fills in steps: grants, refusals, debts, refunds and retry-after", () => {
    const random = new Random(SEED + 2);
    const differences = new Differences();
    const clock = new ManualClock();
    let done = 0;
    while (done < STEPS / 3) {
      // In eighths of a millisecond every moment is exact in binary.
      const period8 = random.chance(0.5) ? 1 + random.below(100) : random.magnitude(1, 2 ** 38);
      const tokensPerPeriod = random.chance(0.5) ? 1 + random.below(1000) : random.magnitude(1, MAX);
      const tokenLimit = random.chance(0.5) ? 1 + random.below(100) : random.magnitude(1, 2 ** 51);
      const start8 = random.below(2 ** 40);
      clock.set(start8 / 8);
      const limiter = new TokenBucketRateLimiter({
        tokenLimit,
        tokensPerPeriod,
        replenishmentPeriodMs: period8 / 8,
        clock,
      });
      let there = BigInt(tokenLimit);
      let steps = 0n;
      let moment = 0;
      let lease: RateLimitLease | undefined;
      let leased = 0;
      const show = (): string =>
        `limit ${tokenLimit}, ${tokensPerPeriod} per ${period8}/8 ms, at ${moment}/8 ms`;
      for (let i = 0; i < STEPS_PER_RATE; i++, done++) {
        moment += randomStep(random, period8, 2 ** 49 - moment);
        clock.set((start8 + moment) / 8);
        const passed = BigInt(moment) / BigInt(period8);
        there += (passed - steps) * BigInt(tokensPerPeriod);
        if (there > BigInt(tokenLimit)) there = BigInt(tokenLimit);
        steps = passed;
        const action = random.below(16);
        if (action === 0 && lease !== undefined) {
          const actual = random.chance(0.5)
            ? random.below(leased + 1)
            : leased + random.magnitude(1, tokenLimit);
          const after = there - BigInt(actual - leased);
          if (actual <= 2 ** 51 && after > -(2n ** 51n)) {
            there = after > BigInt(tokenLimit) ? BigInt(tokenLimit) : after;
            lease.adjust(actual);
            leased = actual;
          }
          continue;
        }
        if (action === 1) {
          const { currentAvailablePermits } = limiter.getStatistics();
          if (BigInt(currentAvailablePermits) !== (there < 0n ? 0n : there))
            differences.add("available", currentAvailablePermits, there, show());
          continue;
        }
        const wanted = random.chance(0.5)
          ? random.magnitude(1, tokenLimit)
          : Math.max(1, Math.min(tokenLimit, Number(there) + random.below(3) - 1));
        const answer = limiter.attemptAcquire(wanted);
        if (answer.isAcquired !== there >= BigInt(wanted)) differences.add("grant", wanted, there, show());
        if (answer.isAcquired) {
          there -= BigInt(wanted);
          lease = answer;
          leased = wanted;
          continue;
        }
        const more = ceilQuotient(BigInt(wanted) - there, BigInt(tokensPerPeriod));
        const at = (steps + more) * BigInt(period8);
        if (at > 2n ** 51n) continue;
        if (answer.retryAfterMs !== (Number(at) - moment) / 8)
          differences.add(
            "retry-after",
            answer.retryAfterMs,
            "is",
            (Number(at) - moment) / 8,
            "wanted",
            wanted,
            show(),
          );
      }
    }
    console.log(`token bucket, stepped: ${done} steps, ${differences.count} differences`);
    differences.check();
  });

  test("the tick of a token is right when the sum on the way to it passes 2^53", () => {
    const random = new Random(SEED + 3);
    const differences = new Differences();
    for (let i = 0; i < 20_000; i++) {
      // Around a whole number of ticks, where one too few or too many shows.
      const rate = Math.floor(2 ** 51 + random.fraction() * 2 ** 51);
      const periodTicks = 1 + random.below(3);
      const tokens = Math.floor((rate * (1 + random.below(3))) / periodTicks) + random.below(3) - 1;
      if (tokens > MAX) continue;
      const accrual = new TokenAccrual(rate, periodTicks / 1000);
      const at = Number(ceilQuotient(BigInt(tokens) * BigInt(periodTicks), BigInt(rate)));
      const said = accrual.tickFor(tokens);
      if (said !== at) differences.add("tickFor", tokens, "said", said, "is", at, "rate", rate, periodTicks);
    }
    differences.check();
  });

  test("the tick of a token is rounded up, never down, where ticks pass 2^53", () => {
    const random = new Random(SEED + 4);
    const differences = new Differences();
    for (let i = 0; i < 20_000; i++) {
      const rate = 1 + random.below(1000);
      const periodTicks = Math.floor(2 ** 51 + random.fraction() * 2 ** 51);
      const rested = Math.floor(2 ** 52 + random.fraction() * 2 ** 52);
      const tokens = 1 + random.below(100 * rate);
      const accrual = new TokenAccrual(rate, periodTicks / 1000);
      accrual.rest(rested);
      const at =
        BigInt(rested) +
        ceilQuotient(BigInt(tokens) * BigInt(Math.round((periodTicks / 1000) * 1000)), BigInt(rate));
      const said = accrual.tickFor(tokens);
      if (BigInt(said) < at)
        differences.add(
          "tickFor",
          tokens,
          "said",
          said,
          "is",
          at,
          "rate",
          rate,
          periodTicks,
          "rested to",
          rested,
        );
    }
    differences.check();
  });

  test.each([
    ["from 0", 0, 0],
    ["hours after the start of a process", 0, 1e7],
    ["months after the start of a process", 0, 1e10],
    ["on a clock that shows the time since 1970", 1.7e12, 1e10],
  ])("whoever waits as long as told finds the tokens there, %s", (_, earliest, span) => {
    const random = new Random(SEED + 5);
    const differences = new Differences();
    for (let i = 0; i < 5000; i++) {
      const clock = new ManualClock({ startMs: earliest + span * random.fraction() });
      const limiter = new TokenBucketRateLimiter({
        tokenLimit: 1,
        tokensPerPeriod: 1 + random.below(20),
        replenishmentPeriodMs: 1 + random.below(2000),
        refill: "continuous",
        clock,
      });
      const startMs = clock.now();
      clock.set(clock.now() + random.fraction() * 50);
      limiter.attemptAcquire();
      const answer = limiter.attemptAcquire();
      if (answer.isAcquired) continue;
      clock.set(clock.now() + (answer.retryAfterMs as number));
      const again = limiter.attemptAcquire();
      if (!again.isAcquired)
        differences.add(
          "refused; made at",
          startMs,
          "period",
          limiter.replenishmentPeriodMs,
          "now",
          clock.now(),
          "told",
          again.retryAfterMs,
        );
    }
    differences.check();
  });
});
