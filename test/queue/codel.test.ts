import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  type CodelControl,
  type CodelOptions,
  ControlLawCodel,
  checkCodelOptions,
  createCodel,
  DropState,
  IntervalMinimumCodel,
} from "../../src/queue/codel.js";
import { Random } from "../property/support.js";

interface Options {
  readonly target?: number;
  readonly interval?: number;
  readonly backlogGuard?: number;
  readonly startTime?: number;
}

interface Vectors<Step> {
  readonly cases: readonly {
    readonly name: string;
    readonly options: Options;
    readonly steps: readonly Step[];
  }[];
}

function readVectors<Step>(name: string): Vectors<Step> {
  const file = new URL(`../adaptive/vectors/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(file, "utf8")) as Vectors<Step>;
}

const timesOf = ({ target = 5, interval = 100 }: Options) => ({ targetMs: target, intervalMs: interval });

/** Within a relative 1e-9. */
const near = (value: number | null) =>
  value === null ? null : expect.closeTo(value, 9 - Math.ceil(Math.log10(Math.max(1, Math.abs(value)))));

const stepsIn = (vectors: Vectors<unknown>) =>
  vectors.cases.reduce((sum, { steps }) => sum + steps.length, 0);

/** Takes the next item to serve out of a queue; whoever is shed on the way goes into `shed`. */
function dequeue(
  queue: [id: string, at: number][],
  codel: CodelControl,
  now: number,
  shed: string[],
): string | undefined {
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
    if (!codel.shouldShed(now - item[1], now, queue.length)) return item[0];
    shed.push(item[0]);
  }
  codel.noteEmpty(now);
  return undefined;
}

interface QueueStep {
  readonly push?: [id: string, at: number][];
  readonly dequeueAt: number;
  readonly delivered: string | null;
  readonly dropped: readonly string[];
  readonly dropping: boolean;
  readonly count: number;
  readonly lastCount: number;
  readonly dropNext: number | null;
  readonly firstAbove: number | null;
}

describe("the control law in front of a queue", () => {
  const vectors = readVectors<QueueStep>("codel-queue");

  it.each(vectors.cases)("is the same as recorded: $name", ({ options, steps }) => {
    const codel = new ControlLawCodel(timesOf(options), options.backlogGuard ?? 0);
    const queue: [string, number][] = [];
    let shedInAll = 0;
    for (const [i, step] of steps.entries()) {
      if (step.push !== undefined) {
        queue.push(...step.push);
        continue;
      }
      const dropped: string[] = [];
      const delivered = dequeue(queue, codel, step.dequeueAt, dropped) ?? null;
      shedInAll += dropped.length;
      const { isDropping, count, lastCount, dropNext, firstAboveTime } = codel.state;
      expect({ i, delivered, dropped, isDropping, count, lastCount, dropNext, firstAboveTime }).toEqual({
        i,
        delivered: step.delivered,
        dropped: step.dropped,
        isDropping: step.dropping,
        count: step.count,
        lastCount: step.lastCount,
        dropNext: near(step.dropNext) ?? Number.NEGATIVE_INFINITY,
        firstAboveTime: near(step.firstAbove) ?? undefined,
      });
      expect([codel.isShedding, codel.shedCount]).toEqual([step.dropping, shedInAll]);
    }
  });

  it("is compared with all recorded steps", () => {
    expect(stepsIn(vectors)).toBe(116);
  });

  it("serves the one behind the first that is shed, however long it has waited", () => {
    const codel = new ControlLawCodel({ targetMs: 5, intervalMs: 100 }, 0);
    expect([0, 100].map((now) => codel.shouldShed(50, now, 9))).toEqual([false, true]);
    expect([codel.shouldShed(50, 100, 8), codel.isShedding]).toEqual([false, true]);
    // Also if the question comes later, since the one behind did not fit just then.
    const later = new ControlLawCodel({ targetMs: 5, intervalMs: 100 }, 0);
    expect([0, 100, 900].map((now) => later.shouldShed(50, now, 9))).toEqual([false, true, false]);
  });

  it("stops to shed once the queue is empty, unless it has just begun", () => {
    const codel = new ControlLawCodel({ targetMs: 5, intervalMs: 100 }, 0);
    for (const now of [0, 100]) codel.shouldShed(50, now, 1);
    codel.noteEmpty(100);
    expect(codel.isShedding).toBe(true);
    codel.noteEmpty(101);
    expect(codel.isShedding).toBe(false);
    // And a new interval is needed.
    expect([102, 201, 202].map((now) => codel.shouldShed(50, now, 1))).toEqual([false, false, true]);
  });

  it("spaces sheds by interval / √n, whatever the interval", () => {
    const random = new Random(1);
    for (let round = 0; round < 200; round++) {
      const intervalMs = random.magnitude(1, 1e6) * random.fraction() + 1;
      const state = new DropState({ targetMs: intervalMs * random.fraction(), intervalMs });
      const start = random.fraction() * 1e9;
      state.firstAboveTime = start;
      state.enter(start);
      for (let n = 1, due = start; n < 50; n++) {
        due += intervalMs / Math.sqrt(n);
        expect(Math.abs(state.dropNext - due)).toBeLessThanOrEqual(1e-9 * due);
        // Not a moment earlier, and once it is due.
        expect(state.shouldDrop(2 * intervalMs, state.dropNext - intervalMs / 1000)).toBe(false);
        expect(state.shouldDrop(2 * intervalMs, state.dropNext)).toBe(true);
      }
    }
  });

  it("decides as the filter does, but for those who are asked about again", () => {
    const random = new Random(2);
    const state = new DropState({ targetMs: 5, intervalMs: 100 });
    const codel = new ControlLawCodel({ targetMs: 5, intervalMs: 100 }, 0);
    let [now, sheds] = [0, 0];
    for (let i = 0; i < 20_000; i++) {
      // Closer together than two sheds that follow one another, so that nothing has to be caught up with.
      now += random.fraction();
      const sojournMs = Math.floor(i / 1500) % 3 === 2 ? 1 : 30;
      const isShed = codel.shouldShed(sojournMs, now, 9);
      expect(isShed).toBe(state.shouldDrop(sojournMs, now));
      if (!isShed) continue;
      sheds += 1;
      expect(codel.shouldShed(sojournMs, now, 9)).toBe(false);
      expect([state.count, state.dropNext, state.isDropping]).toEqual([
        codel.state.count,
        codel.state.dropNext,
        codel.isShedding,
      ]);
    }
    expect(sheds).toBeGreaterThan(500);
    expect(codel.shedCount).toBe(sheds);
  });
});

interface IntervalStep {
  readonly delay: number;
  readonly now: number;
  readonly shed: boolean;
  readonly load: number;
  readonly overloaded: boolean;
  readonly minDelay: number;
  readonly intervalEnd: number;
}

describe("the minimum of each interval", () => {
  const vectors = readVectors<IntervalStep>("codel-folly");
  const at = (now = 0, guard = 0) => new IntervalMinimumCodel({ targetMs: 5, intervalMs: 100 }, now, guard);

  it.each(vectors.cases)("is the same as recorded: $name", ({ options, steps }) => {
    const times = timesOf(options);
    const codel = new IntervalMinimumCodel(times, options.startTime ?? 0, 0);
    let shedInAll = 0;
    for (const [i, step] of steps.entries()) {
      const shed = codel.shouldShed(step.delay, step.now, 0);
      if (shed) shedInAll += 1;
      const { isShedding, minSojournMs = 0, intervalEnd, shedCount } = codel;
      const load = Math.min(100, Math.trunc((100 * minSojournMs) / (2 * times.targetMs)));
      expect({ i, shed, load, isShedding, minSojournMs, intervalEnd, shedCount }).toEqual({
        i,
        shed: step.shed,
        load: step.load,
        isShedding: step.overloaded,
        minSojournMs: near(step.minDelay),
        intervalEnd: near(step.intervalEnd),
        shedCount: shedInAll,
      });
    }
  });

  it("is compared with all recorded steps", () => {
    expect(stepsIn(vectors)).toBe(47);
  });

  it("never sheds the first of an interval", () => {
    const codel = at();
    const answers = Array.from({ length: 1000 }, (_, i) => codel.shouldShed(50, i + 1, 9));
    // At 1 the minimum begins, at 2 the first interval is over, and so on every 101 ms.
    const served = answers.flatMap((shed, i) => (shed ? [] : [i + 1]));
    expect(served).toEqual([1, 2, 103, 204, 305, 406, 507, 608, 709, 810, 911]);
    expect(codel.shedCount).toBe(989);
  });

  it("takes an empty queue for a wait of 0, which ends the shedding with its interval", () => {
    const codel = at();
    for (const now of [1, 2]) codel.shouldShed(50, now, 9);
    expect(codel.shouldShed(50, 3, 9)).toBe(true);
    codel.noteEmpty(4);
    expect([codel.minSojournMs, codel.isShedding]).toEqual([0, true]);
    expect(codel.shouldShed(50, 103, 9)).toBe(false);
    expect([codel.isShedding, codel.shouldShed(50, 104, 9)]).toEqual([false, false]);
  });

  it("begins an interval with an empty queue too", () => {
    const codel = at();
    codel.noteEmpty(0);
    expect(codel.minSojournMs).toBe(0);
    codel.shouldShed(50, 1, 9);
    expect(codel.isShedding).toBe(false);
    codel.noteEmpty(102);
    expect([codel.isShedding, codel.intervalEnd]).toEqual([false, 202]);
  });
});

const FORMS = ["intervalMinimum", "controlLaw"] as const;
const create = (options: CodelOptions = {}, now = 0) => createCodel(checkCodelOptions(options), now);

/** Asks each millisecond; the moments at which somebody was shed. */
function shedTimes(codel: CodelControl, from: number, to: number, sojournMs = 50, remaining = 9): number[] {
  const times: number[] = [];
  for (let now = from; now < to; now++) if (codel.shouldShed(sojournMs, now, remaining)) times.push(now);
  return times;
}

describe.each(FORMS)("a queue with the form %s", (form) => {
  it("sheds nobody while waits are no longer than the target", () => {
    const codel = create({ form });
    expect(shedTimes(codel, 0, 1000, 4.999)).toEqual([]);
    expect([codel.isShedding, codel.shedCount]).toEqual([false, 0]);
  });

  it("sheds while it stands, and counts", () => {
    const codel = create({ form });
    const shed = shedTimes(codel, 0, 1000).length;
    expect(shed).toBeGreaterThan(20);
    expect([codel.isShedding, codel.shedCount]).toEqual([true, shed]);
  });

  it("never sheds the last that waits", () => {
    const codel = create({ form });
    expect(shedTimes(codel, 0, 1000, 1e9, 0)).toEqual([]);
    shedTimes(codel, 1000, 2000);
    const { shedCount } = codel;
    expect(shedCount).toBeGreaterThan(20);
    expect(codel.shouldShed(1e9, 2000, 0)).toBe(false);
    expect(codel.shedCount).toBe(shedCount);
  });

  it.each([
    ["NaN", Number.NaN],
    ["-Infinity", Number.NEGATIVE_INFINITY],
    ["negative", -1e9],
  ])("takes a wait that is %s for none", (_, sojournMs) => {
    const codel = create({ form });
    expect(shedTimes(codel, 0, 1000, sojournMs)).toEqual([]);
    expect(codel.isShedding).toBe(false);
    expect(shedTimes(codel, 1000, 2000).length).toBeGreaterThan(20);
    expect([codel.isShedding, codel.shouldShed(sojournMs, 2000, 9)]).toEqual([true, false]);
  });

  it("takes an endless wait for a long one", () => {
    expect(shedTimes(create({ form }), 0, 1000, Number.POSITIVE_INFINITY).length).toBeGreaterThan(20);
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    "sheds nobody when the clock says %d, and is none the worse for it",
    (now) => {
      const codel = create({ form });
      shedTimes(codel, 0, 500);
      expect(codel.isShedding).toBe(true);
      for (let i = 0; i < 3; i++) expect(codel.shouldShed(50, now, 9)).toBe(false);
      codel.noteEmpty(now);
      expect(shedTimes(codel, 500, 1000).length).toBeGreaterThan(10);
    },
  );

  it.each([
    ["far, while shedding", 1e12, 1000, 0],
    ["far, in the first interval", 1e12, 50, 0],
    ["a little", 1000, 1000, 1200],
  ])("starts anew when the clock has gone back %s", (_, start, ms, backTo) => {
    const codel = create({ form }, start);
    shedTimes(codel, start, start + ms);
    const before = codel.shedCount;
    expect(codel.shouldShed(50, backTo, 9)).toBe(false);
    const shed = shedTimes(codel, backTo + 1, backTo + 501);
    expect(shed.length).toBeGreaterThan(5);
    expect(codel.shedCount).toBe(before + shed.length);
  });

  it("stays as it is while the clock stands still", () => {
    const codel = create({ form });
    for (let i = 0; i < 1000; i++) expect(codel.shouldShed(50, 0, 9)).toBe(false);
    expect(codel.isShedding).toBe(false);
  });
});

describe("the options", () => {
  it("have defaults: the minimum of each interval, 5 ms and 100 ms", () => {
    expect(checkCodelOptions({})).toEqual({ targetMs: 5, intervalMs: 100, form: "intervalMinimum" });
    expect(create()).toBeInstanceOf(IntervalMinimumCodel);
    expect(create({ form: "controlLaw" })).toBeInstanceOf(ControlLawCodel);
  });

  it("are copied, and each is read once", () => {
    const reads: string[] = [];
    const options: CodelOptions = new Proxy(
      { targetMs: 20, intervalMs: 200, form: "controlLaw" },
      {
        get(target, name) {
          reads.push(String(name));
          return Reflect.get(target, name) as unknown;
        },
      },
    );
    const settings = checkCodelOptions(options);
    expect(reads).toEqual(["targetMs", "intervalMs", "form"]);
    expect(settings).toEqual({ targetMs: 20, intervalMs: 200, form: "controlLaw" });
    expect(settings).not.toBe(options);
  });

  it("may be as long as one another for the control law alone", () => {
    const same = { targetMs: 5, intervalMs: 5 };
    expect(checkCodelOptions({ ...same, form: "controlLaw" })).toMatchObject(same);
    const message = "options.codel.intervalMs must be above targetMs, which is 5; got 5.";
    expect(() => checkCodelOptions(same)).toThrow(new RangeError(message));
  });

  it.each<[string, unknown, new (message: string) => Error, RegExp]>([
    ["true", true, TypeError, /^options\.codel must be an object; got true\.$/],
    ["a list", [], TypeError, /^options\.codel must be an object; got an array\.$/],
    ["a misspelt name", { target: 5 }, TypeError, /^options\.codel\.target is not an option; did you mean/],
    ["a target of 0", { targetMs: 0 }, RangeError, /^options\.codel\.targetMs must be .* above 0; got 0\.$/],
    ["a target of NaN", { targetMs: Number.NaN }, RangeError, /^options\.codel\.targetMs must be/],
    ["a negative target", { targetMs: -5 }, RangeError, /^options\.codel\.targetMs must be/],
    ["a target in words", { targetMs: "5" }, TypeError, /^options\.codel\.targetMs must be/],
    ["an interval of 0", { intervalMs: 0 }, RangeError, /^options\.codel\.intervalMs must be/],
    ["an endless interval", { intervalMs: 1 / 0 }, RangeError, /^options\.codel\.intervalMs must be/],
    ["a target above the default interval", { targetMs: 200 }, RangeError, /which is 200; got 100\.$/],
    [
      "an unknown form",
      { form: "lifo" },
      TypeError,
      /^options\.codel\.form must be "intervalMinimum" or "con/,
    ],
  ])("that are %s are refused", (_, options, kind, message) => {
    const check = () => checkCodelOptions(options as never);
    expect(check).toThrow(kind);
    expect(check).toThrow(message);
  });

  it("are called by the name that they are given", () => {
    const check = () => checkCodelOptions({ targetMs: -1 }, "options.queue.codel");
    expect(check).toThrow(/^options\.queue\.codel\.targetMs must be/);
  });
});

/** What comes of so much work, offered to 50 permits for 120 s: how much a second is done within 1 s of being asked for. */
function donePerSecond(load: number, options: CodelOptions, seed: number): number {
  const [permits, meanMs, endMs, patienceMs] = [50, 200, 120_000, 1000];
  const random = new Random(seed);
  const exponential = (mean: number) => -mean * Math.log(1 - random.fraction());
  const codel = create(options);
  const queue: [id: string, at: number][] = [];
  const endings: { at: number; askedAt: number }[] = [];
  const start = (askedAt: number, now: number) => {
    const work = { at: now + exponential(meanMs), askedAt };
    endings.push(work);
    endings.sort((a, b) => b.at - a.at);
  };
  let done = 0;
  let arrival = exponential(meanMs / permits / load);
  while (arrival < endMs) {
    const next = endings.at(-1);
    if (next === undefined || arrival < next.at) {
      if (endings.length < permits) start(arrival, arrival);
      else queue.push([String(arrival), arrival]);
      arrival += exponential(meanMs / permits / load);
      continue;
    }
    endings.pop();
    if (next.at - next.askedAt <= patienceMs) done += 1;
    const served = dequeue(queue, codel, next.at, []);
    if (served !== undefined) start(Number(served), next.at);
  }
  return done / (endMs / 1000);
}

describe("50 permits that can do 250 a second", () => {
  it.each<[CodelOptions["form"], number, number]>([
    ["intervalMinimum", 1.2, 0.97],
    ["intervalMinimum", 2, 0.97],
    ["controlLaw", 1.2, 0.97],
    ["controlLaw", 2, 0.8],
  ])("with the form %s and %d times as much to do, do their part in time", (form, load, part) => {
    for (const seed of [1, 2, 3]) {
      const rate = donePerSecond(load, { targetMs: 20, intervalMs: 100, form }, seed);
      expect(rate).toBeGreaterThanOrEqual(250 * part);
    }
  });
});
