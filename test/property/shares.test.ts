import fc from "fast-check";
import type { RateLimitLease } from "headgate";
import { AdaptiveConcurrencyLimiter, SettableLimit } from "headgate/adaptive";
import { expect, it } from "vitest";
import { CountingController, ManualClock } from "../support.js";
import { EFFORT, SEED, settle } from "./support.js";

const NAMES = ["unknown", "live", "batch"] as const;
type Name = (typeof NAMES)[number];

type Operation =
  | { readonly kind: "acquire"; readonly name: Name; readonly permits: number; readonly leaves: boolean }
  | { readonly kind: "attempt"; readonly name: Name; readonly permits: number }
  | { readonly kind: "release" | "abort" | "adjust"; readonly which: number; readonly permits: number }
  | { readonly kind: "limit"; readonly limit: number };

interface Held {
  readonly name: Name;
  readonly lease: RateLimitLease;
  permits: number;
}

interface Waiting {
  readonly name: Name;
  readonly permits: number;
  readonly controller: CountingController;
  lease: RateLimitLease | undefined;
  isOver: boolean;
}

const name = fc.constantFrom(...NAMES);
const which = fc.nat(20);
const permits = fc.integer({ min: 1, max: 4 });
const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc.record({ kind: fc.constant("acquire" as const), name, permits, leaves: fc.boolean() }),
  fc.record({ kind: fc.constant("attempt" as const), name, permits }),
  fc.record({
    kind: fc.constantFrom("release" as const, "release" as const, "abort" as const, "adjust" as const),
    which,
    permits,
  }),
  fc.record({ kind: fc.constant("limit" as const), limit: fc.integer({ min: 0, max: 12 }) }),
);

/** The rules, written down a second time and without a queue. */
class Rules {
  readonly isHard: boolean;
  readonly shares: Record<Name, number>;
  limit = 0;
  highest = 0;
  readonly held: Record<Name, number> = { unknown: 0, live: 0, batch: 0 };

  constructor(shares: Record<"live" | "batch", number>, isHard: boolean, limit: number) {
    this.shares = { unknown: 0, ...shares };
    this.isHard = isHard;
    this.setLimit(limit);
  }

  setLimit(limit: number): void {
    this.limit = limit;
    this.highest = Math.max(this.highest, limit);
  }

  get inFlight(): number {
    return this.held.unknown + this.held.live + this.held.batch;
  }

  part(of: Name): number {
    return of === "unknown" || this.limit === 0
      ? 0
      : Math.max(1, Math.ceil(this.limit * this.shares[of] - 1e-9));
  }

  /** What would never come back cannot be waited for. */
  #overdraws(of: Name, count: number, isWaiting: boolean): boolean {
    if (this.limit === 0 || (!isWaiting && count > this.highest)) return false;
    if (this.isHard && of === "unknown") return false;
    if (this.inFlight === 0) return true;
    return !this.isHard && of !== "unknown" && isWaiting && this.held[of] === 0 && count > this.limit;
  }

  fits(of: Name, count: number, isWaiting: boolean): boolean {
    if (this.#overdraws(of, count, isWaiting)) return true;
    const free = this.limit - this.inFlight;
    const own = this.part(of) - this.held[of];
    if (!this.isHard) return count <= free || count <= own;
    const others = NAMES.filter((other) => other !== of);
    const kept = others.reduce((sum, other) => sum + Math.max(0, this.part(other) - this.held[other]), 0);
    return count <= free && (count <= own || count <= free - kept);
  }
}

