import { Shield } from "headgate/shield";

/** The same call behind a busy limit, with a time-out of 150 ms at three places. */
export default async function scenario(timeline) {
  const { clock } = timeline;
  const pass = (ms) => new Promise((resolve) => clock.setTimer(resolve, ms));
  const timeOut = {
    async execute(work, signal) {
      const ending = new AbortController();
      const timer = clock.setTimer(() => ending.abort(new Error("time-out")), 150);
      const aborted = new Promise((_, reject) => {
        ending.signal.addEventListener("abort", () => reject(ending.signal.reason));
      });
      try {
        return await Promise.race([work({ signal: ending.signal ?? signal }), aborted]);
      } finally {
        timer.cancel();
      }
    },
  };
  const base = Shield.empty.withClock(clock);
  const queue = { queueLimit: 1 };
  const shields = {
    "time-out outside": base.use(timeOut).concurrencyLimit(1, queue),
    "queueTimeoutMs: 150": base.concurrencyLimit(1, { ...queue, queueTimeoutMs: 150 }),
    "time-out inside": base.concurrencyLimit(1, queue).use(timeOut),
  };
  const states = {};
  for (const [place, shield] of Object.entries(shields)) {
    timeline.columns[place] = () => states[place];
    // Somebody has the only place for 100 ms.
    void shield.execute(() => pass(100));
  }
  for (const [place, shield] of Object.entries(shields)) {
    states[place] = "waits";
    shield
      .execute(async () => {
        states[place] = "runs";
        await pass(120);
      })
      .then(
        () => {
          states[place] = "done";
        },
        (error) => {
          states[place] = error.reason ?? error.message;
        },
      );
  }
  await timeline.step("the call comes");
  await timeline.advance(100);
  await timeline.step("a place is free");
  await timeline.advance(50);
  await timeline.step("150 ms after it came");
  await timeline.advance(70);
  await timeline.step("120 ms after it started");
}
