import { checkChoice, checkDuration, checkNumber, checkOptionNames } from "../contract/validation.js";

/*
 * Controlled delay: which of those who wait are turned away so that the others are still served in time.
 *
 * The question: work comes faster than it is done, and a first-in, first-out queue in front of it fills. The naive answer
 * bounds its length. But length is no sickness: a burst of 100 that is gone in 50 ms harms nobody, while 100 that are always
 * there make everybody wait and nobody is served any better for it. What tells the two apart is the least that anybody has
 * waited during an interval: a queue whose minimum stays above the target stands.
 *
 * The control law then drops on a schedule, interval / sqrt(count) after the drop before: with 100 ms, drops come 100, 70.7,
 * 57.7, 50 and 44.7 ms after one another, until somebody is served who has waited less than the target. A queue that stands
 * again soon resumes about where it was.
 *
 * The surprise: the law was made for senders that slow down when they lose a packet. Callers of a service do not. After t ms
 * the law drops t / (2 × interval²) items per ms, so that an excess of 250 a second is reached after 5 s, with 600 items
 * standing by then. So there is a second form: once the minimum of a whole interval was above the target, it turns away
 * whoever has waited for more than twice the target, at once, for the interval that follows.
 *
 * In both forms somebody has to be there who is served instead: a place that is left free because its last taker was turned
 * away helps nobody.
 */

/**
 * How a queue that stands too long sheds: CoDel, "controlled delay".
 *
 * Once everybody who was served during `intervalMs` had waited for `targetMs` or more, some of those who wait are refused with
 * `codel`, oldest first, so that the others are served soon. A burst that is worked off in time loses nobody. Nobody is shed
 * when there is nobody to be served instead: not the last who waits, and not while all who wait can be served. A pause is no
 * wait. Estimates of a wait do not know who is going to be shed.
 *
 * @example
 * ```ts
 * import type { CodelOptions } from "headgate";
 *
 * const codel: CodelOptions = { targetMs: 20, intervalMs: 200 };
 * ```
 *
 * @public
 */
export interface CodelOptions {
  /**
   * How long a wait is no sign of overload, in milliseconds: above 0, fractions allowed; 5 by default. A few times the time
   * between two grants is a good value; less than one lets the limiter shed what could not have gone any faster.
   */
  readonly targetMs?: number | undefined;
  /**
   * For how long all waits have to be that long, in milliseconds, before anybody is shed; 100 by default. At least `targetMs`,
   * and above it with the form `intervalMinimum`. Should be longer than a burst takes to be worked off.
   */
  readonly intervalMs?: number | undefined;
  /**
   * Who is shed while the queue stands.
   *
   * - `intervalMinimum`, the default: whoever has waited for more than twice `targetMs`, except for the first in each interval.
   *   Looks at the shortest wait of each interval, and holds to what that says during the next. Follows any overload at once.
   * - `controlLaw`: RFC 8289. One after `intervalMs`, and then one each `intervalMs` / √n later, until a wait is below
   *   `targetMs`. Gentle, and slow to follow a heavy overload.
   *
   * The default is the one that holds when it matters. Simulated with a target of 20 ms, 50 permits, work of 200 ms
   * (exponential), and callers who give up after 1 s, of the 250 a second that can be served in time at best: offered 300, both
   * forms serve nearly all; offered 500, `intervalMinimum` still does, and `controlLaw` about 215, since callers do not slow
   * down when they are shed, as the senders of packets do for which the law was made.
   */
  readonly form?: "intervalMinimum" | "controlLaw" | undefined;
}

/** The same, checked and complete. */
export interface CodelSettings {
  readonly targetMs: number;
  readonly intervalMs: number;
  readonly form: "intervalMinimum" | "controlLaw";
}

const FORMS = ["intervalMinimum", "controlLaw"] as const;
const OPTION_NAMES = ["targetMs", "intervalMs", "form"];

/** How many must be left to be served when one is shed. */
const BACKLOG_GUARD = 1;

/** Reads the options, each once. */
export function checkCodelOptions(options: CodelOptions, name = "options.codel"): CodelSettings {
  checkOptionNames(options, OPTION_NAMES, name);
  const { targetMs = 5, intervalMs = 100, form = "intervalMinimum" } = options;
  checkChoice(`${name}.form`, form, FORMS);
  checkTimes(targetMs, intervalMs, name, form === "controlLaw");
  return { targetMs, intervalMs, form };
}

