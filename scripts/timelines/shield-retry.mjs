import { Shield } from "headgate/shield";
import { getShieldState } from "headgate/testing";

/** A limit of one, outside a retry and inside it: whoever comes in the pause between two attempts finds it taken, or free. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  const pass = (ms) => new Promise((resolve) => clock.setTimer(resolve, ms));
  const events = [];
  const retry = {
    async execute(work, signal) {
      try {
        return await work({ signal, attempt: 0 });
      } catch {
        await pass(100);
        return await work({ signal, attempt: 1 });
      }
    },
  };
  const base = Shield.empty.withClock(clock);
  const shields = {
    outside: base.concurrencyLimit(1).use(retry),
    inside: base.use(retry).concurrencyLimit(1),
  };
  const held = (shield) => getShieldState(shield).strategies[0].runningExecutions;
  timeline.columns = {
    "held, limit outside": () => held(shields.outside),
    "held, limit inside": () => held(shields.inside),
  };
  /** One caller in each of the two shields. */
  const call = (name, failures) => {
    for (const [place, shield] of Object.entries(shields)) {
      const done = shield.execute(async ({ attempt }) => {
        await pass(20);
        if (attempt < failures) {
          if (place === "inside") events.push(`${name}'s first attempt fails, in both`);
          throw new Error("attempt");
        }
      });
      done.then(
        () => events.push(`${place}: ${name} is done`),
        (error) => events.push(`${place}: ${name} ${error.reason === undefined ? "fails" : "is refused"}`),
      );
    }
  };
  const show = (text) => timeline.step([text, ...events.splice(0)].filter(Boolean).join("; "));
  call("A", 1);
  await show("A comes");
  await timeline.advance(20);
  await show();
  await timeline.advance(30);
  call("B", 0);
  await timeline.advance(0);
  await new Promise(setImmediate);
  await show("B comes");
  await timeline.advance(20);
  await show();
  await timeline.advance(50);
  await show("A's second attempt starts");
  await timeline.advance(20);
  await show();
}
