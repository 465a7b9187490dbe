// Compiles every ```ts block of README.md, docs/**/*.md and the doc comments against the built public entry points.
// A block with "no-check" after `ts` is left alone. Needs a build.
import { compileSnippets, findSnippets } from "./snippets.mjs";

const snippets = findSnippets().filter(({ words }) => !words.includes("no-check"));
const { status } = compileSnippets(snippets, ".snippets", { noEmit: true });
const files = new Set(snippets.map(({ file }) => file));
console.log(`${snippets.length} snippets in ${files.size} files, exit ${status}`);
process.exitCode = status;
