import {
  FixedWindowRateLimiter,
  type FixedWindowRateLimiterOptions,
  MetadataName,
  SlidingWindowRateLimiter,
  type SlidingWindowRateLimiterOptions,
  TokenBucketRateLimiter,
  type TokenBucketRateLimiterOptions,
} from "headgate";
import { describe, expect, it, vi } from "vitest";
import { CountingClock, ManualClock } from "../support.js";
import { ask, available, fates, numbers, type Replenishing, replenish } from "./replenishing-support.js";

// The rules of sections 2.5 to 2.9 of spec/system-threading-ratelimiting.md and of design.md C-7 to C-9, C-13 and C-14
// that no row of tables 3.2 to 3.4 tests, and the reported faults (cases/reported-faults.md) of such limiters.

interface Common {
  readonly clock: ManualClock;
  readonly queueLimit?: number;
  readonly autoReplenishment?: boolean;
  readonly queueProcessingOrder?: "newestFirst";
}

/** Makes a limiter of `limit` permits that, emptied at the start, has all of them back after `lengthMs`. */
type Make = (limit: number, common: Common, lengthMs?: number) => Replenishing;

const fixed: Make = (permitLimit, common, lengthMs = 1000) =>
  new FixedWindowRateLimiter({ permitLimit, windowMs: lengthMs, ...common });
const sliding: Make = (permitLimit, common, lengthMs = 1000) =>
  new SlidingWindowRateLimiter({ permitLimit, windowMs: lengthMs, segmentsPerWindow: 4, ...common });
const bucket =
  (refill: "stepped" | "continuous"): Make =>
  (limit, common, lengthMs = 1000) => {
    const rate = { tokensPerPeriod: limit, replenishmentPeriodMs: lengthMs, refill };
    return new TokenBucketRateLimiter({ tokenLimit: limit, ...rate, ...common });
  };

const KINDS: readonly (readonly [name: string, make: Make])[] = [
  ["a fixed window", fixed],
  ["a sliding window", sliding],
  ["a stepped bucket", bucket("stepped")],
  ["a continuous bucket", bucket("continuous")],
];

/** A limiter of 5 that was emptied, at 0 unless the clock says otherwise, by leases of the given sizes. */
function empty(make: Make, common: Partial<Common> = {}, sizes: readonly number[] = [5]) {
  const clock = common.clock ?? new ManualClock();
  const limiter = make(5, { queueLimit: 20, clock, ...common });
  const leases = sizes.map((size) => limiter.attemptAcquire(size));
  expect(available(limiter)).toBe(5 - sizes.reduce((sum, size) => sum + size, 0));
  return { clock, limiter, leases };
}

/** How many of so many attempts are granted. */
function admitted(limiter: Replenishing, attempts: number): number {
  let count = 0;
  for (let i = 0; i < attempts; i++) if (limiter.attemptAcquire().isAcquired) count += 1;
  return count;
}

/** Numbers from 0 to 1 that are the same in every run. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
}

/** The greatest number below a positive one. */
function justBelow(value: number): number {
  const bits = new BigInt64Array(new Float64Array([value]).buffer);
  bits[0] = (bits[0] as bigint) - 1n;
  return new Float64Array(bits.buffer)[0] as number;
}

// Some tests make special limiters of one kind.
const windowOf = (options: FixedWindowRateLimiterOptions) => new FixedWindowRateLimiter(options);
const slidingOf = (options: SlidingWindowRateLimiterOptions) => new SlidingWindowRateLimiter(options);
const bucketOf = (
  tokenLimit: number,
  tokensPerPeriod: number,
  replenishmentPeriodMs: number,
  options: Partial<TokenBucketRateLimiterOptions>,
) => new TokenBucketRateLimiter({ tokenLimit, tokensPerPeriod, replenishmentPeriodMs, ...options });

