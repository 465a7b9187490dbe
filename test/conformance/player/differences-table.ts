import { DIFFERENCES } from "../differences.js";

const BEGIN = "<!-- differences: made by `npm run conformance -- --table` -->";
const END = "<!-- /differences -->";

/** The table of differences as it stands in the docs, with its markers. */
function differencesTable(): string {
  const rows = DIFFERENCES.map(
    ({ id, decision, dotnet, headgate, answers }) =>
      `| \`${id}\` (${decision}) | ${dotnet} | ${headgate} | ${linked(answers)} |`,
  );
  return [
    BEGIN,
    "",
    "| difference | .NET 11 | headgate | why |",
    "| --- | --- | --- | --- |",
    ...rows,
    "",
    END,
  ].join("\n");
}

/** A page with the table as it is now. */
export function withTable(page: string): string {
  const [start, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (start < 0 || end < start) throw new Error("the page has no markers for the table");
  return page.slice(0, start) + differencesTable() + page.slice(end + END.length);
}

/** Reports of public repositories, as links. */
function linked(text: string): string {
  return text.replace(
    /(dotnet\/\w+)#(\d+)/g,
    (name, repository, number) => `[${name}](https://github.com/${repository}/issues/${number})`,
  );
}
