import { FixedWindowRateLimiter } from "headgate";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../support.js";
import { checkRetryRow, describeSharedRows, type RetryRow, type Table } from "./replenishing-rows.js";
import { ask, available, fates, waitBehindAnAborted } from "./replenishing-support.js";

// Table 3.2 of spec/system-threading-ratelimiting.md, row by row; the rows shared with tables 3.3 and 3.4 are in
// replenishing-rows.ts. Where design.md settles a row differently, the test's name carries the decision.

const table: Table = {
  id: "FW",
  create: (options, row, lengthMs = [22, 35, 36].includes(row) ? 2 : 1) =>
    new FixedWindowRateLimiter({ ...options, windowMs: lengthMs }),
  turns: () => 1,
  own: [22],
  retryAfterMs: 1,
  numbersAtEnd: "50/0/2/2",
};

describe("rows that all replenishing limiters share", () => describeSharedRows(table));

describe("rows of the fixed window", () => {
  it.each([
    ["permitLimit", -1],
    ["queueLimit", -1],
    ["windowMs", Number.MIN_SAFE_INTEGER],
    ["windowMs", -120_000],
    ["windowMs", 0],
  ])("T-FW-02 (C-11) throws a RangeError that names the option %s when it is %d", (name, value) => {
    const options = { permitLimit: 1, queueLimit: 1, windowMs: 1, [name]: value };
    expect(() => new FixedWindowRateLimiter(options)).toThrow(RangeError);
    expect(() => new FixedWindowRateLimiter(options)).toThrow(new RegExp(`^options\\.${name} .*${value}`));
  });

  it("T-FW-22 is not blocked by a large waiter that was aborted", async () => {
    const clock = new ManualClock();
    const options = { permitLimit: 3, queueLimit: 3, windowMs: 2, autoReplenishment: false, clock };
    const limiter = new FixedWindowRateLimiter(options);
    limiter.attemptAcquire(1);
    limiter.attemptAcquire(2);
    const waiting = await waitBehindAnAborted(limiter);
    clock.advance(2);
    limiter.tryReplenish();
    expect(await fates(waiting)).toBe("+");
    expect(available(limiter)).toBe(2);
    expect(limiter.getStatistics().currentQueuedCount).toBe(0);
  });

  const window = (permitLimit: number) => (clock: ManualClock) =>
    new FixedWindowRateLimiter({
      permitLimit,
      queueLimit: 1,
      windowMs: 20_000,
      autoReplenishment: false,
      clock,
    });
  const late = "T-FW-48 counts the time that has passed into retry-after:";
  it.each<[string, number, RetryRow]>([
    [
      "T-FW-45 tells a refused request to come back with the window",
      2,
      { taken: 2, asked: 2, retryAfterMs: 20_000 },
    ],
    [
      "T-FW-46 leaves the queue out of retry-after",
      2,
      { taken: 2, waiting: 1, asked: 2, retryAfterMs: 20_000 },
    ],
    ["T-FW-47 leaves what is free out of retry-after", 3, { taken: 2, asked: 3, retryAfterMs: 20_000 }],
    [`${late} 1 s is left after 19`, 2, { taken: 2, elapsedMs: 19_000, asked: 2, retryAfterMs: 1000 }],
    [`${late} none after 25 without a call`, 2, { taken: 2, elapsedMs: 25_000, asked: 2, retryAfterMs: 0 }],
  ])("%s", (_, permitLimit, row) => checkRetryRow(window(permitLimit), row));

  it.each([
    ["early", -15],
    ["late", 15],
  ])(
    "T-FW-49 (C-13) begins the next window at its moment, with an alarm that is %s",
    async (_, timerSkewMs) => {
      const clock = new ManualClock({ timerSkewMs });
      const limiter = new FixedWindowRateLimiter({
        permitLimit: 10,
        queueLimit: 1,
        windowMs: 600_000,
        clock,
      });
      limiter.attemptAcquire(10);
      const waiting = ask(limiter);
      clock.advance(599_999);
      expect(available(limiter)).toBe(0);
      expect(await fates(waiting)).toBe(".");
      clock.advance(1 + Math.max(0, timerSkewMs));
      expect(await fates(waiting)).toBe("+");
      expect(available(limiter)).toBe(9);
    },
  );

  it("T-FW-49 (C-13) has 7 of 10 until the boundary, and 10 from it on", () => {
    const clock = new ManualClock();
    const limiter = new FixedWindowRateLimiter({ permitLimit: 10, windowMs: 600_000, clock });
    limiter.attemptAcquire(3);
    clock.advance(599_999);
    expect(available(limiter)).toBe(7);
    clock.advance(1);
    expect(available(limiter)).toBe(10);
  });
});
