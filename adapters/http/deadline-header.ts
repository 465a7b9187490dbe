import { checkChoice, wrongType } from "../../src/internal.js";
import type { AdmissionRequest } from "./admission-request.js";

const UNITS_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 0.001,
  n: 0.000_001,
};

/**
 * Reads from a header how much time the caller of a service has left, for the option `deadline`.
 *
 * What a client says can only make its own request be given up earlier. Anything but 1 to 10 digits (for `grpc`, 1 to 8 and a
 * unit, as in gRPC's `grpc-timeout`) is ignored.
 *
 * @example
 * ```ts
 * import { ConcurrencyLimiter } from "headgate";
 * import { createAdmission, deadlineFromHeader } from "headgate/http";
 *
 * const admission = createAdmission({
 *   deadline: deadlineFromHeader("x-deadline-ms"),
 *   policies: [{ name: "all", kind: "concurrency", limiter: new ConcurrencyLimiter({ permitLimit: 50, queueLimit: 200 }) }],
 * });
 * ```
 *
 * @param name - The name of the header.
 * @param unit - What its number counts: milliseconds, seconds, or what gRPC writes.
 * @returns A function that gives milliseconds; undefined when the header does not tell.
 * @throws TypeError when an argument is not what it should be.
 *
 * @public
 */
export function deadlineFromHeader(
  name: string,
  unit: "ms" | "s" | "grpc" = "ms",
): (request: AdmissionRequest) => number | undefined {
  if (typeof name !== "string" || name === "") throw wrongType("name", "the name of a header", name);
  checkChoice("unit", unit, ["ms", "s", "grpc"]);
  if (unit === "grpc") {
    return (request) => {
      const match = /^(\d{1,8})([HMSmun])$/.exec(request.header(name) ?? "");
      return match === null ? undefined : Number(match[1]) * (UNITS_MS[match[2] as string] as number);
    };
  }
  return (request) => {
    const text = request.header(name) ?? "";
    return /^\d{1,10}$/.test(text) ? Number(text) * (unit === "s" ? 1000 : 1) : undefined;
  };
}
