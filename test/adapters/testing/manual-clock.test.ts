import { ManualClock } from "headgate/testing";
import { describe, expect, it } from "vitest";

describe("ManualClock", () => {
  it("does not go back when a timer advances it further than the advance that fired it", () => {
    const clock = new ManualClock();
    const at: number[] = [];
    clock.setTimer(() => clock.advance(1000), 100);
    clock.setTimer(() => void at.push(clock.now()), 1050);
    clock.advance(200);
    expect([clock.now(), ...at]).toEqual([1100, 1050]);
  });
});
