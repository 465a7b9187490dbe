import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { describe, expect, it } from "vitest";

// design.md 4.7 and PT-10, with the host's own clock and timers, in processes of their own.

const src = fileURLToPath(new URL("../../src/index.ts", import.meta.url));
const built = await (await rolldown({ input: src })).generate({ format: "iife", name: "headgate" });
const library = built.output[0].code;

const PRELUDE = `
  const { PartitionedRateLimiter, RateLimitPartition, TokenBucketRateLimiter } = headgate;
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const manual = { tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 250, queueLimit: 1, autoReplenishment: false };
  const driven = () => PartitionedRateLimiter.create((key) =>
    RateLimitPartition.get(key, () => new TokenBucketRateLimiter(manual)));
`;

function run(script: string): { readonly status: number | null; readonly out: string; readonly err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module"], {
    input: `${library};${PRELUDE}${script}`,
    encoding: "utf8",
    timeout: 30_000,
  });
  return { status, out: stdout.trim(), err: stderr };
}

describe("a process with partitioned limiters", () => {
  it("T-PT7 PT-10 exits at once when nobody waits, whatever partitions and leases are left", () => {
    const { status, out, err } = run(`
      const window = { permitLimit: 5, windowMs: 86_400_000 };
      for (let i = 0; i < 100; i++) {
        const limiter = PartitionedRateLimiter.create((key) =>
          RateLimitPartition.getFixedWindowLimiter(key, () => window));
        for (let key = 0; key < 100; key++) await limiter.acquire(key);
        driven().attemptAcquire("a");
      }
      console.log(timers());
      process.on("exit", () => console.log(performance.now() < 10_000));
    `);
    expect([status, out, err]).toEqual([0, "0\ntrue", ""]);
  });

  it("R-JS-10 stays while somebody waits in a partition that the beat replenishes, and exits then", () => {
    const { status, out, err } = run(`
      const limiter = driven();
      limiter.attemptAcquire("a");
      console.log((await limiter.acquire("a")).isAcquired, timers());
    `);
    expect([status, out, err]).toEqual([0, "true 0", ""]);
  });

  it("R-JS-10 stays while somebody waits in one of many partitions that the beat replenishes", () => {
    const { status, out } = run(`
      const limiter = driven();
      for (let key = 0; key < 1000; key++) limiter.attemptAcquire(key);
      console.log((await limiter.acquire(900)).isAcquired);
    `);
    // Node says 13 when it runs out of work before the top-level await is over.
    expect([status, out]).toEqual([0, "true"]);
  });

  it("R-JS-10 stays while somebody waits in a partition that replenishes itself", () => {
    const { status, out } = run(`
      const bucket = { tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: 150, queueLimit: 1 };
      const limiter = PartitionedRateLimiter.create((key) =>
        RateLimitPartition.getTokenBucketLimiter(key, () => bucket));
      limiter.attemptAcquire("a");
      console.log((await limiter.acquire("a")).isAcquired, timers());
    `);
    expect([status, out]).toEqual([0, "true 0"]);
  });

  it.each([
    [
      "replenished",
      "tryReplenish() { throw new Error('boom'); }",
      "get idleDurationMs() { return undefined; }",
    ],
    ["dropped", "tryReplenish() { return true; }", "async disposeAsync() { throw new Error('boom'); }"],
  ])(
    "D-12 PT-11 has an unhandled rejection when a limiter that is %s throws and nobody listens",
    (_, ...members) => {
      const { status, out } = run(`
      class Mine extends headgate.ReplenishingRateLimiter {
        get isAutoReplenishing() { return false; }
        get replenishmentPeriodMs() { return 1; }
        get idleDurationMs() { return 60_000; }
        getStatistics() { return undefined; }
        attemptAcquireCore() { return new headgate.NoLimiter().attemptAcquire(); }
        acquireCore() { return this.attemptAcquireCore(); }
        ${members.join("\n")}
      }
      const limiter = PartitionedRateLimiter.create((key) => RateLimitPartition.get(key, () => new Mine()));
      process.once("unhandledRejection", (error) => {
        console.log(error.message);
        process.exit(7);
      });
      limiter.attemptAcquire("a");
      setTimeout(() => {}, 2000);
    `);
      expect([status, out]).toEqual([7, "boom"]);
    },
  );
});
