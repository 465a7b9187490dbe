import {
  type QueueProcessingOrder,
  SlidingWindowRateLimiter,
  TokenBucketRateLimiter,
  type TokenBucketRateLimiterOptions,
  withLease,
} from "headgate";
import { describe, expect, it } from "vitest";
import { ask, available, fates, numbers } from "../limiters/replenishing-support.js";
import { CountingController, ManualClock } from "../support.js";
import { ALL, admitted, comeBack, concurrency, FRONTS, LIMITERS } from "./support.js";

// A caller leaves, by abort or by time-out, and takes nothing with it: no permit, no place in the queue, no wake-up.

describe("a limiter whose permits come back one by one", () => {
  const bucketOf = (options: Partial<TokenBucketRateLimiterOptions>) => (clock: ManualClock) =>
    new TokenBucketRateLimiter({
      ...{ tokenLimit: 2, tokensPerPeriod: 1, replenishmentPeriodMs: 1000, queueLimit: 5, clock },
      ...options,
    });

  it.each([
    ["a stepped bucket", bucketOf({ refill: "stepped" })],
    ["a continuous bucket", bucketOf({ refill: "continuous" })],
    ["a bucket that is replenished by hand", bucketOf({ autoReplenishment: false })],
    [
      "a sliding window",
      (clock: ManualClock) =>
        new SlidingWindowRateLimiter({
          ...{ permitLimit: 2, windowMs: 3000, segmentsPerWindow: 3, queueLimit: 5, clock },
        }),
    ],
  ])("lets the ones behind an aborted large request go: %s (H1: dotnet/runtime#77180)", async (_, make) => {
    const clock = new ManualClock();
    const limiter = make(clock);
    limiter.attemptAcquire();
    // So that the window's permits come back one by one as well; the buckets earn one meanwhile, and it is taken.
    clock.advance(1000);
    limiter.tryReplenish();
    limiter.attemptAcquire(available(limiter));
    const caller = new AbortController();
    const large = ask(limiter, 2, caller.signal);
    const small = ask(limiter);
    caller.abort();
    expect(await fates(large, small)).toBe("x.");
    while (small.state === "pending" && clock.now() < 3000) {
      clock.advance(1000);
      limiter.tryReplenish();
      await fates();
    }
    expect(await fates(small)).toBe("+");
    expect([available(limiter), limiter.getStatistics().currentQueuedCount]).toEqual([0, 0]);
  });
});

describe.each(ALL)("%s", (_, make) => {
  const held = (limit: number, options: Parameters<typeof make>[1] = {}) => {
    const clock = new ManualClock();
    const limiter = make(limit, { clock, ...options });
    return { clock, limiter, lease: limiter.attemptAcquire(limit) };
  };

  it.each(["before", "after"])(
    "bears permits that come back inside the abort, %s its own listener (H2: dotnet/runtime#85523)",
    async (when) => {
      const { clock, limiter, lease } = held(1);
      const caller = new AbortController();
      const release = () => comeBack(clock, lease);
      if (when === "before") caller.signal.addEventListener("abort", release);
      const waiting = ask(limiter, 1, caller.signal);
      if (when === "after") caller.signal.addEventListener("abort", release);
      caller.abort("left");
      // Whoever has left gets nothing, although our listener may not have been called when the permit came.
      expect(await fates(waiting)).toBe("x");
      expect(waiting.reason).toBe("left");
      expect(numbers(limiter)).toBe("1/0/0/1");
      expect(admitted(limiter, 2)).toBe(1);
    },
  );

  // The report asks for 2 permits with a limit of 1, which is a RangeError here: so the limit is 2.
  it("counts an aborted waiter once when newcomers push others out (H3: dotnet/runtime#90409)", async () => {
    const { limiter } = held(2, { queueProcessingOrder: "newestFirst", queueLimit: 2 });
    const caller = new AbortController();
    const first = ask(limiter, 1, caller.signal);
    const second = ask(limiter);
    caller.abort();
    const newcomer = ask(limiter, 2);
    expect(await fates(first, second, newcomer)).toBe("x-.");
    expect(second.value.reason).toBe("queue_evicted");
    expect(numbers(limiter)).toBe("0/2/1/1");
  });

  it("serves those behind an aborted head at once, without any release (H15: golang/sync#10)", async () => {
    const limiter = make(10, { clock: new ManualClock() });
    limiter.attemptAcquire();
    const caller = new AbortController();
    const large = ask(limiter, 10, caller.signal);
    const small = ask(limiter);
    expect(await fates(large, small)).toBe("..");
    caller.abort();
    expect(available(limiter)).toBe(8);
    expect(await fates(large, small)).toBe("x+");
  });

  it("spends nothing on ten who have left (H17: sindresorhus/p-queue#219)", async () => {
    const { clock, limiter, lease } = held(1, { queueLimit: 20 });
    const caller = new AbortController();
    const leaving = Array.from({ length: 10 }, () => ask(limiter, 1, caller.signal));
    const eleventh = ask(limiter);
    caller.abort();
    expect(await fates(eleventh)).toBe(".");
    comeBack(clock, lease);
    expect(await fates(...leaving, eleventh)).toBe("xxxxxxxxxx+");
    expect(numbers(limiter)).toBe("0/0/0/2");
  });

  it("gives no permit to those whose time was over (H34: failsafe-lib/failsafe#393)", async () => {
    const { clock, limiter, lease } = held(8, { queueTimeoutMs: 50 });
    const waiters = Array.from({ length: 8 }, () => ask(limiter));
    clock.advance(50);
    expect(await fates(...waiters)).toBe("--------");
    expect(waiters.map((waiter) => waiter.value.reason)).toEqual(Array(8).fill("queue_timeout"));
    comeBack(clock, lease);
    expect(admitted(limiter, 9)).toBe(8);
  });

  it.each([
    ["after", "+."],
    ["before", "x+"],
  ])(
    "gives a permit to exactly one when an abort comes right %s it (H35: python/asyncio#270)",
    async (when, expected) => {
      const { clock, limiter, lease } = held(1);
      const caller = new AbortController();
      const first = ask(limiter, 1, caller.signal);
      const second = ask(limiter);
      if (when === "before") caller.abort();
      comeBack(clock, lease);
      if (when === "after") caller.abort();
      expect(await fates(first, second)).toBe(expected);
      expect(numbers(limiter)).toBe(when === "after" ? "0/1/0/2" : "0/0/0/2");
    },
  );
});

