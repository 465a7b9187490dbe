import { ConcurrencyLimiter, type ConcurrencyLimiterOptions, type RateLimitLease } from "headgate";
import { AdaptiveConcurrencyLimiter, FixedLimit } from "headgate/adaptive";
import { describe, expect, it } from "vitest";
import { CountingController, flush, ManualClock, type Watched, watch } from "../support.js";

type Form = "intervalMinimum" | "controlLaw";

/** The lease of whoever was granted one last. */
function lastGranted(asked: readonly Watched<RateLimitLease>[]): RateLimitLease | undefined {
  return asked.filter((one) => one.state === "fulfilled" && one.value.isAcquired).at(-1)?.value;
}

/** A limiter with one permit, held by the caller. */
function setUp(form: Form, options: Partial<ConcurrencyLimiterOptions> = {}) {
  const clock = new ManualClock();
  const codel = { targetMs: 5, intervalMs: 100, form };
  const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1000, clock, codel, ...options });
  return { clock, limiter, lease: limiter.attemptAcquire() };
}

/**
 * Serves who waits, one every `everyMs`, while `arrivals` come between two of them; what became of each, in the order in which
 * they came.
 */
async function serve(form: Form, everyMs: number, arrivals: number, rounds: number): Promise<string[]> {
  const { clock, limiter, lease } = setUp(form);
  const answers: string[] = [];
  let held: RateLimitLease = lease;
  let asked = 0;
  const ask = () => {
    const place = asked;
    asked += 1;
    void limiter.acquire().then((answer) => {
      answers[place] = answer.isAcquired ? "served" : String(answer.reason);
      if (answer.isAcquired) held = answer;
    });
  };
  for (let i = 0; i < rounds; i++) {
    for (let j = 0; j < arrivals; j++) ask();
    clock.advance(everyMs);
    held.dispose();
    await flush();
  }
  limiter.dispose();
  return answers;
}

describe.each(["intervalMinimum", "controlLaw"] as const)("a queue with codel, %s", (form) => {
  it("sheds nobody while one comes for each that is served", async () => {
    const answers = await serve(form, 4, 1, 200);
    expect(new Set(answers)).toEqual(new Set(["served"]));
    expect(answers.length).toBe(200);
  });

  it("sheds nobody of a burst that is gone within the interval", async () => {
    const { clock, limiter, lease } = setUp(form);
    const burst = Array.from({ length: 20 }, () => watch(limiter.acquire()));
    let held = lease;
    for (const one of burst) {
      clock.advance(4);
      held.dispose();
      await flush();
      expect(one.value.isAcquired).toBe(true);
      held = one.value;
    }
  });

  it("sheds the oldest from a queue that stands, and goes on serving", async () => {
    const answers = await serve(form, 10, 2, 300);
    const shed = answers.filter((answer) => answer === "codel").length;
    const served = answers.filter((answer) => answer === "served").length;
    expect(served).toBe(300);
    expect(shed).toBeGreaterThan(20);
    // Whoever came after the last that was served still waits, and is refused by dispose.
    expect(answers.lastIndexOf("codel")).toBeLessThan(answers.lastIndexOf("served"));
  });

  it("never sheds the last who waits", async () => {
    const { clock, limiter, lease } = setUp(form);
    let held = lease;
    for (let i = 0; i < 50; i++) {
      const only = watch(limiter.acquire());
      clock.advance(1000);
      held.dispose();
      await flush();
      expect(only.value.isAcquired).toBe(true);
      held = only.value;
    }
  });

  it("counts what it sheds as refused, leaves no listener, and hands the permit on in the same turn", async () => {
    const { clock, limiter, lease } = setUp(form);
    const controller = new CountingController();
    let held = lease;
    const asked = Array.from({ length: 200 }, () => watch(limiter.acquire({ signal: controller.signal })));
    let rounds = 0;
    while (rounds < 40 && limiter.getStatistics().currentQueuedCount > 0) {
      rounds += 1;
      clock.advance(50);
      const before = limiter.getStatistics().totalSuccessfulLeases;
      held.dispose();
      expect(limiter.getStatistics().totalSuccessfulLeases).toBe(before + 1);
      await flush();
      held = lastGranted(asked) ?? held;
    }
    const shed = asked.filter((one) => one.state === "fulfilled" && one.value.reason === "codel").length;
    expect(shed).toBeGreaterThan(0);
    expect(limiter.getStatistics().totalFailedLeases).toBe(shed);
    expect(limiter.getStatistics().currentQueuedCount).toBe(200 - rounds - shed);
    controller.abort();
    await flush();
    expect(controller.listeners).toBe(0);
    expect(limiter.getStatistics().currentQueuedCount).toBe(0);
  });
});

