import { LimiterDisposedError, MetadataName, type QueueProcessingOrder, type RateLimiter } from "headgate";
import { expect, it } from "vitest";
import { ManualClock } from "../support.js";
import { ask, available, fates, numbers, type Replenishing, replenish } from "./replenishing-support.js";

// The rows that tables 3.2, 3.3 and 3.4 of spec/system-threading-ratelimiting.md have in common, and the arrangement
// that their own rows share. "replenish at +x ms" of a row is `replenish`.

interface CommonOptions {
  readonly permitLimit: number;
  readonly queueLimit: number;
  readonly queueProcessingOrder: QueueProcessingOrder;
  readonly autoReplenishment: boolean;
  readonly clock: ManualClock;
}

/** One of the three tables. Rows that the tables share go by their number in table 3.2. */
export interface Table {
  readonly id: "FW" | "SW" | "TB";
  /** Makes the limiter of a row; `lengthMs` is for rows that say how long its window or period is. */
  create(options: CommonOptions, row: number, lengthMs?: number): Replenishing;
  /** How many replenishments of a millisecond bring everything back in a row. */
  turns(row: number): number;
  /** The shared rows that this table has otherwise. */
  readonly own: readonly number[];
  /** Row 6: when a request that found the queue full may come again. */
  readonly retryAfterMs: number;
  /** Row 39: the numbers at the end. */
  readonly numbersAtEnd: string;
}

/** A limiter of a row, and what can be done with it. */
export function arrange(
  table: Table,
  row: number,
  permitLimit: number,
  queueLimit: number,
  queueProcessingOrder: QueueProcessingOrder = "oldestFirst",
) {
  const clock = new ManualClock();
  const limiter = table.create(
    { permitLimit, queueLimit, queueProcessingOrder, autoReplenishment: false, clock },
    row,
  );
  const turns = table.turns(row);
  return {
    clock,
    limiter,
    turns,
    ask: (permitCount?: number, signal?: AbortSignal) => ask(limiter, permitCount, signal),
    /** Replenishes so often that everything is back that was taken at once. */
    turn: (times = turns) => replenish(limiter, clock, times),
  };
}
type Arranged = ReturnType<typeof arrange>;

type Shape = readonly [permitLimit: number, queueLimit: number, order?: QueueProcessingOrder];
const ONE: Shape = [1, 1];
const ONE_NEWEST: Shape = [1, 1, "newestFirst"];

/** A request that is aborted right away, by a caller with a reason. */
async function aborted({ limiter }: Arranged, permitCount: number): Promise<void> {
  const caller = new AbortController();
  const request = ask(limiter, permitCount, caller.signal);
  expect(await fates(request)).toBe(".");
  const reason = new Error("gone");
  caller.abort(reason);
  expect(await fates(request)).toBe("x");
  expect(request.reason).toBe(reason);
}

