import { TokenBucketRateLimiter, type TokenBucketRateLimiterOptions } from "headgate";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../support.js";
import {
  arrange,
  checkRetryRow,
  describeSharedRows,
  type RetryRow,
  type Table,
} from "./replenishing-rows.js";
import { ask, available, fates, numbers, replenish } from "./replenishing-support.js";

// Table 3.4 of spec/system-threading-ratelimiting.md, row by row; the rows shared with tables 3.2 and 3.3 are in
// replenishing-rows.ts. Where design.md settles a row differently, the test's name carries the decision.

function tokensPerPeriodOf(row: number): number {
  if (row === 11) return 2147483647;
  if ([20, 25, 31, 32, 33, 34, 38].includes(row)) return 2;
  if (row === 22) return 3;
  return row >= 39 && row <= 41 ? 30 : 1;
}

const table: Table = {
  id: "TB",
  create: ({ permitLimit, ...options }, row, lengthMs = row === 35 || row === 36 ? 2 : row === 22 ? 3 : 1) =>
    new TokenBucketRateLimiter({
      ...options,
      tokenLimit: permitLimit,
      tokensPerPeriod: tokensPerPeriodOf(row),
      replenishmentPeriodMs: lengthMs,
    }),
  turns: (row) => (row === 8 ? 2 : 1),
  own: [5, 22],
  retryAfterMs: 2,
  numbersAtEnd: "20/0/2/2",
};

describe("rows that all replenishing limiters share", () => describeSharedRows(table));

/** A bucket with a queue of 1, by default a manual one. */
function bucket(
  tokenLimit: number,
  tokensPerPeriod: number,
  replenishmentPeriodMs: number,
  options: Partial<TokenBucketRateLimiterOptions> = {},
) {
  const clock = new ManualClock();
  const limiter = new TokenBucketRateLimiter({
    tokenLimit,
    tokensPerPeriod,
    replenishmentPeriodMs,
    queueLimit: 1,
    autoReplenishment: false,
    clock,
    ...options,
  });
  return { clock, limiter, beat: (ms: number) => replenish(limiter, clock, 1, ms) };
}