describe.each(KINDS)("%s that replenishes itself", (_name, make) => {
  it("R-REPL-1 C-13 comes back with time and without a timer, and tryReplenish has no part in it", () => {
    const { clock, limiter } = empty(make);
    expect(clock.timerCount).toBe(0);
    clock.set(999.999);
    expect(limiter.tryReplenish()).toBe(false);
    expect(available(limiter)).toBeLessThan(5);
    clock.set(1000);
    expect(limiter.tryReplenish()).toBe(false);
    expect(available(limiter)).toBe(5);
  });

  it("R-REPL-5 gets nothing back from leases that are disposed", () => {
    const { limiter, leases } = empty(make, {}, [2, 3]);
    for (const lease of leases) {
      lease.dispose();
      lease[Symbol.dispose]();
    }
    expect(available(limiter)).toBe(0);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
  });

  it("R-CORE-6 R-IDLE-4 tells its period, mode and idle time when disposed", () => {
    const clock = new ManualClock();
    const limiter = make(5, { clock });
    clock.advance(7);
    limiter.dispose();
    expect(limiter.tryReplenish()).toBe(false);
    expect(limiter.isAutoReplenishing).toBe(true);
    expect(limiter.replenishmentPeriodMs).toBeGreaterThan(0);
    expect(limiter.idleDurationMs).toBe(7);
  });

  it("R-REPL-6 gets nothing back once it is disposed", () => {
    const { clock, limiter, leases } = empty(make);
    limiter.dispose();
    clock.advance(5000);
    expect(limiter.idleDurationMs).toBeUndefined();
    expect(leases[0]?.tryGetMetadata(MetadataName.remaining)).toBe(0);
  });

  it("R-CORE-24 has taken its options when it was made", () => {
    const common = { queueLimit: 0, clock: new ManualClock() };
    const limiter = make(2, common);
    common.queueLimit = 10;
    common.clock = new ManualClock({ startMs: 1e6 });
    expect(limiter.attemptAcquire(2).isAcquired).toBe(true);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
  });

  it("R-IDLE-1 R-IDLE-2 is idle from the start, through probes and errors, and not after a grant", async () => {
    const clock = new ManualClock({ startMs: 77 });
    const limiter = make(5, { clock });
    clock.advance(40);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(true);
    expect(await fates(ask(limiter, 0))).toBe("+");
    expect(() => limiter.attemptAcquire(6)).toThrow(RangeError);
    expect(limiter.idleDurationMs).toBe(40);
    limiter.attemptAcquire();
    expect(limiter.idleDurationMs).toBeUndefined();
  });

  it("R-IDLE-3 C-13 has been idle since the boundary at which it became full, whoever looks when", () => {
    for (const looks of [[], [1000], [999, 1001, 4000]]) {
      const { clock, limiter } = empty(make);
      for (const look of looks) {
        clock.set(look);
        limiter.getStatistics();
      }
      clock.set(5500);
      expect(limiter.idleDurationMs).toBe(4500);
      clock.set(90_000);
      expect(limiter.idleDurationMs).toBe(89_000);
    }
  });

  it("R-IDLE-3 keeps its old mark while it stays unused, however many windows go by", () => {
    const clock = new ManualClock();
    const limiter = make(5, { clock });
    for (let i = 1; i <= 20; i++) {
      clock.advance(300);
      expect(limiter.idleDurationMs).toBe(i * 300);
    }
  });

  it("R-IDLE-3 is not idle when a waiter took what came back", async () => {
    const { clock, limiter } = empty(make);
    const waiting = ask(limiter, 5);
    expect(limiter.idleDurationMs).toBeUndefined();
    clock.advance(1000);
    expect(limiter.idleDurationMs).toBeUndefined();
    expect(await fates(waiting)).toBe("+");
    clock.advance(2000);
    expect(limiter.idleDurationMs).toBe(1000);
  });

  it("C-13 serves waiters in one drain at each boundary, in order", async () => {
    const { clock, limiter } = empty(make);
    const waiters = [ask(limiter, 5), ask(limiter, 0), ask(limiter, 5), ask(limiter, 5)];
    const seen: string[] = [];
    for (let i = 0; i < 4; i++) {
      seen.push(await fates(...waiters));
      clock.advance(1000);
    }
    expect(seen).toEqual(["....", "++..", "+++.", "++++"]);
  });

  it("C-13 an attempt at the boundary serves the waiters first, before their alarm rings", async () => {
    const { clock, limiter } = empty(make);
    const waiting = ask(limiter, 3);
    clock.set(1000);
    expect(limiter.attemptAcquire(2).isAcquired).toBe(true);
    expect(numbers(limiter)).toBe("0/0/0/3");
    expect(await fates(waiting)).toBe("+");
    expect(clock.timerCount).toBe(0);
  });

  it("C-13 R-JS-10 has one timer while somebody waits, which keeps the process alive, and none before and after", async () => {
    const clock = new CountingClock();
    const { limiter } = empty(make, { clock });
    expect([clock.timersSet, clock.timerCount]).toEqual([0, 0]);
    const caller = new AbortController();
    const waiters = [ask(limiter), ask(limiter), ask(limiter, 1, caller.signal)];
    expect([clock.timersSet, clock.timerCount, clock.keepAliveTimerCount]).toEqual([1, 1, 1]);
    caller.abort();
    clock.advance(1000);
    expect(await fates(...waiters)).toBe("++x");
    expect(clock.timerCount).toBe(0);
    limiter.attemptAcquire(available(limiter));
    ask(limiter, 1, AbortSignal.abort());
    const last = new AbortController();
    const leaving = ask(limiter, 1, last.signal);
    expect(clock.timerCount).toBe(1);
    last.abort();
    expect(await fates(leaving)).toBe("x");
    expect(clock.timerCount).toBe(0);
    ask(limiter);
    expect(clock.timerCount).toBe(1);
    limiter.dispose();
    expect(clock.timerCount).toBe(0);
  });

  it("design 6 reads the clock once and sets no timer for an attempt or a request, granted or refused", async () => {
    const clock = new CountingClock();
    const limiter = make(2, { clock });
    const cost = (action: () => unknown): number[] => {
      const before = clock.reads;
      action();
      return [clock.reads - before, clock.timersSet];
    };
    expect(cost(() => limiter.attemptAcquire())).toEqual([1, 0]);
    expect(cost(() => ask(limiter))).toEqual([1, 0]);
    expect(cost(() => limiter.attemptAcquire())).toEqual([1, 0]);
    expect(cost(() => limiter.attemptAcquire(0))).toEqual([1, 0]);
    expect(cost(() => ask(limiter))).toEqual([1, 0]);
    expect(cost(() => limiter.attemptAcquire().retryAfterMs)).toEqual([1, 0]);
    clock.advance(1000);
    expect(cost(() => limiter.attemptAcquire())).toEqual([1, 0]);
  });

  it("sets no timer for 10 000 used limiters (H9: dotnet/runtime#118112)", () => {
    const clock = new CountingClock();
    for (let i = 0; i < 10_000; i++) {
      const limiter = make(1, { clock, queueLimit: 1 });
      limiter.attemptAcquire();
      limiter.attemptAcquire();
    }
    expect(clock.timersSet).toBe(0);
  });

  it("R-REPL-3 design 4.4 adds nothing while the clock stands still", () => {
    const { clock, limiter } = empty(make, { clock: new ManualClock({ startMs: 123.456 }) });
    expect(admitted(limiter, 1000)).toBe(0);
    expect(available(limiter)).toBe(0);
    clock.advance(1000);
    expect(admitted(limiter, 1000)).toBe(5);
    expect(admitted(limiter, 1000)).toBe(0);
  });

  it("design 4.4 adds nothing when the clock goes back an hour, and goes on when it has caught up", async () => {
    const hour = 3_600_000;
    const clock = new ManualClock({ startMs: 2 * hour });
    const { limiter } = empty(make, { clock });
    clock.advance(500);
    limiter.getStatistics();
    const before = available(limiter) as number;
    clock.set(hour);
    expect(available(limiter)).toBe(before);
    expect(admitted(limiter, 10)).toBe(before);
    const waiting = ask(limiter, 5);
    clock.set(2 * hour + 400);
    expect(available(limiter)).toBe(0);
    clock.advance(100);
    expect(available(limiter)).toBe(0);
    clock.advance(1000);
    expect(await fates(waiting)).toBe("+");
    expect(numbers(limiter).split("/")[1]).toBe("0");
  });

  it("design 4.4 adds nothing for time that it has seen pass before the clock went back", () => {
    const clock = new ManualClock();
    const limiter = make(5, { clock });
    clock.set(7_200_000);
    expect(available(limiter)).toBe(5);
    clock.set(3_600_000);
    expect(limiter.attemptAcquire(5).isAcquired).toBe(true);
    clock.set(7_200_000);
    expect(available(limiter)).toBe(0);
    clock.advance(1000);
    expect(available(limiter)).toBe(5);
  });

  it("design 4.4 has its limit, and not more, after the clock has jumped a year", async () => {
    const { clock, limiter } = empty(make);
    const waiters = [ask(limiter, 5), ask(limiter, 5)];
    clock.set(365 * 86_400_000);
    expect(available(limiter)).toBe(0);
    expect(await fates(...waiters)).toBe("+.");
    clock.advance(1000);
    expect(await fates(...waiters)).toBe("++");
    clock.set(2 * 365 * 86_400_000);
    expect(admitted(limiter, 20)).toBe(5);
  });

  it("R-REPL-8 lasts as long as it says with a window of 30 days (H22: animir/node-rate-limiter-flexible#71)", async () => {
    const month = 30 * 86_400_000;
    const clock = new ManualClock();
    const limiter = make(1, { clock, queueLimit: 2 }, month);
    limiter.attemptAcquire();
    clock.advance(10);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(month - 10);
    const waiting = ask(limiter);
    const patient = limiter.acquire(1, { maxWaitMs: 3 * month });
    // The clock of the tests refuses delays that hosts would turn into 1 ms.
    clock.advance(month - 11);
    expect(await fates(waiting)).toBe(".");
    clock.advance(1);
    expect(await fates(waiting)).toBe("+");
    clock.advance(month);
    expect((await patient).isAcquired).toBe(true);
  });

  it("counts exactly with 2^31 permits per 10 minutes", () => {
    const clock = new ManualClock();
    const limiter = make(2 ** 31, { clock }, 600_000);
    expect(limiter.attemptAcquire(2 ** 31 - 1).isAcquired).toBe(true);
    expect(available(limiter)).toBe(1);
    limiter.attemptAcquire();
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    clock.advance(600_000);
    expect(available(limiter)).toBe(2 ** 31);
    expect(limiter.attemptAcquire(2 ** 31).isAcquired).toBe(true);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
  });

  it("admits no more than its limit at the start of a window of a fraction of a millisecond", () => {
    for (const lengthMs of [0.1, 1 / 3, 0.7]) {
      const clock = new ManualClock();
      const limiter = make(3, { clock }, lengthMs);
      for (let k = 0; k < 1000; k++) {
        // A nanosecond late, since segments and ticks may not add up to the window to the last bit.
        clock.set(k * lengthMs + 0.001 * Math.sign(k));
        expect(admitted(limiter, 4)).toBeLessThanOrEqual(3);
        clock.set(k * lengthMs + lengthMs / 10);
        expect(admitted(limiter, 4)).toBeLessThanOrEqual(1);
      }
      clock.advance(5);
      expect(available(limiter)).toBe(3);
    }
  });

  it("refuses a count over the limit, and nothing has changed (H32: google/guava#7130)", async () => {
    const { clock, limiter } = empty(make, {}, [2]);
    for (const count of [5000, 6, 2 ** 31, 2 ** 53 - 1]) {
      expect(() => limiter.attemptAcquire(count)).toThrow(RangeError);
      await expect(limiter.acquire(count)).rejects.toThrow(RangeError);
      expect(() => limiter.estimateWaitMs(count)).toThrow(RangeError);
    }
    expect(numbers(limiter)).toBe("3/0/0/1");
    clock.advance(1000);
    expect(available(limiter)).toBe(5);
  });

  it("admits its limit in each of four windows (H43: BasedHardware/omi#10164)", () => {
    const clock = new ManualClock();
    const limiter = make(5, { clock });
    const counts = [0, 1000, 2000, 3000].map((at) => {
      clock.set(at);
      return admitted(limiter, 8);
    });
    expect(counts).toEqual([5, 5, 5, 5]);
  });

  it("serves who is left when those before have been aborted (H17: sindresorhus/p-queue#219)", async () => {
    const clock = new ManualClock();
    const limiter = make(1, { clock, queueLimit: 20 });
    limiter.attemptAcquire();
    const caller = new AbortController();
    const leaving = Array.from({ length: 10 }, () => ask(limiter, 1, caller.signal));
    const eleventh = ask(limiter);
    caller.abort();
    clock.advance(1000);
    expect(await fates(...leaving, eleventh)).toBe("xxxxxxxxxx+");
  });

  it("keeps no process alive unless somebody waits (H18: sindresorhus/p-queue#163)", async () => {
    const clock = new ManualClock();
    const limiter = make(1, { clock, queueLimit: 1 }, 60_000);
    expect(await fates(ask(limiter))).toBe("+");
    expect(clock.keepAliveTimerCount).toBe(0);
    const waiting = ask(limiter);
    expect(clock.keepAliveTimerCount).toBe(1);
    clock.advance(60_000);
    expect(await fates(waiting)).toBe("+");
    expect(clock.keepAliveTimerCount).toBe(0);
  });

  it("does not look at the wall clock (H37: jhurliman/node-rate-limiter#22)", () => {
    const limiter = make(10, {} as Common, 100);
    limiter.attemptAcquire();
    vi.spyOn(Date, "now").mockReturnValue(Date.now() - 3_600_000);
    expect(limiter.attemptAcquire(5).isAcquired).toBe(true);
    const refused = limiter.attemptAcquire(10);
    // Nobody is told to wait for hours.
    expect(refused.retryAfterMs ?? 0).toBeLessThanOrEqual(100);
  });

  it("grants none early and none late, with alarms that are off by 15 ms (H6: dotnet/runtime#74056)", async () => {
    const random = randomNumbers(11);
    const clock = new ManualClock({ timerSkewMs: () => Math.round(random() * 30 - 15) });
    const limiter = make(1, { clock, queueLimit: 100 });
    limiter.attemptAcquire();
    const grantedAt: number[] = [];
    for (let i = 0; i < 24; i++) void limiter.acquire().then(() => grantedAt.push(clock.now()));
    while (grantedAt.length < 24 && clock.now() < 40_000) {
      clock.advance(1);
      await fates();
    }
    expect(grantedAt).toHaveLength(24);
    expect(grantedAt.at(-1)).toBeGreaterThanOrEqual(24_000);
    expect(grantedAt.at(-1)).toBeLessThan(25_000);
    expect(new Set(grantedAt.map((at) => Math.floor(at / 1000))).size).toBe(24);
  });
});

