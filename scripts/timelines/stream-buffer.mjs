import { limitConcurrency } from "headgate/rxjs";
import { marbles } from "../marbles.mjs";

/** Four values, one at a time, and room for two that wait. */
export default function scenario() {
  return marbles(({ cold, work }) => [
    ["source", "abcd|"],
    ["work for each value", "-----(x|)"],
    ...["error", "dropNewest", "dropOldest"].map((overflow) => [
      `overflow: "${overflow}"`,
      cold("abcd|").pipe(limitConcurrency(1, work("-----(x|)"), { buffer: { size: 2, overflow } })),
    ]),
  ]);
}
