import { createHook } from "node:async_hooks";
import { getEventListeners } from "node:events";
import { createNoopMeter, DiagLogLevel, diag, type Meter, metrics } from "@opentelemetry/api";
import {
  ConcurrencyLimiter,
  FixedWindowRateLimiter,
  LimiterDisposedError,
  PartitionedRateLimiter,
  RateLimiter,
  RateLimitPartition,
  shadowed,
} from "headgate";
import { AdaptiveConcurrencyLimiter } from "headgate/adaptive";
import { instrumentRateLimiter, type LimiterInstrumentation } from "headgate/opentelemetry";
import { limitConcurrency } from "headgate/rxjs";
import { describeRateLimiterContract } from "headgate/testing";
import { of } from "rxjs";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Samples } from "../../../adapters/opentelemetry/samples.js";
import {
  type AcquireTicket,
  type InsideLimiter,
  inside,
  type LimiterSnapshot,
  requestWith,
} from "../../../src/internal.js";
import { CountingClock, flush, ManualClock } from "../../support.js";
import { LoggedLimiter, SlowLimiter } from "../rxjs/foreign.js";
import { collectGarbage, seen } from "../rxjs/support.js";
import { collect, MeterProvider, measured, TestReader, under } from "./support.js";

const told: string[] = [];
beforeEach(() => {
  told.length = 0;
  const note = (kind: string) => (message: string) => void told.push(`${kind}: ${message}`);
  diag.setLogger(
    { error: note("error"), warn: note("warn"), info: () => {}, debug: () => {}, verbose: () => {} },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
});
afterEach(() => {
  diag.disable();
  metrics.disable();
  vi.useRealTimers();
});

const one = (): ConcurrencyLimiter => new ConcurrencyLimiter({ permitLimit: 1 });

/** A meter that notes its callbacks, and fails when an instrument is used outside of a collection. */
function spyMeter() {
  const { meter, read } = measured();
  const callbacks: unknown[] = [];
  let isCollecting = false;
  const spy: Meter = Object.create(meter, {
    addBatchObservableCallback: {
      value: (callback: Parameters<Meter["addBatchObservableCallback"]>[0], observables: never[]) => {
        callbacks.push(["add", callback, observables]);
        meter.addBatchObservableCallback(callback, observables);
      },
    },
    removeBatchObservableCallback: {
      value: (callback: never, observables: never[]) => {
        callbacks.push(["remove", callback, observables]);
        meter.removeBatchObservableCallback(callback, observables);
      },
    },
    createHistogram: {
      value: (name: string, options: object) => {
        const histogram = meter.createHistogram(name, options);
        return {
          record: (...args: Parameters<typeof histogram.record>) => {
            if (!isCollecting) throw new Error("recorded outside of a collection");
            histogram.record(...args);
          },
        };
      },
    },
  });
  const collectNow = async () => {
    isCollecting = true;
    const series = await read();
    isCollecting = false;
    return series;
  };
  return { spy, callbacks, collectNow };
}

describe("without an SDK", () => {
  it("does nothing, and leaves the limiter as it is", () => {
    const limiter = one();
    const handle = instrumentRateLimiter(limiter, { name: "x" });
    expect([
      handle.isAttached,
      handle.limiter === limiter,
      handle.attach(),
      metrics.getMeter("headgate") === createNoopMeter(),
    ]).toEqual([false, true, false, true]);
    handle.dispose();
  });

  it("looks for one four times, by timers that keep no process alive, and loses nothing that was counted", async () => {
    vi.resetModules();
    vi.useFakeTimers();
    const fresh = await import("headgate/opentelemetry");
    const { ConcurrencyLimiter: Fresh } = await import("headgate");
    const limiters = Array.from({ length: 100 }, () => new Fresh({ permitLimit: 100 }));
    const handles = limiters.map((limiter, i) => fresh.instrumentRateLimiter(limiter, { name: `x${i}` }));
    expect(vi.getTimerCount()).toBe(4);
    for (let i = 0; i < 7; i++) limiters[0]?.attemptAcquire();
    vi.advanceTimersByTime(1001);
    expect([handles[0]?.isAttached, vi.getTimerCount()]).toEqual([false, 2]);
    const reader = new TestReader();
    metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }));
    vi.advanceTimersByTime(4000);
    expect(handles.every(({ isAttached }) => isAttached)).toBe(true);
    vi.advanceTimersByTime(100_000);
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
    expect((await collect(reader)).get("x0 limiter.requests acquired")).toBe(7);
  });

  it("is attached when another limiter is instrumented after the SDK has come, or by hand", () => {
    const first = instrumentRateLimiter(one(), { name: "first" });
    const byHand = instrumentRateLimiter(one(), { name: "by hand" });
    const { meter } = measured();
    expect([byHand.attach(meter), byHand.isAttached, first.isAttached]).toEqual([true, true, false]);
    metrics.setGlobalMeterProvider(new MeterProvider({ readers: [new TestReader()] }));
    const second = instrumentRateLimiter(one(), { name: "second" });
    expect([first.isAttached, second.isAttached]).toEqual([true, true]);
  });

  it("keeps no limiter alive that waits for one", async () => {
    const limiters: WeakRef<ConcurrencyLimiter>[] = [];
    (() => {
      const limiter = one();
      limiters.push(new WeakRef(limiter));
      instrumentRateLimiter(limiter, { name: "x" });
    })();
    await new Promise((resolve) => setTimeout(resolve));
    collectGarbage();
    expect(limiters[0]?.deref()).toBeUndefined();
    // It is no burden to the meter that comes later.
    const { spy, callbacks } = spyMeter();
    metrics.setGlobalMeterProvider({ getMeter: () => spy });
    instrumentRateLimiter(one(), { name: "y", meter: measured().meter });
    expect(callbacks).toEqual([]);
  });
});

