import { checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";
import { checkMoment, checkShare, checkWhole } from "./checks.js";
import { DEGRADATION, type EventLoop } from "./event-loop.js";
import type { ServiceModel } from "./server.js";

/**
 * A time in which the server is not itself. One kind of trouble each; overlapping ones add up.
 *
 * - `slowdown`: all work takes that many times as long, also what is left of running work. Overlaps multiply.
 * - `servers`: another number of servers; of overlapping ones the lowest counts. When it falls, running work finishes.
 * - `pause`: nothing moves on, as in a long garbage collection.
 * - `failRate`: this share of the work (0 to 1) finishes as an error.
 *
 * It begins at `fromMs` and ends at `toMs`, in virtual milliseconds. What completes at the very instant at which it begins or
 * ends completes before that: a pause does not hold it up, and a `failRate` that begins does not reach it.
 *
 * @public
 */
export type Degradation = { readonly fromMs: number; readonly toMs: number } & (
  | { readonly slowdown: number }
  | { readonly servers: number }
  | { readonly pause: true }
  | { readonly failRate: number }
);

/** What a server can do at the moment. */
export interface Conditions {
  /** Work done in a millisecond by one server: 1 when all is well, 0 during a pause. */
  speed: number;
  servers: number;
  failRate: number;
}

type Trouble = Degradation & {
  readonly slowdown?: number;
  readonly servers?: number;
  readonly pause?: true;
  readonly failRate?: number;
};

const KINDS = ["slowdown", "servers", "pause", "failRate"] as const;

export function checkDegradation(path: string, degradation: unknown): asserts degradation is Degradation {
  checkOptionNames(degradation, ["fromMs", "toMs", ...KINDS], path);
  const trouble = degradation as Trouble;
  const { fromMs, toMs, slowdown, servers, pause, failRate } = trouble;
  checkMoment(`${path}.fromMs`, fromMs);
  checkNumber(`${path}.toMs`, toMs, `a number above fromMs, ${fromMs}`, (n) => n > fromMs);
  if (KINDS.filter((kind) => trouble[kind] !== undefined).length !== 1) {
    throw wrongType(path, `a degradation with one of ${KINDS.join(", ")}`, degradation);
  }
  if (slowdown !== undefined) {
    const allowed = "a finite number above 0";
    checkNumber(`${path}.slowdown`, slowdown, allowed, (n) => n > 0 && Number.isFinite(n));
  }
  if (servers !== undefined) checkWhole(`${path}.servers`, servers, 0);
  if (pause !== undefined && pause !== true) throw wrongType(`${path}.pause`, "true, or left out", pause);
  if (failRate !== undefined) checkShare(`${path}.failRate`, failRate);
}

function conditionsAt(time: number, servers: number, degradations: readonly Degradation[]): Conditions {
  const conditions: Conditions = { speed: 1, servers, failRate: 0 };
  let fine = 1;
  let fewest = Number.POSITIVE_INFINITY;
  for (const trouble of degradations as readonly Trouble[]) {
    if (time < trouble.fromMs || time >= trouble.toMs) continue;
    if (trouble.slowdown !== undefined) conditions.speed /= trouble.slowdown;
    if (trouble.pause !== undefined) conditions.speed = 0;
    if (trouble.servers !== undefined) fewest = Math.min(fewest, trouble.servers);
    if (trouble.failRate !== undefined) fine *= 1 - trouble.failRate;
  }
  if (fewest !== Number.POSITIVE_INFINITY) conditions.servers = fewest;
  conditions.failRate = 1 - fine;
  return conditions;
}

/** Has the server told of every change of its conditions. */
export function scheduleDegradations(
  loop: EventLoop,
  { servers, degradations = [] }: ServiceModel,
  change: (conditions: Conditions) => void,
): void {
  const edges = new Set(degradations.flatMap(({ fromMs, toMs }) => [fromMs, toMs]));
  for (const time of [...edges].sort((a, b) => a - b)) {
    if (time === Number.POSITIVE_INFINITY) continue;
    loop.at(time, DEGRADATION, { happen: () => change(conditionsAt(time, servers, degradations)) });
  }
}
