import type { TestProject } from "vitest/node";
import { startServer } from "../adapters/fetch/server.js";

declare module "vitest" {
  export interface ProvidedContext {
    fetchServer: string;
  }
}

/** A server for the tests in the browser, which cannot start one. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer();
  project.provide("fetchServer", server.url);
  return () => server.close();
}
