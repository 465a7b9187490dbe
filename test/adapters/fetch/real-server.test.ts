import { afterAll, beforeAll, describe, it } from "vitest";
import { startServer } from "./server.js";
import { behaviours } from "./suite.js";

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

describe("a wrapped fetch against a real server", () => {
  for (const [name, show] of behaviours) it(name, () => show(server.url));
});
