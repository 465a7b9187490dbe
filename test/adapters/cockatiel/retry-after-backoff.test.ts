import { RateLimitRejectedError } from "headgate";
import {
  type BackoffContext,
  type BackoffLike,
  type RetryAfterBackoffOptions,
  retryAfterBackoff,
} from "headgate/cockatiel";
import { describe, expect, it, vi } from "vitest";
import { CountingController } from "../../support.js";
import { ManualClock, thrown } from "../shield/support.js";

const { signal } = new AbortController();
const advised = (retryAfterMs: unknown): BackoffContext => ({
  attempt: 1,
  signal,
  result: { error: { retryAfterMs } },
});
const failed = (error: unknown): BackoffContext => ({ attempt: 1, signal, result: { error } });

/** The waits before one attempt after another. */
function waits(options: RetryAfterBackoffOptions, contexts: readonly BackoffContext[]): number[] {
  let step: Pick<BackoffLike, "next"> = retryAfterBackoff(options);
  return contexts.map((context) => {
    const next = step.next(context);
    step = next;
    return next.duration;
  });
}

describe("a backoff by advice", () => {
  it("waits as long as it is told, or else as its fallback says, and never too long", () => {
    const hints = [1500, undefined, 0, -1, 60_000, 30_000, Number.NaN, Number.POSITIVE_INFINITY, "5", 1.2];
    expect(waits({ jitter: 0, fallback: 200 }, hints.map(advised))).toEqual([
      1500, 200, 0, 200, 30_000, 30_000, 200, 200, 200, 2,
    ]);
  });

  it.each([undefined, null, "text", 5, new Error("x"), Object.create(null)])(
    "finds no advice in %s",
    (error) => {
      expect(waits({ fallback: 7 }, [failed(error)])).toEqual([7]);
    },
  );

  it("finds none in a value that counts as a failure, unless it is told where", () => {
    const context = { attempt: 1, signal, result: { value: { wait: 40 } } };
    expect(waits({ fallback: 7 }, [context])).toEqual([7]);
    const retryAfterOf = (result: BackoffContext["result"]) =>
      "value" in result ? (result.value as { wait: number }).wait : undefined;
    expect(waits({ fallback: 7, jitter: 0, retryAfterOf }, [context])).toEqual([40]);
  });

  it("adds to the advice by chance, never takes away", () => {
    const durations = Array.from({ length: 200 }, () => waits({ jitter: 0.5 }, [advised(1000)])[0] as number);
    expect(Math.min(...durations)).toBeGreaterThanOrEqual(1000);
    expect(Math.max(...durations)).toBeLessThanOrEqual(1500);
    expect(new Set(durations).size).toBeGreaterThan(100);
    const few = Array.from({ length: 200 }, () => waits({}, [advised(1000)])[0] as number);
    expect(Math.max(...few)).toBeLessThanOrEqual(1100);
  });

  it("without advice doubles from 250 ms, at least half of it for sure", () => {
    const random = vi.spyOn(Math, "random").mockReturnValue(1);
    const contexts = Array.from({ length: 9 }, () => failed(new Error("x")));
    expect(waits({}, contexts)).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    random.mockReturnValue(0);
    expect(waits({ maxDelayMs: 600 }, contexts.slice(0, 4))).toEqual([125, 250, 300, 300]);
  });

  it("leaves its longest wait to chance as well, so that not all who are told to wait long come at once", () => {
    const random = vi.spyOn(Math, "random").mockReturnValue(0.5);
    expect(waits({}, [advised(60_000), advised(30_000), advised(29_000)])).toEqual([28_500, 28_500, 30_000]);
    random.mockReturnValue(0);
    expect(waits({}, [advised(60_000), advised(29_000)])).toEqual([30_000, 29_000]);
  });

  it.each([Number.NaN, -1, "5", undefined])("refuses a fallback that says %s", (duration) => {
    const step: BackoffLike = { duration: duration as number, next: () => step };
    expect(() => waits({ fallback: step }, [failed(1)])).toThrow(
      /^duration of RetryAfterBackoffOptions\.fallback must be a number of at least 0; got/,
    );
  });

  it("a fallback may grow without end", () => {
    const step: BackoffLike = { duration: Number.POSITIVE_INFINITY, next: () => step };
    expect(waits({ fallback: step }, [failed(1)])).toEqual([30_000]);
  });

  it("goes on with its fallback while it follows advice", () => {
    const fallback = { next: () => step(1) };
    const step = (n: number): BackoffLike => ({ duration: n, next: () => step(n * 10) });
    const contexts = [failed(1), advised(3000), failed(1), failed(1)];
    expect(waits({ fallback, jitter: 0 }, contexts)).toEqual([1, 3000, 100, 1000]);
  });

  it("makes steps that do not change, and starts anew for each call", () => {
    const backoff = retryAfterBackoff({ fallback: 5 });
    const first = backoff.next(advised(undefined));
    expect(Object.isFrozen(first)).toBe(true);
    first.next(advised(700));
    expect([first.duration, backoff.next(advised(undefined)).duration]).toEqual([5, 5]);
  });

  it("with a spacing gives every retry a moment of its own, for all calls that share it", () => {
    const clock = new ManualClock();
    const backoff = retryAfterBackoff({ spacingMs: 100, clock });
    const next = (hint: unknown) => backoff.next(advised(hint)).duration;
    expect([next(100), next(100), next(100)]).toEqual([100, 200, 300]);
    clock.advance(250);
    expect(next(50)).toBe(150);
    // After a quiet time the advice alone counts again.
    clock.advance(10_000);
    expect([next(30), next(500), next(10)]).toEqual([30, 500, 600]);
  });

  describe("with a spacing, whose callers leave", () => {
    function spaced(options: RetryAfterBackoffOptions = {}) {
      const clock = new ManualClock();
      const backoff = retryAfterBackoff({ spacingMs: 100, clock, ...options });
      const next = (hint: number, signal: AbortSignal = new AbortController().signal) =>
        backoff.next({ ...advised(hint), signal }).duration;
      return { clock, next };
    }

    it("gives their moments to those who come next", () => {
      const { next } = spaced();
      const callers = Array.from({ length: 5 }, () => new AbortController());
      expect(callers.map(({ signal }) => next(100, signal))).toEqual([100, 200, 300, 400, 500]);
      callers[3]?.abort();
      callers[1]?.abort();
      expect([next(100), next(250), next(100)]).toEqual([200, 400, 600]);
    });

    it("keeps nothing of a crowd that has left: who comes alone waits as long as he is told", () => {
      const { clock, next } = spaced();
      const crowd = new AbortController();
      for (let i = 0; i < 90; i++) next(100, crowd.signal);
      clock.advance(300);
      crowd.abort();
      expect([next(130), next(130)]).toEqual([130, 230]);
    });

    it("is exact with a spacing that binary fractions cannot hold", () => {
      const { next } = spaced({ spacingMs: 0.1 });
      const crowd = new AbortController();
      for (let i = 0; i < 1000; i++) next(0.3, crowd.signal);
      crowd.abort();
      expect(next(7)).toBe(7);
    });

    it("books nothing for a caller who has left already", () => {
      const { next } = spaced();
      for (let i = 0; i < 10; i++) next(100, AbortSignal.abort());
      expect(next(100)).toBe(100);
    });

    it("gives nothing back when a moment is over", () => {
      const { clock, next } = spaced();
      const caller = new AbortController();
      expect([next(100, caller.signal), next(100), next(100)]).toEqual([100, 200, 300]);
      clock.advance(150);
      caller.abort();
      expect(next(0)).toBe(250);
    });

    it("has one listener on a signal, which goes with the last moment, and keeps no process alive", () => {
      const { clock, next } = spaced();
      const all = new CountingController();
      for (let i = 0; i < 20; i++) next(100, all.signal);
      expect([all.listeners, clock.keepAliveTimerCount]).toEqual([1, 0]);
      clock.advance(1999);
      expect(all.listeners).toBe(1);
      clock.advance(1);
      expect([all.listeners, clock.timerCount]).toEqual([0, 0]);
    });

    it("has no timers and listeners of those who have left", () => {
      const { clock, next } = spaced();
      const crowd = new CountingController();
      for (let i = 0; i < 20; i++) next(100, crowd.signal);
      crowd.abort();
      expect(clock.timerCount).toBe(0);
    });
  });

  it("with a spacing books nothing beyond the longest wait, and leaves that to chance", () => {
    const random = vi.spyOn(Math, "random").mockReturnValue(0.5);
    const clock = new ManualClock();
    const backoff = retryAfterBackoff({ spacingMs: 100, maxDelayMs: 1000, clock });
    const next = () => backoff.next(advised(100)).duration;
    const durations = Array.from({ length: 30 }, next);
    expect(durations.slice(0, 11)).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 950]);
    random.mockReturnValue(1);
    expect(next()).toBe(900);
    // Those 21 have taken no moment away: the next one is there as soon as it is near enough.
    clock.advance(100);
    expect(next()).toBe(1000);
  });

  it("follows the advice of a refusal of this library", () => {
    const error = new RateLimitRejectedError({ reason: "limit_reached", retryAfterMs: 123.4 });
    expect(waits({ jitter: 0 }, [failed(error)])).toEqual([124]);
  });

  it.each<[RetryAfterBackoffOptions, RegExp]>([
    [{ maxDelayMs: 0 }, /RetryAfterBackoffOptions\.maxDelayMs must be a number of milliseconds above 0/],
    [{ maxDelayMs: 2 ** 31 }, /maxDelayMs must be .* up to 2147483647; got 2147483648/],
    [{ jitter: 2 }, /jitter must be a number from 0 to 1; got 2/],
    [{ jitter: Number.NaN }, /jitter must be a number from 0 to 1; got NaN/],
    [{ spacingMs: -1 }, /spacingMs must be a finite number of at least 0/],
    [{ fallback: -1 }, /fallback must be a finite number of milliseconds of at least 0, or a backoff/],
    [{ fallback: {} as never }, /fallback must be an object with next\(\)/],
    [{ fallback: "5" as never }, /fallback must be/],
    [{ retryAfterOf: 5 as never }, /retryAfterOf must be a function/],
    [{ clock: {} as never }, /clock must be an object with now\(\) and setTimer\(\)/],
    [{ maxDelay: 5 } as never, /did you mean RetryAfterBackoffOptions\.maxDelayMs\?/],
  ])("refuses %j", (options, message) => {
    expect((thrown(() => retryAfterBackoff(options)) as Error).message).toMatch(message);
  });
});
