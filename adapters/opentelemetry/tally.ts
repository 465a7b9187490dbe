import { Frame, SERIES } from "./catalogue.js";

/*
 * Totals that begin anew, told as ones that never go down.
 *
 * A limiter's totals live as long as it does. That of a resource begins anew when its partition has been evicted and comes
 * back, one whose state is elsewhere when that is lost; and a limiter that is measured once more under its old name tells
 * again what was kept of it. So a total is not added but followed: what it had before it fell is carried over, and what is
 * kept elsewhere is taken off. With readings 7, 9, (evicted), 2 a tally tells 7, 9, 9, 11. If it is measured anew after the 9,
 * which somebody else keeps, it tells 0 for that same 9, and 4 when it is 13.
 *
 * The surprise: both are one number, since what is kept elsewhere is carried over with a minus.
 */
export class Tally {
  readonly #carried = new Float64Array(SERIES.length);
  readonly #last = new Frame();

  /** What to tell of a reading. Levels are 0 when nothing at all was read. */
  follow(now: Frame): Frame {
    const told = new Frame();
    const isEmpty = !now.isPresent.includes(1);
    for (const [index, { isMonotonic }] of SERIES.entries()) {
      const isRead = now.isPresent[index] === 1;
      if (!isRead && (this.#last.isPresent[index] !== 1 || !(isMonotonic || isEmpty))) continue;
      const value = now.values[index] as number;
      if (isMonotonic) {
        const last = this.#last.values[index] as number;
        if (value < last) this.#carried[index] = (this.#carried[index] as number) + last;
      }
      this.#last.values[index] = value;
      this.#last.isPresent[index] = 1;
      told.add(index, isMonotonic ? (this.#carried[index] as number) + value : value);
    }
    return told;
  }

  /** What has been told up to a reading is kept elsewhere from now on. */
  restart(now: Frame): void {
    for (const [index, { isMonotonic }] of SERIES.entries()) {
      if (!isMonotonic) continue;
      if (now.isPresent[index] === 1) {
        this.#last.values[index] = now.values[index] as number;
        this.#last.isPresent[index] = 1;
      }
      this.#carried[index] = -(this.#last.values[index] as number);
    }
  }
}
