import { AsyncLocalStorage } from "node:async_hooks";
import { afterEach, describe, expect, it, vi } from "vitest";
import { captureContext } from "../../src/queue/async-context.js";

describe("captureContext", () => {
  afterEach(() => {
    vi.unstubAllGlobals();
  });

  it("runs what it is given in the context in which it was called (C-17)", () => {
    const storage = new AsyncLocalStorage<string>();
    const run = storage.run("caller", captureContext);
    let seen: string | undefined;
    storage.run("releaser", () =>
      run(() => {
        seen = storage.getStore();
      }),
    );
    expect(seen).toBe("caller");
  });

  it("uses AsyncContext where the host has it", () => {
    const log: string[] = [];
    class Snapshot {
      run(action: () => void): void {
        log.push("snapshot");
        action();
      }
    }
    vi.stubGlobal("AsyncContext", { Snapshot });
    captureContext()(() => log.push("action"));
    expect(log).toEqual(["snapshot", "action"]);
  });

  it("just calls where the host has neither, as a browser", () => {
    vi.stubGlobal("process", undefined);
    let calls = 0;
    captureContext()(() => {
      calls += 1;
    });
    expect(calls).toBe(1);
  });
});
