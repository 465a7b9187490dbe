import type { Operation, Spec, Trace } from "./trace.js";

/*
 * What .NET's own tests say, as rows of our specification. They are run on the original, so that it is the original that
 * our reading of it is checked against, and then replayed on headgate.
 *
 * A row: its name; the limiters, chained where there are several, each as kind:limit:queue:order:period(:segments or tokens
 * per period); "grid" where permits come at whole periods only, "original" where only the original is asked. Then the
 * steps: `t`ry, ac`q`uire (s: with a signal), `c`ancel, `d`ispose the lease of a step, `e`lapse, `r`eplenish, `D`ispose;
 * what comes of it; {who settles, by step}; [available/queued/failed/granted].
 */
const ROWS = `
T-CONC-03 c:1:1:new | q 1 + | q 1 w | d 0 {1+}
T-CONC-04 c:1:2:old | q 1 + | q 1 w | q 1 w | d 0 {1+} | d 1 {2+}
T-CONC-05 c:2:3:new | q 2 + | q 2 w | q 1 w | d 0 {2+} | d 2 {1+}
T-CONC-06 c:1:1:old | t 1 + | q 1 w | q 1 -REASON_PHRASE=Queue limit reached
T-CONC-07 c:1:1:new | t 1 + | q 1 w | q 1 w {1-REASON_PHRASE} | d 0 {2+}
T-CONC-08 c:2:2:new | t 2 + | q 1 w | q 1 w | q 2 w {1- 2-} | d 0 {3+}
T-CONC-09 c:2:1:new | t 2 + | q 1 w | q 2 -REASON_PHRASE=Queue limit reached | d 0 {1+}
T-CONC-11 c:2147483647:2147483647:new | t 2147483647 + | q 3 w | q 2147483647 w {1-} | d 0 {2+}
T-CONC-19 c:1:1:new | q 1 + | q 0 w | d 0 {1+}
T-CONC-20 c:2:2:old | q 2 + | q 1 w | q 1 w | d 0 {1+ 2+}
T-CONC-22 c:3:3:old | t 1 + | t 2 + | q 2 s w | c 2 {2!cancelled} | q 1 w | d 0 {4+} [0/0/0/3]
T-CONC-24 c:1:1:old | t 1 + | q 1 s w | c 1 {1!cancelled} | q 1 w | d 0 {3+}
T-CONC-25 c:2:2:new | t 2 + | q 1 s w | q 1 w | c 1 {1!cancelled} | q 2 w {2-} | d 0 {4+}
T-CONC-29 c:1:3:old | t 1 + | q 1 w | q 1 w | q 1 w | D {1-REASON_PHRASE 2-REASON_PHRASE 3-REASON_PHRASE} | d 0 | t 1 !disposed
T-CONC-31 c:2:3:new | q 1 + | q 2 w | q 1 + | d 0 | d 2 {1+}
T-CONC-32 c:2:3:old | q 1 + | q 2 w | q 1 w | d 0 {1+} | d 1 {2+}
T-CONC-34 c:2:3:old | q 1 + | q 2 w | t 1 - | d 0 {1+}
T-CONC-39 c:100:50:old | t 60 + [40/0/0/1] | q 50 w [40/50/0/1] | q 1 - [40/50/1/1] | t 100 - [40/50/2/1] | d 0 {1+} [50/0/2/2]
T-CONC-40 c:100:50:old | t 0 + [100/0/0/1] | q 0 + [100/0/0/2] | t 100 + [0/0/0/3] | t 0 - [0/0/1/3]
T-CONC-42 c:2:1:old | t 2 + | q 2 -REASON_PHRASE=Queue limit reached
T-FW-01 f:1:1:new:1 grid | t 1 + | t 1 - | d 0 | t 1 - | r 1 | t 1 +
T-FW-04 f:1:2:old:1 grid | q 1 + | q 1 w | q 1 w | r 1 {1+} [0/1/0/2] | r 1 {2+}
T-FW-06 f:1:1:old:1 grid | t 1 + | q 1 w | q 1 -RETRY_AFTER=1
T-FW-08 f:2:2:new:1 grid | t 2 + | q 1 w | q 1 w | q 2 w {1- 2-} | r 1 {3+}
T-FW-09 f:2:1:new:1 grid | t 2 + | q 1 w | q 2 -RETRY_AFTER=1 | r 1 {1+}
T-FW-11 f:2147483647:2147483647:new:1 grid | t 2147483647 + | q 3 w | q 2147483647 w {1-} | r 1 {2+}
T-FW-19 f:1:1:new:1 grid | q 1 + | q 0 w | r 1 {1+}
T-FW-22 f:3:3:old:2 grid | t 1 + | t 2 + | q 2 s w | c 2 {2!cancelled} | q 1 w | r 2 {4+} [2/0/0/3]
T-FW-32 f:2:3:old:1 grid | t 1 + | q 2 w | q 1 w | r 1 {1+} | r 1 {2+}
T-FW-34 f:2:3:old:1 grid | t 1 + | q 2 w | t 1 - | r 1 {1+}
T-FW-39 f:100:50:old:1 grid | t 60 + [40/0/0/1] | q 50 w [40/50/0/1] | q 1 - [40/50/1/1] | t 100 - [40/50/2/1] | r 1 {1+} [50/0/2/2]
T-FW-45 f:2:1:old:20000 grid | t 2 + | q 2 -RETRY_AFTER=20000
T-FW-46 f:2:1:old:20000 grid | t 2 + | q 1 w | q 2 -RETRY_AFTER=20000
T-FW-47 f:3:1:old:20000 grid | t 2 + | q 3 -RETRY_AFTER=20000
T-FW-48 f:2:1:old:20000 | t 2 + | e 19000 | q 2 -RETRY_AFTER=1000 | e 6000 | q 2 -RETRY_AFTER=0
T-SW-07 s:1:1:old:5:2 grid | t 1 + | q 1 w | q 1 -RETRY_AFTER=10
T-SW-11 s:3:2:old:1:3 grid | t 2 + | q 2 w | q 2 - | r 1 | r 1 | r 1 {1+} | q 2 w | r 1 | r 1 | r 1 {6+}
T-SW-23 s:3:3:old:1:2 grid | t 1 + | r 1 | t 2 + | q 2 s w | c 3 {3!cancelled} | q 1 w | r 1 {5+} [0/0/0/3]
T-SW-26 s:2:2:new:1:2 grid | t 2 + | q 1 s w | q 1 w | c 1 {1!cancelled} | r 1 | q 2 w {2-} | r 1 {5+}
T-SW-33 s:3:5:old:1:2 grid | t 3 + | q 2 w | q 2 w | r 1 | r 1 {1+} | r 1 | r 1 {2+}
T-SW-40 s:100:50:old:1:2 grid | t 60 + [40/0/0/1] | q 50 w [40/50/0/1] | r 1 | q 1 - [40/50/1/1] | t 100 - [40/50/2/1] | r 1 {1+} [50/0/2/2]
T-SW-46 s:10:1:old:300000:2 original auto | t 3 + [7/0/0/1] | r 299999 [7/0/0/1] | t 3 + [4/0/0/2] | r 300001 [7/0/0/2]
T-SW-48 s:2:1:old:5000:4 grid | t 2 + | q 1 w | q 2 -RETRY_AFTER=20000
T-SW-49 s:3:1:old:5000:4 grid | t 2 + | q 3 -RETRY_AFTER=20000
T-SW-50 s:1:0:old:5000:4 grid | t 1 + | e 2000 | q 1 -RETRY_AFTER=18000
T-SW-51 s:1:0:old:5000:4 | t 1 + | e 25000 | q 1 -RETRY_AFTER=0
T-SW-53 s:1:1:old:5000:4 grid | t 1 + | t 0 -RETRY_AFTER=20000
T-SW-54 s:4:0:old:2000:4 grid | t 3 + | r 2000 | t 1 + | q 2 -RETRY_AFTER=6000
T-TB-04 t:1:2:old:1:1 grid | q 1 + | q 1 w | q 1 w | r 1 {1+} [0/1/0/2] | r 1 {2+}
T-TB-06 t:1:1:old:1:1 grid | t 1 + | q 1 w | q 1 -RETRY_AFTER=2
T-TB-20 t:2:2:old:1:2 grid | q 2 + | q 1 w | q 1 w | r 1 {1+ 2+}
T-TB-22 t:3:3:old:3:3 | t 3 + | q 2 s w | c 1 {1!cancelled} | q 1 w | r 1 {3+} [0/0/0/2]
T-TB-32 t:2:3:old:1:2 grid | t 1 + | q 2 w | q 1 w | r 1 {1+} | r 1 {2+}
T-TB-39 t:100:50:old:1:30 grid | t 60 + [40/0/0/1] | q 50 w [40/50/0/1] | q 1 - [40/50/1/1] | t 100 - [40/50/2/1] | r 1 {1+} [20/0/2/2]
T-TB-50 t:7:1:old:1:3 grid | t 5 + | t 3 - [2/0/1/1] | r 1 [5/0/1/1] | r 1 [7/0/1/1]
T-TB-53 t:10:1:old:600000:1 original auto | t 3 + [7/0/0/1] | r 599999 [8/0/0/1] | r 600001 [9/0/0/1]
T-TB-54 t:10:1:old:600000:1 | t 3 + [7/0/0/1] | r 599999 [7/0/0/1] | r 600001 [9/0/0/1]
T-CHAIN-09 c:34:4:new c:22:2:new c:13:10:new | t 10 + [3/0/0/1] | t 10 - [3/0/1/1] | q 10 w [2/10/1/1] | d 0 {2+} [3/0/1/2]
R-CORE-7 f:2:3:old:10 grid | t 1 + | q 2 w | t 0 + | q 0 + [1/2/0/3] | r 10 {1+}
R-CORE-8 c:1:0:old | t 1 + | q 0 w | q 0 w | q 1 - | d 0 {1+ 2+} [1/0/1/3]
R-CORE-9 c:1:2:old | t 1 + | q 1 w | q 0 w | d 0 {1+ 2+} [0/0/0/3]
R-CORE-19 c:3:3:old original | t 2 + | q 2 s w | q 1 w | t 1 - | q 0 + | q 1 - | c 1 {1!cancelled} [1/1/2/2] | d 0 {2+} [2/0/2/3]
R-TB-7 t:4:4:new:10:2 original | t 4 + | q 3 w | t 4 -RETRY_AFTER=30
R-TB-8 t:2:2:old:10:1 original | t 2 + | q 0 w | r 5 {1+} [0/0/0/2]
`;

