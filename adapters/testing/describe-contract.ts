import { checkFunction, checkOptionNames, wrongType } from "../../src/internal.js";
import { describeArguments } from "./contract/arguments.js";
import { describeDisposal } from "./contract/disposal.js";
import { Fixture } from "./contract/fixture.js";
import { describeGrants } from "./contract/grants.js";
import { describeQueueing } from "./contract/queueing.js";
import type { ContractSubject, TestFramework } from "./contract/subject.js";

const SUBJECT_NAMES = [
  "name",
  "create",
  "bringBack",
  "isLimited",
  "queues",
  "ordersQueue",
  "ownsQueue",
  "canBeDisposed",
  "keepsStatistics",
  "canBeIdle",
];

/**
 * Declares the tests that every limiter passes, whatever its algorithm: the contract of `RateLimiter`, for limiters of
 * your own. The library's own limiters run the same suite.
 *
 * Each test makes a limiter of its own, with a `ManualClock`, and takes no time. The suite asserts by itself, so any
 * framework will do whose `describe` and `it` are like those of vitest, jest or `node:test`. A test that fails says what
 * was looked at, what was expected and what came.
 *
 * @example
 * ```ts
 * import { describe, it } from "node:test";
 * import { ConcurrencyLimiter } from "headgate";
 * import { describeRateLimiterContract } from "headgate/testing";
 *
 * class MyLimiter extends ConcurrencyLimiter {}
 *
 * describeRateLimiterContract(
 *   {
 *     name: "MyLimiter",
 *     create: (options) => new MyLimiter(options),
 *     bringBack: (leases) => {
 *       for (const lease of leases) lease.dispose();
 *     },
 *   },
 *   { describe, it },
 * );
 * ```
 *
 * @param subject - How to make such a limiter, and what of the contract does not apply to it.
 * @param framework - Where to declare the tests: an object with `describe` and `it`.
 * @throws TypeError when an argument is not what it should be.
 *
 * @public
 */
export function describeRateLimiterContract(subject: ContractSubject, framework: TestFramework): void {
  checkOptionNames(subject, SUBJECT_NAMES, "subject");
  if (typeof subject.name !== "string") throw wrongType("subject.name", "a string", subject.name);
  checkFunction("subject.create", subject.create);
  checkFunction("subject.bringBack", subject.bringBack);
  const { describe, it } = framework;
  checkFunction("framework.describe", describe);
  checkFunction("framework.it", it);
  describe(`contract: ${subject.name}`, () => {
    const fixture = new Fixture(subject, it);
    describeGrants(fixture);
    describeArguments(fixture);
    describeQueueing(fixture);
    describeDisposal(fixture);
  });
}
