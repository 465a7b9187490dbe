import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const { exports: entries, peerDependenciesMeta } = JSON.parse(readFileSync("package.json", "utf8")) as {
  exports: Record<string, unknown>;
  peerDependenciesMeta: Record<string, { optional: boolean }>;
};

/** Imports an entry point of the build in a process where optional peers cannot be found; its output. */
function importWithoutPeers(specifier: string): string {
  const hook = `export async function resolve(specifier, context, next) {
    if (/^(rxjs|@opentelemetry)(\\/|$)/.test(specifier)) throw new Error("not installed: " + specifier);
    return next(specifier, context);
  }`;
  const program = `
    import { register } from "node:module";
    register("data:text/javascript," + encodeURIComponent(${JSON.stringify(hook)}));
    const told = await import(${JSON.stringify(specifier)}).then((module) => Object.keys(module).length > 0, String);
    console.log(told);`;
  return execFileSync(process.execPath, ["--input-type=module", "--eval", program], {
    encoding: "utf8",
  }).trim();
}

describe("optional peers", () => {
  it("are marked as optional", () => {
    expect(peerDependenciesMeta).toMatchObject({
      rxjs: { optional: true },
      "@opentelemetry/api": { optional: true },
    });
  });

  const names = Object.keys(entries).filter((name) => name !== "./package.json");
  it.each(names)("%s loads none but its own", (name) => {
    const own = { "./rxjs": "rxjs", "./opentelemetry": "@opentelemetry/api" }[name];
    const told = importWithoutPeers(`headgate${name.slice(1)}`);
    expect(told).toBe(own === undefined ? "true" : `Error: not installed: ${own}`);
  });
});
