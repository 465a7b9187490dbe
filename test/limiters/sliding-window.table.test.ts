import { type QueueProcessingOrder, SlidingWindowRateLimiter } from "headgate";
import { describe, expect, it } from "vitest";
import { ManualClock } from "../support.js";
import { checkRetryRow, describeSharedRows, type RetryRow, type Table } from "./replenishing-rows.js";
import { ask, available, fates, numbers, replenish, waitBehindAnAborted } from "./replenishing-support.js";

// Table 3.3 of spec/system-threading-ratelimiting.md, row by row; the rows shared with tables 3.2 and 3.4 are in
// replenishing-rows.ts. Where design.md settles a row differently, the test's name carries the decision.

/** Window and segments, by the row's number in table 3.2. */
function shapeOf(row: number): readonly [windowMs: number, segmentsPerWindow: number] {
  if (row >= 40 && row <= 41) return [3, 3];
  if (row === 31) return [3, 3];
  if ([5, 25, 36, 38, 39].includes(row)) return [2, 2];
  if (row === 35) return [2, 1];
  if ((row >= 12 && row <= 18) || [28, 29, 42, 44].includes(row)) return [1, 1];
  return [1, 2];
}

const table: Table = {
  id: "SW",
  create: (options, row, lengthMs = shapeOf(row)[0]) =>
    new SlidingWindowRateLimiter({
      ...options,
      ...(row === 20 ? { queueLimit: 4 } : {}),
      ...(row === 36 ? { permitLimit: 3 } : {}),
      windowMs: lengthMs,
      segmentsPerWindow: shapeOf(row)[1],
    }),
  turns: (row) => shapeOf(row)[1],
  own: [3, 4, 10, 21, 22, 23, 24, 32],
  retryAfterMs: 1,
  numbersAtEnd: "50/0/2/2",
};

describe("rows that all replenishing limiters share", () => describeSharedRows(table));

/** A manual limiter with segments of a millisecond. */
function window(
  permitLimit: number,
  queueLimit: number,
  segmentsPerWindow: number,
  queueProcessingOrder: QueueProcessingOrder = "oldestFirst",
) {
  const clock = new ManualClock();
  const limiter = new SlidingWindowRateLimiter({
    permitLimit,
    queueLimit,
    segmentsPerWindow,
    queueProcessingOrder,
    windowMs: segmentsPerWindow,
    autoReplenishment: false,
    clock,
  });
  const move = (times = 1): void => replenish(limiter, clock, times);
  return { limiter, move };
}

