import { PartitionedRateLimiter, RateLimitPartition } from "headgate";
import { leased, limitConcurrency, limitConcurrencyBy, rateLimit, rateLimitBy } from "headgate/rxjs";
import { catchError, concat, EMPTY, map, merge, NEVER, type Observable, of, take, throwError } from "rxjs";
import { describe, expect, it } from "vitest";
import { look, marbles } from "./support.js";

/** Has a stream fail with the reason or the code of its error, which is easier to draw. */
const reasoned = <T>(source: Observable<T>): Observable<T> =>
  source.pipe(
    catchError((error: { readonly reason?: string; readonly code?: string }) =>
      throwError(() => error.reason ?? error.code ?? error),
    ),
  );
const NO_JITTER = { jitter: 0 };

/** Work drawn with an x, which stands for the value it is for. */
const drawn =
  (cold: (marbles: string) => Observable<string>, picture: string) =>
  (value: string): Observable<string> =>
    cold(picture).pipe(map((letter) => (letter === "x" ? value : letter)));

describe("this run", () => {
  it("has the RxJS that it is for", async () => {
    const { default: manifest } = await import("rxjs/package.json", { with: { type: "json" } });
    expect(manifest.version).toBe(process.env["RXJS"] ?? "7.8.2");
  });
});

describe("limitConcurrency with a number", () => {
  it("M01 works on one value at a time", () => {
    marbles(({ cold, expectObservable }) => {
      const result = cold("abc|").pipe(limitConcurrency(1, drawn(cold, "--x|")));
      expectObservable(result).toBe("--a--b--c|");
    });
  });

  it("M02 works on two at a time", () => {
    marbles(({ cold, expectObservable }) => {
      const result = cold("abcd|").pipe(limitConcurrency(2, drawn(cold, "---(x|)")));
      expectObservable(result).toBe("---ab-c(d|)");
    });
  });

  it("M03 makes nobody wait whom it need not", () => {
    marbles(({ cold, expectObservable }) => {
      const result = cold("abc|").pipe(limitConcurrency(10, drawn(cold, "--x|")));
      expectObservable(result).toBe("--abc|");
    });
  });

  it("M18 ends with an error when more values wait than may", () => {
    marbles(({ cold, expectObservable }) => {
      const result = cold("abcd|").pipe(limitConcurrency(1, drawn(cold, "-----x|"), { buffer: { size: 2 } }));
      expectObservable(reasoned(result)).toBe("---#", undefined, "ERR_BUFFER_OVERFLOW");
    });
  });

  it("M19 lets the newest value go when asked to", () => {
    marbles(({ cold, expectObservable }) => {
      const buffer = { size: 2, overflow: "dropNewest" } as const;
      const result = cold("abcd|").pipe(limitConcurrency(1, drawn(cold, "-----(x|)"), { buffer }));
      expectObservable(result).toBe("-----a----b----(c|)");
    });
  });

  it("M20 lets the oldest value go when asked to", () => {
    marbles(({ cold, expectObservable }) => {
      const buffer = { size: 2, overflow: "dropOldest" } as const;
      const result = cold("abcd|").pipe(limitConcurrency(1, drawn(cold, "-----(x|)"), { buffer }));
      expectObservable(result).toBe("-----a----c----(d|)");
    });
  });

  it("M25 passes on an empty source", () => {
    marbles(({ cold, expectObservable }) => {
      expectObservable(cold("|").pipe(limitConcurrency(1, () => EMPTY))).toBe("|");
    });
  });

  it("M26 passes on a source that fails at once", () => {
    marbles(({ cold, expectObservable }) => {
      expectObservable(cold("#").pipe(limitConcurrency(1, () => EMPTY))).toBe("#");
    });
  });

  it("M27 keeps the order of work that is done at once", () => {
    marbles(({ cold, expectObservable }) => {
      const result = cold("(abc|)").pipe(limitConcurrency(1, (value) => of(value)));
      expectObservable(result).toBe("(abc|)");
    });
  });

  it("M39 works on a hot source", () => {
    marbles(({ cold, hot, expectObservable }) => {
      const result = hot("--a--b-c-|").pipe(limitConcurrency(1, drawn(cold, "---(x|)")));
      expectObservable(result).toBe("-----a--b--(c|)");
    });
  });

  it("M40 passes on all that the work emits", () => {
    marbles(({ cold, expectObservable }) => {
      const result = cold("ab|").pipe(limitConcurrency(1, drawn(cold, "x-x|")));
      expectObservable(result).toBe("a-ab-b|");
    });
  });
});

