import { expect, it } from "vitest";
// @ts-expect-error It is JavaScript, since it runs on hosts without a compiler too.
import { FINGERPRINT, fingerprint } from "../smoke/smoke.mjs";

it("simulates to the last bit what it does in Node, Bun, Deno and workerd", async () => {
  expect(await fingerprint()).toBe(FINGERPRINT);
});
