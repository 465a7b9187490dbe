import { equal, errorOf, rejects, theReason, throws } from "./assertions.js";
import type { Fixture } from "./fixture.js";
import { show } from "./show.js";

const NO_COUNTS = [Number.NaN, 1.5, -1, Number.POSITIVE_INFINITY, 2 ** 53];
const NO_NUMBERS = ["1", null, true, 1n, [], Symbol("1")];

/** What is an error, and which error wins. */
export function describeArguments(fixture: Fixture): void {
  const { it } = fixture;

  for (const [title, values, type] of [
    ["a RangeError", NO_COUNTS, RangeError],
    ["a TypeError", NO_NUMBERS, TypeError],
  ] as const) {
    for (const value of values) {
      const count = value as number;
      it(`refuses ${show(value)} as a count with ${title}, by attempt and by acquire, and changes nothing`, async () => {
        const { limiter } = fixture.make();
        const before = fixture.numbers(limiter);
        throws(`attemptAcquire(${show(value)})`, () => limiter.attemptAcquire(count), errorOf(type));
        await rejects(`acquire(${show(value)})`, () => limiter.acquire(count, {}), errorOf(type));
        fixture.expectNumbers("after malformed counts", limiter, before);
      });
    }
  }

  fixture.itIf(fixture.subject.isLimited)(
    "refuses a count above its limit with a RangeError that names both",
    async () => {
      const { limiter } = fixture.make(3);
      const tooMany = errorOf(RangeError, /\b4\b.*\b3\b/, " that names 4 and 3");
      throws("attemptAcquire(4) with a limit of 3", () => limiter.attemptAcquire(4), tooMany);
      await rejects("acquire(4) with a limit of 3", () => limiter.acquire(4), tooMany);
      equal("refused requests after counts above the limit", fixture.numbers(limiter)?.[2] ?? 0, 0);
    },
  );

  it("rejects with the reason of an aborted signal before anything else but a malformed argument", async () => {
    const { limiter } = fixture.make();
    const reason = { why: "gone" };
    const options = { signal: AbortSignal.abort(reason) };
    const left = theReason(reason);
    await rejects("acquire with an aborted signal", () => limiter.acquire(1, options), left);
    await rejects("the same with a count above the limit", () => limiter.acquire(1000, options), left);
    await rejects("the same with a malformed count", () => limiter.acquire(-1, options), errorOf(RangeError));
    equal("granted requests after aborted ones", fixture.numbers(limiter)?.[3] ?? 0, 0);
    limiter.dispose();
    await rejects("the same with a disposed limiter", () => limiter.acquire(1, options), left);
  });
}