it.each(["soft", "hard"] as const)(
  "shares by the %s rule: nobody is granted too much, and nobody waits who could go",
  async (shareRule) => {
    let steps = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(operation, { minLength: 20, maxLength: 60 }),
        fc.constantFrom([0.5, 0.3], [0.7, 0.3], [0, 1], [0.07, 0.2]),
        fc.integer({ min: 1, max: 10 }),
        async (operations, [live = 0, batch = 0], initial) => {
          const clock = new ManualClock();
          const limit = new SettableLimit(initial);
          const limiter = new AdaptiveConcurrencyLimiter({
            limit,
            shares: { live, batch },
            shareRule,
            queueLimit: 6,
            clock,
          });
          const rules = new Rules({ live, batch }, shareRule === "hard", initial);
          const held: Held[] = [];
          const waiting: Waiting[] = [];
          const pending = () => waiting.filter((one) => !one.isOver);

          const check = async (what: string) => {
            await settle();
            for (const one of waiting) {
              if (one.lease === undefined || one.isOver) continue;
              one.isOver = true;
              if (!one.lease.isAcquired) continue;
              held.push({ name: one.name, lease: one.lease, permits: one.permits });
              rules.held[one.name] += one.permits;
            }
            const statistics = limiter.getStatistics();
            expect(statistics.inFlight, what).toBe(rules.inFlight);
            for (const of of NAMES) {
              const share = statistics.shares.get(of);
              expect(share, what).toEqual({
                permitLimit: rules.part(of),
                inFlight: rules.held[of],
                queued: pending()
                  .filter((one) => one.name === of)
                  .reduce((sum, one) => sum + one.permits, 0),
              });
              const first = pending().find((one) => one.name === of);
              if (first !== undefined && rules.fits(of, first.permits, true)) {
                throw new Error(`${what}: ${first.permits} would fit for the first who waits in ${of}`);
              }
            }
            expect(clock.timerCount, what).toBe(0);
          };

          for (const [i, one] of operations.entries()) {
            steps += 1;
            const what = `step ${i}, ${JSON.stringify(one)}`;
            switch (one.kind) {
              case "attempt": {
                const isFree = pending().every((other) => other.name !== one.name);
                const expected = isFree && rules.fits(one.name, one.permits, false);
                const lease = limiter.forShare(one.name).attemptAcquire(one.permits);
                expect(lease.isAcquired, what).toBe(expected);
                if (!expected) break;
                held.push({ name: one.name, lease, permits: one.permits });
                rules.held[one.name] += one.permits;
                break;
              }
              case "acquire": {
                const controller = new CountingController();
                const asked: Waiting = {
                  name: one.name,
                  permits: one.permits,
                  controller,
                  lease: undefined,
                  isOver: false,
                };
                waiting.push(asked);
                limiter
                  .forShare(one.name)
                  .acquire(one.permits, { signal: controller.signal })
                  .then(
                    (lease) => {
                      asked.lease = lease;
                    },
                    () => {
                      asked.isOver = true;
                    },
                  );
                break;
              }
              case "abort":
                pending()[one.which % Math.max(1, pending().length)]?.controller.abort();
                break;
              case "release": {
                const [gone] = held.splice(one.which % Math.max(1, held.length), 1);
                if (gone === undefined) break;
                rules.held[gone.name] -= gone.permits;
                gone.lease.report("success");
                gone.lease.dispose();
                break;
              }
              case "adjust": {
                const changed = held[one.which % Math.max(1, held.length)];
                if (changed === undefined) break;
                rules.held[changed.name] += one.permits - changed.permits;
                changed.permits = one.permits;
                changed.lease.adjust(one.permits);
                break;
              }
              case "limit":
                rules.setLimit(one.limit);
                limit.setLimit(one.limit);
                break;
            }
            await check(what);
          }
          rules.setLimit(100);
          limit.setLimit(100);
          await check("the limit raised at the end");
          while (held.length > 0) {
            for (const one of held.splice(0)) {
              rules.held[one.name] -= one.permits;
              one.lease.dispose();
            }
            await check("all given back at the end");
          }
          // By the hard rule, work without a share may have been left nothing at all.
          const stuck = pending().filter((one) => shareRule === "soft" || one.name !== "unknown");
          expect(stuck).toEqual([]);
          for (const one of pending()) one.controller.abort();
          await check("those aborted who are left");
          for (const one of waiting) expect(one.controller.listeners).toBe(0);
        },
      ),
      { seed: SEED, numRuns: 300 * EFFORT },
    );
    console.log(`shares, ${shareRule}: ${steps} steps checked`);
  },
);