describe("rows of the sliding window", () => {
  it.each([
    ["permitLimit", -1],
    ["queueLimit", -1],
    ["segmentsPerWindow", -1],
    ["windowMs", Number.MIN_SAFE_INTEGER],
    ["windowMs", -120_000],
    ["windowMs", 0],
  ])("T-SW-02 (C-11) throws a RangeError that names the option %s when it is %d", (name, value) => {
    const make = () =>
      new SlidingWindowRateLimiter({
        ...{ permitLimit: 1, queueLimit: 1, windowMs: 1, segmentsPerWindow: 1 },
        [name]: value,
      });
    expect(make).toThrow(RangeError);
    expect(make).toThrow(new RegExp(`^options\\.${name} .*${value}`));
  });

  it("T-SW-03 serves the newest waiter once the used segment has left the window", async () => {
    const { limiter, move } = window(2, 4, 2, "newestFirst");
    expect(await fates(ask(limiter))).toBe("+");
    const a = ask(limiter, 2);
    move();
    expect(await fates(a)).toBe(".");
    const b = ask(limiter, 2);
    expect(await fates(a, b)).toBe("..");
    move();
    expect(await fates(a, b)).toBe(".+");
  });

  it("T-SW-04 grants, evicts and serves several requests as segments leave", async () => {
    const { limiter, move } = window(4, 4, 3, "newestFirst");
    expect(await fates(ask(limiter, 2))).toBe("+");
    const a = ask(limiter, 3);
    move();
    expect(await fates(a)).toBe(".");
    const b = ask(limiter, 2);
    expect(await fates(a, b)).toBe(".+");
    move();
    const c = ask(limiter, 2);
    expect(await fates(a, c)).toBe("-.");
    move();
    expect(await fates(a, c)).toBe("-+");
    expect(available(limiter)).toBe(0);
  });

  it("T-SW-05 grants the oldest waiter first", async () => {
    const { limiter, move } = window(2, 3, 2);
    limiter.attemptAcquire(2).dispose();
    const waiters = [ask(limiter, 1), ask(limiter, 2)];
    move();
    expect(await fates(...waiters)).toBe("..");
    move();
    expect(await fates(...waiters)).toBe("+.");
    expect(available(limiter)).toBe(1);
    move(2);
    expect(await fates(...waiters)).toBe("++");
  });

  it("T-SW-11 has room in the queue again after having been full", async () => {
    const { limiter, move } = window(3, 2, 3);
    limiter.attemptAcquire(2);
    const a = ask(limiter, 2);
    expect(await fates(a, ask(limiter, 2))).toBe(".-");
    move(2);
    expect(await fates(a)).toBe(".");
    move();
    expect(await fates(a)).toBe("+");
    const b = ask(limiter, 2);
    expect(await fates(b)).toBe(".");
    move(3);
    expect(await fates(b)).toBe("+");
  });

  it.each([
    ["T-SW-22 rejects an aborted waiter with its reason", false],
    ["T-SW-24 rejects a request whose signal was aborted before", true],
  ])("%s, and no segment leaves early for it", async (_, before) => {
    const { limiter, move } = window(2, 1, 2);
    const held = limiter.attemptAcquire(2);
    const caller = new AbortController();
    const reason = new Error("gone");
    if (before) caller.abort(reason);
    const request = ask(limiter, 1, caller.signal);
    expect(await fates(request)).toBe(before ? "x" : ".");
    caller.abort(reason);
    expect(await fates(request)).toBe("x");
    expect(request.reason).toBe(reason);
    held.dispose();
    move();
    expect(numbers(limiter)).toBe("0/0/0/1");
  });

  it("T-SW-23 is not blocked by a large waiter that was aborted", async () => {
    const { limiter, move } = window(3, 3, 2);
    limiter.attemptAcquire(1);
    move();
    limiter.attemptAcquire(2);
    const small = await waitBehindAnAborted(limiter);
    move();
    expect(await fates(small)).toBe("+");
    expect(numbers(limiter)).toBe("0/0/0/3");
  });

  it("T-SW-25 gives the place of an aborted waiter to the next caller", async () => {
    const { limiter, move } = window(2, 1, 2, "newestFirst");
    limiter.attemptAcquire(2);
    const caller = new AbortController();
    const gone = ask(limiter, 1, caller.signal);
    caller.abort();
    const next = ask(limiter);
    expect(await fates(gone, next)).toBe("x.");
    move(2);
    expect(await fates(next)).toBe("+");
    expect(available(limiter)).toBe(1);
  });

  it("T-SW-33 makes a request wait behind the queue when the oldest goes first", async () => {
    const { limiter, move } = window(3, 5, 2);
    limiter.attemptAcquire(3);
    const waiters = [ask(limiter, 2), ask(limiter, 2)];
    move();
    expect(await fates(...waiters)).toBe("..");
    move();
    expect(await fates(...waiters)).toBe("+.");
    move(2);
    expect(await fates(...waiters)).toBe("++");
  });

  it("T-SW-46 (C-13) gives a segment's permits back at its boundary, neither before nor after", () => {
    const clock = new ManualClock();
    const options = { permitLimit: 10, windowMs: 600_000, segmentsPerWindow: 2, clock };
    const limiter = new SlidingWindowRateLimiter(options);
    limiter.attemptAcquire(3);
    clock.advance(299_999);
    expect(available(limiter)).toBe(7);
    clock.advance(1);
    limiter.attemptAcquire(3);
    expect(available(limiter)).toBe(4);
    clock.advance(299_999);
    expect(available(limiter)).toBe(4);
    clock.advance(1);
    expect(available(limiter)).toBe(7);
    clock.advance(300_000);
    expect(available(limiter)).toBe(10);
  });

  it.each([
    ["early", -15],
    ["late", 15],
  ])("T-SW-46 (C-13) serves a waiter when the segment leaves, with an alarm that is %s", async (_, skew) => {
    const clock = new ManualClock({ timerSkewMs: skew });
    const options = { permitLimit: 1, queueLimit: 1, windowMs: 600_000, segmentsPerWindow: 2, clock };
    const limiter = new SlidingWindowRateLimiter(options);
    clock.advance(299_000);
    limiter.attemptAcquire();
    const waiting = ask(limiter);
    clock.advance(300_999);
    expect(await fates(waiting)).toBe(".");
    clock.advance(1 + Math.max(0, skew));
    expect(await fates(waiting)).toBe("+");
  });

  const cut = (permitLimit: number, queueLimit: number) => (clock: ManualClock) =>
    new SlidingWindowRateLimiter({
      ...{ permitLimit, queueLimit, windowMs: 20_000, segmentsPerWindow: 4 },
      autoReplenishment: false,
      clock,
    });
  const attempt = { how: "attemptAcquire", retryAfterMs: 20_000 } as const;
  it.each<[string, number, number, RetryRow]>([
    ["T-SW-47 tells a refused request", 2, 1, { taken: 2, asked: 2, retryAfterMs: 20_000 }],
    ["T-SW-48 leaves the queue out", 2, 1, { taken: 2, waiting: 1, asked: 2, retryAfterMs: 20_000 }],
    ["T-SW-49 counts what is free", 3, 1, { taken: 2, asked: 3, retryAfterMs: 20_000 }],
    ["T-SW-50 counts the time passed", 1, 0, { taken: 1, elapsedMs: 2000, asked: 1, retryAfterMs: 18_000 }],
    ["T-SW-51 is never below 0", 1, 0, { taken: 1, elapsedMs: 25_000, asked: 1, retryAfterMs: 0 }],
    ["T-SW-52 tells a refused attempt", 2, 1, { taken: 2, asked: 2, ...attempt }],
    ["T-SW-53 takes an attempt for 0 permits for 1", 1, 1, { taken: 1, asked: 0, ...attempt }],
  ])("%s in retry-after", (_, permitLimit, queueLimit, row) =>
    checkRetryRow(cut(permitLimit, queueLimit), row),
  );

  it("T-SW-54 looks for the segment with which enough permits come back", async () => {
    const clock = new ManualClock();
    const limiter = new SlidingWindowRateLimiter({
      ...{ permitLimit: 4, windowMs: 8000, segmentsPerWindow: 4, autoReplenishment: false },
      clock,
    });
    limiter.attemptAcquire(3);
    replenish(limiter, clock, 1, 2000);
    limiter.attemptAcquire(1);
    expect(available(limiter)).toBe(0);
    expect((await limiter.acquire(2)).retryAfterMs).toBe(6000);
    expect(limiter.attemptAcquire(4).retryAfterMs).toBe(8000);
  });
});