describe("rows of the token bucket", () => {
  it.each([
    ["tokenLimit", -1],
    ["queueLimit", -1],
    ["tokensPerPeriod", -1],
    ["replenishmentPeriodMs", Number.MIN_SAFE_INTEGER],
    ["replenishmentPeriodMs", -1],
    ["replenishmentPeriodMs", 0],
  ])("T-TB-02 (C-11) throws a RangeError that names the option %s when it is %d", (name, value) => {
    expect(() => bucket(1, 1, 1, { [name]: value })).toThrow(RangeError);
    expect(() => bucket(1, 1, 1, { [name]: value })).toThrow(new RegExp(`^options\\.${name} .*${value}`));
  });

  it("T-TB-05 grants the newest waiter first when asked to", async () => {
    const { limiter, ask: request, turn } = arrange(table, 5, 2, 3, "newestFirst");
    limiter.attemptAcquire(2);
    const waiters = [request(2), request(1)];
    turn();
    expect(await fates(...waiters)).toBe(".+");
    expect(available(limiter)).toBe(0);
    turn();
    expect(await fates(...waiters)).toBe(".+");
    expect(available(limiter)).toBe(1);
    turn();
    expect(await fates(...waiters)).toBe("++");
  });

  it.each([
    ["", 3],
    [" (H1: dotnet/runtime#77180)", 2],
  ])("T-TB-22 is not blocked by a large waiter that was aborted%s", async (_, limit) => {
    const { limiter, beat } = bucket(limit, limit, limit, { queueLimit: 5 });
    limiter.attemptAcquire(limit);
    const caller = new AbortController();
    const large = ask(limiter, 2, caller.signal);
    const small = ask(limiter, 1);
    caller.abort();
    expect(await fates(large, small)).toBe("x.");
    beat(1);
    expect(await fates(small)).toBe("+");
    expect(numbers(limiter)).toBe("0/0/0/2");
  });

  it.each<[string, number, number, RetryRow]>([
    ["T-TB-45 tells when the tokens are there", 2, 1, { taken: 2, asked: 2, retryAfterMs: 40_000 }],
    ["T-TB-46 adds the queue", 2, 1, { taken: 2, waiting: 1, asked: 2, retryAfterMs: 60_000 }],
    ["T-TB-47 (C-14) is exact", 2, 2, { taken: 2, waiting: 1, asked: 2, retryAfterMs: 30_000 }],
    ["T-TB-48 (C-14) is exact", 2, 100, { taken: 2, waiting: 1, asked: 2, retryAfterMs: 600 }],
    ["T-TB-49 counts what is there", 3, 1, { taken: 2, asked: 3, retryAfterMs: 40_000 }],
  ])("%s in retry-after", (_, tokenLimit, tokensPerPeriod, row) =>
    checkRetryRow((clock) => bucket(tokenLimit, tokensPerPeriod, 20_000, { clock }).limiter, row),
  );

  it("T-TB-50 adds as many tokens as a period brings, up to the limit", () => {
    const { limiter, beat } = bucket(7, 3, 1);
    expect(limiter.attemptAcquire(5).isAcquired).toBe(true);
    expect(limiter.attemptAcquire(3).isAcquired).toBe(false);
    expect(available(limiter)).toBe(2);
    beat(1);
    expect(available(limiter)).toBe(5);
    beat(1);
    expect(available(limiter)).toBe(7);
  });

  it("T-TB-51 adds nothing to a full bucket", () => {
    const { limiter, beat } = bucket(2, 1, 30);
    beat(100);
    expect(available(limiter)).toBe(2);
  });

  it("T-TB-52 (D-6) has not saved up the time that the bucket was full, however long", async () => {
    const { limiter, beat } = bucket(10, 1, 2, { queueLimit: 2 });
    beat(4_294_967_295);
    expect(limiter.attemptAcquire(10).isAcquired).toBe(true);
    const a = ask(limiter);
    expect(await fates(a)).toBe(".");
    beat(2);
    expect(await fates(a)).toBe("+");
    const b = ask(limiter);
    beat(1);
    expect(await fates(b)).toBe(".");
    beat(2);
    expect(await fates(b)).toBe("+");
  });

  it("T-TB-53 (C-13) adds a token at each boundary, neither before nor after", () => {
    const { clock, limiter } = bucket(10, 1, 600_000, { autoReplenishment: true });
    limiter.attemptAcquire(3);
    const seen: unknown[] = [];
    for (const ms of [0, 599_999, 1, 599_999, 1]) {
      clock.advance(ms);
      seen.push(available(limiter));
    }
    expect(seen).toEqual([7, 7, 8, 8, 9]);
  });

  it.each([
    ["early", -15],
    ["late", 15],
  ])("T-TB-53 (C-13) serves waiters at the boundaries, with alarms that are %s", async (_, timerSkewMs) => {
    const clock = new ManualClock({ timerSkewMs });
    const { limiter } = bucket(10, 1, 600_000, { autoReplenishment: true, queueLimit: 2, clock });
    limiter.attemptAcquire(10);
    const waiters = [ask(limiter), ask(limiter)];
    const seen: unknown[] = [];
    for (let i = 0; i < 2; i++) {
      clock.set(i * 600_000 + 599_999);
      clock.advance(0);
      seen.push(await fates(...waiters));
      clock.advance(1 + Math.max(0, timerSkewMs));
      seen.push(await fates(...waiters));
    }
    expect(seen).toEqual(["..", "+.", "+.", "++"]);
  });

  it("T-TB-54 keeps the time that a manual beat came early or late", () => {
    const { limiter, beat } = bucket(10, 1, 600_000);
    limiter.attemptAcquire(3);
    beat(599_999);
    expect(available(limiter)).toBe(7);
    beat(600_001);
    expect(available(limiter)).toBe(9);
  });

  it("T-TB-55 (D-8) takes less than a whole token for none", async () => {
    const { limiter, beat } = bucket(1, 1, 2);
    limiter.attemptAcquire();
    beat(1);
    expect(available(limiter)).toBe(0);
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
    const waiting = ask(limiter, 0);
    expect(await fates(waiting)).toBe(".");
    beat(1);
    expect(await fates(waiting)).toBe("+");
    expect(limiter.attemptAcquire(0).isAcquired).toBe(true);
  });
});
