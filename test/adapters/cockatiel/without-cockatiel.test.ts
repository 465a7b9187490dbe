import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("../../..", import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), "headgate-without-cockatiel-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the adapter for cockatiel, where there is none", () => {
  it("imports nothing but this library, and neither does the shield", () => {
    for (const name of ["cockatiel", "shield"]) {
      const dir = path.join(root, "adapters", name);
      for (const file of readdirSync(dir)) {
        // The examples in comments may import it.
        const code = readFileSync(path.join(dir, file), "utf8").replaceAll(/\/\*[\s\S]*?\*\//g, "");
        const imported = [...code.matchAll(/(?:from|import)\s*\(?\s*"([^"]+)"/g)].map(
          (found) => found[1] ?? "",
        );
        expect(imported.filter((one) => !/^(headgate(\/\w+)?|\.\.?\/.*)$/.test(one))).toEqual([]);
      }
    }
  });

  it("compiles, with code that uses it, in a folder that has no packages at all", () => {
    for (const part of ["src", "adapters/shield", "adapters/cockatiel"]) {
      cpSync(path.join(root, part), path.join(folder, part), { recursive: true });
    }
    writeFileSync(
      path.join(folder, "use.ts"),
      `import { ConcurrencyLimiter } from "headgate";
       import { limiterPolicy, retryAfterBackoff, shieldPolicy } from "headgate/cockatiel";
       import { Shield } from "headgate/shield";
       export const policies = [limiterPolicy(new ConcurrencyLimiter({ permitLimit: 1 })), shieldPolicy(Shield.empty)];
       export const wait: number = retryAfterBackoff().next({
         attempt: 1,
         signal: new AbortController().signal,
         result: { error: 1 },
       }).duration;`,
    );
    const config = {
      compilerOptions: {
        target: "ES2022",
        module: "NodeNext",
        lib: ["ES2022", "ESNext.Disposable", "DOM"],
        types: [],
        strict: true,
        exactOptionalPropertyTypes: true,
        noEmit: true,
        paths: {
          headgate: ["./src/index.ts"],
          "headgate/adaptive": ["./src/adaptive/index.ts"],
          "headgate/*": ["./adapters/*/index.ts"],
        },
      },
      files: ["use.ts"],
    };
    writeFileSync(path.join(folder, "tsconfig.json"), JSON.stringify(config));
    writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }');
    const tsc = path.join(root, "node_modules/@typescript/native/bin/tsc");
    const { stdout, status } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
    expect([stdout, status]).toEqual(["", 0]);
  });
});
