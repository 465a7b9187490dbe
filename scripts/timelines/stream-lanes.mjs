import { PartitionedRateLimiter, RateLimitPartition } from "headgate";
import { limitConcurrencyBy } from "headgate/rxjs";
import { marbles } from "../marbles.mjs";

/** Tenant L has the values a and b, tenant R has z; one piece of work for each tenant at a time. */
export default function scenario() {
  return marbles(({ clock, cold, work }) => {
    const limited = (options) => {
      const perTenant = PartitionedRateLimiter.create((tenant) =>
        RateLimitPartition.getConcurrencyLimiter(tenant, () => ({ permitLimit: 1, queueLimit: 1, clock })),
      );
      const tenantOf = (value) => (value === "z" ? "R" : "L");
      return cold("abz|").pipe(limitConcurrencyBy(perTenant, tenantOf, work("-----(x|)"), options));
    };
    return [
      ["source", "abz|"],
      ["work for each value", "-----(x|)"],
      ["a lane for each tenant", limited({})],
      ["lane: false", limited({ lane: false })],
    ];
  });
}
