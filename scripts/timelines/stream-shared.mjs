import { ConcurrencyLimiter } from "headgate";
import { limitConcurrency } from "headgate/rxjs";
import { marbles } from "../marbles.mjs";

/** Two streams take turns with one permit, unless one of them asks for all of its values at once. */
export default function scenario() {
  return ["head", "eager"]
    .map((admission) =>
      marbles(({ clock, cold, work }) => {
        const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 10, clock });
        const first = limitConcurrency(limiter, work("--(x|)"), { admission });
        const second = limitConcurrency(limiter, work("--(x|)"));
        return [
          [`first   (abc|), admission "${admission}"`.padEnd(36), cold("(abc|)").pipe(first)],
          ["second  -y|", cold("-y|").pipe(second)],
        ];
      }),
    )
    .join("\n\n");
}
