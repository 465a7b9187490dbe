import { checkNumber, checkOptionNames, wrongType } from "../../src/internal.js";
import type { Arrival, ArrivalProcess } from "./arrivals.js";
import { checkMoment, checkString, checkWhole } from "./checks.js";

const ARRIVAL_MEMBERS = ["atMs", "serviceMs", "tenant", "priority", "permitCount", "data"] as const;

/**
 * Customers who are listed one by one, such as those of a log.
 *
 * @param records - In any order; those of the same time keep their order. Read once, at once, and copied (but not `data`).
 * @throws TypeError or RangeError when a record has a member of the wrong type, an unknown one, or one out of range; the
 * message says which, as `records[2].atMs`.
 *
 * @example
 * ```ts
 * import { traceArrivals } from "headgate/simulator";
 *
 * const burst = traceArrivals(Array.from({ length: 5000 }, () => ({ atMs: 0, serviceMs: 200 })));
 * ```
 *
 * @public
 */
export function traceArrivals(records: Iterable<Arrival>): ArrivalProcess {
  if (typeof (records as Partial<Iterable<Arrival>> | null | undefined)?.[Symbol.iterator] !== "function") {
    throw wrongType("records", "something to iterate over, such as an array", records);
  }
  const arrivals: Arrival[] = [];
  for (const record of records) arrivals.push(copyOf(record, `records[${arrivals.length}]`));
  arrivals.sort((a, b) => a.atMs - b.atMs);
  return {
    description: `trace of ${arrivals.length} arrivals`,
    start() {
      let given = 0;
      return { next: () => arrivals[given++] };
    },
  };
}

function copyOf(record: Arrival, name: string): Arrival {
  checkOptionNames(record, ARRIVAL_MEMBERS, name);
  const { atMs, serviceMs, tenant, priority, permitCount, data } = record;
  checkMoment(`${name}.atMs`, atMs);
  if (serviceMs !== undefined) checkMoment(`${name}.serviceMs`, serviceMs);
  if (tenant !== undefined) checkString(`${name}.tenant`, tenant);
  if (priority !== undefined)
    checkNumber(`${name}.priority`, priority, "a safe integer", Number.isSafeInteger);
  if (permitCount !== undefined) checkWhole(`${name}.permitCount`, permitCount, 0);
  return { atMs, serviceMs, tenant, priority, permitCount, data };
}
