import type { RateLimitLease } from "headgate";
import { equal } from "./assertions.js";
import { CountedController } from "./counted-signal.js";
import type { Fixture } from "./fixture.js";
import { flush, type Watched, watch } from "./promises.js";

type Waiters = readonly Watched<RateLimitLease>[];
const states = (waiters: Waiters) => waiters.map((waiter) => waiter.state);

/** What happens to those who wait. */
export function describeQueueing(fixture: Fixture): void {
  const { subject } = fixture;
  const queued = fixture.itIf(fixture.queues);

  queued("serves waiters oldest first, and lets no attempt pass them", async () => {
    const { limiter, clock } = fixture.make(2, 4);
    const held = limiter.attemptAcquire(2);
    const first = watch(limiter.acquire(2));
    const second = watch(limiter.acquire(2));
    subject.bringBack([held], limiter, clock);
    equal("isAcquired of an attempt while somebody waits", limiter.attemptAcquire().isAcquired, false);
    await flush();
    equal("two waiters after the permits came back", states([first, second]), ["fulfilled", "pending"]);
    subject.bringBack([first.value], limiter, clock);
    await flush();
    equal("isAcquired of the second waiter", second.value.isAcquired, true);
  });

  fixture.itIf(fixture.queues && subject.ordersQueue)(
    "serves waiters newest first, and drops the oldest from a full queue",
    async () => {
      const { limiter, clock } = fixture.make(2, 4, "newestFirst");
      const held = limiter.attemptAcquire(2);
      const waiters = [limiter.acquire(2), limiter.acquire(2), limiter.acquire(2)].map(watch);
      await flush();
      const dropped = ["fulfilled", "pending", "pending"];
      equal("three waiters in a queue that has room for two", states(waiters), dropped);
      equal("the reason of the oldest", waiters[0]?.value.reason, "queue_evicted");
      subject.bringBack([held], limiter, clock);
      await flush();
      const served = ["fulfilled", "pending", "fulfilled"];
      equal("the waiters after the permits came back", states(waiters), served);
    },
  );

  queued("takes an aborted waiter out at once, with its listener", async () => {
    const { limiter, clock } = fixture.make(1, 1);
    const held = limiter.attemptAcquire();
    const controller = new CountedController();
    const waiting = watch(limiter.acquire(1, { signal: controller.signal }));
    const reason = new Error("the caller left");
    controller.abort(reason);
    fixture.expectNumbers("right after the only waiter was aborted", limiter, [0, 0, 0, 1]);
    equal("listeners of the signal after that", controller.listeners, 0);
    const next = watch(limiter.acquire());
    await flush();
    equal("what the aborted acquire rejects with", waiting.reason, reason);
    subject.bringBack([held], limiter, clock);
    await flush();
    equal("isAcquired of who waited next", next.value.isAcquired, true);
  });

  queued("leaves no listener behind when a waiter is served", async () => {
    const { limiter, clock } = fixture.make(2, 2);
    const controller = new CountedController();
    const held = limiter.attemptAcquire(2);
    const waiters = [1, 1].map((n) => watch(limiter.acquire(n, { signal: controller.signal })));
    equal("whether the signal of two waiters is listened to", controller.listeners > 0, true);
    subject.bringBack([held], limiter, clock);
    await flush();
    equal("the waiters after the permits came back", states(waiters), ["fulfilled", "fulfilled"]);
    equal("listeners of their signal after that", controller.listeners, 0);
  });

  queued("does nothing to a lease when the signal is aborted after the grant", async () => {
    const { limiter, clock } = fixture.make(1, 1);
    const controller = new AbortController();
    const held = limiter.attemptAcquire();
    const waiting = watch(limiter.acquire(1, { signal: controller.signal }));
    subject.bringBack([held], limiter, clock);
    controller.abort();
    await flush();
    equal("isAcquired of a waiter that was served before the abort", waiting.value.isAcquired, true);
  });
}
