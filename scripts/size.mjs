// Fails when an entry point, minified and gzipped with all that it pulls in but its peers, is over its limit.
import path from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { rolldown } from "rolldown";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));
const limits = [
  ["{ ConcurrencyLimiter }", "src/index.js", 10500],
  ["* as all", "src/index.js", 18000],
  ["{ AdaptiveConcurrencyLimiter }", "src/adaptive/index.js", 16400],
  ["* as all", "src/adaptive/index.js", 20000],
  ["* as all", "adapters/simulator/index.js", 22800],
  ["* as all", "adapters/fetch/index.js", 13400],
  ["* as all", "adapters/testing/index.js", 10200],
  // What they add to the limiters, which whoever uses them has anyway.
  ["{ Shield }", "adapters/shield/index.js", 7000, /^headgate|\/internal\.js$/],
  ["* as all", "adapters/shield/index.js", 9000, /^headgate|\/internal\.js$/],
  ["* as all", "adapters/cockatiel/index.js", 3000, /^headgate|\/internal\.js$/],
  ["* as all", "adapters/rxjs/index.js", 24000],
  ["* as all", "adapters/opentelemetry/index.js", 11800],
  ["* as all", "adapters/http/index.js", 30000],
  ["* as all", "adapters/http/node/index.js", 30000],
];
for (const [what, file, limit, external = /^headgate$/] of limits) {
  const bundle = await rolldown({
    input: "entry",
    external: [/^rxjs/, /^@opentelemetry/, /^node:/, external, /^ip-address$/, /^structured-headers$/],
    plugins: [
      {
        name: "entry",
        resolveId: (id) => (id === "entry" ? "\0entry" : undefined),
        load: (id) =>
          id === "\0entry" ? `export ${what} from ${JSON.stringify(path.join(dist, file))};` : undefined,
      },
    ],
  });
  const { output } = await bundle.generate({ format: "esm", minify: true });
  const bytes = gzipSync(output[0].code).length;
  if (bytes > limit) process.exitCode = 1;
  console.log(`${bytes > limit ? "FAIL" : "ok  "} ${file} ${what}: ${bytes} of ${limit} B`);
}