describe("limitConcurrency with a limiter", () => {
  it("M04 shares it with another stream", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const limiter = limiters.concurrency(1, 10);
      const work = drawn(cold, "---(x|)");
      const a = cold("a-c|").pipe(limitConcurrency(limiter, work));
      const b = cold("-b|").pipe(limitConcurrency(limiter, work));
      expectObservable(merge(a, b)).toBe("---a--b--(c|)");
    });
  });

  it("M08 ends with an error when the limiter refuses", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("a-b|").pipe(limitConcurrency(limiters.concurrency(1, 0), drawn(cold, "----x|")));
      expectObservable(reasoned(result)).toBe("--#", undefined, "limit_reached");
    });
  });

  it("M09 lets a refused value go when asked to", () => {
    marbles(({ cold, limiters, flush, expectObservable }) => {
      const limiter = limiters.concurrency(1, 0);
      const work = drawn(cold, "----x|");
      const result = cold("a-b----c|").pipe(limitConcurrency(limiter, work, { onRejected: "drop" }));
      expectObservable(result).toBe("----a------c|");
      flush();
      expect(look(limiter).refused).toBe(1);
    });
  });

  it("M10 puts something else in the place of a refused value", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("a-b|").pipe(
        limitConcurrency(limiters.concurrency(1, 0), drawn(cold, "----x|"), {
          onRejected: () => ({ action: "replace", with: of("z") }),
        }),
      );
      expectObservable(result).toBe("--z-a|");
    });
  });

  it("M13 gives everything back before it passes on that the source has failed", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("ab#").pipe(limitConcurrency(limiters.concurrency(1, 9), drawn(cold, "-----x|")));
      expectObservable(result).toBe("--#");
    });
  });

  it("M14 gives everything back before it passes on that work has failed", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("ab|").pipe(limitConcurrency(limiters.concurrency(1, 9), drawn(cold, "--#")));
      expectObservable(result).toBe("--#");
    });
  });

  it("M15 gives everything back in the turn in which it is unsubscribed", () => {
    marbles(({ cold, limiters, scheduler, expectObservable }) => {
      const limiter = limiters.concurrency(1, 9);
      const result = cold("ab").pipe(limitConcurrency(limiter, drawn(cold, "-x------|")));
      expectObservable(result, "---!").toBe("-a");
      const seen: unknown[] = [];
      for (const frame of [2, 3]) {
        scheduler.schedule(() => {
          const { available, queuedRequests } = look(limiter);
          seen.push([frame, available, queuedRequests]);
          if (frame === 3)
            expect(seen).toEqual([
              [2, 0, 1],
              [3, 1, 0],
            ]);
        }, frame);
      }
    });
  });

  it("M16 ends when the limiter is disposed while a value waits", () => {
    marbles(({ cold, limiters, scheduler, expectObservable }) => {
      const limiter = limiters.concurrency(1, 9);
      const result = cold("ab|").pipe(limitConcurrency(limiter, drawn(cold, "-----x|")));
      scheduler.schedule(() => limiter.dispose(), 3);
      expectObservable(reasoned(result)).toBe("---#", undefined, "limiter_disposed");
    });
  });

  it("M17 works on one value after the other when asked to, whatever the limiter has left", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const limiter = limiters.concurrency(2, 9);
      const result = cold("abc|").pipe(limitConcurrency(limiter, drawn(cold, "-x-|"), { order: "concat" }));
      expectObservable(result).toBe("-a--b--c-|");
    });
  });

  it("M21 M21b asks for all values at once when asked to, so that the limiter ranks them; else only for the oldest", () => {
    for (const [admission, picture] of [
      ["eager", "---a--2--(1|)"],
      ["head", "---a--1--(2|)"],
    ] as const) {
      marbles(({ cold, limiters, expectObservable }) => {
        const result = cold("a12|").pipe(
          limitConcurrency(limiters.priority(1, 9), drawn(cold, "---(x|)"), {
            admission,
            priority: (value) => Number(value) || 0,
          }),
        );
        expectObservable(result).toBe(picture);
      });
    }
  });

  it("M28 gives the lease back when project throws", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("ab|").pipe(
        limitConcurrency(limiters.concurrency(1, 9), (value) => {
          if (value === "b") throw "error";
          return cold("-(x|)").pipe(map(() => value));
        }),
      );
      expectObservable(result).toBe("-(a#)");
    });
  });

  it("M29 gives everything back when the consumer has had enough", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const limiter = limiters.concurrency(2, 9);
      const result = cold("abc").pipe(limitConcurrency(limiter, drawn(cold, "-x---|")), take(1));
      expectObservable(result).toBe("-(a|)");
    });
  });

  it("M30 completes when the last work does", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("(ab|)").pipe(limitConcurrency(limiters.concurrency(1, 9), drawn(cold, "--(x|)")));
      expectObservable(result).toBe("--a-(b|)");
    });
  });

  it("M31 ends work that never ends by itself", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("a|").pipe(limitConcurrency(limiters.concurrency(1, 9), () => NEVER));
      expectObservable(result, "-----!").toBe("");
    });
  });

  it("M36 M36b takes turns with other streams, unless it asks for all values at once", () => {
    for (const [admission, picture] of [
      ["head", "--a-b-y-(c|)"],
      ["eager", "--a-b-c-(y|)"],
    ] as const) {
      marbles(({ cold, limiters, expectObservable }) => {
        const limiter = limiters.concurrency(1, 10);
        const work = drawn(cold, "--(x|)");
        const a = cold("(abc|)").pipe(limitConcurrency(limiter, work, { admission }));
        const b = cold("-y|").pipe(limitConcurrency(limiter, work));
        expectObservable(merge(a, b)).toBe(picture);
      });
    }
  });
});

