import { describe, inject, it } from "vitest";
import { behaviours } from "../adapters/fetch/suite.js";

const server = inject("fetchServer");

describe("a wrapped fetch of a browser against a real server", () => {
  for (const [name, show] of behaviours) it(name, () => show(server));
});