describe.each(KINDS)("retry-after of %s", (_name, make) => {
  const LENGTHS = [1000, 60_000, 1000 / 3, 1300];

  it.each([
    ["a clock that has just started", 0],
    ["a process that has run for a while", 5000],
    ["a process that has run for weeks", 2e9],
  ])("C-14 keeps its word, at any moment of %s (H14: golang/go#34861)", (_, base) => {
    const random = randomNumbers(3);
    let tried = 0;
    for (let round = 0; round < 4000; round++) {
      const clock = new ManualClock({ startMs: base + random() * 100 });
      const limiter = make(5, { clock }, LENGTHS[round % LENGTHS.length]);
      clock.advance(random() * 5000);
      while (limiter.attemptAcquire().isAcquired);
      clock.advance(random() * 100);
      const count = 1 + Math.floor(random() * 5);
      const refused = limiter.attemptAcquire(count);
      if (refused.isAcquired) continue;
      tried += 1;
      const from = clock.now();
      const retryAfterMs = refused.retryAfterMs as number;
      expect(retryAfterMs).toBeGreaterThan(0);
      // Refused attempts on the way change nothing (H13: golang/time#22).
      clock.set(from + retryAfterMs * random());
      limiter.attemptAcquire(count);
      clock.set(from + retryAfterMs - 0.01);
      if (retryAfterMs > 0.01) expect(limiter.attemptAcquire(count).isAcquired).toBe(false);
      clock.set(from + retryAfterMs);
      const again = limiter.attemptAcquire(count);
      expect([from, retryAfterMs, again.retryAfterMs]).toEqual([from, retryAfterMs, undefined]);
    }
    expect(tried).toBeGreaterThan(2000);
  });

  it("C-1 C-14 keeps its word with a clock that counts from 1970", () => {
    const random = randomNumbers(5);
    for (let round = 0; round < 300; round++) {
      const clock = new ManualClock({ startMs: 1_700_000_000_000 + Math.floor(random() * 1e6) });
      const limiter = make(7, { clock }, 60_000);
      limiter.attemptAcquire(7);
      clock.advance(Math.floor(random() * 5000));
      const retryAfterMs = limiter.attemptAcquire(3).retryAfterMs as number;
      clock.advance(retryAfterMs);
      expect(limiter.attemptAcquire(3).retryAfterMs).toBeUndefined();
    }
  });

  it("is on every refusal that comes at once, and on no other lease", async () => {
    const { limiter, leases } = empty(make, { queueLimit: 1, queueProcessingOrder: "newestFirst" });
    const refused = [limiter.attemptAcquire(), limiter.attemptAcquire(0), await limiter.acquire(2)];
    expect(refused.map((lease) => lease.retryAfterMs).every((ms) => (ms as number) > 0)).toBe(true);
    const waiters = [ask(limiter), ask(limiter)];
    limiter.dispose();
    expect(await fates(...waiters)).toBe("--");
    expect(waiters.map(({ value }) => value.reason)).toEqual(["queue_evicted", "limiter_disposed"]);
    expect(waiters.map(({ value }) => value.retryAfterMs)).toEqual([undefined, undefined]);
    expect(leases[0]?.retryAfterMs).toBeUndefined();
    expect(Object.fromEntries(refused[2]?.getAllMetadata() ?? [])).toHaveProperty("RETRY_AFTER");
  });

  it("C-12 is on the refusal of a request that would not wait", async () => {
    const { limiter } = empty(make);
    const refused = await limiter.acquire(5, { maxWaitMs: 0 });
    expect([refused.reason, refused.retryAfterMs]).toEqual(["limit_reached", 1000]);
  });
});

describe.each(KINDS)("metadata of %s", (_name, make) => {
  const NAMES = [MetadataName.limit, MetadataName.remaining, MetadataName.resetAfter];

  it("C-8 says limit, remaining and reset on granted and on refused leases, as of when it is read", () => {
    const clock = new ManualClock();
    const limiter = make(5, { clock });
    const granted = limiter.attemptAcquire(2);
    expect(NAMES.map((name) => granted.tryGetMetadata(name)).slice(0, 2)).toEqual([5, 3]);
    limiter.attemptAcquire(3);
    const refused = limiter.attemptAcquire(2);
    for (const lease of [granted, refused]) {
      expect(NAMES.map((name) => lease.tryGetMetadata(name))).toEqual([5, 0, 1000]);
      expect(lease.tryGetMetadata("RESET_AFTER")).toBe(1000);
    }
    clock.advance(200);
    expect(refused.tryGetMetadata(MetadataName.resetAfter)).toBe(800);
    clock.advance(800);
    expect(NAMES.map((name) => refused.tryGetMetadata(name))).toEqual([5, 5, 0]);
    clock.advance(10_000);
    expect(NAMES.map((name) => granted.tryGetMetadata(name))).toEqual([5, 5, 0]);
  });

  it("C-8 has a reset of 0 while the limiter is full", () => {
    const limiter = make(5, { clock: new ManualClock() });
    expect(limiter.attemptAcquire(0).tryGetMetadata(MetadataName.resetAfter)).toBe(0);
  });

  it("C-8 R-LEASE-5 lists what has a value", async () => {
    const { limiter } = empty(make, { queueLimit: 0 });
    const refused = Object.fromEntries((await limiter.acquire(5)).getAllMetadata());
    expect(refused).toEqual({
      RETRY_AFTER: 1000,
      REJECTION_REASON: "limit_reached",
      LIMIT: 5,
      REMAINING: 0,
      RESET_AFTER: 1000,
    });
  });

  it("C-7 C-8 has no less than 0 remaining, and a reset that includes the debt", () => {
    const { clock, limiter, leases } = empty(make);
    leases[0]?.adjust(7);
    expect(leases[0]?.tryGetMetadata(MetadataName.remaining)).toBe(0);
    const resetAfterMs = leases[0]?.tryGetMetadata(MetadataName.resetAfter) as number;
    clock.advance(resetAfterMs - 1);
    expect(available(limiter)).toBeLessThan(5);
    clock.advance(1);
    expect(available(limiter)).toBe(5);
  });
});