export function describeSharedRows(table: Table): void {
  const numbered = (row: number, title: string): string =>
    `T-${table.id}-${String(table.id === "SW" && row > 3 ? row + 1 : row).padStart(2, "0")} ${title}`;
  const row = (number: number, title: string, shape: Shape, test: (it: Arranged) => unknown): void => {
    if (table.own.includes(number)) return;
    it(numbered(number, title), async () => {
      await test(arrange(table, number, ...shape));
    });
  };

  row(1, "grants what is free, and again only when time has brought it back", ONE_NEWEST, (row1) => {
    const { limiter, turn } = row1;
    const lease = limiter.attemptAcquire();
    expect(lease.isAcquired).toBe(true);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    lease.dispose();
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    turn();
    expect(limiter.attemptAcquire().isAcquired).toBe(true);
  });

  row(3, "makes a request wait, and serves it when replenished", ONE_NEWEST, async ({ ask, turn }) => {
    expect(await fates(ask())).toBe("+");
    const waiting = ask();
    expect(await fates(waiting)).toBe(".");
    turn();
    expect(await fates(waiting)).toBe("+");
  });

  row(4, "grants the oldest waiter first", [1, 2], async ({ limiter, ask, turn }) => {
    limiter.attemptAcquire();
    const waiters = [ask(), ask()];
    expect(await fates(...waiters)).toBe("..");
    turn();
    expect(await fates(...waiters)).toBe("+.");
    expect(available(limiter)).toBe(0);
    turn();
    expect(await fates(...waiters)).toBe("++");
  });

  row(5, "grants the newest waiter first when asked to", [2, 3, "newestFirst"], async (row5) => {
    const { limiter, ask, turn, turns } = row5;
    limiter.attemptAcquire(2);
    const waiters = [ask(2), ask(1)];
    turn(turns - 1);
    expect(await fates(...waiters)).toBe("..");
    turn(1);
    expect(await fates(...waiters)).toBe(".+");
    expect(available(limiter)).toBe(1);
    turn();
    expect(await fates(...waiters)).toBe("++");
  });

  row(6, "refuses a newcomer when the queue is full, and says when to come back", ONE, async (row6) => {
    const { limiter, ask } = row6;
    limiter.attemptAcquire();
    const waiters = [ask(), ask()];
    expect(await fates(...waiters)).toBe(".-");
    expect(waiters[1]?.value.retryAfterMs).toBe(table.retryAfterMs);
  });

  row(7, "drops the oldest waiter from a full queue when the newest goes first", ONE_NEWEST, async (row7) => {
    const { limiter, ask, turn } = row7;
    limiter.attemptAcquire();
    const waiters = [ask(), ask()];
    expect(await fates(...waiters)).toBe("-.");
    expect(waiters[0]?.value.retryAfterMs).toBeUndefined();
    turn();
    expect(await fates(...waiters)).toBe("-+");
  });

  row(8, "drops as many waiters as the newcomer needs room", [2, 2, "newestFirst"], async (row8) => {
    const { limiter, ask, turn } = row8;
    limiter.attemptAcquire(2);
    const waiters = [ask(), ask()];
    expect(await fates(...waiters)).toBe("..");
    waiters.push(ask(2));
    expect(await fates(...waiters)).toBe("--.");
    turn();
    expect(await fates(...waiters)).toBe("--+");
  });

  row(
    9,
    "drops nobody for a newcomer that the whole queue could not hold",
    [2, 1, "newestFirst"],
    async (row9) => {
      const { limiter, ask, turn } = row9;
      limiter.attemptAcquire(2);
      const waiters = [ask(), ask(2)];
      expect(await fates(...waiters)).toBe(".-");
      turn();
      expect(await fates(...waiters)).toBe("+-");
    },
  );

  row(10, "has room in the queue again after having been full", ONE, async ({ limiter, ask, turn }) => {
    limiter.attemptAcquire();
    const waiters = [ask(), ask()];
    expect(await fates(...waiters)).toBe(".-");
    turn();
    expect(await fates(...waiters)).toBe("+-");
    waiters.push(ask());
    expect(await fates(...waiters)).toBe("+-.");
    turn();
    expect(await fates(...waiters)).toBe("+-+");
  });

  const most = 2147483647;
  row(
    11,
    `counts exactly with a limit and a queue of ${most}`,
    [most, most, "newestFirst"],
    async (row11) => {
      const { limiter, ask, turn } = row11;
      expect(limiter.attemptAcquire(most).isAcquired).toBe(true);
      const waiters = [ask(3), ask(most)];
      expect(await fates(...waiters)).toBe("-.");
      expect(numbers(limiter)).toBe(`0/${most}/1/1`);
      turn();
      expect(await fates(...waiters)).toBe("-+");
      expect(numbers(limiter)).toBe("0/0/1/2");
    },
  );

  for (const [number, title, count] of [
    [12, "throws when an attempt asks for more than the limit", 2],
    [14, "throws when an attempt asks for less than nothing", -1],
  ] as const) {
    row(number, title, ONE_NEWEST, ({ limiter }) => {
      expect(() => limiter.attemptAcquire(count)).toThrow(RangeError);
      expect(() => limiter.attemptAcquire(count)).toThrow(/permitCount/);
    });
  }

  for (const [number, title, count] of [
    [13, "rejects when a request asks for more than the limit", 2],
    [15, "rejects when a request asks for less than nothing", -1],
  ] as const) {
    row(number, title, ONE_NEWEST, async ({ ask }) => {
      const request = ask(count);
      expect(await fates(request)).toBe("x");
      expect(request.reason).toBeInstanceOf(RangeError);
      expect(String(request.reason)).toMatch(/permitCount/);
    });
  }

  row(16, "grants an attempt for 0 permits while one is free", ONE_NEWEST, ({ limiter }) => {
    expect(limiter.attemptAcquire(0).isAcquired).toBe(true);
  });

  row(17, "refuses an attempt for 0 permits while none is free", ONE_NEWEST, ({ limiter }) => {
    limiter.attemptAcquire();
    const refused = limiter.attemptAcquire(0);
    expect(refused.isAcquired).toBe(false);
    refused.dispose();
    expect(numbers(limiter)).toBe("0/0/1/1");
  });

  row(18, "grants a request for 0 permits at once while one is free", ONE_NEWEST, async ({ ask }) => {
    expect(await fates(ask(0))).toBe("+");
  });

  row(19, "makes a request for 0 permits wait until one is free", ONE_NEWEST, async (row19) => {
    const { limiter, ask, turn } = row19;
    limiter.attemptAcquire();
    const waiting = ask(0);
    expect(await fates(waiting)).toBe(".");
    turn();
    expect(await fates(waiting)).toBe("+");
    expect(numbers(limiter)).toBe("1/0/0/2");
  });

  row(20, "serves several waiters in one replenishment", [2, 2], async ({ limiter, ask, turn, turns }) => {
    limiter.attemptAcquire(2);
    const waiters = [ask(), ask()];
    turn(turns - 1);
    expect(await fates(...waiters)).toBe("..");
    turn(1);
    expect(numbers(limiter)).toBe("0/0/0/3");
    expect(await fates(...waiters)).toBe("++");
  });

  row(21, "gives nothing to a waiter that was aborted", ONE, async (row21) => {
    row21.limiter.attemptAcquire();
    await aborted(row21, 1);
    row21.turn();
    expect(numbers(row21.limiter)).toBe("1/0/0/1");
  });

  row(23, "rejects a request whose signal was aborted before", ONE, async ({ limiter, ask, turn }) => {
    limiter.attemptAcquire();
    const reason = new Error("left early");
    const request = ask(1, AbortSignal.abort(reason));
    expect(await fates(request)).toBe("x");
    expect(request.reason).toBe(reason);
    turn();
    expect(numbers(limiter)).toBe("1/0/0/1");
  });

  row(24, "gives the place of an aborted waiter to the next caller", ONE, async (row24) => {
    row24.limiter.attemptAcquire();
    await aborted(row24, 1);
    const waiting = row24.ask();
    expect(await fates(waiting)).toBe(".");
    row24.turn();
    expect(await fates(waiting)).toBe("+");
  });

  row(
    25,
    "does not count an aborted waiter again when room is made",
    [2, 2, "newestFirst"],
    async (row25) => {
      const { limiter, ask, turn, turns } = row25;
      const caller = new AbortController();
      limiter.attemptAcquire(2);
      const waiters = [ask(1, caller.signal), ask()];
      caller.abort();
      turn(turns - 1);
      waiters.push(ask(2));
      expect(await fates(...waiters)).toBe("x-.");
      expect(numbers(limiter)).toBe("0/2/1/1");
      turn(1);
      expect(await fates(...waiters)).toBe("x-+");
    },
  );

  row(26, "can be disposed after a waiter was aborted", ONE, async (row26) => {
    row26.limiter.attemptAcquire();
    await aborted(row26, 1);
    expect(() => row26.limiter.dispose()).not.toThrow();
  });

  row(27, "gives a granted lease no retry-after", ONE, ({ limiter }) => {
    const lease = limiter.attemptAcquire();
    expect(lease.isAcquired).toBe(true);
    expect(lease.tryGetMetadata("RETRY_AFTER")).toBeUndefined();
    expect(lease.tryGetMetadata(MetadataName.retryAfter)).toBeUndefined();
  });

  row(28, "(C-3, C-8) lists retry-after among the names of a granted lease, and no phrase", ONE, (row28) => {
    const names = [...row28.limiter.attemptAcquire().metadataNames].sort();
    expect(names).toEqual(["LIMIT", "REJECTION_REASON", "REMAINING", "RESET_AFTER", "RETRY_AFTER"]);
  });

  for (const [number, title, dispose] of [
    [29, "refuses everybody who waits when it is disposed", (limiter: RateLimiter) => limiter.dispose()],
    [
      30,
      "refuses everybody who waits when it is disposed asynchronously",
      (limiter: RateLimiter) => limiter[Symbol.asyncDispose](),
    ],
  ] as const) {
    row(number, title, [1, 3], async ({ limiter, ask }) => {
      limiter.attemptAcquire();
      const waiters = [ask(), ask(), ask()];
      expect(await fates(...waiters)).toBe("...");
      await dispose(limiter);
      expect(await fates(...waiters)).toBe("---");
      expect(() => limiter.attemptAcquire()).toThrow(LimiterDisposedError);
      const late = ask();
      expect(await fates(late)).toBe("x");
      expect(late.reason).toBeInstanceOf(LimiterDisposedError);
    });
  }

  for (const [number, title, queueLimit, take] of [
    [31, "lets a request pass the queue when the newest goes first", 2, "acquire"],
    [33, "lets an attempt pass the queue when the newest goes first", 3, "attemptAcquire"],
  ] as const) {
    row(number, title, [2, queueLimit, "newestFirst"], async ({ limiter, ask, turn, turns }) => {
      limiter.attemptAcquire();
      const large = ask(2);
      expect(await fates(large)).toBe(".");
      expect(available(limiter)).toBe(1);
      expect((await limiter[take](1)).isAcquired).toBe(true);
      turn(turns - 1);
      expect(await fates(large)).toBe(".");
      turn(1);
      expect(await fates(large)).toBe("+");
    });
  }

  row(32, "makes a request wait behind the queue when the oldest goes first", [2, 3], async (row32) => {
    const { limiter, ask, turn } = row32;
    limiter.attemptAcquire();
    const waiters = [ask(2), ask()];
    expect(await fates(...waiters)).toBe("..");
    turn();
    expect(await fates(...waiters)).toBe("+.");
    turn();
    expect(await fates(...waiters)).toBe("++");
  });

  row(34, "refuses an attempt while somebody waits and the oldest goes first", [2, 3], async (row34) => {
    const { limiter, ask, turn } = row34;
    limiter.attemptAcquire();
    const large = ask(2);
    expect(limiter.attemptAcquire().isAcquired).toBe(false);
    expect(numbers(limiter)).toBe("1/2/1/1");
    turn();
    expect(await fates(large)).toBe("+");
  });

  row(35, "is not idle while a permit is out", [1, 2], ({ limiter }) => {
    limiter.attemptAcquire();
    expect(limiter.idleDurationMs).toBeUndefined();
  });

  row(36, "is idle from the start, and longer as time goes by", [1, 2], ({ clock, limiter }) => {
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(15);
    expect(limiter.idleDurationMs).toBe(15);
  });

  row(37, "is idle again when everything has come back", [1, 2], ({ clock, limiter, turn }) => {
    limiter.attemptAcquire();
    turn();
    expect(limiter.idleDurationMs).toBe(0);
    clock.advance(3);
    expect(limiter.idleDurationMs).toBe(3);
  });

  row(38, "gives a snapshot that later activity does not change", ONE, ({ limiter }) => {
    const before = limiter.getStatistics();
    limiter.attemptAcquire();
    expect(limiter.getStatistics()).not.toBe(before);
    expect(before.currentAvailablePermits).toBe(1);
    expect(available(limiter)).toBe(0);
  });

  row(39, "counts what is free, queued, refused and granted", [100, 50], async (row39) => {
    const { limiter, ask, turn, turns } = row39;
    expect(numbers(limiter)).toBe("100/0/0/0");
    limiter.attemptAcquire(60);
    expect(numbers(limiter)).toBe("40/0/0/1");
    const waiting = ask(50);
    expect(numbers(limiter)).toBe("40/50/0/1");
    turn(turns - 1);
    expect(await fates(ask())).toBe("-");
    expect(numbers(limiter)).toBe("40/50/1/1");
    expect(limiter.attemptAcquire(100).isAcquired).toBe(false);
    expect(numbers(limiter)).toBe("40/50/2/1");
    turn(1);
    expect(numbers(limiter)).toBe(table.numbersAtEnd);
    expect(await fates(waiting)).toBe("+");
  });

  row(40, "counts requests for 0 permits like all others", [100, 50], async ({ limiter, ask }) => {
    limiter.attemptAcquire(0);
    expect(numbers(limiter)).toBe("100/0/0/1");
    expect(await fates(ask(0))).toBe("+");
    expect(numbers(limiter)).toBe("100/0/0/2");
    limiter.attemptAcquire(100);
    expect(numbers(limiter)).toBe("0/0/0/3");
    expect(limiter.attemptAcquire(0).isAcquired).toBe(false);
    expect(numbers(limiter)).toBe("0/0/1/3");
  });

  row(41, "throws when asked for statistics after having been disposed", [100, 50], ({ limiter }) => {
    limiter.dispose();
    expect(() => limiter.getStatistics()).toThrow(LimiterDisposedError);
  });

  const create = (number: number, permitLimit: number, lengthMs: number, autoReplenishment: boolean) => {
    const clock = new ManualClock();
    const options = { permitLimit, queueLimit: 2, autoReplenishment, clock } as const;
    const limiter = table.create({ ...options, queueProcessingOrder: "oldestFirst" }, number, lengthMs);
    return { clock, limiter };
  };

  it(numbered(42, "does nothing in tryReplenish, and says so, when it replenishes itself"), () => {
    const { clock, limiter } = create(42, 2, 1000, true);
    expect(limiter.tryReplenish()).toBe(false);
    expect(available(limiter)).toBe(2);
    limiter.attemptAcquire();
    clock.advance(999);
    expect(limiter.tryReplenish()).toBe(false);
    expect(available(limiter)).toBe(1);
  });

  it(numbered(43, "serves a waiter by itself, as time goes by"), async () => {
    const { clock, limiter } = create(43, 2, 1000, true);
    limiter.attemptAcquire(2);
    const waiting = ask(limiter);
    clock.advance(999);
    expect(await fates(waiting)).toBe(".");
    clock.advance(1);
    expect(await fates(waiting)).toBe("+");
  });

  it(numbered(44, "tells how often it replenishes, and whether by itself"), () => {
    const auto = create(44, 1, 60_000, true).limiter;
    expect([auto.isAutoReplenishing, auto.replenishmentPeriodMs]).toEqual([true, 60_000]);
    const manual = create(44, 1, 2000, false).limiter;
    expect([manual.isAutoReplenishing, manual.replenishmentPeriodMs]).toEqual([false, 2000]);
  });
}

