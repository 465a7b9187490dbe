import { LimiterDisposedError, type RateLimitLease, type ReplenishingRateLimiter } from "headgate";
import { ManualClock } from "headgate/testing";
import { DIFFERENCES, type Situation } from "../differences.js";
import { Ledger } from "./ledger.js";
import type { Operation, Spec, Step, Trace } from "./trace.js";
import { FactoryFault, type Mode, makeLimiter, makeWorld, statisticsText, type World } from "./world.js";

/** What is seen after one operation, of the original or of headgate. */
export interface Sight {
  result: string;
  settled: Record<string, string>;
  made: readonly number[];
  /** Statistics and idle time of every limiter. */
  state: string;
}

/** What came of playing one trace in one mode. */
export interface Outcome {
  /** How many operations were compared. */
  compared: number;
  /** How many of them were explained by each difference. */
  readonly explained: Map<string, number>;
  /** What nothing explains. */
  fault: string | undefined;
  /** Kinds of answers that were seen, and how often. */
  readonly answers: Map<string, number>;
}

/** The names that the original knows; what else is on a lease is an addition of ours. */
const ORIGINAL_NAMES = new Set(["RETRY_AFTER", "REASON_PHRASE"]);
/** What our leases carry besides, in limiters without and with a period. */
const ADDED_NAMES = "LIMIT REJECTION_REASON REMAINING";
const ADDED_NAMES_WITH_TIME = "LIMIT REJECTION_REASON REMAINING RESET_AFTER";

/** Names in one order; a pause puts `RETRY_AFTER` on concurrency leases too, so they list it beside the reason phrase. */
function inOrder(names: readonly string[]): string {
  const hasPhrase = names.some((name) => name.startsWith("REASON_PHRASE"));
  return names
    .filter((name) => !hasPhrase || name !== "RETRY_AFTER")
    .sort()
    .join("&");
}

function normal(answer: string): string {
  return "+-".includes(answer.charAt(0)) ? answer.charAt(0) + inOrder(answer.slice(1).split("&")) : answer;
}

function leaseText(lease: RateLimitLease): string {
  const names = [...lease.metadataNames];
  const added = names
    .filter((name) => !ORIGINAL_NAMES.has(name))
    .sort()
    .join(" ");
  const values = names
    .filter((name) => ORIGINAL_NAMES.has(name))
    .map((name) => {
      const value = lease.tryGetMetadata(name);
      return value === undefined ? name : `${name}=${value}`;
    });
  const text = inOrder(values);
  const isExpected =
    added === (text === "" ? "" : ADDED_NAMES_WITH_TIME) ||
    (added === ADDED_NAMES && text.startsWith("REASON_PHRASE"));
  const surprise = isExpected ? "" : `?${added}`;
  return (lease.isAcquired ? "+" : "-") + text + surprise;
}

function faultText(error: unknown): string {
  if (error instanceof LimiterDisposedError) return "!disposed";
  if (error instanceof FactoryFault) return "!factory";
  if (error instanceof RangeError) return "!range";
  if (error instanceof TypeError) return "!type";
  if (error instanceof AggregateError) return "!aggregate";
  return `!${String(error)}`;
}

interface Request {
  lease: RateLimitLease | undefined;
  answer: string | undefined;
  controller: AbortController | undefined;
}

class Player {
  readonly #world: World;
  readonly #requests = new Map<number, Request>();
  readonly #newly: Record<string, string> = {};
  #pending = 0;

  constructor(world: World) {
    this.#world = world;
  }

