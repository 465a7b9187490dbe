// Compiles every ```ts block of README.md, docs/**/*.md and the doc comments against the built public entry points.
// A block whose info string has "no-check" is left alone.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const out = path.join(root, "dist/.snippets");
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const under = (dir) => readdirSync(path.join(root, dir), { recursive: true }).map((f) => path.join(dir, f));
const files = [
  "README.md",
  ...under("docs").filter((f) => f.endsWith(".md")),
  ...["src", "adapters"].flatMap(under).filter((f) => f.endsWith(".ts")),
];
const where = new Map();
for (const file of files) {
  const isCode = file.endsWith(".ts");
  const lines = readFileSync(path.join(root, file), "utf8")
    .split("\n")
    .map((line) => (isCode ? line.replace(/^\s*\* ?/, "") : line));
  for (let i = 0; i < lines.length; i++) {
    const open = /^```(ts|typescript)\b(.*)$/.exec(lines[i]);
    if (!open) continue;
    const start = i + 1;
    while (++i < lines.length && lines[i] !== "```");
    if (open[2].includes("no-check")) continue;
    const name = `${file.replaceAll(/[^\w]+/g, "_")}_${start + 1}.ts`;
    writeFileSync(path.join(out, name), `${lines.slice(start, i).join("\n")}\nexport {};\n`);
    where.set(name, { file, line: start });
  }
}
writeFileSync(
  path.join(out, "tsconfig.json"),
  JSON.stringify({
    extends: "../../tsconfig.base.json",
    compilerOptions: {
      composite: false,
      noEmit: true,
      declaration: false,
      declarationMap: false,
      isolatedDeclarations: false,
      noUnusedLocals: false,
      noUnusedParameters: false,
      rootDir: "../..",
    },
    include: ["*.ts"],
  }),
);
const tsc = path.join(root, "node_modules/@typescript/native/bin/tsc");
const run = spawnSync(process.execPath, [tsc, "-p", out, "--pretty", "false"], {
  encoding: "utf8",
  cwd: out,
});
process.stdout.write(
  run.stdout.replaceAll(/^(\S+?\.ts)\((\d+),/gm, (all, f, l) => {
    const w = where.get(path.basename(f));
    return w ? `${w.file}(${w.line + Number(l)},` : all;
  }),
);
console.log(
  `${where.size} snippets in ${new Set([...where.values()].map((w) => w.file)).size} files, exit ${run.status}`,
);
process.exitCode = run.status ?? 1;
