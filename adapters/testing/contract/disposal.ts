import { equal, errorWithCode, rejects, throws } from "./assertions.js";
import type { Fixture } from "./fixture.js";
import { answerOf, flush, watch } from "./promises.js";

const DISPOSED = errorWithCode("ERR_LIMITER_DISPOSED");

/** What dispose does to a limiter and to those who wait in it. */
export function describeDisposal(fixture: Fixture): void {
  const { subject } = fixture;
  const disposable = fixture.itIf(subject.canBeDisposed);

  fixture.itIf(fixture.queues && subject.ownsQueue)("refuses its waiters when it is disposed", async () => {
    const { limiter } = fixture.make(1, 3);
    limiter.attemptAcquire();
    const waiters = [0, 1, 1].map((n) => watch(limiter.acquire(n)));
    limiter.dispose();
    await flush();
    for (const { value } of waiters) {
      equal("isAcquired of a waiter of a disposed limiter", value.isAcquired, false);
      equal("its reason", value.reason, "limiter_disposed");
    }
  });

  disposable("fails every call after dispose, and bears leases and disposes that come later", async () => {
    const { limiter } = fixture.make();
    const lease = limiter.attemptAcquire();
    limiter.dispose();
    limiter.dispose();
    await answerOf("disposeAsync() after dispose", limiter.disposeAsync());
    lease.dispose();
    throws("attemptAcquire() after dispose", () => limiter.attemptAcquire(), DISPOSED);
    throws("attemptAcquire(0) after dispose", () => limiter.attemptAcquire(0), DISPOSED);
    await rejects("acquire() after dispose", () => limiter.acquire(), DISPOSED);
    if (subject.keepsStatistics !== false) {
      throws("getStatistics() after dispose", () => limiter.getStatistics(), DISPOSED);
    }
  });

  disposable("is disposed by await using, before the promise of disposeAsync is awaited", async () => {
    const { limiter } = fixture.make();
    const disposed = limiter[Symbol.asyncDispose]();
    throws("attemptAcquire() after disposeAsync", () => limiter.attemptAcquire(), DISPOSED);
    await answerOf("disposeAsync()", disposed);
  });
}