describe.each(FRONTS)("a concurrency limiter %s", (_, front) => {
  it("runs what comes after an abort of both the running and the waiting (H16: sindresorhus/p-queue#168)", async () => {
    const limiter = front(concurrency(1));
    const callers = [new AbortController(), new AbortController()] as const;
    // A shield will do the same; until there is one, withLease is what runs work.
    const settled = Promise.allSettled(
      callers.map(({ signal }) =>
        withLease(
          limiter,
          () => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
          { signal },
        ),
      ),
    );
    await fates();
    expect(numbers(limiter)).toBe("0/1/0/1");
    for (const caller of callers) caller.abort("left");
    const third = withLease(limiter, () => "ran");
    expect((await settled).map((result) => "reason" in result && result.reason)).toEqual(["left", "left"]);
    expect(await third).toBe("ran");
    expect(numbers(limiter)).toBe("1/0/0/2");
  });

  it.each([true, false])(
    "never runs two at once after an abort has met a grant, abort first: %s (H36: microsoft/vs-threading#521)",
    async (abortFirst) => {
      const limiter = front(concurrency(1));
      const lease = limiter.attemptAcquire();
      const caller = new AbortController();
      let running = 0;
      const peaks: number[] = [];
      const work = async () => {
        running += 1;
        await fates();
        peaks.push(running);
        running -= 1;
      };
      const tasks = [withLease(limiter, work, { signal: caller.signal })];
      if (abortFirst) caller.abort();
      lease.dispose();
      if (!abortFirst) caller.abort();
      for (let i = 0; i < 100; i++) tasks.push(withLease(limiter, work));
      const results = await Promise.allSettled(tasks);
      // Its permit had been granted in one of the two cases, but work for somebody who has left never starts.
      expect(results.map((result) => result.status)).toEqual(["rejected", ...Array(100).fill("fulfilled")]);
      expect(peaks).toEqual(Array(100).fill(1));
      expect(available(limiter)).toBe(1);
    },
  );

  it("leaves no listener on a signal after 10 000 waits (H41: sindresorhus/p-retry#71)", async () => {
    const limiter = front(concurrency(1));
    const caller = new CountingController();
    const { signal } = caller;
    let most = 0;
    for (let batch = 0; batch < 100; batch++) {
      const tasks = Array.from({ length: 100 }, () => withLease(limiter, () => fates(), { signal }));
      most = Math.max(most, caller.listeners);
      await Promise.all(tasks);
    }
    expect([most, caller.listeners]).toEqual([1, 0]);
    expect(numbers(limiter)).toBe("1/0/0/10000");
  });
});

describe.each(LIMITERS)("%s", (_, make) => {
  it.each<[QueueProcessingOrder, number, string, string]>([
    ["oldestFirst", 0, "x+.", "x++"],
    ["newestFirst", 2, ".+x", "++x"],
    ["highestPriorityFirst", 0, "x+.", "x++"],
  ])(
    "hands the permit of an aborted head on, %s (H19: connor4312/cockatiel#114)",
    async (queueProcessingOrder, head, then, atLast) => {
      const clock = new ManualClock();
      const limiter = make(1, { clock, queueLimit: 3, queueProcessingOrder });
      const running = limiter.attemptAcquire();
      const caller = new AbortController();
      const waiters = [0, 1, 2].map((i) => ask(limiter, 1, i === head ? caller.signal : undefined));
      caller.abort();
      comeBack(clock, running);
      expect(await fates(...waiters)).toBe(then);
      comeBack(clock, ...waiters.flatMap((waiter) => (waiter.state === "fulfilled" ? [waiter.value] : [])));
      expect(await fates(...waiters)).toBe(atLast);
      comeBack(clock, ...waiters.flatMap((waiter) => (waiter.state === "fulfilled" ? [waiter.value] : [])));
      expect(numbers(limiter)).toBe("1/0/0/3");
    },
  );
});
