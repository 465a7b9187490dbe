import { limitConcurrency } from "headgate/rxjs";
import { marbles } from "../marbles.mjs";

/** One value at a time, two, and as many as there are. */
export default function scenario() {
  return marbles(({ cold, work }) => [
    ["source", "abcd|"],
    ["work for each value", "---(x|)"],
    ...[1, 2, 10].map((limit) => [
      `limitConcurrency(${limit}, work)`,
      cold("abcd|").pipe(limitConcurrency(limit, work("---(x|)"))),
    ]),
  ]);
}