/** Checks a target and an interval. */
export function checkTimes(targetMs: number, intervalMs: number, name: string, mayBeEqual: boolean): void {
  checkDuration(`${name}.targetMs`, targetMs);
  checkDuration(`${name}.intervalMs`, intervalMs);
  const allowed = `${mayBeEqual ? "at least" : "above"} targetMs, which is ${targetMs}`;
  checkNumber(
    `${name}.intervalMs`,
    intervalMs,
    allowed,
    (n) => n > targetMs || (mayBeEqual && n === targetMs),
  );
}

/** Decides about those who wait, whichever the form. */
export interface CodelControl {
  /**
   * Whether to shed the one who would be served next. True: shed it, and ask again about the next (or say that there is none).
   * False: serve it.
   *
   * @param sojournMs - How long it has waited.
   * @param remaining - How many wait behind it.
   */
  shouldShed(sojournMs: number, now: number, remaining: number): boolean;
  /** Nobody waits now, or did until now; somebody who comes is the first. */
  noteEmpty(now: number): void;
  /** Whether the queue is held to stand. */
  readonly isShedding: boolean;
  /** How many have been shed. */
  readonly shedCount: number;
}

export function createCodel(settings: CodelSettings, now: number): CodelControl {
  return settings.form === "controlLaw"
    ? new ControlLawCodel(settings, BACKLOG_GUARD)
    : new IntervalMinimumCodel(settings, now, BACKLOG_GUARD);
}

/** The target and the interval that a drop state goes by. */
type Times = Pick<CodelSettings, "targetMs" | "intervalMs">;

/** For how many intervals the pace of the last episode is remembered. */
const MEMORY_INTERVALS = 16;

/**
 * The drop state and the control law of RFC 8289, for one decision per item. A caller who comes late catches up with one drop
 * per call, since the schedule goes on from the drop that was due, and not from now.
 */
export class DropState {
  readonly targetMs: number;
  readonly intervalMs: number;
  isDropping = false;
  /** When the waits will have been too long for an interval; undefined while they are not. */
  firstAboveTime: number | undefined = undefined;
  /** When the next drop is due, or would have been; in the infinite past before the first. */
  dropNext: number = Number.NEGATIVE_INFINITY;
  /** How far the schedule has got. */
  count = 0;
  /** How far it was at the start of this episode. */
  lastCount = 0;

  constructor({ targetMs, intervalMs }: Times) {
    this.targetMs = targetMs;
    this.intervalMs = intervalMs;
  }

  /** Takes in a wait that ends now: whether all have been too long for an interval. */
  isStanding(sojournMs: number, now: number): boolean {
    // Written so that what is not a number is no reason to drop.
    if (!(sojournMs >= this.targetMs) || !Number.isFinite(now)) return this.clear();
    const { firstAboveTime, intervalMs } = this;
    const latest = now + intervalMs;
    if (firstAboveTime !== undefined && firstAboveTime <= latest && this.dropNext <= latest) {
      return now >= firstAboveTime;
    }
    this.firstAboveTime = latest;
    // Only a clock that has gone back makes it later than that.
    this.dropNext = Math.min(this.dropNext, latest);
    return false;
  }

  /** No wait is too long. */
  clear(): false {
    this.firstAboveTime = undefined;
    return false;
  }

  /** Starts to drop, with the item at hand. */
  enter(now: number): void {
    const gained = this.count - this.lastCount;
    const isRecent = now - this.dropNext < MEMORY_INTERVALS * this.intervalMs;
    this.isDropping = true;
    this.count = gained > 1 && isRecent ? gained : 1;
    this.lastCount = this.count;
    this.dropNext = now;
    this.scheduleNext();
  }

  /** The control law. */
  scheduleNext(): void {
    this.dropNext += this.intervalMs / Math.sqrt(this.count);
  }

  /** Whether to drop this item, where each is decided about by itself. */
  shouldDrop(sojournMs: number, now: number): boolean {
    const isStanding = this.isStanding(sojournMs, now);
    if (!isStanding) this.isDropping = false;
    if (!isStanding || (this.isDropping && now < this.dropNext)) return false;
    if (this.isDropping) {
      this.count += 1;
      this.scheduleNext();
    } else {
      this.enter(now);
    }
    return true;
  }
}

