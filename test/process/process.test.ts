import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import vm from "node:vm";
import { rolldown } from "rolldown";
import { describe, expect, it } from "vitest";

const entry = fileURLToPath(new URL("../../dist/src/index.js", import.meta.url));

/** The built library (`npm run build`) as one script that leaves its exports in `headgate`. */
async function bundle(): Promise<string> {
  const built = await rolldown({ input: entry });
  const { output } = await built.generate({ format: "iife", name: "headgate" });
  return output[0].code;
}
const code = await bundle();

/** Runs a script in a process of its own, where `headgate` is loaded. */
function run(script: string): {
  readonly status: number | null;
  readonly stdout: string;
  readonly ms: number;
} {
  const start = performance.now();
  const child = spawnSync(process.execPath, ["--input-type=module"], {
    input: `${code};\n${script}`,
    encoding: "utf8",
    timeout: 30_000,
  });
  if (child.stderr !== "" && child.status === 0) throw new Error(child.stderr);
  return { status: child.status, stdout: child.stdout, ms: performance.now() - start };
}

describe("a process", () => {
  it("that only awaits a lease stays until it is granted, and then exits by itself", () => {
    const { status, stdout } = run(`
      const limiter = new headgate.ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
      limiter.pause(200);
      const lease = await limiter.acquire();
      console.log(lease.isAcquired);
    `);
    expect([status, stdout]).toEqual([0, "true\n"]);
  });

  it("that only awaits a lease stays until its patience is over", () => {
    const { status, stdout } = run(`
      const limiter = new headgate.ConcurrencyLimiter({ permitLimit: 1, queueLimit: 1 });
      limiter.attemptAcquire();
      console.log((await limiter.acquire(1, { maxWaitMs: 100 })).reason);
    `);
    expect([status, stdout]).toEqual([0, "queue_timeout\n"]);
  });

  it("exits at once when nobody waits, whatever limiters and leases are left, paused or not (H18)", () => {
    const { status, stdout } = run(`
      for (let i = 0; i < 1000; i++) {
        const limiter = new headgate.ConcurrencyLimiter({ permitLimit: 2, queueLimit: 1 });
        await limiter.acquire();
        limiter.pause(60_000);
      }
      console.log(process.getActiveResourcesInfo().filter((name) => name === "Timeout").length);
    `);
    expect([status, stdout]).toEqual([0, "0\n"]);
  });
});

describe("an engine without Symbol.dispose", () => {
  it("loads the library, and dispose() works", () => {
    const context = vm.createContext({ performance, setTimeout, clearTimeout });
    expect(vm.runInContext("typeof Symbol.dispose", context)).toBe("undefined");
    const result = vm.runInContext(
      `${code};
      const limiter = new headgate.ConcurrencyLimiter({ permitLimit: 1 });
      const lease = limiter.attemptAcquire();
      const refused = limiter.attemptAcquire().isAcquired;
      lease.dispose();
      [refused, limiter.attemptAcquire().isAcquired].join()`,
      context,
    );
    expect(result).toBe("false,true");
  });
});

describe("the built library", () => {
  it("holds no top-level await and no module of a host, so that require() and every runtime can load them", () => {
    expect(code).not.toMatch(/from ["']node:|require\(/);
    expect(() => new vm.Script(code)).not.toThrow();
  });
});
