import { systemClock } from "headgate";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

describe("systemClock", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it("is monotonic: changes of the wall clock do not move it (H37)", () => {
    const before = systemClock.now();
    vi.setSystemTime(Date.now() - 3_600_000);
    expect(systemClock.now() - before).toBe(0);
    vi.advanceTimersByTime(5);
    expect(systemClock.now() - before).toBe(5);
  });

  it("calls back once after the delay", () => {
    const callback = vi.fn();
    systemClock.setTimer(callback, 10);
    vi.advanceTimersByTime(9);
    expect(callback).not.toHaveBeenCalled();
    vi.advanceTimersByTime(100);
    expect(callback).toHaveBeenCalledTimes(1);
  });

  it("does not call back when cancelled, and bears a late cancel", () => {
    const callback = vi.fn();
    const timer = systemClock.setTimer(callback, 10);
    timer.cancel();
    vi.advanceTimersByTime(100);
    timer.cancel();
    expect(callback).not.toHaveBeenCalled();
  });
});

describe("systemClock on the real host", () => {
  it("keeps the process alive with a timer unless told not to", () => {
    const set = vi.spyOn(globalThis, "setTimeout");
    const timers = [undefined, true, false].map((keepAlive) =>
      systemClock.setTimer(() => {}, 1000, keepAlive),
    );
    const handles = set.mock.results.map((result) => result.value as NodeJS.Timeout);
    expect(handles.map((handle) => handle.hasRef())).toEqual([true, true, false]);
    for (const timer of timers) timer.cancel();
  });
});