describe.each(KINDS)("estimateWaitMs of %s", (_name, make) => {
  it("C-8 is 0 for what would be granted at once, and else the time until it would", async () => {
    const { clock, limiter } = empty(make, {}, [3]);
    expect([0, 1, 2].map((count) => limiter.estimateWaitMs(count))).toEqual([0, 0, 0]);
    limiter.attemptAcquire(2);
    expect(limiter.estimateWaitMs(5)).toBe(1000);
    expect(limiter.estimateWaitMs()).toBe(limiter.estimateWaitMs(0));
    expect(limiter.estimateWaitMs()).toBe(limiter.attemptAcquire().retryAfterMs);
    clock.advance(400);
    expect(limiter.estimateWaitMs(5)).toBe(600);
  });

  it("C-8 is what a request then waits, behind those who already do", async () => {
    const { clock, limiter } = empty(make);
    const waiters: ReturnType<typeof ask>[] = [];
    const expected: number[] = [];
    for (const count of [5, 5, 5]) {
      expected.push(clock.now() + limiter.estimateWaitMs(count));
      waiters.push(ask(limiter, count));
      clock.advance(10);
    }
    for (const [i, at] of expected.entries()) {
      clock.set(at - 0.5);
      clock.advance(0);
      expect(await fates(...waiters)).toBe(`${"+".repeat(i)}${".".repeat(3 - i)}`);
      clock.advance(0.5);
      expect(available(limiter)).toBe(0);
    }
    expect(await fates(...waiters)).toBe("+++");
  });

  it("C-8 Q-53 is a lower bound: what a waiter leaves over may not last for the next one", async () => {
    const { clock, limiter } = empty(make, {}, [2]);
    const first = ask(limiter, 5);
    const estimate = limiter.estimateWaitMs(3);
    const second = ask(limiter, 3);
    clock.advance(estimate - 1);
    expect((await fates(first, second)).at(-1)).toBe(".");
    clock.advance(1001);
    limiter.getStatistics();
    expect(await fates(first, second)).toBe("++");
  });

  it("C-8 does not count those who wait when the newest goes first", () => {
    const { limiter } = empty(make, { queueProcessingOrder: "newestFirst" });
    const alone = limiter.estimateWaitMs(3);
    ask(limiter, 5);
    expect(limiter.estimateWaitMs(3)).toBe(alone);
  });

  it("C-8 C-9 is not less than a pause", () => {
    const { limiter } = empty(make, {}, [1]);
    limiter.pause(300);
    expect(limiter.estimateWaitMs(1)).toBe(300);
    limiter.pause(5000);
    expect(limiter.estimateWaitMs(5)).toBe(5000);
  });

  it("C-8 changes nothing", async () => {
    const { limiter } = empty(make);
    const waiting = ask(limiter, 2);
    const before = numbers(limiter);
    for (let i = 0; i < 5; i++) limiter.estimateWaitMs(i);
    expect(numbers(limiter)).toBe(before);
    expect(await fates(waiting)).toBe(".");
  });

  it("C-8 fails as an attempt does", () => {
    const limiter = make(5, { clock: new ManualClock() });
    expect(() => limiter.estimateWaitMs(6)).toThrow(RangeError);
    expect(() => limiter.estimateWaitMs(-1)).toThrow(RangeError);
    expect(() => limiter.estimateWaitMs("1" as never)).toThrow(TypeError);
    limiter.dispose();
    expect(() => limiter.estimateWaitMs(1)).toThrow(/disposed/);
  });
});

describe.each(KINDS)("a pause of %s", (_name, make) => {
  it("C-9 refuses attempts with the time left, and lets what comes back meanwhile come back", () => {
    const { clock, limiter } = empty(make);
    limiter.pause(2500);
    clock.advance(1500);
    expect(available(limiter)).toBe(5);
    const refused = limiter.attemptAcquire();
    expect([refused.reason, refused.retryAfterMs]).toEqual(["server_pause", 1000]);
    expect(limiter.attemptAcquire(0).reason).toBe("server_pause");
    clock.advance(1000);
    expect(admitted(limiter, 9)).toBe(5);
  });

  it("C-9 makes those wait who may, and serves them at its end by one timer", async () => {
    const { clock, limiter } = empty(make);
    limiter.pause(2500);
    expect(clock.timerCount).toBe(0);
    const waiters = [ask(limiter, 2), ask(limiter, 3)];
    expect(clock.timerCount).toBe(1);
    clock.advance(2499);
    expect(await fates(...waiters)).toBe("..");
    clock.advance(1);
    expect(await fates(...waiters)).toBe("++");
    expect(clock.timerCount).toBe(0);
  });

  it("C-9 does not bring back what has not come back when it ends", async () => {
    const { clock, limiter } = empty(make);
    limiter.pause(100);
    const waiting = ask(limiter, 5);
    clock.advance(999);
    expect(await fates(waiting)).toBe(".");
    clock.advance(1);
    expect(await fates(waiting)).toBe("+");
  });

  it("C-9 is never shortened", () => {
    const limiter = make(5, { clock: new ManualClock() });
    limiter.pause(2500);
    limiter.pause(100);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(2500);
    limiter.dispose();
    expect(() => limiter.pause(100)).not.toThrow();
  });
});

