import { type Ledger, type Numbers, numbersOf, serve, type Waiting } from "./player/ledger.js";
import type { Sight } from "./player/play.js";
import { sameAnswer } from "./player/play.js";
import type { Spec, Step, Trace } from "./player/trace.js";
import type { Mode, World } from "./player/world.js";

/** A step at which the original and headgate were seen to differ. */
export interface Situation {
  readonly trace: Trace;
  readonly mode: Mode;
  readonly index: number;
  readonly step: Step;
  /** What both were like before. */
  readonly before: string;
  readonly theirs: Sight;
  readonly ours: Sight;
  readonly ledger: Ledger;
  readonly world: World;
}

/** A difference that is wanted. */
export interface Difference {
  /** The name of the rule. */
  readonly id: string;
  /** The decision in the design. */
  readonly decision: string;
  /** The public report it answers, or why. */
  readonly answers: string;
  readonly dotnet: string;
  readonly headgate: string;
  /** The most steps that it may explain, as a share of all. */
  readonly most: number;
  /** Whether the two go different ways from there, so that the rest of the trace cannot be compared. */
  readonly parts: boolean;
  /** Whether this is it: the situation is the one, and both did what their rules say. */
  explains(situation: Situation): boolean;
  /** The original's sight as it would be by our rule, where that is not all that can differ in one step. */
  settle?(situation: Situation): Sight;
}

/** The only period in the traces that is no multiple of the original's beat. */
const ODD_MS = 150;
/** How long that lasts in beats. */
const ODD_IN_BEATS_MS = 200;

const RETRY = /RETRY_AFTER=([\d.e+-]+)/;

const retryOf = (answer: string): number => Number(RETRY.exec(answer)?.[1] ?? Number.NaN);

const isNear = (a: number, b: number): boolean => Math.abs(a - b) < 0.0021;

function sameSettled(a: Sight["settled"], b: Sight["settled"]): boolean {
  return Object.keys({ ...a, ...b }).every((id) => sameAnswer(a[id], b[id]));
}

/** The place of the last one that is so; -1 when none is. */
function lastIndexOf<T>(all: readonly T[], isSo: (one: T, place: number) => boolean): number {
  for (let place = all.length - 1; place >= 0; place--) if (isSo(all[place] as T, place)) return place;
  return -1;
}

/** A state with other numbers for one limiter: available, queued, failed, granted added to. */
function changed(state: string, place: number, add: readonly number[]): string {
  return state
    .split(";")
    .map((one, i) =>
      i === place
        ? one
            .split(",")
            .map((part, j) => (add[j] === undefined || add[j] === 0 ? part : String(Number(part) + add[j])))
            .join(",")
        : one,
    )
    .join(";");
}

function withoutIdle(state: string): string {
  return state.replace(/,[^,;]*(;|$)/g, "$1");
}

/** The settled ones with these granted as well; undefined when one of them was settled in another way. */
function alsoGranted(settled: Sight["settled"], served: readonly Waiting[], name: string): Sight["settled"] {
  return { ...settled, ...Object.fromEntries(served.map(({ id }) => [id, `+${name}`])) };
}

const sum = (waiters: readonly Waiting[]): number => waiters.reduce((all, { permits }) => all + permits, 0);

const nameOf = (spec: Spec): string => (spec[0] === "c" ? "REASON_PHRASE" : "RETRY_AFTER");

/** The place in the list of limiters of the one that a target has, in partitions by their only live limiter. */
function placeOf({ trace, world, ours }: Situation, target: number): number {
  if (trace.kind === "single") return 0;
  const spec = trace.leaves[target % trace.leaves.length];
  const states = ours.state.split(";");
  return lastIndexOf(world.specs, (one, i) => one === spec && !(states[i] ?? "D").startsWith("D"));
}

/** Whether only the retry-after of buckets differs, and both are what their rules say. */
function onlyBucketRetriesDiffer(situation: Situation): boolean {
  const { before, theirs, ours, step, ledger } = situation;
  if (sameAnswer(theirs.result, ours.result) && sameSettled(theirs.settled, ours.settled)) return false;
  const was = numbersOf(before);
  const is = numbersOf(theirs.state);
  // The last one that counted a failure is the one that refused; a chain only shows the sum.
  const place = lastIndexOf(is, (now, i) => now?.[2] !== undefined && now[2] > (was[i]?.[2] ?? 0));
  const pairs: [number, string, string][] = [[step.o[2] ?? 0, theirs.result, ours.result]];
  for (const id of Object.keys({ ...theirs.settled, ...ours.settled })) {
    pairs.push([ledger.permits.get(Number(id)) ?? 0, theirs.settled[id] ?? "", ours.settled[id] ?? ""]);
  }
  return pairs.every(([permits, a, b], i) => {
    if (sameAnswer(a, b)) return true;
    if (a.replace(RETRY, "") !== b.replace(RETRY, "") || !RETRY.test(a)) return false;
    // One that waited elsewhere was refused with what came after.
    const numbers = i === 0 && step.o[0] !== "d" ? was[place] : is[place];
    const [retry, ourRetry] = bucketRetries(situation, place, permits, numbers);
    return isNear(retryOf(a), retry) && isNear(retryOf(b), ourRetry);
  });
}

