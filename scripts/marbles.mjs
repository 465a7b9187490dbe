// Draws streams as marbles, by running them in the virtual time of RxJS's TestScheduler. Used by the scenarios of
// scripts/timelines/ that show streams.
import { schedulerClock } from "headgate/rxjs";
import { map, materialize, tap } from "rxjs";
import { TestScheduler } from "rxjs/testing";

/** Marbles of what has been told when; what is told at one moment is a group. */
function draw(events) {
  let picture = "";
  for (let i = 0; i < events.length; ) {
    const { frame } = events[i];
    let letters = "";
    for (; i < events.length && events[i].frame === frame; i++) letters += events[i].letter;
    if (picture.length > frame) throw new Error(`${frame} ms cannot be drawn after ${picture}`);
    picture = picture.padEnd(frame, "-") + (letters.length > 1 ? `(${letters})` : letters);
  }
  return picture;
}

const LETTERS = { N: (value) => value, E: () => "#", C: () => "|" };

/**
 * Runs `make` with what it needs and draws each stream of the rows that it returns, as [label, marbles or stream].
 * `work(marbles)` is work in which an x is the value that it is for.
 */
export function marbles(make) {
  const scheduler = new TestScheduler(() => {});
  const rows = [];
  scheduler.run(({ cold, flush }) => {
    const clock = schedulerClock(scheduler);
    const work = (picture) => (value) =>
      cold(picture).pipe(map((letter) => (letter === "x" ? value : letter)));
    for (const [label, picture] of make({ clock, cold, work })) {
      if (typeof picture === "string") {
        rows.push([label, () => picture]);
        continue;
      }
      const events = [];
      const note = ({ kind, value }) => events.push({ frame: scheduler.now(), letter: LETTERS[kind](value) });
      picture.pipe(materialize(), tap(note)).subscribe();
      rows.push([label, () => draw(events)]);
    }
    flush();
  });
  const width = Math.max(...rows.map(([label]) => label.length));
  return rows.map(([label, picture]) => `${label.padEnd(width)}  ${picture()}`.trimEnd()).join("\n");
}