describe("an instrumented limiter", () => {
  it("has one callback for each meter, however many there are, and none once all have ended", async () => {
    const { spy, callbacks, collectNow } = spyMeter();
    const handles = Array.from({ length: 500 }, (_, i) =>
      instrumentRateLimiter(one(), { name: `x${i % 200}`, meter: spy }),
    );
    await collectNow();
    expect(callbacks.length).toBe(1);
    for (const handle of handles) handle.dispose();
    expect(callbacks.length).toBe(1);
    await collectNow();
    expect(callbacks.length).toBe(1);
    await collectNow();
    const [added, removed] = callbacks as [unknown[], unknown[]];
    expect([callbacks.length, removed[0], removed[1] === added[1], removed[2] === added[2]]).toEqual([
      2,
      "remove",
      true,
      true,
    ]);
    instrumentRateLimiter(one(), { name: "again", meter: spy });
    expect(callbacks.length).toBe(3);
  });

  it("costs nothing more for a request: no clock read, promise, timer or call of an instrument", async () => {
    const { spy, collectNow } = spyMeter();
    const count = async (isInstrumented: boolean) => {
      const clock = new CountingClock();
      const limiter = new FixedWindowRateLimiter({ permitLimit: 10, windowMs: 100, queueLimit: 10, clock });
      if (isInstrumented) instrumentRateLimiter(limiter, { name: "x", meter: spy });
      let promises = 0;
      const hook = createHook({
        init: (_id, type) => {
          if (type === "PROMISE") promises += 1;
        },
      }).enable();
      const reads = clock.reads;
      for (let i = 0; i < 30; i++) limiter.attemptAcquire().dispose();
      const waiting = Array.from({ length: 15 }, () => limiter.acquire());
      clock.advance(100);
      hook.disable();
      for (const lease of await Promise.all(waiting)) lease.dispose();
      return { promises, reads: clock.reads - reads, timers: clock.timersSet };
    };
    const plain = await count(false);
    expect(await count(true)).toEqual(plain);
    expect(plain.promises).toBeGreaterThanOrEqual(15);
    await collectNow();
  });

  it("calls no instrument outside of a collection, counted in front either", async () => {
    const { spy, collectNow } = spyMeter();
    const clock = new ManualClock();
    const { limiter } = instrumentRateLimiter(
      new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1000, clock }),
      { name: "x", meter: spy, wrap: true },
    );
    for (let i = 0; i < 500; i++) {
      const held = limiter.attemptAcquire();
      limiter.attemptAcquire();
      const waiting = limiter.acquire();
      clock.advance(i);
      held.dispose();
      (await waiting).dispose();
    }
    const { count, sum, max, min } = (await collectNow()).get(
      "x limiter.queue.wait.duration acquired",
    ) as Record<string, number>;
    expect([Number(count) <= 65, Number(count) > 30, max, min]).toEqual([true, true, 0.499, 0]);
    expect(Number(sum)).toBeGreaterThan(1);
  });

  it("is added to others of its name and kind, and told apart by kind and attributes", async () => {
    const { meter, read } = measured();
    const limiters = [2, 3].map((permitLimit) => new ConcurrencyLimiter({ permitLimit }));
    for (const limiter of limiters) {
      for (let i = 0; i < 3; i++) limiter.attemptAcquire();
      instrumentRateLimiter(limiter, { name: "db", meter });
    }
    instrumentRateLimiter(new ConcurrencyLimiter({ permitLimit: 7 }), {
      name: "db",
      meter,
      attributes: { "server.address": "b" },
    });
    instrumentRateLimiter(new FixedWindowRateLimiter({ permitLimit: 1, windowMs: 1 }), {
      name: "windows",
      meter,
    });
    const series = under(await read(), "db limiter.");
    expect(series).toMatchObject({
      "permit.usage": 5,
      "permit.limit": 5,
      "requests rejected": 1,
      "permit.limit b": 7,
    });
  });

  it("is told to be at 0 once it is disposed, in every reader, and what it counted stays", async () => {
    const readers = [new TestReader(), new TestReader()];
    const meter = new MeterProvider({ readers }).getMeter("headgate");
    const read = () => Promise.all(readers.map(async (reader) => under(await collect(reader), "x limiter.")));
    const limiter = new ConcurrencyLimiter({ permitLimit: 3 });
    for (let i = 0; i < 4; i++) limiter.attemptAcquire();
    instrumentRateLimiter(limiter, { name: "x", meter });
    expect(await read()).toMatchObject([{ "permit.usage": 3 }, { "permit.usage": 3 }]);
    limiter.dispose();
    for (let i = 0; i < 3; i++) {
      for (const series of await read()) {
        expect(series).toMatchObject({
          "permit.usage": 0,
          "permit.limit": 0,
          "permit.available": 0,
          "queue.length": 0,
          "requests acquired": 3,
          "requests rejected": 1,
        });
      }
    }
  });

  it("goes on from what one of its name has counted before", async () => {
    const { meter, read } = measured();
    const use = (times: number): LimiterInstrumentation<ConcurrencyLimiter> => {
      const limiter = new ConcurrencyLimiter({ permitLimit: 10 });
      for (let i = 0; i < times; i++) limiter.attemptAcquire();
      return instrumentRateLimiter(limiter, { name: "x", meter });
    };
    const first = use(4);
    expect((await read()).get("x limiter.requests acquired")).toBe(4);
    first.dispose();
    await read();
    use(2);
    expect(under(await read(), "x limiter.")).toMatchObject({ "requests acquired": 6, "permit.usage": 2 });
  });

  it("is counted once, however often it is instrumented under its name, attached and disposed", async () => {
    const { meter, read } = measured();
    const other = measured();
    const limiter = new ConcurrencyLimiter({ permitLimit: 2 });
    const refuse = (): void => void limiter.attemptAcquire();
    const totals = async (): Promise<unknown[]> => {
      const series = under(await read(), "x limiter.");
      return [series["requests acquired"], series["requests rejected"], series["permit.usage"]];
    };
    for (let i = 0; i < 5; i++) refuse();
    const first = instrumentRateLimiter(limiter, { name: "x", meter });
    const second = instrumentRateLimiter(limiter, { name: "x", meter });
    expect(await totals()).toEqual([2, 3, 2]);
    first.dispose();
    refuse();
    expect(await totals()).toEqual([2, 4, 2]);
    second.dispose();
    refuse();
    expect(await totals()).toEqual([2, 4, 0]);
    const third = instrumentRateLimiter(limiter, { name: "x", meter });
    refuse();
    expect(await totals()).toEqual([2, 6, 2]);
    third.attach(other.meter);
    refuse();
    expect(under(await other.read(), "x limiter.")["requests rejected"]).toBe(7);
    third.attach(meter);
    expect(await totals()).toEqual([2, 7, 2]);
    third.dispose();
    const inFront = instrumentRateLimiter(limiter, { name: "x", meter, wrap: true });
    inFront.limiter.attemptAcquire();
    expect(await totals()).toEqual([2, 8, 2]);
    inFront.attach(other.meter);
    inFront.attach(meter);
    inFront.limiter.attemptAcquire();
    expect(await totals()).toEqual([2, 9, 2]);
    const again = instrumentRateLimiter(limiter, { name: "x", meter, wrap: true });
    again.limiter.attemptAcquire();
    inFront.limiter.attemptAcquire();
    expect(await totals()).toEqual([2, 11, 2]);
    inFront.dispose();
    again.limiter.attemptAcquire();
    expect(await totals()).toEqual([2, 12, 2]);
    again.dispose();
    instrumentRateLimiter(limiter, { name: "x", meter });
    refuse();
    expect(await totals()).toEqual([2, 13, 2]);
    expect(limiter.getStatistics()).toMatchObject({ totalSuccessfulLeases: 2, totalFailedLeases: 13 });
  });

  it("tells of itself what nobody in front of it counts twice", async () => {
    const { meter, read } = measured();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1 });
    instrumentRateLimiter(limiter, { name: "x", meter });
    const inFront = instrumentRateLimiter(limiter, { name: "x", meter, wrap: true });
    limiter.attemptAcquire();
    for (let i = 0; i < 3; i++) inFront.limiter.attemptAcquire();
    expect(under(await read(), "x limiter.")).toMatchObject({
      "requests acquired": 1,
      "requests rejected": 3,
      "rejections limit_reached": 3,
      "lease.active": 0,
      "saturation.time": expect.any(Number),
    });
    inFront.dispose();
    expect((await read()).get("x limiter.requests rejected")).toBe(3);
  });

  it("of a resource goes on counting when its partition has been evicted, and comes back", async () => {
    const { meter, read } = measured();
    const clock = new ManualClock();
    const keyed = PartitionedRateLimiter.create(
      (key: string) => RateLimitPartition.get(key, () => new ConcurrencyLimiter({ permitLimit: 2, clock })),
      { clock, idleLimitMs: 100 },
    );
    const limiter = keyed.forResource("a");
    limiter.attemptAcquire().dispose();
    instrumentRateLimiter(limiter, { name: "a", meter });
    for (let i = 0; i < 4; i++) limiter.attemptAcquire().dispose();
    const totals = async (): Promise<unknown[]> => {
      const series = under(await read(), "a limiter.");
      return [series["requests acquired"], series["permit.limit"], series["permit.available"]];
    };
    expect(await totals()).toEqual([5, 2, 2]);
    for (let i = 0; i < 20; i++) clock.advance(100);
    expect(keyed.size).toBe(0);
    expect(await totals()).toEqual([5, 0, 0]);
    expect([await totals(), keyed.size]).toEqual([[5, 0, 0], 0]);
    const held = limiter.attemptAcquire();
    expect(await totals()).toEqual([6, 2, 1]);
    held.dispose();
    keyed.dispose();
    expect(await totals()).toEqual([6, 0, 0]);
  });

  it("leaves the callbacks of others alone when its own goes", async () => {
    const { meter, read } = measured();
    const handle = instrumentRateLimiter(one(), { name: "x", meter });
    const gauge = meter.createObservableGauge("theirs");
    let asked = 0;
    meter.addBatchObservableCallback(() => {
      asked += 1;
    }, [gauge]);
    handle.dispose();
    for (let i = 0; i < 4; i++) await read();
    expect(asked).toBe(4);
    // Its place is not lost when it is needed again in the turn in which it would have gone.
    const again = instrumentRateLimiter(one(), { name: "x", meter });
    again.dispose();
    await read();
    const collecting = read();
    const last = instrumentRateLimiter(one(), { name: "x", meter });
    await collecting;
    expect((await read()).get("x limiter.permit.limit")).toBe(1);
    last.dispose();
  });

  it("makes room for another name when it has ended", async () => {
    const { meter, read } = measured();
    for (let i = 0; i < 600; i++) {
      const handle = instrumentRateLimiter(one(), { name: `x${i}`, meter });
      if (i % 200 === 0) await read();
      handle.dispose();
      if (i % 200 === 199) {
        await read();
      }
    }
    expect(told).toEqual([]);
    instrumentRateLimiter(one(), { name: "last", meter });
    expect((await read()).get("last limiter.permit.limit")).toBe(1);
  });

  it("has its work counted to the end when it is disposed, in front of it", async () => {
    const { meter, read } = measured();
    const { limiter } = instrumentRateLimiter(one(), { name: "x", meter, wrap: true });
    const lease = limiter.attemptAcquire();
    await read();
    limiter.dispose();
    for (let i = 0; i < 3; i++)
      expect(under(await read(), "x limiter.")).toMatchObject({
        "permit.usage": 0,
        "requests acquired": 1,
        "lease.active": 1,
        "lease.completions success": 0,
      });
    lease.report("success");
    lease.dispose();
    for (let i = 0; i < 3; i++)
      expect(under(await read(), "x limiter.")).toMatchObject({
        "requests acquired": 1,
        "lease.active": 0,
        "lease.completions success": 1,
      });
  });

  it("may be counted in front or not, as is known only when it runs", () => {
    const { meter } = measured();
    const wraps: boolean[] = [true, false];
    const limiter: RateLimiter = one();
    const handles = wraps.map((wrap) => instrumentRateLimiter(limiter, { name: "x", meter, wrap }));
    expect(handles.map((handle) => handle.limiter === limiter)).toEqual([false, true]);
  });

  it("that is paused has nothing to give", async () => {
    const { meter, read } = measured();
    const limiter = new ConcurrencyLimiter({ permitLimit: 3, clock: new ManualClock() });
    instrumentRateLimiter(limiter, { name: "x", meter });
    limiter.pause(1000);
    expect((await read()).get("x limiter.permit.available")).toBe(0);
  });

  it("can be collected, and what it counted stays", async () => {
    const { meter, read } = measured();
    const limiters: WeakRef<ConcurrencyLimiter>[] = [];
    await (async () => {
      const limiter = one();
      limiter.attemptAcquire();
      limiters.push(new WeakRef(limiter));
      instrumentRateLimiter(limiter, { name: "x", meter });
      expect((await read()).get("x limiter.permit.usage")).toBe(1);
    })();
    await new Promise((resolve) => setTimeout(resolve));
    collectGarbage();
    expect(limiters[0]?.deref()).toBeUndefined();
    expect(under(await read(), "x limiter.")).toMatchObject({ "permit.usage": 0, "requests acquired": 1 });
  });

  it("that cannot be read does not hide the others, and is complained about once", async () => {
    const { meter, read } = measured();
    let fails = false;
    const broken = {
      getStatistics: () => {
        if (fails) throw new Error("broken");
        return {
          currentAvailablePermits: 1,
          currentQueuedCount: 0,
          totalFailedLeases: 2,
          totalSuccessfulLeases: 5,
        };
      },
    };
    instrumentRateLimiter(one(), { name: "a", meter });
    instrumentRateLimiter(broken, { name: "broken", meter });
    instrumentRateLimiter(one(), { name: "z", meter });
    await read();
    fails = true;
    for (let i = 0; i < 3; i++) {
      const series = await read();
      expect([
        series.get("a limiter.permit.limit"),
        series.get("z limiter.permit.limit"),
        series.get("broken limiter.requests acquired"),
      ]).toEqual([1, 1, 5]);
    }
    expect(told).toEqual(["error: headgate: a limiter cannot be measured"]);
  });

  it("that is somewhere else can end, and have a limit or an algorithm of its own", async () => {
    const { meter, read } = measured();
    let isOver = false;
    const remote = {
      getStatistics: () => {
        if (isOver) throw new LimiterDisposedError("remote");
        return {
          currentAvailablePermits: 4,
          currentQueuedCount: 0,
          totalFailedLeases: 0,
          totalSuccessfulLeases: 1,
        };
      },
    };
    class Own extends ConcurrencyLimiter {
      readonly limit = 5;
    }
    instrumentRateLimiter(remote, { name: "remote", meter });
    instrumentRateLimiter(new Own({ permitLimit: 2, queueLimit: Number.MAX_SAFE_INTEGER }), {
      name: "own",
      meter,
    });
    const limit = { limit: 3, onSample: () => {}, onChange: () => () => {} };
    instrumentRateLimiter(new AdaptiveConcurrencyLimiter({ limit }), { name: "silent", meter });
    const series = await read();
    expect([series.get("remote limiter.permit.available"), series.get("own limiter.permit.limit")]).toEqual([
      4, 2,
    ]);
    expect([series.has("own limiter.queue.limit"), series.get("silent limiter.permit.limit")]).toEqual([
      false,
      3,
    ]);
    isOver = true;
    expect(under(await read(), "remote limiter.")).toMatchObject({
      "permit.available": 0,
      "requests acquired": 1,
    });
  });

  it("has nobody's collection fail when telling does", () => {
    let collectNow: (result: never) => void = () => {};
    const { meter } = measured();
    const stub: Meter = Object.create(meter, {
      addBatchObservableCallback: {
        value: (callback: typeof collectNow) => {
          collectNow = callback;
        },
      },
    });
    const handle = instrumentRateLimiter(one(), { name: "x", meter: stub });
    expect(handle.attach(stub)).toBe(true);
    collectNow({
      observe: () => {
        throw new Error("told");
      },
    } as never);
    expect(told).toEqual(["error: headgate: limiters cannot be measured"]);
  });

  it("is one of at most 256 names", async () => {
    const { meter, read } = measured();
    for (let i = 0; i < 300; i++) instrumentRateLimiter(one(), { name: `x${i}`, meter });
    const names = new Set([...(await read()).keys()].map((key) => key.split(" ")[0]));
    expect([names.size, told.length]).toEqual([256, 1]);
    expect(told[0]).toContain("256");
  });

  it("is not changed by collecting", async () => {
    const { meter, read } = measured();
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
    limiter.attemptAcquire();
    void limiter.acquire();
    limiter.attemptAcquire();
    const before = limiter.getStatistics();
    instrumentRateLimiter(limiter, { name: "x", meter });
    for (let i = 0; i < 100; i++) await read();
    expect(limiter.getStatistics()).toEqual(before);
  });

  it("bears the end of its provider, and can be attached to another", async () => {
    const { provider, meter } = measured();
    const limiter = new ConcurrencyLimiter({ permitLimit: 5 });
    const handle = instrumentRateLimiter(limiter, { name: "x", meter });
    await provider.shutdown();
    limiter.attemptAcquire();
    const next = measured();
    expect(handle.attach(next.meter)).toBe(true);
    expect((await next.read()).get("x limiter.permit.usage")).toBe(1);
    handle.dispose();
    expect([handle.isAttached, handle.attach(next.meter)]).toEqual([false, false]);
    handle[Symbol.dispose]();
  });
});

