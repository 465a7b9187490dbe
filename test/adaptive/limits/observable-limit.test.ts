import { describe, expect, it } from "vitest";
import { AimdLimit } from "../../../src/adaptive/aimd-limit.js";
import { FixedLimit } from "../../../src/adaptive/fixed-limit.js";
import type { AdaptiveDiagnostic } from "../../../src/adaptive/limit.js";
import { ObservableLimit } from "../../../src/adaptive/observable-limit.js";
import { SettableLimit } from "../../../src/adaptive/settable-limit.js";
import { EFFORT, Random, SEED } from "../../property/support.js";
import { watchChanges } from "./support.js";

describe("listeners", () => {
  it("are called at a change with the new and the previous limit, and not at registration", () => {
    const limit = new SettableLimit(10);
    const calls: [number, number][] = [];
    limit.onChange((now, previous) => calls.push([now, previous]));
    expect(calls).toEqual([]);
    limit.setLimit(7);
    limit.setLimit(7);
    limit.setLimit(0);
    expect(calls).toEqual([
      [7, 10],
      [0, 7],
    ]);
  });

  it("find the limit changed already, and are called in the order of registration", () => {
    const limit = new SettableLimit(1);
    const calls: string[] = [];
    for (const name of ["a", "b", "c"]) limit.onChange(() => calls.push(`${name}${limit.limit}`));
    limit.setLimit(2);
    expect(calls).toEqual(["a2", "b2", "c2"]);
  });

  it("are called until they are ended, each registration on its own", () => {
    const limit = new SettableLimit(1);
    let calls = 0;
    const count = (): void => {
      calls += 1;
    };
    const stop = limit.onChange(count);
    limit.onChange(count);
    limit.setLimit(2);
    expect(calls).toBe(2);
    stop();
    stop();
    limit.setLimit(3);
    expect(calls).toBe(3);
  });

  it("do not stop one another by throwing: the error goes to onDiagnostic", () => {
    const diagnostics: AdaptiveDiagnostic[] = [];
    const error = new Error("a listener");
    const limit = new SettableLimit(1, { onDiagnostic: (one) => diagnostics.push(one) });
    limit.onChange(() => {
      throw error;
    });
    const changes = watchChanges(limit);
    limit.setLimit(2);
    limit.setLimit(3);
    expect(changes).toEqual([2, 3]);
    expect(diagnostics).toEqual([
      { kind: "listener_failed", error },
      { kind: "listener_failed", error },
    ]);
  });

  it("do not stop one another if onDiagnostic throws too, or is missing", () => {
    const throwing = (): never => {
      throw new Error("no");
    };
    for (const limit of [new SettableLimit(1), new SettableLimit(1, { onDiagnostic: throwing })]) {
      limit.onChange(throwing);
      const changes = watchChanges(limit);
      limit.setLimit(2);
      expect(changes).toEqual([2]);
    }
  });

  it("hear of changes in order, even if one before them changes the limit again", () => {
    const limit = new SettableLimit(1);
    limit.onChange((now) => {
      if (now < 4) limit.setLimit(now + 1);
    });
    const changes = watchChanges(limit);
    limit.setLimit(2);
    expect(changes).toEqual([2, 3, 4]);
    expect(limit.limit).toBe(4);
  });

  it("that were there at the change hear of it, though ended by one before them", () => {
    const limit = new SettableLimit(1);
    const calls: string[] = [];
    limit.onChange(() => stop());
    const stop = limit.onChange((now) => calls.push(`old ${now}`));
    limit.setLimit(2);
    limit.setLimit(3);
    expect(calls).toEqual(["old 2"]);
  });

  it("that were added during a change hear of the next one only", () => {
    const limit = new SettableLimit(1);
    const calls: number[] = [];
    const stop = limit.onChange(() => {
      limit.onChange((now) => calls.push(now));
      stop();
    });
    limit.setLimit(2);
    expect(calls).toEqual([]);
    limit.setLimit(3);
    expect(calls).toEqual([3]);
  });

  it("may hand in samples", () => {
    const limit = new AimdLimit({ initialLimit: 20, minLimit: 1 });
    const changes = watchChanges(limit);
    limit.onChange((now) => {
      if (now < 24) limit.onSample(0, 1, 100, "success");
    });
    limit.onSample(0, 1, 100, "success");
    expect(changes).toEqual([21, 22, 23, 24]);
  });

  it("must be functions", () => {
    for (const limit of [new SettableLimit(1), new FixedLimit(1)]) {
      expect(() => limit.onChange(undefined as never)).toThrow(TypeError);
    }
    expect(() => new SettableLimit(1, { onDiagnostic: 3 as never })).toThrow(
      new TypeError("options.onDiagnostic must be a function; got 3."),
    );
  });

  it("see exactly the changes made from their registration to their end, whatever listeners do meanwhile", () => {
    const random = new Random(SEED);
    for (let run = 0; run < 300 * EFFORT; run++) playListeners(random);
  });
});

interface Spectator {
  readonly since: number;
  until: number | undefined;
  readonly seen: string[];
  stop(): void;
}

/** Listeners that set, register, end and throw at random, against a log of the changes. */
function playListeners(random: Random): void {
  const limit = new SettableLimit(3);
  const log: string[] = [];
  const spectators: Spectator[] = [];
  let actions = 0;

  function act(): void {
    // The number of actions is bounded, since each change makes for more.
    if (++actions > 60) return;
    const kind = random.below(4);
    if (kind === 0) {
      register();
    } else if (kind === 1 && spectators.length > 0) {
      const one = spectators[random.below(spectators.length)] as Spectator;
      one.stop();
      one.until ??= log.length;
    } else {
      const next = random.below(5);
      if (next !== limit.limit) log.push(`${limit.limit}-${next}`);
      limit.setLimit(next);
    }
  }

  function register(): void {
    const seen: string[] = [];
    const stop = limit.onChange((now, previous) => {
      seen.push(`${previous}-${now}`);
      for (let i = random.below(3); i > 0; i--) act();
      if (random.below(5) === 0) throw new Error("a listener");
    });
    spectators.push({ since: log.length, until: undefined, seen, stop });
  }

  register();
  for (let i = 0; i < 20; i++) act();
  for (const { since, until, seen } of spectators) expect(seen).toEqual(log.slice(since, until));
}

describe("an estimate", () => {
  class Moved extends ObservableLimit {
    override get maxLimit(): number {
      return 100;
    }

    override onSample(_startTime: number, rtt: number): void {
      this.moveTo(rtt);
    }

    override describe() {
      return { algorithm: "Moved", limit: this.limit, estimated: this.estimated };
    }
  }

  it("has its whole part as the limit, and only a change of that is told", () => {
    const limit = new Moved(5.9);
    const changes = watchChanges(limit);
    for (const estimated of [5.1, 5.999, 6, 6.7, 7.2]) limit.onSample(0, estimated);
    expect(changes).toEqual([6, 7]);
    expect(limit.describe()).toEqual({ algorithm: "Moved", limit: 7, estimated: 7.2 });
  });

  it("stays what it was if it would not be finite", () => {
    const limit = new Moved(5.5);
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      limit.onSample(0, bad);
    expect(limit.describe()).toEqual({ algorithm: "Moved", limit: 5, estimated: 5.5 });
  });
});
