import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";

// Real processes with real timers, on the built library (`npm run build`).

const library = new URL("../../dist/src/index.js", import.meta.url).href;

/** Runs a script in a process of its own; it is stopped after 20 s. */
function run(script: string) {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["--input-type=module"], {
    input: `import * as headgate from ${JSON.stringify(library)};
      const { ConcurrencyLimiter, FixedWindowRateLimiter, PartitionedRateLimiter, RateLimitPartition } = headgate;
      const { SlidingWindowRateLimiter, TokenBucketRateLimiter } = headgate;
      const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
      ${script}`,
    encoding: "utf8",
    timeout: 20_000,
  });
  return { status, stdout, stderr };
}

const WINDOWS: readonly (readonly [name: string, make: (ms: string) => string])[] = [
  [
    "a fixed window",
    (ms) => `new FixedWindowRateLimiter({ permitLimit: 1, windowMs: ${ms}, queueLimit: 1 })`,
  ],
  [
    "a sliding window",
    (ms) =>
      `new SlidingWindowRateLimiter({ permitLimit: 1, windowMs: ${ms}, segmentsPerWindow: 2, queueLimit: 1 })`,
  ],
  [
    "a bucket",
    (ms) =>
      `new TokenBucketRateLimiter({ tokenLimit: 1, tokensPerPeriod: 1, replenishmentPeriodMs: ${ms}, queueLimit: 1 })`,
  ],
  [
    "a partition",
    (ms) =>
      `PartitionedRateLimiter.create(() => RateLimitPartition.getFixedWindowLimiter("key", () => ({
        permitLimit: 1, windowMs: ${ms}, queueLimit: 1 }))).forResource("key")`,
  ],
];

describe.each(WINDOWS)("a process that has used %s", (_, make) => {
  it("ends at once when nobody waits (H18: sindresorhus/p-queue#163)", () => {
    // A timer that held it would hold it for 60 s, and it is stopped after 20.
    const { status, stdout, stderr } = run(`
      const limiter = ${make("60_000")};
      console.log((await limiter.acquire()).isAcquired);
    `);
    expect([status, stdout, stderr]).toEqual([0, "true\n", ""]);
  });

  it("stays until whoever waits is served (H18: sindresorhus/p-queue#163)", () => {
    const { status, stdout, stderr } = run(`
      const limiter = ${make("300")};
      await limiter.acquire();
      limiter.acquire().then((lease) => console.log(lease.isAcquired));
    `);
    expect([status, stdout, stderr]).toEqual([0, "true\n", ""]);
  });
});

describe("30 days", () => {
  it("are no overflow: limits hold, waiters wait, and nothing is warned of (H22: animir/node-rate-limiter-flexible#71)", () => {
    const { status, stdout, stderr } = run(`
      const days = 30 * 24 * 3600_000;
      const waits = [];
      const wait = (name, promise) => promise.then(() => waits.push(name));
      const limiters = [${WINDOWS.map(([, make]) => make("days")).join(",")}];
      for (const [i, limiter] of limiters.entries()) {
        await limiter.acquire();
        wait("period " + i, limiter.acquire());
      }
      const options = { permitLimit: 1, queueLimit: 9, queueTimeoutMs: days };
      const running = new ConcurrencyLimiter(options);
      running.attemptAcquire();
      wait("time-out", running.acquire());
      wait("patience", running.acquire({ maxWaitMs: days }));
      const paused = new ConcurrencyLimiter(options);
      paused.pause(days);
      wait("pause", paused.acquire());
      const idle = PartitionedRateLimiter.create(
        (key) => RateLimitPartition.getConcurrencyLimiter(key, () => options),
        { idleLimitMs: days },
      );
      idle.attemptAcquire("key").dispose();
      await after(50);
      console.log(limiters.map((limiter) => limiter.attemptAcquire().isAcquired).join());
      console.log(waits.join(), idle.size);
      process.exit();
    `);
    expect(stderr).toBe("");
    expect([status, stdout]).toEqual([0, "false,false,false,false\n 1\n"]);
  });
});

describe("an error in the background", () => {
  /** Uses four partitions, which are idle 50 ms later; prints which errors came up, and which partitions went. */
  const sweep = (bad: string, options = "") => `
    const caught = new Set(), disposed = [];
    process.on("unhandledRejection", (error) => caught.add(error.message));
    process.on("uncaughtException", (error) => caught.add(error.message));
    const start = performance.now();
    const isIdle = () => performance.now() - start > 50;
    class Idle extends headgate.RateLimiter {
      attemptAcquireCore() { return new headgate.NoLimiter().attemptAcquire(); }
      getStatistics() {}
      get idleDurationMs() { return isIdle() ? 1000 : 0; }
    }
    const limiter = PartitionedRateLimiter.create(
      (key) => RateLimitPartition.get(key, () => {
        const limiter = new Idle();
        if (key === "bad") Object.defineProperty(limiter, ${bad});
        else limiter.disposeCore = () => disposed.push(key);
        return limiter;
      }),
      { idleLimitMs: 50, ${options} },
    );
    for (const key of ["a", "bad", "b", "c"]) {
      try { limiter.attemptAcquire(key); } catch (error) { caught.add("a caller got " + error.message); }
    }
    for (let i = 0; i < 100 && (disposed.length < 3 || caught.size < 1); i++) await after(10);
    console.log([...caught].join(), disposed.sort().join());
    process.exit();
  `;
  const onDispose = `"disposeAsync", { value: async () => { throw new Error("dispose"); } }`;
  const onIdle = (when: string) =>
    `"idleDurationMs", { get() { if (${when}) throw new Error("idle"); return 0; } }`;

  it.each([
    ["a dispose", onDispose, "dispose"],
    ["an idle time", onIdle("isIdle()"), "idle"],
  ])(
    "of %s is one that nobody handles, when there is no hook (H10: dotnet/runtime#68776)",
    (_, bad, error) => {
      expect(run(sweep(bad))).toEqual({ status: 0, stdout: `${error} a,b,c\n`, stderr: "" });
    },
  );

  it.each([
    ["a dispose", onDispose],
    ["an idle time", onIdle("isIdle()")],
    ["an idle time that a caller comes upon", onIdle("true")],
  ])("of %s stops nobody, though the hook that is told throws too (H10: dotnet/runtime#68776)", (_, bad) => {
    const throwingHook = `onBackgroundError: (error) => { throw new Error("hook"); }`;
    expect(run(sweep(bad, throwingHook))).toEqual({ status: 0, stdout: "hook a,b,c\n", stderr: "" });
  });
});