describe("a limiter that is counted in front", () => {
  it("is a replenishing one if what it stands for is, and passes everything on", async () => {
    const clock = new ManualClock();
    const { meter } = measured();
    const window = new FixedWindowRateLimiter({
      permitLimit: 1,
      windowMs: 10,
      autoReplenishment: false,
      clock,
    });
    const { limiter } = instrumentRateLimiter(window, { name: "x", meter, wrap: true });
    expect([limiter.replenishmentPeriodMs, limiter.isAutoReplenishing]).toEqual([10, false]);
    const lease = limiter.attemptAcquire();
    expect([
      lease.isAcquired,
      lease.reason,
      lease.retryAfterMs,
      [...lease.getAllMetadata()].length > 0,
    ]).toEqual([true, undefined, undefined, true]);
    lease.adjust(0);
    expect(limiter.getStatistics()?.currentAvailablePermits).toBe(1);
    limiter.attemptAcquire();
    clock.advance(10);
    expect([limiter.idleDurationMs, limiter.tryReplenish(), typeof limiter.idleDurationMs]).toEqual([
      undefined,
      true,
      "number",
    ]);
    await limiter.disposeAsync();
    expect(() => window.attemptAcquire()).toThrow("disposed");
    const plain = instrumentRateLimiter(one(), { name: "y", meter, wrap: true }).limiter;
    expect(typeof plain.idleDurationMs).toBe("number");
    await plain.disposeAsync();
    const inShadow = measured();
    const shadow = instrumentRateLimiter(shadowed(one()), {
      name: "s",
      meter: inShadow.meter,
      wrap: true,
    }).limiter;
    shadow.attemptAcquire();
    expect(shadow.attemptAcquire().isAcquired).toBe(true);
    const series = under(await inShadow.read(), "s limiter.");
    expect(series).toMatchObject({ "requests acquired": 2, "shadow.requests would_refuse": 1 });
    expect("requests bypassed" in series).toBe(false);
  });

  it("hands over in the same turn, to streams too", () => {
    const { meter } = measured();
    const { limiter } = instrumentRateLimiter(new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 5 }), {
      name: "x",
      meter,
      wrap: true,
    });
    const held = limiter.attemptAcquire();
    const result = seen(of(1, 2).pipe(limitConcurrency(limiter, (value) => of(value))));
    expect(result).toEqual([]);
    held.dispose();
    expect(result).toEqual([1, 2, "complete"]);
    const again = limiter.attemptAcquire();
    of(1)
      .pipe(limitConcurrency(limiter, (value) => of(value)))
      .subscribe()
      .unsubscribe();
    again.dispose();
    expect(limiter.getStatistics()).toMatchObject({ currentAvailablePermits: 1, currentQueuedCount: 0 });
  });

  it("counts the end of a lease once, however often it is disposed", async () => {
    const { meter, read } = measured();
    const { limiter } = instrumentRateLimiter(one(), { name: "x", meter, wrap: true });
    const lease = limiter.attemptAcquire();
    lease.dispose();
    lease.dispose();
    lease.refund();
    expect(under(await read(), "x limiter.")).toMatchObject({
      "lease.completions ignored": 1,
      "lease.active": 0,
    });
  });

  it("can be paused, asked how long a wait will be, and given another limit, if what it stands for can", () => {
    const { meter } = measured();
    const clock = new ManualClock();
    const behind = new ConcurrencyLimiter({ permitLimit: 1, clock });
    const limiter = instrumentRateLimiter(behind, { name: "x", meter, wrap: true })
      .limiter as ConcurrencyLimiter;
    limiter.permitLimit = 4;
    expect([limiter.permitLimit, behind.permitLimit]).toEqual([4, 4]);
    limiter.pause(100);
    expect([limiter.attemptAcquire().reason, limiter.estimateWaitMs()]).toEqual(["server_pause", 100]);
    const own = instrumentRateLimiter(new LoggedLimiter(1), { name: "own", meter, wrap: true }).limiter;
    expect(["pause" in own, "estimateWaitMs" in own, "permitLimit" in own]).toEqual([false, false, false]);
  });

  it("lets a limiter that users wrote know when a stream does not wait any more, or its caller", async () => {
    const { meter, read } = measured();
    const slow = new SlowLimiter();
    const { limiter } = instrumentRateLimiter(slow, { name: "slow", meter, wrap: true });
    const stream = of(1).pipe(limitConcurrency(limiter, (value) => of(value)));
    stream.subscribe().unsubscribe();
    expect([slow.asked, slow.aborted]).toEqual([1, 1]);
    slow.grant();
    await flush();
    const caller = new AbortController();
    const leaving = limiter.acquire({ signal: caller.signal });
    const outcome = leaving.catch(() => "left");
    caller.abort();
    slow.fail("aborted");
    expect([await outcome, slow.aborted]).toEqual(["left", 2]);
    const told: unknown[] = [];
    const sink = { settled: () => told.push("lease"), failed: (error: unknown) => told.push(error) };
    const again = new AbortController();
    requestWith(limiter, 1, { signal: again.signal }, sink);
    again.abort("gone");
    expect(slow.aborted).toBe(3);
    slow.fail("gone");
    await flush();
    expect([told, getEventListeners(again.signal, "abort").length]).toEqual([["gone"], 0]);
    expect([slow.granted, slow.disposed]).toEqual([1, 1]);
    expect((await read()).get("slow limiter.requests canceled")).toBe(3);
  });

  it("tells the adapters what the limiter behind it does", () => {
    const { meter } = measured();
    const clock = new ManualClock();
    const options = {
      permitLimit: 1,
      queueLimit: 5,
      queueProcessingOrder: "highestPriorityFirst",
      clock,
    } as const;
    const { limiter } = instrumentRateLimiter(new ConcurrencyLimiter(options), {
      name: "x",
      meter,
      wrap: true,
    });
    limiter.attemptAcquire();
    void limiter.acquire({ priority: 3 });
    const door = (limiter as InsideLimiter)[inside];
    expect([door?.clock === clock, door?.usesPriority, door?.hasRoom(1), door?.hasRoom(6)]).toEqual([
      true,
      true,
      true,
      false,
    ]);
    expect(door?.queuedByPriority()).toEqual(new Map([[3, 1]]));
    const own = instrumentRateLimiter(new LoggedLimiter(1), { name: "own", meter, wrap: true }).limiter;
    const ownDoor = (own as InsideLimiter)[inside];
    expect([ownDoor?.clock, ownDoor?.usesPriority, ownDoor?.hasRoom(1)]).toEqual([undefined, false, false]);
    expect([ownDoor?.queuedByPriority().size, ownDoor?.snapshot({} as LimiterSnapshot)]).toEqual([0, false]);
  });

  it("counts what ends before it has waited, what fails, and what says no reason", async () => {
    const { meter, read } = measured();
    const newest = new ConcurrencyLimiter({
      permitLimit: 1,
      queueLimit: 1,
      queueProcessingOrder: "newestFirst",
    });
    const { limiter } = instrumentRateLimiter(newest, { name: "newest", meter, wrap: true });
    const held = limiter.attemptAcquire();
    of("old")
      .pipe(limitConcurrency(limiter, () => of(1)))
      .subscribe({ error: () => held.dispose() });
    expect(seen(of("new").pipe(limitConcurrency(limiter, (value) => of(value))))).toEqual([
      "new",
      "complete",
    ]);
    const slow = new SlowLimiter();
    const failing = instrumentRateLimiter(slow, { name: "slow", meter, wrap: true }).limiter.acquire();
    slow.fail("broken");
    await expect(failing).rejects.toBe("broken");
    instrumentRateLimiter(new LoggedLimiter(0), { name: "none", meter, wrap: true }).limiter.attemptAcquire();
    const series = await read();
    expect(under(series, "newest limiter.")).toMatchObject({
      "queue.waits rejected": 1,
      "queue.waits acquired": 0,
      "rejections queue_evicted": 1,
    });
    expect(under(series, "slow limiter.")).toMatchObject({
      "requests canceled": 0,
      "queue.waits canceled": 0,
    });
    expect(series.get("none limiter.rejections other")).toBe(1);
  });

  it("counts one who gives up a place once", async () => {
    const { meter, read } = measured();
    const { limiter } = instrumentRateLimiter(new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 }), {
      name: "x",
      meter,
      wrap: true,
    });
    limiter.attemptAcquire();
    const sink = { settled: () => {}, failed: () => {} };
    const ticket = requestWith(limiter, 1, {}, sink) as AcquireTicket;
    expect([ticket.cancel(), ticket.cancel()]).toEqual([true, false]);
    expect((await read()).get("x limiter.requests canceled")).toBe(1);
  });

  it("can be a chain", async () => {
    const { meter, read } = measured();
    const chain = RateLimiter.createChained(one(), one());
    const { limiter } = instrumentRateLimiter(chain, { name: "chain", meter, wrap: true });
    limiter.attemptAcquire();
    expect(under(await read(), "chain limiter.")).toMatchObject({
      "requests acquired": 1,
      "permit.available": 0,
      "lease.active": 1,
    });
    limiter.dispose();
    expect(under(await read(), "chain limiter.")).toMatchObject({
      "requests acquired": 1,
      "permit.available": 0,
    });
  });

  it("can be one that users wrote", async () => {
    const { meter, read } = measured();
    class Own extends RateLimiter {
      readonly #inner = one();
      override get idleDurationMs() {
        return undefined;
      }
      override getStatistics() {
        return undefined;
      }
      protected override attemptAcquireCore(permits: number) {
        return this.#inner.attemptAcquire(permits);
      }
      protected override acquireCore(permits: number) {
        return this.#inner.acquire(permits);
      }
    }
    const { limiter } = instrumentRateLimiter(new Own(), { name: "own", meter, wrap: true });
    const lease = await limiter.acquire();
    expect((await limiter.acquire()).reason).toBe("limit_reached");
    await flush();
    expect(under(await read(), "own limiter.")).toMatchObject({
      "requests acquired": 1,
      "requests rejected": 1,
      "rejections limit_reached": 1,
      "lease.active": 1,
    });
    lease.dispose();
  });
});