/** The part of a token in the bucket at a place after this step, as the original reckons. */
function partIn({ kind }: Trace, { f = [] }: Step, place: number): number {
  return f[kind === "chain" ? place - 1 : place] ?? 0;
}

/** What the original's bucket and ours answer to a request for so many permits. */
function bucketRetries(
  { ledger, world, trace, mode }: Situation,
  place: number,
  permits: number,
  numbers: Numbers,
): [number, number] {
  const spec = ledger.specAt(place);
  if (spec?.[0] !== "t") return [Number.NaN, Number.NaN];
  const [, limit, , newest, periodMs, , perPeriod] = spec;
  const [available = limit, queued = 0] = numbers ?? [];
  const theirs = Math.max(1, Math.trunc((permits - available + queued) / perPeriod)) * periodMs;
  const now = world.clock.now();
  const wanted = Math.max(1, permits) + (newest === 1 ? 0 : queued);
  if (mode === "auto" && (trace.kind === "single" || trace.kind === "chain")) {
    // What a step brings beyond the brim is lost.
    const beyond = perPeriod > limit ? Math.max(0, wanted - limit) : 0;
    const steps = Math.ceil(Math.max(0, wanted - available - beyond) / perPeriod) + Math.ceil(beyond / limit);
    const boundary = Math.floor(now / periodMs + 1e-9) * periodMs;
    return [theirs, boundary + Math.max(1, steps) * periodMs - now];
  }
  const lastFull = ledger.lastFull[place] ?? 0;
  const part = lastFull > ledger.lastTick ? 0 : ledger.partAt(place);
  const since = Math.max(ledger.lastTick, lastFull);
  const needed = Math.max(1, wanted - available);
  return [theirs, Math.max(0, ((needed - part) * periodMs) / perPeriod - (now - since))];
}

/** Whether this is what is seen when so many tokens come to a limiter that is alone, and waiters are served. */
function isAfter(
  sight: Sight,
  before: string,
  queue: readonly Waiting[],
  gained: number,
  name: string,
): boolean {
  const [available = 0] = numbersOf(before)[0] ?? [];
  const { served } = serve(queue, available + gained);
  const taken = sum(served);
  return (
    sameSettled(sight.settled, alsoGranted({}, served, name)) &&
    withoutIdle(sight.state) === withoutIdle(changed(before, 0, [gained - taken, -taken, 0, served.length]))
  );
}

/** The number of the first leaf of a chain's second part. */
const SECOND_PART = 100;

