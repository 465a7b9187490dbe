import { ConcurrencyLimiter } from "headgate";
import { describe, expect, it } from "vitest";
import { flush, watch } from "../support.js";

describe("ConcurrencyLimiter", () => {
  it("hands permits over at dispose", async () => {
    const limiter = new ConcurrencyLimiter({ permitLimit: 1, queueLimit: 2 });
    using held = await limiter.acquire();
    const first = watch(limiter.acquire());
    await flush();
    expect(first.state).toBe("pending");
    held.dispose();
    expect(limiter.getStatistics().currentAvailablePermits).toBe(0);
    await flush();
    expect(first.value.isAcquired).toBe(true);
  });
});
