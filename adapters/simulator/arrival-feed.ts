import type { Arrival, ArrivalSource } from "./arrivals.js";
import { checkMoment, checkWhole } from "./checks.js";
import { ARRIVAL, type EventLoop, type Happening } from "./event-loop.js";
import { createRandom, type RandomSource } from "./random.js";
import type { SimulationSettings } from "./simulation-options.js";

/** Brings in who arrives, one at a time, with the work that each of them wants. */
export class ArrivalFeed implements Happening {
  readonly #loop: EventLoop;
  readonly #settings: SimulationSettings;
  readonly #source: ArrivalSource;
  /** Work is drawn when somebody arrives, whatever becomes of it, so that every limiter sees the same customers. */
  readonly #work: RandomSource;
  readonly #arrive: (arrival: Arrival, workMs: number, permitCount: number) => void;
  #next: Arrival | undefined = undefined;
  #expected = 0;
  /** When the first comes, if that is too late for the run. */
  tooLateMs: number | undefined = undefined;
  #hasBegun = false;

  constructor(
    loop: EventLoop,
    settings: SimulationSettings,
    arrive: (arrival: Arrival, workMs: number, permitCount: number) => void,
  ) {
    this.#loop = loop;
    this.#settings = settings;
    this.#source = settings.arrivals.start(createRandom(settings.seed, "arrivals"));
    this.#work = createRandom(settings.seed, "service");
    this.#arrive = arrive;
  }

  /** Whether nobody more comes by himself. */
  get isEmpty(): boolean {
    return this.#expected === 0;
  }

  /** Has the next one come in its time. */
  scheduleNext(): void {
    const arrival = this.#source.next();
    this.#next = arrival;
    if (arrival !== undefined && this.#counts(arrival)) this.#loop.at(arrival.atMs, ARRIVAL, this);
    else if (!this.#hasBegun) this.tooLateMs = arrival?.atMs;
    this.#hasBegun = true;
  }

  /** The next one of the source is here. */
  happen(): void {
    const arrival = this.#next as Arrival;
    this.#loop.countNewClient();
    this.scheduleNext();
    this.#receive(arrival);
  }

  /** Somebody has got an answer for good, or given up, and may come again. */
  settled(arrival: Arrival): void {
    if (this.#source.settled === undefined) return;
    const again = this.#source.settled(arrival, this.#loop.now());
    if (again === undefined || !this.#counts(again)) return;
    if (again.atMs === this.#loop.now()) this.#loop.countReturnWithoutTime(this.#expected);
    this.#loop.at(again.atMs, ARRIVAL, { happen: () => this.#receive(again) });
  }

  /** Whether somebody comes while arrivals are let in; if so, he is waited for. */
  #counts({ atMs }: Arrival): boolean {
    // However late it is: a low rate may well be.
    if (typeof atMs === "number" && atMs >= this.#settings.durationMs) return false;
    if (!isMoment(atMs)) checkMoment("arrival.atMs", atMs);
    const now = this.#loop.now();
    if (atMs < now) throw new RangeError(`arrival.atMs must be at least ${now}, the present; got ${atMs}.`);
    this.#expected += 1;
    return true;
  }

  #receive(arrival: Arrival): void {
    this.#expected -= 1;
    const { serviceMs = this.#draw(), permitCount = 1 } = arrival;
    if (!isMoment(serviceMs)) checkMoment("the service time", serviceMs);
    if (permitCount !== 1) checkWhole("arrival.permitCount", permitCount, 0);
    this.#arrive(arrival, serviceMs, permitCount);
  }

  #draw(): number {
    const { time } = this.#settings.service;
    if (time === undefined)
      throw new TypeError(
        "options.service.time must be given unless every arrival has a serviceMs of its own.",
      );
    return time.sample(this.#work);
  }
}

/** Asked for every arrival, before the words for a complaint are put together. */
function isMoment(value: number): boolean {
  return value >= 0 && value <= Number.MAX_SAFE_INTEGER;
}
