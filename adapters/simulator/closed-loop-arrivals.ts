import { checkOptionNames } from "../../src/internal.js";
import type { Arrival, ArrivalProcess, ArrivalSource } from "./arrivals.js";
import { arrivalAt } from "./arrivals-by-rate.js";
import { checkMoment, checkWhole } from "./checks.js";
import { checkDistribution, type Distribution, deterministic } from "./distributions.js";
import type { RandomSource } from "./random.js";

/** Each user is an object in memory. */
const MOST_USERS = 1_000_000;

/**
 * Options of {@link closedLoopArrivals}.
 *
 * @public
 */
export interface ClosedLoopArrivalsOptions {
  /** How many users there are: an integer from 1 to 1 000 000. Required. */
  readonly users: number;
  /** How long a user thinks between an answer and the next request: milliseconds, at least 0, or a distribution. Required. */
  readonly thinkMs: number | Distribution;
}

/**
 * A fixed number of users, each of whom waits for the answer, thinks, and asks again: the way most load generators work.
 *
 * Such a loop hides overload. When the server slows down, so do its customers: 100 users with 1 s to think offer 50 per
 * second to a server that takes 1 s, and 10 per second to one that takes 9 s. Real customers keep coming; for them take
 * {@link poissonArrivals}.
 *
 * Users start somewhere in the middle of thinking, so that they do not ask in step. With nothing to think and a limiter that
 * refuses at once, time stands still.
 *
 * @throws TypeError or RangeError when an option has the wrong type, an unknown name, or is out of range.
 *
 * @public
 */
export function closedLoopArrivals(options: ClosedLoopArrivalsOptions): ArrivalProcess {
  checkOptionNames(options, ["users", "thinkMs"]);
  const { users, thinkMs } = options;
  checkWhole("options.users", users, 1, MOST_USERS);
  if (typeof thinkMs === "object") checkDistribution("options.thinkMs", thinkMs);
  const thinking = typeof thinkMs === "object" ? thinkMs : thinkingFor(thinkMs);
  return {
    description: `closed loop, ${users} users, thinking: ${thinking.description}`,
    isClosed: true,
    start: (random) => new Users(users, thinking, random),
  };
}

function thinkingFor(thinkMs: number): Distribution {
  checkMoment("options.thinkMs", thinkMs);
  return deterministic(thinkMs);
}

class Users implements ArrivalSource {
  readonly #first: Float64Array;
  readonly #thinking: Distribution;
  readonly #random: RandomSource;
  #started = 0;

  constructor(users: number, thinking: Distribution, random: RandomSource) {
    this.#thinking = thinking;
    this.#random = random;
    this.#first = new Float64Array(users);
    for (let i = 0; i < users; i++) this.#first[i] = thinking.sample(random) * random.uniform();
    this.#first.sort();
  }

  next(): Arrival | undefined {
    const atMs = this.#first[this.#started++];
    return atMs === undefined ? undefined : arrivalAt(atMs);
  }

  settled(_: Arrival, atMs: number): Arrival {
    return arrivalAt(atMs + this.#thinking.sample(this.#random));
  }
}