export const DIFFERENCES: readonly Difference[] = [
  {
    id: "never-throws",
    decision: "D-3",
    answers: "one way to handle errors, also without `await`",
    dotnet: "`AcquireAsync` throws range and disposed errors before it returns a task.",
    headgate: "`acquire` returns a promise that rejects with the same error.",
    most: 0.02,
    parts: false,
    explains({ theirs, ours }) {
      return /^!!(range|disposed|factory)$/.test(theirs.result) && ours.result === theirs.result.slice(1);
    },
    settle: ({ theirs }) => ({ ...theirs, result: theirs.result.slice(1) }),
  },
  {
    id: "bucket-retry-after",
    decision: "C-14",
    answers: "dotnet/runtime#129036, dotnet/runtime#77991",
    dotnet:
      "A token bucket's retry-after is whole periods, cut off, whatever time has passed, and counts those who wait in both orders.",
    headgate:
      "It is the time until the tokens are there: exact, less the time that has passed, those ahead included.",
    most: 0.02,
    parts: false,
    explains: onlyBucketRetriesDiffer,
    settle: ({ theirs, ours }) => ({ ...theirs, result: ours.result, settled: ours.settled }),
  },
  {
    id: "abort-lets-others-through",
    decision: "D-4",
    answers: "dotnet/runtime#77180",
    dotnet:
      "When the waiter that blocked the queue is cancelled, those behind it wait for the next release or replenishment.",
    headgate: "They are granted in the turn of the abort, as far as order and permits allow.",
    most: 0.02,
    parts: true,
    explains(situation) {
      const { step, theirs, ours, ledger } = situation;
      const [letter, id = -1] = step.o;
      const left = ledger.waiting.find((waiter) => waiter.id === id);
      if (letter !== "c" || left === undefined || theirs.settled[id] !== "!cancelled") return false;
      const place = placeOf(situation, left.target);
      const spec = ledger.specAt(place);
      const available = numbersOf(theirs.state)[place]?.[0];
      if (spec === undefined || available === undefined) return false;
      const queue = ledger.queue(left.target, spec[3] === 1).filter((waiter) => waiter !== left);
      const { served } = serve(queue, available);
      const taken = sum(served);
      return (
        served.length > 0 &&
        sameSettled(ours.settled, alsoGranted(theirs.settled, served, nameOf(spec))) &&
        ours.state === changed(theirs.state, place, [-taken, -taken, 0, served.length])
      );
    },
  },
  {
    id: "chain-goes-on-in-turn",
    decision: "invariant 3",
    answers: "hand-overs that others can slip in between",
    dotnet:
      "A chain of partitioned limiters goes on to its second part some time after the first was granted, on another thread.",
    headgate:
      "It goes on in the turn of the hand-over, so that the partition of the second part is still there.",
    most: 0.02,
    parts: true,
    explains({ trace, step, theirs, ours }) {
      return (
        trace.kind === "partchain" &&
        step.o[0] === "z" &&
        ours.result === theirs.result &&
        sameSettled(ours.settled, theirs.settled) &&
        ours.made.length === 0 &&
        theirs.made.length > 0 &&
        theirs.made.every((key) => key >= SECOND_PART)
      );
    },
  },
  {
    id: "full-bucket-earns-nothing",
    decision: "C-14, D-6",
    answers: "a burst of up to twice the limit",
    dotnet:
      "A bucket that was full is credited, at the first replenishment after it was used, for the time that it spent full.",
    headgate: "Time spent full is not saved up.",
    most: 0.02,
    parts: true,
    explains(situation) {
      const { trace, step, before, theirs, ours, ledger, world } = situation;
      const spec = ledger.specAt(0);
      if (trace.kind !== "single" || spec?.[0] !== "t" || spec[7] === 1 || step.o[0] !== "r") return false;
      const [, limit, , newest, periodMs, , perPeriod] = spec;
      const [available = 0] = numbersOf(before)[0] ?? [];
      const tokensSince = (since: number, part: number) =>
        Math.min(limit, available + part + ((world.clock.now() - since) * perPeriod) / periodMs);
      const queue = ledger.queue(0, newest === 1);
      const lastFull = ledger.lastFull[0] ?? 0;
      const credited = tokensSince(ledger.lastCredit, ledger.partAt(0));
      const earned = tokensSince(
        Math.max(ledger.lastTick, lastFull),
        lastFull >= ledger.lastTick ? 0 : ledger.partAt(0),
      );
      return (
        lastFull > ledger.lastCredit &&
        Math.floor(credited + 1e-9) > Math.floor(earned + 1e-9) &&
        isAfter(theirs, before, queue, Math.floor(credited + 1e-9) - available, nameOf(spec)) &&
        isAfter(ours, before, queue, Math.floor(earned + 1e-9) - available, nameOf(spec))
      );
    },
  },
  {
    id: "zero-permits-need-a-whole-token",
    decision: "C-14, D-8",
    answers: "dotnet/runtime#118192",
    dotnet: "A replenishment grants a waiter for 0 permits whatever part of a token is there.",
    headgate: "It is granted when a whole token is there, as an attempt for 0 is.",
    most: 0.02,
    parts: true,
    explains({ step, theirs, ours, ledger }) {
      if (!"ry".includes(step.o[0])) return false;
      const was = numbersOf(theirs.state);
      const hasPart = was.some(
        (now, i) => ledger.specAt(i)?.[0] === "t" && now?.[0] === 0 && (step.f?.length ?? 0) > 0,
      );
      const early = Object.keys(theirs.settled).filter((id) => ours.settled[id] === undefined);
      const isForNothing = early.every(
        (id) => ledger.permits.get(Number(id)) === 0 && theirs.settled[id]?.startsWith("+"),
      );
      const others = Object.fromEntries(Object.entries(theirs.settled).filter(([id]) => !early.includes(id)));
      // They count as granted once, in every limiter that they came to.
      const isRest = numbersOf(ours.state).every((now, i) => {
        const more = (was[i]?.[3] ?? 0) - (now?.[3] ?? 0);
        return [0, 1, 2].every((j) => now?.[j] === was[i]?.[j]) && more >= 0 && more <= early.length;
      });
      return hasPart && early.length > 0 && isForNothing && isRest && sameSettled(others, ours.settled);
    },
  },
  {
    id: "exact-tokens",
    decision: "C-14, D-14",
    answers: "a waiter served one beat late",
    dotnet: "Tokens are a sum of fractions: ten tenths of a token are 0.9999999999999999.",
    headgate: "Whole tokens and an exact remainder: ten tenths are one.",
    most: 0.02,
    parts: true,
    explains(situation) {
      const { trace, step, before, theirs, ours, ledger } = situation;
      if (step.o[0] !== "r") return false;
      const isShort = (place: number) =>
        ledger.specAt(place)?.[0] === "t" && partIn(trace, step, place) > 1 - 1e-9;
      const [was, is] = [numbersOf(theirs.state), numbersOf(ours.state)];
      const place = is.findIndex((_, i) => isShort(i));
      const spec = ledger.specAt(place);
      if (spec === undefined) return false;
      const [available = 0, queued = 0] = was[place] ?? [];
      const [ourAvailable = 0, ourQueued = 0] = is[place] ?? [];
      if (trace.kind !== "single") {
        // One token more, there or with somebody who goes on to the next limiter of the chain.
        const isBefore = is.every((now, i) => i === 0 || i >= place || now?.join() === was[i]?.join());
        const isGrant = Object.entries(ours.settled).every(
          ([id, answer]) => theirs.settled[id] === answer || answer.startsWith("+"),
        );
        return isBefore && isGrant && ourAvailable - available + (queued - ourQueued) === 1;
      }
      const queue = ledger.queue(0, spec[3] === 1);
      const gained =
        available +
        sum(queue.filter(({ id }) => theirs.settled[id] !== undefined)) -
        (numbersOf(before)[0]?.[0] ?? 0);
      return isAfter(ours, before, queue, gained + 1, nameOf(spec));
    },
  },
  {
    id: "chain-gives-back",
    decision: "C-19, D-9",
    answers: "dotnet/runtime#113314, dotnet/aspnetcore#60852",
    dotnet: "When a later limiter of a chain refuses, what a window or bucket before it gave is lost.",
    headgate: "It goes back, as long as it still counts.",
    most: 0.02,
    parts: true,
    explains(situation) {
      const { trace, index, step, theirs, ours, ledger } = situation;
      if (trace.kind !== "chain" && trace.kind !== "partchain") return false;
      const ended = [[index, theirs.result] as const, ...Object.entries(theirs.settled)]
        .filter(([, answer]) => /^[-!]/.test(answer))
        .map(([id]) => (Number(id) === index ? (step.o[2] ?? 0) : (ledger.permits.get(Number(id)) ?? 0)));
      const most = ended.reduce((all, permits) => all + permits, 0);
      const [was, is] = [numbersOf(theirs.state), numbersOf(ours.state)];
      let givenBack = 0;
      const isRest = is.every((now, place) => {
        const spec = ledger.specAt(place);
        const more = (now?.[0] ?? 0) - (was[place]?.[0] ?? 0);
        const isSame = [1, 2, 3].every((i) => now?.[i] === was[place]?.[i]);
        if (spec === undefined || more === 0) return isSame;
        givenBack += more;
        return "fst".includes(spec[0]) && more > 0 && more <= most && isSame;
      });
      return (
        isRest &&
        givenBack > 0 &&
        sameSettled(theirs.settled, ours.settled) &&
        sameAnswer(theirs.result, ours.result)
      );
    },
  },
  {
    id: "grid-of-periods",
    decision: "C-13",
    answers: "dotnet/runtime#118112, dotnet/runtime#74056",
    dotnet: "A window begins when the timer comes, late or not.",
    headgate: "Windows are a grid from the start: retry-after and idle time count from the boundary.",
    most: 0.02,
    parts: false,
    explains({ trace, step, theirs, ours, ledger, world, mode }) {
      if (trace.skew !== 1 || mode !== "auto") return false;
      const [, , , , periodMs] = ledger.specAt(0) as Spec;
      const now = world.clock.now();
      const boundary = Math.floor(now / periodMs + 1e-9) * periodMs;
      const timer = step.o[0] === "r" ? now : ledger.lastTick;
      const late = timer - boundary;
      const idle = numbersOf(theirs.state)[0]?.[4] ?? -1;
      const ourIdle = numbersOf(ours.state)[0]?.[4] ?? -1;
      const sameButIdle = withoutIdle(theirs.state) === withoutIdle(ours.state);
      const isIdleRight = ourIdle === idle || (idle >= 0 && ourIdle > idle && ourIdle - idle < periodMs);
      const [theirRetry, ourRetry] = [retryOf(theirs.result), retryOf(ours.result)];
      const isRetryRight =
        sameAnswer(theirs.result, ours.result) ||
        (late > 0 &&
          isNear(theirRetry, periodMs - (now - timer)) &&
          isNear(ourRetry, boundary + periodMs - now));
      return sameButIdle && isIdleRight && isRetryRight && sameSettled(theirs.settled, ours.settled);
    },
  },
  {
    id: "partitions-need-no-beat",
    decision: "C-23",
    answers: "dotnet/runtime#118112, dotnet/runtime#68776",
    dotnet: "The windows of a partition begin with a beat of 100 ms, so a window of 150 ms lasts 200.",
    headgate: "Limiters made by the helpers keep their own time: 150 ms are 150 ms.",
    most: 0.02,
    parts: true,
    explains({ trace, before, theirs, ours, ledger, world, mode, step }) {
      if (trace.kind !== "part" || mode !== "auto") return false;
      const [was, is] = [theirs.state.split(";"), ours.state.split(";")];
      const isOdd = ([kind, , , , periodMs]: Spec) => kind === "f" && periodMs === ODD_MS;
      const places = is.flatMap((one, i) => (one === was[i] ? [] : [i]));
      const ageOf = (place: number) => world.clock.now() - (world.madeAt[place] ?? 0);
      if (places.length === 0) {
        if (!sameSettled(theirs.settled, ours.settled)) return false;
        return world.specs.some(
          (spec, i) =>
            isOdd(spec) &&
            theirs.result.replace(RETRY, "") === ours.result.replace(RETRY, "") &&
            isNear(retryOf(ours.result), ODD_MS - (ageOf(i) % ODD_MS)) &&
            isNear(retryOf(theirs.result), Math.max(0, ODD_MS - (ageOf(i) % ODD_IN_BEATS_MS))),
        );
      }
      const grants = { ...theirs.settled };
      const isRight = places.every((place) => {
        const spec = ledger.specAt(place);
        if (spec === undefined || !isOdd(spec)) return false;
        const age = ageOf(place);
        const [available = 0] = numbersOf(before)[place] ?? [];
        const [their, our] = [numbersOf(theirs.state)[place], numbersOf(ours.state)[place]];
        const idleBetween = Number(is[place]?.split(",").at(-1)) - Number(was[place]?.split(",").at(-1));
        // A sleep ends with both full, or gone: since when is what differs.
        if (step.o[0] === "z") return idleBetween % 50 === 0 && Math.abs(idleBetween) < ODD_IN_BEATS_MS;
        const theirsBegins = age % ODD_IN_BEATS_MS === 0;
        const oursBegins = Math.floor(age / ODD_MS) > Math.floor((age - 100) / ODD_MS);
        const key = trace.leaves.indexOf(spec);
        const { served, left } = serve(ledger.queue(key, spec[3] === 1), spec[1]);
        if (oursBegins && !theirsBegins) Object.assign(grants, alsoGranted({}, served, "RETRY_AFTER"));
        else if (theirsBegins && !oursBegins) for (const { id } of served) delete grants[id];
        return (
          step.o[0] === "r" &&
          their?.[0] === (theirsBegins ? left : available) &&
          our?.[0] === (oursBegins ? left : available)
        );
      });
      return isRight && sameSettled(grants, ours.settled);
    },
  },
  {
    id: "factory-faults-are-not-remembered",
    decision: "D-11",
    answers: "one bad moment must not shut a key out for ever",
    dotnet: "A factory that threw is never asked again: its key fails for ever with the same exception.",
    headgate: "The next call for that key tries again.",
    most: 0.02,
    parts: true,
    explains({ theirs, ours, ledger, step }) {
      // The exceptions that it remembers come up once more when it is disposed.
      if (theirs.result === "!aggregate" && "DAi".includes(step.o[0]))
        return ledger.broken.size > 0 && ours.result === "" && ours.state === theirs.state;
      return (
        /^!!?factory$/.test(theirs.result) &&
        theirs.made.length === 0 &&
        ours.made.length > 0 &&
        ours.made.some((key) => ledger.broken.has(key)) &&
        ours.result !== "!factory"
      );
    },
  },
  {
    id: "option-errors",
    decision: "C-11",
    answers: "an error that says whether the type or the value is wrong",
    dotnet: "A number out of range among the options is an `ArgumentException`.",
    headgate: "It is a `RangeError`; a `TypeError` is for a wrong type and for an unknown name.",
    most: 0.02,
    parts: false,
    // Compared where the traces of bad options are played.
    explains: () => false,
  },
];
