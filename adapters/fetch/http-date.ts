const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`;
const MONTH = `(?<month>${MONTHS.join("|")})`;
const DAY = `(?<weekday>${DAYS.map((day) => day.slice(0, 3)).join("|")})`;

/** The three forms in which RFC 9110 lets a server write a date; in none of them is the letter case free. */
const FORMS = [
  // Sun, 06 Nov 1994 08:49:37 GMT
  new RegExp(String.raw`^${DAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT$`),
  // Sunday, 06-Nov-94 08:49:37 GMT
  new RegExp(String.raw`^(?<weekday>${DAYS.join("|")}), (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT$`),
  // Sun Nov  6 08:49:37 1994
  new RegExp(String.raw`^${DAY} ${MONTH} (?<day>[ \d]\d) ${TIME} (?<year>\d{4})$`),
];

/** The moment, in milliseconds since 1970; undefined when there is no such day, hour or weekday. */
function momentOf(year: number, parts: Record<string, string | undefined>): number | undefined {
  const [day, hour, minute, second] = [parts["day"], parts["hour"], parts["minute"], parts["second"]].map(
    Number,
  ) as [number, number, number, number];
  const month = MONTHS.indexOf(parts["month"] as string);
  // A leap second is a moment too; it is the first of the next minute.
  if (hour > 23 || minute > 59 || second > 60) return undefined;
  const date = new Date(0);
  // Not Date.UTC, which takes the years 0 to 99 for 1900 to 1999.
  date.setUTCFullYear(year, month, day);
  if (date.getUTCMonth() !== month || date.getUTCDate() !== day) return undefined;
  if (!DAYS[date.getUTCDay()]?.startsWith((parts["weekday"] as string).slice(0, 3))) return undefined;
  return date.setUTCHours(hour, minute, second);
}

/** The year that two digits mean: the latest that is not more than 50 years ahead. */
function fullYear(twoDigits: number, now: number): number {
  const latest = new Date(now).getUTCFullYear() + 50;
  return latest - ((((latest - twoDigits) % 100) + 100) % 100);
}

/**
 * Reads a date as HTTP writes it. `Date.parse` is no use here: it makes the year 2001 of `-1` and the year 120 of `120`.
 *
 * @returns Milliseconds since 1970; undefined for everything else.
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  for (const form of FORMS) {
    const parts = form.exec(text)?.groups;
    if (parts === undefined) continue;
    const written = parts["year"] as string;
    return momentOf(written.length === 2 ? fullYear(Number(written), now) : Number(written), parts);
  }
  return undefined;
}
