import { ConcurrencyLimiter, LimiterDisposedError, systemClock } from "headgate";
import {
  type PartitionEvictionReason,
  PartitionedShield,
  type PartitionedShieldOptions,
  Shield,
  shieldDiagnostics,
} from "headgate/shield";
import { describe, expect, it } from "vitest";
import { failure, flush, gate, granted, ManualClock, Reports, StubLimiter, thrown } from "./support.js";

/** Shields with a place each, and the keys for which they have been made. */
function places(options: PartitionedShieldOptions<unknown> = {}) {
  const made: unknown[] = [];
  const gone: [unknown, PartitionEvictionReason][] = [];
  const shields = new PartitionedShield(
    (key: unknown) => {
      made.push(key);
      return Shield.concurrencyLimit(1);
    },
    { onEvicted: ({ key, reason }) => void gone.push([key, reason]), ...options },
  );
  return { shields, made, gone };
}

describe("a partitioned shield", () => {
  it("makes one shield for each key, when it is first asked for", () => {
    const { shields, made } = places();
    const all = new Set(Array.from({ length: 32 }, () => shields.get("a")));
    expect([all.size, made]).toEqual([1, ["a"]]);
    expect(shields.get("b")).not.toBe(shields.get("a"));
    expect([shields.peek("a") === shields.get("a"), shields.peek("c"), shields.size]).toEqual([
      true,
      undefined,
      2,
    ]);
  });

  it("gives each key its own limit", async () => {
    const { shields } = places();
    const open = gate<number>();
    const a = shields.execute("a", () => open.promise);
    expect(await failure(shields.execute("a", () => 2))).toMatchObject({ reason: "limit_reached" });
    expect(await shields.execute("b", () => 3)).toBe(3);
    open.open(1);
    expect(await a).toBe(1);
  });

  it("keeps so many, and drops what was used least recently", async () => {
    const { shields, gone, made } = places({ maxPartitions: 2 });
    const a = shields.get("a");
    const b = shields.get("b");
    expect(shields.get("a")).toBe(a);
    shields.get("c");
    expect([shields.size, shields.get("a") === a]).toEqual([2, true]);
    await flush();
    expect(gone).toEqual([["b", "capacity"]]);
    expect(shields.get("b")).not.toBe(b);
    expect(made).toEqual(["a", "b", "c", "b"]);
  });

  it("counts a look as a use", async () => {
    const { shields, gone } = places({ maxPartitions: 2 });
    shields.get("a");
    shields.get("b");
    shields.peek("a");
    shields.get("c");
    await flush();
    expect(gone).toEqual([["b", "capacity"]]);
  });

  it("drops what has been idle for as long as it says, without a timer", async () => {
    const clock = new ManualClock();
    const { shields, gone } = places({ idleExpirationMs: 60_000, clock });
    const a = shields.get("a");
    clock.advance(59_999);
    expect([shields.pruneExpired(), shields.get("a") === a]).toEqual([0, true]);
    shields.get("b");
    clock.advance(60_000);
    expect([clock.timerCount, shields.size]).toEqual([0, 2]);
    expect(shields.pruneExpired()).toBe(2);
    await flush();
    expect(gone).toEqual([
      ["a", "expiration"],
      ["b", "expiration"],
    ]);
    expect(shields.get("a")).not.toBe(a);
    clock.advance(60_000);
    shields.get("c");
    expect(shields.size).toBe(1);
    expect(places().shields.pruneExpired()).toBe(0);
  });

  it("is not idle while a call runs in it, and from the end of that call on", async () => {
    const clock = new ManualClock();
    const { shields, gone } = places({ idleExpirationMs: 1000, clock });
    const open = gate();
    const call = shields.execute("a", () => open.promise);
    shields.get("b");
    clock.advance(1000);
    // A new shield would let in a second call beside the first.
    expect(await failure(shields.execute("a", () => 2))).toMatchObject({ reason: "limit_reached" });
    await flush();
    expect(gone).toEqual([["b", "expiration"]]);
    clock.advance(5000);
    open.open();
    await call;
    clock.advance(999);
    expect(shields.pruneExpired()).toBe(0);
    clock.advance(1);
    expect(shields.pruneExpired()).toBe(1);
  });

  it("drops what is idle behind one that is in use", async () => {
    const clock = new ManualClock();
    const { shields } = places({ idleExpirationMs: 1000, clock });
    const open = gate();
    const call = shields.execute("a", () => open.promise);
    shields.get("b");
    clock.advance(500);
    open.open();
    await call;
    clock.advance(500);
    expect([shields.pruneExpired(), shields.size]).toEqual([1, 1]);
    expect(shields.peek("a")).toBeDefined();
  });

  it("two that are put together count the call both", async () => {
    const limiters = [new StubLimiter(() => granted()), new StubLimiter(() => granted())];
    const shields = new PartitionedShield((which: number) =>
      Shield.empty.useRateLimiter(limiters[which] as StubLimiter, { ownsLimiter: true }),
    );
    const open = gate();
    const call = shields
      .get(0)
      .use(shields.get(1))
      .execute(() => open.promise);
    shields.clear();
    await flush();
    expect(limiters.map(({ disposals }) => disposals)).toEqual([0, 0]);
    open.open();
    await call;
    await flush();
    expect(limiters.map(({ disposals }) => disposals)).toEqual([1, 1]);
  });

  it("drops nothing for a key whose shield cannot be made, and does not remember the error", () => {
    let fails = true;
    const shields = new PartitionedShield(
      (key: string) => {
        if (key === "bad" && fails) throw new Error(key);
        return Shield.empty;
      },
      { maxPartitions: 1 },
    );
    const good = shields.get("good");
    expect(() => shields.get("bad")).toThrow("bad");
    expect([shields.peek("good") === good, shields.size]).toEqual([true, 1]);
    fails = false;
    expect(shields.get("bad").describe()).toBe("(empty)");
  });

  it("a factory may ask for another key, but not for its own", () => {
    const shields: PartitionedShield<string> = new PartitionedShield((key: string) =>
      key === "own" ? shields.get("own") : key === "other" ? shields.get("base") : Shield.empty,
    );
    expect(() => shields.get("own")).toThrow(/asked for the very key/);
    expect(shields.get("other").describe()).toBe("(empty)");
    expect(shields.size).toBe(2);
  });

  it("deletes and clears", async () => {
    const { shields, gone } = places();
    shields.get(1);
    expect([shields.delete(1), shields.delete(1)]).toEqual([true, false]);
    shields.get(2);
    shields.get(3);
    shields.clear();
    await flush();
    expect([shields.size, gone]).toEqual([
      0,
      [
        [1, "removed"],
        [2, "removed"],
        [3, "removed"],
      ],
    ]);
  });

  it("lets a call that runs in a dropped partition end, then tells, and only then disposes", async () => {
    const limiter = new StubLimiter(() => granted());
    const hook = gate();
    const steps: string[] = [];
    const shields = new PartitionedShield(
      (_: string) => Shield.empty.useRateLimiter(limiter, { ownsLimiter: true }).concurrencyLimit(5),
      {
        onEvicted: async () => {
          steps.push("told");
          await hook.promise;
        },
      },
    );
    const open = gate<number>();
    const kept = shields.get("a");
    const a = kept.execute(() => open.promise);
    shields.delete("a");
    await flush();
    expect([steps, limiter.disposals]).toEqual([["told"], 0]);
    open.open(1);
    expect(await a).toBe(1);
    await flush();
    expect(limiter.disposals).toBe(0);
    hook.open();
    await flush();
    expect(limiter.disposals).toBe(1);
    // Its own limit is disposed, too.
    expect(await failure(kept.execute(() => 2))).toBeInstanceOf(LimiterDisposedError);
  });

  it("waits for calls that fail or are given up, too", async () => {
    const { shields } = places();
    const kept = shields.get("a");
    const open = gate();
    const calls = [failure(kept.execute(() => open.promise))];
    await failure(kept.execute(() => 1, { signal: AbortSignal.abort() }));
    await failure(
      kept.execute(() => 1, {
        context: () => {
          throw new Error("context");
        },
      }),
    );
    const disposal = shields.disposeAsync();
    let isDisposed = false;
    void disposal.then(() => {
      isDisposed = true;
    });
    await flush();
    expect(isDisposed).toBe(false);
    open.fail(new Error("work"));
    await Promise.all([...calls, disposal]);
  });

  it("disposes what several partitions own after the last of them", async () => {
    const limiter = new StubLimiter(() => granted());
    const shields = new PartitionedShield((_: string) =>
      Shield.empty.useRateLimiter(limiter, { ownsLimiter: true }),
    );
    shields.get("a");
    shields.get("b");
    shields.delete("a");
    await flush();
    expect(limiter.disposals).toBe(0);
    shields.delete("b");
    await flush();
    expect(limiter.disposals).toBe(1);
    shields.get("c");
    await shields.disposeAsync();
    expect(limiter.disposals).toBe(1);
  });

  it("leaves alone what it does not own", async () => {
    const [shared, owned] = [new ConcurrencyLimiter({ permitLimit: 1 }), new StubLimiter(() => granted())];
    const mine = new PartitionedShield((_: string) => Shield.empty.useRateLimiter(shared));
    const theirs = new PartitionedShield(
      (_: string) => Shield.empty.useRateLimiter(owned, { ownsLimiter: true }).concurrencyLimit(1),
      { ownsStrategies: false },
    );
    mine.get("a");
    const kept = theirs.get("a");
    await mine.disposeAsync();
    await theirs.disposeAsync();
    expect(shared.attemptAcquire().isAcquired).toBe(true);
    expect([owned.disposals, await kept.execute(() => 1)]).toEqual([0, 1]);
  });

  it("reports a callback that fails, and goes on", async () => {
    const [own, all] = [new Reports(), new Reports()];
    const subscription = shieldDiagnostics.onCallbackError((event) => void all.events.push(event));
    const limiter = new StubLimiter(() => granted());
    const broken = new Error("dispose");
    const shields = new PartitionedShield(
      (_: string) =>
        Shield.empty
          .withName("search")
          .withDiagnostics(own.diagnostics)
          .useRateLimiter(limiter, { ownsLimiter: true })
          .use({
            run: (next) => next(),
            dispose: () => {
              throw broken;
            },
          }),
      {
        onEvicted: () => {
          throw new Error("hook");
        },
      },
    );
    shields.get("a");
    shields.delete("a");
    await flush();
    expect(own.events).toMatchObject([
      {
        kind: "partition_evicted",
        error: { message: "hook" },
        shieldName: "search",
        source: "PartitionedShield",
      },
      { kind: "partition_disposed", error: broken },
    ]);
    expect([all.events.length, limiter.disposals]).toEqual([2, 1]);
    subscription.dispose();
  });

  it("when it is disposed drops all, waits, and cannot be used any more", async () => {
    const { shields, gone } = places();
    const open = gate();
    const call = shields.execute("a", () => open.promise);
    shields.get("b");
    const disposal = shields.disposeAsync();
    expect(shields.disposeAsync()).toBe(disposal);
    for (const use of [
      () => shields.get("a"),
      () => shields.peek("a"),
      () => shields.delete("a"),
      () => shields.clear(),
      () => shields.pruneExpired(),
    ]) {
      expect(use).toThrow(/PartitionedShield has been disposed: make a new one/);
    }
    expect(await failure(shields.execute("a", () => 1))).toBeInstanceOf(Error);
    open.open();
    await Promise.all([call, disposal]);
    expect([shields.size, gone]).toEqual([
      0,
      [
        ["a", "disposed"],
        ["b", "disposed"],
      ],
    ]);
  });

  it("tells in one error what goes wrong when it is disposed", async () => {
    const failing = (message: string) => ({
      run: <T>(next: () => Promise<T>) => next(),
      dispose: () => Promise.reject(new Error(message)),
    });
    const shields = new PartitionedShield((key: string) => Shield.empty.use(failing(key)));
    shields.get("a");
    shields.get("b");
    const error = (await failure(shields.disposeAsync())) as AggregateError;
    expect(error.errors.map(({ message }) => message)).toEqual(["a", "b"]);
    const one = new PartitionedShield((key: string) => Shield.empty.use(failing(key)));
    one.get("a");
    expect(await failure(one[Symbol.asyncDispose]())).toMatchObject({ message: "a" });
  });

  it.each<[() => unknown, RegExp]>([
    [() => new PartitionedShield(undefined as never), /factory must be a function/],
    [() => places({ maxPartitions: 0 }), /PartitionedShieldOptions\.maxPartitions must be an integer from 1/],
    [
      () => places({ idleExpirationMs: 0 }),
      /idleExpirationMs must be a finite number of milliseconds above 0/,
    ],
    [() => places({ ownsStrategies: 1 as never }), /ownsStrategies must be true or false/],
    [() => places({ clock: {} as never }), /clock must be an object with now\(\) and setTimer\(\)/],
    [() => places({ onEvicted: 1 as never }), /onEvicted must be a function/],
    [() => places({ maxPartition: 1 } as never), /did you mean PartitionedShieldOptions\.maxPartitions\?/],
    [() => places().shields.get(null), /key must be a value that is not null or undefined; got null/],
    [() => places().shields.get(undefined), /got undefined/],
    [() => new PartitionedShield(() => ({}) as never).get(1), /What the factory returns must be a Shield/],
  ])("%s says what is wrong", (act, message) => {
    expect((thrown(act) as Error).message).toMatch(message);
  });

  it("keeps 1000 by default, measured by the system's clock", () => {
    const { shields } = places({ clock: systemClock });
    for (let i = 0; i < 1100; i++) shields.get(i);
    expect(shields.size).toBe(1000);
  });
});