describe.each(["intervalMinimum", "controlLaw"] as const)("codel, %s, after the queue has stood", (form) => {
  /** A limiter whose queue has stood for long, with so many who wait, and one permit held. */
  async function standing(waiting: number, options: Partial<ConcurrencyLimiterOptions> = {}) {
    const { clock, limiter, lease } = setUp(form, options);
    let held = lease;
    const asked: Watched<RateLimitLease>[] = [];
    const ask = (permits = 1) => asked.push(watch(limiter.acquire(permits)));
    for (let i = 0; i < 30; i++) {
      ask();
      ask();
      clock.advance(20);
      held.dispose();
      await flush();
      held = lastGranted(asked) ?? held;
    }
    while (limiter.getStatistics().currentQueuedCount < waiting) ask();
    clock.advance(200);
    return { clock, limiter, held, asked, ask };
  }

  const shedOf = (asked: readonly Watched<RateLimitLease>[]) =>
    asked.filter((one) => one.state === "fulfilled" && one.value.reason === "codel").length;

  it("sheds nobody when all who wait can be served", async () => {
    const { limiter, asked } = await standing(15);
    const before = shedOf(asked);
    limiter.permitLimit = 1000;
    await flush();
    expect(shedOf(asked)).toBe(before);
    expect(limiter.getStatistics().currentQueuedCount).toBe(0);
  });

  it("sheds nobody for the sake of somebody who wants more than is there", async () => {
    const { limiter, held, asked, ask, clock } = await standing(0, { permitLimit: 3 });
    while (limiter.attemptAcquire().isAcquired);
    limiter.permitLimit = 3;
    const before = shedOf(asked);
    const waiting = limiter.getStatistics().currentQueuedCount;
    if (waiting === 0) ask();
    ask(3);
    clock.advance(500);
    const granted = limiter.getStatistics().totalSuccessfulLeases;
    held.dispose();
    await flush();
    expect(limiter.getStatistics().totalSuccessfulLeases).toBeGreaterThan(granted);
    expect(shedOf(asked)).toBeLessThanOrEqual(before + Math.max(0, waiting - 1));
  });

  it("has forgotten it once nobody has waited for a while, and takes a burst for one", async () => {
    const { clock, limiter, held, asked } = await standing(0);
    held.dispose();
    limiter.permitLimit = 1000;
    await flush();
    limiter.permitLimit = 1;
    for (const one of asked) if (one.state === "fulfilled") one.value.dispose();
    clock.advance(3_600_000);
    let busy = limiter.attemptAcquire();
    const burst = Array.from({ length: 5 }, () => watch(limiter.acquire()));
    for (const one of burst) {
      clock.advance(15);
      busy.dispose();
      await flush();
      expect(one.value.isAcquired).toBe(true);
      busy = one.value;
    }
  });
});

describe("codel", () => {
  it("does not take a pause for a queue that stands", async () => {
    const { clock, limiter, lease } = setUp("intervalMinimum", { permitLimit: 2 });
    lease.dispose();
    limiter.pause(5000);
    const asked = Array.from({ length: 40 }, () => watch(limiter.acquire()));
    clock.advance(5000);
    await flush();
    // Worked off in 140 ms, which is less than it takes to be sure.
    for (let i = 0; i < 20; i++) {
      clock.advance(7);
      for (const one of asked) if (one.state === "fulfilled") one.value.dispose();
      await flush();
    }
    expect(asked.map((one) => one.value.isAcquired)).toEqual(asked.map(() => true));
  });

  it("works in an adaptive limiter, and in each of its shares", async () => {
    const clock = new ManualClock();
    const limiter = new AdaptiveConcurrencyLimiter({
      limit: new FixedLimit(1),
      shares: { live: 1 },
      queueLimit: 1000,
      clock,
      codel: { targetMs: 5, intervalMs: 100 },
    });
    const live = limiter.forShare("live");
    let held = live.attemptAcquire();
    const asked = Array.from({ length: 100 }, () => watch(live.acquire()));
    while (limiter.getStatistics().currentQueuedCount > 0) {
      clock.advance(60);
      held.dispose();
      await flush();
      held = lastGranted(asked) ?? held;
    }
    expect(
      asked.filter((one) => one.state === "fulfilled" && one.value.reason === "codel").length,
    ).toBeGreaterThan(0);
    expect(limiter.getStatistics().inFlight).toBe(1);
  });

  it("costs no clock read where nobody waits", () => {
    const { clock, limiter, lease } = setUp("intervalMinimum");
    let reads = 0;
    clock.now = () => {
      reads += 1;
      return 0;
    };
    lease.dispose();
    for (let i = 0; i < 10; i++) limiter.attemptAcquire().dispose();
    expect(reads).toBe(0);
  });

  it.each([
    [{ codel: { targetMs: 0 } }, RangeError, /options.codel.targetMs must be/],
    [{ codel: { intervalMs: Number.POSITIVE_INFINITY } }, RangeError, /options.codel.intervalMs must be/],
    [{ codel: { targetMs: 100, intervalMs: 50 } }, RangeError, /options.codel.intervalMs must be/],
    [
      { codel: { target: 5 } },
      TypeError,
      /options.codel.target is not an option; did you mean options.codel.targetMs/,
    ],
    [{ codel: true }, TypeError, /options.codel must be an object/],
    [
      { codel: {}, queueProcessingOrder: "newestFirst" },
      TypeError,
      /options.queueProcessingOrder must be "oldestFirst" when codel is set; got "newestFirst"/,
    ],
    [{ codel: {}, queueProcessingOrder: "highestPriorityFirst" }, TypeError, /when codel is set/],
  ])("refuses %o", (options, kind, message) => {
    const make = () => new ConcurrencyLimiter({ permitLimit: 1, ...(options as object) });
    expect(make).toThrow(kind);
    expect(make).toThrow(message);
  });

  it("is no option of limiters whose permits come with time", async () => {
    const { FixedWindowRateLimiter } = await import("headgate");
    const options = { permitLimit: 1, windowMs: 1000, codel: {} };
    expect(() => new FixedWindowRateLimiter(options)).toThrow(/options.codel is not an option/);
  });
});
