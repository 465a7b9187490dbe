import { type ContractSubject, describeRateLimiterContract as describeContract } from "headgate/testing";
import { describe, it } from "vitest";

export type { ContractSubject };

/** The shipped suite, run by vitest. */
export function describeRateLimiterContract(subject: ContractSubject): void {
  describeContract(subject, { describe, it });
}
