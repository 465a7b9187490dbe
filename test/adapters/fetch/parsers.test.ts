import fc from "fast-check";
import { parseRateLimit, parseRetryAfter } from "headgate/fetch";
import { describe, expect, it, vi } from "vitest";

const NOW = Date.UTC(2026, 10, 30, 12, 0, 0);

describe("parseRetryAfter", () => {
  it("reads dates against the response's own date, else against now", () => {
    const value = "Mon, 30 Nov 2026 12:00:10 GMT";
    expect(parseRetryAfter(value, { now: NOW })).toBe(10_000);
    expect(parseRetryAfter(value, { now: NOW, date: "Mon, 30 Nov 2026 12:00:08 GMT" })).toBe(2000);
    expect(parseRetryAfter(value, { now: NOW, date: "not a date" })).toBe(10_000);
    expect(parseRetryAfter(value, { now: NOW, date: null })).toBe(10_000);
    vi.spyOn(Date, "now").mockReturnValue(NOW + 1000);
    expect(parseRetryAfter(value)).toBe(9000);
  });

  it("takes a year of two digits for the latest that is not more than 50 years ahead", () => {
    const now = Date.UTC(2026, 0, 1);
    const yearOf = (value: string) =>
      new Date(now + (parseRetryAfter(value, { now }) ?? Number.NaN)).getUTCFullYear();
    expect(yearOf("Sunday, 01-Mar-76 00:00:00 GMT")).toBe(2076);
    // 1977, which is over; in 2077 the first of March is a Monday.
    expect(parseRetryAfter("Tuesday, 01-Mar-77 00:00:00 GMT", { now })).toBe(0);
    expect(parseRetryAfter("Monday, 01-Mar-77 00:00:00 GMT", { now })).toBeUndefined();
    // Seen from 1999, 05 is ahead.
    expect(parseRetryAfter("Saturday, 01-Jan-05 00:00:00 GMT", { now: Date.UTC(2004, 11, 31, 23) })).toBe(
      HOUR,
    );
  });
  const HOUR = 3_600_000;

  it("takes the second 60, and no hour, minute or second above", () => {
    const at = (time: string) => parseRetryAfter(`Mon, 30 Nov 2026 ${time} GMT`, { now: NOW });
    expect(at("12:00:60")).toBe(60_000);
    for (const time of ["24:00:00", "12:60:00", "12:00:61", "1:00:00", "12:00"])
      expect(at(time)).toBeUndefined();
  });

  it("knows which years have a 29th of February", () => {
    expect(parseRetryAfter("Tue, 29 Feb 2028 00:00:00 GMT", { now: NOW })).toBeGreaterThan(0);
    expect(parseRetryAfter("Mon, 29 Feb 2027 00:00:00 GMT", { now: NOW })).toBeUndefined();
    expect(parseRetryAfter("Mon, 00 Nov 2026 00:00:00 GMT", { now: NOW })).toBeUndefined();
    expect(parseRetryAfter("Thu, 01 Jan 0001 00:00:00 GMT", { now: NOW })).toBeUndefined();
    expect(parseRetryAfter("Mon, 01 Jan 0001 00:00:00 GMT", { now: NOW })).toBe(0);
  });

  it.each([
    "mon, 30 Nov 2026 12:00:10 GMT",
    "Mon, 30 nov 2026 12:00:10 GMT",
    "Mon, 30 Nov 2026 12:00:10 UTC",
    "Mon, 30 Nov 2026 12:00:10 +0000",
    "Mon, 30 Nov 2026 12:00:10",
    "Mon,30 Nov 2026 12:00:10 GMT",
    "x Mon, 30 Nov 2026 12:00:10 GMT",
    "Mon, 30 Nov 2026 12:00:10 GMT, 5",
    "Mon, 30-Nov-26 12:00:10 GMT",
    "Mon Nov 30 12:00:10 2026 GMT",
    "٣",
    "1\u00a0",
  ])("does not take %s", (value) => {
    expect(parseRetryAfter(value, { now: NOW })).toBeUndefined();
  });

  it("answers with a number from 0 to maxMs, or not at all, whatever it is given", () => {
    const value = fc.oneof(
      fc.string(),
      fc.stringMatching(/^[ \t]?[-+]?\d{1,30}(\.\d+)?[ \t]?$/),
      fc.date({ noInvalidDate: true }).map((date) => date.toUTCString()),
    );
    fc.assert(
      fc.property(value, value, fc.nat(), (text, date, maxMs) => {
        const answer = parseRetryAfter(text, { date, maxMs, now: NOW });
        expect(answer === undefined || (answer >= 0 && answer <= maxMs)).toBe(true);
        if (/^[ \t]*\d+[ \t]*$/.test(text)) expect(answer).toBe(Math.min(Number(text) * 1000, maxMs));
      }),
      { numRuns: 2000 },
    );
  });

  it("reads what the host writes, to the second", () => {
    fc.assert(
      fc.property(
        fc.date({ min: new Date(NOW), max: new Date("9999-12-31T23:59:59Z"), noInvalidDate: true }),
        (date) => {
          const expected = Math.floor(date.getTime() / 1000) * 1000 - NOW;
          expect(parseRetryAfter(date.toUTCString(), { now: NOW })).toBe(expected);
        },
      ),
    );
  });

  it("a long value of the wrong kind takes no time", () => {
    for (const value of [
      " ".repeat(1e6),
      `1${" ".repeat(1e6)}x`,
      "9".repeat(1e6),
      `${"\t ".repeat(5e5)}1 `,
    ]) {
      const start = performance.now();
      parseRetryAfter(value);
      expect(performance.now() - start).toBeLessThan(5000);
    }
  });

  it("says what is wrong with its arguments", () => {
    expect(() => parseRetryAfter(5 as never)).toThrow("value must be a string, or null; got 5.");
    expect(() => parseRetryAfter("5", { now: Number.NaN })).toThrow(RangeError);
    expect(() => parseRetryAfter("5", { maxMs: -1 })).toThrow(RangeError);
    expect(() => parseRetryAfter("5", { max: 1 } as never)).toThrow("options.max is not an option");
    expect(parseRetryAfter(undefined)).toBeUndefined();
    expect(parseRetryAfter(null)).toBeUndefined();
  });
});

