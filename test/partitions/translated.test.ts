import { LimiterDisposedError, PartitionedRateLimiter, type RateLimitLease } from "headgate";
import { describe, expect, it } from "vitest";
import { flush, watch } from "../support.js";
import { concurrencyByKey, E, errorOf, show, stubbed } from "./support.js";

// Rows T-PART-32 to T-PART-39, section 2.12 of spec/system-threading-ratelimiting.md, and PT-14.

/** A limiter of one permit for each string, and a view of it for numbers that counts the runs of its adapter. */
function translated(leaveOpen = true) {
  const { limiter: inner, clock } = concurrencyByKey(1, { queueLimit: 1 });
  const seen: number[] = [];
  const view = inner.withTranslatedKey(
    (outer: number) => {
      seen.push(outer);
      return String(outer);
    },
    { leaveOpen },
  );
  return { inner, view, seen, clock };
}

const available = (limiter: PartitionedRateLimiter<never>, resource: unknown) =>
  limiter.getStatistics(resource as never)?.currentAvailablePermits;

describe("a view with a translated key", () => {
  it.each<[string, (view: PartitionedRateLimiter<number>) => Promise<RateLimitLease>]>([
    ["T-PART-32 attempt", async (view) => view.attemptAcquire(1)],
    ["T-PART-33 acquire", (view) => view.acquire(1)],
  ])("%s shares the partitions, and runs the adapter once", async (_, ask) => {
    const { inner, view, seen } = translated();
    const lease = await ask(view);
    expect([lease.isAcquired, seen]).toEqual([true, [1]]);
    expect(inner.attemptAcquire("1").isAcquired).toBe(false);
    lease.dispose();
    expect(inner.attemptAcquire("1").isAcquired).toBe(true);
    expect(seen).toEqual([1]);
  });

  it("T-PART-34 R-TRANS-1 shows the statistics of the partition, running the adapter once for each call", () => {
    const { inner, view, seen } = translated();
    expect([available(view, 1), seen.length]).toEqual([1, 1]);
    const lease = view.attemptAcquire(1);
    expect(seen).toHaveLength(2);
    expect([available(view, 1), seen.length]).toEqual([0, 3]);
    expect(inner.attemptAcquire("1").isAcquired).toBe(false);
    lease.dispose();
    expect([available(view, 1), seen.length]).toEqual([1, 4]);
    expect(inner.attemptAcquire("1").isAcquired).toBe(true);
    expect([available(view, 1), seen.length]).toEqual([0, 5]);
  });

  it("T-PART-39 asks the partition's limiter for its statistics", () => {
    const { limiter, made, log } = stubbed<string>();
    const view = limiter.withTranslatedKey((outer: number) => `key ${outer}`, { leaveOpen: false });
    view.getStatistics(1);
    expect([made, log]).toEqual([["key 1"], ["key 1 statistics"]]);
  });

  it.each([
    ["T-PART-35 T-PT10 dispose with leaveOpen leaves", true, (view: Disposable) => view[Symbol.dispose]()],
    [
      "T-PART-36 T-PT10 dispose without leaveOpen disposes",
      false,
      (view: Disposable) => view[Symbol.dispose](),
    ],
    [
      "T-PART-37 T-PT10 asyncDispose with leaveOpen leaves",
      true,
      (view: AsyncDisposable) => view[Symbol.asyncDispose](),
    ],
    [
      "T-PART-38 T-PT10 asyncDispose without leaveOpen disposes",
      false,
      (view: AsyncDisposable) => view[Symbol.asyncDispose](),
    ],
  ])("%s the inner limiter, and the view fails afterwards", async (_, leaveOpen, dispose) => {
    const { inner, view, seen } = translated(leaveOpen);
    await dispose(view);
    await dispose(view);
    if (leaveOpen) expect(inner.attemptAcquire("1").isAcquired).toBe(true);
    else expect(() => inner.attemptAcquire("1")).toThrow(LimiterDisposedError);
    const calls = [
      () => view.attemptAcquire(1),
      () => view.acquire(1),
      () => view.getStatistics(1),
      () => view.forResource(1),
    ];
    for (const call of calls) expect(await errorOf(call)).toBeInstanceOf(LimiterDisposedError);
    // R-TRANS-1: it is known to be disposed before the adapter runs.
    expect(seen).toEqual([]);
  });

  it.each<[string, (view: PartitionedRateLimiter<number>) => unknown, string]>([
    ["dispose", (view) => [view.dispose(), view.dispose()], "dispose"],
    [
      "asyncDispose",
      async (view) => {
        await view.disposeAsync();
        await view.disposeAsync();
      },
      "disposeAsync",
    ],
  ])("R-TRANS-2 disposes the inner limiter once at most, by %s", async (_, dispose, expected) => {
    const calls: string[] = [];
    class Inner extends PartitionedRateLimiter<string> {
      override getStatistics(): undefined {}
      protected override attemptAcquireCore(): RateLimitLease {
        throw E;
      }
      protected override acquireCore(): RateLimitLease {
        throw E;
      }
      override dispose(): void {
        calls.push("dispose");
      }
      override async disposeAsync(): Promise<void> {
        calls.push("disposeAsync");
      }
    }
    await dispose(new Inner().withTranslatedKey(String, { leaveOpen: false }));
    expect(calls).toEqual([expected]);
  });

  it("R-TRANS-1 fails at once while it is being disposed", async () => {
    const { view } = translated(false);
    const disposal = view.disposeAsync();
    expect(() => view.attemptAcquire(1)).toThrow(LimiterDisposedError);
    await disposal;
  });

  it("R-TRANS-3 fails with the error of the inner limiter when that has been disposed, after the adapter ran", async () => {
    const { inner, view, seen } = translated();
    inner.dispose();
    expect(() => view.attemptAcquire(1)).toThrow(LimiterDisposedError);
    expect(await errorOf(() => view.acquire(2))).toBeInstanceOf(LimiterDisposedError);
    expect(() => view.getStatistics(3)).toThrow(LimiterDisposedError);
    expect(seen).toEqual([1, 2, 3]);
  });

  it("R-TRANS-1 R-PART-1 checks arguments before the adapter runs", async () => {
    const { view, seen } = translated();
    expect(() => view.attemptAcquire(1, -1)).toThrow(RangeError);
    expect(await errorOf(() => view.acquire(1, 1.5))).toBeInstanceOf(RangeError);
    expect(await errorOf(() => view.acquire(1, { signal: AbortSignal.abort(E) }))).toBe(E);
    expect(seen).toEqual([]);
  });

  it("R-TRANS-1 passes counts and options on", async () => {
    const { limiter, log } = stubbed<string>();
    const view = limiter.withTranslatedKey((outer: number) => `k${outer}`, { leaveOpen: true });
    const { signal } = new AbortController();
    view.attemptAcquire(1, 3);
    await view.acquire(2, 4, { signal, maxWaitMs: 5 });
    expect(log).toEqual(["k1 attempt 3", "k2 acquire 4 abortable within 5"]);
  });

  it("design 4.6 passes on what the adapter throws, and makes nothing", async () => {
    const { limiter } = stubbed<string>();
    const view = limiter.withTranslatedKey(
      (): string => {
        throw E;
      },
      { leaveOpen: true },
    );
    for (const call of [() => view.attemptAcquire(1), () => view.acquire(1), () => view.getStatistics(1)]) {
      expect(await errorOf(call)).toBe(E);
    }
    expect(limiter.size).toBe(0);
  });

  it("PT-14 can stand on another view, and pass a disposal down to the first", () => {
    const { inner, view } = translated(false);
    const top = view.withTranslatedKey((outer: { id: number }) => outer.id, { leaveOpen: false });
    const lease = top.attemptAcquire({ id: 7 });
    expect(show(inner.peekStatistics("7"))).toBe("0/0/0/1");
    lease.dispose();
    top.dispose();
    expect(() => view.attemptAcquire(7)).toThrow(LimiterDisposedError);
    expect(() => inner.attemptAcquire("7")).toThrow(LimiterDisposedError);
  });

  it("PT-14 has waiters that share the queue of the inner limiter", async () => {
    const { inner, view } = translated();
    const held = inner.attemptAcquire("1");
    const waiting = watch(view.acquire(1));
    expect(show(inner.peekStatistics("1"))).toBe("0/1/0/1");
    held.dispose();
    await flush();
    expect(waiting.value.isAcquired).toBe(true);
  });

  it("PT-16 leads to the limiter of a resource, running the adapter once", () => {
    const { inner, view, seen } = translated();
    const one = view.forResource(1);
    expect([one.attemptAcquire().isAcquired, one.attemptAcquire().isAcquired]).toEqual([true, false]);
    expect(seen).toEqual([1]);
    one.pause(50);
    expect(inner.attemptAcquire("1").reason).toBe("server_pause");
  });
});