/** A row of the tables, and what is expected of each of its steps. */
export interface Row {
  readonly name: string;
  readonly leaves: readonly Spec[];
  readonly flags: readonly string[];
  readonly steps: readonly ExpectedStep[];
}

interface ExpectedStep {
  readonly operation: Operation;
  readonly result: string;
  readonly settled: Readonly<Record<string, string>>;
  readonly statistics: string | undefined;
}

function parseSpec(text: string, isAuto: boolean): Spec {
  const [kind, limit, queue, order, period = 1, extra = 1] = text.split(":");
  const isSliding = kind === "s";
  return [
    kind as Spec[0],
    Number(limit),
    Number(queue),
    order === "new" ? 1 : 0,
    Number(period),
    isSliding ? Number(extra) : 1,
    isSliding ? 1 : Number(extra),
    isAuto ? 1 : 0,
  ];
}

const STEP = /^([a-zD])(?: (\d+))?( s)?(?: ([^{[ ][^{[]*?))?(?: \{([^}]*)\})?(?: \[([^\]]*)\])?$/;

function parseStep(text: string): ExpectedStep {
  const [, letter = "", number = "0", signal, result = "", settled = "", statistics] = STEP.exec(text) ?? [];
  if (letter === "") throw new Error(`not a step: ${text}`);
  const n = Number(number);
  const operation: Operation =
    letter === "t"
      ? ["t", 0, n]
      : letter === "q"
        ? ["q", 0, n, signal === undefined ? 0 : 1]
        : letter === "D"
          ? ["D"]
          : [letter, n];
  const pairs = settled.split(" ").filter((one) => one !== "");
  return {
    operation,
    result,
    settled: Object.fromEntries(pairs.map((one) => [Number.parseInt(one, 10), one.replace(/^\d+/, "")])),
    statistics: statistics?.replaceAll("/", ","),
  };
}

function parseRow(line: string): Row {
  const [head = "", ...steps] = line.split(" | ");
  const [name = "", ...words] = head.split(" ");
  const flags = words.filter((word) => !word.includes(":"));
  const leaves = words.filter((word) => word.includes(":"));
  return {
    name,
    flags,
    leaves: leaves.map((leaf) => parseSpec(leaf, flags.includes("auto"))),
    steps: steps.map(parseStep),
  };
}

export const TABLES: readonly Row[] = ROWS.trim().split("\n").map(parseRow);

/** What the recorder is asked to do for the tables, a line for each row. */
export function scriptOfTables(): string {
  const lines = TABLES.map(({ name, leaves, flags, steps }, seed) =>
    JSON.stringify({
      seed,
      name,
      leaves,
      kind: leaves.length > 1 ? "chain" : "single",
      ...(flags.includes("grid") ? { grid: 1 } : {}),
      ...(flags.includes("original") ? { original: 1 } : {}),
      steps: steps.map(({ operation }) => operation),
    }),
  );
  return `${lines.join("\n")}\n`;
}

/** How the original differs from a row; empty when it does what the row says. */
export function mismatches(row: Row, trace: Trace): string[] {
  const wrong: string[] = [];
  let state = trace.start;
  for (const [i, expected] of row.steps.entries()) {
    const step = trace.steps[i];
    state = step?.s ?? state;
    const seen = { result: step?.r ?? "", settled: step?.w ?? {} };
    const isRight =
      isAs(expected.result, seen.result) &&
      Object.keys(seen.settled).join() === Object.keys(expected.settled).join() &&
      Object.entries(expected.settled).every(([id, answer]) => isAs(answer, seen.settled[id] ?? "")) &&
      (expected.statistics === undefined || state.startsWith(`${expected.statistics},`));
    if (!isRight)
      wrong.push(`${row.name} step ${i}: ${JSON.stringify(expected)}, .NET ${JSON.stringify(seen)} ${state}`);
  }
  return wrong;
}

/** A bare yes or no stands for one with any metadata. */
function isAs(expected: string, seen: string): boolean {
  return expected === "+" || expected === "-" ? seen.startsWith(expected) : seen === expected;
}
