import type { RejectionReason } from "headgate";
import { equal, errorWithCode, throws } from "./assertions.js";
import type { Fixture } from "./fixture.js";
import { answerOf, watch } from "./promises.js";

/** Checks the reason of a refusal when nothing is free: of the limiter, or of the part of it that the caller has. */
function expectNoneFree(reason: RejectionReason | undefined): void {
  const isExpected = reason === "limit_reached" || reason === "share_exceeded";
  if (!isExpected) equal("its reason", reason, "limit_reached");
}

/** Grants, refusals and leases of a limiter that nobody waits for. */
export function describeGrants(fixture: Fixture): void {
  const { it, subject, queues } = fixture;
  const limited = fixture.itIf(subject.isLimited);

  it("grants what is free, by attempt and by acquire", async () => {
    const { limiter } = fixture.make();
    equal("isAcquired of an attempt", limiter.attemptAcquire().isAcquired, true);
    equal("isAcquired of an acquire", (await answerOf("acquire(1)", limiter.acquire(1))).isAcquired, true);
  });

  it("accepts options in the place of the count", async () => {
    const { limiter } = fixture.make();
    const { signal } = new AbortController();
    const first = await answerOf("acquire(options)", limiter.acquire({ signal }));
    equal("isAcquired of acquire(options)", first.isAcquired, true);
    const second = await answerOf("acquire(undefined, options)", limiter.acquire(undefined, { signal }));
    equal("isAcquired of acquire(undefined, options)", second.isAcquired, true);
  });

  it("keeps isAcquired when a lease is disposed, and bears a second dispose", () => {
    const { limiter } = fixture.make();
    const lease = limiter.attemptAcquire();
    lease.dispose();
    const before = fixture.numbers(limiter);
    lease.dispose();
    lease[Symbol.dispose]();
    equal("isAcquired of a lease that was disposed", lease.isAcquired, true);
    fixture.expectNumbers("after a second and a third dispose of one lease", limiter, before);
  });

  limited("refuses an attempt when nothing is free, with a lease that holds nothing", () => {
    const { limiter } = fixture.make(2);
    limiter.attemptAcquire(2);
    const refused = limiter.attemptAcquire();
    equal("isAcquired of an attempt when nothing is free", refused.isAcquired, false);
    expectNoneFree(refused.reason);
    throws("its orThrow", () => refused.orThrow(), errorWithCode("ERR_RATE_LIMIT_REJECTED"));
    refused.dispose();
    refused.dispose();
    fixture.expectNumbers("after a refused lease was disposed", limiter, [0, 0, 1, 1]);
  });

  limited("grants again when permits have come back", () => {
    const { limiter, clock } = fixture.make(2);
    subject.bringBack([limiter.attemptAcquire(2)], limiter, clock);
    const again = limiter.attemptAcquire(2);
    equal("isAcquired of an attempt after the permits have come back", again.isAcquired, true);
  });

  limited("probes with a count of 0, taking nothing", async () => {
    const { limiter } = fixture.make(1);
    equal("isAcquired of attemptAcquire(0)", limiter.attemptAcquire(0).isAcquired, true);
    equal("isAcquired of acquire(0)", (await answerOf("acquire(0)", limiter.acquire(0))).isAcquired, true);
    limiter.attemptAcquire(1);
    const probe = limiter.attemptAcquire(0);
    equal("isAcquired of attemptAcquire(0) when nothing is free", probe.isAcquired, false);
    fixture.expectNumbers("after three probes and an attempt", limiter, [0, 0, 1, 3]);
  });

  limited("refuses an acquire at once when the queue has no room", async () => {
    const { limiter } = fixture.make(1, queues ? 1 : 0);
    limiter.attemptAcquire();
    if (queues) watch(limiter.acquire());
    const lease = await answerOf("acquire when the queue has no room", limiter.acquire());
    equal("isAcquired of an acquire when the queue has no room", lease.isAcquired, false);
    if (queues) equal("its reason", lease.reason, "queue_full");
    else expectNoneFree(lease.reason);
  });

  fixture.itIf(subject.keepsStatistics)("gives statistics that stay as they were", () => {
    const { limiter } = fixture.make();
    const seen = limiter.getStatistics();
    const before = { ...seen };
    limiter.attemptAcquire();
    equal("whether a second look gives the same object", limiter.getStatistics() === seen, false);
    const after = { ...seen };
    equal("the names in statistics after a grant", Object.keys(after), Object.keys(before));
    equal("statistics from before a grant, after it", Object.values(after), Object.values(before));
    equal("granted requests after a grant", fixture.numbers(limiter)?.[3], 1);
  });

  fixture.itIf(subject.isLimited !== false && subject.canBeIdle)(
    "is idle from the start, not while permits are out, and again when they are back",
    () => {
      const { limiter, clock } = fixture.make(1);
      clock.advance(15);
      equal("idleDurationMs 15 ms after it was made", limiter.idleDurationMs, 15);
      const lease = limiter.attemptAcquire();
      equal("idleDurationMs while a permit is out", limiter.idleDurationMs, undefined);
      subject.bringBack([lease], limiter, clock);
      equal("whether it is idle when the permit is back", (limiter.idleDurationMs ?? -1) >= 0, true);
    },
  );
}