/** The item at hand is the first of a removal from the queue. */
const FIRST = 0;
/** It follows the one with which dropping began, and is served, however long it has waited. */
const AFTER_ENTRY = 1;
/** It follows one that was dropped on schedule. */
const AFTER_DROP = 2;

/**
 * RFC 8289, section 5.5, for a queue. There, one removal drops as many as are due and returns the next; here, each of them is
 * asked about in turn, and what was decided about the one before says how the removal goes on.
 */
export class ControlLawCodel implements CodelControl {
  readonly state: DropState;
  shedCount = 0;
  readonly #backlogGuard: number;
  #step: typeof FIRST | typeof AFTER_ENTRY | typeof AFTER_DROP = FIRST;

  constructor(times: Times, backlogGuard: number) {
    this.state = new DropState(times);
    this.#backlogGuard = backlogGuard;
  }

  get isShedding(): boolean {
    return this.state.isDropping;
  }

  shouldShed(sojournMs: number, now: number, remaining: number): boolean {
    const { state } = this;
    const isStanding = remaining < this.#backlogGuard ? state.clear() : state.isStanding(sojournMs, now);
    this.#step = this.#next(isStanding, now);
    if (this.#step === FIRST) return false;
    this.shedCount += 1;
    return true;
  }

  noteEmpty(now: number): void {
    this.#step = this.#next(this.state.clear(), now);
  }

  /** How the removal goes on after the item at hand; FIRST when it is over, since that item is served. */
  #next(isStanding: boolean, now: number): typeof FIRST | typeof AFTER_ENTRY | typeof AFTER_DROP {
    const { state } = this;
    if (this.#step === AFTER_ENTRY) return FIRST;
    if (!isStanding) {
      state.isDropping = false;
      return FIRST;
    }
    if (!state.isDropping) {
      state.enter(now);
      return AFTER_ENTRY;
    }
    if (this.#step === AFTER_DROP) state.scheduleNext();
    if (now < state.dropNext) return FIRST;
    state.count += 1;
    return AFTER_DROP;
  }
}

/** Sheds by the shortest wait of each interval. An interval begins with the first item after the end of the one before. */
export class IntervalMinimumCodel implements CodelControl {
  /** Whether the shortest wait of the last interval was above the target. */
  isShedding = false;
  shedCount = 0;
  /** The shortest wait in this interval; undefined before there was one. */
  minSojournMs: number | undefined = undefined;
  intervalEnd: number;
  readonly #targetMs: number;
  readonly #intervalMs: number;
  readonly #backlogGuard: number;

  constructor({ targetMs, intervalMs }: Times, now: number, backlogGuard: number) {
    this.#targetMs = targetMs;
    this.#intervalMs = intervalMs;
    this.#backlogGuard = backlogGuard;
    this.intervalEnd = now;
  }

  shouldShed(sojournMs: number, now: number, remaining: number): boolean {
    if (!Number.isFinite(now)) return false;
    // What is not a number is no reason to shed.
    const waitedMs = Number.isNaN(sojournMs) ? 0 : Math.max(0, sojournMs);
    if (this.#startsInterval(waitedMs, now)) return false;
    if (!this.isShedding || waitedMs <= 2 * this.#targetMs || remaining < this.#backlogGuard) return false;
    this.shedCount += 1;
    return true;
  }

  /** A queue that nobody is in does not stand, and what was seen in an interval that is over says nothing about this one. */
  noteEmpty(now: number): void {
    if (this.#startsInterval(0, now)) this.isShedding = false;
  }

  /** Takes in a wait: whether an interval starts with it. */
  #startsInterval(waitedMs: number, now: number): boolean {
    const { minSojournMs } = this;
    // The second comparison is for a clock that has gone back.
    const isOver = now > this.intervalEnd || now + this.#intervalMs < this.intervalEnd;
    if (minSojournMs !== undefined && !isOver) {
      this.minSojournMs = Math.min(minSojournMs, waitedMs);
      return false;
    }
    if (minSojournMs !== undefined) {
      this.isShedding = minSojournMs > this.#targetMs;
      this.intervalEnd = now + this.#intervalMs;
    }
    this.minSojournMs = waitedMs;
    return true;
  }
}