describe("parseRateLimit", () => {
  it("puts each quota together with its policy", () => {
    const headers = new Headers({
      ratelimit:
        '"burst";r=5;t=1, "daily";r=0;t=30;pk=:AAA=:, "bad";r=x;t=1, ("inner");r=0;t=1, 5;r=0, "bare";r=2',
      "ratelimit-policy": '"daily";q=100;w=86400, "burst";q=10',
    });
    expect(parseRateLimit(headers)).toEqual([
      { name: "burst", remaining: 5, resetMs: 1000, quota: 10, windowMs: undefined },
      { name: "daily", remaining: 0, resetMs: 30_000, quota: 100, windowMs: 86_400_000 },
      { name: "bare", remaining: 2, resetMs: undefined, quota: undefined, windowMs: undefined },
    ]);
  });

  it("reads the older forms only when asked to", () => {
    const dictionary = new Headers({ ratelimit: "limit=10, remaining=3, reset=7" });
    expect(parseRateLimit(dictionary)).toEqual([]);
    expect(parseRateLimit(dictionary, "ratelimit-draft6")).toEqual([
      { name: "", remaining: 3, resetMs: 7000, quota: 10, windowMs: undefined },
    ]);
    const malformed = new Headers({ ratelimit: "limit=10, remaining=!" });
    expect(parseRateLimit(malformed, "ratelimit-draft6")).toEqual([]);
    const three = new Headers({ "ratelimit-remaining": "3", "ratelimit-reset": "-1" });
    expect(parseRateLimit(three, "ratelimit-draft6")).toMatchObject([{ remaining: 3, resetMs: undefined }]);
    expect(parseRateLimit(new Headers({ "x-ratelimit-remaining": "1e2" }), "x-ratelimit")).toEqual([]);
    expect(parseRateLimit(new Headers(), "x-ratelimit")).toEqual([]);
  });

  it("never throws, and never says less than 0, whatever a server sends", () => {
    const field = fc.oneof(
      fc.string({ unit: "binary-ascii" }),
      fc.stringMatching(/^"[a-z]{0,3}"(;[rtawq]=[-"\d.]{1,17}){0,4}(, ?"x";r=0;t=9)?$/),
    );
    fc.assert(
      fc.property(
        field,
        field,
        fc.constantFrom("ratelimit", "ratelimit-draft6", "x-ratelimit"),
        (a, b, format) => {
          const headers = {
            get: (name: string) => (name.endsWith("policy") || name.endsWith("reset") ? b : a),
          };
          for (const { remaining, resetMs } of parseRateLimit(headers, format as "ratelimit")) {
            expect(Number.isSafeInteger(remaining) && remaining >= 0).toBe(true);
            expect(resetMs === undefined || (resetMs >= 0 && Number.isSafeInteger(resetMs))).toBe(true);
          }
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("says what is wrong with its format", () => {
    expect(() => parseRateLimit(new Headers(), "draft" as never)).toThrow(TypeError);
  });
});
