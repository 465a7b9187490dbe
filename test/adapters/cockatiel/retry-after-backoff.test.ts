import { RateLimitRejectedError } from "headgate";
import {
  type BackoffContext,
  type BackoffLike,
  type RetryAfterBackoffOptions,
  retryAfterBackoff,
} from "headgate/cockatiel";
import { describe, expect, it, vi } from "vitest";
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
    expect(waits({ maxDelayMs: 600 }, contexts.slice(0, 4))).toEqual([125, 250, 500, 600]);
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

  it("follows the advice of a refusal of this library", () => {
    const error = new RateLimitRejectedError({ reason: "limit_reached", retryAfterMs: 123.4 });
    expect(waits({ jitter: 0 }, [failed(error)])).toEqual([124]);
  });

  it.each<[RetryAfterBackoffOptions, RegExp]>([
    [{ maxDelayMs: 0 }, /RetryAfterBackoffOptions\.maxDelayMs must be a finite number/],
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