/** A row about the retry-after of one refusal. */
export interface RetryRow {
  readonly taken: number;
  /** What somebody already waits for. */
  readonly waiting?: number;
  /** How long after the taking the refusal comes. */
  readonly elapsedMs?: number;
  readonly asked: number;
  readonly how?: "attemptAcquire" | "acquire";
  readonly retryAfterMs: number;
}

export async function checkRetryRow(
  make: (clock: ManualClock) => Replenishing,
  row: RetryRow,
): Promise<void> {
  const { taken, waiting, elapsedMs = 0, asked, how = "acquire", retryAfterMs } = row;
  const clock = new ManualClock();
  const limiter = make(clock);
  expect(limiter.attemptAcquire(taken).isAcquired).toBe(true);
  const others = waiting === undefined ? [] : [ask(limiter, waiting)];
  clock.advance(elapsedMs);
  const refused = await limiter[how](asked);
  expect(refused.isAcquired).toBe(false);
  expect(refused.tryGetMetadata("RETRY_AFTER")).toBe(retryAfterMs);
  expect(refused.tryGetMetadata(MetadataName.retryAfter)).toBe(retryAfterMs);
  expect([...refused.metadataNames]).toContain("RETRY_AFTER");
  expect([...refused.metadataNames]).not.toContain("REASON_PHRASE");
  expect(await fates(...others)).toBe(".".repeat(others.length));
}
