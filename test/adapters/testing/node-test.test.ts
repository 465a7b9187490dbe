import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const file = fileURLToPath(new URL("./contract-node-test.mjs", import.meta.url));

/** Runs the suite under node:test, with the built library (`npm run build`). */
function run(env: NodeJS.ProcessEnv = {}): { readonly status: number | null; readonly stdout: string } {
  return spawnSync(process.execPath, ["--test", "--test-reporter=tap", file], {
    encoding: "utf8",
    timeout: 60_000,
    env: { ...process.env, ...env, NODE_TEST_CONTEXT: undefined },
  });
}

describe("describeRateLimiterContract under node:test", () => {
  it("passes for limiters that keep the contract", () => {
    const { status, stdout } = run();
    expect(stdout).toMatch(/^ *# Subtest: contract: ConcurrencyLimiter$/m);
    expect(stdout).toMatch(/^ *ok \d+ - serves waiters oldest first, and lets no attempt pass them$/m);
    expect(stdout).toMatch(/^# fail 0$/m);
    expect(Number(/^# pass (\d+)$/m.exec(stdout)?.[1])).toBeGreaterThan(50);
    expect(status).toBe(0);
  }, 60_000);

  it("fails for a limiter that forgets to give back, and says what is wrong", () => {
    const { status, stdout } = run({ BROKEN: "1" });
    expect(stdout).toMatch(/^ *not ok \d+ - grants again when permits have come back$/m);
    expect(stdout).toContain(
      "isAcquired of an attempt after the permits have come back: expected true, got false.",
    );
    expect(stdout).toMatch(/^ *ok \d+ - grants what is free, by attempt and by acquire$/m);
    expect(status).toBe(1);
  }, 60_000);
});