describe.each(KINDS)("a lease of %s", (_name, make) => {
  it("C-7 gives back what was too much, at once and to those who wait", async () => {
    const { limiter, leases } = empty(make, {}, [5]);
    const waiters = [ask(limiter, 2), ask(limiter, 2)];
    leases[0]?.adjust(2);
    expect(numbers(limiter)).toBe("1/2/0/2");
    expect(await fates(...waiters)).toBe("+.");
    leases[0]?.adjust(1);
    expect(await fates(...waiters)).toBe("++");
  });

  it("C-7 is undone by refund, and the limiter is idle from then on", () => {
    const { clock, limiter, leases } = empty(make, {}, [3]);
    clock.advance(100);
    leases[0]?.refund();
    expect(numbers(limiter)).toBe("5/0/0/1");
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(50);
    expect(limiter.idleDurationMs).toBe(50);
  });

  it("C-7 charges more, and leaves the rest to others", () => {
    const { limiter, leases } = empty(make, {}, [1]);
    leases[0]?.adjust(4);
    expect(available(limiter)).toBe(1);
    expect(limiter.attemptAcquire(2).isAcquired).toBe(false);
    leases[0]?.adjust(3);
    expect(available(limiter)).toBe(2);
  });

  it("C-7 charges more than there is, and nobody is granted anything until that is paid", async () => {
    const { clock, limiter, leases } = empty(make);
    leases[0]?.adjust(8);
    const refused = limiter.attemptAcquire();
    const waiting = ask(limiter);
    clock.advance((refused.retryAfterMs as number) - 1);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
    expect(await fates(waiting)).toBe(".");
    clock.advance(1);
    expect(await fates(waiting)).toBe("+");
  });

  it("C-7 does nothing any more once it is disposed, and refuses nonsense without a change", () => {
    const { limiter, leases } = empty(make, {}, [3]);
    expect(() => leases[0]?.adjust(-1)).toThrow(RangeError);
    expect(() => leases[0]?.adjust(1.5)).toThrow(RangeError);
    leases[0]?.dispose();
    leases[0]?.adjust(0);
    leases[0]?.refund();
    expect(available(limiter)).toBe(2);
  });

  it("C-7 of 0 permits can be charged afterwards, and one of a disposed limiter changes nothing", () => {
    const { limiter } = empty(make, {}, []);
    const probe = limiter.attemptAcquire(0);
    probe.adjust(2);
    expect(available(limiter)).toBe(3);
    limiter.dispose();
    expect(() => probe.adjust(0)).not.toThrow();
    expect(probe.tryGetMetadata(MetadataName.remaining)).toBe(3);
  });

  it("C-7 gives back for the one request, and not for others that came later", () => {
    const { limiter, leases } = empty(make, {}, [2, 3]);
    leases[0]?.refund();
    leases[0]?.refund();
    expect(available(limiter)).toBe(2);
    expect(admitted(limiter, 9)).toBe(2);
  });

  it("C-7 never makes more than the limit available, whatever is given back and when", () => {
    const random = randomNumbers(23);
    for (let round = 0; round < 200; round++) {
      const clock = new ManualClock();
      const limiter = make(5, { clock });
      const leases = [];
      for (let i = 0; i < 30; i++) {
        clock.advance(random() * 400);
        const lease = limiter.attemptAcquire(Math.floor(random() * 4));
        if (lease.isAcquired) leases.push(lease);
        leases[Math.floor(random() * leases.length)]?.adjust(Math.floor(random() * 9));
        expect(available(limiter)).toBeLessThanOrEqual(5);
      }
      clock.advance(1e6);
      expect(available(limiter)).toBe(5);
    }
  });
});

describe.each(KINDS)("%s that is replenished by hand", (_name, make) => {
  const manual = { autoReplenishment: false } as const;

  it("R-REPL-2 moves only in tryReplenish, which is true whether or not it brought anything", () => {
    const { clock, limiter } = empty(make, manual);
    expect(limiter.isAutoReplenishing).toBe(false);
    clock.advance(10_000);
    expect(available(limiter)).toBe(0);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    for (let i = 0; i < 4; i++) {
      expect(limiter.tryReplenish()).toBe(true);
      expect(limiter.tryReplenish()).toBe(true);
      clock.advance(250);
    }
    expect(available(limiter)).toBe(5);
    expect(limiter.tryReplenish()).toBe(true);
    expect(available(limiter)).toBe(5);
  });

  it("C-13 has no alarm, however long somebody waits", async () => {
    const { clock, limiter } = empty(make, manual);
    const waiting = ask(limiter);
    expect(clock.timerCount).toBe(0);
    clock.advance(10_000);
    expect(await fates(waiting)).toBe(".");
    for (let i = 0; i < 4; i++) replenish(limiter, clock, 1, 250);
    expect(await fates(waiting)).toBe("+");
  });

  it("C-13 still has one for a deadline and for a pause", async () => {
    const { clock, limiter } = empty(make, manual, [1]);
    limiter.pause(100);
    const waiting = ask(limiter);
    const late = limiter.acquire(5, { maxWaitMs: 3000 });
    expect(clock.timerCount).toBe(1);
    clock.advance(100);
    expect(await fates(waiting)).toBe("+");
    clock.advance(2900);
    expect((await late).reason).toBe("queue_timeout");
    expect(clock.timerCount).toBe(0);
  });

  it("R-IDLE-3 C-13 is idle since the replenishment that made it full", () => {
    const { clock, limiter } = empty(make, manual);
    for (let i = 0; i < 4; i++) replenish(limiter, clock, 1, 260);
    clock.advance(40);
    expect(limiter.idleDurationMs).toBe(40);
  });

  it("R-REPL-6 R-CORE-6 changes nothing when replenished after it was disposed, and says true", () => {
    const { clock, limiter, leases } = empty(make, manual);
    limiter.dispose();
    for (let i = 0; i < 4; i++) replenish(limiter, clock, 1, 1000);
    expect(limiter.idleDurationMs).toBeUndefined();
    expect(leases[0]?.tryGetMetadata(MetadataName.remaining)).toBe(0);
  });

  it("R-REPL-3 adds nothing when the clock goes back", () => {
    const { clock, limiter } = empty(make, { ...manual, clock: new ManualClock({ startMs: 7_200_000 }) });
    clock.set(3_600_000);
    for (let i = 0; i < 5; i++) expect(limiter.tryReplenish()).toBe(true);
    expect(available(limiter)).toBe(0);
    clock.set(7_200_000);
    for (let i = 0; i < 4; i++) replenish(limiter, clock, 1, 250);
    expect(available(limiter)).toBe(5);
  });
});