  async perform(index: number, operation: Operation): Promise<Sight> {
    const world = this.#world;
    world.made = [];
    for (const id of Object.keys(this.#newly)) delete this.#newly[id];
    let result: string;
    try {
      result = (await this.#do(index, operation)) ?? "";
    } catch (error) {
      result = faultText(error);
    }
    if (this.#pending > 0) for (let i = 0; i < 6; i++) await undefined;
    const own = this.#requests.get(index);
    if (operation[0] === "q" && own !== undefined) {
      result = own.answer ?? "w";
      delete this.#newly[index];
    }
    return { result, settled: { ...this.#newly }, made: world.made, state: world.observe() };
  }

  #do(
    index: number,
    [letter, first = 0, permits = 0, how = 0]: Operation,
  ): string | undefined | Promise<string> {
    const world = this.#world;
    switch (letter) {
      case "t": {
        const lease = world.attempt(first, permits);
        this.#requests.set(index, { lease, answer: undefined, controller: undefined });
        return leaseText(lease);
      }
      case "q":
        this.#acquire(index, first, permits, how);
        return "";
      case "c":
        this.#requests.get(first)?.controller?.abort();
        return "";
      case "d":
        this.#requests.get(first)?.lease?.dispose();
        return "";
      case "e":
        world.clock.advance(first);
        return "";
      case "r":
        world.tick(first);
        return "";
      case "z":
        world.clock.advance(first);
        return "";
      case "y":
        return String((world.top as ReplenishingRateLimiter).tryReplenish());
      case "x":
        world.failNext.add(first);
        return "";
      case "g":
        return statisticsText(world.statistics(first));
      case "l":
        world.leaves[first]?.dispose();
        return "";
      case "i":
        world.disposeInner();
        return "";
      case "D":
        world.dispose();
        return "";
      case "A":
        return world.disposeAsync().then(() => "");
      default:
        throw new Error(`unknown operation ${letter}`);
    }
  }

  #acquire(index: number, target: number, permits: number, how: number): void {
    const controller = how === 0 ? undefined : new AbortController();
    if (how === 2) controller?.abort();
    const request: Request = { lease: undefined, answer: undefined, controller };
    this.#requests.set(index, request);
    this.#pending += 1;
    const settle = (answer: string) => {
      this.#pending -= 1;
      request.answer = answer;
      this.#newly[index] = answer;
    };
    this.#world.acquire(target, permits, controller?.signal).then(
      (lease) => {
        request.lease = lease;
        settle(leaseText(lease));
      },
      (error: unknown) => {
        const isAbort = controller?.signal.aborted === true && error === controller.signal.reason;
        settle(isAbort ? "!cancelled" : faultText(error));
      },
    );
  }
}

const RETRY = /RETRY_AFTER=([\d.e+-]+)/;

/** Whether two answers are the same; retry-after may be off by a rounding. */
export function sameAnswer(a: string | undefined, b: string | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  const [x, y] = [RETRY.exec(a), RETRY.exec(b)];
  if (x === null || y === null || a.replace(RETRY, "") !== b.replace(RETRY, "")) return false;
  return Math.abs(Number(x[1]) - Number(y[1])) < 0.0015;
}

function sameSight(a: Sight, b: Sight): boolean {
  if (a.state !== b.state || !sameAnswer(a.result, b.result)) return false;
  if (a.made.join() !== b.made.join()) return false;
  const ids = Object.keys(a.settled);
  return (
    ids.length === Object.keys(b.settled).length &&
    ids.every((id) => sameAnswer(a.settled[id], b.settled[id]))
  );
}

/** Whether a trace can be played in this mode. */
export function isPlayable(trace: Trace, mode: Mode): boolean {
  const replenishes = [...trace.leaves, ...(trace.second ?? [])].some(([kind]) => "fst".includes(kind));
  if (mode === "auto") return replenishes && trace.grid === 1 && trace.original === undefined;
  // A bucket that replenishes itself gets a whole period whenever its timer comes.
  const trustsTimer =
    trace.wild === 1 &&
    !isPartitioned(trace) &&
    trace.leaves.some(([kind, , , , , , , auto]) => kind === "t" && auto === 1);
  return trace.original === undefined && trace.skew === undefined && !trustsTimer;
}

function isPartitioned({ kind }: Trace): boolean {
  return kind !== "single" && kind !== "chain";
}

/** Plays a trace on headgate and compares every step. Stops at the first difference that nothing explains. */
export async function play(trace: Trace, mode: Mode): Promise<Outcome> {
  const outcome: Outcome = { compared: 0, explained: new Map(), fault: undefined, answers: new Map() };
  const explain = (id: string) => outcome.explained.set(id, (outcome.explained.get(id) ?? 0) + 1);
  if (trace.kind === "bad") {
    let made = "made";
    try {
      makeLimiter(trace.leaves[0] as Spec, mode, new ManualClock());
    } catch (error) {
      made = faultText(error);
    }
    outcome.compared = 1;
    if (made === "!range" && trace.r === "!argument") explain("option-errors");
    else outcome.fault = `seed ${trace.seed}: .NET ${trace.r}, headgate ${made}`;
    return outcome;
  }
  const world = makeWorld(trace, mode);
  const player = new Player(world);
  const ledger = new Ledger(trace, world.specs);
  let before = trace.start;
  if (world.observe() !== before) outcome.fault = `seed ${trace.seed} at the start: ${world.observe()}`;
  for (const [index, step] of trace.steps.entries()) {
    if (outcome.fault !== undefined) break;
    let theirs = sightOf(step, before, mode);
    const ours = await player.perform(index, step.o);
    outcome.compared += 1;
    countAnswers(outcome.answers, trace, step.o, theirs);
    let hasParted = false;
    while (!sameSight(ours, theirs)) {
      const situation: Situation = { trace, mode, index, step, before, theirs, ours, ledger, world };
      const found = DIFFERENCES.find((difference) => difference.explains(situation));
      if (found === undefined) {
        outcome.fault = faultReport(situation);
        break;
      }
      explain(found.id);
      hasParted ||= found.parts;
      // What one rule explains is set aside; the rest is looked at again.
      if (found.settle === undefined) break;
      theirs = found.settle(situation);
    }
    if (hasParted) break;
    ledger.note(index, step, before, theirs, world.clock.now());
    before = theirs.state;
  }
  return outcome;
}

function faultReport({ trace, mode, index, step, before, theirs, ours }: Situation): string {
  const { seed, kind, leaves, second } = trace;
  return [
    `seed ${seed} (${mode}) step ${index} ${JSON.stringify(step.o)} of ${JSON.stringify([kind, leaves, second])}`,
    `  before   ${before}`,
    `  .NET     ${JSON.stringify(theirs)}`,
    `  headgate ${JSON.stringify(ours)}`,
  ].join("\n");
}

function sightOf(step: Step, before: string, mode: Mode): Sight {
  // Whether a limiter replenishes by itself is ours to choose here.
  const result = step.o[0] === "y" && step.r !== "!disposed" ? String(mode === "manual") : (step.r ?? "");
  const settled = Object.fromEntries(
    Object.entries(step.w ?? {}).map(([id, answer]) => [id, normal(answer)]),
  );
  return { result: normal(result), settled, made: step.k ?? [], state: step.s ?? before };
}

/** Counts the kinds of answers, by the letter of the operation that brought them. */
function countAnswers(answers: Map<string, number>, trace: Trace, [letter]: Operation, sight: Sight): void {
  const add = (kind: string) => answers.set(kind, (answers.get(kind) ?? 0) + 1);
  const settled = Object.values(sight.settled);
  for (const answer of [sight.result, ...settled]) {
    if (answer !== "") add(`${letter} ${answer.replace(/=[\d.]+/, "=n").replace(/^\d.*/, "n")}`);
  }
  if (letter === "q" && trace.kind === "single" && settled.some((answer) => answer.startsWith("-")))
    add("evicted");
}
