// The ```ts blocks of README.md, docs/**/*.md and the doc comments: finds them, and compiles them against the built
// public entry points. Shared by check-snippets.mjs and run-snippets.mjs.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("..", import.meta.url));

const under = (dir) => readdirSync(path.join(root, dir), { recursive: true }).map((f) => path.join(dir, f));

/** Each block with its file, the line of its fence, the words after `ts`, and its text. */
export function findSnippets() {
  const files = [
    "README.md",
    ...under("docs").filter((f) => f.endsWith(".md")),
    ...["src", "adapters"].flatMap(under).filter((f) => f.endsWith(".ts")),
  ];
  const snippets = [];
  for (const file of files) {
    const isCode = file.endsWith(".ts");
    const lines = readFileSync(path.join(root, file), "utf8")
      .split("\n")
      .map((line) => (isCode ? line.replace(/^\s*\* ?/, "") : line));
    for (let i = 0; i < lines.length; i++) {
      const open = /^```(?:ts|typescript)\b(.*)$/.exec(lines[i]);
      if (!open) continue;
      const start = i + 1;
      while (++i < lines.length && lines[i] !== "```");
      const words = open[1].split(/\s+/).filter(Boolean);
      const name = `${file.replaceAll(/[^\w]+/g, "_")}_${start + 1}`;
      snippets.push({ name, file, line: start, words, text: lines.slice(start, i).join("\n") });
    }
  }
  return snippets;
}

/** Compiles snippets in a folder under dist, which is emptied first; tells of errors by their place in the docs. */
export function compileSnippets(snippets, folder, compilerOptions) {
  const out = path.join(root, "dist", folder);
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  for (const { name, text } of snippets) writeFileSync(path.join(out, `${name}.ts`), `${text}\nexport {};\n`);
  const config = {
    extends: "../../tsconfig.base.json",
    compilerOptions: {
      composite: false,
      declaration: false,
      declarationMap: false,
      isolatedDeclarations: false,
      noUnusedLocals: false,
      noUnusedParameters: false,
      rootDir: "../..",
      ...compilerOptions,
    },
    include: ["*.ts"],
  };
  writeFileSync(path.join(out, "tsconfig.json"), JSON.stringify(config));
  const tsc = path.join(root, "node_modules/@typescript/native/bin/tsc");
  const run = spawnSync(process.execPath, [tsc, "-p", out, "--pretty", "false"], {
    encoding: "utf8",
    cwd: out,
  });
  process.stdout.write(inDocs(run.stdout, snippets));
  process.stderr.write(run.stderr);
  return { out, status: run.status ?? 1 };
}

/** Puts the place in the docs where a text names a place in a compiled snippet. */
export function inDocs(text, snippets) {
  return text.replaceAll(/[^\s()]*?(\w+)\.ts([(:])(\d+)/g, (all, name, mark, line) => {
    const snippet = snippets.find((one) => one.name === name);
    return snippet === undefined ? all : `${snippet.file}${mark}${snippet.line + Number(line)}`;
  });
}