describe("the fixed window", () => {
  it("R-FW-1 looks at permitLimit, then queueLimit, then windowMs", () => {
    const bad = { permitLimit: 0, queueLimit: -1, windowMs: 0 };
    expect(() => windowOf(bad)).toThrow(/permitLimit/);
    expect(() => windowOf({ ...bad, permitLimit: 1 })).toThrow(/queueLimit/);
    expect(() => windowOf({ ...bad, permitLimit: 1, queueLimit: 0 })).toThrow(/windowMs/);
  });

  it("R-FW-5 C-13 has its windows from when it was made, used or not", () => {
    const clock = new ManualClock({ startMs: 30 });
    const limiter = fixed(5, { clock });
    clock.set(929);
    expect(limiter.attemptAcquire(5).isAcquired).toBe(true);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(101);
    clock.set(1030);
    expect(limiter.attemptAcquire(5).isAcquired).toBe(true);
    clock.set(3_999.5);
    expect(admitted(limiter, 9)).toBe(5);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(30.5);
  });

  it("C-13 finds each boundary of a window of 0.1 ms, where the floor of a quotient would not", () => {
    const clock = new ManualClock();
    const limiter = fixed(1, { clock }, 0.1);
    const missed: number[] = [];
    for (let k = 0; k < 5000; k++) {
      clock.set(k * 0.1);
      if (admitted(limiter, 3) !== 1) missed.push(k);
    }
    expect(missed).toEqual([]);
  });

  it("C-13 begins a window at its boundary when it last looked the least bit before that", () => {
    for (const windowMs of [0.1, 0.7, 1 / 3, 1000 / 7, 1.1]) {
      for (let k = 2; k < 500; k++) {
        const clock = new ManualClock();
        const limiter = fixed(1, { clock }, windowMs);
        limiter.attemptAcquire();
        const boundary = k * windowMs;
        clock.set(justBelow(boundary));
        expect([windowMs, k, admitted(limiter, 2)]).toEqual([windowMs, k, 1]);
        clock.set(boundary);
        expect([windowMs, k, admitted(limiter, 2)]).toEqual([windowMs, k, 1]);
      }
    }
  });

  it("R-FW-3 R-FW-4 by hand: an early call does nothing, and the next window runs from the call that did", () => {
    const { clock, limiter } = empty(fixed, { autoReplenishment: false });
    replenish(limiter, clock, 1, 999);
    expect(available(limiter)).toBe(0);
    replenish(limiter, clock, 1, 601);
    expect(available(limiter)).toBe(5);
    limiter.attemptAcquire(5);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(1000);
    replenish(limiter, clock, 1, 999);
    expect(available(limiter)).toBe(0);
    replenish(limiter, clock, 1, 1);
    expect(available(limiter)).toBe(5);
  });

  it("R-FW-3 by hand: windows that went by unused do not move the idle mark", () => {
    const clock = new ManualClock();
    const limiter = fixed(5, { clock, autoReplenishment: false });
    replenish(limiter, clock, 3, 1000);
    expect(limiter.idleDurationMs).toBe(3000);
  });

  it("tells the time left and not the whole window (H4: dotnet/runtime#92557)", () => {
    const clock = new ManualClock();
    const limiter = fixed(2, { clock }, 20_000);
    limiter.attemptAcquire(2);
    clock.advance(19_000);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(1000);
  });

  it("admits twice its limit around a boundary, and never more (H7: dotnet/runtime#101612)", () => {
    const clock = new ManualClock();
    const limiter = fixed(6, { clock });
    clock.set(950);
    expect(admitted(limiter, 7)).toBe(6);
    clock.set(1000);
    expect(admitted(limiter, 7)).toBe(6);
    clock.set(1949);
    expect(admitted(limiter, 7)).toBe(0);
  });

  it("keeps its windows when a timer fires 300 ms late (H40: denoland/std#7237)", async () => {
    const clock = new ManualClock({ timerSkewMs: 300 });
    const { limiter } = empty(fixed, { clock });
    const waiting = ask(limiter);
    clock.advance(1250);
    expect(admitted(limiter, 6)).toBe(4);
    expect(await fates(waiting)).toBe("+");
    clock.advance(60);
    expect(admitted(limiter, 6)).toBe(0);
    clock.set(1990);
    expect(admitted(limiter, 6)).toBe(0);
    clock.set(2000);
    expect(admitted(limiter, 6)).toBe(5);
  });

  it("C-7 gives nothing to a later window (H24: express-rate-limit/express-rate-limit#647)", () => {
    const clock = new ManualClock();
    const limiter = fixed(10, { clock });
    const old = limiter.attemptAcquire(4);
    clock.advance(1000);
    limiter.attemptAcquire();
    old.refund();
    expect(available(limiter)).toBe(9);
    expect(admitted(limiter, 12)).toBe(9);
  });

  it("C-7 pays a debt from the windows to come, and tells when that is", () => {
    const { clock, limiter, leases } = empty(fixed, {}, [1]);
    leases[0]?.adjust(12);
    const waits = [0, 1000, 2000].map((at) => {
      clock.set(at);
      return limiter.attemptAcquire(3).retryAfterMs;
    });
    expect(waits).toEqual([2000, 1000, undefined]);
    expect(available(limiter)).toBe(0);
    clock.set(3000);
    expect(available(limiter)).toBe(5);
  });

  it("C-7 C-13 pays a debt with all windows that have gone by, and is idle since the last it needed", () => {
    const { clock, limiter, leases } = empty(fixed, {}, [1]);
    leases[0]?.adjust(12);
    clock.set(9500);
    expect(available(limiter)).toBe(5);
    expect(limiter.idleDurationMs).toBe(6500);
  });

  it("C-7 charges a lease of an earlier window to the present one, and takes that back again", () => {
    const { clock, limiter, leases } = empty(fixed, {}, [2]);
    clock.advance(1000);
    leases[0]?.adjust(5);
    expect(available(limiter)).toBe(2);
    leases[0]?.adjust(3);
    expect(available(limiter)).toBe(4);
  });

  it("does not count each hit as the first with a window of a year (like H23: express-rate-limit#546)", () => {
    const clock = new ManualClock();
    const limiter = fixed(5, { clock }, 365 * 86_400_000);
    let count = 0;
    for (let i = 0; i < 20; i++) {
      count += admitted(limiter, 1);
      clock.advance(5);
    }
    expect(count).toBe(5);
  });
});

describe("the sliding window", () => {
  it("R-SW-1 looks at permitLimit, then segmentsPerWindow, then queueLimit, then windowMs", () => {
    const bad = { permitLimit: 0, segmentsPerWindow: 0, queueLimit: -1, windowMs: 0 };
    expect(() => slidingOf(bad)).toThrow(/permitLimit/);
    expect(() => slidingOf({ ...bad, permitLimit: 1 })).toThrow(/segmentsPerWindow/);
    expect(() => slidingOf({ ...bad, permitLimit: 1, segmentsPerWindow: 1 })).toThrow(/queueLimit/);
    expect(() => slidingOf({ permitLimit: 1, segmentsPerWindow: 1, windowMs: 0 })).toThrow(/windowMs/);
  });

  it("R-SW-2 R-SW-4 C-13 gives back each segment's permits when that is a window old", () => {
    const clock = new ManualClock();
    const limiter = sliding(10, { clock });
    for (const [at, count] of [
      [0, 1],
      [260, 2],
      [510, 3],
      [999, 4],
    ] as const) {
      clock.set(at);
      expect(limiter.attemptAcquire(count).isAcquired).toBe(true);
    }
    const seen = [1000, 1249, 1250, 1500, 1749, 1750].map((at) => {
      clock.set(at);
      return available(limiter);
    });
    expect(seen).toEqual([1, 1, 3, 6, 6, 10]);
    expect(limiter.idleDurationMs).toBe(0);
  });

  it.each([
    [1000, 1],
    [1250, 3],
    [1600, 6],
    [1750, 10],
    [9e9, 10],
  ])("C-13 catches up at once when nobody has looked until %d", (at, expected) => {
    const clock = new ManualClock();
    const limiter = sliding(10, { clock });
    for (let i = 0; i < 4; i++) {
      limiter.attemptAcquire(i + 1);
      clock.advance(250);
    }
    clock.set(at);
    expect(available(limiter)).toBe(expected);
    expect(limiter.idleDurationMs).toBe(expected === 10 ? at - 1750 : undefined);
  });

  it("R-SW-4 by hand: one call is one segment, whatever time has passed", () => {
    const { clock, limiter } = empty(sliding, { autoReplenishment: false });
    replenish(limiter, clock, 3, 100_000);
    expect(available(limiter)).toBe(0);
    replenish(limiter, clock, 1, 249);
    expect(available(limiter)).toBe(0);
    replenish(limiter, clock, 1, 1);
    expect(available(limiter)).toBe(5);
  });

  it("R-SW-3 by hand: an empty segment that leaves is no reason to be idle anew", () => {
    const clock = new ManualClock();
    const limiter = sliding(5, { clock, autoReplenishment: false });
    replenish(limiter, clock, 6, 250);
    expect(limiter.idleDurationMs).toBe(1500);
  });

  it("R-SW-5 with one segment is a fixed window", () => {
    const clock = new ManualClock();
    const limiter = slidingOf({ permitLimit: 5, windowMs: 1000, segmentsPerWindow: 1, clock });
    clock.set(900);
    expect(admitted(limiter, 9)).toBe(5);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(100);
    clock.set(1000);
    expect(admitted(limiter, 9)).toBe(5);
  });

  it("R-SW-6 leaves the queue out of retry-after, and looks past the present segment", () => {
    const clock = new ManualClock();
    const limiter = sliding(5, { clock, queueLimit: 9 });
    limiter.attemptAcquire(2);
    clock.set(300);
    limiter.attemptAcquire(3);
    ask(limiter, 5);
    clock.set(400);
    expect([1, 2, 3, 5].map((count) => limiter.attemptAcquire(count).retryAfterMs)).toEqual([
      600, 600, 850, 850,
    ]);
  });

  it("R-REPL-7 has the length of a segment for its period", () => {
    expect(slidingOf({ permitLimit: 1, windowMs: 33_000, segmentsPerWindow: 3 }).replenishmentPeriodMs).toBe(
      11_000,
    );
  });

  it("admits no more than its limit in a span of one segment less than the window", () => {
    const random = randomNumbers(31);
    const clock = new ManualClock();
    const limiter = slidingOf({ permitLimit: 7, windowMs: 1000, segmentsPerWindow: 10, clock });
    const grants: number[] = [];
    for (let i = 0; i < 5000; i++) {
      clock.advance(random() * 120);
      if (limiter.attemptAcquire().isAcquired) grants.push(clock.now());
    }
    expect(grants.length).toBeGreaterThan(1000);
    for (let i = 7; i < grants.length; i++) {
      expect((grants[i] as number) - (grants[i - 7] as number)).toBeGreaterThan(900);
    }
  });

  it("admits no second burst across a boundary until the first has left (H7: dotnet/runtime#101612)", () => {
    const clock = new ManualClock();
    const limiter = slidingOf({ permitLimit: 6, windowMs: 1000, segmentsPerWindow: 10, clock });
    clock.set(950);
    expect(admitted(limiter, 6)).toBe(6);
    clock.set(1000);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(900);
    clock.set(1899);
    expect(admitted(limiter, 6)).toBe(0);
    clock.set(1900);
    expect(admitted(limiter, 9)).toBe(6);
  });

  it("has a value behind the name of retry-after (H5: dotnet/runtime#129036, dotnet/aspnetcore#52411)", () => {
    const clock = new ManualClock();
    const limiter = slidingOf({ permitLimit: 5, windowMs: 30_000, segmentsPerWindow: 3, clock });
    limiter.attemptAcquire(5);
    clock.advance(1000);
    const refused = limiter.attemptAcquire();
    expect([...refused.metadataNames]).toContain("RETRY_AFTER");
    expect(Object.fromEntries(refused.getAllMetadata())["RETRY_AFTER"]).toBe(29_000);
  });

  it("refuses ten times what could ever fit while half is used (H32: alisaifee/limits#151)", () => {
    const clock = new ManualClock();
    const limiter = sliding(10, { clock });
    limiter.attemptAcquire(5);
    expect(() => limiter.attemptAcquire(100)).toThrow(RangeError);
    expect(numbers(limiter)).toBe("5/0/0/1");
  });

  it("C-7 gives back to the segment that the lease came from, while that is in the window", () => {
    const clock = new ManualClock();
    const limiter = sliding(5, { clock });
    const first = limiter.attemptAcquire(3);
    clock.set(300);
    limiter.attemptAcquire(2);
    clock.set(900);
    first.adjust(1);
    expect(available(limiter)).toBe(2);
    limiter.attemptAcquire(2);
    clock.set(1000);
    expect(available(limiter)).toBe(1);
    first.adjust(0);
    expect(available(limiter)).toBe(1);
    clock.set(1250);
    expect(available(limiter)).toBe(3);
    clock.set(1750);
    expect(available(limiter)).toBe(5);
  });

  it("C-7 charges more to the segment of the lease, and to the present one once that has left", () => {
    const { clock, limiter, leases } = empty(sliding, {}, [1]);
    clock.set(500);
    leases[0]?.adjust(8);
    expect(limiter.attemptAcquire(0).retryAfterMs).toBe(500);
    clock.set(1000);
    expect(available(limiter)).toBe(5);
    leases[0]?.adjust(14);
    expect(limiter.attemptAcquire().retryAfterMs).toBe(1000);
    clock.set(1999);
    expect(available(limiter)).toBe(0);
    clock.set(2000);
    expect(available(limiter)).toBe(5);
    expect(limiter.idleDurationMs).toBe(0);
  });

  it("C-7 takes back what it has charged a later segment, while that is in the window", () => {
    const { clock, limiter, leases } = empty(sliding, {}, [2]);
    clock.set(1000);
    leases[0]?.adjust(5);
    expect(available(limiter)).toBe(2);
    leases[0]?.adjust(3);
    expect(available(limiter)).toBe(4);
  });
});

