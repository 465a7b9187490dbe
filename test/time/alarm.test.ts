import { describe, expect, it } from "vitest";
import { Alarm } from "../../src/time/alarm.js";
import { CountingClock } from "../support.js";

const make = (options?: ConstructorParameters<typeof CountingClock>[0]) => {
  const clock = new CountingClock(options);
  const rings: number[] = [];
  const alarm = new Alarm(clock, () => rings.push(clock.now()));
  return { clock, rings, alarm };
};

describe("Alarm", () => {
  it("rings once, at its time", () => {
    const { clock, rings, alarm } = make();
    alarm.set(100);
    clock.advance(99.9);
    expect(rings).toEqual([]);
    clock.advance(1000);
    expect(rings).toEqual([100]);
    expect(clock.timerCount).toBe(0);
  });

  it("never rings early, by however much a host fires its timers too soon", () => {
    for (const early of [0.1, 0.9, 1, 15, 1e9]) {
      const { clock, rings, alarm } = make({ timerSkewMs: -early });
      alarm.set(100.5);
      for (let i = 0; i < 2000; i++) clock.advance(0.1);
      expect(rings).toHaveLength(1);
      expect(rings[0]).toBeGreaterThanOrEqual(100.5);
    }
  });

  it("rings late when the host is late, and once", () => {
    const { clock, rings, alarm } = make({ timerSkewMs: 300 });
    alarm.set(100);
    clock.advance(1000);
    expect(rings).toEqual([400]);
  });

  it("rounds fractions up to what hosts can do, and sets at least 1 ms", () => {
    const { clock, rings, alarm } = make({ startMs: 0.25 });
    alarm.set(0.3);
    clock.advance(0.9);
    expect(rings).toEqual([]);
    clock.advance(0.1);
    expect(rings).toEqual([1.25]);
    alarm.set(-5);
    clock.advance(1);
    expect(rings).toEqual([1.25, 2.25]);
  });

  it("waits for moments that no host timer reaches, in stages", () => {
    const { clock, rings, alarm } = make();
    const days90 = 90 * 24 * 3600_000;
    alarm.set(days90);
    clock.advance(days90 - 1);
    expect(rings).toEqual([]);
    clock.advance(1);
    expect(rings).toEqual([days90]);
    expect(clock.timersSet).toBe(4);
  });

  it("moves: a later time keeps the host timer, an earlier one replaces it", () => {
    const { clock, rings, alarm } = make();
    alarm.set(100);
    alarm.set(200);
    expect([clock.timersSet, clock.timerCount]).toEqual([1, 1]);
    alarm.set(50);
    expect([clock.timersSet, clock.timerCount]).toEqual([2, 1]);
    clock.advance(60);
    alarm.set(200);
    clock.advance(1000);
    expect(rings).toEqual([50, 200]);
  });

  it("rings at the later time when it was moved there after it had been set", () => {
    const { clock, rings, alarm } = make();
    alarm.set(100);
    alarm.set(200);
    clock.advance(1000);
    expect(rings).toEqual([200]);
  });

  it("is silent once cleared, can be cleared twice and set again", () => {
    const { clock, rings, alarm } = make();
    alarm.set(100);
    alarm.clear();
    alarm.clear();
    expect(clock.timerCount).toBe(0);
    clock.advance(1000);
    expect(rings).toEqual([]);
    alarm.set(1100);
    clock.advance(100);
    expect(rings).toEqual([1100]);
  });

  it("goes on waiting when the clock goes back", () => {
    const { clock, rings, alarm } = make({ startMs: 1000 });
    alarm.set(1100);
    clock.set(500);
    clock.advance(599);
    expect(rings).toEqual([]);
    clock.advance(1);
    expect(rings).toEqual([1100]);
  });
});
