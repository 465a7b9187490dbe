import { fileURLToPath } from "node:url";
import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";

const here = (p: string): string => fileURLToPath(new URL(p, import.meta.url));
const alias = [
  { find: /^headgate$/, replacement: here("src/index.ts") },
  { find: /^headgate\/adaptive$/, replacement: here("src/adaptive/index.ts") },
  { find: /^headgate\/(.+)$/, replacement: here("adapters/$1/index.ts") },
];

export default defineConfig({
  resolve: { alias },
  test: {
    // A hang, not a busy machine, is what this should catch.
    testTimeout: 60_000,
    reporters: ["default", "./test/setup/closing-line.ts"],
    coverage: {
      provider: "v8",
      include: ["src/**/*.ts", "adapters/**/*.ts"],
      reporter: ["text-summary", "json-summary", "lcov"],
      reportsDirectory: "coverage",
      thresholds: { lines: 98, functions: 98, branches: 98, statements: 98 },
    },
    projects: [
      {
        extends: true,
        test: {
          name: "node",
          environment: "node",
          include: ["test/**/*.test.ts"],
          exclude: ["test/browser/**", "test/types/**"],
          restoreMocks: true,
          unstubGlobals: true,
        },
      },
      {
        // The oldest RxJS that the operators are for; all other projects have the newest.
        extends: true,
        resolve: { alias: [{ find: /^rxjs(\/.+)?$/, replacement: "rxjs-7.8.0$1" }] },
        test: {
          name: "rxjs-7.8.0",
          environment: "node",
          include: ["test/adapters/rxjs/**/*.test.ts"],
          env: { RXJS: "7.8.0" },
        },
      },
      {
        extends: true,
        test: {
          name: "types",
          include: [],
          typecheck: {
            enabled: true,
            only: true,
            checker: "node_modules/@typescript/native/bin/tsc",
            include: ["test/types/**/*.test-d.ts"],
            tsconfig: "test/tsconfig.json",
          },
        },
      },
      {
        extends: true,
        test: {
          name: "browser",
          include: ["test/browser/**/*.test.ts"],
          globalSetup: ["test/setup/fetch-server.ts"],
          browser: {
            enabled: true,
            headless: true,
            screenshotFailures: false,
            provider: playwright({
              launchOptions: {
                executablePath: process.env["CHROMIUM_PATH"] ?? "/usr/bin/chromium",
                args: [
                  "--no-sandbox",
                  "--disable-gpu",
                  "--disable-quic",
                  "--no-first-run",
                  "--disable-background-networking",
                  "--disable-component-update",
                  "--disable-sync",
                ],
              },
            }),
            instances: [{ browser: "chromium" }],
          },
        },
      },
    ],
  },
});
