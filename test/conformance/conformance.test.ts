import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, it } from "vitest";
import { DIFFERENCES } from "./differences.js";
import { withTable } from "./player/differences-table.js";
import { mismatches, scriptOfTables, TABLES } from "./player/tables.js";
import { Tally } from "./player/tally.js";
import { readRecordings } from "./player/trace.js";

describe("runs of .NET's System.Threading.RateLimiting, replayed on headgate", () => {
  const tally = new Tally();

  beforeAll(async () => {
    for (const traces of readRecordings(new URL("traces/", import.meta.url)).values()) {
      for (const trace of traces) await tally.add(trace);
    }
  }, 60_000);

  it("there are at least 3000 traces of at least 150 000 operations, and more than that is compared", () => {
    expect(tally.traces).toBeGreaterThanOrEqual(3000);
    expect(tally.operations).toBeGreaterThanOrEqual(150_000);
    expect(tally.comparedInAll).toBeGreaterThan(tally.operations);
  });

  it("headgate does the same at every step, but for the differences in the table", () => {
    expect(tally.faults.slice(0, 3)).toEqual([]);
  });

  it.each(DIFFERENCES)("the difference $id is seen, and explains at most its share", ({ id, most }) => {
    expect(tally.explained.get(id)).toBeGreaterThan(0);
    expect(tally.shareOf(id)).toBeLessThanOrEqual(most);
    expect(most).toBeLessThanOrEqual(0.02);
  });

  it.each([
    ..."cfst".split("").flatMap((kind) => [`single ${kind}-oldest`, `single ${kind}-newest`]),
    "chain",
    "part",
    "partchain",
    "translated",
    "bad",
  ])("there are traces of %s", (kind) => {
    expect(tally.limiters.get(kind)).toBeGreaterThan(30);
  });

  it.each([
    ["an attempt is granted", "t +REASON_PHRASE"],
    ["an attempt is refused", "t -REASON_PHRASE"],
    ["an attempt is told when to come back", "t -RETRY_AFTER=n"],
    ["a request finds no room in the queue", "q -REASON_PHRASE=Queue limit reached"],
    ["a request finds no room and is told when to come back", "q -RETRY_AFTER=n"],
    ["a waiter is pushed out by a newer one", "evicted"],
    ["a waiter is refused since its limiter is disposed", "D -RETRY_AFTER"],
    ["a waiter is refused since its limiter is disposed asynchronously", "A -RETRY_AFTER"],
    ["a waiter is granted by a release", "d +REASON_PHRASE"],
    ["a waiter is granted by time", "r +RETRY_AFTER"],
    ["a waiter of a chain is refused by a later limiter", "d -REASON_PHRASE=Queue limit reached"],
    ["a waiter is cancelled", "c !cancelled"],
    ["a request is cancelled before it is made", "q !cancelled"],
    ["an attempt is out of range", "t !range"],
    ["a request is out of range", "q !!range"],
    ["an attempt meets a disposed limiter", "t !disposed"],
    ["a request meets a disposed limiter", "q !!disposed"],
    ["a factory throws", "t !factory"],
    ["nothing limits", "t +"],
  ])("it happens that %s", (_what, answer) => {
    expect(tally.answers.get(answer)).toBeGreaterThan(0);
  });
});

describe("the tables of .NET's own tests", () => {
  const traces = readRecordings(new URL("traces/", import.meta.url)).get("tables.jsonl.gz") ?? [];

  it.each(TABLES)("$name: the original does what our specification says", (row) => {
    const trace = traces.find(({ name }) => name === row.name);
    expect(trace).toBeDefined();
    if (trace !== undefined) expect(mismatches(row, trace)).toEqual([]);
  });

  it("they were recorded as they stand now", () => {
    const asked = scriptOfTables()
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line).steps);
    expect(traces.map(({ steps }) => steps.map(({ o }) => o))).toEqual(asked);
  });
});

it("the table of differences in docs/dotnet.md is the one in the code", () => {
  const page = readFileSync(new URL("../../docs/dotnet.md", import.meta.url), "utf8");
  expect(withTable(page)).toBe(page);
});