describe("the token bucket", () => {
  it("R-TB-1 looks at tokenLimit, then tokensPerPeriod, then queueLimit, then replenishmentPeriodMs", () => {
    expect(() => bucketOf(0, 0, 0, { queueLimit: -1 })).toThrow(/tokenLimit/);
    expect(() => bucketOf(1, 0, 0, { queueLimit: -1 })).toThrow(/tokensPerPeriod/);
    expect(() => bucketOf(1, 1, 0, { queueLimit: -1 })).toThrow(/queueLimit/);
    expect(() => bucketOf(1, 1, 0, {})).toThrow(/replenishmentPeriodMs/);
  });

  it("R-TB-1 R-TB-5 may get more in a period than it holds, and loses what does not fit", () => {
    const clock = new ManualClock();
    const limiter = bucketOf(5, 100, 1000, { clock });
    limiter.attemptAcquire(5);
    clock.advance(1000);
    expect(admitted(limiter, 20)).toBe(5);
  });

  it("C-13 stepped: adds k periods at once, up to its limit, on the grid of its making", () => {
    const clock = new ManualClock({ startMs: 40 });
    const limiter = bucketOf(10, 3, 1000, { clock });
    clock.set(900);
    limiter.attemptAcquire(10);
    const seen = [1039, 1040, 3039, 3040, 99_000].map((at) => {
      clock.set(at);
      return available(limiter);
    });
    expect(seen).toEqual([0, 3, 6, 9, 10]);
    expect(limiter.idleDurationMs).toBe(99_000 - 4040);
  });

  it("C-13 stepped: is idle since the step that filled it, when several have gone by", () => {
    const clock = new ManualClock();
    const limiter = bucketOf(10, 2, 1000, { clock });
    clock.set(100);
    limiter.attemptAcquire(5);
    clock.set(5500);
    expect(limiter.idleDurationMs).toBe(2500);
  });

  it("C-13 C-14 continuous: is idle since the very moment it was full", () => {
    const clock = new ManualClock();
    const limiter = bucketOf(10, 2, 1000, { clock, refill: "continuous" });
    clock.set(100);
    limiter.attemptAcquire(5);
    clock.set(5500);
    expect(limiter.idleDurationMs).toBe(2900);
  });

  it("C-14 continuous: tokens come one by one, evenly", () => {
    const clock = new ManualClock();
    const limiter = bucketOf(50, 10, 1000, { clock, refill: "continuous" });
    limiter.attemptAcquire(50);
    const seen = [99, 100, 199.999, 200, 300, 4999, 5000, 6000].map((at) => {
      clock.set(at);
      return available(limiter);
    });
    expect(seen).toEqual([0, 1, 1, 2, 3, 49, 50, 50]);
  });

  it("C-15 continuous: waiter k is served at the instant at which its token is there", async () => {
    const clock = new ManualClock();
    const limiter = bucketOf(1, 4, 1000, { clock, refill: "continuous", queueLimit: 8 });
    limiter.attemptAcquire();
    const waiters = [1, 2, 3, 4].map(() => ask(limiter));
    const seen: string[] = [];
    for (let i = 0; i < 8; i++) {
      clock.advance(125);
      seen.push(await fates(...waiters));
    }
    expect(seen).toEqual(["....", "+...", "+...", "++..", "++..", "+++.", "+++.", "++++"]);
  });

  it.each(["stepped", "continuous"] as const)(
    "C-14 by hand: adds in proportion to time, %s or not, with fractions kept",
    (refill) => {
      const clock = new ManualClock();
      const limiter = bucketOf(10, 1, 1000, { clock, refill, autoReplenishment: false });
      limiter.attemptAcquire(10);
      for (let i = 0; i < 10; i++) replenish(limiter, clock, 1, 100);
      expect(available(limiter)).toBe(1);
      replenish(limiter, clock, 1, 2500);
      expect(available(limiter)).toBe(3);
      replenish(limiter, clock, 1, 500);
      expect(available(limiter)).toBe(4);
    },
  );

  it.each([
    ["replenishes itself", true],
    ["is replenished by hand", false],
  ])("D-6 earns nothing while it is full, when it %s", (_, autoReplenishment) => {
    const clock = new ManualClock();
    const limiter = bucketOf(10, 1, 1000, { clock, refill: "continuous", autoReplenishment });
    clock.advance(60_500);
    limiter.attemptAcquire(10);
    limiter.tryReplenish();
    expect(available(limiter)).toBe(0);
    clock.advance(999);
    limiter.tryReplenish();
    expect(available(limiter)).toBe(0);
    clock.advance(1);
    limiter.tryReplenish();
    expect(available(limiter)).toBe(1);
  });

  it("D-6 C-7 earns nothing for the time before a refund that filled it", () => {
    const clock = new ManualClock();
    const limiter = bucketOf(10, 1, 1000, { clock, refill: "continuous" });
    const lease = limiter.attemptAcquire(1);
    clock.advance(900);
    lease.refund();
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(50);
    limiter.attemptAcquire(10);
    clock.advance(999);
    expect(available(limiter)).toBe(0);
    clock.advance(1);
    expect(available(limiter)).toBe(1);
  });

  it("R-TB-3 D-8 takes part of a token for none, in probes and in the queue", async () => {
    const clock = new ManualClock();
    const limiter = bucketOf(1, 1, 1000, { clock, refill: "continuous", queueLimit: 1 });
    limiter.attemptAcquire();
    const waiting = ask(limiter, 0);
    clock.advance(999);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
    expect(await fates(waiting)).toBe(".");
    clock.advance(1);
    expect(await fates(waiting)).toBe("+");
    expect(available(limiter)).toBe(1);
  });

  it("C-14 counts those ahead into retry-after only when the oldest goes first", () => {
    const waits = (["oldestFirst", "newestFirst"] as const).map((queueProcessingOrder) => {
      const clock = new ManualClock();
      const limiter = bucketOf(5, 1, 1000, { clock, queueLimit: 2, queueProcessingOrder });
      limiter.attemptAcquire(5);
      ask(limiter, 2);
      clock.advance(300);
      return limiter.attemptAcquire(1).retryAfterMs;
    });
    expect(waits).toEqual([2700, 700]);
  });

  it.each([
    [2, 100, 1, 2],
    [3, 5, 2, 2],
    [4, 4, 1, 4],
  ])("C-14 stepped: retry-after is true behind a waiter, with %d tokens and %d a period", async (...row) => {
    const [limit, perPeriod, waiting, count] = row;
    const clock = new ManualClock();
    const limiter = bucketOf(limit, perPeriod, 1000, { clock, queueLimit: waiting });
    limiter.attemptAcquire(limit);
    const ahead = ask(limiter, waiting);
    clock.advance(limiter.attemptAcquire(count).retryAfterMs as number);
    expect(await fates(ahead)).toBe("+");
    expect(limiter.attemptAcquire(count).isAcquired).toBe(true);
  });

  it("C-7 stepped and continuous: pays a debt with the tokens to come", () => {
    for (const [refill, at] of [
      ["stepped", 3000],
      ["continuous", 2500],
    ] as const) {
      const clock = new ManualClock();
      const limiter = bucketOf(5, 2, 1000, { clock, refill });
      limiter.attemptAcquire(1).adjust(9);
      expect(limiter.attemptAcquire().retryAfterMs).toBe(at);
      clock.set(at - 1);
      expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
      clock.set(at);
      expect(limiter.attemptAcquire().isAcquired).toBe(true);
    }
  });

  it("C-7 loses what is given back to a bucket that has filled up meanwhile", () => {
    const clock = new ManualClock();
    const limiter = bucketOf(5, 2, 1000, { clock });
    const lease = limiter.attemptAcquire(3);
    clock.advance(1000);
    lease.adjust(1);
    expect(available(limiter)).toBe(5);
    clock.advance(500);
    lease.adjust(0);
    expect(available(limiter)).toBe(5);
    expect(limiter.idleDurationMs).toBe(500);
  });

  it("tells what is left of the period (H5: dotnet/runtime#129036)", () => {
    for (const refill of ["stepped", "continuous"] as const) {
      const clock = new ManualClock();
      const limiter = bucketOf(1, 1, 10_000, { clock, refill });
      limiter.attemptAcquire();
      clock.advance(9000);
      expect(limiter.attemptAcquire().retryAfterMs).toBe(1000);
    }
  });

  it.each(["stepped", "continuous"] as const)(
    "stays shut, with finite numbers, at 1 token in 300 years, %s (H12: golang/go#71154)",
    async (refill) => {
      const clock = new ManualClock();
      const limiter = bucketOf(1, 1, 1e13, { clock, refill, queueLimit: 1 });
      limiter.attemptAcquire();
      const waiting = ask(limiter);
      clock.advance(3_600_000);
      expect(await fates(waiting)).toBe(".");
      const { retryAfterMs } = limiter.attemptAcquire();
      expect(retryAfterMs).toBeGreaterThan(9e12);
      expect(retryAfterMs).toBeLessThan(3e13);
      expect(limiter.estimateWaitMs()).toBeLessThan(3e13);
    },
  );

  it("is not changed by attempts that it refuses (H13: golang/time#22)", () => {
    const clock = new ManualClock();
    const limiter = bucketOf(3, 1, 1000, { clock, refill: "continuous" });
    limiter.attemptAcquire(3);
    for (const at of [500, 999]) {
      clock.set(at);
      for (const count of [2, 3]) expect(limiter.attemptAcquire(count).isAcquired).toBe(false);
    }
    clock.set(1000);
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  it.each(["stepped", "continuous"] as const)(
    "grants whoever waited exactly as told, 1000 times in a row, %s (H14: golang/go#34861)",
    (refill) => {
      const clock = new ManualClock();
      const limiter = bucketOf(1, 1, 1300, { clock, refill });
      limiter.attemptAcquire();
      for (let i = 0; i < 1000; i++) {
        const refused = limiter.attemptAcquire();
        expect(refused.isAcquired).toBe(false);
        clock.advance(refused.retryAfterMs as number);
        expect(limiter.attemptAcquire().isAcquired).toBe(true);
      }
      expect(clock.now()).toBe(1_300_000);
    },
  );

  it.each([
    [100, 100, 1000, 1],
    [1, 1, 10_000, 1000],
    [1, 1, 10_000, 1 / 64],
    [7, 7, 1300, 1 / 3],
  ])(
    "gives those who ask often all that accrues: %d, %d per %d ms, every %d ms (H49: apache/polaris#3433)",
    (limit, perPeriod, periodMs, everyMs) => {
      for (const autoReplenishment of [true, false]) {
        const clock = new ManualClock();
        const limiter = bucketOf(limit, perPeriod, periodMs, {
          clock,
          refill: "continuous",
          autoReplenishment,
        });
        limiter.attemptAcquire(limit);
        let count = 0;
        for (let i = 1; i * everyMs <= periodMs; i++) {
          clock.set(i * everyMs);
          limiter.tryReplenish();
          count += admitted(limiter, 1);
        }
        clock.set(periodMs);
        limiter.tryReplenish();
        count += admitted(limiter, 1);
        expect(count).toBe(perPeriod);
      }
    },
  );

  it("C-14 adds up exactly beyond 2^53 as well", () => {
    const month = 30 * 86_400_000;
    const clock = new ManualClock();
    const limiter = bucketOf(2 ** 50, 2 ** 50 - 1, month, { clock, refill: "continuous" });
    limiter.attemptAcquire(2 ** 50);
    let before = 0;
    for (let i = 1; i <= 30; i++) {
      clock.advance(86_400_000);
      const now = available(limiter) as number;
      // Never more than has accrued, and never a token less.
      expect(BigInt(now)).toBe((BigInt(i) * (2n ** 50n - 1n)) / 30n);
      expect(now).toBeGreaterThan(before);
      before = now;
    }
  });

  it("admits at most its limit and what has accrued, in any span", () => {
    const random = randomNumbers(41);
    const clock = new ManualClock({ startMs: 0.125 });
    const limiter = bucketOf(7, 10, 1000, { clock, refill: "continuous" });
    const grants: number[] = [];
    for (let i = 0; i < 5000; i++) {
      clock.advance(random() ** 3 * 400);
      if (limiter.attemptAcquire().isAcquired) grants.push(clock.now());
    }
    expect(grants.length).toBeGreaterThan(1000);
    for (let from = 0; from < grants.length; from += 7) {
      for (let to = from; to < Math.min(grants.length, from + 60); to++) {
        const span = (grants[to] as number) - (grants[from] as number);
        expect(to - from + 1).toBeLessThanOrEqual(7 + Math.floor(span / 100 + 1e-6));
      }
    }
  });
});