describeRateLimiterContract(
  {
    name: "a limiter that is counted in front",
    create: (options) =>
      instrumentRateLimiter(new ConcurrencyLimiter(options), {
        name: "x",
        meter: measured().meter,
        wrap: true,
      }).limiter,
    bringBack: (leases) => {
      for (const lease of leases) lease.dispose();
    },
  },
  { describe, it },
);

describe("bad arguments", () => {
  const { meter } = measured();
  const limiter = one();
  const keyed = PartitionedRateLimiter.create((key: string) => RateLimitPartition.getNoLimiter(key));
  const as = (value: unknown): never => value as never;
  const bad: [string, () => unknown, string][] = [
    ["no limiter", () => instrumentRateLimiter(as(undefined), { name: "x" }), "TypeError: limiter must be"],
    [
      "something else",
      () => instrumentRateLimiter(as({}), { name: "x" }),
      "TypeError: limiter must be a limiter, or something else with getStatistics() or describe()",
    ],
    [
      "a chain of partitioned limiters",
      () => instrumentRateLimiter(PartitionedRateLimiter.createChained(keyed), { name: "x" }),
      "TypeError: limiter must be",
    ],
    [
      "no options",
      () => instrumentRateLimiter(limiter, as(undefined)),
      "TypeError: options must be an object",
    ],
    [
      "no name",
      () => instrumentRateLimiter(limiter, as({})),
      "TypeError: options.name must be a string of 1 to 64 characters",
    ],
    [
      "a long name",
      () => instrumentRateLimiter(limiter, { name: "x".repeat(65) }),
      "TypeError: options.name",
    ],
    [
      "a misspelled option",
      () => instrumentRateLimiter(limiter, as({ name: "x", meters: meter })),
      "TypeError: options.meters is not an option; did you mean options.meter?",
    ],
    [
      "meter",
      () => instrumentRateLimiter(limiter, { name: "x", meter: as({}) }),
      "TypeError: options.meter must be",
    ],
    [
      "attributes",
      () => instrumentRateLimiter(limiter, { name: "x", attributes: as([]) }),
      "TypeError: options.attributes must be an object",
    ],
    [
      "too many attributes",
      () =>
        instrumentRateLimiter(limiter, {
          name: "x",
          attributes: Object.fromEntries([..."abcdefghi"].map((key) => [key, 1])),
        }),
      "RangeError: options.attributes must have at most 8 names; got 9.",
    ],
    [
      "an attribute",
      () => instrumentRateLimiter(limiter, { name: "x", attributes: { a: [1] } }),
      'TypeError: options.attributes["a"] must be',
    ],
    [
      "wrap",
      () => instrumentRateLimiter(limiter, as({ name: "x", wrap: 1 })),
      "TypeError: options.wrap must be true or false",
    ],
    [
      "wrap of partitions",
      () => instrumentRateLimiter(as(keyed), { name: "x", wrap: true }),
      "TypeError: limiter must be a RateLimiter with options.wrap",
    ],
    [
      "tracing without wrap",
      () => instrumentRateLimiter(limiter, { name: "x", tracing: true }),
      "TypeError: options.tracing needs options.wrap",
    ],
    [
      "tracing",
      () => instrumentRateLimiter(limiter, { name: "x", wrap: true, tracing: as(1) }),
      "TypeError: options.tracing must be",
    ],
    [
      "tracing.tracer",
      () => instrumentRateLimiter(limiter, { name: "x", wrap: true, tracing: { tracer: as({}) } }),
      "TypeError: options.tracing.tracer must be",
    ],
    [
      "tracing.minWaitMs",
      () => instrumentRateLimiter(limiter, { name: "x", wrap: true, tracing: { minWaitMs: -1 } }),
      "RangeError: options.tracing.minWaitMs must be",
    ],
    [
      "partitions of a limiter",
      () => instrumentRateLimiter(limiter, { name: "x", partitions: { keys: [] } }),
      "TypeError: limiter must be made by",
    ],
    [
      "partitions.keys",
      () => instrumentRateLimiter(keyed, { name: "x", partitions: { keys: as("a") } }),
      "TypeError: options.partitions.keys must be",
    ],
    [
      "partitions.max",
      () => instrumentRateLimiter(keyed, { name: "x", partitions: { keys: [], max: 501 } }),
      "RangeError: options.partitions.max must be",
    ],
    [
      "attach",
      () => instrumentRateLimiter(limiter, { name: "x", meter }).attach(as({})),
      "TypeError: meter must be",
    ],
  ];
  it.each(bad)("%s", (_what, act, message) => {
    const split = message.indexOf(": ");
    expect(act).toThrow(message.slice(split + 2));
    expect(act).toThrow(message.startsWith("TypeError") ? TypeError : RangeError);
  });
});

describe("samples", () => {
  it("are few, evenly spread, and hold the greatest", () => {
    const samples = new Samples(64);
    const flushed = (): number[] => {
      const values: number[] = [];
      samples.flush((value) => values.push(value));
      return values;
    };
    expect(flushed()).toEqual([]);
    for (let i = 0; i < 10; i++) samples.add(i);
    expect(flushed()).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (let i = 0; i < 100_000; i++) samples.add(i === 77_777 ? 1e9 : i);
    const values = flushed();
    expect(values.length).toBeGreaterThan(32);
    expect(values.length).toBeLessThanOrEqual(65);
    expect(values).toContain(1e9);
    const steps = values.slice(1, -1).map((value, i) => value - Number(values[i]));
    expect(new Set(steps).size).toBe(1);
    expect(flushed()).toEqual([]);
  });
});