describe("limitConcurrencyBy", () => {
  it("M22 M23 lets tenants pass one another, unless there is one lane for all", () => {
    for (const [options, picture] of [
      [{}, "-----a-z--(b|)"],
      [{ lane: false }, "-----a----(bz|)"],
    ] as const) {
      marbles(({ cold, limiters, expectObservable }) => {
        const perTenant = PartitionedRateLimiter.create((tenant: string) =>
          RateLimitPartition.get(tenant, () => limiters.concurrency(1, 9)),
        );
        const tenantOf = (value: string): string => (value === "z" ? "R" : "L");
        const result = cold("abz|").pipe(
          limitConcurrencyBy(perTenant, tenantOf, drawn(cold, "-----(x|)"), options),
        );
        expectObservable(result).toBe(picture);
      });
    }
  });
});

describe("rateLimit", () => {
  it("M06 paces by a window", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      expectObservable(cold("(abcde|)").pipe(rateLimit(limiters.window(2, 10, 10)))).toBe(
        "(ab)------(cd)------(e|)",
      );
    });
  });

  it("M07 paces by a bucket", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      expectObservable(cold("(abcd|)").pipe(rateLimit(limiters.bucket(2, 5, 10)))).toBe("(ab)-c----(d|)");
    });
  });

  it("M11 asks again when the limiter says", () => {
    marbles(({ cold, limiters, flush, expectObservable }) => {
      const limiter = limiters.window(1, 10, 0);
      const result = cold("(abc|)").pipe(rateLimit(limiter, { onRejected: NO_JITTER }));
      expectObservable(result).toBe("a---------b---------(c|)");
      flush();
      expect(look(limiter).refused).toBe(2);
    });
  });

  it("M12 ends with an error when the limiter refuses", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("(ab|)").pipe(rateLimit(limiters.window(1, 10, 0)));
      expectObservable(reasoned(result)).toBe("(a#)", undefined, "limit_reached");
    });
  });

  it("M24 takes as many permits as a value needs", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("(1221|)").pipe(rateLimit(limiters.window(3, 10, 9), { permitCount: Number }));
      expectObservable(result).toBe("(12)------(21|)");
    });
  });

  it("M32 lets a value through that comes with the permit it needs", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      expectObservable(cold("a----b----c|").pipe(rateLimit(limiters.bucket(1, 5, 9)))).toBe("a----b----c|");
    });
  });

  it("M33 passes an error on at once, past those who wait", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      expectObservable(cold("ab-#").pipe(rateLimit(limiters.window(1, 10, 9)))).toBe("a--#");
    });
  });

  it("M34 lets refused values go when asked to", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const result = cold("ab---c-d|").pipe(rateLimit(limiters.window(1, 4, 0), { onRejected: "drop" }));
      expectObservable(result).toBe("a----c--|");
    });
  });
});

describe("rateLimitBy", () => {
  it("M37 M38 keeps the order of each key, or with one lane of all", () => {
    for (const [options, picture] of [
      [{}, "(az)------(b|)"],
      [{ lane: false }, "a---------(bz|)"],
    ] as const) {
      marbles(({ cold, limiters, expectObservable }) => {
        const perKey = PartitionedRateLimiter.create((key: string) =>
          RateLimitPartition.get(key, () => limiters.window(1, 10, 9)),
        );
        const keyOf = (value: string): string => (value === "z" ? "R" : "L");
        expectObservable(cold("(abz|)").pipe(rateLimitBy(perKey, keyOf, options))).toBe(picture);
      });
    }
  });
});

describe("leased", () => {
  it("M05 has given the lease back when the next stream of a concat asks for it", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const limiter = limiters.concurrency(1, 0);
      expectObservable(concat(cold("-a-|").pipe(leased(limiter)), cold("-b-|").pipe(leased(limiter)))).toBe(
        "-a--b-|",
      );
    });
  });

  it("M35 is empty when the limiter refuses and that is to be dropped", () => {
    marbles(({ cold, limiters, expectObservable }) => {
      const limiter = limiters.concurrency(1, 0);
      const a = cold("---a|").pipe(leased(limiter));
      const b = cold("-b|").pipe(leased(limiter, { onRejected: "drop" }));
      expectObservable(merge(a, b)).toBe("---a|");
    });
  });
});
