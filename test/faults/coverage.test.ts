import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

// Holds the table of README.md against the tests of this folder.

const read = (name: string): string => readFileSync(new URL(name, import.meta.url), "utf8");

const rows = [...read("README.md").matchAll(/^\| H(\d+) \| (\S+) \| ([^|]+) \| ([^|]+) \|$/gm)].map(
  ([, number = "", report = "", , where = ""]) => ({
    number: Number(number),
    report,
    where,
    files: [...where.matchAll(/`([\w-]+\.test\.ts)`/g)].map(([, file = ""]) => file),
  }),
);

/** The numbers in the names of a file's tests, with the reports that they cite. */
const citedIn = (file: string) => [...read(file).matchAll(/\(H(\d+): ([\w./-]+#\d+)/g)];

describe("the table of reported faults", () => {
  it("has each number from 1 to 51 once, in order", () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: 51 }, (_, i) => i + 1));
  });

  it.each(rows)(
    "says where the test of H$number is, or why there is none",
    ({ number, report, where, files }) => {
      if (files.length === 0) expect(where).toMatch(/^(later, with `headgate\/[a-z]+`: |does not apply: )\w/);
      for (const file of files) {
        const cited = citedIn(file).map(([, n, cites]) => `${n} ${cites}`);
        expect(cited).toContain(`${number} ${report}`);
      }
    },
  );

  it("names every file in which a report's number is", () => {
    const inTests = readdirSync(new URL(".", import.meta.url))
      .filter((file) => file.endsWith(".test.ts"))
      .flatMap((file) => [...new Set(citedIn(file).map(([, n]) => `${n} ${file}`))]);
    const inTable = rows.flatMap(({ number, files }) => files.map((file) => `${number} ${file}`));
    expect(inTests.sort()).toEqual(inTable.sort());
  });
});
