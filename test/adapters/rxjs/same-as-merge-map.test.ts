import fc from "fast-check";
import { limitConcurrency } from "headgate/rxjs";
import { concatMap, materialize, mergeAll, mergeMap, type Observable, type OperatorFunction, of } from "rxjs";
import { TestScheduler } from "rxjs/testing";
import { describe, expect, it } from "vitest";

/** A stream, as the pauses before its values and how it ends; with no pauses at all it does everything when subscribed. */
interface Script {
  readonly pauses: readonly number[];
  readonly end: "complete" | "error" | "never";
}

const script = (maxLength: number): fc.Arbitrary<Script> =>
  fc.record({
    pauses: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength }),
    end: fc.oneof(
      { weight: 8, arbitrary: fc.constant<"complete">("complete") },
      { weight: 1, arbitrary: fc.constantFrom<"error" | "never">("error", "never") },
    ),
  });

/** What an inner stream may be: drawn, done at once, or nothing to subscribe to. */
const inner = fc.oneof(
  { weight: 6, arbitrary: script(3) },
  { weight: 2, arbitrary: fc.constantFrom<"one" | "three" | "throws" | "wrong">("one", "three") },
  { weight: 1, arbitrary: fc.constantFrom<"one" | "three" | "throws" | "wrong">("throws", "wrong") },
);
type Inner = Script | "one" | "three" | "throws" | "wrong";

interface Run {
  readonly source: Script;
  readonly inners: readonly Inner[];
  readonly limit: number;
  readonly unsubscribeAt: number | undefined;
}

const run: fc.Arbitrary<Run> = fc.record({
  source: script(12),
  inners: fc.array(inner, { minLength: 12, maxLength: 12 }),
  limit: fc.integer({ min: 1, max: 4 }),
  unsubscribeAt: fc.option(fc.integer({ min: 0, max: 20 }), { nil: undefined, freq: 3 }),
});

function draw({ pauses, end }: Script, letter: string): string {
  const values = pauses.map((pause) => `${"-".repeat(pause)}${letter}`).join("");
  return `${values}-${{ complete: "|", error: "#", never: "" }[end]}`;
}

/** All that an operator does on a run: what is emitted when, and when which inner stream is subscribed to and left. */
function record(
  { source, inners, unsubscribeAt }: Run,
  operate: (
    project: (value: string, index: number) => Observable<string>,
  ) => OperatorFunction<string, string>,
): unknown[] {
  const log: unknown[] = [];
  new TestScheduler(() => {}).run(({ cold, expectObservable }) => {
    const scheduler = cold("|").scheduler;
    const result = cold(draw(source, "s")).pipe(
      operate((_value, index) => {
        const what = inners[index] as Inner;
        log.push([scheduler.now(), "project", index]);
        if (what === "throws") throw new Error("project");
        if (what === "wrong") return 42 as never;
        if (what === "one") return of(`${index}`);
        if (what === "three") return of(`${index}a`, `${index}b`, `${index}c`);
        return cold(draw(what, "x"), { x: `${index}` });
      }),
      materialize(),
    );
    const subscription = result.subscribe(({ kind, ...rest }) => {
      const told =
        kind === "N" ? (rest as { value: unknown }).value : String((rest as { error?: unknown }).error);
      log.push([scheduler.now(), kind, told]);
    });
    if (unsubscribeAt !== undefined) scheduler.schedule(() => subscription.unsubscribe(), unsubscribeAt);
    expectObservable(cold("|"));
  });
  return log;
}

describe("limitConcurrency with a number", () => {
  it("emits, subscribes, fails and stops as mergeMap does, whatever the streams", () => {
    let steps = 0;
    fc.assert(
      fc.property(run, (what) => {
        const expected = record(what, (project) => mergeMap(project, what.limit));
        steps += expected.length;
        expect(record(what, (project) => limitConcurrency(what.limit, project))).toEqual(expected);
      }),
      { numRuns: 2000 },
    );
    // The runs are worth something.
    expect(steps).toBeGreaterThan(10_000);
  });

  it("does in concat order what concatMap does", () => {
    fc.assert(
      fc.property(run, (what) => {
        const expected = record(what, (project) => concatMap(project));
        const order = "concat" as const;
        expect(record(what, (project) => limitConcurrency(what.limit, project, { order }))).toEqual(expected);
      }),
      { numRuns: 1000 },
    );
  });

  it("flattens streams as mergeAll does", () => {
    const told = (operator: OperatorFunction<Observable<string>, string>): unknown[] => {
      const log: unknown[] = [];
      new TestScheduler(() => {}).run(({ cold, expectObservable }) => {
        const scheduler = cold("|").scheduler;
        const streams = cold("ab-c|", { a: cold("-x--x|"), b: cold("y--y-|"), c: cold("z|") });
        streams.pipe(operator, materialize()).subscribe((told) => log.push([scheduler.now(), told]));
        expectObservable(cold("|"));
      });
      return log;
    };
    expect(told(limitConcurrency(2))).toEqual(told(mergeAll(2)));
    expect(told(limitConcurrency(2)).length).toBe(6);
  });
});
